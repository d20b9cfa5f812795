internal import CMicrohttpd
internal import Glibc
internal import Sys

/// A connection's handle. Only `MHD_resume_connection` may be called with it from other threads.
struct ConnectionReference: Sendable {
    nonisolated(unsafe) let pointer: OpaquePointer
    init(_ pointer: OpaquePointer) { self.pointer = pointer }
}

/// The part of an exchange that its own thread and others share. Suspending and resuming happen under its
/// lock: so each rest has one resume, and the handle is valid whenever it is not nil.
struct ExchangeState: Sendable {
    enum Rest: Sendable {
        /// The handler owes an answer.
        case answer
        /// A sink has no room.
        case sink
        /// A stream has no bytes.
        case stream
    }
    /// Nil before the headers are in and after the request is over.
    var connection: ConnectionReference?
    var answer: Response?
    /// The one answer has been given, or nobody wants it any more.
    var isAnswered = false
    private(set) var isResting = false
    private(set) var reason = Rest.answer
    /// Woken while not at rest: the next rest ends at once.
    var isWoken = false
    private(set) var isCut = false
    private var restingSince: Int64 = 0
    /// When the body began; 0 when none is awaited.
    var receivingSince: Int64 = 0
    var receivedBytes: Int64 = 0
    /// What the answer sends, when that is a file.
    var file: SentFile?
    /// What makes the answer's body, when that is a stream.
    var stream: (any ResponseStream)?
    /// The stream knows that its client sends no more.
    private var hasStoppedSending = false

    /// What an inspection leaves to its caller.
    enum Finding: Sendable {
        case nothing
        /// An awaited answer is overdue.
        case isOverdue
        /// The client of a resting stream has closed its sending side; said once.
        case clientStoppedSending(any ResponseStream)
    }

    /// On the connection's thread, from within a callback.
    mutating func rest(_ reason: Rest) {
        guard let connection else { return }
        self.reason = reason
        isResting = true
        restingSince = monotonicNanoseconds()
        MHD_suspend_connection(connection.pointer)
    }

    mutating func resume() {
        guard isResting, let connection else { return }
        isResting = false
        isWoken = false
        // Time spent waiting for the sink is not the client's.
        if reason == .sink { receivingSince += monotonicNanoseconds() - restingSince }
        MHD_resume_connection(connection.pointer)
    }

    /// Ends the rest; the thread that wakes closes the connection.
    mutating func cut() {
        isCut = true
        isAnswered = true
        resume()
    }

    /// Cuts what cannot go on.
    mutating func inspect(now: Int64, limits: ServerLimits, descriptor: Int32) -> Finding {
        guard connection != nil else { return .nothing }
        guard isResting else {
            let isHopeless = isTooSlow(now, limits) || file?.hasShrunk == true
            if isHopeless { _ = shutdown(descriptor, Int32(SHUT_RDWR)) }
            return .nothing
        }
        let isOver = now - restingSince > Int64(limits.responseDeadlineSeconds) * 1_000_000_000
        let client = ClientState(of: descriptor)
        switch reason {
        case .answer:
            if isOver { return .isOverdue }
            if client == .hasLeft { cut() }
        case .sink:
            if isOver || client == .hasLeft { cut() }
        case .stream:
            if client == .hasLeft { cut() }
            guard client == .hasStoppedSending, !hasStoppedSending, let stream else { break }
            hasStoppedSending = true
            return .clientStoppedSending(stream)
        }
        return .nothing
    }

    private func isTooSlow(_ now: Int64, _ limits: ServerLimits) -> Bool {
        guard receivingSince != 0 else { return false }
        let seconds = (now - receivingSince) / 1_000_000_000
        return seconds > Int64(limits.bodyGraceSeconds)
            && receivedBytes < seconds * Int64(limits.minimumBodyRate)
    }
}

/// A part of a file on its way to the client. The descriptor is libmicrohttpd's, and open until the exchange
/// lets go of the response.
struct SentFile: Sendable {
    let descriptor: Int32
    /// Behind the last byte of the part.
    let end: Int64

    /// Where the file ends too early sendfile(2) gives nothing, and libmicrohttpd asks it again at once, for
    /// as long as the client stays.
    var hasShrunk: Bool { knownSize(of: descriptor).map { $0 < end } ?? false }
}

/// What the kernel knows about a client; while a connection rests, libmicrohttpd does not look at it.
private enum ClientState {
    case isThere
    /// It has closed its sending side (shutdown(2)), or the whole connection (close(2)): both look the same
    /// until something is sent to it.
    case hasStoppedSending
    /// It has reset the connection, or takes nothing any more.
    case hasLeft

    init(of descriptor: Int32) {
        let readHangUp: Int16 = 0x2000  // POLLRDHUP of poll(2), hidden behind _GNU_SOURCE.
        var state = pollfd(fd: descriptor, events: readHangUp, revents: 0)
        _ = poll(&state, 1, 0)
        self =
            state.revents & ~readHangUp != 0
            ? .hasLeft : state.revents != 0 ? .hasStoppedSending : .isThere
    }
}
