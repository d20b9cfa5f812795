/// What happens to a request's body. Decided when the headers are in, before a byte of the body is read.
package enum BodyPlan: Sendable {
    /// Gather it, then call `RequestHandler.handle`. Above `limit` bytes the answer is 413. `room` is asked
    /// before memory is used for it; nil: it is too small to count.
    case collect(limit: Int, room: (any BodyRoom)? = nil)
    /// Hand it on piece by piece.
    case stream(any RequestSink)
    /// Answer at once. A client that waits for `100 Continue` never gets one; a large body is not read, the
    /// connection is closed then.
    case refuse(Response)
}

/// Decides and answers. All calls come on server threads, several at a time, and must not block: work that
/// waits goes to a thread of its own, which calls `Responder.send` later.
package protocol RequestHandler: Sendable {
    /// Called once a request, before its body.
    func plan(_ head: RequestHead) -> BodyPlan
    /// Called once a request whose plan was `collect`. To answer at once is the fast path.
    func handle(_ request: Request, _ responder: Responder)
    /// The answer to a request that the server itself turns down. `detail` is a sentence.
    func refusal(_ code: RefusalCode, _ detail: String, _ requestID: String) -> Response
    /// Called once when the request is over, for metrics and the access log. `status` is nil when no answer
    /// was sent; `durationNanoseconds` runs from the headers to the last byte handed to the kernel.
    func completed(_ head: RequestHead, status: Int?, durationNanoseconds: Int64)
}

/// Memory for one body, out of what there is for all. Given back when the object goes: the request keeps it
/// as long as the bytes.
package protocol BodyRoom: AnyObject, Sendable {
    /// Asks for so many bytes in all, once with the headers when the length is known, else as the body grows.
    /// Returns nil, or the answer to a request that gets no more. On the request's thread; must not block.
    func take(_ byteCount: Int) -> Response?
}

/// Takes a body piece by piece. Calls come on a server thread, never concurrently, and must not block.
package protocol RequestSink: AnyObject, Sendable {
    /// Called once, before the first `receive`.
    func attach(_ waker: StreamWaker)
    /// Takes bytes and returns how many. Fewer than offered is back-pressure: the connection rests until
    /// `StreamWaker.wake()`, and what was not taken is offered again. A sink that has failed takes everything
    /// and answers in `finish`.
    /// The body of a client that has closed its sending side is cut short by such a rest: libmicrohttpd reads
    /// the end of the input before it offers the remainder again.
    func receive(_ bytes: UnsafeRawBufferPointer) -> Int
    /// The body is complete: answer now or later. Nothing is called after it.
    func finish(_ responder: Responder)
    /// The client left, was too slow or the server stops, before `finish`. Nothing is called after it.
    func cancelled()
}

/// Sends the one answer of a request, from any thread.
package struct Responder: Sendable {
    private let target: any ResponseTarget
    init(target: any ResponseTarget) { self.target = target }

    /// A responder that calls a closure, for handlers that run without a server. Return whether the answer
    /// counted.
    package init(_ send: @escaping @Sendable (Response) -> Bool) { target = ClosureTarget(send) }

    /// Sends the answer. Returns false, and drops the answer, when the request has been answered already, its
    /// deadline is over (the server has answered 503) or the client has left.
    @discardableResult
    package func send(_ response: Response) -> Bool { target.send(response) }
}

protocol ResponseTarget: AnyObject, Sendable {
    func send(_ response: Response) -> Bool
}

private final class ClosureTarget: ResponseTarget {
    private let call: @Sendable (Response) -> Bool
    init(_ call: @escaping @Sendable (Response) -> Bool) { self.call = call }
    func send(_ response: Response) -> Bool { call(response) }
}
