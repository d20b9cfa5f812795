import FerryCore
import Glibc
import Synchronization
import Sys

/// The free space of one file system. Measured at most once a second; in between, written bytes are
/// subtracted.
final class StorageVolume: Sendable {
    private struct State {
        var measuredAt: Int64?
        /// `nil` if the file system does not tell.
        var free: Int64?
        var reserve: Int64 = 0
        /// Bytes that are promised to bodies of known length.
        var promised: Int64 = 0
        /// Bytes that the jobs of each tenant expect, and whose number no server has confirmed.
        var estimated: [String: Int64] = [:]
        /// The largest possible file, in bytes; `nil` if the file system does not tell.
        var most: Int64?
        /// When a body last found no space, in monotonic nanoseconds; `nil` if there is no shortage.
        var shortAt: Int64?
    }

    private static let interval: Int64 = 1_000_000_000
    /// The reserve is at most one part in so many of the file system.
    private static let reservePart: Int64 = 20

    private let reserve: Int64
    private let state = Mutex(State())
    private let shortages: StorageShortages

    init(reserve: Int64, _ shortages: StorageShortages) {
        self.reserve = reserve
        self.shortages = shortages
    }

    /// Promises so many bytes and returns how many are promised: 0 if the file system does not tell its free
    /// space. Throws `storage_full` if the space is smaller.
    func promise(
        _ byteCount: Int64, estimatedBy tenant: String?, _ descriptor: Int32
    ) throws(TransferError) -> Int64 {
        try state.withLock { state throws(TransferError) in
            refresh(&state, descriptor)
            try needSize(for: byteCount, &state, descriptor)
            guard hasSpace(state, for: byteCount) else { throw noteFull(&state) }
            guard state.free != nil else { return 0 }
            Self.promise(byteCount, estimatedBy: tenant, &state)
            return byteCount
        }
    }

    /// Throws `storage_full`, not retryable, if the file system can never hold so many bytes.
    private func needSize(
        for byteCount: Int64, _ state: inout State, _ descriptor: Int32
    ) throws(TransferError) {
        guard byteCount > state.most ?? .max else { return }
        // Another file system may be mounted by now with the same device number.
        measure(&state, descriptor, monotonicNanoseconds())
        guard byteCount <= state.most ?? .max else { throw Self.tooSmall }
    }

    /// Throws `storage_full` if a body found no space and there is still too little for the bytes that
    /// a file of `total` bytes needs beside its first `held` ones. An eighth more than the reserve has
    /// to be free, so that bodies do not fail and begin by turns. A file that is larger than the file
    /// system fails instead of waiting.
    func needSpace(for total: Int64, after held: Int64, _ descriptor: Int32) throws(TransferError) {
        try state.withLock { state throws(TransferError) in
            guard state.shortAt != nil else { return }
            refresh(&state, descriptor)
            try needSize(for: total, &state, descriptor)
            guard hasSpace(state, for: max(0, total - held), above: state.reserve / 8) else {
                throw noteFull(&state)
            }
            state.shortAt = nil
            shortages.add(-1)
        }
    }

    func noteFull(_ descriptor: Int32) {
        state.withLock { state in
            measure(&state, descriptor, monotonicNanoseconds())
            _ = noteFull(&state)
        }
    }

    private func noteFull(_ state: inout State) -> TransferError {
        if state.shortAt == nil { shortages.add(1) }
        state.shortAt = monotonicNanoseconds()
        return Self.full
    }

    /// Forgets a shortage that was last met at or before `instant`.
    func forgetShortage(metBefore instant: Int64) {
        state.withLock { state in
            guard let last = state.shortAt, last <= instant else { return }
            state.shortAt = nil
            shortages.add(-1)
        }
    }

    /// Counts bytes that are about to be written, `promised` of them promised. Throws `storage_full` if there
    /// is no space for the others, and for those of an estimate that exceeds its tenant's share.
    func write(
        _ byteCount: Int64, promised: Int64, estimatedBy tenant: String?, _ descriptor: Int32
    ) throws(TransferError) {
        try state.withLock { state throws(TransferError) in
            refresh(&state, descriptor)
            Self.promise(-promised, estimatedBy: tenant, &state)
            guard tenant == nil && byteCount == promised || hasSpace(state, for: byteCount) else {
                Self.promise(promised, estimatedBy: tenant, &state)
                throw noteFull(&state)
            }
            state.free = state.free.map { $0 - byteCount }
        }
    }

    /// Takes back a promise of so many bytes.
    func release(_ byteCount: Int64, estimatedBy tenant: String?) {
        state.withLock { Self.promise(-byteCount, estimatedBy: tenant, &$0) }
    }

    private static func promise(_ byteCount: Int64, estimatedBy tenant: String?, _ state: inout State) {
        guard byteCount != 0 else { return }
        guard let tenant else { return state.promised += byteCount }
        let sum = (state.estimated[tenant] ?? 0) + byteCount
        state.estimated[tenant] = sum == 0 ? nil : sum
    }

    /// Bytes that are promised: of each tenant's estimates at most its share, so that no tenant can reserve
    /// the whole disk with numbers that are not true. The free space has a share for each tenant that
    /// estimates, and one for all others.
    private static func promised(_ state: State) -> Int64 {
        guard !state.estimated.isEmpty, let free = state.free else { return state.promised }
        let share = max(0, free - state.reserve - state.promised) / Int64(state.estimated.count + 1)
        return state.promised + state.estimated.values.reduce(0) { $0 + min($1, share) }
    }

    func measure(_ descriptor: Int32) { state.withLock { measure(&$0, descriptor, monotonicNanoseconds()) } }

    func report(_ path: String) -> StorageSpaceReport? {
        state.withLock { state in
            state.free.map {
                StorageSpaceReport(
                    path: path, free: $0, promised: Self.promised(state), reserve: state.reserve)
            }
        }
    }

    private func hasSpace(_ state: State, for byteCount: Int64, above more: Int64 = 0) -> Bool {
        guard let free = state.free else { return true }
        return byteCount <= free - Self.promised(state) - state.reserve - more
    }

    private func refresh(_ state: inout State, _ descriptor: Int32) {
        let now = monotonicNanoseconds()
        if let last = state.measuredAt, now - last < Self.interval { return }
        measure(&state, descriptor, now)
    }

    private func measure(_ state: inout State, _ descriptor: Int32, _ now: Int64) {
        state.measuredAt = now
        var information = statvfs()
        guard fstatvfs(descriptor, &information) == 0, information.f_blocks > 0 else {
            (state.free, state.most) = (nil, nil)
            return
        }
        let size = Self.byteCount(information.f_blocks, information.f_frsize)
        state.free = Self.byteCount(information.f_bavail, information.f_frsize)
        state.reserve = min(reserve, size / Self.reservePart)
        state.most = size - state.reserve
    }

    /// File systems in user space may report any number.
    private static func byteCount(_ blocks: UInt, _ blockSize: UInt) -> Int64 {
        let (product, overflows) = blocks.multipliedReportingOverflow(by: blockSize)
        return overflows ? .max : Int64(clamping: product)
    }

    private static let full = TransferError(
        .storageFull, "There is not enough room for the file.", phase: .receiving, isRetryable: true)
    /// Waiting would not help.
    private static let tooSmall = TransferError(
        .storageFull, "The file is larger than the file system that it goes to.", phase: .receiving,
        isRetryable: false)
}

/// The space that is promised to one body. Given back when it is released. One thread at a time.
final class StorageClaim {
    private let volume: StorageVolume?
    private var promised: Int64
    /// The tenant whose estimate the promise is; `nil` if the length is known.
    private let tenant: String?

    init(_ volume: StorageVolume?, _ promised: Int64, estimatedBy tenant: String?) {
        self.volume = volume
        self.promised = promised
        self.tenant = tenant
    }

    deinit { volume?.release(promised, estimatedBy: tenant) }

    /// Counts bytes before they are written to `descriptor`. Throws `storage_full` if there is no space for
    /// them.
    func take(_ byteCount: Int, _ descriptor: Int32) throws(TransferError) {
        let ours = min(promised, Int64(byteCount))
        try volume?.write(Int64(byteCount), promised: ours, estimatedBy: tenant, descriptor)
        promised -= ours
    }
}
