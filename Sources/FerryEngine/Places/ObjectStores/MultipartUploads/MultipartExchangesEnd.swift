import Curl
import FerryCore

/// The end of the attempt, and of the upload.
extension MultipartExchanges {
    /// The object is there.
    func succeed(_ object: StoreObjectFacts) {
        made = object
        isSending = false
        // No later attempt asks for the upload.
        running.handle(.head(.accept))
        running.handle(.transferEnded(nil))
    }

    func store() {
        var found: TransferResult.SentObject?
        if let made, let url = object.address(correction) {
            found = .init(url: url.string, entityTag: made.entityTag, versionID: made.versionID)
        }
        running.progress.set(sent: parts.division.total)
        let (key, onLoop) = (running.key, loop.runner)
        do throws(TransferError) {
            try body.finish(
                attempt.spec.integrity, isDelimited: true, wasSentBefore: true,
                resumedAt: running.progress.resumedAtOffset, object: found
            ) { event in onLoop { $0.handle(event, for: key) } }
        } catch {
            running.handle(.storageFailed(error))
        }
    }

    /// Ends the attempt with an error.
    func fail(_ error: TransferError, retryAfter: Double? = nil) {
        guard isSending else { return }
        isSending = false
        var error = error
        let outcome = AttemptResult.Outcome.failed(error, retryAfter: retryAfter)
            .weighed(gained: areWrong(after: error) ? nil : gained)
        if case .failed(let weighed, _) = outcome { error = weighed }
        stopAll()
        running.handle(.head(.refuse(error, retryAfter: retryAfter)))
        running.handle(.transferEnded(nil))
    }

    /// Bytes of parts that this attempt has got through; `nil` if it has begun anew what an earlier one had
    /// sent, and if no later one can continue them.
    private var gained: Int64? {
        conversation.hasBegunAnew || identity == nil
            ? nil : max(0, parts.doneByteCount - foundByteCount)
    }

    /// Whether all parts together are not the bytes that the job or their server names: no later attempt
    /// continues them.
    private func areWrong(after error: TransferError) -> Bool {
        parts.areDone && [.digestMismatch, .sizeMismatch].contains(error.code)
    }

    // MARK: Removal of the upload

    /// Gives back the connections. Removes an upload that will never be completed before the outcome is
    /// reported. If that fails, the upload stays noted, and is removed after the end of the job.
    func end(_ outcome: AttemptResult.Outcome) {
        guard conversation.upload != nil, mustAbort(after: outcome) else { return endConnections() }
        stored = nil
        running.delayReport(of: outcome)
        awaitedOutcome = outcome
        loop.multi.after(nanoseconds: Self.abortTimeout) { [weak self] in self?.reportAwaited() }
        ask(.abort)
        // The host may not be used now.
        if exchanges.isEmpty { reportAwaited() }
    }

    /// Nanoseconds for which the outcome waits for the removal of the upload.
    private static let abortTimeout: Int64 = 5_000_000_000

    /// Whether no later attempt can continue the upload. An attempt after which the job is tried again leaves
    /// the upload to the next one, and one that a client has cancelled for its resume data to another job.
    private func mustAbort(after outcome: AttemptResult.Outcome) -> Bool {
        guard stored != nil, identity != nil else { return true }
        switch outcome {
        // A cancelled copy of a download leaves nothing to resume from.
        case .cancelled: return !keepsUpload || running.leased.spec.kind == .download
        case .failed(let error, let retryAfter):
            return error.code == .sourceChanged || areWrong(after: error)
                || !attempt.mayBeTriedAgain(
                    after: error, retryAfter, now: context.clock.now())
        // The object is that of an earlier upload.
        case .succeeded: return true
        case .suspended, .asked, .released, .putOff: return false
        }
    }

    /// The upload is removed, or not: reports the outcome.
    func reportAwaited() {
        guard let outcome = awaitedOutcome else { return }
        awaitedOutcome = nil
        running.report(outcome, partial: nil)
    }

    func result(_ outcome: AttemptResult.Outcome, partial: PartialDownload?) -> AttemptResult {
        // The address of the object: that of the request has the identifier of the upload.
        var response = shown.map { $0.head.response(from: object.address(correction) ?? $0.url) }
        // A store may repeat the token.
        if let excerpt = shown?.excerpt, !excerpt.isEmpty, token == nil {
            response?.bodyExcerpt = textExcerpt(
                Array(excerpt.prefix(Limits.responseExcerptByteCountMax + 1)),
                byteCountMax: Limits.responseExcerptByteCountMax)
        }
        let refused = fetched?.by.refused
        if let refused { response = refused.response }
        let failedAt = fetched.flatMap { $0.by.failure == nil ? nil : $0.by.exchange.hop.url } ?? shown?.url
        let isElsewhere =
            attempt.hasOwnProxy || failedAt.map { $0.origin != running.leased.origin } ?? false
            || running.trace.diagnostics.isOwnShortage
        let evidence =
            isShownReported
            ? nil : shown.flatMap { context.hostResponse($0.head, from: $0.url, to: attempt) }
        let result = AttemptResult(
            attempt: running.leased, outcome: outcome, response: response,
            bytesReceived: running.progress.bytesReceived, bytesSent: running.progress.bytesSent,
            trace: running.trace.trace(finishedAt: context.clock.now()), endedAtOtherHost: isElsewhere,
            hostResponse: evidence, lentSeconds: running.slot.lentSeconds,
            upload: keepsUpload ? stored : nil)
        guard let fetched, refused != nil else { return result }
        return result.explainedByStore(of: fetched.by.attempt, context.nodeCredentials)
    }
}

extension Attempt {
    /// Whether the job is tried again after the attempt has failed, as far as that is known now.
    fileprivate func mayBeTriedAgain(
        after error: TransferError, _ retryAfter: Double?, now: Timestamp
    ) -> Bool {
        guard error.isRetryable else { return false }
        guard RetryPolicy.usesUpAttempt(error, rules: spec.retry) else { return true }
        let verdict = RetryPolicy.verdict(
            rules: spec.retry, error: error, failedAttemptCount: Int(failedAttemptCount) + 1,
            retryAfter: retryAfter, now: now, expiry: expiry, jitter: 0)
        if case .final = verdict { return false }
        return true
    }
}
