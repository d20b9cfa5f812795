internal import CMicrohttpd
internal import Glibc
internal import Synchronization
internal import Sys

/// Bytes that are first reserved for a body of unknown length.
private let firstReservationBytes = 16_384

/// One request and its response. libmicrohttpd owns the object as the context of the request, from
/// `requestBegan` to `requestEnded`.
///
/// `open`, `receive`, `finish` and `end` are called on the thread of the connection; `send`, `wake`, `stop`
/// and `inspect` on any thread. `state` is what they share. Locks are taken in this order: the response's
/// (libmicrohttpd), `state`, the daemon's.
final class RequestExchange: ResponseTarget, WakeTarget {
    /// Treatment of the body.
    private enum BodyState {
        case undecided
        case collecting(limit: Int)
        /// The sink is not ready.
        case beginning(any RequestSink)
        case streaming(any RequestSink)
        case discarding(Response)
        /// The handler or the sink has the complete request.
        case handedOver
    }
    let core: ServerCore
    let peer: Peer
    /// The target as sent; `nil` if it is not UTF-8.
    private let target: String?
    private let targetByteCount: Int
    let state = Mutex(ExchangeState())

    // Written once, in `open`, before another thread can reach the exchange.
    nonisolated(unsafe) private(set) var head: RequestHead?
    // The following members are used only on the thread of the connection.
    nonisolated(unsafe) private var bodyState = BodyState.undecided
    nonisolated(unsafe) private var body: [UInt8] = []
    nonisolated(unsafe) private var reservation: (any BodyReservation)?
    /// Bytes that `reservation` has granted, or that need no grant.
    nonisolated(unsafe) private var reservedBytes = 0
    nonisolated(unsafe) private var discarded = 0
    nonisolated(unsafe) private var status: Int?
    /// libmicrohttpd's response. This object holds a reference until the request is over, which keeps a
    /// file's descriptor open.
    nonisolated(unsafe) private var queued: OpaquePointer?
    nonisolated(unsafe) private var slot = -1
    nonisolated(unsafe) private var openedAt: Int64 = 0
    /// `true` if the client may still be sending when the connection closes.
    nonisolated(unsafe) private var lingers = false
    nonisolated(unsafe) private var expectsContinue = false
    /// `true` if libmicrohttpd reads no more from the connection until the response is sent.
    nonisolated(unsafe) private var hasStoppedReading = false

    /// `target`: the complete target; libmicrohttpd splits it after this call.
    init(core: ServerCore, peer: Peer, target: UnsafePointer<CChar>?) {
        self.core = core
        self.peer = peer
        self.target = target.flatMap { String(validatingCString: $0) }
        targetByteCount = target.map { strlen($0) } ?? 0
    }

    var isOpen: Bool { head != nil }

    // MARK: - The connection's thread

    /// Called after the header fields. A response from here closes the connection, so only requests that must
    /// be refused get one.
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
        expectsContinue = check.expectsContinue
        let reference = ConnectionReference(connection)
        let now = openedAt
        state.withLock { state in
            state.connection = reference
            state.receivingSince = head.expectsBody ? now : 0
        }
        if let fault {
            lingers = true
            return queue(refusal(fault.code, fault.detail), on: connection)
        }
        if core.isStopping.load(ordering: .acquiring) {
            return refuse(stopRefusal, head, connection)
        }
        switch core.handler.plan(head) {
        case .refuse(let response): return refuse(response, head, connection)
        case .collect(let limit, let reservation):
            if let refusal = prepare(limit, reservation, head) {
                return refuse(refusal, head, connection)
            }
            bodyState = .collecting(limit: limit)
        case .stream(let sink):
            sink.attach(StreamWaker(target: self))
            bodyState = .beginning(sink)
            return begin(sink, head, connection)
        }
        return .YES
    }

    /// Asks a sink whether it takes the body. While the connection is suspended here, libmicrohttpd has not
    /// decided about `100 Continue`, and it calls again without bytes after the suspension.
    private func begin(_ sink: any RequestSink, _ head: RequestHead, _ connection: OpaquePointer)
        -> MHD_Result
    {
        if state.withLock({ $0.isAborted }) { return .NO }
        switch sink.begin() {
        case .ready(let interim):
            bodyState = .streaming(sink)
            // No byte of a response was sent on the connection for this request.
            if let interim, head.httpVersion == "HTTP/1.1", !peer.write(interim.serialized) { return .NO }
            return .YES
        case .wait: return suspend(.sink) ? .YES : .NO
        case .refuse(let response):
            sink.cancelled()
            bodyState = .undecided
            return refuse(response, head, connection)
        }
    }

    /// Reserves memory for a body of known length. Returns the response if the body is too large or there is
    /// no memory, else `nil`.
    private func prepare(_ limit: Int, _ budget: (any BodyReservation)?, _ head: RequestHead) -> Response? {
        reservation = budget
        guard let length = head.contentLength else { return nil }
        if length > Int64(limit) { return tooLarge(limit) }
        if let refusal = reservation?.take(Int(length)) { return refusal }
        reservedBytes = Int(length)
        body.reserveCapacity(reservedBytes)
        return nil
    }

    /// Reserves memory for a body of unknown length, twice as much each time, as the array grows. Returns the
    /// response if there is no memory, else `nil`.
    private func grow(to count: Int, limit: Int) -> Response? {
        guard count > reservedBytes, let reservation else { return nil }
        let wanted = min(max(count, 2 * reservedBytes, firstReservationBytes), limit)
        if let refusal = reservation.take(wanted) { return refusal }
        reservedBytes = wanted
        body.reserveCapacity(wanted)
        return nil
    }

    /// Refuses a request. Keeps the connection open if the body is small or there is none, else closes it.
    private func refuse(
        _ response: Response, _ head: RequestHead, _ connection: OpaquePointer
    ) -> MHD_Result {
        let isSmall = (head.contentLength ?? 0) <= Int64(core.limits.discardedBodyBytes)
        if !head.expectsBody || (isSmall && !expectsContinue) {
            bodyState = .discarding(response)
            return .YES
        }
        lingers = true
        bodyState = .handedOver
        return queue(response, on: connection)
    }

    /// Takes a piece of the body. Returns the number of bytes not taken (the connection is then suspended),
    /// or `nil` if the connection must be closed.
    func receive(_ bytes: UnsafeRawBufferPointer, _ connection: OpaquePointer) -> Int? {
        let count = bytes.count
        let isAborted = state.withLock { state in
            state.receivedBytes += Int64(count)
            return state.isAborted
        }
        if isAborted { return nil }
        switch bodyState {
        case .collecting(let limit):
            let size = body.count + count
            guard let refusal = size > limit ? tooLarge(limit) : grow(to: size, limit: limit) else {
                body.append(contentsOf: bytes)
                return 0
            }
            body = []
            reservation = nil
            bodyState = .discarding(refusal)
            discarded = count
            return 0
        case .streaming(let sink):
            if let refusal = sink.refusal() {
                sink.cancelled()
                bodyState = .discarding(refusal)
                return receiveDiscarded(count)
            }
            let taken = min(max(sink.receive(bytes), 0), count)
            guard taken < count else { return 0 }
            state.withLock { $0.receivedBytes -= Int64(count - taken) }
            return suspend(.sink) ? count - taken : nil
        case .discarding: return receiveDiscarded(count)
        case .undecided, .beginning, .handedOver: return nil
        }
    }

    /// Drops a piece of the body. Returns as `receive`: `nil` after the response, if the body is too large to
    /// drop the rest of it.
    private func receiveDiscarded(_ count: Int) -> Int? {
        discarded += count
        if discarded <= core.limits.discardedBodyBytes { return 0 }
        guard case .discarding(let response) = bodyState else { return nil }
        // Between pieces of a body libmicrohttpd accepts no response, and nothing else is being sent: write
        // to the socket.
        lingers = true
        bodyState = .handedOver
        writeDirectly(response)
        return nil
    }

    /// Called when the request is complete and after each suspension. Passes the request on once, then
    /// responds or suspends.
    func finish(_ connection: OpaquePointer) -> MHD_Result {
        guard let head else { return .NO }
        switch bodyState {
        case .handedOver: break
        case .undecided: return .NO
        case .beginning(let sink): return begin(sink, head, connection)
        case .collecting:
            let request = Request(head: head, body: body, reservation: reservation)
            body = []
            reservation = nil
            handOver()
            core.handler.handle(request, Responder(target: self))
        case .streaming(let sink):
            handOver()
            sink.finish(Responder(target: self))
        case .discarding(let response):
            handOver()
            return queue(response, on: connection)
        }
        switch takeResponseOrSuspend() {
        case .respond(let response): return queue(response, on: connection)
        case .suspended, .againAtOnce: return .YES
        case .stop: return queue(stopRefusal, on: connection)
        case .abort: return .NO
        }
    }

    private func handOver() {
        bodyState = .handedOver
        if head?.expectsBody == true { state.withLock { $0.receivingSince = 0 } }
    }

    private enum Outcome {
        case respond(Response), againAtOnce, suspended, stop, abort
    }

    /// Returns the response if it is there. If not, the first call does not suspend. A suspended connection
    /// keeps the state that libmicrohttpd was in. If that state was waiting for input, libmicrohttpd reads
    /// before it sends the response, and the end of a half-closed client's input would end the connection.
    /// After a call without a response it waits for nothing and calls again at once; a suspension in that
    /// state is safe.
    private func takeResponseOrSuspend() -> Outcome {
        state.withLock { state in
            if state.isAborted { return .abort }
            if let response = state.response.take() { return .respond(response) }
            if core.isStopping.load(ordering: .acquiring) {
                state.hasResponded = true
                return .stop
            }
            guard hasStoppedReading else {
                hasStoppedReading = true
                return .againAtOnce
            }
            state.suspend(.response)
            return .suspended
        }
    }

    /// Suspends the connection until `wake`. Returns `false` if the connection must be closed instead.
    func suspend(_ reason: ExchangeState.Suspension) -> Bool {
        state.withLock { state in
            if state.isAborted || core.isStopping.load(ordering: .acquiring) { return false }
            state.suspend(reason)
            if state.isWoken { state.resume() }
            return true
        }
    }

    /// Ends the request. Called exactly once, whatever the outcome.
    func end() {
        let now = monotonicNanoseconds()
        peer.idleSince.store(now, ordering: .releasing)
        let unsent = state.withLock { state in
            state.connection = nil
            state.file = nil
            state.stream = nil
            state.hasResponded = true
            return state.response.take()
        }
        unsent?.discard()
        if let queued = queued.take() { MHD_destroy_response(queued) }
        switch bodyState {
        case .beginning(let sink), .streaming(let sink): sink.cancelled()
        case .discarding(let response) where status == nil: response.discard()
        default: break
        }
        bodyState = .handedOver
        body = []
        reservation = nil
        if lingers {
            let copy = fcntl(peer.descriptor, F_DUPFD_CLOEXEC, 0)
            if copy >= 0 && !core.lingering.send(copy) { close(copy) }
        }
        if slot >= 0 { core.leave(slot) }
        guard let head else { return }
        core.handler.completed(head, status: status, durationNanoseconds: now - openedAt)
    }

    // MARK: - Responses

    private func queue(_ response: Response, on connection: OpaquePointer) -> MHD_Result {
        guard let head, let made = makeResponse(response, head, self) else {
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
        let counts = state.withLock { state in
            guard !state.hasResponded, state.connection != nil else { return false }
            state.hasResponded = true
            state.response = response
            if state.isSuspended && state.reason == .response { state.resume() }
            return true
        }
        if !counts { response.discard() }
        return counts
    }

    func wake() {
        state.withLock { state in
            if state.isSuspended && state.reason != .response {
                state.resume()
            } else if state.connection != nil {
                state.isWoken = true
            }
        }
    }

    /// Ends a suspension because the server stops: a request without a response gets 503, streams and sinks
    /// are closed.
    func stop() {
        let isAwaited = state.withLock { state in
            guard state.isSuspended else { return false }
            if state.reason == .response { return !state.hasResponded }
            state.abort()
            return false
        }
        if isAwaited { _ = send(stopRefusal) }
    }

    /// Checks deadlines of suspensions, clients that have left, bodies that arrive too slowly and files that
    /// have shrunk. Called by `ConnectionReaper`.
    func inspect(now: Int64) {
        let limits = core.limits
        let finding = state.withLock { state in
            state.inspect(now: now, limits: limits, descriptor: peer.descriptor)
        }
        switch finding {
        case .nothing: break
        case .isOverdue:
            _ = send(
                refusal(
                    .responseDeadline,
                    "No response was ready within \(limits.responseDeadlineSeconds) seconds."))
        case .clientStoppedSending(let stream):
            if !stream.clientStoppedSending() { state.withLock { $0.abort() } }
        }
    }
}
