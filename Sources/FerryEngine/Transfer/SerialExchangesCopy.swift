import FerryCore

/// Copies between servers: the body comes from a `SourceExchange`.
extension SerialExchanges: SourceOwner {
    /// Sends the request to the target, unless that is a store, which gets it when its bytes are there.
    func sourceOpened(_ contents: BodyContents) {
        guard !running.isEnded else { return }
        copiedContents = contents
        guard contents.fetchedFile == nil else {
            arriving = contents
            return sourceAdvanced()
        }
        do throws(TransferError) {
            try open(contents)
        } catch {
            return running.handle(.bodyRefused(error))
        }
        start(fresh: false)
    }

    /// Sends an object to its store as soon as its bytes are there: with one request, or in parts. Sends the
    /// request to another target when the file is whole.
    func sourceAdvanced() {
        guard let contents = arriving, let file = contents.fetchedFile, !running.isEnded else { return }
        if let failure = file.failure {
            arriving = nil
            return sourceFailed(failure, retryAfter: nil)
        }
        let isLarge = file.byteCount ?? file.writtenByteCount > file.partByteCount
        if isLarge || attempt.upload?.dialect == .s3 && !file.isOnDisk {
            arriving = nil
            return sendInParts(contents, file)
        }
        guard file.isWhole else { return }
        arriving = nil
        let (key, onLoop) = (running.key, loop.runner)
        do throws(TransferError) {
            try open(contents)
            guard attempt.namesDigestOfBody(context.nodeCredentials) else { return start(fresh: false) }
            try body.hashBeforeSending { digests in onLoop { $0.take(.bodyHashed(digests), for: key) } }
        } catch {
            running.handle(.bodyRefused(error))
        }
    }

    /// Whether a response demands the length of a body that only the end of its source tells (RFC 9110
    /// §15.5.12).
    func demandsLength(_ head: ResponseHead) -> Bool {
        head.status == 411 && source != nil && exchange.hop.sendsBody && body.source != nil
            && body.byteCount == nil
    }

    /// Fetches the file once more, to a disk, so that its length is known.
    func fetchWhole() {
        mustFetchWhole = false
        guard let source, let contents = copiedContents else { return }
        do throws(TransferError) {
            let file = FetchedFile(
                on: try context.places.localFiles.unnamedFile(expecting: nil), identity: source.identity)
            arriving = contents.replacingSubject(by: file)
            body = RequestBody()
            source.fetchAgain(into: file)
        } catch {
            running.handle(.bodyRefused(error))
        }
    }

    private func sendInParts(_ contents: BodyContents, _ file: FetchedFile) {
        guard let source else { return }
        do throws(TransferError) {
            let others = try MultipartExchanges(of: running, copying: contents, file, from: source)
            source.owner = others
            running.goOn(with: others)
            others.beginCopy()
        } catch {
            running.handle(.bodyRefused(error))
        }
    }

    func sourceFailed(_ error: TransferError, retryAfter: Double?) {
        guard !running.isEnded else { return }
        running.handle(.head(.refuse(error, retryAfter: retryAfter)))
        running.handle(.transferEnded(nil))
    }

    func putOff(bySource hold: HostHold) -> Bool {
        guard repetition.mayTryAgain(mayHaveReached: exchange.mayHaveReached) else { return false }
        if !running.isEnded { running.handle(.putOff(hold)) }
        return true
    }

    /// What the target of a download that is copied says about the file; `nil` for other jobs.
    var copied: TransferResult.SentObject? {
        guard source != nil, running.leased.spec.kind == .download, !attempt.spec.isSentToStore,
            let head = exchange.head
        else { return nil }
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
