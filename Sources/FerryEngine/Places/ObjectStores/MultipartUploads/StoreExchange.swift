import Curl
import FerryCore

/// The response to a request of a multipart upload.
struct StoreAnswer {
    enum Verdict {
        case accepted
        case refused(TransferError, retryAfter: Double?)
        /// The client is asked how the job continues.
        case asked(JobQuestion)
    }

    let head: ResponseHead
    let url: WebURL
    let verdict: Verdict
    let body: [UInt8]
}

/// One request of a multipart upload, with the redirects that it follows. Keeps the body of the response in
/// memory. Passes what its exchange reports to the attempt's `MultipartExchanges`. Loop thread only.
final class StoreExchange {
    /// Bytes that are sent.
    enum Bytes {
        case memory([UInt8])
        case source(any ByteSource, from: Int64)
    }

    private enum Target {
        case none
        case answer(StoreAnswer.Verdict)
        /// A redirect's own body.
        case discard(then: Hop, after: Double)
    }

    let request: MultipartRequest
    /// The scope whose connection it uses.
    let connection: RequestScope
    /// Released when the exchange ends, which breaks the reference cycle.
    private var owner: MultipartExchanges?
    private let running: RunningAttempt
    private let firstHop: Hop
    private(set) lazy var exchange = HTTPExchange(firstHop, of: running, for: self)
    private let bytes: Bytes
    /// Bytes of the body that libcurl has got.
    private(set) var sent: Int64 = 0
    private var target = Target.none
    private var answerBody: [UInt8] = []
    private var isFresh = false
    private var hasPausedToRead = false

    init(
        _ request: MultipartRequest, _ hop: Hop, _ bytes: Bytes, of owner: MultipartExchanges,
        on connection: RequestScope
    ) {
        self.request = request
        self.owner = owner
        self.bytes = bytes
        self.connection = connection
        firstHop = hop
        running = owner.running
        exchange.pace(owner.pacing(at: hop.url))
    }

    /// Sends the request. Called once by the owner.
    func begin() { send() }

    private func send() {
        guard let owner else { return }
        target = .none
        answerBody = []
        sent = 0
        exchange.reset()
        var request = owner.request(for: self)
        if isFresh { request.usesFreshConnection = true }
        if let error = exchange.send(request) { fail(exchange.meaning(ofUnsent: error).error) }
    }

    /// Ends the request and closes its connection. The exchange reports nothing more. A second call does
    /// nothing.
    func stop() {
        exchange.stop()
        owner = nil
    }

    /// Number of the part that is sent; `nil` for other requests.
    var part: Int? { if case .part(let number) = request.kind { number } else { nil } }

    /// Called about once a second. Gives up a connection that is idle for too long or too slow.
    func secondPassed(_ seconds: Double) {
        guard case .slow(let error)? = exchange.secondPassed(seconds, isUnwanted: false) else { return }
        exchange.stop()
        conclude(error)
    }

    /// Ends the request, and reports a failure without a response.
    private func fail(_ error: TransferError) {
        guard let owner else { return }
        stop()
        owner.failed(self, error)
    }

    /// The response has ended: reports it, follows the redirect, or reports the failure that has ended it.
    private func conclude(_ failure: TransferError?) {
        guard let owner, let head = exchange.head else { return fail(failure ?? .shortBody) }
        switch target {
        case .none: fail(failure ?? .shortBody)
        case .discard(let next, let delay): follow(next, after: delay)
        case .answer(.accepted) where failure != nil: fail(failure ?? .shortBody)
        case .answer(.accepted) where sent < request.payload.byteCount: fail(.answeredEarly)
        case .answer(let verdict):
            let answer = StoreAnswer(head: head, url: exchange.hop.url, verdict: verdict, body: answerBody)
            stop()
            owner.answered(self, answer)
        }
    }

    private func follow(_ next: Hop, after delay: Double) {
        guard delay <= 0 else {
            owner?.loop.multi.after(nanoseconds: Int64(delay * 1e9)) { [weak self] in
                self?.follow(next, after: 0)
            }
            return
        }
        guard let owner else { return }
        if let correction = next.store?.value.correction { owner.correction = correction }
        if next.redirectCount > exchange.hop.redirectCount { running.trace.followedRedirect() }
        guard owner.connectionScope(of: next.url) == connection else {
            // It needs a connection of another host, whose permission comes first.
            stop()
            return owner.moved(self, to: next)
        }
        exchange.hop = next
        exchange.pace(owner.pacing(at: next.url))
        send()
    }
}

extension StoreExchange: ExchangeOwner {
    var hasSentBody: Bool { sent == request.payload.byteCount }
    var waitsForPlace: Bool { false }
    func endsWithConnection(_ head: ResponseHead) -> Bool { false }

    func rewindBody() -> Bool {
        sent = 0
        owner?.noteProgress()
        return true
    }

    func provideBody(into buffer: UnsafeMutableRawBufferPointer) -> BodyProvision {
        guard let owner else { return .abort }
        guard !pausesToRead else {
            owner.loop.multi.after(nanoseconds: 0) { [weak transfer = exchange.transfer] in
                transfer?.resume()
            }
            return .pause
        }
        let rest = Int(request.payload.byteCount - sent)
        let limit = min(buffer.count, exchange.pacing?.portion ?? .max, rest)
        guard limit > 0 else { return .bytes(0) }
        guard exchange.mayMove(limit, .sending) else { return .pause }
        switch bytes {
        case .memory(let body):
            buffer.copyBytes(from: body[Int(sent)..<(Int(sent) + limit)])
            return took(limit, owner)
        case .source(let source, let start):
            do throws(TransferError) {
                let place = UnsafeMutableRawBufferPointer(rebasing: buffer[..<limit])
                guard case .bytes(let count) = try source.read(into: place, at: start + sent), count > 0
                else { throw .sourceChanged }
                return took(count, owner)
            } catch {
                owner.fail(error)
                return .abort
            }
        }
    }

    private func took(_ count: Int, _ owner: MultipartExchanges) -> BodyProvision {
        sent += Int64(count)
        exchange.sent(count)
        owner.running.context.metrics.sent(count)
        owner.noteProgress()
        if hasSentBody { exchange.requestEnded() }
        return .bytes(count)
    }

    /// As `RequestBody.pausesToRead`: a response in the middle of a body is an early refusal.
    private var pausesToRead: Bool {
        hasPausedToRead =
            sent > 0 && !hasSentBody && exchange.head == nil && !hasPausedToRead
            && exchange.transfer?.hasUnreadBytes ?? false
        return hasPausedToRead
    }

    func refuse(_ error: TransferError) { fail(error) }

    func take(_ head: ResponseHead) -> Bool {
        guard let owner else { return false }
        guard head.hasClearLength, head.status != 101 else {
            fail(
                TransferError(
                    .responseInvalid, "The length of the store's answer is ambiguous, or it is none.",
                    phase: .waiting, isRetryable: false))
            return false
        }
        if let next = owner.judge(head, exchange.hop) {
            target = .discard(then: next.hop, after: next.delay)
        } else {
            target = .answer(owner.verdict(head, exchange.hop))
        }
        return true
    }

    func answersItself(_ head: ResponseHead) -> Bool { false }

    func receive(_ bytes: UnsafeRawBufferPointer) -> BodyVerdict {
        guard owner != nil else { return .abort }
        running.context.metrics.received(bytes.count)
        if case .discard = target {
            exchange.receivedUnwanted(bytes.count)
            guard answerBody.count + bytes.count <= EngineLimits.discardByteCountMax else {
                exchange.stop()
                conclude(nil)
                return .abort
            }
        } else {
            exchange.received(bytes.count, decoded: bytes.count)
            guard answerBody.count + bytes.count <= Self.answerByteCountMax else {
                fail(
                    TransferError(
                        .responseTooLarge, "The store's answer is too large.", phase: .receiving,
                        isRetryable: false))
                return .abort
            }
        }
        answerBody.append(contentsOf: bytes)
        return .proceed
    }

    /// Bytes of a response: a page of 1,000 parts with checksums has about 400,000.
    private static let answerByteCountMax = 4 << 20

    func ended(_ failure: ExchangeFailure?) {
        guard owner != nil else { return }
        guard let failure else { return conclude(nil) }
        exchange.note(failure.error)
        guard failure.outcome.blockedAddress == nil else { return fail(exchange.meaning(of: failure).error) }
        exchange.takeUnread(failure.outcome.unread)
        let meaning = exchange.meaning(of: failure)
        if meaning.mayRepeatAtOnce, !isFresh {
            isFresh = true
            return send()
        }
        conclude(meaning.error)
    }
}

extension TransferError {
    /// The store has accepted a body before it was sent.
    fileprivate static let answeredEarly = TransferError(
        .connectionLost, "The store answered before it had the whole body.", phase: .sending,
        isRetryable: true)
}
