import Curl
import FerryCore
import Logging

/// An attempt that runs as one request at a time: passes what libcurl reports to its `AttemptMachine`, and
/// carries out the machine's actions. Loop thread only.
///
/// Other types own the objects of these actions: the body that is sent (`RequestBody`), the response
/// (`ResponseHeadReader`, `ResponseBody`), the place of the content (`StreamSink`), permission to connect to
/// other origins (`ConnectionPermit`), and the trace (`TransactionRecorder`).
final class SingleTransfer: EasyDelegate, RunningAttempt {
    private(set) var attempt: Attempt
    let key: AttemptKey
    let progress: ProgressMeter
    unowned let loop: EngineLoop
    /// `nil` until bytes are to be stored.
    private var sink: (any StreamSink)?
    var awaitsResumption = false
    var slot: HeldSlot
    var putAside: PartialDownload?
    var diskSeconds = 0

    private var context: EngineContext { loop.context }
    private var machine = AttemptMachine()
    /// Fields of the job that the next request uses; `nil` if they have not changed.
    private var edit: AttemptEdit?
    /// The request that runs, or comes next.
    private var hop: Hop
    /// The attempt's first request.
    private var first: Hop
    /// The request that the current response leads to.
    private var redirect: Hop?
    /// Seconds for which an unwanted body has been read.
    private var discardSeconds = 0
    /// The request that the next attempt sends; `nil`: the job's own.
    private var delayedRedirect: DelayedRedirect?
    /// The change that the current response demands.
    private var change: ResponseTable.Change?
    /// Whether `Expect: 100-continue` may be sent.
    private var expects = true
    private var transfer: Transfer?
    /// Puts the body together, until its reply has come.
    private var assembly: BodyAssembly?
    private var body = RequestBody()
    /// The node that has the body, if this one has not.
    private var bodyNode: NodeID?
    private var permit = ConnectionPermit()
    private var reader = ResponseHeadReader()
    private let response: ResponseBody
    /// The outcome that is reported as soon as the bytes are left to a later attempt.
    private var awaitedOutcome: AttemptResult.Outcome?
    /// Whether bytes are to be left to a later attempt.
    private var leavesBytes = false
    private var continuation: BodyContinuation
    private var speed: LowSpeedWatch
    private var publication: Publication?
    /// The result of an upload whose response is still to be kept.
    private var sent: TransferResult?
    /// The stored body of the response that has rejected an upload, or `nil`.
    private var rejectedBody: TransferResult?
    private var recorder = TransactionRecorder()
    private var trace: AttemptTraceBuilder
    /// The job's own request as the attempt began.
    private let own: TransactionLog.OwnRequest
    /// `nil` if no limit on speed holds.
    private var pacing: Pacing?
    private var isBulk: Bool
    /// When the attempt began to wait before its next request, in nanoseconds of the loop's clock; `nil` if
    /// it does not.
    private var waitsSince: Int64?
    /// Whether a byte of the current request may have been sent.
    private var mayHaveReached = false
    /// Whether a request was sent that has no response yet.
    private var isUnanswered = false
    /// When a byte moved last, and when the attempt has to end, in nanoseconds of the loop's clock.
    private var lastActivity: Int64
    private let resourceDeadline: Int64

    init(_ assigned: AssignedAttempt, _ url: WebURL, on loop: EngineLoop) {
        attempt = assigned.attempt
        key = AttemptKey(assigned.attempt)
        progress = assigned.progress
        isBulk = assigned.isBulk
        self.loop = loop
        hop = attempt.firstHop ?? Hop(url: url, method: attempt.spec.request.method, sendsBody: false)
        first = hop
        own = .init(attempt.spec.request)
        lastActivity = loop.multi.now
        slot = HeldSlot(since: lastActivity)
        response = ResponseBody(attempt.spec.request.acceptEncoding)
        continuation = BodyContinuation(attempt.spec)
        speed = LowSpeedWatch(attempt.spec.lowSpeed, loop.context.configuration.lowSpeed)
        let startedAt = loop.context.clock.now()
        trace = AttemptTraceBuilder(startedAt: startedAt, own: own)
        let left = min(max(0, attempt.expiry - startedAt), 1e9)
        resourceDeadline = loop.multi.now + Int64(left * 1e9)
        changeRate(attempt.spec.bytesPerSecondMax)
    }

    // MARK: State machine

    func handle(_ event: AttemptMachine.Event) {
        // The store refuses such a suspension; it may have come before the request was sent.
        if case .stop(.suspend) = event, !repetition.mayTryAgain(mayHaveReached: mayHaveReached) { return }
        var event = event
        if case .storageFailed(let error) = event, continuation.fetchesAgain(after: error) {
            progress.set(received: 0)
            event = .fetchAgain
        }
        if case .stored(let result) = event, attempt.spec.kind == .upload, sent == nil, response.isTaken,
            !machine.isEnded
        {
            if machine.rejection == nil {
                sent = result
                return store()
            }
            rejectedBody = result
        }
        for action in machine.handle(event) { perform(action) }
    }

    private func perform(_ action: AttemptMachine.Action) {
        switch action {
        case .start(let fresh): start(fresh: fresh)
        case .stopTransfer:
            if let transfer { recorder.end(transfer.info, measured, isWhole: false, in: &trace) }
            transfer?.cancel()
            transfer = nil
        case .follow:
            if let redirect {
                hop = redirect
                pace(job: pacing?.job)
                trace.followedRedirect()
            }
            redirect = nil
        case .change: makeChange()
        case .startLater: startLater()
        case .endPreparation: assembly?.stop()
        case .store:
            permit.end(for: attempt, on: loop)
            store()
        case .revokeStorage: publication?.revoke()
        case .discardBytes:
            putAside = nil
            if sink?.earlier != nil { progress.set(received: 0) }
            sink?.abort()
            continuation.forget()
        case .keepBytes: leavesBytes = sink?.keep() ?? false
        case .report(let outcome):
            permit.end(for: attempt, on: loop)
            guard leavesBytes, let sink else { return report(outcome, partial: putAside) }
            leavesBytes = false
            awaitedOutcome = outcome
            let (key, onLoop) = (key, loop.runner)
            sink.leave { partial in onLoop { $0.report(outcome, for: key, partial: partial) } }
        case .leave: leave()
        }
    }

    // MARK: Preparation

    /// Opens the body, and looks for the bytes of earlier attempts.
    func begin() {
        if let assembly = BodyAssembly(attempt, context) {
            let (key, onLoop) = (key, loop.runner)
            self.assembly = assembly
            return assembly.open { contents in onLoop { $0.opened(contents, for: key) } }
        }
        prepare { () throws(TransferError) in
            if let contents = try RequestBody.contents(of: attempt, context) { try open(contents) }
            guard attempt.spec.storesFile else { return handle(.prepared) }
            try open(try takeSink())
        }
    }

    /// Takes the reply of the `BodyAssembly`.
    func opened(_ contents: Result<BodyContents, BodyAssembly.Failure>) {
        assembly = nil
        switch contents {
        case .success(let contents):
            prepare { () throws(TransferError) in
                try open(contents)
                handle(.prepared)
            }
        case .failure(.failed(let error)): handle(.preparationFailed(error))
        case .failure(.elsewhere(let node)):
            bodyNode = node
            handle(.release)
            handle(.prepared)
        }
    }

    private func open(_ contents: BodyContents) throws(TransferError) {
        try body.open(contents, attempt.spec.integrity, context.fileThreads)
        hop.sendsBody = !hop.hasDroppedBody
        first = hop
        progress.expect(toSend: body.byteCount)
        if body.byteCount ?? .max >= EngineLimits.bulkByteCountMin { becomeBulk() }
    }

    func sinkOpened() {
        let failure = sink?.opened()
        let earlier = sink?.earlier
        noteOpened(hasBytes: earlier != nil)
        if let earlier {
            continuation.resume(earlier)
            progress.resume(at: earlier.offset)
            progress.expect(toReceive: earlier.record.total)
        }
        handle(failure.map { .preparationFailed($0) } ?? .prepared)
    }

    /// Returns the sink, which is made when it is first needed.
    private func takeSink() throws(TransferError) -> any StreamSink {
        if let sink { return sink }
        let made = try context.places[attempt.spec.contentLocation].sink(for: attempt, on: loop)
        sink = made
        return made
    }

    func judge(_ error: TransferError, expecting total: Int64?) -> TransferError {
        // The attempt reports why its place cannot be used when it opens its sink.
        (try? takeSink())?.judge(error, of: attempt, expecting: total) ?? error
    }

    /// Removes the bytes that are there.
    private func dropBytes() {
        if sink?.drop() ?? false { progress.set(received: 0) }
        continuation.forget()
    }

    private func becomeBulk() {
        guard !isBulk else { return }
        isBulk = true
        context.bulk.note(attempt.origin)
        context.bulk.began(on: loop.index)
    }

    // MARK: Sending the request

    private func start(fresh: Bool) {
        reader = ResponseHeadReader()
        response.reset()
        applyEdit()
        speed.restart()
        mayHaveReached = false
        isUnanswered = false
        lastActivity = loop.multi.now
        guard mayConnect(permit.ask(for: attempt, hop, isFresh: fresh, on: loop), fresh: fresh), rewindBody()
        else { return }
        var request = context.builder.request(
            for: attempt, hop, body: body.source, expects: expects, codings: response.codings,
            resuming: continuation.fields(from: offset))
        request.receiveBufferSize = receiveBufferSize
        if let pacing {
            request.receiveBufferSize = min(pacing.portion, receiveBufferSize)
            request.sendBufferSize = EngineLimits.pacedBufferSize
        }
        // On a dead kept connection libcurl repeats a request by itself. One that is not idempotent gets a
        // new connection: each time that it is sent counts toward `retry.max_attempts`.
        let maySendTwice = repetition.maySendTwice
        if fresh || !JobSpec.isIdempotent(hop.method) { request.usesFreshConnection = true }
        recorder.begin(request, attemptStart: trace.start)
        do throws(CurlError) {
            transfer = try loop.multi.start(request, delegate: self)
        } catch {
            recorder.abandon()
            let facts = TransportContext(hasHead: false, isRepeatable: maySendTwice, sentWholeBody: false)
            handle(.transferEnded(transportFailure(error, TransferInfo(), facts)))
        }
    }

    /// Uses the edited fields from now on. Another URL begins the chain of redirects anew, unless that would
    /// send a request twice that must not be.
    private func applyEdit() {
        guard let edit else { return }
        self.edit = nil
        let before = attempt.spec.request
        attempt = attempt.edited(by: edit)
        let request = edit.spec.request
        // No response could prove that the earlier bytes belong to this request.
        if PartialRecord.identity(of: request) != PartialRecord.identity(of: before) { dropBytes() }
        hop.digest = nil
        guard request.url != before.url, !hop.hasActed || attempt.spec.retry.repeatsNonIdempotent else {
            return
        }
        first = Hop(url: request.webURL, method: request.method, sendsBody: body.source != nil)
        hop = first
        pace(job: pacing?.job)
    }

    /// Whether the response is to a request that the job no longer sends, and the edited one may be sent in
    /// its place.
    private var isOutdated: Bool {
        edit.map { $0.changesRequest(of: attempt) && repetition.mayTryAgain(mayHaveReached: true) } ?? false
    }

    /// Sends the next request after the delay that `continuation` names: the job's own one if it continues a
    /// body, since what a redirect led to may have expired.
    private func startLater() {
        if continuation.isProgressing, hop.redirectCount > 0, !hop.hasActed {
            hop = first
            pace(job: pacing?.job)
        }
        // A nonce answers one request.
        hop.digest = nil
        waitsSince = loop.multi.now
        loop.multi.after(nanoseconds: Int64(continuation.delay * 1e9)) { [weak self] in
            guard let self, !machine.isEnded else { return }
            waitsSince = nil
            start(fresh: false)
        }
    }

    /// Changes the requests from now on as the response demands.
    private func makeChange() {
        switch change {
        case .withoutExpect: expects = false
        case .withoutIfRange: continuation.leaveOutIfRange()
        case .withoutRange: continuation.leaveOutRange()
        case .withoutCodings: response.leaveOutCodings()
        case nil: break
        }
        change = nil
        hop.digest = nil
    }

    /// Number of bytes that are there; `nil` if the file begins anew.
    private var heldByteCount: Int64? { response.isTaken ? nil : sink?.byteCount }

    /// The first byte to request; `nil` for the whole file.
    private var offset: Int64? { heldByteCount.flatMap { continuation.offset(after: $0) } }

    private var receiveBufferSize: Int {
        if response.codings != nil { return EngineLimits.codedReceiveBufferSize }
        if isBulk { return EngineLimits.bulkReceiveBufferSize }
        if loop.usesLargeBuffers { return EngineLimits.largeReceiveBufferSize }
        return loop.isCrowded ? EngineLimits.crowdedReceiveBufferSize : EngineLimits.receiveBufferSize
    }

    /// Whether the current request may connect. `false`: it is sent later, or the attempt is put off. What
    /// was sent already must not be sent again; such an attempt keeps its slot and asks again later.
    private func mayConnect(_ decision: ConnectionPermit.Decision, fresh: Bool) -> Bool {
        switch decision {
        case .connect: return true
        case .wait: return false
        case .refused(let hold) where repetition.mayTryAgain(mayHaveReached: true):
            handle(.putOff(hold))
            return false
        case .refused:
            loop.multi.after(nanoseconds: EngineLimits.refusalPause) { [weak self] in
                guard let self, !machine.isEnded else { return }
                start(fresh: fresh)
            }
            return false
        }
    }

    func connectionAnswered(_ grant: ConnectionGrant, at scope: RequestScope) -> Bool {
        guard !machine.isEnded,
            let (decision, isFresh) = permit.answered(grant, at: scope, for: attempt)
        else { return false }
        if mayConnect(decision, fresh: isFresh) { start(fresh: isFresh) }
        return true
    }

    private var repetition: RequestRepetition { RequestRepetition(attempt.spec, hop) }
    private var hasSentBody: Bool { !hop.sendsBody || !body.hasMore }
    private func allows(_ address: SocketAddress) -> Bool { context.allows(address, for: attempt, hop.url) }

    func nameResolved() { context.noteResolved(hop.url, for: attempt) }

    func willConnect(to address: SocketAddress) -> Bool {
        recorder.willConnect(transfer, measured, in: &trace)
        return allows(address)
    }

    func willSend(to address: SocketAddress) -> Bool {
        recorder.willSend(transfer, measured, in: &trace)
        // libcurl repeats by itself what a used connection has not answered, also behind a challenge; but the
        // server may have acted on it.
        guard !isUnanswered || repetition.maySendTwice else {
            // A head is that of the challenge.
            reader = ResponseHeadReader()
            handle(
                .bodyRefused(
                    TransferError(
                        .connectionLost, "The connection ended without an answer.", phase: .waiting,
                        isRetryable: false)))
            return false
        }
        isUnanswered = true
        mayHaveReached = allows(address)
        needSlot()
        return mayHaveReached
    }

    /// Before the body goes out again, also when libcurl repeats the request by itself. `false`: that is not
    /// possible, and the attempt has ended.
    func rewindBody() -> Bool {
        guard hop.sendsBody else { return true }
        do throws(TransferError) {
            try body.rewind()
            return true
        } catch {
            handle(.bodyRefused(error))
            return false
        }
    }

    func provideBody(into buffer: UnsafeMutableRawBufferPointer) -> BodyProvision {
        noteActivity()
        guard body.source != nil else { return .bytes(0) }
        guard !body.pausesToRead(transfer, hasHead: reader.head != nil) else {
            loop.multi.after(nanoseconds: 0) { [weak transfer] in transfer?.resume() }
            return .pause
        }
        let limit = min(buffer.count, pacing?.portion ?? .max)
        guard body.isSent || mayMove(limit, .sending) else { return .pause }
        do throws(TransferError) {
            let found = try body.read(into: UnsafeMutableRawBufferPointer(rebasing: buffer[..<limit]))
            guard case .bytes(let count) = found else {
                speed.excuse()
                let (key, onLoop) = (key, loop.runner)
                body.whenReadable { onLoop { $0.bodyReadable(key) } }
                return .pause
            }
            speed.moved(count)
            progress.set(sent: body.sentByteCount)
            if body.isSent { recorder.requestEnded() }
            context.metrics.sent(count)
            return .bytes(count)
        } catch {
            handle(.bodyRefused(error))
            return .abort
        }
    }

    /// The source of the body has bytes again.
    func bodyReadable() { resumePaced() }

    /// A byte moves.
    private func noteActivity() {
        lastActivity = loop.multi.now
        needSlot()
    }

    // MARK: Taking the response

    /// Whether a coding that was not asked for ends the transfer only after the head. A request that cannot
    /// be sent again has its response then: the status, a redirect and `Retry-After` count.
    var completesHead: Bool { !repetition.maySendTwice }

    func receiveHeaderLine(_ line: UnsafeRawBufferPointer) -> Bool {
        noteActivity()
        switch reader.take(line) {
        case .more:
            return true
        case .complete(let head):
            isUnanswered = false
            recorder.responseStarted()
            noteHead(head, from: hop.url)
            // A body that ends with its connection is whole only if the server ends it over TLS as well
            // (RFC 9112 §9.8), or something else proves it.
            if hop.url.scheme == .https, !head.isDelimited(hop.method) { transfer?.requireCloseNotify() }
            if head.isAmbiguouslyFramed { transfer?.forbidReuse() }
            guard attempt.mayBeAnswered(head, of: hop) else {
                guard takeHead(head) else { return false }
                // Otherwise libcurl sends an answer of its own.
                guard attempt.answersChallenges(of: hop),
                    redirect?.digest != nil || hop.needsBodyHash(head, for: attempt.spec)
                else { return true }
                handle(.enoughDiscarded)
                return false
            }
            reader.hold()
            return true
        case .invalid(let rule):
            return refuse(.responseInvalid, "The server's answer is not HTTP. \(rule)")
        case .tooLarge:
            return refuse(.responseTooLarge, "The head of the server's response is too large.")
        }
    }

    private func refuse(_ code: TransferError.Code, _ message: String) -> Bool {
        handle(.bodyRefused(TransferError(code, message, phase: .waiting, isRetryable: false)))
        return false
    }

    private func judge(isDecoded: Bool) -> ResponseJudge {
        ResponseJudge(
            spec: attempt.spec, egress: context.configuration.egress, isDecoded: isDecoded,
            hasNTLM: context.builder.supportsNTLM)
    }

    /// The current request, as the decision about its response sees it.
    private var requested: ResponseTable.Requested {
        let range = offset.map { $0..<Int64.max }
        return ResponseTable.Requested(
            hop: hop, range: range, hasIfRange: range != nil && continuation.hasIfRange,
            expects: expects && hop.sendsBody && body.byteCount ?? .max >= 1 << 20,
            asksForCodings: response.codings != nil)
    }

    /// Judges the head. `false`: the attempt has ended.
    private func takeHead(_ head: ResponseHead) -> Bool {
        guard head.hasClearLength else {
            return refuse(.responseInvalid, "The length of the server's answer is ambiguous.")
        }
        // Nobody asked for another protocol (RFC 9110 §15.2.2).
        guard head.status != 101 else {
            return refuse(.responseInvalid, "The server switched to another protocol.")
        }
        response.examine(head)
        let requested = requested
        let judgement = judge(isDecoded: response.isDecoded).judge(
            head, requested, known: requested.range == nil ? nil : continuation.record?.known,
            now: context.clock.now())
        response.pass(to: .discard)
        do throws(TransferError) {
            handle(.head(try carryOut(judgement, head)))
        } catch {
            handle(.bodyRefused(error))
            return false
        }
        return true
    }

    private func carryOut(
        _ judgement: ResponseJudge.Judgement, _ head: ResponseHead
    ) throws(TransferError) -> AttemptMachine.HeadVerdict {
        switch judgement {
        case .take(let body):
            // An upload keeps the response's body, if it has one.
            if attempt.spec.kind != .upload || head.hasBody(hop.method) && body.total != 0 {
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
    /// accepted response; if that is not possible, the upload is rejected all the same.
    private func refusal(
        _ error: TransferError, retryAfter: Double?, _ head: ResponseHead
    ) -> AttemptMachine.HeadVerdict {
        let refusal = AttemptMachine.HeadVerdict.refuse(error, retryAfter: retryAfter)
        let total = response.isDecoded ? nil : head.contentLength
        guard attempt.spec.kind == .upload, head.hasBody(hop.method), total != 0 else { return refusal }
        let rejecting = AcceptedResponse(
            head: head, hop: hop, isDecoded: response.isDecoded, body: .init(total: total), earlier: nil,
            record: nil, isRejection: true)
        do throws(TransferError) {
            let sink = try takeSink()
            try rejecting.begin(in: sink, for: attempt, progress, isPaced: pacing != nil, on: loop)
            if sink.writesLater { sink.writeFailed = { [weak self] _ in _ = self?.dropRejectedBody() } }
            response.keepRejected(head, in: sink)
            return .refuseKeepingBody(error, retryAfter: retryAfter)
        } catch {
            // The disk is full, or the body is longer than the job accepts.
            return refusal
        }
    }

    /// Takes the body of an accepted response.
    private func take(_ body: ResponseTable.Body, _ head: ResponseHead) throws(TransferError) {
        guard body.continues else {
            dropBytes()
            try accept(head, body, nil)
            return noteResumption(at: 0)
        }
        let held = heldByteCount ?? 0
        // The last byte may have been requested again.
        let skip = body.skip + held - (offset ?? held)
        continuation.learn(total: body.total)
        if let total = body.total, let sink, sink.isBegun {
            try sink.expect(total: total)
            sink.digests?.expect(head.announcedDigests(of: .continued))
            progress.expect(toReceive: total)
            response.pass(to: .sink(sink))
        } else {
            try accept(head, body, sink?.earlier)
        }
        if let sink = response.sink {
            response.pass(to: sink, skipping: skip, byteCount: body.end.map { max(0, $0 - held) })
        }
        noteResumption(at: held)
    }

    /// Judges a head that libcurl did not answer by itself, if there is one.
    private func takeHeldHead() -> Bool { reader.takeHeld().map { takeHead($0) } ?? true }

    /// Takes the body from now on. `earlier`: the bytes that it continues; `nil`: the file begins anew.
    private func accept(
        _ head: ResponseHead, _ body: ResponseTable.Body, _ earlier: EarlierBytes?
    ) throws(TransferError) {
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
        if let length, length >= EngineLimits.bulkByteCountMin { becomeBulk() }
        try accepted.begin(in: sink, for: attempt, progress, isPaced: pacing != nil, on: loop)
        if sink.writesLater { sink.writeFailed = { [weak self] in self?.handle(.bodyRefused($0)) } }
        response.pass(to: .sink(sink))
    }

    func receiveBody(_ bytes: UnsafeRawBufferPointer) -> BodyVerdict {
        noteActivity()
        guard takeHeldHead() else { return .abort }
        guard response.isTaken else { return discard(bytes) }
        let takesAll = response.takesAll
        guard takesAll || !response.fallsBehind() && mayMove(bytes.count, .receiving) else { return .pause }
        let before = progress.bytesReceived
        do throws(TransferError) {
            let byteCount = try response.append(bytes, turn: loop.multi.now)
            if !machine.isDiscarding { progress.set(received: byteCount) }
        } catch {
            if dropRejectedBody() {
                recorder.received(bytes.count)
                context.metrics.received(bytes.count)
                return .proceed
            }
            if error != .undecodable || !sendsAgainWithoutCodings() {
                handle(.bodyRefused(error))
            }
            return .abort
        }
        speed.moved(bytes.count)
        let isCounted = response.isDecoded && !machine.isDiscarding
        recorder.received(isCounted ? Int(progress.bytesReceived - before) : bytes.count)
        context.metrics.received(bytes.count)
        if takesAll {
            charge(bytes.count)
            if !response.waitsForDigest, response.fallsBehind() { transfer?.pauseReceiving() }
        }
        return .proceed
    }

    /// Drops the body of a response that rejects an upload, which cannot be stored. Returns `false` if the
    /// body that arrives is not one.
    private func dropRejectedBody() -> Bool {
        guard machine.isDiscarding, response.isTaken else { return false }
        response.dropRejected()
        return true
    }

    private func discard(_ bytes: UnsafeRawBufferPointer) -> BodyVerdict {
        let isEnough = response.discard(bytes, of: reader.head, isRedirect: redirect != nil)
        recorder.received(bytes.count)
        context.metrics.received(bytes.count)
        guard isEnough else { return .proceed }
        let answered = transfer
        handle(.enoughDiscarded)
        // Else the next request may be under way.
        guard !machine.isEnded, transfer === answered, body.isSent else { return .abort }
        // An upload is over; how much the server has to say about it does not matter.
        perform(.stopTransfer)
        handle(.transferEnded(nil))
        return .abort
    }

    func digestCaughtUp() {
        do throws(TransferError) {
            guard try response.hasCaughtUp() else { return }
        } catch {
            guard dropRejectedBody() else { return handle(.bodyRefused(error)) }
        }
        lastActivity = loop.multi.now
        transfer?.resume()
    }

    func finished(_ outcome: TransferOutcome) {
        var outcome = outcome
        if outcome.error == nil, outcome.lacksCloseNotify, attempt.spec.kind != .upload,
            let head = reader.head, response.endsWithConnection(head, hop, attempt.spec.integrity)
        {
            outcome.error = .missingCloseNotify
        }
        transfer = nil
        needSlot()
        context.metrics.connected(outcome.info)
        recorder.end(
            outcome.info, measured, isWhole: outcome.error == nil,
            isBlocked: outcome.blockedAddress != nil, in: &trace)
        guard let error = outcome.error else {
            guard takeHeldHead() else { return }
            let isShort = response.sink?.isShort ?? false
            if isShort, goesOn(after: .shortBody) || repeatsOutcome(after: .shortBody) { return }
            handle(.transferEnded(nil))
            return
        }
        reader.dropHeld()
        if error == .unrequestedCoding, sendsAgainWithoutCodings() {
            return handle(.transferEnded(nil))
        }
        trace.note(.init(curlCode: error.code, curlMessage: error.text, osError: error.osError))
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
            hasHead: reader.head != nil, isRepeatable: repetition.maySendTwice, sentWholeBody: hasSentBody,
            proxy: context.builder.proxyScheme(attempt, hop.url), isSecure: hop.url.scheme == .https,
            host: hop.url.host)
        let failure = transportFailure(error, outcome.info, facts)
        if goesOn(after: failure.error) { return }
        // A dead kept connection is replaced at once.
        if failure.mayRepeatAtOnce || !repeatsOutcome(after: failure.error) {
            handle(.transferEnded(failure))
        }
    }

    /// Continues the body with another request if it has stopped too early and new bytes have come that this
    /// request can prove. Returns `false` if the attempt ends instead.
    private func goesOn(after error: TransferError) -> Bool {
        guard let byteCount = response.sink?.byteCount, error.mayContinue,
            continuation.goesOn(at: byteCount, jitter: .random(in: 0...1))
        else { return false }
        handle(.interrupted)
        return true
    }

    /// Requests the outcome of a request that must not be sent again once more, from byte 0 on, if its
    /// response has not come whole. Returns `false` if the attempt ends instead.
    private func repeatsOutcome(after error: TransferError) -> Bool {
        let isLost = error.mayContinue || [.couldNotConnect, .hostNotFound].contains(error.code)
        guard hop.hasActed, repetition.maySendTwice, error.isRetryable, isLost, !machine.isDiscarding,
            continuation.mayWait(nil)
        else { return false }
        handle(.interrupted)
        return true
    }

    /// Discards a body with a coding that was not asked for, or that cannot be decoded, and sends the request
    /// again without codings. Returns `false` if it is not sent again.
    private func sendsAgainWithoutCodings() -> Bool {
        let table = ResponseTable(spec: attempt.spec)
        guard let change = table.changeAfterUnusableCoding(requested) else { return false }
        self.change = change
        sink?.abort()
        response.pass(to: .none)
        progress.set(received: 0)
        handle(.head(.again))
        return true
    }

    /// Whether the client is asked about a proxy that has refused a tunnel; the attempt has ended then.
    private func asksAboutTunnel(_ error: CurlError) -> Bool {
        guard error.proxyStatus == 407 || error.proxyStatus == 401, reader.head == nil,
            let question = judge(isDecoded: false).question(aboutTunnel: error, hop, context.clock.now())
        else { return false }
        handle(.head(.ask(question)))
        handle(.transferEnded(nil))
        return true
    }

    /// Takes a response that came while the body was being sent, before the server closed the connection:
    /// libcurl reports only that it was closed.
    private func takeUnread(_ bytes: [UInt8]) {
        guard reader.head == nil, hop.sendsBody, !attempt.answersChallenges(of: hop),
            bytes.starts(with: "HTTP/1.".utf8), let head = reader.take(unread: bytes)
        else { return }
        _ = takeHead(head)
    }

    // MARK: Speed

    /// Whether the limits let these bytes pass now; otherwise the transfer is resumed when they do. libcurl's
    /// own limit is an average that lets a megabyte through at once.
    private func mayMove(_ byteCount: Int, _ direction: Pacing.Direction) -> Bool {
        guard let pacing else { return true }
        let wait = pacing.take(byteCount, direction, now: loop.multi.now)
        if wait > 0 {
            speed.excuse()
            pacing.wake(self, after: wait, on: loop.multi) { $0.resumePaced() }
        }
        return wait <= 0
    }

    /// Counts bytes that have come already: those that follow wait for them.
    private func charge(_ byteCount: Int) {
        guard let pacing else { return }
        pacing.charge(byteCount, .receiving, now: loop.multi.now)
        let wait = pacing.timeLeft(loop.multi.now)
        guard wait > 0 else { return }
        speed.excuse()
        transfer?.pauseReceiving()
        pacing.wake(self, after: wait, on: loop.multi) { $0.resumePaced() }
    }

    /// Resumes a paused transfer if the limits let its bytes pass by now, otherwise when they do.
    private func resumePaced() {
        guard !response.waitsForDigest, !machine.isEnded, let transfer, transfer.isPaused else { return }
        if let pacing, pacing.timeLeft(loop.multi.now) > 0 {
            pacing.wake(self, after: pacing.timeLeft(loop.multi.now), on: loop.multi) { $0.resumePaced() }
            return
        }
        lastActivity = loop.multi.now
        transfer.resume()
    }

    /// Takes a place in the limits that hold for the current hop. `job`: its own limit.
    private func pace(job: TokenBucket?) {
        pacing = context.rates.pacing(of: attempt, at: hop.url, job: job)
    }

    private func changeRate(_ bytesPerSecond: Int64?) {
        pace(job: bytesPerSecond.map { TokenBucket(bytesPerSecond: $0, now: loop.multi.now) })
        resumePaced()
    }

    func adopt(_ edit: AttemptEdit) {
        let rate = (self.edit?.spec ?? attempt.spec).bytesPerSecondMax
        self.edit = edit
        if edit.spec.bytesPerSecondMax != rate { changeRate(edit.spec.bytesPerSecondMax) }
    }

    /// In the same limits the transfer keeps its place, which may come sooner now.
    func limitsChanged() {
        let now = context.rates.pacing(of: attempt, at: hop.url, job: pacing?.job)
        if let now, let pacing, now.holds(like: pacing) { return resumePaced() }
        pacing = now
        resumePaced()
    }

    // MARK: Storing and reporting

    /// libcurl has seen the whole response.
    private func store() {
        let isDelimited = reader.head?.isDelimited(hop.method) ?? false
        let isRejected = machine.rejection != nil
        do throws(TransferError) {
            if sent == nil, !isRejected { try body.check() }
            if attempt.spec.kind == .upload, sent == nil, !isRejected {
                let (key, onLoop) = (key, loop.runner)
                try body.finish(
                    attempt.spec.integrity, isDelimited: isDelimited, wasSentBefore: first.hasDroppedBody
                ) { event in onLoop { $0.handle(event, for: key) } }
                return
            }
            switch try response.finish(attempt.spec, hop, isDelimited: isDelimited) {
            case .result(let result): handle(.stored(sent?.keeping(result) ?? result))
            case .content(let sink): try publish(sink, isDelimited: isDelimited)
            case nil:
                // The body of a response that rejects an upload was dropped.
                throw TransferError(
                    .storageFailed, "The body of the response was not stored.", phase: .finishing,
                    isRetryable: true)
            }
        } catch {
            handle(.storageFailed(error))
        }
    }

    private func publish(_ sink: any StreamSink, isDelimited: Bool) throws(TransferError) {
        // No input reaches this: the body has come, so that the content has begun.
        guard let digests = sink.digests, let byteCount = sink.byteCount else {
            preconditionFailure("no content has begun")
        }
        let verified = digests.verification(attempt.spec.receivedIntegrity, isDelimited: isDelimited)
        let (loop, offset, sent) = (loop, progress.resumedAtOffset, sent)
        // The response is over: nothing of the result but its outcome changes from here on.
        let isRejection = machine.rejection != nil
        let ended = result(machine.rejection ?? .released)
        let isInline = !attempt.spec.storesFile && byteCount <= Int64(Limits.inlineBodyByteCountMax)
        publication = try sink.commit { content in
            loop.publication(
                of: content, digests, verified, ended, resumedAt: offset, sent: sent, isInline: isInline,
                isRejection: isRejection)
        }
        response.pass(to: .none)
    }

    func report(_ outcome: AttemptResult.Outcome, partial: PartialDownload?) {
        leave()
        let outcome = continuation.weighed(settled(outcome), partial)
        if case .failed(let error, _) = outcome, let found = error.diagnostics { trace.note(found) }
        context.report(result(outcome, partial: partial))
    }

    private func leave() {
        takeBackSlot()
        sink?.release()
        if isBulk { context.bulk.ended(on: loop.index) }
        loop.ended(key)
    }

    private func result(
        _ outcome: AttemptResult.Outcome, partial: PartialDownload? = nil
    ) -> AttemptResult {
        let head = reader.head
        var shown = head?.response(from: hop.url)
        shown?.bodyExcerpt = response.excerptText
        // Whether a failure says nothing about the job's own host.
        let isElsewhere = attempt.hasOwnProxy || hop.url.origin != attempt.origin
        var result = AttemptResult(
            attempt: attempt, outcome: repetition.permitted(outcome, mayHaveReached: mayHaveReached),
            response: shown, bytesReceived: progress.bytesReceived, bytesSent: progress.bytesSent,
            trace: trace.trace(finishedAt: context.clock.now()), partialDownload: partial,
            endedAtOtherHost: isElsewhere || trace.diagnostics.isOwnShortage,
            hostResponse: head.flatMap { context.hostResponse($0, from: hop.url, to: attempt) },
            home: bodyNode)
        result.lentSeconds = slot.lentSeconds
        result.delayedRedirect = delayedRedirect
        if let rejectedBody { result.keepRejected(rejectedBody) }
        return result
    }

    // MARK: State for the loop

    var snapshot: AttemptSnapshot {
        trace.snapshot(attempt.number, running: recorder.running(transfer, measured).map { [$0] } ?? [])
    }

    private var measured: TransactionRecorder.Request {
        .init(
            hop: hop, isOwn: hop.isSame(as: own),
            hidesRemote: context.builder.usesServiceProxy(attempt, hop.url))
    }

    var isConnecting: Bool { transfer != nil && !mayHaveReached }

    func idleTime(_ now: Int64) -> Int64 {
        if let waitsSince { return now - waitsSince }
        return transfer?.isPaused ?? true ? 0 : now - lastActivity
    }

    var waitsForServer: Bool { waitsSince != nil || transfer.map { !$0.isPaused } ?? false }

    var unansweredScope: RequestScope? {
        mayHaveReached && reader.head == nil && !attempt.hasOwnProxy ? attempt.scope(of: hop.url) : nil
    }

    var waitsForDisk: Bool {
        machine.waitsForDisk || response.waitsForDigest || awaitedOutcome != nil
    }

    func giveUpOnDisk(_ error: TransferError) {
        if let outcome = awaitedOutcome { return report(outcome, partial: nil) }
        guard publication?.revoke() ?? true else { return }
        handle(.diskTimedOut(error))
    }

    func secondPassed(_ now: Int64, _ seconds: Double) {
        progress.measure(seconds: seconds)
        do throws(TransferError) {
            try sink?.secondPassed(now)
        } catch {
            guard dropRejectedBody() else { return handle(.bodyRefused(error)) }
        }
        let timeout = attempt.spec.request.timeoutForRequest
        let isUnwanted = machine.isDiscarding && !response.isTaken
        discardSeconds = transfer != nil && isUnwanted ? discardSeconds + 1 : 0
        if now >= resourceDeadline {
            handle(.timedOut(attempt.overdue(phase)))
        } else if discardSeconds > EngineLimits.discardSecondsMax {
            handle(.enoughDiscarded)
        } else if transfer != nil, idleTime(now) > Int64(timeout * 1e9) {
            endSlow(
                TransferError(
                    .timedOut, "No byte moved for \(timeout) seconds.", phase: phase, isRetryable: true))
        } else if let transfer, mayHaveReached,
            let error = speed.secondPassed(seconds, isPaused: transfer.isPaused, phase)
        {
            endSlow(error)
        }
    }

    /// Gives the connection up. Goes on as the head demands if its body is not wanted, or continues the body
    /// with another connection if that is possible.
    private func endSlow(_ error: TransferError) {
        if machine.isDiscarding { return handle(.enoughDiscarded) }
        if !goesOn(after: error), !repeatsOutcome(after: error) { handle(.timedOut(error)) }
    }

    private var phase: TransferError.Phase {
        if reader.head != nil { return .receiving }
        guard let info = transfer?.info, info.timings.preTransfer > 0 else { return .connecting }
        return hasSentBody ? .waiting : .sending
    }
}
