import FerryCore

/// Decides at a response's head what becomes of it. A pure value.
struct ResponseJudge: Sendable {
    enum Judgement: Sendable {
        case accept
        case follow(Hop)
        case resend
        /// Continues the bytes of an earlier attempt. `total`: bytes of the whole file.
        case resume(total: Int64)
        case restart
        case refuse(TransferError, retryAfter: Double?)
        case ask(JobQuestion)

        var verdict: AttemptMachine.HeadVerdict {
            switch self {
            case .accept, .resume: .accept
            case .follow: .redirect
            case .resend: .resend
            case .restart: .restart
            case .refuse(let error, let retryAfter): .refuse(error, retryAfter: retryAfter)
            case .ask(let question): .ask(question)
            }
        }
    }

    let spec: JobSpec
    let egress: EgressPolicy
    /// Whether libcurl decodes the body: its length then differs from that in the head.
    let isDecoded: Bool
    /// Whether libcurl can answer NTLM.
    var hasNTLM = false

    /// `expected`: whether the request had `Expect: 100-continue`. `resumption`: the bytes that it asked to
    /// continue.
    func judge(
        _ head: ResponseHead, _ hop: Hop, expected: Bool, resumption: Resumption?, now: Timestamp
    ) -> Judgement {
        if Self.redirects.contains(head.status), followsRedirects {
            let locations = head.all("location")
            if locations.contains(where: { !$0.isEmpty }) {
                return asking(redirect(head.status, to: locations, hop), head.status, now)
            }
        }
        if let hop = hop.answering(head, for: spec) { return .follow(hop) }
        if spec.asksOnChallenge, let question = question(head, hop, now) { return .ask(question) }
        if head.status == 417, expected { return .resend }
        if let resumption, head.status == 206 || head.status == 416 {
            return resume(resumption, head, hop, now)
        }
        if head.status == 206, spec.kind == .download, !asksForRange {
            return .refuse(.partInsteadOfWhole, retryAfter: nil)
        }
        if let refusal = refusal(ofStatus: head, hop, now) ?? refusal(ofType: head.mimeType) {
            return refusal
        }
        if !isDecoded, head.hasBody(hop.method), let length = head.contentLength,
            let refusal = refusal(ofLength: length, hop)
        {
            return refusal
        }
        return .accept
    }

    private func refusal(ofStatus head: ResponseHead, _ hop: Hop, _ now: Timestamp) -> Judgement? {
        acceptsStatus(head.status) ? nil : refuseStatus(head, hop, now: now)
    }

    private func refusal(ofType type: String?) -> Judgement? {
        guard !acceptsType(type) else { return nil }
        return .refuse(
            TransferError(
                .unacceptableContentType, "The answer's content type is not one that the job accepts.",
                phase: .waiting, isRetryable: false), retryAfter: nil)
    }

    /// Returns the refusal of a body of that length; `nil` if the job accepts it.
    private func refusal(ofLength length: Int64, _ hop: Hop) -> Judgement? {
        if length > spec.accept.byteCountMax ?? .max {
            return .refuse(.longerThanAccepted(.waiting), retryAfter: nil)
        }
        guard spec.kind != .upload, let size = spec.integrity.size, size != length else { return nil }
        return .refuse(
            TransferError(
                .sizeMismatch, "The size is \(length) bytes instead of \(size).", phase: .waiting,
                isRetryable: RequestRepetition(spec, hop).maySendAllTwice),
            retryAfter: nil)
    }

    private var asksForRange: Bool {
        spec.request.headers.contains { equalIgnoringCase($0.name, "range") }
    }

    /// A response that was accepted for the first bytes may be refused now: another job may continue the
    /// bytes, and the job may have been changed.
    private func resume(
        _ resumption: Resumption, _ head: ResponseHead, _ hop: Hop, _ now: Timestamp
    ) -> Judgement {
        let isRenewed = spec.request.original != nil
        guard let total = resumption.total(continuedBy: head, from: hop.url, isRenewed: isRenewed) else {
            return .restart
        }
        // The file is judged as a whole. It comes in parts only because Ferry asked for a range.
        var whole = head
        whole.status = 200
        let type = head.mimeType ?? resumption.record.mimeType
        if let refusal = refusal(ofStatus: whole, hop, now) { return refusal }
        if let refusal = refusal(ofType: type) {
            // The type is unknown; the response with the whole file will have it.
            return type == nil ? .restart : refusal
        }
        return refusal(ofLength: total, hop) ?? .resume(total: total)
    }

    private static let redirects: Set<Int> = [301, 302, 303, 307, 308]

    private func acceptsStatus(_ status: Int) -> Bool {
        if spec.accept.status.isEmpty { return spec.kind == .data || (200..<300).contains(status) }
        return spec.accept.status.contains { pattern in
            pattern == "\(status)"
                || pattern.count == 3 && pattern.hasSuffix("xx") && pattern.hasPrefix("\(status / 100)")
        }
    }

    private func acceptsType(_ type: String?) -> Bool {
        spec.accept.contentTypes.isEmpty
            || spec.accept.contentTypes.contains { pattern in
                if pattern == "*/*" { return true }
                guard let type else { return false }
                let pattern = pattern.lowercased()
                return pattern == type
                    || pattern.hasSuffix("/*") && type.hasPrefix(pattern.dropLast())
            }
    }

    private func refuseStatus(_ head: ResponseHead, _ hop: Hop, now: Timestamp) -> Judgement {
        let status = head.status
        if status == 401 || status == 407 {
            let who = status == 407 ? "proxy" : "server"
            return .refuse(
                TransferError(
                    .authenticationRequired, "The \(who) asks for other credentials (status \(status)).",
                    phase: status == 407 ? .connecting : .waiting, isRetryable: false), retryAfter: nil)
        }
        let isRetryable = RequestRepetition(spec, hop).mayTryAgain(afterStatus: status)
        return .refuse(
            TransferError(
                .unacceptableStatus, "The server answered with status \(status).", phase: .waiting,
                isRetryable: isRetryable), retryAfter: isRetryable ? head.retryAfter(now: now) : nil)
    }

    private func redirect(_ status: Int, to locations: [String], _ hop: Hop) -> Judgement {
        guard hop.redirectCount < spec.redirects.countMax else {
            return .refuse(
                TransferError(
                    .tooManyRedirects, "The server redirected more than \(spec.redirects.countMax) times.",
                    phase: .waiting, isRetryable: false), retryAfter: nil)
        }
        // Whatever is wrong with the URL, the redirect is invalid.
        guard Set(locations).count == 1, let url = try? hop.url.resolving(locations[0]) else {
            return invalidRedirect(
                locations.count > 1
                    ? "The server redirected to several places at once."
                    : "The server redirected to something that is no http or https URL.")
        }
        guard egress.refusal(of: url) == nil else {
            return .refuse(blockedAddress(.waiting), retryAfter: nil)
        }
        guard url.scheme == .https || spec.request.connection?.tls == nil else {
            return .refuse(
                TransferError(
                    .redirectInvalid, "The server redirected away from https, and the job has TLS settings.",
                    phase: .waiting, isRetryable: false), retryAfter: nil)
        }
        var next = hop
        next.url = url
        next.redirectCount += 1
        next.digest = nil
        if !spec.redirects.sendsCredentialsAcrossOrigins, !url.isSameOrigin(as: hop.url) {
            next.keepsCredentials = false
        }
        // RFC 9110 §15.4: 303 leads to a GET; after 301 and 302 a POST becomes a GET, as all clients do it.
        let becomesGET = status == 303 && hop.method != "HEAD" || status < 303 && hop.method == "POST"
        if becomesGET, hop.method != "GET" {
            next.hasActed = hop.hasActed || !JobSpec.isIdempotent(hop.method)
            next.method = "GET"
            next.sendsBody = false
            next.hasDroppedBody = true
        }
        if next.sendsBody, hop.url.scheme == .https, url.scheme == .http {
            return invalidRedirect(
                "The server redirected a body from https to http, where all could read it.")
        }
        return .follow(next)
    }

    private func invalidRedirect(_ message: String) -> Judgement {
        .refuse(
            TransferError(.redirectInvalid, message, phase: .waiting, isRetryable: false), retryAfter: nil)
    }
}

extension TransferError {
    static func longerThanAccepted(_ phase: Phase) -> TransferError {
        TransferError(
            .responseTooLarge, "The body is longer than the job accepts.", phase: phase, isRetryable: false)
    }

    static let partInsteadOfWhole = TransferError(
        .responseInvalid, "The server answered with a part although the whole was asked for.",
        phase: .waiting, isRetryable: true)
}

func blockedAddress(_ phase: TransferError.Phase) -> TransferError {
    TransferError(
        .blockedAddress, "The URL leads to an address that may not be reached.", phase: phase,
        isRetryable: false)
}
