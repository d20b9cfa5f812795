internal import FerryCore
internal import Synchronization

/// The body of a client's request on its way to another node. It is read from the client only as fast as the
/// node takes it. Any thread.
package final class ForwardedBody: Sendable {
    /// Result of a read.
    package enum Read: Sendable, Equatable {
        /// So many bytes.
        case bytes(Int)
        /// None yet: the callback of `whenReadable` is called when there are some.
        case none
        /// All bytes were read.
        case end
        /// The client has left, or the response came before the end of the body.
        case cancelled
    }

    private struct State {
        /// Bytes that have come, and how many of them were read.
        var bytes: [UInt8] = []
        var readCount = 0
        var hasEnded = false
        var isCancelled = false
        /// Whether the reader waits for bytes, and the writer for room.
        var readerWaits = false
        var writerWaits = false
        var readable: (@Sendable () -> Void)?

        /// Returns the callback of a reader that waits.
        mutating func wakeReader() -> (@Sendable () -> Void)? {
            guard readerWaits else { return nil }
            readerWaits = false
            return readable
        }
    }

    /// Number of bytes; `nil` if only their end tells it.
    package let byteCount: Int64?
    private let state = Mutex(State())
    private let writable: @Sendable () -> Void

    /// `writable` is called when bytes are taken again, after a `take` that has left some. It must not block.
    init(byteCount: Int64?, writable: @escaping @Sendable () -> Void) {
        self.byteCount = byteCount
        self.writable = writable
    }

    // MARK: The client's side

    /// Takes bytes, and returns how many.
    func take(_ bytes: UnsafeRawBufferPointer) -> Int {
        let (count, readable) = state.withLock { state -> (Int, (@Sendable () -> Void)?) in
            // The rest is not read.
            if state.isCancelled { return (bytes.count, nil) }
            let room = Limits.nodeResponseByteCountMax - (state.bytes.count - state.readCount)
            let count = max(0, min(bytes.count, room))
            unsafe state.bytes.append(contentsOf: bytes[..<count])
            state.writerWaits = count < bytes.count
            return (count, count > 0 ? state.wakeReader() : nil)
        }
        readable?()
        return count
    }

    /// All bytes have come.
    func end() { change { $0.hasEnded = true } }

    /// The rest of the body is not needed.
    func cancel() { change { $0.isCancelled = true } }

    private func change(_ change: (inout State) -> Void) {
        let readable = state.withLock { state in
            change(&state)
            return state.wakeReader()
        }
        readable?()
    }

    // MARK: The side of the other node

    /// Sets the callback for a reader that has found no bytes. It must not block.
    package func whenReadable(_ body: @escaping @Sendable () -> Void) {
        state.withLock { $0.readable = body }
    }

    /// Reads the next bytes.
    package func read(into buffer: UnsafeMutableRawBufferPointer) -> Read {
        let (read, writes) = state.withLock { state -> (Read, Bool) in
            if state.isCancelled { return (.cancelled, false) }
            let count = min(buffer.count, state.bytes.count - state.readCount)
            guard count > 0 else {
                state.readerWaits = !state.hasEnded
                return (state.hasEnded ? .end : .none, false)
            }
            unsafe buffer.copyBytes(from: state.bytes[state.readCount..<state.readCount + count])
            state.readCount += count
            if state.readCount == state.bytes.count {
                state.bytes.removeAll(keepingCapacity: true)
                state.readCount = 0
            }
            defer { state.writerWaits = false }
            return (.bytes(count), state.writerWaits)
        }
        if writes { writable() }
        return read
    }
}
