import Curl
import FerryCore
import Logging

/// One request of a segmented download, with the redirects that it meets: libcurl's words about it, handed to
/// its transfer. Loop thread only.
final class SegmentPart: EasyDelegate {
    private enum Sink {
        case none
        case body
        /// A redirect's own body.
        case discard(then: Hop)
    }

    let id: SegmentPlan.Part
    /// In the transfer's sources.
    let source: Int
    /// What is asked for; nil: the whole, plainly. The end is open (`bytes=5-`) when it is `.max`.
    private(set) var asked: Range<Int64>?
    private(set) var hasBegun = false
    /// The scope of which it uses a connection of the transfer's.
    var connection: RequestScope?
    /// The scope for which it may not connect yet.
    var awaited: RequestScope?
    /// Let go when the part ends, which breaks the circle.
    private var owner: SegmentedTransfer?
    private(set) var hop: Hop
    /// Nil when nothing limits its speed.
    private(set) var pacing: Pacing?
    private var transfer: Transfer?
    private var meter: TransactionMeter?
    private var parser = ResponseHeadParser()
    private var sink = Sink.none
    private var discardedByteCount = 0
    private var isFresh = false
    private(set) var hasHead = false
    /// A head that libcurl may answer by itself (Digest).
    private var heldHead: ResponseHead?
    private let startedAt: Int64
    private var answeredAt: Int64?
    private(set) var lastActivity: Int64
    /// Whether nobody has been reached to send the request to.
    private(set) var isConnecting = true
    private(set) var receivedByteCount: Int64 = 0
    /// Whether the answer ends before what was asked for.
    var isShort = false
    /// What was written and the file threads do not know of yet.
    var written: Range<Int64> = 0..<0

    init(_ id: SegmentPlan.Part, of owner: SegmentedTransfer, source: Int, _ hop: Hop) {
        self.id = id
        self.owner = owner
        self.source = source
        self.hop = hop
        pacing = owner.pacing(at: hop.url)
        startedAt = owner.now
        lastActivity = startedAt
    }

    /// Sends the request. Once.
    func begin(_ asked: Range<Int64>?) {
        self.asked = asked
        hasBegun = true
        let start = asked?.lowerBound ?? 0
        written = start..<start
        send()
    }

    private func send() {
        guard let owner else { return }
        parser = ResponseHeadParser()
        sink = .none
        hasHead = false
        heldHead = nil
        discardedByteCount = 0
        lastActivity = owner.now
        isConnecting = true
        var request = owner.request(for: self)
        if isFresh { request.usesFreshConnection = true }
        meter = TransactionMeter(request, attemptStart: owner.start)
        do throws(CurlError) {
            transfer = try owner.loop.multi.start(request, delegate: self)
        } catch {
            meter = nil
            let context = TransportContext(hasHead: false, isRepeatable: true, sentWholeBody: true)
            fail(.broken(transportFailure(error, TransferInfo(), context).error))
        }
    }

    /// Ends the request; its connection is closed. Nothing more is heard of it. Twice is once.
    func stop() {
        if let transfer { noteTransaction(transfer.info, isWhole: false) }
        transfer?.cancel()
        transfer = nil
        owner = nil
    }

    private func noteTransaction(_ info: TransferInfo, isWhole: Bool, hidesRemote: Bool = false) {
        guard let metrics = transaction(info, isWhole: isWhole, hidesRemote: hidesRemote) else { return }
        meter = nil
        owner?.transactions.append(metrics)
    }

    private func noteFollowed(_ followed: TransactionMeter.Followed?) {
        guard let followed else { return }
        noteTransaction(followed.info, isWhole: true)
        meter = followed.next
    }

    private func transaction(
        _ info: TransferInfo, isWhole: Bool, isRunning: Bool = false, hidesRemote: Bool = false
    ) -> TransactionMetrics? {
        guard let meter, let owner else { return nil }
        let isOwn = hop.redirectCount == 0 && owner.sources[source].place == 0
        return meter.metrics(
            info, isOwn ? nil : .init(method: hop.method, url: hop.url.string), hop.url, isWhole: isWhole,
            isRunning: isRunning,
            hidesRemote: hidesRemote || owner.context.builder.usesServiceProxy(owner.attempt, hop.url))
    }

    /// What has been measured so far.
    var runningTransaction: TransactionMetrics? {
        transfer.flatMap { transaction($0.info, isWhole: false, isRunning: true) }
    }

    /// Goes on after a pause.
    func resume() {
        guard let owner, let transfer, transfer.isPaused else { return }
        lastActivity = owner.now
        transfer.resume()
    }

    // MARK: Speed

    /// Whether the limits let these bytes pass now; otherwise comes back when they do.
    func mayMove(_ byteCount: Int) -> Bool {
        guard let pacing, let owner else { return true }
        let wait = pacing.take(byteCount, .receiving, now: owner.now)
        if wait > 0 { comeBack(pacing, after: wait) }
        return wait <= 0
    }

    private func comeBack(_ pacing: Pacing, after nanoseconds: Int64) {
        guard let owner else { return }
        let instant = owner.now + nanoseconds
        guard instant < pacing.returnsAt else { return }
        pacing.returnsAt = instant
        // Not held: a job leaves its limits with the last of its places.
        owner.loop.multi.after(nanoseconds: nanoseconds) { [weak self, weak pacing] in
            if pacing?.returnsAt == instant { pacing?.returnsAt = .max }
            self?.resumePaced()
        }
    }

    private func resumePaced() {
        guard let owner, !owner.waitForDisk.contains(where: { $0 === self }) else { return }
        if let pacing, pacing.timeLeft(owner.now) > 0 {
            comeBack(pacing, after: pacing.timeLeft(owner.now))
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

    /// Nanoseconds without a byte; 0 while we do not want any.
    func idleTime(now: Int64) -> Int64 { transfer?.isPaused ?? true ? 0 : now - lastActivity }

    /// Nanoseconds since the request.
    func age(now: Int64) -> Int64 { now - startedAt }
    /// Nanoseconds since the answer began, and from the request to it.
    func receivingTime(now: Int64) -> Int64? { answeredAt.map { now - $0 } }
    var latency: Int64 { (answeredAt ?? startedAt) - startedAt }

    var phase: TransferError.Phase {
        if hasHead { return .receiving }
        return transfer?.info.timings.preTransfer ?? 0 > 0 ? .waiting : .connecting
    }

    /// Ends the request, and tells the transfer why it was of no use.
    func fail(_ failure: SegmentedTransfer.PartFailure) {
        guard let owner else { return }
        stop()
        owner.failed(self, failure)
    }

    /// So many bytes were written up to `end`.
    func took(_ count: Int, until end: Int64) {
        receivedByteCount += Int64(count)
        meter?.received(count)
        written = written.lowerBound..<end
    }

    /// Ends the request: everything that was wanted has come, and more would follow.
    func cut() {
        guard let owner else { return }
        stop()
        owner.ended(self)
    }

    // MARK: What libcurl says

    func willConnect(to address: SocketAddress) -> Bool {
        noteFollowed(meter?.willConnect(transfer))
        return allows(address)
    }

    func willSend(to address: SocketAddress) -> Bool {
        noteFollowed(meter?.willSend(transfer))
        isConnecting = false
        owner?.needSlot()
        return allows(address)
    }

    private func allows(_ address: SocketAddress) -> Bool {
        owner.map { $0.context.allows(address, for: $0.attempt, hop.url) } ?? false
    }

    func receiveHeaderLine(_ line: UnsafeRawBufferPointer) -> Bool {
        guard let owner else { return false }
        noteActivity(owner)
        switch parser.take(line) {
        case .more: return true
        case .complete(let head):
            hasHead = true
            meter?.responseStarted()
            owner.noteHead(head, from: hop.url)
            answeredAt = owner.now
            if hop.url.scheme == .https, !head.isDelimited("GET") { transfer?.awaitFarewell() }
            guard owner.attempt.answersChallenges(of: hop) else { return takeHead(head, owner) }
            heldHead = head
            return true
        case .invalid: return refuse(.responseInvalid, "The server's answer is not HTTP.")
        case .tooLarge:
            return refuse(.responseTooLarge, "The head of the server's response is too large.")
        }
    }

    private func refuse(_ code: TransferError.Code, _ message: String) -> Bool {
        fail(.refused(TransferError(code, message, phase: .waiting, isRetryable: false), retryAfter: nil))
        return false
    }

    /// False: the part has ended.
    private func takeHead(_ head: ResponseHead, _ owner: SegmentedTransfer) -> Bool {
        switch owner.judge(head, of: self) {
        case .body: sink = .body
        case .follow(let next): sink = .discard(then: next)
        case .failed(let failure): fail(failure)
        case .stopped: return false
        }
        return self.owner != nil
    }

    /// Judges a head that libcurl did not answer by itself.
    private func takeHeldHead() -> Bool {
        guard let head = heldHead, let owner else { return true }
        heldHead = nil
        return takeHead(head, owner)
    }

    func receiveBody(_ bytes: UnsafeRawBufferPointer) -> BodyVerdict {
        guard let owner, takeHeldHead() else { return .abort }
        noteActivity(owner)
        switch sink {
        case .body:
            return owner.take(bytes, of: self)
        case .discard(let next):
            discardedByteCount += bytes.count
            meter?.received(bytes.count)
            guard discardedByteCount > EngineLimits.discardByteCountMax else { return .proceed }
            if let transfer { noteTransaction(transfer.info, isWhole: false) }
            transfer?.cancel()
            transfer = nil
            follow(next)
            return .abort
        case .none: return .proceed
        }
    }

    private func follow(_ next: Hop) {
        hop = next
        pacing = owner?.pacing(at: next.url)
        owner?.transactions.redirectCount += 1
        if owner?.move(self, to: next.url) ?? false { send() }
    }

    /// It may connect to where a redirect has led it.
    func goOn() { send() }

    func finished(_ outcome: TransferOutcome) {
        transfer = nil
        guard let owner else { return }
        var outcome = outcome
        if outcome.lacksFarewell, outcome.error == nil, case .body = sink, !owner.hasKnownEnd {
            outcome.error = .withoutFarewell
        }
        if outcome.error == nil, !takeHeldHead() { return }
        owner.context.metrics.connected(outcome.info)
        noteTransaction(
            outcome.info, isWhole: outcome.error == nil, hidesRemote: outcome.blockedAddress != nil)
        if case .discard(let next) = sink {
            follow(next)
            return
        }
        guard let error = outcome.error else {
            stop()
            owner.ended(self)
            return
        }
        // It was answered already: no answer to the last request.
        if heldHead != nil { (heldHead, hasHead) = (nil, false) }
        owner.diagnostics = .init(
            curlCode: error.code, curlMessage: error.text, osError: error.osError)
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
            isSecure: hop.url.scheme == .https)
        let failure = transportFailure(error, outcome.info, context)
        if failure.mayRepeatAtOnce, !isFresh {
            isFresh = true
            send()
        } else if failure.error.code == .responseTooLarge {
            fail(.refused(failure.error, retryAfter: nil))
        } else {
            fail(.broken(failure.error))
        }
    }
}
