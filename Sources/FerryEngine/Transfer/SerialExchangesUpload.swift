import FerryCore

/// Resumable uploads: the requests that `ResumableTransfer` decides about.
extension SerialExchanges {
    /// Determines whether and how the upload is resumable, and with it the first request.
    func beginUpload(_ contents: BodyContents) throws(TransferError) {
        guard attempt.spec.kind == .upload, exchange.hop.sendsBody, !attempt.spec.isSentToStore else {
            return
        }
        if attempt.upload != nil { running.awaitResumption() }
        upload = try ResumableTransfer(attempt, contents, body.source, judge(isDecoded: false))
        guard let upload else { return running.noteResumption(at: 0) }
        if upload.hasDroppedUpload { running.noteResumption(at: 0) }
        exchange.hop = upload.first(exchange.hop)
        pace(job: exchange.pacing?.job)
    }

    func take(interim head: ResponseHead) {
        let isNew = upload?.take(
            interim: head, exchange.hop, judge(isDecoded: false), now: context.clock.now())
        guard isNew ?? false else { return }
        exchange.hop.upload?.maySendTwice = true
        noteUpload()
    }

    /// Lets later attempts continue the upload, or no longer.
    private func noteUpload() {
        context.marker?.note(upload?.stored, of: attempt)
        mark = .none
    }

    /// Returns the verdict about the response to a request of a resumable upload; `nil` if it is judged like
    /// any other one.
    func uploadVerdict(_ head: ResponseHead) throws(TransferError) -> AttemptMachine.HeadVerdict? {
        guard exchange.hop.upload != nil, var upload else { return nil }
        if exchange.hop.sendsBody { upload.sent(body.sentByteCount) }
        let step = try upload.take(
            head, exchange.hop, own: jobHop, judge(isDecoded: false), now: context.clock.now())
        self.upload = upload
        switch step {
        case .next(let next, let isNew):
            if isNew { noteUpload() }
            if next.upload?.request == .append { continues(at: upload.offset) }
            redirect = next
            return .redirect(isDelayed: false)
        case .beginAgain(let next):
            noteUpload()
            continues(at: 0)
            redirect = next
            return .redirect(isDelayed: false)
        case .done:
            let end = body.byteCount ?? 0
            body.select(end..<end)
            try body.rewind()
            continues(at: end)
            return .accept
        case .ordinary(let isFinal):
            guard isFinal, head.status >= 400 else { return nil }
            // The target has rejected the upload: another attempt sends it anew, if it may.
            exchange.hop.upload?.maySendTwice = attempt.spec.isRequestRepeatable
            upload.forget()
            self.upload = upload
            noteUpload()
            return nil
        }
    }

    private func continues(at offset: Int64) {
        progress.resume(sentAt: offset)
        running.noteResumption(at: offset)
    }

    /// Asks the server how much it has got, with another request of the attempt, if the connection has ended
    /// and new bytes have arrived since the last time. Returns `false` if the attempt ends instead.
    func continuesUpload(after error: TransferError) -> Bool {
        // libcurl bounds the heads of all interim responses together.
        let isCrowded = error.code == .responseTooLarge && exchange.head == nil
        guard exchange.hop.upload != nil, error.mayContinue || isCrowded, !response.isTaken,
            !running.isDiscarding
        else { return false }
        upload?.sent(body.sentByteCount)
        guard let next = upload?.interrupted(exchange.hop) else { return false }
        exchange.hop = next
        pace(job: exchange.pacing?.job)
        continuation.wait(0)
        running.handle(.interrupted)
        return true
    }
}
