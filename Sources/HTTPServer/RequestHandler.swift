/// Treatment of the body of a request by the server. Decided after the header fields and before the body is
/// read.
public enum BodyPlan: Sendable {
    /// Collects the body and calls `RequestHandler.handle`. A body above `limit` bytes gets a 413 response.
    /// `reservation` is asked before memory for the body is used; `nil` if the limit is so small that no
    /// memory is accounted for.
    case collect(limit: Int, reservation: (any BodyReservation)? = nil)
    /// Passes the body to the sink as it arrives.
    case stream(any RequestSink)
    /// Sends the response at once. A client that waits for `100 Continue` does not get it. If the body is
    /// larger than `ServerLimits.discardedBodyBytes`, the connection is closed instead of reading it.
    case refuse(Response)
}

/// Application of a server. All calls are made on threads of the server, several at the same time, and must
/// not block. A handler that has to wait does so on another thread and calls `Responder.send` later.
public protocol RequestHandler: Sendable {
    /// Chooses what happens to the body. Called once for each request, before its body.
    func plan(_ head: RequestHead) -> BodyPlan
    /// Handles a request whose plan was `collect`. Called once. A response sent within the call costs no
    /// suspension.
    func handle(_ request: Request, _ responder: Responder)
    /// Returns the response to a request that the server itself refuses. `detail` is a sentence.
    func refusal(_ code: RefusalCode, _ detail: String, _ requestID: String) -> Response
    /// Called once when the request is over, for metrics and access log. `status` is `nil` if no response was
    /// sent. `durationNanoseconds` is the time from the header fields to the last byte passed to the kernel.
    func completed(_ head: RequestHead, status: Int?, durationNanoseconds: Int64)
}

/// Reserved memory for one body, taken from a shared budget. The reservation ends when the object is
/// released; the request owns it for as long as the bytes.
public protocol BodyReservation: AnyObject, Sendable {
    /// Raises the reservation to `byteCount` bytes in all. Called once after the header fields if the length
    /// is known, else as the body grows. Returns `nil`, or the response to the request if there is not enough
    /// memory. Called on the thread of the request; must not block.
    func take(_ byteCount: Int) -> Response?
}

/// Result of one `RequestSink.begin`.
public enum SinkStart: Sendable {
    /// The sink takes the body. A client that waits for `100 Continue` gets it now, after `interim`, which is
    /// sent to HTTP/1.1 clients only.
    case ready(interim: InterimResponse? = nil)
    /// The sink is not ready. The connection is suspended until `StreamWaker.wake()`, and `begin` is called
    /// again.
    case wait
    /// Sends the response in place of reading the body, as `BodyPlan.refuse` does.
    case refuse(Response)
}

/// An interim response (RFC 9110 §15.2). libmicrohttpd can send none but `100 Continue`.
public struct InterimResponse: Sendable {
    /// Status code from 102 to 199.
    public let status: Int
    /// Reason phrase.
    public let reason: String
    /// Header fields in the order in which they are sent.
    public let fields: HTTPFields

    /// Creates an interim response.
    public init(status: Int, reason: String, fields: HTTPFields) {
        self.status = status
        self.reason = reason
        self.fields = fields
    }

    /// The response as sent on the wire.
    var serialized: [UInt8] {
        var text = "HTTP/1.1 \(status) \(reason)\r\n"
        for (name, value) in fields.pairs { text += "\(name): \(value)\r\n" }
        return Array((text + "\r\n").utf8)
    }
}

/// Receiver of a body in pieces. Calls are made on a thread of the server, one at a time, and must not block.
public protocol RequestSink: AnyObject, Sendable {
    /// Called once, before `begin`. The sink may keep the waker.
    func attach(_ waker: StreamWaker)
    /// Called before the body is read, and again after each wake-up until the result is not `wait`.
    func begin() -> SinkStart
    /// Returns the response that ends the request although its body is not complete, or `nil` to go on. Asked
    /// before each piece. At most `ServerLimits.discardedBodyBytes` of the body are read after it; if more
    /// follow, the connection is closed.
    func refusal() -> Response?
    /// Takes bytes and returns their number. A number below `bytes.count` is back-pressure: the connection is
    /// suspended until `StreamWaker.wake()`, and the other bytes are offered again. A sink that has failed
    /// takes all bytes and sends an error in `finish`.
    ///
    /// If the client has closed its sending side, such a suspension cuts the body short: libmicrohttpd reads
    /// the end of the input before it offers the remaining bytes again.
    func receive(_ bytes: UnsafeRawBufferPointer) -> Int
    /// The body is complete. The sink must respond now or later. No call follows.
    func finish(_ responder: Responder)
    /// The request ended before `finish`: the client has left or was too slow, or the server stops. No call
    /// follows.
    func cancelled()
}

extension RequestSink {
    /// A sink that is ready at once.
    public func begin() -> SinkStart { .ready() }
    /// A sink that refuses nothing before the end of the body.
    public func refusal() -> Response? { nil }
}

/// Sends the single response of a request. Usable on any thread.
public struct Responder: Sendable {
    private let target: any ResponseTarget
    init(target: any ResponseTarget) { self.target = target }

    /// Creates a responder that calls a closure, for handlers without a server. The closure returns `false`
    /// if the response is dropped.
    public init(_ send: @escaping @Sendable (Response) -> Bool) { target = ClosureTarget(send) }

    /// Sends the response. Returns `false` and drops it if the request has a response already, its deadline
    /// is over (the server has sent 503) or the client has left.
    @discardableResult
    public func send(_ response: Response) -> Bool { target.send(response) }
}

protocol ResponseTarget: AnyObject, Sendable {
    func send(_ response: Response) -> Bool
}

private final class ClosureTarget: ResponseTarget {
    private let call: @Sendable (Response) -> Bool
    init(_ call: @escaping @Sendable (Response) -> Bool) { self.call = call }
    func send(_ response: Response) -> Bool { call(response) }
}
