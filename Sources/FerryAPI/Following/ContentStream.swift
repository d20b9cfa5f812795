internal import FerryCore
internal import HTTPServer
internal import Synchronization

/// A part of complete content as the body of a response. Any thread.
final class ContentStream: ResponseStream {
    private let content: any ReadableContent
    /// The bytes that are not sent yet.
    private let rest: Mutex<Range<Int64>>
    private let waker = Mutex<StreamWaker?>(nil)

    /// Sends the bytes of that range.
    init(_ content: any ReadableContent, _ range: Range<Int64>) {
        self.content = content
        rest = Mutex(range)
    }

    func attach(_ waker: StreamWaker) { self.waker.withLock { $0 = waker } }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> StreamStep {
        let rest = rest.withLock { $0 }
        guard !rest.isEmpty else { return .end }
        let count = Int(min(rest.upperBound - rest.lowerBound, Int64(buffer.count)))
        let part = unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[..<count])
        switch unsafe content.read(into: part, at: rest.lowerBound) {
        case .bytes(let read) where read > 0:
            self.rest.withLock { $0 = (rest.lowerBound + Int64(read))..<rest.upperBound }
            return .bytes(read)
        // The content has become shorter.
        case .bytes, .failed: return .fail
        case .none:
            let waker = waker.withLock { $0 }
            content.whenReadable { waker?.wake() }
            return .wait
        }
    }

    /// There are no bytes to send, so a client that has left is not told from one that has only ended its
    /// request.
    func clientStoppedSending() -> Bool { false }

    func cancelled() { waker.withLock { $0 = nil } }
}

/// Content in memory: the body of a data job.
final class ContentInMemory: ReadableContent {
    private let body: [UInt8]

    init(_ body: [UInt8]) { self.body = body }

    var key: FollowedContentKey? { nil }
    var byteCount: Int64 { Int64(body.count) }
    func read(into buffer: UnsafeMutableRawBufferPointer, at offset: Int64) -> ContentRead {
        let count = min(buffer.count, body.count - Int(offset))
        unsafe buffer.copyBytes(from: body[Int(offset)..<Int(offset) + count])
        return .bytes(count)
    }
    /// All bytes are there: a read never finds none.
    func whenReadable(_ body: @escaping @Sendable () -> Void) { body() }
}
