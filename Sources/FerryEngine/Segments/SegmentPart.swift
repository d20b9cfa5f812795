import Curl
import FerryCore
import Logging

/// One request of a segmented download, with the redirects that it follows. Passes what libcurl reports to
/// its `SegmentedTransfer`. Loop thread only.
final class SegmentPart: EasyDelegate {
    private enum Sink {
        case none
        case body
        /// A redirect's own body.
        case discard(then: Hop, after: Double)
    }

    let id: SegmentPlan.Part
    /// Index in the transfer's sources.
    let source: Int
    /// `renewalCount` of the source when the part began.
    let renewalCount: Int
    /// The requested range; `nil` for the whole file without `Range`. The end is open (`bytes=5-`) if it is
    /// `.max`.
    private(set) var asked: Range<Int64>?
    private(set) var hasBegun = false
    /// The scope whose connection it uses.
    var connection: RequestScope?
    /// The scope whose connection it waits for.
    var awaited: RequestScope?
    /// Released when the part ends, which breaks the reference cycle.
    private var owner: SegmentedTransfer?
    private(set) var hop: Hop
    /// `nil` if no limit on speed holds.
    private(set) var pacing: Pacing?
    private var transfer: Transfer?
    private var recorder = TransactionRecorder()
    private var speed: LowSpeedWatch
    private var reader = ResponseHeadReader()
    private var sink = Sink.none
    private var discardedByteCount = 0
    private var discardSeconds = 0
    private var isFresh = false
    var hasHead: Bool { reader.head != nil }
    private let startedAt: Int64
    private var answeredAt: Int64?
    private(set) var lastActivity: Int64
    /// Whether no server has been reached yet.
    private(set) var isConnecting = true
    private(set) var receivedByteCount: Int64 = 0
    /// Whether the response ends before the requested range does.
    var isShort = false
    /// Bytes at the beginning of the response that are there already.
    var skip: Int64 = 0
    /// Written bytes that the file threads do not know of yet.
    var written: Range<Int64> = 0..<0

    init(_ id: SegmentPlan.Part, of owner: SegmentedTransfer, source: Int, _ hop: Hop) {
        self.id = id
        self.owner = owner
        self.source = source
        renewalCount = owner.sources[source].renewalCount
        self.hop = hop
        pacing = owner.pacing(at: hop.url)
        speed = LowSpeedWatch(owner.attempt.spec.lowSpeed, owner.context.configuration.lowSpeed)
        startedAt = owner.now
        lastActivity = startedAt
    }

    /// Sends the request. Called once.
    func begin(_ asked: Range<Int64>?) {
        self.asked = asked
        hasBegun = true
        let start = asked?.lowerBound ?? 0
        written = start..<start
        send()
    }

    private func send() {
        guard let owner else { return }
        reader = ResponseHeadReader()
        speed.restart()
        sink = .none
        discardedByteCount = 0
        discardSeconds = 0
        lastActivity = owner.now
        isConnecting = true
        var request = owner.request(for: self)
        if isFresh { request.usesFreshConnection = true }
        recorder.begin(request, attemptStart: owner.trace.start)
        do throws(CurlError) {
            transfer = try owner.loop.multi.start(request, delegate: self)
        } catch {
            recorder.abandon()
            let context = TransportContext(hasHead: false, isRepeatable: true, sentWholeBody: true)
            fail(.broken(transportFailure(error, TransferInfo(), context).error))
        }
    }

    /// Ends the request and closes its connection. The part reports nothing more. A second call does nothing.
    func stop() {
        stopTransfer()
        owner = nil
    }

    private func stopTransfer() {
        if let transfer, let owner {
            recorder.end(transfer.info, measured(owner), isWhole: false, in: &owner.trace)
        }
        transfer?.cancel()
        transfer = nil
    }

    private func measured(_ owner: SegmentedTransfer) -> TransactionRecorder.Request {
        .init(
            hop: hop, isOwn: hop.isSame(as: owner.own),
            hidesRemote: owner.context.builder.usesServiceProxy(owner.attempt, hop.url))
    }

    /// The metrics of the running request so far.
    var runningTransaction: TransactionMetrics? {
        owner.flatMap { recorder.running(transfer, measured($0)) }
    }

    /// Resumes reading after a pause.
    func resume() {
        guard let owner, let transfer, transfer.isPaused else { return }
        lastActivity = owner.now
        transfer.resume()
    }

    // MARK: Speed

    /// Whether the limits let these bytes pass now; otherwise the part is resumed when they do.
    func mayMove(_ byteCount: Int) -> Bool {
        guard let pacing, let owner else { return true }
        let wait = pacing.take(byteCount, .receiving, now: owner.now)
        if wait > 0 {
            speed.excuse()
            pacing.wake(self, after: wait, on: owner.loop.multi) { $0.resumePaced() }
        }
        return wait <= 0
    }

    private func resumePaced() {
        guard let owner, !owner.waitForDisk.contains(where: { $0 === self }) else { return }
        if let pacing, pacing.timeLeft(owner.now) > 0 {
            let wait = pacing.timeLeft(owner.now)
            pacing.wake(self, after: wait, on: owner.loop.multi) { $0.resumePaced() }
        } else {
            resume()
        }
    }

    func limitsChanged(_ pacing: Pacing?) {
        self.pacing = pacing
        resumePaced()
    }

    // MARK: State

    private func noteActivity(_ owner: SegmentedTransfer) {
        lastActivity = owner.now
        owner.needSlot()
    }

    /// Whether a request is under way and reading is not paused.
    var isReading: Bool { transfer.map { !$0.isPaused } ?? false }

    /// Nanoseconds without a byte; 0 while reading is paused.
    func idleTime(now: Int64) -> Int64 { transfer?.isPaused ?? true ? 0 : now - lastActivity }

    /// Called about once a second. Gives up a connection that is idle for longer than `timeout` seconds or
    /// too slow; the body of a redirect is given up earlier.
    func secondPassed(_ now: Int64, _ seconds: Double, timeout: Double) {
        guard let transfer else { return }
        let isIdle = idleTime(now: now) > Int64(timeout * 1e9)
        if case .discard(let next, let delay) = sink {
            discardSeconds += 1
            guard isIdle || discardSeconds > EngineLimits.discardSecondsMax else { return }
            stopTransfer()
            follow(next, after: delay)
        } else if isIdle {
            fail(
                .broken(
                    TransferError(
                        .timedOut, "No byte moved for \(timeout) seconds.", phase: phase, isRetryable: true)))
        } else if !isConnecting,
            let error = speed.secondPassed(seconds, isPaused: transfer.isPaused, phase)
        {
            fail(.broken(error))
        }
    }

    /// Nanoseconds since the part began.
    func age(now: Int64) -> Int64 { now - startedAt }
    /// Nanoseconds since the response began; `nil` before that.
    func receivingTime(now: Int64) -> Int64? { answeredAt.map { now - $0 } }
    var latency: Int64 { (answeredAt ?? startedAt) - startedAt }

    var phase: TransferError.Phase {
        if hasHead { return .receiving }
        return transfer?.info.timings.preTransfer ?? 0 > 0 ? .waiting : .connecting
    }

    /// Ends the request and reports the failure to the transfer.
    func fail(_ failure: SegmentedTransfer.PartFailure) {
        guard let owner else { return }
        stop()
        owner.failed(self, failure)
    }

    /// Notes that so many bytes were written up to `end`.
    func took(_ count: Int, until end: Int64) {
        receivedByteCount += Int64(count)
        speed.moved(count)
        recorder.received(count)
        written = written.lowerBound..<end
    }

    /// Ends the request: all wanted bytes have come, and more would follow.
    func cut() {
        guard let owner else { return }
        stop()
        owner.ended(self)
    }

    // MARK: libcurl's callbacks

    func nameResolved() { if let owner { owner.context.noteResolved(hop.url, for: owner.attempt) } }

    func willConnect(to address: SocketAddress) -> Bool {
        guard let owner else { return false }
        recorder.willConnect(transfer, measured(owner), in: &owner.trace)
        return allows(address, owner)
    }

    func willSend(to address: SocketAddress) -> Bool {
        guard let owner else { return false }
        recorder.willSend(transfer, measured(owner), in: &owner.trace)
        isConnecting = false
        owner.needSlot()
        return allows(address, owner)
    }

    private func allows(_ address: SocketAddress, _ owner: SegmentedTransfer) -> Bool {
        owner.context.allows(address, for: owner.attempt, hop.url)
    }

    func receiveHeaderLine(_ line: UnsafeRawBufferPointer) -> Bool {
        guard let owner else { return false }
        noteActivity(owner)
        switch reader.take(line) {
        case .more: return true
        case .complete(let head):
            recorder.responseStarted()
            owner.noteHead(head, from: hop.url)
            answeredAt = owner.now
            if hop.url.scheme == .https, !head.isDelimited("GET") { transfer?.requireCloseNotify() }
            if head.isAmbiguouslyFramed { transfer?.forbidReuse() }
            guard owner.attempt.mayBeAnswered(head, of: hop) else {
                let answersAll = owner.attempt.answersChallenges(of: hop)
                guard takeHead(head, owner) else { return false }
                guard answersAll, case .discard(let next, let delay) = sink, next.digest != nil else {
                    return true
                }
                stopTransfer()
                follow(next, after: delay)
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
        fail(.refused(TransferError(code, message, phase: .waiting, isRetryable: false), retryAfter: nil))
        return false
    }

    /// Judges the head. Returns `false` if the part has ended.
    private func takeHead(_ head: ResponseHead, _ owner: SegmentedTransfer) -> Bool {
        switch owner.judge(head, of: self) {
        case .body: sink = .body
        case .follow(let next, let delay): sink = .discard(then: next, after: delay)
        case .failed(let failure): fail(failure)
        case .stopped: return false
        }
        return self.owner != nil
    }

    /// Judges a held head, if there is one: libcurl did not answer it by itself.
    private func takeHeldHead() -> Bool {
        guard let owner, let head = reader.takeHeld() else { return true }
        return takeHead(head, owner)
    }

    func receiveBody(_ bytes: UnsafeRawBufferPointer) -> BodyVerdict {
        guard let owner, takeHeldHead() else { return .abort }
        noteActivity(owner)
        switch sink {
        case .body:
            return owner.take(bytes, of: self)
        case .discard(let next, let delay):
            discardedByteCount += bytes.count
            recorder.received(bytes.count)
            guard discardedByteCount > EngineLimits.discardByteCountMax else { return .proceed }
            stopTransfer()
            follow(next, after: delay)
            return .abort
        case .none: return .proceed
        }
    }

    private func follow(_ next: Hop, after delay: Double) {
        guard delay <= 0 else {
            owner?.loop.multi.after(nanoseconds: Int64(delay * 1e9)) { [weak self] in
                self?.follow(next, after: 0)
            }
            return
        }
        hop = next
        pacing = owner?.pacing(at: next.url)
        owner?.trace.followedRedirect()
        if owner?.move(self, to: next.url) ?? false { send() }
    }

    /// Sends the request to where a redirect has led: the connection is granted.
    func goOn() { send() }

    func finished(_ outcome: TransferOutcome) {
        transfer = nil
        guard let owner else { return }
        var outcome = outcome
        if outcome.lacksCloseNotify, outcome.error == nil, case .body = sink, !owner.hasKnownEnd {
            outcome.error = .missingCloseNotify
        }
        if outcome.error == nil, !takeHeldHead() { return }
        owner.context.metrics.connected(outcome.info)
        recorder.end(
            outcome.info, measured(owner), isWhole: outcome.error == nil,
            isBlocked: outcome.blockedAddress != nil, in: &owner.trace)
        if case .discard(let next, let delay) = sink {
            follow(next, after: delay)
            return
        }
        guard let error = outcome.error else {
            stop()
            owner.ended(self)
            return
        }
        reader.dropHeld()
        owner.trace.note(.init(curlCode: error.code, curlMessage: error.text, osError: error.osError))
        owner.context.logger.debug(
            "part failed",
            metadata: [
                "job": "\(owner.attempt.job)", "attempt": "\(owner.attempt.number)", "cause": "\(error)",
            ])
        if outcome.blockedAddress != nil {
            fail(.refused(blockedAddress(.connecting), retryAfter: nil))
            return
        }
        let context = TransportContext(
            hasHead: hasHead, isRepeatable: true, sentWholeBody: true,
            proxy: owner.context.builder.proxyScheme(owner.attempt, hop.url),
            isSecure: hop.url.scheme == .https, host: hop.url.host)
        let failure = transportFailure(error, outcome.info, context)
        if failure.mayRepeatAtOnce, !isFresh {
            isFresh = true
            send()
        } else if failure.error.code == .responseTooLarge || error.headFault != nil {
            fail(.refused(failure.error, retryAfter: nil))
        } else {
            fail(.broken(failure.error))
        }
    }
}
