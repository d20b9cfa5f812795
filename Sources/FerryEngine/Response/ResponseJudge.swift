import FerryCore

/// What to do about an answer, decided at its head. Pure.
struct ResponseJudge: Sendable {
    enum Judgement: Sendable {
        case accept
        case follow(Hop)
        case resend
        /// Goes on from the bytes that are there; the length of the whole file.
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
    /// Whether libcurl will decode the body: its length is not the one in the head then.
    let isDecoded: Bool
    /// Whether libcurl can answer NTLM.
    var hasNTLM = false

    /// `expected`: whether the request carried `Expect: 100-continue`. `resumption`: what it asked to go on
    /// from.
    func judge(
        _ head: ResponseHead, _ hop: Hop, expected: Bool, resumption: Resumption?, now: Timestamp
    ) -> Judgement {
        if Self.redirects.contains(head.status), followsRedirects {
            let locations = head.all("location")
            if locations.contains(where: { !$0.isEmpty }) {
                return asking(redirect(head.status, to: locations, hop), head.status, now)
            }
        }
        if spec.asksOnChallenge, let question = question(head, hop, now) { return .ask(question) }
        if head.status == 417, expected { return .resend }
        if let resumption, head.status == 206 || head.status == 416 {
            return resume(resumption, head, hop, now)
        }
        if head.status == 206, spec.kind == .download, !asksForRange {
            return .refuse(
                TransferError(
                    .responseInvalid, "The server answered with a part although the whole was asked for.",
                    phase: .waiting, isRetryable: true), retryAfter: nil)
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

    /// Whether a body of that length is none that the job can take.
    private func refusal(ofLength length: Int64, _ hop: Hop) -> Judgement? {
        if length > spec.accept.byteCountMax ?? .max { return tooLarge }
        guard spec.kind != .upload, let size = spec.integrity.size, size != length else { return nil }
        return .refuse(
            TransferError(
                .sizeMismatch, "The size is \(length) bytes instead of \(size).", phase: .waiting,
                isRetryable: !hop.hasActed && RequestBuilder.isRepeatable(spec, method: hop.method)),
            retryAfter: nil)
    }

    private var asksForRange: Bool {
        spec.request.headers.contains { equalIgnoringCase($0.name, "range") }
    }

    /// What was accepted when the first byte came need not be accepted now: another job may go on, and a job
    /// may have been changed.
    private func resume(
        _ resumption: Resumption, _ head: ResponseHead, _ hop: Hop, _ now: Timestamp
    ) -> Judgement {
        let isRenewed = spec.request.original != nil
        guard let total = resumption.total(continuedBy: head, from: hop.url, isRenewed: isRenewed) else {
            return .restart
        }
        // The file's; that a part of it comes is our doing.
        var whole = head
        whole.status = 200
        let type = head.mimeType ?? resumption.record.mimeType
        if let refusal = refusal(ofStatus: whole, hop, now) { return refusal }
        if let refusal = refusal(ofType: type) {
            // Nobody has said: the answer with the whole file will.
            return type == nil ? .restart : refusal
        }
        return refusal(ofLength: total, hop) ?? .resume(total: total)
    }

    private var tooLarge: Judgement {
        .refuse(
            TransferError(
                .responseTooLarge, "The body is longer than the job accepts.", phase: .waiting,
                isRetryable: false),
            retryAfter: nil)
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
        // 425 and 429 say that nothing was done (RFC 8470 §5.2, RFC 6585 §4); of the others nobody knows.
        let isRetryable =
            spec.retry.repeatsNonIdempotent && Self.passing.contains(status)
            || !hop.hasActed
                && ([425, 429].contains(status)
                    || Self.passing.contains(status) && RequestBuilder.isRepeatable(spec, method: hop.method))
        return .refuse(
            TransferError(
                .unacceptableStatus, "The server answered with status \(status).", phase: .waiting,
                isRetryable: isRetryable), retryAfter: isRetryable ? head.retryAfter(now: now) : nil)
    }

    /// Statuses of a trouble that may pass; 520 to 524 are what large proxies say about their origin.
    private static let passing: Set<Int> = [408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524]

    private func redirect(_ status: Int, to locations: [String], _ hop: Hop) -> Judgement {
        guard hop.redirectCount < spec.redirects.countMax else {
            return .refuse(
                TransferError(
                    .tooManyRedirects, "The server redirected more than \(spec.redirects.countMax) times.",
                    phase: .waiting, isRetryable: false), retryAfter: nil)
        }
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
        if !spec.redirects.sendsCredentialsAcrossOrigins, !url.isSameOrigin(as: hop.url) {
            next.keepsCredentials = false
        }
        // RFC 9110 §15.4: 303 asks for GET; after 301 and 302 a POST becomes one, as everybody does it.
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

func blockedAddress(_ phase: TransferError.Phase) -> TransferError {
    TransferError(
        .blockedAddress, "The URL leads to an address that may not be reached.", phase: phase,
        isRetryable: false)
}
