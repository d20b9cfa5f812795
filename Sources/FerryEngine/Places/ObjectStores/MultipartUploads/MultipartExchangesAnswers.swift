import Curl
import FerryCore

/// Responses and failures.
extension MultipartExchanges {
    /// Returns the request that a response leads to: at another address, or signed in another way. `nil` if
    /// the response is not a redirect that may be followed.
    func judge(_ head: ResponseHead, _ hop: Hop) -> (hop: Hop, delay: Double)? {
        guard !(200..<300).contains(head.status),
            case .follow(let next, let delay) = responseJudge.judge(
                head, .init(hop: hop), known: nil, now: context.clock.now()),
            // A redirect to a page about the request does not carry it out.
            next.method == hop.method
        else { return nil }
        return (next, delay)
    }

    /// Returns what a response means by its head alone.
    func verdict(_ head: ResponseHead, _ hop: Hop) -> StoreAnswer.Verdict {
        guard !(200..<300).contains(head.status) else { return .accepted }
        switch responseJudge.judge(head, .init(hop: hop), known: nil, now: context.clock.now()) {
        case .refuse(let error, let retryAfter), .wait(let error, let retryAfter):
            return .refused(error, retryAfter: retryAfter)
        case .followLater(_, let error, let delay): return .refused(error, retryAfter: delay)
        case .ask(let question): return .asked(question)
        case .take, .follow, .again, .beginAgain:
            return .refused(.refused(status: head.status), retryAfter: nil)
        }
    }

    private var responseJudge: ResponseJudge {
        ResponseJudge(
            spec: attempt.spec, egress: context.egress, isDecoded: false,
            hasNTLM: context.builder.supportsNTLM)
    }

    private func leave(_ exchange: StoreExchange) {
        exchanges.removeAll { $0 === exchange }
        disconnect(exchange.connection)
        if exchange.request.kind == .abort, awaitedOutcome != nil { return reportAwaited() }
    }

    /// Takes a whole response.
    func answered(_ exchange: StoreExchange, _ answer: StoreAnswer) {
        if exchange.request.kind == .abort, UploadRemoval.isGone(answer.head.status, answer.body) {
            noteRemoval()
        }
        leave(exchange)
        guard isSending else { return }
        shown = (head: answer.head, url: answer.url, excerpt: [])
        isShownReported = false
        switch answer.verdict {
        case .accepted: accepted(exchange, answer)
        case .refused(let error, let retryAfter):
            shown?.excerpt = answer.body
            let document = StoreErrorDocument(answer.body, token: token)
            let explained =
                document.map { error.explained(by: $0, status: answer.head.status, for: attempt.spec) }
                ?? error
            refused(exchange, document, answer.head, explained, retryAfter)
        case .asked(let question):
            shown?.excerpt = answer.body
            running.handle(.head(.ask(question)))
            running.handle(.transferEnded(nil))
        }
        fill()
    }

    private func accepted(_ exchange: StoreExchange, _ answer: StoreAnswer) {
        switch exchange.request.kind {
        case .create:
            guard let created = CreatedUpload(answer.body) else { return failed(exchange, .answerUnusable) }
            begun(created.upload, answer.head)
        case .list(let part):
            guard let page = PartPage(answer.body) else { return failed(exchange, .answerUnusable) }
            parts.list(page.parts)
            conversation.listed(after: part, next: page.next)
            if conversation.step == .send { listed() }
        case .part(let number): sent(number, exchange, answer.head)
        case .complete: completed(exchange, answer)
        case .look:
            let found = facts(answer.head)
            if found == nil, let refusal { return fail(refusal) }
            conversation.looked(found)
            if found == nil { beginAnew() }
        case .abort: aborted()
        }
    }

    /// The store has begun an upload.
    private func begun(_ upload: String, _ head: ResponseHead) {
        conversation.created(upload)
        running.noteResumption(at: 0)
        let encryption = head.first("x-amz-server-side-encryption")
        parts.haveDigestTags = (encryption ?? "AES256") == "AES256" && !head.hasOwnKey
        defer { if fetched?.file.failure != nil { sourceAdvanced() } }
        let division = parts.division
        // Without an identity the next attempt only removes it.
        note(
            ResumableUpload(
                dialect: .s3, target: attempt.spec.request.url, url: attempt.spec.request.url,
                keepsCredentials: true, byteCount: division.total, body: identity ?? "",
                parts: .init(
                    upload: upload, byteCount: division.partByteCount, haveDigestTags: parts.haveDigestTags)))
    }

    /// All parts that the store has are listed.
    private func listed() {
        guard !isListed else { return }
        isListed = true
        foundByteCount = parts.byteCountAtStore
        running.noteResumption(at: foundByteCount)
        running.progress.resume(sentAt: foundByteCount)
    }

    private func sent(_ number: Int, _ exchange: StoreExchange, _ head: ResponseHead) {
        let checksum = exchange.request.payload.checksumField.flatMap { head.first($0.name) }
        let encryption = head.first("x-amz-server-side-encryption") ?? "AES256"
        guard let tag = head.first("etag"), !tag.isEmpty else { return failed(exchange, .answerUnusable) }
        let hasDigestTag = parts.haveDigestTags && encryption == "AES256" && !head.hasOwnKey
        guard parts.sent(number, tag: tag, checksum: checksum, hasDigestTag: hasDigestTag) else {
            return failed(exchange, .otherBytes(number))
        }
        failureCount = 0
        partFailureCounts[number] = nil
        noteProgress()
        releaseFetched()
    }

    /// A store may answer with status 200 before it has made the object, and then with an error.
    private func completed(_ exchange: StoreExchange, _ answer: StoreAnswer) {
        if let done = CompletedUpload(answer.body) {
            return conversation.completed(
                StoreObjectFacts(
                    entityTag: done.entityTag ?? answer.head.first("etag"),
                    versionID: answer.head.first("x-amz-version-id")))
        }
        shown?.excerpt = answer.body
        guard let document = StoreErrorDocument(answer.body, token: token) else {
            conversation.completionIsUnknown()
            return failed(exchange, .answerUnusable)
        }
        let error = document.error(
            status: answer.head.status, ifExistsFails: attempt.spec.destination?.ifExists == .fail,
            mayPass: true)
        refused(exchange, document, answer.head, error, nil)
    }

    private func facts(_ head: ResponseHead) -> StoreObjectFacts? {
        let field = attempt.spec.storeChecksum.flatMap { head.first("x-amz-checksum-\($0.rawValue)") }
        guard let tag = head.first("etag"), parts.mayBeObject(tag, byteCount: head.contentLength) else {
            return nil
        }
        return StoreObjectFacts(
            entityTag: tag, versionID: head.first("x-amz-version-id"), checksum: field)
    }

    // MARK: Refusals

    private func refused(
        _ exchange: StoreExchange, _ document: StoreErrorDocument?, _ head: ResponseHead,
        _ error: TransferError, _ retryAfter: Double?
    ) {
        let code = document?.code
        switch exchange.request.kind {
        case .abort where !error.isRetryable || code == "NoSuchUpload":
            // It is gone, or the key may not remove it.
            return aborted()
        case .look:
            guard !error.isRetryable else { break }
            if let refusal { return fail(refusal) }
            conversation.looked(nil)
            return beginAnew()
        case .complete where code == "InvalidPart" || code == "InvalidPartOrder":
            // One failure: parts that stay invalid must not keep the job busy.
            parts.forgetUpload()
            conversation.lacksParts()
        case .complete where head.status == 412 && code == "PreconditionFailed":
            // An earlier attempt, of which nothing is known, may have made the object.
            if attempt.number > 1 { conversation.completionIsUnknown() }
            guard conversation.looksForObject() else { break }
            refusal = error
            return
        case .complete where error.isRetryable: conversation.completionIsUnknown()
        default: break
        }
        if code == "NoSuchUpload", isOfUpload(exchange) {
            // Others of the same upload may fail in the same way.
            guard exchange.request.upload == conversation.upload else { return retry(exchange) }
            stopOthers()
            conversation.lost()
            if conversation.upload == nil { beginAnew() }
            return
        }
        failed(exchange, error, retryAfter: retryAfter)
    }

    private func isOfUpload(_ exchange: StoreExchange) -> Bool {
        switch exchange.request.kind {
        case .list, .part, .complete: true
        case .create, .look, .abort: false
        }
    }

    /// Ends the parts that are on their way to an upload that is gone.
    private func stopOthers() {
        let stopping = exchanges
        exchanges = []
        for one in stopping {
            one.stop()
            disconnect(one.connection)
            retry(one)
        }
    }

    private func aborted() {
        conversation.aborted()
        note(nil)
    }

    /// The redirect leads to a host whose connection has to be asked for.
    func moved(_ exchange: StoreExchange, to hop: Hop) {
        leave(exchange)
        guard isSending else { return }
        guard object.address(correction)?.origin == hop.url.origin else {
            return failed(exchange, .movedAway)
        }
        retry(exchange)
        fill()
    }

    private func retry(_ exchange: StoreExchange) {
        if let part = exchange.part { parts.failed(part) }
        noteProgress()
    }

    /// A request has ended without a response.
    func failed(_ exchange: StoreExchange, _ error: TransferError) {
        let isRunning = exchanges.contains { $0 === exchange }
        if isRunning {
            leave(exchange)
            guard isSending else { return }
            shown = nil
        }
        // The request may have been carried out.
        if exchange.request.kind == .complete { conversation.completionIsUnknown() }
        failed(exchange, error, retryAfter: nil)
        if isRunning { fill() }
    }

    /// Sends the request again after a delay, a limited number of times. Then the attempt ends with the
    /// error, at once if there is no upload yet.
    private func failed(_ exchange: StoreExchange, _ error: TransferError, retryAfter: Double?) {
        retry(exchange)
        guard error.isRetryable, let count = noteFailure(of: exchange.request.kind) else {
            return fail(error, retryAfter: retryAfter)
        }
        let delay = max(
            RetryPolicy.delay(attempt.spec.retry, after: count, jitter: .random(in: 0...1)), retryAfter ?? 0)
        guard count < EngineLimits.partFailureCountMax, delay <= EngineLimits.slotPauseMax else {
            return fail(error, retryAfter: retryAfter)
        }
        if let shown, !isShownReported,
            let response = context.hostResponse(shown.head, from: shown.url, to: attempt)
        {
            isShownReported = true
            context.report(response)
        }
        let pause = Int64(delay * 1e9)
        pausedUntil = max(pausedUntil, now + pause)
        loop.multi.after(nanoseconds: pause) { [weak self] in self?.fill() }
    }

    /// Counts a failure. Returns how often the request has failed, or all requests in a row; `nil` if this
    /// attempt does not send it again.
    private func noteFailure(of kind: MultipartRequest.Kind) -> Int? {
        // Several requests may fail at the same time.
        if now >= pausedUntil { failureCount += 1 }
        switch kind {
        case .create, .list, .abort: return nil
        case .look: return failureCount
        case .part(let number):
            partFailureCounts[number, default: 0] += 1
            return max(failureCount, partFailureCounts[number, default: 0])
        case .complete:
            // A store that takes parts, and makes no object of them, must not keep the job busy.
            completionFailureCount += 1
            return completionFailureCount
        }
    }
}

extension ResponseHead {
    /// Whether the object is encrypted with a key of the client.
    fileprivate var hasOwnKey: Bool { first("x-amz-server-side-encryption-customer-algorithm") != nil }
}

extension TransferError {
    fileprivate static let answerUnusable = TransferError(
        .responseInvalid, "The store's answer is not one of a multipart upload.", phase: .waiting,
        isRetryable: true)
    static let uploadLost = TransferError(
        .responseInvalid, "The store has lost the multipart upload again and again.", phase: .waiting,
        isRetryable: true)
    fileprivate static let movedAway = TransferError(
        .redirectInvalid, "The store redirected a multipart upload to another server.", phase: .waiting,
        isRetryable: false)
    fileprivate static func otherBytes(_ part: Int) -> TransferError {
        TransferError(
            .digestMismatch, "The digest of part \(part) at the store is not the one that was sent.",
            phase: .finishing, isRetryable: true)
    }
}
