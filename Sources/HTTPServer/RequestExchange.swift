internal import CMicrohttpd
internal import Glibc
internal import Synchronization
internal import Sys

/// What a body of unknown length gets first.
private let firstRoomBytes = 16_384

/// One request and its answer: the object in libmicrohttpd's per-request slot.
///
/// The request's own thread drives it (`open`, `receive`, `finish`, `end`); any thread may `send` and `wake`.
/// Where both meet is `gate`. The order of locks is: a response's (libmicrohttpd), `gate`, the daemon's.
final class RequestExchange: ResponseTarget, WakeTarget {
    /// Where the body goes.
    private enum Intake {
        case undecided
        case collecting(limit: Int)
        case sinking(any RequestSink)
        case discarding(Response)
        /// Handler or sink have the whole request.
        case handedOver
    }
    let core: ServerCore
    let peer: Peer
    /// As sent; `nil` if it is not UTF-8.
    private let target: String?
    private let targetByteCount: Int
    let gate = Mutex(ExchangeState())

    // Written once, in `open`, before any other thread can reach the exchange through the gate.
    nonisolated(unsafe) private(set) var head: RequestHead?
    // Touched on the connection's thread only.
    nonisolated(unsafe) private var intake = Intake.undecided
    nonisolated(unsafe) private var body: [UInt8] = []
    nonisolated(unsafe) private var room: (any BodyRoom)?
    /// Bytes that `room` has given, or that need none.
    nonisolated(unsafe) private var roomBytes = 0
    nonisolated(unsafe) private var discarded = 0
    nonisolated(unsafe) private var status: Int?
    /// libmicrohttpd's response, and ours until the request is over: it keeps a file's descriptor open.
    nonisolated(unsafe) private var queued: OpaquePointer?
    nonisolated(unsafe) private var slot = -1
    nonisolated(unsafe) private var openedAt: Int64 = 0
    /// The client may still be sending when the connection closes.
    nonisolated(unsafe) private var lingers = false
    /// libmicrohttpd does not read from the connection any more, until the answer is sent.
    nonisolated(unsafe) private var hasStoppedReading = false

    /// `target`: the whole target, as long as libmicrohttpd has not cut it.
    init(core: ServerCore, peer: Peer, target: UnsafePointer<CChar>?) {
        self.core = core
        self.peer = peer
        self.target = target.flatMap { String(validatingCString: $0) }
        targetByteCount = target.map { strlen($0) } ?? 0
    }

    var isOpen: Bool { head != nil }

    // MARK: - The connection's thread

    /// The headers are in. An answer given here closes the connection, so the only ones are those that must.
    func open(
        _ connection: OpaquePointer, method: UnsafePointer<CChar>, target: UnsafePointer<CChar>,
        version: UnsafePointer<CChar>
    ) -> MHD_Result {
        openedAt = monotonicNanoseconds()
        peer.idleSince.store(0, ordering: .releasing)
        slot = core.enter(self)
        let line = RequestLine(
            method: method, target: target, version: version, targetByteCount: targetByteCount)
        var check = RequestCheck(connection, line, isText: self.target != nil)
        var head = RequestHead(
            method: String(cString: method), target: self.target ?? "", remoteAddress: peer.address,
            requestID: acceptedRequestID(check.fields) ?? core.makeRequestID())
        if strcmp(version, "HTTP/1.0") == 0 { head.httpVersion = "HTTP/1.0" }
        let fault = check.finish(&head, core.limits)
        self.head = head
        let reference = ConnectionReference(connection)
        let now = openedAt
        gate.withLock { gate in
            gate.connection = reference
            gate.receivingSince = head.expectsBody ? now : 0
        }
        if let fault {
            lingers = true
            return queue(refusal(fault.code, fault.detail), on: connection)
        }
        if core.isStopping.load(ordering: .acquiring) {
            return refuse(stopRefusal, head, check.expectsContinue, connection)
        }
        switch core.handler.plan(head) {
        case .refuse(let response): return refuse(response, head, check.expectsContinue, connection)
        case .collect(let limit, let room):
            if let refusal = prepare(limit, room, head) {
                return refuse(refusal, head, check.expectsContinue, connection)
            }
            intake = .collecting(limit: limit)
        case .stream(let sink):
            sink.attach(StreamWaker(target: self))
            intake = .sinking(sink)
        }
        return .YES
    }

    /// Makes room for a body of known length. Returns the answer when it is too large or there is none.
    private func prepare(_ limit: Int, _ room: (any BodyRoom)?, _ head: RequestHead) -> Response? {
        self.room = room
        guard let length = head.contentLength else { return nil }
        if length > Int64(limit) { return tooLarge(limit) }
        if let refusal = room?.take(Int(length)) { return refusal }
        roomBytes = Int(length)
        body.reserveCapacity(roomBytes)
        return nil
    }

    /// Makes room for a body that says its length at its end only: twice as much each time, as the array
    /// grows.
    private func grow(to count: Int, limit: Int) -> Response? {
        guard count > roomBytes, let room else { return nil }
        let wanted = min(max(count, 2 * roomBytes, firstRoomBytes), limit)
        if let refusal = room.take(wanted) { return refusal }
        roomBytes = wanted
        body.reserveCapacity(wanted)
        return nil
    }

    /// Keeps the connection when what remains of the body is small or nothing, else closes it.
    private func refuse(
        _ response: Response, _ head: RequestHead, _ expectsContinue: Bool, _ connection: OpaquePointer
    ) -> MHD_Result {
        let isSmall = (head.contentLength ?? 0) <= Int64(core.limits.discardedBodyBytes)
        if !head.expectsBody || (isSmall && !expectsContinue) {
            intake = .discarding(response)
            return .YES
        }
        lingers = true
        intake = .handedOver
        return queue(response, on: connection)
    }

    /// A piece of the body. Returns how much of it was left over (the connection rests then), or nil when the
    /// connection must close.
    func receive(_ bytes: UnsafeRawBufferPointer, _ connection: OpaquePointer) -> Int? {
        let count = bytes.count
        let isCut = gate.withLock { gate in
            gate.receivedBytes += Int64(count)
            return gate.isCut
        }
        if isCut { return nil }
        switch intake {
        case .collecting(let limit):
            let size = body.count + count
            guard let refusal = size > limit ? tooLarge(limit) : grow(to: size, limit: limit) else {
                body.append(contentsOf: bytes)
                return 0
            }
            body = []
            room = nil
            intake = .discarding(refusal)
            discarded = count
            return 0
        case .sinking(let sink):
            let taken = min(max(sink.receive(bytes), 0), count)
            guard taken < count else { return 0 }
            gate.withLock { $0.receivedBytes -= Int64(count - taken) }
            return rest(.sink) ? count - taken : nil
        case .discarding(let response):
            discarded += count
            if discarded <= core.limits.discardedBodyBytes { return 0 }
            // Between pieces libmicrohttpd takes no answer, and nothing but ours is on its way.
            lingers = true
            intake = .handedOver
            writeDirectly(response)
            return nil
        case .undecided, .handedOver: return nil
        }
    }

    /// The request is complete, or the rest is over: hands it over once, then answers or rests.
    func finish(_ connection: OpaquePointer) -> MHD_Result {
        guard let head else { return .NO }
        switch intake {
        case .handedOver: break
        case .undecided: return .NO
        case .collecting:
            let request = Request(head: head, body: body, room: room)
            body = []
            room = nil
            handOver()
            core.handler.handle(request, Responder(target: self))
        case .sinking(let sink):
            handOver()
            sink.finish(Responder(target: self))
        case .discarding(let response):
            handOver()
            return queue(response, on: connection)
        }
        switch takeAnswerOrRest() {
        case .answer(let response): return queue(response, on: connection)
        case .rest, .againAtOnce: return .YES
        case .stop: return queue(stopRefusal, on: connection)
        case .cut: return .NO
        }
    }

    private func handOver() {
        intake = .handedOver
        if head?.expectsBody == true { gate.withLock { $0.receivingSince = 0 } }
    }

    private enum Outcome {
        case answer(Response), againAtOnce, rest, stop, cut
    }

    /// The first call without an answer does not let the connection rest. While a connection rests,
    /// libmicrohttpd keeps what it waited for before, and when that was input it reads before it sends the
    /// answer: the end of a half-closed client's input would end the connection. After a call without an
    /// answer it waits for nothing and calls again at once; the rest that begins then keeps that.
    private func takeAnswerOrRest() -> Outcome {
        gate.withLock { gate in
            if gate.isCut { return .cut }
            if let answer = gate.answer.take() { return .answer(answer) }
            if core.isStopping.load(ordering: .acquiring) {
                gate.isAnswered = true
                return .stop
            }
            guard hasStoppedReading else {
                hasStoppedReading = true
                return .againAtOnce
            }
            gate.rest(.answer)
            return .rest
        }
    }

    /// Lets the connection rest until `wake`. False when it must be cut instead.
    func rest(_ reason: ExchangeState.Rest) -> Bool {
        gate.withLock { gate in
            if gate.isCut || core.isStopping.load(ordering: .acquiring) { return false }
            gate.rest(reason)
            if gate.isWoken { gate.resume() }
            return true
        }
    }

    /// The request is over, whatever became of it.
    func end() {
        let now = monotonicNanoseconds()
        peer.idleSince.store(now, ordering: .releasing)
        let unsent = gate.withLock { gate in
            gate.connection = nil
            gate.file = nil
            gate.stream = nil
            gate.isAnswered = true
            return gate.answer.take()
        }
        unsent?.discard()
        if let queued = queued.take() { MHD_destroy_response(queued) }
        switch intake {
        case .sinking(let sink): sink.cancelled()
        case .discarding(let response) where status == nil: response.discard()
        default: break
        }
        intake = .handedOver
        body = []
        room = nil
        if lingers {
            let copy = fcntl(peer.descriptor, F_DUPFD_CLOEXEC, 0)
            if copy >= 0 && !core.lingering.send(copy) { close(copy) }
        }
        if slot >= 0 { core.leave(slot) }
        guard let head else { return }
        core.handler.completed(head, status: status, durationNanoseconds: now - openedAt)
    }

    // MARK: - Answers

    private func queue(_ response: Response, on connection: OpaquePointer) -> MHD_Result {
        guard let head, let made = makeAnswer(response, head, self) else {
            response.discard()
            return .NO
        }
        queued = made
        let code = (200...599).contains(response.status) ? response.status : 500
        let result = MHD_queue_response(connection, UInt32(code), made)
        if result == .YES { status = code }
        return result
    }

    private func writeDirectly(_ response: Response) {
        guard let head else { return }
        if peer.write(response.serialized(requestID: head.requestID)) { status = response.status }
        response.discard()
    }

    private func refusal(_ code: RefusalCode, _ detail: String) -> Response {
        core.handler.refusal(code, detail, head?.requestID ?? "")
    }

    private func tooLarge(_ limit: Int) -> Response {
        refusal(.bodyTooLarge, "The body is larger than \(limit) bytes.")
    }

    private var stopRefusal: Response {
        refusal(.shuttingDown, "The server is shutting down; repeat the request elsewhere or later.")
    }

    // MARK: - Any thread

    func send(_ response: Response) -> Bool {
        let counts = gate.withLock { gate in
            guard !gate.isAnswered, gate.connection != nil else { return false }
            gate.isAnswered = true
            gate.answer = response
            if gate.isResting && gate.reason == .answer { gate.resume() }
            return true
        }
        if !counts { response.discard() }
        return counts
    }

    func wake() {
        gate.withLock { gate in
            if gate.isResting && gate.reason != .answer {
                gate.resume()
            } else if gate.connection != nil {
                gate.isWoken = true
            }
        }
    }

    /// Ends a rest because the server stops: an awaited answer becomes 503, streams and sinks are cut.
    func stop() {
        let isAwaited = gate.withLock { gate in
            guard gate.isResting else { return false }
            if gate.reason == .answer { return !gate.isAnswered }
            gate.cut()
            return false
        }
        if isAwaited { _ = send(stopRefusal) }
    }

    /// The watchdog's look: deadlines of rests, clients that left meanwhile, bodies that come too slowly,
    /// files that have shrunk.
    func inspect(now: Int64) {
        let limits = core.limits
        let finding = gate.withLock { gate in
            gate.inspect(now: now, limits: limits, descriptor: peer.descriptor)
        }
        switch finding {
        case .nothing: break
        case .isOverdue:
            _ = send(
                refusal(
                    .responseDeadline,
                    "No answer was ready within \(limits.responseDeadlineSeconds) seconds."))
        case .clientStoppedSending(let stream):
            if !stream.clientStoppedSending() { gate.withLock { $0.cut() } }
        }
    }
}
