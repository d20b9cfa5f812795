import FerryCore
import Glibc
import Logging
import Synchronization
import Sys

/// How much room there is on the file systems that bodies are written to, how much of it has been promised to
/// transfers that run, and which of them cannot be written to at all. Any thread.
final class StorageSpace: Sendable {
    private let volumes = Mutex<[dev_t: StorageVolume]>([:])
    private let shortages = StorageShortages()
    private let troubles = StorageFailures()
    private let silence: StorageStallDetector
    let needs = StorageNeeds()
    private let reserve: Int64
    private let shortageMax: Int64
    private let watched: [String]
    private let gate: DownloadAdmission
    private let isMeasuring = Atomic<Bool>(false)
    private let latest = Mutex<[StorageRoom]>([])
    /// The file systems of `watched` that close the gate, each with one of those directories.
    private let gated = Mutex<[dev_t: StorageDirectory]>([:])
    /// Of `watched`, those that were read-only at the start do not: nobody wants to write there.
    private let readOnlyAtStart: Set<String>
    private let logger: Logger?

    /// `reserve`: bytes that stay free. `watched`: directories on whose file systems downloads end; while one
    /// of them is short of room or cannot be written to, `gate` is closed.
    ///
    /// `shortageMax`: nanoseconds after which a shortage is forgotten that nobody has met since.
    init(
        reserve: Int64, watched: [String], gate: DownloadAdmission,
        shortageMax: Int64 = EngineLimits.shortageMax,
        silence: StorageStallDetector = StorageStallDetector(timeout: 120, syncs: false),
        logger: Logger? = nil
    ) {
        self.silence = silence
        self.reserve = reserve
        self.shortageMax = shortageMax
        self.watched = watched
        self.gate = gate
        self.logger = logger
        readOnlyAtStart = Set(watched.filter { (try? WatchedLook($0))?.isReadOnly == true })
        measure()
    }

    /// Room for a body below `place`; `byteCount` is how long it will be, as far as anybody knows. Throws
    /// `storage_full` when that is more than there is.
    func claim(
        at place: StorageDirectory, expecting byteCount: Int64?
    ) throws(TransferError) -> StorageClaim {
        let volume = volume(of: place.descriptor)
        return StorageClaim(volume, try volume?.promise(byteCount ?? 0, place.descriptor) ?? 0)
    }

    /// A write has found no room although it was promised: somebody else has taken it.
    func noteFull(at place: StorageDirectory) { volume(of: place.descriptor)?.noteFull(place.descriptor) }

    /// Whether a file system has run full or could not be written to, as far as nobody has seen yet that this
    /// is over.
    var hasShortages: Bool { shortages.count > 0 || troubles.count > 0 }

    /// Throws `storage_full` while a body below `place` would find as little room as another one did a short
    /// time ago, and `storage_unavailable` while nobody can write there: there is no need to ask a server.
    func awaitRoom(at place: StorageDirectory, expecting byteCount: Int64) throws(TransferError) {
        if let device = place.device { try troubles.check(device) }
        try volume(of: place.descriptor)?.awaitRoom(for: byteCount, place.descriptor)
    }

    /// Whether nobody can write below `place`, after somebody could not. Closes the gate at once when
    /// downloads usually end on that disk, and it is not a mount of its own that is read-only.
    func isUnavailable(at place: StorageDirectory) -> Bool {
        guard let device = place.device else { return true }
        if troubles[device] != nil { return true }
        let osError = place.writingTrial()
        guard saysUnavailable(osError) else { return false }
        guard let usual = gated.withLock({ $0[device] }) else {
            troubles.note(osError, at: place, on: device)
            return true
        }
        let usualError = usual.writingTrial()
        guard saysUnavailable(usualError) else { return false }
        // Closed first: an attempt that finds the trouble noted ends at once, and then nothing is to begin.
        close(.unwritable, because: usualError)
        troubles.note(usualError, at: usual, on: device)
        return true
    }

    private func volume(of descriptor: Int32) -> StorageVolume? {
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { return nil }
        return volumes.withLock { volumes in
            if let known = volumes[status.st_dev] { return known }
            let volume = StorageVolume(reserve: reserve, shortages)
            volumes[status.st_dev] = volume
            return volume
        }
    }

    /// Whether what should be written waits for a disk that hangs: nothing more is begun.
    var isSilent: Bool { silence.isSilent(monotonicNanoseconds()) }

    /// Whether that has lasted for so long that attempts are to be given up.
    var isLost: Bool { silence.isLost(monotonicNanoseconds()) }

    func stop() { silence.stop() }

    /// Once a second: looks at the watched directories on a file thread, where a hanging file system holds
    /// nobody up, and never twice at once.
    func measure(on lane: FileThreadPool) {
        let now = monotonicNanoseconds()
        let writable = watched.filter { !readOnlyAtStart.contains($0) }
        silence.look(now, busy: lane.busyNanoseconds(now), at: writable)
        if silence.isSilent(now) { close(.unwritable, because: ETIMEDOUT) }
        guard !isMeasuring.exchange(true, ordering: .relaxed) else { return }
        lane.send(
            .run { [self] in
                measure()
                isMeasuring.store(false, ordering: .relaxed)
            })
    }

    func measure() {
        forgetShortages()
        var (rooms, failure): ([StorageRoom], Int32?) = ([], nil)
        var gated: [dev_t: StorageDirectory] = [:]
        for path in watched {
            do throws(SystemError) {
                let look = try WatchedLook(path)
                if let room = room(path, look.place) { rooms.append(room) }
                if readOnlyAtStart.contains(path) { continue }
                gated[look.device] = gated[look.device] ?? look.place
                if look.isReadOnly, troubles[look.device] == nil {
                    close(.unwritable, because: EROFS)
                    troubles.note(EROFS, at: look.place, on: look.device)
                }
                failure = failure ?? troubles.meet(look.device)
            } catch {
                if saysUnavailable(error.code) { failure = failure ?? error.code }
            }
        }
        latest.withLock { [rooms] in $0 = rooms }
        self.gated.withLock { [gated] in $0 = gated }
        if isSilent { failure = ETIMEDOUT }
        if let failure { return close(.unwritable, because: failure) }
        // Opened later than it is closed, so that it does not flutter.
        let isFull = gate.hold == .noRoom
        let hasRoom = rooms.allSatisfy { room in
            room.free - room.promised >= room.reserve + (isFull ? room.reserve / 8 : 0)
        }
        guard hasRoom else { return close(.noRoom) }
        guard gate.hold != nil else { return }
        gate.set(nil)
        logger?.notice("Downloads begin again.")
    }

    private func close(_ hold: DownloadAdmission.Hold, because osError: Int32 = 0) {
        guard gate.hold != hold else { return }
        gate.set(hold)
        switch hold {
        case .noRoom:
            logger?.warning(
                "No download begins: the disk has less room than FERRY_STORAGE_RESERVE is to keep free.")
        case .unwritable where osError == ETIMEDOUT:
            logger?.error("No download begins: the disk does not answer.")
        case .unwritable:
            logger?.error(
                "No download begins: the disk cannot be written to.",
                metadata: ["os.error": "\(String(cString: strerror(osError)))"])
        }
    }

    /// Who waited for room may have gone: without this, every later download would be asked where it goes.
    private func forgetShortages() {
        guard hasShortages else { return }
        let now = monotonicNanoseconds()
        troubles.lookAgain(metBefore: now - shortageMax)
        for volume in volumes.withLock({ Array($0.values) }) {
            volume.forgetShortage(metBefore: now - shortageMax)
        }
    }

    /// One for each watched directory that could be looked at, as of the last time.
    var rooms: [StorageRoom] { latest.withLock { $0 } }

    private func room(_ path: String, _ place: StorageDirectory) -> StorageRoom? {
        guard let volume = volume(of: place.descriptor) else { return nil }
        volume.measure(place.descriptor)
        return volume.room(path)
    }
}

/// What can be seen of a watched directory, or of the one that it will be made in.
private struct WatchedLook {
    let place: StorageDirectory
    let device: dev_t
    let isReadOnly: Bool

    init(_ path: String) throws(SystemError) {
        place = try StorageDirectory.existing(path)
        guard let device = place.device else { throw SystemError("fstat \(path)") }
        self.device = device
        var information = statvfs()
        guard fstatvfs(place.descriptor, &information) == 0 else { throw SystemError("statvfs \(path)") }
        isReadOnly = information.f_flag & UInt(ST_RDONLY) != 0
    }
}

/// The room on one file system, as an operator sees it; bytes.
package struct StorageRoom: Sendable, Equatable {
    package let path: String
    package let free: Int64
    package let promised: Int64
    package let reserve: Int64
}

/// How long the files are that found no room, so that their servers need not be asked again. Any thread.
final class StorageNeeds: Sendable {
    private static let countMax = 10_000
    private let needs = Mutex<[JobID: Int64]>([:])

    /// Beyond a bound all are forgotten: whoever is not known asks once more.
    func note(_ job: JobID, _ byteCount: Int64) {
        needs.withLock { needs in
            if needs.count >= Self.countMax { needs = [:] }
            needs[job] = byteCount
        }
    }

    subscript(job: JobID) -> Int64? { needs.withLock { $0[job] } }
    func forget(_ job: JobID) { needs.withLock { $0[job] = nil } }
}

/// How many file systems have run full, as far as nobody has seen yet that they have room again.
final class StorageShortages: Sendable {
    private let value = Atomic<Int>(0)
    var count: Int { value.load(ordering: .relaxed) }
    fileprivate func add(_ change: Int) { value.wrappingAdd(change, ordering: .relaxed) }
}

/// One file system. Measured at most once a second; in between, what we write is subtracted.
final class StorageVolume: Sendable {
    private struct State {
        var measuredAt: Int64?
        /// Nil: the file system does not say.
        var free: Int64?
        var reserve: Int64 = 0
        var promised: Int64 = 0
        /// All that a file could ever have; nil: the file system does not say.
        var most: Int64?
        /// When somebody last found no room; nil: nobody did, or there is some again.
        var shortAt: Int64?
    }

    private static let interval: Int64 = 1_000_000_000
    /// No more than this part of a small file system is kept free.
    private static let reservePart: Int64 = 20

    private let reserve: Int64
    private let state = Mutex(State())
    private let shortages: StorageShortages

    init(reserve: Int64, _ shortages: StorageShortages) {
        self.reserve = reserve
        self.shortages = shortages
    }

    /// How many of so many bytes are promised: none where the file system does not say what it has, for what
    /// servers announce adds up to anything. Throws `storage_full` when there are not so many.
    func promise(_ byteCount: Int64, _ descriptor: Int32) throws(TransferError) -> Int64 {
        try state.withLock { state throws(TransferError) in
            refresh(&state, descriptor)
            // Another one may be mounted by now under the same number.
            if byteCount > state.most ?? .max { measure(&state, descriptor, monotonicNanoseconds()) }
            guard byteCount <= state.most ?? .max else { throw Self.tooSmall }
            guard hasRoom(state, for: byteCount) else { throw noteFull(&state) }
            guard state.free != nil else { return 0 }
            state.promised += byteCount
            return byteCount
        }
    }

    /// Throws `storage_full` when somebody found no room and there is still too little for so many bytes. As
    /// with the gate, more than the reserve has to be free again.
    func awaitRoom(for byteCount: Int64, _ descriptor: Int32) throws(TransferError) {
        try state.withLock { state throws(TransferError) in
            guard state.shortAt != nil else { return }
            refresh(&state, descriptor)
            guard hasRoom(state, for: byteCount, above: state.reserve / 8) else { throw noteFull(&state) }
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

    /// Forgets that somebody found no room, unless it was after that.
    func forgetShortage(metBefore instant: Int64) {
        state.withLock { state in
            guard let last = state.shortAt, last <= instant else { return }
            state.shortAt = nil
            shortages.add(-1)
        }
    }

    /// Counts bytes that are about to be written, some of them promised. Throws `storage_full` when there is
    /// no room for the others.
    func write(_ byteCount: Int64, promised: Int64, _ descriptor: Int32) throws(TransferError) {
        try state.withLock { state throws(TransferError) in
            refresh(&state, descriptor)
            guard byteCount == promised || hasRoom(state, for: byteCount - promised) else {
                throw noteFull(&state)
            }
            state.promised -= promised
            state.free = state.free.map { $0 - byteCount }
        }
    }

    /// Takes a promise back.
    func release(_ byteCount: Int64) { state.withLock { $0.promised -= byteCount } }

    func measure(_ descriptor: Int32) { state.withLock { measure(&$0, descriptor, monotonicNanoseconds()) } }

    func room(_ path: String) -> StorageRoom? {
        state.withLock { state in
            state.free.map {
                StorageRoom(path: path, free: $0, promised: state.promised, reserve: state.reserve)
            }
        }
    }

    private func hasRoom(_ state: State, for byteCount: Int64, above more: Int64 = 0) -> Bool {
        guard let free = state.free else { return true }
        return byteCount <= free - state.promised - state.reserve - more
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

    /// File systems that have no end of their own (those in user space) may name any number.
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

/// What one body may still write, until it is let go. One thread at a time.
final class StorageClaim {
    private let volume: StorageVolume?
    private var promised: Int64

    fileprivate init(_ volume: StorageVolume?, _ promised: Int64) {
        self.volume = volume
        self.promised = promised
    }

    deinit { volume?.release(promised) }

    /// To be asked before bytes are written to `descriptor`. Throws `storage_full`.
    func take(_ byteCount: Int, _ descriptor: Int32) throws(TransferError) {
        let ours = min(promised, Int64(byteCount))
        try volume?.write(Int64(byteCount), promised: ours, descriptor)
        promised -= ours
    }
}
