import FerryCore

/// Decides what follows a response, from what was requested, what was received and what is known of the file.
/// The only place that decides it, for downloads, uploads and data jobs, in one stream and in segments. A
/// pure value (docs/decisions/0041).
struct ResponseTable: Sendable {
    /// The next step.
    enum Step: Sendable {
        /// Send this request, which answers a challenge, or signs in another way.
        case answer(Hop)
        case challenge(JobQuestion)
        /// Ask for another URL or credential: the server refuses the job's.
        case askForURL
        /// `after`: seconds that the server asks to wait before the redirected request (RFC 9110 §10.2.3).
        case redirect(after: Double)
        /// As `redirect`, but the wait is so long that it ends the attempt. The next one sends the request.
        case redirectLater(after: Double)
        case again(Change)
        /// Send the job's own request: what a redirect has led to has expired.
        case beginAgain
        case take(Body)
        /// `retryAfter`: seconds that the server asks to wait; `nil` if the attempt is not repeated, or the
        /// server does not say.
        case refuse(TransferError, retryAfter: Double?)
        /// The current request, and no earlier one of the attempt, may be sent again after a delay.
        case wait(TransferError, retryAfter: Double?)
    }

    /// Parts that the same request leaves out when it is sent again.
    enum Change: Sendable, Equatable {
        case withoutExpect
        /// The server has evaluated `If-Range` wrongly: it has the file, and sends all of it.
        case withoutIfRange
        case withoutRange(RangeFault)
        /// The body has a coding that was not asked for, or cannot be decoded.
        case withoutCodings
    }

    /// Reason for which a response to a range cannot be used.
    enum RangeFault: Sendable, Equatable {
        /// The server refuses the range with an error status.
        case refused
        /// The response has another range, or does not say which one it has.
        case unusable
        /// Nothing proves that the bytes belong to the known file.
        case unproven
        /// The server has another file.
        case changed
    }

    /// Part of the file to which the bytes of a body belong.
    struct Body: Sendable, Equatable {
        /// Whether they continue the known file. `false`: the file begins anew with them.
        var continues = false
        /// Bytes at the beginning of the body that are there already.
        var skip: Int64 = 0
        /// Offset in the file at which the response ends; `nil` if that is not known.
        var end: Int64?
        /// Bytes of the whole file; `nil` if that is not known.
        var total: Int64?
    }

    /// A request.
    struct Requested: Sendable {
        let hop: Hop
        /// The range that Ferry asks for, to `.max` if its end is open; `nil` for none. A range that the
        /// job's own fields ask for does not count.
        var range: Range<Int64>?
        var hasIfRange = false
        /// Whether it has `Expect: 100-continue`.
        var expects = false
        /// Whether it asks for content codings.
        var asksForCodings = false
        /// Whether the job's own URL was requested again because the target of a redirect had expired, and no
        /// response was accepted since.
        var hasBegunAgain = false
        /// The request that answers the challenge of the response, if libcurl cannot, or that a store asks
        /// for in place of this one; `nil` if there is none.
        var answer: Hop?
        /// The question about the challenge of the response; `nil` if no client can answer it.
        var question: JobQuestion?
    }

    let spec: JobSpec
    /// Whether the body is decoded: its length then differs from that in the head.
    var isDecoded = false

    func step(
        _ requested: Requested, _ head: ResponseHead, _ known: KnownFile?, now: Timestamp
    ) -> Step {
        if let answer = requested.answer { return .answer(answer) }
        if let question = requested.question { return .challenge(question) }
        if isFollowed(head) { return redirect(requested.hop, after: head.retryAfter(now: now) ?? 0) }
        if head.status == 417, requested.expects { return .again(.withoutExpect) }
        if beginsAgain(requested, head, now) { return .beginAgain }
        if let range = requested.range {
            if head.status == 206 { return part(range, requested.hop, head, known, now) }
            if known?.isIgnored(by: head, requested.hasIfRange, hasDigest: hasDigest) ?? false {
                return .again(.withoutIfRange)
            }
            if isPartWithoutSayingSo(head, known) { return .again(.withoutRange(.unusable)) }
            if mayBeAboutRange(head.status) { return .again(.withoutRange(.refused)) }
        } else if head.status == 206, spec.kind == .download, !namesRange {
            return unrequestedPart(requested.hop, head, now)
        }
        let length = isDecoded || !head.hasBody(requested.hop.method) ? nil : head.contentLength
        return judge(head, requested.hop, Body(end: length, total: length), type: head.mimeType, now)
    }

    /// Decides about a response whose body has a coding that was not asked for, or cannot be decoded. `nil`:
    /// the request is not sent again.
    func changeAfterUnusableCoding(_ requested: Requested) -> Change? {
        guard requested.asksForCodings, RequestRepetition(spec, requested.hop).maySendTwice else {
            return nil
        }
        return .withoutCodings
    }

    // MARK: Redirects and ranges

    private static let redirects: Set<Int> = [301, 302, 303, 307, 308]

    private func isFollowed(_ head: ResponseHead) -> Bool {
        Self.redirects.contains(head.status) && spec.followsRedirects
            && head.all("location").contains { !$0.isEmpty }
    }

    /// A request that must not be sent again keeps its attempt: should that end before the redirected
    /// request, the next one could only begin anew.
    private func redirect(_ hop: Hop, after delay: Double) -> Step {
        delay > EngineLimits.slotPauseMax && RequestRepetition(spec, hop).maySendAllTwice
            ? .redirectLater(after: delay) : .redirect(after: delay)
    }

    /// Whether a request without the range may have another status than this one.
    private func mayBeAboutRange(_ status: Int) -> Bool {
        guard (400..<600).contains(status) else { return status != 202 && !accepts(status) }
        return ![401, 407].contains(status) && (status == 500 || !Self.passing.contains(status))
    }

    /// Whether a response to a range has only a part of the file, although its status is not 206: it says
    /// where the part begins, or has another length than the same file.
    private func isPartWithoutSayingSo(_ head: ResponseHead, _ known: KnownFile?) -> Bool {
        guard (200..<300).contains(head.status) else { return false }
        if let range = ContentRange(head), !range.isWhole { return true }
        guard let known, let total = known.total, case .entityTag(_)? = known.validator,
            let length = head.contentLength, head.contentCodings == known.codings
        else { return false }
        return length != total && known.validator?.matches(head) ?? false
    }

    /// Whether the job's own fields ask for a range.
    private var namesRange: Bool {
        spec.request.headers.contains { equalIgnoringCase($0.name, "range") }
    }

    private var hasDigest: Bool { spec.integrity.provesFile }

    /// Decides about a 206 with the range that Ferry asked for, or another one.
    private func part(
        _ asked: Range<Int64>, _ hop: Hop, _ head: ResponseHead, _ known: KnownFile?, _ now: Timestamp
    ) -> Step {
        guard let range = ContentRange(head), head.contentLength ?? range.byteCount == range.byteCount,
            range.first <= asked.lowerBound, range.last >= asked.lowerBound
        else { return .again(.withoutRange(.unusable)) }
        guard let known else {
            // The first response, which describes the file.
            guard range.first == 0, let total = range.total, range.isWhole || proves(head) else {
                return .again(.withoutRange(.unproven))
            }
            return judge(
                head, hop, Body(end: range.last + 1, total: total), type: head.mimeType, isPart: true, now)
        }
        if let fault = known.fault(range, head, from: hop.url, spec) { return .again(.withoutRange(fault)) }
        let body = Body(
            continues: true, skip: asked.lowerBound - range.first, end: range.last + 1,
            total: known.total ?? range.total)
        let type = head.mimeType ?? known.mimeType
        // The type is unknown; the response with the whole file will have it.
        if type == nil, !acceptsType(nil) { return .again(.withoutRange(.unproven)) }
        return judge(head, hop, body, type: type, isPart: true, now)
    }

    /// Decides about a 206 without a range in the request: its bytes count if they begin with the file's
    /// first byte, and are all of it or can be continued.
    private func unrequestedPart(_ hop: Hop, _ head: ResponseHead, _ now: Timestamp) -> Step {
        guard let range = ContentRange(head), head.contentLength ?? range.byteCount == range.byteCount,
            range.first == 0, let total = range.total,
            range.isWhole || !isDecoded && proves(head) && PartialRecord.isPossible(spec)
        else {
            return refuse(
                TransferError(
                    .responseInvalid, "The server answered with a part although the whole was asked for.",
                    phase: .waiting, isRetryable: RequestRepetition(spec, hop).maySendAllTwice))
        }
        let body = isDecoded ? Body() : Body(end: range.last + 1, total: total)
        return judge(head, hop, body, type: head.mimeType, isPart: true, now)
    }

    /// Whether the bytes after those of this response can be requested.
    private func proves(_ head: ResponseHead) -> Bool { hasDigest || Validator(head) != nil }

    // MARK: Statuses

    /// Decides about a response by its status, type and length. `isPart`: the file is judged as a whole; it
    /// comes in parts only because Ferry asked for a range, or the server has chosen so.
    private func judge(
        _ head: ResponseHead, _ hop: Hop, _ body: Body, type: String?, isPart: Bool = false,
        _ now: Timestamp
    ) -> Step {
        let status = isPart ? 200 : head.status
        if asksForURL(status, head, hop, now) { return .askForURL }
        guard accepts(status) else { return refuseStatus(status, head, hop, now) }
        guard acceptsType(type) else {
            return refuse(
                TransferError(
                    .unacceptableContentType, "The answer's content type is not one that the job accepts.",
                    phase: .waiting, isRetryable: false))
        }
        guard let total = body.total, head.hasBody(hop.method) else { return .take(body) }
        if total > spec.accept.byteCountMax ?? .max { return refuse(.longerThanAccepted(.waiting)) }
        if spec.kind != .upload, let size = spec.integrity.size, size != total {
            return refuse(
                TransferError(
                    .sizeMismatch, "The size is \(total) bytes instead of \(size).", phase: .waiting,
                    isRetryable: RequestRepetition(spec, hop).maySendAllTwice))
        }
        return .take(body)
    }

    private func refuse(_ error: TransferError) -> Step { .refuse(error, retryAfter: nil) }

    /// Whether the job takes a response with this status.
    func accepts(_ status: Int) -> Bool {
        if !spec.accept.status.isEmpty { return Self.matches(status, spec.accept.status) }
        if let retried = spec.retry.statuses, Self.matches(status, retried) { return false }
        switch spec.kind {
        case .data: return true
        case .upload: return (200..<300).contains(status)
        // 202: not ready yet; 204 and 205 have no file.
        case .download: return (200..<300).contains(status) && ![202, 204, 205].contains(status)
        }
    }

    private static func matches(_ status: Int, _ patterns: [StatusPattern]) -> Bool {
        patterns.contains { $0.matches(status) }
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

    /// Statuses of failures that may pass. 520 to 524 are what large proxies answer if their origin fails.
    private static let passing: Set<Int> = [408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524]

    /// Whether a later response to the same request may have another status.
    private func mayPass(_ status: Int, _ retryAfter: Double?) -> Bool {
        if status == 202, spec.kind == .download { return true }
        if let own = spec.retry.statuses { return Self.matches(status, own) }
        return Self.passing.contains(status) || (400..<600).contains(status) && retryAfter != nil
    }

    /// Whether the job is tried again after that status.
    private func isRetried(_ status: Int, _ hop: Hop, _ retryAfter: Double?) -> Bool {
        let repetition = RequestRepetition(spec, hop)
        // 425 and 429 say that the server did nothing (RFC 8470 §5.2, RFC 6585 §4).
        let isUntouched = status == 425 || status == 429
        return mayPass(status, retryAfter)
            && (repetition.maySendAllTwice || !hop.hasActed && isUntouched || repetition.allowsAll)
    }

    /// Statuses that say that the URL or the credential is outdated.
    private static let expired: Set<Int> = [401, 403, 410]

    /// Whether the client is asked for another URL or credential. A response that the job accepts by name, or
    /// that is retried, is not asked about, nor one after a request that must not be sent again.
    private func asksForURL(_ status: Int, _ head: ResponseHead, _ hop: Hop, _ now: Timestamp) -> Bool {
        guard spec.onURLExpired == .ask, Self.expired.contains(status),
            !Self.matches(status, spec.accept.status)
        else { return false }
        if status != 401, isRetried(status, hop, head.retryAfter(now: now)) { return false }
        return !hop.hasActed || spec.allowsAnyRepetition
    }

    /// Whether the URL to which a redirect has led may have expired, such as a signed one, so that the job's
    /// own URL leads to a new one. A response that the job accepts, retries or asks about does not count.
    private func beginsAgain(_ requested: Requested, _ head: ResponseHead, _ now: Timestamp) -> Bool {
        let (status, hop) = (head.status, requested.hop)
        guard hop.redirectCount > 0, Self.expired.contains(status), !requested.hasBegunAgain else {
            return false
        }
        let repetition = RequestRepetition(spec, hop)
        return spec.redirects.policy == .follow && !accepts(status)
            && !mayPass(status, head.retryAfter(now: now)) && !asksForURL(status, head, hop, now)
            && (repetition.maySendAllTwice || repetition.allowsAll)
    }

    private func refuseStatus(_ status: Int, _ head: ResponseHead, _ hop: Hop, _ now: Timestamp) -> Step {
        if status == 401 || status == 407 { return refuse(.refused(status: status)) }
        let isNotReady = status == 202 && spec.kind == .download
        let retryAfter = head.retryAfter(now: now)
        let isRetryable = isRetried(status, hop, retryAfter)
        var error = TransferError.refused(status: status)
        if isNotReady {
            error = TransferError(
                error.code, "The server is not ready to send the file (status 202).", phase: error.phase,
                isRetryable: isRetryable)
        } else if isRetryable {
            error = TransferError(error.code, error.message, phase: error.phase, isRetryable: true)
        }
        if isNotReady, isRetryable { error.cost = .none }
        if mayPass(status, retryAfter), !isRetryable, hop.hasActed, RequestRepetition(spec, hop).maySendTwice
        {
            return .wait(error, retryAfter: retryAfter)
        }
        return .refuse(error, retryAfter: isRetryable ? retryAfter : nil)
    }
}

/// Known properties of a file whose first bytes are there. A pure value.
struct KnownFile: Sendable, Equatable {
    /// `nil` if the server has sent none.
    var validator: Validator?
    /// Bytes of the whole file; `nil` if that is not known.
    var total: Int64?
    /// Source of the validator (`PartialRecord.source`); `nil` if that may have been another server.
    var source: String?
    /// The content codings with which the bytes are stored.
    var codings: [String] = []
    /// As in `PartialRecord`.
    var mimeType: String?

    /// Whether a server that was sent `If-Range` has answered with the whole of this very file, or of one
    /// that a digest will prove.
    func isIgnored(by head: ResponseHead, _ hadIfRange: Bool, hasDigest: Bool) -> Bool {
        guard hadIfRange, head.status == 200, case .entityTag? = validator, total != nil,
            head.contentLength == total, head.contentCodings == codings,
            head.first("accept-ranges").map({ equalIgnoringCase($0, "none") }) != true
        else { return false }
        return hasDigest || validator?.matches(head) ?? false
    }

    /// Returns why the response does not prove that its bytes belong to this file; `nil` if it does. The
    /// status 206 alone is no proof: a server may not support `If-Range`.
    ///
    /// A proof is the same validator with the same length, or a digest of the whole file that is checked in
    /// the end. A date may be missing if the same server sent it before (RFC 9110 §15.3.7). An equal length
    /// alone is none, unless the job accepts it.
    func fault(
        _ range: ContentRange, _ head: ResponseHead, from url: WebURL, _ spec: JobSpec
    ) -> ResponseTable.RangeFault? {
        if let now = range.total, let total, now != total { return .changed }
        guard head.contentCodings == codings, codings.isEmpty || total != nil && range.total != nil else {
            return .unusable
        }
        // Without a length in the response, it has to reach the known end.
        guard range.total != nil || range.last + 1 == total else { return .unproven }
        if spec.integrity.provesFile { return nil }
        let isSamePlace = source == PartialRecord.source(of: url)
        guard let validator else {
            let mayGoByLength = spec.retry.resumesWithoutValidator && isSamePlace && total != nil
            return mayGoByLength ? nil : .unproven
        }
        if validator.matches(head) { return nil }
        if validator.isLeftOut(of: head) {
            let isProven = isSamePlace && spec.request.original == nil && total != nil && range.total == total
            return isProven ? nil : .unproven
        }
        return .changed
    }
}

extension JobSpec.Integrity {
    /// Whether the job demands a digest of the whole file that two different files do not share by chance.
    var provesFile: Bool { sha256 != nil || sha512 != nil || sha1 != nil || md5 != nil }
}

extension JobSpec {
    /// Whether redirects are followed, or asked about.
    var followsRedirects: Bool {
        switch redirects.policy {
        case .follow: true
        case .reject: false
        case .ask: !(answers?.rejectsRedirects ?? false)
        }
    }
}

extension TransferError {
    static func longerThanAccepted(_ phase: Phase) -> TransferError {
        TransferError(
            .responseTooLarge, "The body is longer than the job accepts.", phase: phase, isRetryable: false)
    }

    static let longerThanAnnounced = TransferError(
        .responseInvalid, "The server sent more than it had announced.", phase: .receiving, isRetryable: true)
}
