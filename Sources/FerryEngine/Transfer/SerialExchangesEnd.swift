import Curl
import FerryCore

/// The end of an exchange: another one follows, or the content is stored and the attempt reported.
extension SerialExchanges {
    // MARK: The end of an exchange

    func endsWithConnection(_ head: ResponseHead) -> Bool {
        attempt.spec.kind != .upload
            && response.endsWithConnection(head, exchange.hop, attempt.spec.integrity)
    }

    func ended(_ failure: ExchangeFailure?) {
        running.needSlot()
        guard let failure else {
            let isShort = response.sink?.isShort ?? false
            if isShort, goesOn(after: .shortBody) || repeatsOutcome(after: .shortBody) { return }
            return running.handle(.transferEnded(nil))
        }
        if failure.error == .unrequestedCoding, sendsAgainWithoutCodings() {
            return running.handle(.transferEnded(nil))
        }
        exchange.note(failure.error)
        guard failure.outcome.blockedAddress == nil else {
            return running.handle(.transferEnded(exchange.meaning(of: failure)))
        }
        if answersTunnel(failure.error) || asksAboutTunnel(failure.error) { return }
        exchange.takeUnread(failure.outcome.unread)
        let meaning = exchange.meaning(of: failure)
        if goesOn(after: meaning.error) || continuesUpload(after: meaning.error) { return }
        // A dead kept connection is replaced at once.
        if meaning.mayRepeatAtOnce || !repeatsOutcome(after: meaning.error) {
            running.handle(.transferEnded(meaning))
        }
    }

    /// Gives the connection up. Goes on as the head demands if its body is not wanted, or continues the body
    /// with another connection if that is possible.
    func endSlow(_ error: TransferError) {
        if running.isDiscarding { return running.handle(.enoughDiscarded) }
        if !goesOn(after: error), !continuesUpload(after: error), !repeatsOutcome(after: error) {
            running.handle(.timedOut(error))
        }
    }

    /// Continues the body with another request if it has stopped too early and new bytes have come that this
    /// request can prove. Returns `false` if the attempt ends instead.
    private func goesOn(after error: TransferError) -> Bool {
        guard let byteCount = response.sink?.byteCount, error.mayContinue,
            continuation.goesOn(at: byteCount, jitter: .random(in: 0...1))
        else { return false }
        running.handle(.interrupted)
        return true
    }

    /// Requests the outcome of a request that must not be sent again once more, from byte 0 on, if its
    /// response has not come whole. Returns `false` if the attempt ends instead.
    private func repeatsOutcome(after error: TransferError) -> Bool {
        let isLost = error.mayContinue || [.couldNotConnect, .hostNotFound].contains(error.code)
        guard exchange.hop.hasActed, repetition.maySendTwice, error.isRetryable, isLost,
            !running.isDiscarding, continuation.mayWait(nil)
        else { return false }
        running.handle(.interrupted)
        return true
    }

    /// Discards a body with a coding that was not asked for, or that cannot be decoded, and sends the request
    /// again without codings. Returns `false` if it is not sent again.
    func sendsAgainWithoutCodings() -> Bool {
        let table = ResponseTable(spec: attempt.spec)
        guard let change = table.changeAfterUnusableCoding(requested) else { return false }
        self.change = change
        content?.abort()
        response.pass(to: .none)
        progress.set(received: 0)
        running.handle(.head(.again))
        return true
    }

    /// Whether the request is sent again with a credential for the proxy that has refused a tunnel.
    private func answersTunnel(_ error: CurlError) -> Bool {
        guard exchange.head == nil, source == nil,
            let next = context.answering(tunnel: error, exchange.hop, of: attempt)
        else { return false }
        redirect = next
        running.handle(.head(.redirect(isDelayed: false)))
        running.handle(.transferEnded(nil))
        return true
    }

    /// Whether the client is asked about a proxy that has refused a tunnel; the attempt has ended then.
    private func asksAboutTunnel(_ error: CurlError) -> Bool {
        guard error.proxyStatus == 407 || error.proxyStatus == 401, exchange.head == nil,
            let question = judge(isDecoded: false).question(
                aboutTunnel: error, exchange.hop, context.clock.now())
        else { return false }
        running.handle(.head(.ask(question)))
        running.handle(.transferEnded(nil))
        return true
    }

    // MARK: The end of the attempt

    /// libcurl has seen the whole response.
    func store() {
        let isDelimited = exchange.head?.isDelimited(exchange.hop.method) ?? false
        let isRejected = running.rejection != nil
        do throws(TransferError) {
            if attempt.spec.kind == .upload, sent == nil, !isRejected, try !hasHashedRest() { return }
            if sent == nil, !isRejected { try body.check() }
            if attempt.spec.kind == .upload, sent == nil, !isRejected {
                let (key, onLoop) = (running.key, loop.runner)
                try body.finish(
                    attempt.spec.integrity, isDelimited: isDelimited,
                    wasSentBefore: looksAtObject || first?.hasDroppedBody ?? false,
                    resumedAt: progress.resumedAtOffset, object: sentObject
                ) { event in onLoop { $0.handle(event, for: key) } }
                return
            }
            switch try response.finish(attempt.spec, exchange.hop, isDelimited: isDelimited) {
            case .result(let result): running.handle(.stored(sent?.keeping(result) ?? result))
            case .content(let sink): try publish(sink, isDelimited: isDelimited)
            case nil:
                // The body of a response that rejects an upload was dropped.
                throw TransferError(
                    .storageFailed, "The body of the response was not stored.", phase: .finishing,
                    isRetryable: true)
            }
        } catch {
            running.handle(.storageFailed(error))
        }
    }

    /// The object as its store, or the target of a download that is copied, describes it; `nil` for other
    /// uploads.
    private var sentObject: TransferResult.SentObject? {
        if let copied { return copied }
        guard attempt.spec.isSentToStore, let object = attempt.spec.storeObject, let head = exchange.head,
            let url = object.address(exchange.hop.store?.value.correction)
        else { return nil }
        // After a redirect with 303 the response is about something else.
        let isAboutObject = exchange.hop.sendsBody || looksAtObject
        return TransferResult.SentObject(
            url: url.string, entityTag: isAboutObject ? head.first("etag") : nil,
            versionID: isAboutObject ? head.first("x-amz-version-id") : nil)
    }

    private func publish(_ sink: any StreamSink, isDelimited: Bool) throws(TransferError) {
        // No input reaches this: the body has come, so that the content has begun.
        guard let digests = sink.digests, let byteCount = sink.byteCount else {
            preconditionFailure("no content has begun")
        }
        try running.publish(
            sink, digests,
            digests.verification(attempt.spec.receivedIntegrity, isDelimited: isDelimited), sent: sent,
            isInline: !attempt.spec.storesFile && byteCount <= Int64(Limits.inlineBodyByteCountMax))
        response.pass(to: .none)
    }

    func result(_ outcome: AttemptResult.Outcome, partial: PartialDownload?) -> AttemptResult {
        var (head, hop) = (exchange.head, exchange.hop)
        var shown = head?.response(from: hop.url)
        shown?.bodyExcerpt = response.excerptText
        if let refused = source?.refused {
            (head, hop) = (refused.head, refused.hop)
            shown = refused.response
        }
        // Whether a failure says nothing about the job's own host.
        let failedAt = source.flatMap { $0.failure == nil ? nil : $0.exchange.hop } ?? hop
        let isElsewhere = attempt.hasOwnProxy || failedAt.url.origin != running.leased.origin
        let result = AttemptResult(
            attempt: running.leased,
            outcome: repetition.permitted(explained(outcome), mayHaveReached: exchange.mayHaveReached),
            response: shown, bytesReceived: progress.bytesReceived, bytesSent: progress.bytesSent,
            trace: running.trace.trace(finishedAt: context.clock.now()), partialDownload: partial,
            endedAtOtherHost: isElsewhere || running.trace.diagnostics.isOwnShortage,
            hostResponse: head.flatMap { context.hostResponse($0, from: hop.url, to: attempt) },
            home: bodyNode, lentSeconds: running.slot.lentSeconds, delayedRedirect: delayedRedirect,
            rejected: rejectedBody, upload: keepsUpload ? upload?.stored : nil)
        guard let source else { return result }
        return result.explainedByStore(
            of: source.refused == nil ? attempt : source.attempt, context.nodeCredentials)
    }
}
