import Curl
import FerryCore

/// The exchange that runs: its request's body, and its response.
extension SerialExchanges: ExchangeOwner {
    // MARK: The request's body

    var hasSentBody: Bool { !exchange.hop.sendsBody || !body.hasMore }

    /// Before the body goes out again, also when libcurl repeats the request by itself. `false`: that is not
    /// possible, and the attempt has ended.
    func rewindBody() -> Bool {
        guard exchange.hop.sendsBody else { return true }
        do throws(TransferError) {
            try body.rewind()
            return true
        } catch {
            running.handle(.bodyRefused(error))
            return false
        }
    }

    func provideBody(into buffer: UnsafeMutableRawBufferPointer) -> BodyProvision {
        guard body.source != nil else { return .bytes(0) }
        guard !body.pausesToRead(exchange.transfer, hasHead: exchange.head != nil) else {
            loop.multi.after(nanoseconds: 0) { [weak transfer = exchange.transfer] in transfer?.resume() }
            return .pause
        }
        let limit = min(buffer.count, exchange.pacing?.portion ?? .max)
        guard body.isSent || exchange.mayMove(limit, .sending) else { return .pause }
        do throws(TransferError) {
            let found = try body.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<limit]))
            guard case .bytes(let count) = found else {
                exchange.excuse()
                let (key, onLoop) = (running.key, loop.runner)
                body.whenReadable { onLoop { $0.take(.bodyReadable, for: key) } }
                return .pause
            }
            exchange.sent(count)
            progress.set(sent: body.sentByteCount)
            if body.isSent { exchange.requestEnded() }
            context.metrics.sent(count)
            return .bytes(count)
        } catch {
            running.handle(.bodyRefused(error))
            return .abort
        }
    }

    // MARK: The head

    func refuse(_ error: TransferError) { running.handle(.bodyRefused(error)) }

    func judge(isDecoded: Bool) -> ResponseJudge {
        ResponseJudge(
            spec: attempt.spec, egress: context.egress, isDecoded: isDecoded,
            hasNTLM: context.builder.supportsNTLM)
    }

    func take(_ head: ResponseHead) -> Bool {
        guard head.hasClearLength else {
            return refuseHead("The length of the server's answer is ambiguous.")
        }
        // Ferry asks for no other protocol (RFC 9110 §15.2.2).
        guard head.status != 101 else {
            return refuseHead("The server switched to another protocol.")
        }
        response.examine(head)
        if usesCredentials { context.note(head, to: exchange.hop, of: attempt) }
        if exchange.hop.upload != nil, let isTaken = takeUpload(head) { return isTaken }
        if let look = look(after: head) {
            redirect = look
            response.pass(to: .discard)
            running.handle(.head(.redirect(isDelayed: false)))
            return true
        }
        if looksAtObject, let verdict = verdict(ofLook: head) {
            response.pass(to: .discard)
            running.handle(.head(verdict))
            return true
        }
        if demandsLength(head) {
            mustFetchWhole = true
            response.pass(to: .discard)
            running.handle(.head(.again))
            return true
        }
        let requested = requested
        var judge = judge(isDecoded: response.isDecoded)
        if head.status == 401 || head.status == 407, usesCredentials {
            judge.answer = context.answering(head, exchange.hop, of: attempt)
        }
        let judgement = judge.judge(
            head, requested, known: requested.range == nil ? nil : continuation.record?.known,
            now: context.clock.now())
        response.pass(to: .discard)
        do throws(TransferError) {
            running.handle(.head(try carryOut(judgement, head)))
        } catch {
            running.handle(.bodyRefused(error))
            return false
        }
        return true
    }

    /// Takes the response to a request of a resumable upload; `nil` if it is judged like any other one.
    private func takeUpload(_ head: ResponseHead) -> Bool? {
        do throws(TransferError) {
            guard let verdict = try uploadVerdict(head) else { return nil }
            response.pass(to: .discard)
            running.handle(.head(verdict))
            return true
        } catch {
            running.handle(.bodyRefused(error))
            return false
        }
    }

    private func refuseHead(_ message: String) -> Bool {
        refuse(TransferError(.responseInvalid, message, phase: .waiting, isRetryable: false))
        return false
    }

    func answersItself(_ head: ResponseHead) -> Bool {
        // Otherwise libcurl sends an answer of its own.
        guard redirect?.digest != nil || exchange.hop.needsBodyHash(head, for: attempt.spec) else {
            return false
        }
        running.handle(.enoughDiscarded)
        return true
    }

    /// Whether the response is to a request that the job no longer sends, and the edited one may be sent in
    /// its place.
    private var isOutdated: Bool {
        edit.map { $0.changesRequest(of: running.leased) && repetition.mayTryAgain(mayHaveReached: true) }
            ?? false
    }

    private func carryOut(
        _ judgement: ResponseJudge.Judgement, _ head: ResponseHead
    ) throws(TransferError) -> AttemptMachine.HeadVerdict {
        switch judgement {
        case .take(let body):
            hasBegunAgain = false
            // An upload keeps the response's body, if it has one; the result of a download is what was sent.
            if attempt.spec.kind != .upload
                || running.leased.spec.kind == .upload && head.hasBody(exchange.hop.method) && body.total != 0
            {
                try take(body, head)
            }
            return .accept
        case .follow(let next, let delay):
            redirect = next
            continuation.wait(delay)
            return .redirect(isDelayed: delay > 0)
        case .again(let change):
            self.change = change
            return .again
        case .beginAgain:
            hasBegunAgain = true
            first = ownHop
            redirect = ownHop
            return .redirect(isDelayed: false)
        case .refuse where isOutdated, .ask where isOutdated, .followLater where isOutdated: return .again
        case .followLater(let next, let error, let delay):
            delayedRedirect = DelayedRedirect(next, after: attempt)
            return .refuse(error, retryAfter: delay)
        case .wait(let error, let retryAfter):
            if continuation.mayWait(retryAfter) { return .wait }
            return refusal(error, retryAfter: nil, head)
        case .refuse(let error, let retryAfter):
            return refusal(error, retryAfter: retryAfter, head)
        case .ask(let question): return .ask(question)
        }
    }

    /// Refuses a response. What the server says about an upload that it rejects is stored like the body of an
    /// accepted response; if that is not possible, the upload is rejected all the same. A store's response to
    /// a temporary key is not stored: it may repeat the token.
    private func refusal(
        _ error: TransferError, retryAfter: Double?, _ head: ResponseHead
    ) -> AttemptMachine.HeadVerdict {
        let refusal = AttemptMachine.HeadVerdict.refuse(error, retryAfter: retryAfter)
        let total = response.isDecoded ? nil : head.contentLength
        guard attempt.spec.kind == .upload, running.leased.spec.kind == .upload,
            head.hasBody(exchange.hop.method), total != 0,
            attempt.storeKey(context.nodeCredentials)?.sessionToken == nil
        else { return refusal }
        let rejecting = AcceptedResponse(
            head: head, hop: exchange.hop, isDecoded: response.isDecoded, body: .init(total: total),
            earlier: nil, record: nil, isRejection: true)
        do throws(TransferError) {
            let sink = try takeSink()
            try rejecting.begin(
                in: sink, for: attempt, progress, isPaced: exchange.pacing != nil, on: loop)
            if sink.writesLater { sink.writeFailed = { [weak self] _ in _ = self?.dropRejectedBody() } }
            response.keepRejected(head, in: sink)
            return .refuseKeepingBody(error, retryAfter: retryAfter)
        } catch {
            // The disk is full, or the body is longer than the job accepts.
            return refusal
        }
    }

    // MARK: An accepted body

    /// Takes the body of an accepted response.
    private func take(_ body: ResponseTable.Body, _ head: ResponseHead) throws(TransferError) {
        guard body.continues else {
            dropBytes()
            try accept(head, body, nil)
            return running.noteResumption(at: 0)
        }
        let held = heldByteCount ?? 0
        // The last byte may have been requested again.
        let skip = body.skip + held - (offset ?? held)
        continuation.learn(total: body.total)
        if let total = body.total, let content, content.isBegun {
            try content.expect(total: total)
            content.digests?.expect(head.announcedDigests(of: .continued))
            progress.expect(toReceive: total)
            response.pass(to: .sink(content))
        } else {
            try accept(head, body, content?.earlier)
        }
        if let sink = response.sink {
            response.pass(to: sink, skipping: skip, byteCount: body.end.map { max(0, $0 - held) })
        }
        running.noteResumption(at: held)
    }

    /// Takes the body from now on. `earlier`: the bytes that it continues; `nil`: the file begins anew.
    private func accept(
        _ head: ResponseHead, _ body: ResponseTable.Body, _ earlier: EarlierBytes?
    ) throws(TransferError) {
        let hop = exchange.hop
        if attempt.spec.kind == .data, !attempt.spec.storesFile {
            let limit = min(attempt.spec.accept.byteCountMax ?? .max, Int64(Limits.inlineBodyByteCountMax))
            if let parts = ReplacedParts(head, byteCountMax: Int(limit)) {
                return response.pass(to: .parts(parts))
            }
        }
        if earlier == nil, !response.isDecoded, attempt.spec.kind == .download {
            continuation.begin(FirstResponse(head: head, total: body.total, attempt: attempt, hop: hop))
        }
        var accepted = AcceptedResponse(
            head: head, hop: hop, isDecoded: response.isDecoded, body: body, earlier: earlier)
        if accepted.mayLeaveFile(attempt.spec, context) { accepted.record = continuation.record }
        let length = accepted.length
        progress.expect(toReceive: length)
        let sink = try takeSink()
        try sink.takeName(from: head, hop.url)
        if let length, length >= EngineLimits.bulkByteCountMin { running.becomeBulk() }
        try accepted.begin(in: sink, for: attempt, progress, isPaced: exchange.pacing != nil, on: loop)
        if sink.writesLater { sink.writeFailed = { [weak self] in self?.refuse($0) } }
        response.pass(to: .sink(sink))
    }

    func receive(_ bytes: UnsafeRawBufferPointer) -> BodyVerdict {
        guard response.isTaken else { return discard(bytes) }
        let takesAll = response.takesAll
        guard takesAll || !response.fallsBehind() && exchange.mayMove(bytes.count, .receiving) else {
            return .pause
        }
        let before = progress.bytesReceived
        do throws(TransferError) {
            let byteCount = try response.append(bytes, turn: loop.multi.now)
            if !running.isDiscarding { progress.set(received: byteCount) }
        } catch {
            if dropRejectedBody() {
                exchange.receivedUnwanted(bytes.count)
                context.metrics.received(bytes.count)
                return .proceed
            }
            if error != .undecodable || !sendsAgainWithoutCodings() { refuse(error) }
            return .abort
        }
        let isCounted = response.isDecoded && !running.isDiscarding
        exchange.received(
            bytes.count, decoded: isCounted ? Int(progress.bytesReceived - before) : bytes.count)
        context.metrics.received(bytes.count)
        if takesAll {
            exchange.charge(bytes.count)
            if !response.waitsForDigest, response.fallsBehind() { exchange.transfer?.pauseReceiving() }
        }
        return .proceed
    }

    var waitsForPlace: Bool { response.waitsForDigest }

    /// Resumes reading, as file threads are no longer far behind.
    func placeCaughtUp() {
        do throws(TransferError) {
            guard try response.hasCaughtUp() else { return }
        } catch {
            guard dropRejectedBody() else { return refuse(error) }
        }
        exchange.resume()
    }

    // MARK: Other bodies

    /// Drops the body of a response that rejects an upload, which cannot be stored. Returns `false` if the
    /// body that arrives is not one.
    func dropRejectedBody() -> Bool {
        guard running.isDiscarding, response.isTaken else { return false }
        response.dropRejected()
        return true
    }

    private func discard(_ bytes: UnsafeRawBufferPointer) -> BodyVerdict {
        let isEnough = response.discard(bytes, of: exchange.head, isRedirect: redirect != nil)
        exchange.receivedUnwanted(bytes.count)
        context.metrics.received(bytes.count)
        guard isEnough else { return .proceed }
        let answered = exchange.transfer
        running.handle(.enoughDiscarded)
        // Else the next request may be under way.
        guard !running.isEnded, exchange.transfer === answered, body.isSent else { return .abort }
        // An upload is over; how much the server has to say about it does not matter.
        exchange.stop()
        running.handle(.transferEnded(nil))
        return .abort
    }
}
