import FerryCore

/// Copies between servers: the body comes from a `SourceExchange`.
extension SerialExchanges {
    /// The source has responded with the file: its target gets the request.
    func sourceOpened(_ contents: BodyContents) {
        guard !running.isEnded else { return }
        do throws(TransferError) {
            try open(contents)
        } catch {
            return running.handle(.bodyRefused(error))
        }
        start(fresh: false)
    }

    /// The source cannot be fetched, before the target has got a request.
    func sourceFailed(_ error: TransferError, retryAfter: Double?) {
        guard !running.isEnded else { return }
        running.handle(.head(.refuse(error, retryAfter: retryAfter)))
        running.handle(.transferEnded(nil))
    }

    /// Lets the job wait for the source's host. Returns `false` if it goes on: its request may have reached
    /// the target, and must not be sent again.
    func putOff(bySource hold: HostHold) -> Bool {
        guard repetition.mayTryAgain(mayHaveReached: exchange.mayHaveReached) else { return false }
        if !running.isEnded { running.handle(.putOff(hold)) }
        return true
    }

    /// What the target of a download that is copied says about the file; `nil` for other jobs.
    var copied: TransferResult.SentObject? {
        guard source != nil, running.leased.spec.kind == .download, let head = exchange.head else {
            return nil
        }
        // After a redirect with 303 the response is about something else.
        let tag = exchange.hop.sendsBody ? head.first("etag") : nil
        return TransferResult.SentObject(
            url: attempt.spec.request.url, entityTag: tag, versionID: nil)
    }

    /// Returns the outcome as the job's destination understands it: a file that must not be replaced exists.
    func explained(_ outcome: AttemptResult.Outcome) -> AttemptResult.Outcome {
        guard case .failed(let error, let retryAfter) = outcome, source != nil, source?.failure == nil,
            running.leased.spec.destination?.ifExists == .fail, error.code == .unacceptableStatus,
            exchange.head?.status == 412
        else { return outcome }
        return .failed(.copyExists, retryAfter: retryAfter)
    }

    /// Whether bytes that the target has already are still read and hashed.
    var hashesRest: Bool { body.isSent && body.hasUnhashed && exchange.head != nil }

    /// Hashes the rest of a stream before its upload is finished. Returns `false` if bytes have not come yet:
    /// `store` is called again then. Throws as `RequestBody.hashRest`.
    func hasHashedRest() throws(TransferError) -> Bool {
        guard body.isSent, try !body.hashRest() else { return true }
        let (key, onLoop) = (running.key, loop.runner)
        body.whenHashable { onLoop { $0.take(.bodyReadable, for: key) } }
        return false
    }
}

extension RunningAttempt {
    /// Whether the lease's connection is to the attempt's target; of a download that is copied, it is to the
    /// source.
    var isLeasedForTarget: Bool { source == nil || leased.spec.kind == .upload }
}

extension TransferError {
    /// The job names another server, but its stored URL is none.
    static let damagedCopy = TransferError(
        .internalError, "The stored URL of the copy's other server is damaged.", phase: .connecting,
        isRetryable: false)

    fileprivate static let copyExists = TransferError(
        .destinationExists, "The file exists at the destination (status 412).", phase: .waiting,
        isRetryable: false)
}
