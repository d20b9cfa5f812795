import FerryCore

/// Carries out what `ResponseTable` decides about a head, as far as no I/O is needed: builds the next request
/// of a redirect and the question about a challenge. A pure value.
struct ResponseJudge: Sendable {
    enum Judgement: Sendable {
        case take(ResponseTable.Body)
        /// `after`: seconds before the request is sent.
        case follow(Hop, after: Double)
        /// The next attempt sends the request. `after`: seconds before it.
        case followLater(Hop, TransferError, after: Double)
        case again(ResponseTable.Change)
        /// Send the job's own request.
        case beginAgain
        case refuse(TransferError, retryAfter: Double?)
        case wait(TransferError, retryAfter: Double?)
        case ask(JobQuestion)
    }

    let spec: JobSpec
    let egress: EgressPolicy
    /// Whether the body is decoded.
    let isDecoded: Bool
    /// Whether libcurl can answer NTLM.
    var hasNTLM = false
    /// The request that answers the challenge of the response with a credential of the session, or `nil`.
    var answer: Hop?

    /// `known`: the file whose bytes the request asked to continue.
    func judge(
        _ head: ResponseHead, _ requested: ResponseTable.Requested, known: KnownFile?, now: Timestamp
    ) -> Judgement {
        let hop = requested.hop
        var requested = requested
        requested.answer = hop.answering(head, for: spec)
        if let answer { requested.answer = answer }
        if let corrected = hop.corrected(head, for: spec, now: now), (try? check(corrected.url)) != nil {
            requested.answer = corrected
        }
        if spec.asksOnChallenge { requested.question = question(head, hop, now) }
        switch ResponseTable(spec: spec, isDecoded: isDecoded).step(requested, head, known, now: now) {
        case .answer(let next): return .follow(next, after: 0)
        case .challenge(let question): return .ask(question)
        case .askForURL:
            return .ask(
                JobQuestion(
                    .urlExpired, about: .init(head), askedAt: now, timeout: spec.questions.timeout))
        case .redirect(let delay):
            return asking(redirect(head, hop, after: delay, now), head, now)
        case .redirectLater(let delay):
            let judgement = asking(redirect(head, hop, after: delay, now), head, now)
            // The result of an upload is about the bytes that this attempt has sent.
            guard case .follow(let next, _) = judgement, spec.kind != .upload || next.sendsBody else {
                return judgement
            }
            return .followLater(next, .delayedRedirect(head.status, seconds: delay), after: delay)
        case .again(let change): return .again(change)
        case .beginAgain: return .beginAgain
        case .take(let body): return .take(body)
        case .refuse(let error, let retryAfter):
            let isAboutHash = error.code == .authenticationRequired && hop.needsBodyHash(head, for: spec)
            return .refuse(isAboutHash ? .bodyHashNeeded : error, retryAfter: retryAfter)
        case .wait(let error, let retryAfter): return .wait(error, retryAfter: retryAfter)
        }
    }

    private func redirect(
        _ head: ResponseHead, _ hop: Hop, after delay: Double, _ now: Timestamp
    ) -> Judgement {
        let (status, locations) = (head.status, head.all("location"))
        guard hop.redirectCount < spec.redirects.countMax else {
            return .refuse(
                TransferError(
                    .tooManyRedirects, "The server redirected more than \(spec.redirects.countMax) times.",
                    phase: .waiting, isRetryable: false), retryAfter: nil)
        }
        guard Set(locations).count == 1 else {
            return invalidRedirect("The server redirected to several places at once.")
        }
        var next: Hop
        do throws(TransferError) {
            next = try self.next(at: locations[0], after: hop)
        } catch {
            return .refuse(error, retryAfter: nil)
        }
        next.redirectCount += 1
        keepCookies(of: head, after: hop, in: &next, now)
        // RFC 9110 §15.4: 303 leads to a GET; after 301 and 302 a POST becomes a GET, as all clients do it.
        let becomesGET = status == 303 && hop.method != "HEAD" || status < 303 && hop.method == "POST"
        if becomesGET, hop.method != "GET" {
            next.hasActed = hop.hasActed || !JobSpec.isIdempotent(hop.method)
            next.method = "GET"
            next.sendsBody = false
            next.hasDroppedBody = true
            next.upload = nil
        }
        if let error = downgrade(from: hop, to: next) { return .refuse(error, retryAfter: nil) }
        return .follow(next, after: delay)
    }

    /// Keeps the cookies of a response for the requests that follow it.
    private func keepCookies(of head: ResponseHead, after hop: Hop, in next: inout Hop, _ now: Timestamp) {
        guard spec.request.handlesCookies else { return }
        next.cookies.take(head, from: hop.url, now: now)
    }

    /// Returns the request to the address of an upload that the response names (`Location`). Throws what a
    /// redirect to that address would be refused with.
    func resource(named location: String, by head: ResponseHead, after hop: Hop, now: Timestamp)
        throws(TransferError) -> Hop
    {
        var next = try next(at: location, after: hop)
        // Later requests have a body, whatever this one has.
        next.sendsBody = true
        if let error = downgrade(from: hop, to: next) { throw error }
        next.redirectCount = 0
        keepCookies(of: head, after: hop, in: &next, now)
        return next
    }

    /// Returns the request to a place that a response names: with credentials and user information as far as
    /// the job's rules for redirects allow them there.
    private func next(at location: String, after hop: Hop) throws(TransferError) -> Hop {
        let target: WebURL.Target
        do throws(WebURL.Failure) {
            target = try hop.url.resolving(location)
        } catch {
            throw Self.invalid(Self.message(about: error))
        }
        let url = target.url
        try check(url)
        var next = hop
        next.url = url
        next.userInformation =
            spec.redirects.userInformation == .ignore
            ? nil : target.userInformation ?? (url.isSameOrigin(as: hop.url) ? hop.userInformation : nil)
        next.digest = nil
        // The session's credential of another space is never sent there.
        next.credential = nil
        if !spec.redirects.sendsCredentialsAcrossOrigins, !url.isSameOrigin(as: hop.url) {
            next.keepsCredentials = false
        }
        return next
    }

    /// Throws if the job must not send requests to the URL.
    func check(_ url: WebURL) throws(TransferError) {
        guard egress.refusal(of: url.endpoint) == nil else { throw blockedAddress(.waiting) }
        guard url.scheme == .https || spec.request.connection?.tls == nil else {
            throw Self.invalid("The server redirected away from https, and the job has TLS settings.")
        }
    }

    private func downgrade(from hop: Hop, to next: Hop) -> TransferError? {
        guard next.sendsBody, hop.url.scheme == .https, next.url.scheme == .http else { return nil }
        return Self.invalid("The server redirected a body from https to http, where all could read it.")
    }

    private static func message(about failure: WebURL.Failure) -> String {
        switch failure {
        case .tooLong:
            "The server redirected to a URL of more than \(Limits.redirectURLByteCountMax) bytes."
        case .unsupportedScheme: "The server redirected to a URL that is neither http nor https."
        default: "The server redirected to an invalid URL. \(failure.message)"
        }
    }

    private func invalidRedirect(_ message: String) -> Judgement {
        .refuse(Self.invalid(message), retryAfter: nil)
    }

    private static func invalid(_ message: String) -> TransferError {
        TransferError(.redirectInvalid, message, phase: .waiting, isRetryable: false)
    }
}

extension TransferError {
    fileprivate static let bodyHashNeeded = TransferError(
        .authenticationRequired,
        "The server offers Digest only with qop=auth-int, a hash of the body, which Ferry does not send "
            + "(status 401).", phase: .waiting, isRetryable: false)

    /// A redirect asks to wait for so long that the attempt ends. That is no failure of the job.
    fileprivate static func delayedRedirect(_ status: Int, seconds: Double) -> TransferError {
        var error = TransferError(
            .unacceptableStatus,
            "The server redirected and asked to wait \(Int64(seconds)) s before the next request "
                + "(status \(status)).", phase: .waiting, isRetryable: true)
        error.cost = .none
        return error
    }
}

func blockedAddress(_ phase: TransferError.Phase) -> TransferError {
    TransferError(
        .blockedAddress, "The URL leads to an address that may not be reached.", phase: phase,
        isRetryable: false)
}
