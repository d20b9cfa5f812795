import CSys
import FerryCore
import Glibc
import Synchronization

/// The bytes of a copy in a file without a name, in which each byte has the offset that it has in the
/// content. The bytes of a request to an object store are in memory (memfd_create(2)): file threads hash the
/// parts of the object there before they are sent. A content whose length has to be known before it is sent
/// is on a disk. Bytes before `release(upTo:)` are gone, and cannot be read again.
///
/// The attempt's loop writes and reads, which may block for the time of one write to a local disk. File
/// threads read the open file.
final class FetchedFile: FetchedBytes {
    private enum Storage {
        /// `window`: bytes that are in memory at most. `reservation`: memory for more than one part.
        case memory(descriptor: Int32, window: Int64, reservation: BufferReservation?)
        case disk(ClaimedFile)
    }

    private struct State {
        var byteCount: Int64?
        var writtenByteCount: Int64 = 0
        var releasedByteCount: Int64 = 0
        var isWhole = false
        var isFull = false
        var failure: TransferError?
    }

    let identity: String?
    /// Bytes of a part, which are in memory at the same time. Also the most that one request to a store
    /// sends.
    let partByteCount: Int64
    private let storage: Storage
    private let descriptor: Int32
    private let state: Mutex<State>
    private let demand: @Sendable (FetchDemand) -> Void

    /// Makes a file in memory. `byteCount`: of the whole content; `nil` if only its end tells. `identity`: as
    /// `ByteSource.identity`. More than one part is in memory if `budget` has room for it. `demand` is called
    /// on the reading thread, and must not read or write. Throws `internal_error` if there is no memory.
    init(
        byteCount: Int64?, identity: String?, partByteCount: Int64, budget: BufferBudget,
        demand: @escaping @Sendable (FetchDemand) -> Void
    ) throws(TransferError) {
        descriptor = csys_memory_file()
        guard descriptor >= 0 else { throw .noMemory(errno) }
        self.identity = identity
        self.partByteCount = partByteCount
        self.demand = demand
        let most = min(byteCount ?? .max, Self.windowPartCount * partByteCount)
        let reservation = budget.claim(Int(most))
        // A part is only whole when bytes of the next one have come with it.
        let window = reservation == nil ? partByteCount + Self.portionByteCountMax : most
        storage = .memory(descriptor: descriptor, window: window, reservation: reservation)
        state = Mutex(State(byteCount: byteCount))
    }

    /// Makes a file of a content of unknown length on a disk.
    init(on disk: ClaimedFile, identity: String?) {
        descriptor = disk.descriptor
        self.identity = identity
        partByteCount = .max
        demand = { _ in }
        storage = .disk(disk)
        state = Mutex(State())
    }

    deinit { if case .memory(let descriptor, _, _) = storage { close(descriptor) } }

    /// Parts in memory at the same time: while some are sent, others come.
    private static let windowPartCount: Int64 = 4
    /// Bytes that are written at once.
    private static let portionByteCountMax: Int64 = 1 << 20

    // MARK: State

    var byteCount: Int64? { state.withLock { $0.byteCount } }
    /// Bytes from byte 0 on that have been written.
    var writtenByteCount: Int64 { state.withLock { $0.writtenByteCount } }
    /// Whether the last byte was written.
    var isWhole: Bool { state.withLock { $0.isWhole } }
    /// Reason for which the bytes cannot be fetched.
    var failure: TransferError? { state.withLock { $0.failure } }
    /// Whether the bytes are on a disk.
    var isOnDisk: Bool { if case .disk = storage { true } else { false } }

    // MARK: Reading

    var rereadableFrom: Int64? { 0 }
    var hashable: DigestTail.Bytes? { bytes }
    /// The file, for a file thread that hashes bytes which have been written.
    var bytes: DigestTail.Bytes { DigestTail.Bytes(descriptor: descriptor, owner: self, isWritten: false) }
    func isKnown(as content: JobContent) -> Bool { false }
    /// Only this object writes to the file.
    func checkUnchanged() throws(TransferError) {}

    /// Throws if the bytes are gone.
    func read(
        into buffer: UnsafeMutableRawBufferPointer, at offset: Int64
    ) throws(TransferError) -> ByteRead {
        let (end, isWhole) = try state.withLock { state -> Result<(Int64, Bool), TransferError> in
            if offset < state.releasedByteCount { return .failure(.bytesAreGone) }
            return .success((state.writtenByteCount, state.isWhole))
        }.get()
        let wanted = Int(min(Int64(buffer.count), max(0, end - offset)))
        guard wanted > 0 else { return isWhole || buffer.isEmpty ? .bytes(0) : .none }
        while true {
            let count = pread(descriptor, buffer.baseAddress, wanted, off_t(offset))
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw isOnDisk ? storageError(errno) : .noMemory(errno) }
            return .bytes(count)
        }
    }

    /// Nothing reads bytes that have not been written.
    func whenReadable(_ body: @escaping @Sendable () -> Void) { body() }

    /// Gives up the memory of the bytes before `offset`: no request needs them again. Keeps them if the whole
    /// content has room.
    func release(upTo offset: Int64) {
        guard case .memory(_, let window, _) = storage else { return }
        let (range, hasRoom) = state.withLock { state -> (Range<Int64>?, Bool) in
            guard state.byteCount ?? .max > window, offset > state.releasedByteCount else {
                return (nil, false)
            }
            let range = state.releasedByteCount..<offset
            state.releasedByteCount = offset
            let hasRoom = state.isFull
            state.isFull = false
            return (range, hasRoom)
        }
        guard let range else { return }
        csys_release_memory(descriptor, range.lowerBound, Int64(range.count))
        if hasRoom { demand(.drained) }
    }

    // MARK: Writing

    /// The bytes are fetched once.
    var awaitsRestart: Bool { false }
    func restarted() {}

    var isFull: Bool { state.withLock { $0.isFull } }

    func hasRoom(for count: Int) -> Bool {
        guard case .memory(_, let window, _) = storage else { return true }
        return state.withLock { state in
            state.isFull = state.writtenByteCount - state.releasedByteCount + Int64(count) > window
            return !state.isFull
        }
    }

    func write(_ bytes: UnsafeRawBufferPointer) {
        let offset = writtenByteCount
        do throws(TransferError) {
            switch storage {
            case .memory:
                do throws(TransferError) {
                    try writeAll(descriptor, bytes, at: offset)
                } catch {
                    throw .noMemory(error.osError)
                }
            case .disk(let file): try file.write(bytes, at: offset)
            }
        } catch {
            return fail(error)
        }
        state.withLock { $0.writtenByteCount = offset + Int64(bytes.count) }
    }

    func finish() {
        state.withLock { state in
            state.isWhole = true
            state.byteCount = state.writtenByteCount
        }
    }

    func fail(_ error: TransferError) { state.withLock { $0.failure = $0.failure ?? error } }
}

extension TransferError {
    fileprivate static func noMemory(_ osError: Int32) -> TransferError {
        TransferError(
            .internalError, "This node has no memory for the bytes of the copy.", phase: .receiving,
            isRetryable: true, osError: osError)
    }

    /// The store has lost parts that it had taken.
    fileprivate static let bytesAreGone = TransferError(
        .responseInvalid, "The store has lost parts of the upload, which have to be fetched again.",
        phase: .sending, isRetryable: true)
}
