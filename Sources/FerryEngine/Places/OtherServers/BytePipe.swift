import FerryCore
import Synchronization

/// The bytes of a copy between the response that brings them and the request that sends them on: a ring in
/// memory, which makes the response wait while it is full, and the request while it is empty. The bytes come
/// in order. They can be read again from byte 0 only, by fetching them again.
///
/// The attempt's loop writes and reads, neither of which blocks.
final class BytePipe: FetchedBytes {
    private struct State {
        var memory: [UInt8]
        /// Place of the next byte to read in the ring, and number of bytes there.
        var start = 0
        var count = 0
        /// Offset in the whole content of the next byte to read.
        var offset: Int64 = 0
        /// Whether the last byte was written.
        var isWhole = false
        var failure: TransferError?
        /// Whether the bytes that come are no longer those that are read next.
        var awaitsRestart = false
        /// Whether the fetching side waits for room.
        var isFull = false
        var waiting: [@Sendable () -> Void] = []

        mutating func append(_ bytes: UnsafeRawBufferPointer) {
            let end = (start + count) % memory.count
            let atEnd = min(bytes.count, memory.count - end)
            memory.withUnsafeMutableBytes { memory in
                UnsafeMutableRawBufferPointer(rebasing: memory[end..<end + atEnd])
                    .copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[..<atEnd]))
                memory.copyMemory(from: UnsafeRawBufferPointer(rebasing: bytes[atEnd...]))
            }
            count += bytes.count
        }

        /// Moves bytes to the buffer. Returns how many; 0 if there are none.
        mutating func take(into buffer: UnsafeMutableRawBufferPointer) -> Int {
            let taken = min(buffer.count, count)
            let atEnd = min(taken, memory.count - start)
            memory.withUnsafeBytes { memory in
                buffer.copyMemory(from: UnsafeRawBufferPointer(rebasing: memory[start..<start + atEnd]))
                UnsafeMutableRawBufferPointer(rebasing: buffer[atEnd...])
                    .copyMemory(from: UnsafeRawBufferPointer(rebasing: memory[..<(taken - atEnd)]))
            }
            start = (start + taken) % memory.count
            count -= taken
            offset += Int64(taken)
            return taken
        }

        mutating func takeWaiting() -> [@Sendable () -> Void] {
            defer { waiting = [] }
            return waiting
        }
    }

    /// Bytes in memory at most. The fetching side writes less at once.
    private static let capacityMax = 1 << 20

    let byteCount: Int64?
    let identity: String?
    private let capacity: Int
    private let state: Mutex<State>
    private let demand: @Sendable (FetchDemand) -> Void

    /// `byteCount`: of the whole content; `nil` if only its end tells. `identity`: as `ByteSource.identity`.
    /// `demand` is called on the reading thread, and must not read or write.
    init(byteCount: Int64?, identity: String?, demand: @escaping @Sendable (FetchDemand) -> Void) {
        self.byteCount = byteCount
        self.identity = identity
        self.demand = demand
        capacity = max(1, Int(min(byteCount ?? .max, Int64(Self.capacityMax))))
        state = Mutex(State(memory: [UInt8](repeating: 0, count: capacity)))
    }

    // MARK: Reading

    var rereadableFrom: Int64? { 0 }
    var isStream: Bool { true }
    var hashable: DigestTail.Bytes? { nil }
    func isKnown(as content: JobContent) -> Bool { false }
    /// Whether the bytes have changed shows when they are fetched again.
    func checkUnchanged() throws(TransferError) {}

    /// Throws the error with which fetching has ended.
    func read(
        into buffer: UnsafeMutableRawBufferPointer, at offset: Int64
    ) throws(TransferError) -> ByteRead {
        let (result, demand) = state.withLock { state -> (Result<ByteRead, TransferError>, FetchDemand?) in
            if let failure = state.failure { return (.failure(failure), nil) }
            if offset != state.offset, !state.awaitsRestart {
                // No input reaches this: a body is read in order.
                precondition(offset == 0, "a stream is read again from its beginning only")
                (state.start, state.count, state.offset) = (0, 0, 0)
                (state.isWhole, state.isFull, state.awaitsRestart) = (false, false, true)
                return (.success(.none), .restart)
            }
            guard state.count > 0 else { return (.success(state.isWhole ? .bytes(0) : .none), nil) }
            let count = state.take(into: buffer)
            let hasDrained = state.isFull && state.count <= capacity / 2
            if hasDrained { state.isFull = false }
            return (.success(.bytes(count)), hasDrained ? .drained : nil)
        }
        if let demand { self.demand(demand) }
        return try result.get()
    }

    func whenReadable(_ body: @escaping @Sendable () -> Void) {
        let isReadable = state.withLock { state in
            if state.count > 0 || state.isWhole || state.failure != nil { return true }
            state.waiting.append(body)
            return false
        }
        if isReadable { body() }
    }

    // MARK: Writing

    var awaitsRestart: Bool { state.withLock { $0.awaitsRestart } }

    var isFull: Bool { state.withLock { $0.isFull } }

    func hasRoom(for count: Int) -> Bool {
        state.withLock { state in
            state.isFull = count > capacity - state.count
            return !state.isFull
        }
    }

    func write(_ bytes: UnsafeRawBufferPointer) {
        tell(
            state.withLock { state in
                state.append(bytes)
                return state.takeWaiting()
            })
    }

    func finish() {
        tell(
            state.withLock { state in
                state.isWhole = true
                return state.takeWaiting()
            })
    }

    func fail(_ error: TransferError) {
        tell(
            state.withLock { state in
                state.failure = state.failure ?? error
                return state.takeWaiting()
            })
    }

    func restarted() { state.withLock { $0.awaitsRestart = false } }

    /// Tells those that wait that reading may find something.
    private func tell(_ waiting: [@Sendable () -> Void]) { for one in waiting { one() } }
}
