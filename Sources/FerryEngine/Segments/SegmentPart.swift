import Curl
import FerryCore

/// One part of a content: a request for a range, with the redirects that it follows. Passes what its exchange
/// reports to the attempt's `PartExchanges`. Loop thread only.
final class SegmentPart {
    private enum Target {
        case none
        case content
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
    private var owner: PartExchanges?
    private let firstHop: Hop
    private let running: RunningAttempt
    private(set) lazy var exchange = HTTPExchange(firstHop, of: running, for: self)
    private var target = Target.none
    private var discardedByteCount = 0
    private var isFresh = false
    private let startedAt: Int64
    private var answeredAt: Int64?
    private(set) var receivedByteCount: Int64 = 0
    /// Whether the source's own URL was requested again because the target of a redirect had expired.
    var hasBegunAgain = false
    /// Whether the response ends before the requested range does.
    var isShort = false
    /// Bytes at the beginning of the response that are there already.
    var skip: Int64 = 0
    /// Written bytes that the file threads do not know of yet.
    var written: Range<Int64> = 0..<0

    init(_ id: SegmentPlan.Part, of owner: PartExchanges, source: Int, _ hop: Hop) {
        self.id = id
        self.owner = owner
        self.source = source
        running = owner.running
        renewalCount = owner.sources[source].renewalCount
        firstHop = hop
        startedAt = owner.now
        exchange.pace(owner.pacing(at: hop.url))
    }

    var hop: Hop { exchange.hop }
    var pacing: Pacing? { exchange.pacing }
    var hasHead: Bool { exchange.head != nil }

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
        target = .none
        discardedByteCount = 0
        exchange.reset()
        let context = running.context
        if context.sessions.hasCredentials {
            context.addKnownCredentials(to: &exchange.hop, of: running.attempt)
        }
        var request = owner.request(for: self)
        if isFresh { request.usesFreshConnection = true }
        if let error = exchange.send(request) { fail(.broken(exchange.meaning(ofUnsent: error).error)) }
    }

    /// Ends the request and closes its connection. The part reports nothing more. A second call does nothing.
    func stop() {
        exchange.stop()
        owner = nil
    }

    // MARK: State

    /// Nanoseconds since the part began.
    func age(now: Int64) -> Int64 { now - startedAt }
    /// Nanoseconds since the response began; `nil` before that.
    func receivingTime(now: Int64) -> Int64? { answeredAt.map { now - $0 } }
    var latency: Int64 { (answeredAt ?? startedAt) - startedAt }

    /// Called about once a second. Gives up a connection that is idle for too long or too slow; the body of a
    /// redirect is given up earlier.
    func secondPassed(_ seconds: Double) {
        if case .discard(let next, let delay) = target {
            guard exchange.secondPassed(seconds, isUnwanted: true) != nil else { return }
            exchange.stop()
            follow(next, after: delay)
        } else if case .slow(let error)? = exchange.secondPassed(seconds, isUnwanted: false) {
            fail(.broken(error))
        }
    }

    /// Ends the request and reports the failure to the transfer.
    func fail(_ failure: PartExchanges.PartFailure) {
        guard let owner else { return }
        stop()
        owner.failed(self, failure)
    }

    /// Notes that so many bytes were written up to `end`.
    func took(_ count: Int, until end: Int64) {
        receivedByteCount += Int64(count)
        exchange.received(count, decoded: count)
        written = written.lowerBound..<end
    }

    /// Ends the request: all wanted bytes have come, and more would follow.
    func cut() {
        guard let owner else { return }
        stop()
        owner.ended(self)
    }

    // MARK: Redirects

    private func follow(_ next: Hop, after delay: Double) {
        guard delay <= 0 else {
            owner?.loop.multi.after(nanoseconds: Int64(delay * 1e9)) { [weak self] in
                self?.follow(next, after: 0)
            }
            return
        }
        exchange.hop = next
        exchange.pace(owner?.pacing(at: next.url))
        if next.redirectCount > 0 { owner?.running.trace.followedRedirect() }
        if owner?.move(self, to: next.url) ?? false { send() }
    }

    /// Sends the request to where a redirect has led: the connection is granted.
    func goOn() { send() }
}

extension SegmentPart: ExchangeOwner {
    /// A part sends no body.
    func provideBody(into buffer: UnsafeMutableRawBufferPointer) -> BodyProvision { .bytes(0) }
    func rewindBody() -> Bool { true }
    var hasSentBody: Bool { true }

    func refuse(_ error: TransferError) { fail(.refused(error, retryAfter: nil)) }

    /// Judges the head. Returns `false` if the part has ended.
    func take(_ head: ResponseHead) -> Bool {
        guard let owner else { return false }
        answeredAt = owner.now
        switch owner.judge(head, of: self) {
        case .body: target = .content
        case .follow(let next, let delay): target = .discard(then: next, after: delay)
        case .failed(let failure): fail(failure)
        case .stopped: return false
        }
        return self.owner != nil
    }

    func answersItself(_ head: ResponseHead) -> Bool {
        guard case .discard(let next, let delay) = target, next.digest != nil else { return false }
        exchange.stop()
        follow(next, after: delay)
        return true
    }

    func receive(_ bytes: UnsafeRawBufferPointer) -> BodyVerdict {
        guard let owner else { return .abort }
        switch target {
        case .content: return owner.take(bytes, of: self)
        case .discard(let next, let delay):
            discardedByteCount += bytes.count
            exchange.receivedUnwanted(bytes.count)
            guard discardedByteCount > EngineLimits.discardByteCountMax else { return .proceed }
            exchange.stop()
            follow(next, after: delay)
            return .abort
        case .none: return .proceed
        }
    }

    func endsWithConnection(_ head: ResponseHead) -> Bool {
        guard case .content = target else { return false }
        return !(owner?.hasKnownEnd ?? true)
    }

    var waitsForPlace: Bool { owner?.waitForDisk.contains { $0 === self } ?? true }

    func ended(_ failure: ExchangeFailure?) {
        guard let owner else { return }
        if case .discard(let next, let delay) = target { return follow(next, after: delay) }
        guard let failure else {
            stop()
            owner.ended(self)
            return
        }
        if exchange.head == nil,
            let next = running.context.answering(tunnel: failure.error, hop, of: running.attempt)
        {
            return follow(next, after: 0)
        }
        exchange.note(failure.error)
        let meaning = exchange.meaning(of: failure)
        if meaning.mayRepeatAtOnce, !isFresh {
            isFresh = true
            send()
        } else if failure.outcome.blockedAddress != nil || meaning.error.code == .responseTooLarge
            || failure.error.headFault != nil
        {
            fail(.refused(meaning.error, retryAfter: nil))
        } else {
            fail(.broken(meaning.error))
        }
    }
}
