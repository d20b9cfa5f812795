internal import Glibc
internal import Synchronization

/// A response. The server adds `X-Request-Id`, `Date`, `Content-Length` and `Transfer-Encoding`: do not set
/// them. `Connection: close` may be set and closes the connection. The response to HEAD has no body; its
/// `Content-Length` is that of the body.
public struct Response: Sendable {
    /// Body of a response. The server owns it until it is sent or the client has left.
    public enum Body: Sendable {
        case empty
        case bytes([UInt8])
        /// Sent with sendfile(2).
        case file(FileBody)
        /// `length`: size in bytes, or `nil` if it is unknown. Without a length the body is chunked; on
        /// HTTP/1.0, closing the connection ends it.
        case stream(any ResponseStream, length: Int64? = nil)
    }
    /// Status code from 200 to 599. 204 and 304 have no body (RFC 9110 §15).
    public var status: Int
    /// Header fields in the order in which they are sent. Fields with an empty value are not sent.
    public var fields: HTTPFields
    /// Not sent for HEAD, 204 and 304.
    public var body: Body
    /// Fields after the body (RFC 9110 §6.5), announced in `Trailer`. Only a stream of unknown length has
    /// them; they are not sent if it fails, nor on HTTP/1.0.
    public var trailers = HTTPFields()

    /// Creates a response. Sending it is up to `Responder.send`.
    public init(status: Int, fields: HTTPFields = HTTPFields(), body: Body = .empty) {
        self.status = status
        self.fields = fields
        self.body = body
    }
}

/// Part of an open file as the body of a response. Owns the descriptor and closes it exactly once, even if
/// the response is never sent.
public final class FileBody: Sendable {
    /// Position of the first byte in the file.
    public let offset: Int64
    /// Number of bytes.
    public let length: Int64
    private let descriptor: Atomic<Int32>

    /// `descriptor`: a readable regular file, owned by this object from now on. If the file shrinks while it
    /// is sent, the server closes the connection.
    public init(descriptor: Int32, offset: Int64, length: Int64) {
        self.offset = offset
        self.length = length
        self.descriptor = Atomic(descriptor)
    }

    deinit {
        let descriptor = take()
        if descriptor >= 0 { close(descriptor) }
    }

    /// Passes ownership of the descriptor to the caller. Returns −1 if it was taken before.
    func take() -> Int32 { descriptor.exchange(-1, ordering: .acquiringAndReleasing) }
}

/// Result of one `ResponseStream.read`.
public enum StreamStep: Sendable, Equatable {
    /// Number of bytes written to the buffer, at least one.
    case bytes(Int)
    /// No bytes are available. The connection is suspended until `StreamWaker.wake()`.
    case wait
    /// The body is complete.
    case end
    /// The body cannot be completed. The server closes the connection, so that the client sees that the body
    /// is incomplete.
    case fail
}

/// A body that is produced while it is sent. The server reads only as fast as the client does.
public protocol ResponseStream: AnyObject, Sendable {
    /// Called once, before the first `read`. The stream may keep the waker.
    func attach(_ waker: StreamWaker)
    /// Fills the buffer. Called on a thread of the server, one call at a time; must not block.
    func read(into buffer: UnsafeMutableRawBufferPointer) -> StreamStep
    /// Called at most once, when the client of a waiting stream has closed its sending side. Such a client
    /// may still read: whether it has closed the whole connection shows only when bytes are sent to it.
    /// Returns `true` if the stream sends bytes now, or `false` to close the connection. Called on a thread
    /// of the server; must not block.
    func clientStoppedSending() -> Bool
    /// The last call, made exactly once: the body is complete, the client has left or the server stops. If
    /// the response was never sent, this is the only call.
    func cancelled()
}

/// Resumes the connection of a stream or sink that waits. May be kept, copied and used on any thread at any
/// time. A wake-up before the wait ends that wait at once, several wake-ups count as one, and a wake-up after
/// the end of the request does nothing.
public struct StreamWaker: Sendable {
    private let target: any WakeTarget
    init(target: any WakeTarget) { self.target = target }

    /// Creates a waker that calls a closure, for streams and sinks without a server.
    public init(_ wake: @escaping @Sendable () -> Void) { target = ClosureTarget(wake) }

    /// Ends the current or the next wait. Takes a lock; if the connection is suspended, also writes to a
    /// pipe.
    public func wake() { target.wake() }
}

protocol WakeTarget: AnyObject, Sendable {
    func wake()
}

private final class ClosureTarget: WakeTarget {
    private let call: @Sendable () -> Void
    init(_ call: @escaping @Sendable () -> Void) { self.call = call }
    func wake() { call() }
}
