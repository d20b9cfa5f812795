import Curl
import FerryCore
import Logging
import Sys

/// One attempt while it runs: hands libcurl's words to the machine and does what the machine says. Loop
/// thread only.
final class LiveTransfer: EasyDelegate, RunningAttempt {
    enum Sink {
        case none
        case drain(BodyWriter)
        /// Of a data job.
        case parts(ReplacedParts)
        case discard
    }

    let attempt: Attempt
    let key: AttemptKey
    let progress: ProgressMeter
    unowned let loop: EngineLoop
    var context: EngineContext { loop.context }

    var machine = AttemptMachine()
    var hop: Hop
    var next: Hop?
    var expects = true
    var assembly: BodyAssembly?
    var source: BodySource?
    /// The node that has what is to be sent, when this one has not.
    var home: NodeID?
    var destination: Destination?
    var transfer: Transfer?
    var parser = ResponseHeadParser()
    var head: ResponseHead?
    /// Whether `head` waits for its judgement: libcurl may answer it by itself (Digest).
    var isHeadHeld = false
    var sink = Sink.none
    var discardedByteCount = 0
    /// The beginning of what is discarded.
    private var excerpt: [UInt8] = []
    var publication: Publication?
    /// What an earlier attempt has left, until the server has refused to go on from it.
    var resumption: Resumption?
    /// What this attempt leaves to the next one, until it is reported.
    var kept: PartialFile?
    var lastActivity: Int64
    let resourceDeadline: Int64
    var isBulk: Bool
    var awaitsResumption = false
    var waitsForDigest = false
    /// Nil when nothing limits the transfer.
    var pacing: Pacing?
    /// Whether a byte of the current request may have been sent.
    var mayHaveReached = false
    /// Whether a request was sent that has no answer yet.
    var isUnanswered = false
    var hasLookedForAnswer = false
    var decoding: Decoding?
    var slot: HeldSlot
    var putAside: PartialDownload?
    var diskSeconds = 0
    /// What is reported once a file thread has seen to the bytes that are kept.
    var awaitedReport: AttemptResult.Outcome?
    let startedAt: Timestamp
    private let start: Int64
    var meter: TransactionMeter?
    var transactions = TransactionLog()
    var diagnostics: AttemptRecord.Diagnostics?
    /// The origin beyond the job's own to which it may connect.
    var admittedScope: RequestScope?
    /// The current request waits until it may connect; `fresh` as in `start`.
    var asking: (scope: RequestScope, fresh: Bool)?

    init(_ placed: Placed, _ url: WebURL, on loop: EngineLoop) {
        attempt = placed.attempt
        key = AttemptKey(placed.attempt)
        progress = placed.progress
        isBulk = placed.isBulk
        self.loop = loop
        hop =
            attempt.spec.startHop(attempt: attempt.number).flatMap { Hop($0) }
            ?? Hop(url: url, method: attempt.spec.request.method, sendsBody: false)
        lastActivity = loop.multi.now
        slot = HeldSlot(since: lastActivity)
        pacing = loop.context.rates.pacing(
            of: attempt, at: hop.url,
            job: attempt.spec.bytesPerSecondMax.map { TokenBucket(bytesPerSecond: $0, now: loop.multi.now) })
        if attempt.spec.request.acceptEncoding != .identity {
            decoding = Decoding(attempt.spec.request.acceptEncoding)
        }
        startedAt = loop.context.clock.now()
        start = monotonicNanoseconds()
        let left = min(max(0, attempt.expiry - startedAt), 1e9)
        resourceDeadline = loop.multi.now + Int64(left * 1e9)
    }

    func becomeBulk() {
        guard !isBulk else { return }
        isBulk = true
        context.bulk.note(attempt.origin)
        context.bulk.began(on: loop.index)
    }

    // MARK: The machine

    func handle(_ event: AttemptMachine.Event) {
        for action in machine.handle(event) { perform(action) }
    }

    private func perform(_ action: AttemptMachine.Action) {
        switch action {
        case .start(let fresh): start(fresh: fresh)
        case .stopTransfer:
            if let transfer { noteTransaction(transfer.info, isWhole: false) }
            transfer?.cancel()
            transfer = nil
        case .follow:
            if let next {
                hop = next
                pace(job: pacing?.job)
                transactions.redirectCount += 1
            }
            next = nil
        case .leaveOutExpect: expects = false
        case .leaveOutRange: dropResumption()
        case .endPreparation: assembly?.stop()
        case .store: store()
        case .revokeStorage: publication?.revoke()
        case .discardBytes: discardBytes()
        case .keepBytes: keepBytes()
        case .report(let outcome):
            if let kept { report(outcome, keeping: kept) } else { report(outcome, kept: putAside) }
        case .leave: leave()
        }
    }

    func start(fresh: Bool) {
        parser = ResponseHeadParser()
        head = nil
        isHeadHeld = false
        sink = .none
        discardedByteCount = 0
        excerpt = []
        mayHaveReached = false
        isUnanswered = false
        lastActivity = loop.multi.now
        guard mayConnect(fresh: fresh), rewindSource() else { return }
        var request = context.builder.request(
            for: attempt, hop, body: source, expects: expects, codings: decoding?.codings,
            resuming: resumption?.headers ?? [])
        request.receiveBufferSize = receiveBufferSize
        if let pacing {
            request.receiveBufferSize = min(pacing.portion, receiveBufferSize)
            request.sendBufferSize = EngineLimits.pacedBufferSize
        }
        // On a dead kept connection libcurl repeats a request by itself; who must not be repeated gets a new
        // one.
        if fresh || !isRepeatable { request.usesFreshConnection = true }
        meter = TransactionMeter(request, attemptStart: start)
        do throws(CurlError) {
            transfer = try loop.multi.start(request, delegate: self)
        } catch {
            meter = nil
            let context = TransportContext(hasHead: false, isRepeatable: isRepeatable, sentWholeBody: false)
            handle(.transferEnded(transportFailure(error, TransferInfo(), context)))
        }
    }

    // MARK: What libcurl says

    func willConnect(to address: SocketAddress) -> Bool {
        noteFollowed(meter?.willConnect(transfer))
        return allows(address)
    }

    func willSend(to address: SocketAddress) -> Bool {
        noteFollowed(meter?.willSend(transfer))
        guard maySendAgain() else { return false }
        isUnanswered = true
        mayHaveReached = allows(address)
        needSlot()
        return mayHaveReached
    }

    func receiveHeaderLine(_ line: UnsafeRawBufferPointer) -> Bool {
        noteActivity()
        switch parser.take(line) {
        case .more:
            return true
        case .complete(let head):
            self.head = head
            isUnanswered = false
            meter?.responseStarted()
            noteHead(head, from: hop.url)
            awaitFarewell(head)
            isHeadHeld = answersChallenges
            return isHeadHeld || takeHead(head)
        case .invalid:
            return refuse(.responseInvalid, "The server's answer is not HTTP.")
        case .tooLarge:
            return refuse(.responseTooLarge, "The head of the server's response is too large.")
        }
    }

    /// A byte moves.
    func noteActivity() {
        lastActivity = loop.multi.now
        needSlot()
    }

    private func refuse(_ code: TransferError.Code, _ message: String) -> Bool {
        handle(.bodyRefused(TransferError(code, message, phase: .waiting, isRetryable: false)))
        return false
    }

    func takeHead(_ head: ResponseHead) -> Bool {
        guard head.hasClearLength else {
            return refuse(.responseInvalid, "The length of the server's answer is ambiguous.")
        }
        // Nobody asked for another protocol (RFC 9110 §15.2.2).
        guard head.status != 101 else {
            return refuse(.responseInvalid, "The server switched to another protocol.")
        }
        decoding?.examine(head)
        let judge = judge(isDecoded: decoding?.isActive ?? false)
        let expected = expects && hop.sendsBody && (source?.byteCount ?? 0) >= 1 << 20
        let judgement = judge.judge(
            head, hop, expected: expected, resumption: resumption, now: context.clock.now())
        if case .follow(let hop) = judgement { next = hop }
        sink = .discard
        do throws(TransferError) {
            if case .accept = judgement, attempt.spec.kind != .upload {
                dropResumption()
                sink = try makeSink(head)
                noteResumption(at: 0)
            } else if case .resume(let total) = judgement {
                sink = .drain(try makeDrain(head, total: total))
                noteResumption(at: resumption?.offset ?? 0)
            }
        } catch {
            handle(.bodyRefused(error))
            return false
        }
        handle(.head(judgement.verdict))
        return true
    }

    private func makeSink(_ head: ResponseHead) throws(TransferError) -> Sink {
        guard attempt.spec.kind == .data else { return .drain(try makeDrain(head, total: nil)) }
        let limit = min(attempt.spec.accept.byteCountMax ?? .max, Int64(Limits.inlineBodyByteCountMax))
        if let parts = ReplacedParts(head, byteCountMax: Int(limit)) { return .parts(parts) }
        return .drain(try makeDrain(head, total: nil))
    }

    /// `total`: of the file that is resumed; nil: it begins anew.
    private func makeDrain(_ head: ResponseHead, total: Int64?) throws(TransferError) -> BodyWriter {
        let isDecoded = decoding?.isActive ?? false
        let length = !head.hasBody(hop.method) ? 0 : isDecoded ? nil : total ?? head.contentLength
        progress.expect(toReceive: length)
        destination?.takeName(from: head, hop.url)
        if let length, length >= EngineLimits.bulkByteCountMin { becomeBulk() }
        let (key, tell, lane) = (key, loop.teller, context.lane)
        let syncs = context.configuration.fileSync == .full
        let destination = { [destination, context, attempt] () throws(TransferError) -> Destination in
            if let destination { return destination }
            return try context.destination(of: attempt)
        }
        let gathering = total == nil ? gathering(length) : nil
        let plan = BodyWriter.Plan(
            memoryLimit: attempt.spec.kind == .data
                ? Limits.inlineBodyByteCountMax
                : gathering == nil ? context.configuration.memoryByteCountMax : Int(length ?? 0),
            gathering: gathering,
            byteCountMax: attempt.spec.accept.byteCountMax,
            fileByteCount: length ?? attempt.spec.integrity.size
                ?? attempt.spec.schedule.expectedBytesToReceive,
            space: context.space,
            destination: destination,
            digests: Digests(
                attempt.spec.integrity,
                announced: announced(head, isDecoded: isDecoded, isContinued: total != nil),
                isRepeatable: RequestBuilder.isRepeatable(attempt.spec, method: hop.method)),
            makeTail: { file, digests in
                let bytes = DigestTail.Bytes(descriptor: file.descriptor, owner: file, isWritten: syncs)
                return DigestTail(bytes, digests, lane: lane) { tell { $0.resume(key) } }
            }, opened: total == nil ? recorder(head, length: length) : nil)
        let drain: BodyWriter
        if let total, let resumption {
            drain = try BodyWriter(plan, resuming: resumption.file, total: total)
        } else {
            drain = try BodyWriter(plan, expected: length)
        }
        if total != nil || length ?? 0 >= EngineLimits.recordedByteCountMin {
            drain.recorded.at = loop.multi.now
        }
        if length ?? .max >= EngineLimits.bulkByteCountMin {
            drain.stage = loop.stage
            drain.writeFailed = { [weak self] in self?.handle(.bodyRefused($0)) }
        }
        return drain
    }

    func receiveBody(_ bytes: UnsafeRawBufferPointer) -> BodyVerdict {
        noteActivity()
        guard takeHeldHead() else { return .abort }
        switch sink {
        case .drain(let drain):
            if let decoding, decoding.isActive { return receive(decoded: bytes, decoding, drain) }
            if drain.lag > EngineLimits.digestLagMax {
                waitsForDigest = true
                return .pause
            }
            guard mayMove(bytes.count, .receiving) else { return .pause }
            do throws(TransferError) {
                try drain.append(bytes)
            } catch {
                handle(.bodyRefused(error))
                return .abort
            }
            progress.set(received: drain.byteCount)
            meter?.received(bytes.count)
            context.metrics.received(bytes.count)
            return .proceed
        case .parts(let parts): return receive(bytes, parts)
        case .discard, .none:
            return discard(bytes)
        }
    }

    var excerptText: String? {
        excerpt.isEmpty ? nil : textExcerpt(excerpt, byteCountMax: Limits.responseExcerptByteCountMax)
    }

    private func discard(_ bytes: UnsafeRawBufferPointer) -> BodyVerdict {
        let isPlain = decoding?.isActive ?? false || head?.contentCodings.isEmpty ?? false
        if next == nil, isPlain, head?.isText ?? false {
            excerpt.append(
                contentsOf: bytes.prefix(Limits.responseExcerptByteCountMax - excerpt.count))
        }
        discardedByteCount += bytes.count
        meter?.received(bytes.count)
        context.metrics.received(bytes.count)
        guard discardedByteCount > EngineLimits.discardByteCountMax else { return .proceed }
        let answered = transfer
        handle(.enoughDiscarded)
        // Else the next request may be under way.
        guard !machine.isEnded, transfer === answered, let source, source.isSent else { return .abort }
        // An upload is over; how much the server has to say about it does not matter.
        perform(.stopTransfer)
        handle(.transferEnded(nil))
        return .abort
    }

    /// The digest is no longer far behind the writer, or cannot go on.
    func digestCaughtUp() {
        guard case .drain(let drain) = sink else { return }
        if let failure = drain.digestFailure { return handle(.bodyRefused(failure)) }
        guard waitsForDigest, drain.lag < EngineLimits.digestLagResume else { return }
        waitsForDigest = false
        lastActivity = loop.multi.now
        transfer?.resume()
    }

    func finished(_ outcome: TransferOutcome) {
        let outcome = judged(outcome)
        transfer = nil
        needSlot()
        context.metrics.connected(outcome.info)
        noteTransaction(
            outcome.info, isWhole: outcome.error == nil, hidesRemote: outcome.blockedAddress != nil)
        guard let error = outcome.error else {
            if takeHeldHead() { handle(.transferEnded(nil)) }
            return
        }
        // It was answered already: no answer to the last request.
        if isHeadHeld { head = nil }
        if asksWithoutCodings(error) { return }
        diagnostics = .init(curlCode: error.code, curlMessage: error.text, osError: error.osError)
        context.logger.debug(
            "request failed",
            metadata: ["job.id": "\(attempt.job)", "attempt": "\(attempt.number)", "cause": "\(error)"])
        if outcome.blockedAddress != nil {
            handle(.transferEnded(.init(blockedAddress(.connecting), mayRepeatAtOnce: false)))
            return
        }
        if asksAboutTunnel(error) { return }
        takeUnread(outcome.unread)
        let facts = TransportContext(
            hasHead: head != nil, isRepeatable: isRepeatable,
            sentWholeBody: hasSentBody,
            proxy: context.builder.proxyScheme(attempt, hop.url), isSecure: hop.url.scheme == .https)
        handle(.transferEnded(transportFailure(error, outcome.info, facts)))
    }
}
