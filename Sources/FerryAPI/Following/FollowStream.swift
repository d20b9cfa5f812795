internal import FerryCore
internal import HTTPServer
internal import Synchronization

/// The body of a response that sends the content of a job while it arrives. Reads only as fast as its client
/// does, from a file, so that it never delays the transfer. Any thread.
final class FollowStream: ResponseStream {
    private enum End: Sendable {
        case open
        /// The content has this many bytes.
        case succeeded(Int64)
        case failed
    }
    private struct State {
        /// The bytes that have arrived; after the end, the complete content.
        var source: (any ReadableContent)?
        /// Bytes that the client has got.
        var sentByteCount: Int64 = 0
        var end = End.open
        var waits = false
        var waker: StreamWaker?
    }
    private let state = Mutex(State())
    private let onEnd: @Sendable (FollowStream) -> Void

    /// `onEnd` is called once, after the last read.
    init(onEnd: @escaping @Sendable (FollowStream) -> Void = { _ in }) { self.onEnd = onEnd }

    // MARK: Changes

    /// The bytes are in `source` from now on. If it is another file than before, and the client has bytes of
    /// the former one, the stream fails.
    func show(_ source: any FollowedContent) {
        change { state in
            if let before = state.source, before.key != source.key, state.sentByteCount > 0 {
                state.end = .failed
            } else {
                state.source = source
            }
        }
    }

    /// The job has succeeded with `content`, which is complete. Fails if the client has other bytes.
    func finish(_ content: any ReadableContent) {
        change { state in
            let count = state.sentByteCount
            guard count == 0 || state.source.map({ isSame($0, content, count) }) ?? false else {
                state.end = .failed
                return
            }
            state.source = content
            state.end = .succeeded(content.byteCount)
        }
    }

    /// Whether both begin with the same `count` bytes. Only small contents, which are in no file, are
    /// compared byte for byte.
    private func isSame(
        _ before: any ReadableContent, _ content: any ReadableContent, _ count: Int64
    ) -> Bool {
        if before.key == content.key { return true }
        guard content.key == nil, count <= content.byteCount else { return false }
        let (old, new) = (before.bytes(Int(count)), content.bytes(Int(count)))
        return old != nil && old == new
    }

    /// Closes the connection before the end of the body.
    func fail() { change { $0.end = .failed } }

    /// More bytes can be read.
    func wake() { change { _ in } }

    /// Bytes that the client has got if the stream waits for more; `nil` if it does not wait.
    var waitingByteCount: Int64? { state.withLock { $0.waits ? $0.sentByteCount : nil } }

    private func change(_ body: (inout State) -> Void) {
        let waker = state.withLock { state in
            body(&state)
            guard state.waits else { return nil as StreamWaker? }
            state.waits = false
            return state.waker
        }
        waker?.wake()
    }

    // MARK: The server's side

    func attach(_ waker: StreamWaker) { state.withLock { $0.waker = waker } }

    func read(into buffer: UnsafeMutableRawBufferPointer) -> StreamStep {
        let (step, awaited) = state.withLock { unsafe read(into: buffer, &$0) }
        // Outside the lock: the content may call back at once.
        awaited?.whenReadable { [weak self] in self?.wake() }
        return step
    }

    /// Returns the next step, and the content to wait for if it has no bytes yet.
    private func read(
        into buffer: UnsafeMutableRawBufferPointer, _ state: inout State
    ) -> (StreamStep, awaited: (any ReadableContent)?) {
        while true {
            if case .failed = state.end { return (.fail, nil) }
            let sent = state.sentByteCount
            if case .succeeded(let byteCount) = state.end, sent == byteCount { return (.end, nil) }
            if let source = state.source, source.byteCount > sent {
                let count = Int(min(source.byteCount - sent, Int64(buffer.count)))
                let part = unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[..<count])
                switch unsafe source.read(into: part, at: sent) {
                case .bytes(let read) where read > 0:
                    state.sentByteCount += Int64(read)
                    return (.bytes(read), nil)
                // The last bytes of the file were cut off: the next attempt fetches them again.
                case .bytes: if case .open = state.end { break } else { return (.fail, nil) }
                case .none:
                    state.waits = true
                    return (.wait, source)
                case .failed: return (.fail, nil)
                }
            } else if case .succeeded = state.end {
                return (.fail, nil)
            } else if let arriving = state.source as? any FollowedContent, !arriving.awaitBytes(after: sent) {
                continue
            }
            state.waits = true
            return (.wait, nil)
        }
    }

    /// Bytes cannot be sent before they arrive, so a client that has left is not told from one that has only
    /// ended its request.
    func clientStoppedSending() -> Bool { false }

    func cancelled() {
        state.withLock { state in
            state.source = nil
            state.end = .failed
            state.waker = nil
        }
        onEnd(self)
    }
}

extension ReadableContent {
    /// Returns the first `count` bytes, or `nil` if they cannot be read now.
    fileprivate func bytes(_ count: Int) -> [UInt8]? {
        var bytes = [UInt8](repeating: 0, count: count)
        var done = 0
        while done < count {
            let read = unsafe bytes.withUnsafeMutableBytes { [done] buffer in
                let rest = unsafe UnsafeMutableRawBufferPointer(rebasing: buffer[done...])
                return unsafe self.read(into: rest, at: Int64(done))
            }
            guard case .bytes(let read) = read, read > 0 else { return nil }
            done += read
        }
        return bytes
    }
}
