internal import Glibc
internal import Synchronization

/// An answer. `X-Request-Id`, `Date`, `Content-Length` and `Transfer-Encoding` are added by the server; do
/// not set them. `Connection: close` may be set and is honoured. To HEAD, the body is left out and its
/// length is kept.
package struct Response: Sendable {
    /// What follows the headers, and who keeps it meanwhile: the server, until it is sent or the client has
    /// left.
    package enum Body: Sendable {
        case empty
        case bytes([UInt8])
        /// Sent by sendfile(2).
        case file(FileBody)
        /// `length` in bytes when it is known beforehand; without one the body is chunked (on HTTP/1.0:
        /// ended by closing).
        case stream(any ResponseStream, length: Int64? = nil)
    }
    /// 200 to 599. 204 and 304 carry no body (RFC 9110 §15).
    package var status: Int
    /// Sent in this order; values that are empty are left out.
    package var fields: HTTPFields
    /// Sent unless the request was HEAD or the status allows none.
    package var body: Body

    /// An answer is a value: nothing happens until it is sent.
    package init(status: Int, fields: HTTPFields = HTTPFields(), body: Body = .empty) {
        self.status = status
        self.fields = fields
        self.body = body
    }
}

/// A part of an open file that an answer sends. Owns the descriptor: it is closed exactly once, also when the
/// answer is never sent.
package final class FileBody: Sendable {
    /// Where the part starts, in bytes from the start of the file.
    package let offset: Int64
    /// How long the part is, in bytes.
    package let length: Int64
    private let descriptor: Atomic<Int32>

    /// `descriptor`: a readable regular file, owned from here on. If the file shrinks while it is sent, the
    /// connection is cut.
    package init(descriptor: Int32, offset: Int64, length: Int64) {
        self.offset = offset
        self.length = length
        self.descriptor = Atomic(descriptor)
    }

    deinit {
        let descriptor = take()
        if descriptor >= 0 { close(descriptor) }
    }

    /// Hands the descriptor over to the caller; −1 when it has been taken before.
    func take() -> Int32 { descriptor.exchange(-1, ordering: .acquiringAndReleasing) }
}

/// What one pull of a stream gave.
package enum StreamStep: Sendable, Equatable {
    /// So many bytes, at least one, were written to the buffer.
    case bytes(Int)
    /// Nothing at the moment: the connection rests until `StreamWaker.wake()`.
    case wait
    /// The body is complete.
    case end
    /// The body cannot be completed: the connection is cut, so that the client sees that it is not whole.
    case fail
}

/// A body that is made while it is sent. The server pulls as fast as the client reads, never faster.
package protocol ResponseStream: AnyObject, Sendable {
    /// Called once, before the first `read`.
    func attach(_ waker: StreamWaker)
    /// Fills the buffer. On a server thread: never blocks. Never called concurrently with itself.
    func read(into buffer: UnsafeMutableRawBufferPointer) -> StreamStep
    /// The client of a stream that waits has closed its sending side. It may still read: only the next bytes
    /// that are sent to it show whether it has closed the whole connection. Called at most once, on a thread
    /// of the server's; must not block. Returns `true` if the stream sends something now, `false` to cut the
    /// connection.
    func clientStoppedSending() -> Bool
    /// The last call, exactly once, whether the body was sent whole, the client left or the server stops;
    /// also when the answer was never sent at all (then without `attach`).
    func cancelled()
}

/// Wakes the connection of a stream that waits. May be kept, copied and used from any thread, at any time:
/// a wake-up before the wait ends that wait, several count once, and after the end nothing happens.
package struct StreamWaker: Sendable {
    private let target: any WakeTarget
    init(target: any WakeTarget) { self.target = target }

    /// A waker that calls a closure, for streams and sinks that run without a server.
    package init(_ wake: @escaping @Sendable () -> Void) { target = ClosureTarget(wake) }

    /// Ends the present or the next wait. Cheap; takes a lock and, when the connection rests, writes to a
    /// pipe.
    package func wake() { target.wake() }
}

protocol WakeTarget: AnyObject, Sendable {
    func wake()
}

private final class ClosureTarget: WakeTarget {
    private let call: @Sendable () -> Void
    init(_ call: @escaping @Sendable () -> Void) { self.call = call }
    func wake() { call() }
}
