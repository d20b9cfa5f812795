import Curl
import FerryCore

/// One request after the other: the job's own, those that redirects and challenges lead to, and those that
/// continue a body. Loop thread only.
///
/// The state of one request is in its `HTTPExchange`; the body that is sent is in `RequestBody`, the
/// response's in `ResponseBody`, and the rules for its continuation are in `BodyContinuation`.
final class SerialExchanges: AttemptExchanges {
    unowned let running: RunningAttempt
    private(set) lazy var exchange = HTTPExchange(
        running.attempt.firstHop
            ?? Hop(
                url: running.attempt.spec.request.webURL, method: running.attempt.spec.request.method,
                sendsBody: false), of: running, for: self)
    /// The attempt's first request.
    var first: Hop?
    /// The request that the current response leads to.
    var redirect: Hop?
    /// The request that the next attempt sends; `nil`: the job's own.
    var delayedRedirect: DelayedRedirect?
    /// Whether the job's own URL was requested again because the target of a redirect had expired, and no
    /// response was accepted since.
    var hasBegunAgain = false
    /// The change that the current response demands.
    var change: ResponseTable.Change?
    /// Whether `Expect: 100-continue` may be sent.
    private var expects = true
    /// Fields of the job that the next request uses; `nil` if they have not changed.
    var edit: AttemptEdit?
    private var permit: ConnectionPermit
    var mark = RequestMarkState.none

    /// Fetches the body of a copy; `nil` for other jobs.
    private(set) var source: SourceExchange?
    /// The body of a copy as the source has described it; `nil` until it has, and for other jobs.
    var copiedContents: BodyContents?
    /// Whether the target demands the length of a copy that only the end of its source tells.
    var mustFetchWhole = false
    /// The body of a copy while its bytes come that have to be there before the request; else `nil`.
    var arriving: BodyContents?
    /// Puts the body together, until its reply has come.
    private var assembly: BodyAssembly?
    var body = RequestBody()
    /// Number of requests with the body so far.
    private(set) var bodyRequestCount = 0
    /// `nil` if the body is sent without a protocol of resumable uploads.
    var upload: ResumableTransfer?
    /// Whether a later attempt or another job may continue the upload.
    var keepsUpload = false
    /// The node that has the body, if this one has not.
    var bodyNode: NodeID?

    let response: ResponseBody
    /// The attempt's content; `nil` until bytes are to be stored.
    private(set) var content: (any StreamSink)?
    var continuation: BodyContinuation
    /// The result of an upload whose response is still to be kept.
    var sent: TransferResult?
    /// The stored body of the response that has rejected an upload, or `nil`.
    var rejectedBody: TransferResult?
    /// When the attempt began to wait before its next request, in nanoseconds of the loop's clock; `nil` if
    /// it does not.
    private var waitsSince: Int64?

    init(of running: RunningAttempt) {
        self.running = running
        permit = ConnectionPermit(hasOwn: running.isLeasedForTarget)
        response = ResponseBody(running.attempt.spec.request.acceptEncoding)
        continuation = BodyContinuation(running.attempt.spec)
    }

    var attempt: Attempt { running.attempt }
    var context: EngineContext { running.context }
    var loop: EngineLoop { running.loop }
    var progress: ProgressMeter { running.progress }
    var sink: (any ByteSink)? { content }
    var repetition: RequestRepetition { exchange.repetition }

    // MARK: State machine

    func revise(_ event: AttemptMachine.Event) -> AttemptMachine.Event? {
        switch event {
        // The store refuses such a suspension; it may have come before the request was sent.
        case .stop(.suspend) where !repetition.mayTryAgain(mayHaveReached: exchange.mayHaveReached):
            return nil
        case .storageFailed(let error) where continuation.fetchesAgain(after: error):
            progress.set(received: 0)
            return .fetchAgain
        case .stored(let result)
        where attempt.spec.kind == .upload && sent == nil && response.isTaken && !running.isEnded:
            guard running.rejection != nil else {
                sent = result
                store()
                return nil
            }
            rejectedBody = result
            return event
        default: return event
        }
    }

    func perform(_ action: AttemptMachine.Action) {
        switch action {
        case .start(let fresh): start(fresh: fresh)
        case .stopTransfer: exchange.stop()
        case .follow:
            if let redirect {
                exchange.hop = redirect
                pace(job: exchange.pacing?.job)
                if redirect.redirectCount > 0 { running.trace.followedRedirect() }
            }
            redirect = nil
        case .change: makeChange()
        case .startLater: startLater()
        case .endPreparation:
            assembly?.stop()
            if attempt.spec.isSentToStore { body.stopHashing() }
        case .store:
            permit.end(for: attempt, on: loop)
            store()
        case .discardBytes:
            if content?.earlier != nil { progress.set(received: 0) }
            continuation.forget()
        case .report:
            source?.stop()
            permit.end(for: attempt, on: loop)
        case .keepBytes: keepsUpload = true
        case .revokeStorage: if hashesRest { running.handle(.revoked) }
        case .leave: break
        }
    }

    // MARK: Preparation

    /// Opens the body, and looks for the bytes of earlier attempts.
    func begin() throws(TransferError) {
        changeRate(attempt.spec.bytesPerSecondMax)
        if let from = running.source {
            source = SourceExchange(from, of: self, hasConnection: !running.isLeasedForTarget)
            exchange.hop.sendsBody = !exchange.hop.hasDroppedBody
            return running.handle(.prepared)
        }
        guard running.leased.spec.otherServer == nil else { throw .damagedCopy }
        if let assembly = BodyAssembly(attempt, context) {
            let (key, onLoop) = (running.key, loop.runner)
            self.assembly = assembly
            return assembly.open { contents in onLoop { $0.take(.bodyOpened(contents), for: key) } }
        }
        if let contents = try RequestBody.contents(of: attempt, context) { try open(contents) }
        guard attempt.spec.storesFile else { return try finishPreparation() }
        try running.open(try takeSink())
    }

    func take(_ reply: ExchangeReply) {
        switch reply {
        case .bodyOpened(let contents): opened(contents)
        case .bodyHashed(let digests): hashed(digests)
        case .bodyReadable: if !hashesRest { exchange.resume() } else { store() }
        case .sourceDemanded(let demand): source?.take(demand)
        case .marked(let isHeld): marked(isHeld: isHeld)
        case .placeCaughtUp: placeCaughtUp()
        // Only parts wait for that.
        case .contentRemoved, .partHashed, .fetchedHashed: break
        }
    }

    private func opened(_ contents: Result<BodyContents, BodyAssembly.Failure>) {
        assembly = nil
        switch contents {
        case .success(let contents):
            running.prepare { () throws(TransferError) in
                try open(contents)
                try finishPreparation()
            }
        case .failure(.failed(let error)): running.handle(.preparationFailed(error))
        case .failure(.elsewhere(let node)):
            bodyNode = node
            running.handle(.release)
            running.handle(.prepared)
        }
    }

    /// The signature of a request to a store needs the digest of the body. A large one is sent in parts.
    private func finishPreparation() throws(TransferError) {
        guard attempt.spec.isSentToStore else { return running.handle(.prepared) }
        if let others = MultipartExchanges(of: running, body) { return running.pass(to: others) }
        let (key, onLoop) = (running.key, loop.runner)
        try body.hashBeforeSending { digests in onLoop { $0.take(.bodyHashed(digests), for: key) } }
    }

    private func hashed(_ digests: Result<PayloadDigests, TransferError>) {
        guard !running.isEnded else { return }
        switch digests {
        case .success(let digests):
            body.take(digests)
            if source == nil { running.handle(.prepared) } else { start(fresh: false) }
        case .failure(let error):
            running.handle(source == nil ? .preparationFailed(error) : .bodyRefused(error))
        }
    }

    func open(_ contents: BodyContents) throws(TransferError) {
        try body.open(contents, of: attempt.spec, context.fileThreads)
        exchange.hop.sendsBody = !exchange.hop.hasDroppedBody
        try beginUpload(contents)
        progress.expect(toSend: body.byteCount)
        if body.byteCount ?? .max >= EngineLimits.bulkByteCountMin { running.becomeBulk() }
    }

    func sinkOpened(_ failure: TransferError?) {
        if let earlier = content?.earlier {
            continuation.resume(earlier)
            running.foundByteCount = earlier.offset
            progress.resume(at: earlier.offset)
            progress.expect(toReceive: earlier.record.total)
        }
        running.handle(failure.map { .preparationFailed($0) } ?? .prepared)
    }

    /// Returns the sink, which is made when it is first needed.
    func takeSink() throws(TransferError) -> any StreamSink {
        if let content { return content }
        let made = try context.places[attempt.spec.contentLocation].sink(for: attempt, on: loop)
        content = made
        return made
    }

    /// Removes the bytes that are there.
    func dropBytes() {
        if content?.drop() ?? false { progress.set(received: 0) }
        continuation.forget()
    }

    // MARK: Sending the request

    func start(fresh: Bool) {
        if let source, source.isOpening, exchange.hop.sendsBody { return source.begin() }
        // `sourceAdvanced` sends the request.
        guard arriving == nil else { return }
        if first == nil { first = exchange.hop }
        response.reset()
        applyEdit()
        exchange.reset()
        if usesCredentials { context.addKnownCredentials(to: &exchange.hop, of: attempt) }
        let hop = exchange.hop
        if let upload { body.select(upload.range(of: hop)) }
        guard mayConnect(permit.ask(for: attempt, hop, isFresh: fresh, on: loop), fresh: fresh),
            isMarked(fresh: fresh), rewindBody()
        else { return }
        var request = context.builder.request(
            for: attempt, hop, body: body.source, expects: expects, codings: response.codings,
            resuming: upload?.fields(of: hop) ?? continuation.fields(from: offset))
        request.receiveBufferSize = receiveBufferSize
        if let pacing = exchange.pacing {
            request.receiveBufferSize = min(pacing.portion, receiveBufferSize)
            request.sendBufferSize = EngineLimits.pacedBufferSize
        }
        // On a dead kept connection libcurl repeats a request by itself. One that is not idempotent gets a
        // new connection: each time that it is sent counts toward `retry.max_attempts`.
        let isCounted = !JobSpec.isIdempotent(hop.method) && hop.upload?.maySendTwice != true
        if fresh || isCounted { request.usesFreshConnection = true }
        if hop.sendsBody { bodyRequestCount += 1 }
        guard let error = exchange.send(request) else { return }
        running.handle(.transferEnded(exchange.meaning(ofUnsent: error)))
    }

    /// Whether the current request may be sent, as far as the database has to know of it: should this node
    /// die, a request that must not be sent twice tells whether the job may begin again. `false`: the reply
    /// decides.
    private func isMarked(fresh: Bool) -> Bool {
        guard !repetition.mayTryAgain(mayHaveReached: true), mark != .made, let marker = context.marker else {
            return true
        }
        if mark == .none {
            mark = .asked(isFresh: fresh)
            let (key, onLoop) = (running.key, loop.runner)
            marker.mark(attempt) { isHeld in onLoop { $0.take(.marked(isHeld: isHeld), for: key) } }
        }
        return false
    }

    private func marked(isHeld: Bool) {
        guard !running.isEnded, case .asked(let isFresh) = mark else { return }
        // Another node has the job by now.
        guard isHeld else { return running.handle(.release) }
        mark = .made
        start(fresh: isFresh)
    }

    /// Whether requests may send credentials of the session. The body of a copy cannot be sent again.
    var usesCredentials: Bool { context.sessions.hasCredentials && source == nil }

    /// The job's own request.
    var jobHop: Hop {
        let request = attempt.spec.request
        return Hop(url: request.webURL, method: request.method, sendsBody: body.source != nil)
    }

    /// The job's own request, or the first one of its resumable upload.
    var ownHop: Hop { upload?.first(jobHop) ?? jobHop }

    /// Uses the edited fields from now on. Another URL begins the chain of redirects anew, unless that would
    /// send a request twice that must not be.
    private func applyEdit() {
        guard let edit else { return }
        self.edit = nil
        let before = attempt.spec.request
        running.apply(edit)
        if let from = running.source { source?.adopt(from) }
        let request = attempt.spec.request
        // No response could prove that the earlier bytes belong to this request.
        if PartialRecord.identity(of: request) != PartialRecord.identity(of: before) { dropBytes() }
        exchange.hop.digest = nil
        if !isSameLink(request.url, before.url) { upload?.forget() }
        guard request.url != before.url, !exchange.hop.hasActed || attempt.spec.allowsAnyRepetition
        else { return }
        let hop = ownHop
        first = hop
        exchange.hop = hop
        pace(job: exchange.pacing?.job)
    }

    /// Sends the next request after the delay that `continuation` names: the job's own one if it continues a
    /// body, since what a redirect led to may have expired.
    private func startLater() {
        if continuation.isProgressing, exchange.hop.redirectCount > 0, !exchange.hop.hasActed, let first {
            exchange.hop = first
            pace(job: exchange.pacing?.job)
        }
        // A nonce answers one request.
        exchange.hop.digest = nil
        waitsSince = loop.multi.now
        loop.multi.after(nanoseconds: Int64(continuation.delay * 1e9)) { [weak self] in
            guard let self, !running.isEnded else { return }
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
        if mustFetchWhole { fetchWhole() }
        exchange.hop.digest = nil
    }

    /// Number of bytes that are there; `nil` if the file begins anew.
    var heldByteCount: Int64? { response.isTaken ? nil : content?.byteCount }

    /// The first byte to request; `nil` for the whole file.
    var offset: Int64? { heldByteCount.flatMap { continuation.offset(after: $0) } }

    /// The current request, as the decision about its response sees it.
    var requested: ResponseTable.Requested {
        let range = offset.map { $0..<Int64.max }
        return ResponseTable.Requested(
            hop: exchange.hop, range: range, hasIfRange: range != nil && continuation.hasIfRange,
            expects: expects && exchange.hop.sendsBody && body.byteCount ?? .max >= 1 << 20,
            asksForCodings: response.codings != nil, hasBegunAgain: hasBegunAgain)
    }

    private var receiveBufferSize: Int {
        if response.codings != nil { return EngineLimits.codedReceiveBufferSize }
        if running.isBulk { return EngineLimits.bulkReceiveBufferSize }
        if loop.usesLargeBuffers { return EngineLimits.largeReceiveBufferSize }
        return loop.isCrowded ? EngineLimits.crowdedReceiveBufferSize : EngineLimits.receiveBufferSize
    }

    // MARK: Permission to connect

    /// Whether the current request may connect. `false`: it is sent later, or the attempt is put off. What
    /// was sent already must not be sent again; such an attempt keeps its slot and asks again later.
    private func mayConnect(_ decision: ConnectionPermit.Decision, fresh: Bool) -> Bool {
        switch decision {
        case .connect: return true
        case .wait: return false
        case .refused(let hold) where repetition.mayTryAgain(mayHaveReached: true):
            running.handle(.putOff(hold))
            return false
        case .refused:
            loop.multi.after(nanoseconds: EngineLimits.refusalPause) { [weak self] in
                guard let self, !running.isEnded else { return }
                start(fresh: fresh)
            }
            return false
        }
    }

    func connectionAnswered(_ grant: ConnectionGrant, at scope: RequestScope) -> Bool {
        guard !running.isEnded,
            let (decision, isFresh) = permit.answered(grant, at: scope, for: attempt)
        else { return !running.isEnded && source?.connectionAnswered(grant, at: scope) ?? false }
        if mayConnect(decision, fresh: isFresh) { start(fresh: isFresh) }
        return true
    }

    // MARK: Speed

    /// Takes a place in the limits that hold for the current hop. `job`: its own limit.
    func pace(job: TokenBucket?) {
        exchange.pace(context.rates.pacing(of: attempt, at: exchange.hop.url, job: job))
    }

    private func changeRate(_ bytesPerSecond: Int64?) {
        pace(job: bytesPerSecond.map { TokenBucket(bytesPerSecond: $0, now: loop.multi.now) })
        exchange.resume()
    }

    func adopt(_ edit: AttemptEdit) {
        let rate = (self.edit?.spec ?? attempt.spec).bytesPerSecondMax
        self.edit = edit
        if edit.spec.bytesPerSecondMax != rate { changeRate(edit.spec.bytesPerSecondMax) }
    }

    /// In the same limits the transfer keeps its place, which may come sooner now.
    func limitsChanged() {
        let now = context.rates.pacing(of: attempt, at: exchange.hop.url, job: exchange.pacing?.job)
        if let now, let pacing = exchange.pacing, now.holds(like: pacing) { return exchange.resume() }
        exchange.pace(now)
        exchange.resume()
        source?.limitsChanged()
    }

    // MARK: State for the loop

    var runningTransactions: [TransactionMetrics] { exchange.runningTransaction.map { [$0] } ?? [] }

    var activity: ExchangeActivity {
        ExchangeActivity(
            idleTime: waitsSince.map { loop.multi.now - $0 }
                ?? max(exchange.idleTime, source?.exchange.idleTime ?? 0),
            isConnecting: exchange.isConnecting || source?.exchange.isConnecting ?? false,
            waitsForServer: waitsSince != nil || exchange.isReading || source?.exchange.isReading ?? false,
            waitsForPlace: response.waitsForDigest)
    }

    var unansweredScope: RequestScope? {
        exchange.mayHaveReached && exchange.head == nil && !attempt.hasOwnProxy
            ? attempt.scope(of: exchange.hop.url) : nil
    }

    func secondPassed(_ now: Int64, _ seconds: Double) {
        do throws(TransferError) {
            try content?.secondPassed(now)
        } catch {
            guard dropRejectedBody() else { return running.handle(.bodyRefused(error)) }
        }
        source?.secondPassed(seconds)
        let trouble = exchange.secondPassed(seconds, isUnwanted: running.isDiscarding && !response.isTaken)
        if running.endIfOverdue(now, exchange.phase) { return }
        switch trouble {
        case .enoughUnwanted: running.handle(.enoughDiscarded)
        case .slow(let error): endSlow(error)
        case nil: break
        }
    }
}

/// Progress of the note that an attempt may have sent a request that must not be sent twice.
enum RequestMarkState: Equatable {
    case none
    /// The reply comes later. `isFresh`: as in `AttemptMachine.Action.start`.
    case asked(isFresh: Bool)
    case made
}
