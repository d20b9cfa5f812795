internal import CMicrohttpd
internal import Glibc
internal import Sys

/// Handle of a connection. Other threads than the connection's may call only `MHD_resume_connection` with it.
struct ConnectionReference: Sendable {
    nonisolated(unsafe) let pointer: OpaquePointer
    init(_ pointer: OpaquePointer) { self.pointer = pointer }
}

/// State of an exchange that its own thread shares with others; protected by the lock of `RequestExchange`.
/// Suspending and resuming happen under that lock: so each suspension is resumed once, and the handle is
/// valid while `connection` is not `nil`.
struct ExchangeState: Sendable {
    enum Suspension: Sendable {
        /// The handler has not responded yet.
        case response
        /// The sink takes no more bytes.
        case sink
        /// The stream has no bytes.
        case stream
    }
    /// `nil` before the header fields are read and after the request is over.
    var connection: ConnectionReference?
    var response: Response?
    /// `true` if the response has been given, or the request no longer needs one.
    var hasResponded = false
    private(set) var isSuspended = false
    private(set) var reason = Suspension.response
    /// A wake-up arrived while the connection was not suspended: the next suspension ends at once.
    var isWoken = false
    private(set) var isAborted = false
    private var suspendedSince: Int64 = 0
    /// Start of the body in monotonic nanoseconds; 0 if no body is expected.
    var receivingSince: Int64 = 0
    var receivedBytes: Int64 = 0
    /// The file that is being sent; `nil` if the response is not a file.
    var file: SentFile?
    /// The stream that produces the response's body; `nil` if the body is not a stream.
    var stream: (any ResponseStream)?
    /// `true` if the stream has been told that its client has closed its sending side.
    private var hasStoppedSending = false

    /// Result of an inspection that the caller has to act on, outside of the lock.
    enum Finding: Sendable {
        case nothing
        /// The handler has not responded within the deadline.
        case isOverdue
        /// The client of a suspended stream has closed its sending side. Reported once.
        case clientStoppedSending(any ResponseStream)
    }

    /// Suspends the connection. Call only on its thread, in a callback of libmicrohttpd.
    mutating func suspend(_ reason: Suspension) {
        guard let connection else { return }
        self.reason = reason
        isSuspended = true
        suspendedSince = monotonicNanoseconds()
        MHD_suspend_connection(connection.pointer)
    }

    mutating func resume() {
        guard isSuspended, let connection else { return }
        isSuspended = false
        isWoken = false
        // Time in which the sink took no bytes does not count as the client's.
        if reason == .sink { receivingSince += monotonicNanoseconds() - suspendedSince }
        MHD_resume_connection(connection.pointer)
    }

    /// Ends a suspension; the thread of the connection then closes it.
    mutating func abort() {
        isAborted = true
        hasResponded = true
        resume()
    }

    /// Closes connections that cannot continue, and returns what is left to the caller.
    mutating func inspect(now: Int64, limits: ServerLimits, descriptor: Int32) -> Finding {
        guard connection != nil else { return .nothing }
        guard isSuspended else {
            let isHopeless = isTooSlow(now, limits) || file?.hasShrunk == true
            if isHopeless { _ = shutdown(descriptor, Int32(SHUT_RDWR)) }
            return .nothing
        }
        let isOver = now - suspendedSince > Int64(limits.responseDeadlineSeconds) * 1_000_000_000
        let client = ClientState(of: descriptor)
        switch reason {
        case .response:
            if isOver { return .isOverdue }
            if client == .hasLeft { abort() }
        case .sink:
            if isOver || client == .hasLeft { abort() }
        case .stream:
            if client == .hasLeft { abort() }
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

/// Part of a file that is being sent. libmicrohttpd owns the descriptor, which stays open until the exchange
/// releases the response.
struct SentFile: Sendable {
    let descriptor: Int32
    /// Position after the last byte of the part.
    let end: Int64

    /// `true` if the file is now shorter than the part. sendfile(2) then returns 0, and libmicrohttpd repeats
    /// it in a busy loop until the client leaves.
    var hasShrunk: Bool { knownSize(of: descriptor).map { $0 < end } ?? false }
}

/// State of the client's socket in the kernel. libmicrohttpd does not poll suspended connections.
private enum ClientState {
    case isThere
    /// The client has closed its sending side (shutdown(2)) or the whole connection (close(2)). The kernel
    /// cannot tell these apart until bytes are sent to the client.
    case hasStoppedSending
    /// The client has reset the connection or reads no more.
    case hasLeft

    init(of descriptor: Int32) {
        let readHangUp: Int16 = 0x2000  // POLLRDHUP of poll(2); Glibc hides it behind _GNU_SOURCE.
        var state = pollfd(fd: descriptor, events: readHangUp, revents: 0)
        _ = poll(&state, 1, 0)
        self =
            state.revents & ~readHangUp != 0
            ? .hasLeft : state.revents != 0 ? .hasStoppedSending : .isThere
    }
}
