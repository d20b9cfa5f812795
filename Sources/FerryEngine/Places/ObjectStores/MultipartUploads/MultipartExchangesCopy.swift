import FerryCore

/// Copies from another server: the parts are sent while the rest of the object is fetched.
extension MultipartExchanges: SourceOwner {
    /// Goes on with an attempt whose source has responded.
    func beginCopy() {
        resumeUpload()
        running.becomeBulk()
        isSending = true
        sourceAdvanced()
    }

    /// No input reaches this: it has opened before.
    func sourceOpened(_ contents: BodyContents) { preconditionFailure("a source opens once") }

    func sourceFailed(_ error: TransferError, retryAfter: Double?) { fail(error, retryAfter: retryAfter) }

    func sourceAdvanced() {
        guard isSending, let file = fetched?.file else { return }
        if let failure = file.failure {
            // An upload that is being begun can be removed when the store has named it: `begun` calls this.
            if !isBeginning { fail(failure) }
            return
        }
        let before = parts.readablePartCount
        guard parts.arrived(file.writtenByteCount, isWhole: file.isWhole) else {
            return fail(
                .tooLargeForStore(
                    file.writtenByteCount,
                    limit: parts.division.partByteCount * Int64(Limits.multipartPartCountMax)))
        }
        if file.isWhole { running.progress.expect(toSend: parts.division.total) }
        // Most portions complete no part.
        if file.isWhole || parts.readablePartCount > before { fill() }
    }

    private var isBeginning: Bool { conversation.step == .request(.create) && !exchanges.isEmpty }

    /// The attempt ends, and the job waits for the source's host.
    func putOff(bySource hold: HostHold) -> Bool {
        guard isSending else { return true }
        isSending = false
        running.handle(.putOff(hold))
        return true
    }

    /// Gives up the memory of parts that the store has and that are hashed. While the object is compared with
    /// the one that the upload has made, none is sent.
    func releaseFetched() {
        guard isSending, let file = fetched?.file else { return }
        var end = parts.donePrefix
        if case .compare = conversation.step { end = parts.hashedPrefix }
        file.release(upTo: body.hashedByteCount(upTo: end))
    }
}
