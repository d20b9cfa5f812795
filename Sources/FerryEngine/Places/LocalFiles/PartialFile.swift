import FerryCore
import Glibc
import Synchronization

/// A partial file and the descriptor that writes it. Closed when it is released; removed only by `discard()`.
///
/// If a later attempt may continue the bytes, a record of them is kept beside the file. A lock (flock(2))
/// keeps that attempt away until this one has ended, even if this node only seemed dead.
final class PartialFile: Sendable {
    /// The current record, and the record that was written last.
    private struct Keeping {
        var record: PartialRecord?
        var onDisk: PartialRecord?
        /// Whether the file was published, discarded or left to a later attempt.
        var isOver = false
    }

    let descriptor: Int32
    /// Name in the destination's directory.
    let name: String
    private let destination: Destination
    private let written: Atomic<Int64>
    /// The first errno of a sync; 0 if none failed. The kernel reports a failed write-back once and may have
    /// dropped any of the bytes (fsync(2)).
    private let syncError = Atomic<Int32>(0)
    private let keeping: Mutex<Keeping>
    /// Bytes from byte 0 on without a gap.
    private let contiguous = Atomic<Int64>(0)
    private let isFollowed = Atomic<Bool>(false)
    private let followed = Mutex<FollowedFile?>(nil)
    /// Sends the bytes to the content store; `nil` if it does not get them.
    private let pieces: PieceSender?

    /// Makes a new file.
    init(_ destination: Destination, in place: StorageDirectory) throws(TransferError) {
        self.destination = destination
        name = destination.partialName
        pieces = destination.pieceSender
        descriptor = try place.newFile(name)
        written = Atomic(0)
        keeping = Mutex(Keeping())
    }

    /// Takes over the file of an earlier attempt, to write from `byteCount` on. The descriptor holds the
    /// lock. `onDisk`: the record that was found.
    init(
        _ destination: Destination, name: String, descriptor: Int32, byteCount: Int64, record: PartialRecord,
        onDisk: PartialRecord
    ) {
        self.destination = destination
        self.name = name
        self.descriptor = descriptor
        pieces = destination.pieceSender
        written = Atomic(byteCount)
        keeping = Mutex(Keeping(record: record, onDisk: onDisk))
    }

    deinit { close(descriptor) }

    var byteCount: Int64 { written.load(ordering: .relaxed) }

    /// Notes that the file has no gap before `byteCount`. Wakes readers that follow it.
    func advance(to byteCount: Int64) {
        contiguous.store(byteCount, ordering: .sequentiallyConsistent)
        guard isFollowed.load(ordering: .sequentiallyConsistent) else { return }
        followed.withLock { $0 }?.advance(to: byteCount)
    }

    /// Returns the file for readers, the same for all; `nil` if it cannot be opened. `changed`: as in
    /// `FollowedFile`. Any thread that may block.
    func follow(changed: @escaping @Sendable () -> Void) -> FollowedFile? {
        let file = followed.withLock { followed -> FollowedFile? in
            if let followed { return followed }
            // A copy of the descriptor would keep the lock.
            let own = open("/proc/self/fd/\(descriptor)", O_RDONLY | O_CLOEXEC)
            guard own >= 0 else { return nil }
            followed = FollowedFile(owning: own, byteCount: 0, changed: changed)
            return followed
        }
        isFollowed.store(file != nil, ordering: .sequentiallyConsistent)
        file?.advance(to: contiguous.load(ordering: .sequentiallyConsistent))
        return file
    }

    /// Appends bytes. Throws `storage_full` or `storage_failed`. One thread at a time.
    func append(_ bytes: UnsafeRawBufferPointer) throws(TransferError) {
        try writeAll(descriptor, bytes, at: byteCount)
        written.wrappingAdd(Int64(bytes.count), ordering: .relaxed)
    }

    /// Writes bytes at `offset`. `byteCount` becomes the end of the last bytes. Throws as `append` does.
    func write(_ bytes: UnsafeRawBufferPointer, at offset: Int64) throws(TransferError) {
        try writeAll(descriptor, bytes, at: offset)
        let end = offset + Int64(bytes.count)
        if end > byteCount { written.store(end, ordering: .relaxed) }
    }

    func append(_ bytes: [UInt8]) throws(TransferError) {
        try bytes.withUnsafeBufferPointer { (buffer) throws(TransferError) in
            try append(UnsafeRawBufferPointer(buffer))
        }
    }

    /// Reads back all that was written, for small files. Throws `storage_failed`. File thread.
    func contents() throws(TransferError) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: Int(byteCount))
        var done = 0
        while done < bytes.count {
            let count = bytes.withUnsafeMutableBytes { [done] in
                pread(descriptor, $0.baseAddress.map { $0 + done }, $0.count - done, off_t(done))
            }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw storageError(count < 0 ? errno : EIO) }
            done += count
        }
        return bytes
    }

    /// Removes the file and its record. File thread: removing a large file takes milliseconds.
    func discard() {
        let isRecorded = end()
        pieces?.remove()
        // If the directory was moved away or does not open, the partial file cannot be removed here.
        guard let place = destination.openDirectory else { return }
        place.remove(name)
        if isRecorded { place.remove(PartialNames.record(of: name)) }
    }

    /// Brings all written bytes to stable storage. Throws from the first failure on: a later sync that
    /// succeeds says nothing about the bytes before. File thread.
    func sync() throws(TransferError) {
        if syncError.load(ordering: .relaxed) == 0, fdatasync(descriptor) != 0 {
            syncError.store(errno, ordering: .relaxed)
        }
        let failed = syncError.load(ordering: .relaxed)
        guard failed == 0 else { throw storageError(failed) }
    }

    // MARK: For a later attempt

    /// Whether a later attempt may continue the bytes.
    var isResumable: Bool { keeping.withLock { $0.record != nil && !$0.isOver } }

    /// Lets a later attempt continue the bytes. Changes nothing if the file system has no locks.
    func becomeResumable(_ record: PartialRecord) {
        var status = stat()
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0, fstat(descriptor, &status) == 0 else { return }
        var record = record
        record.inode = UInt64(status.st_ino)
        keeping.withLock { [record] in $0.record = record }
    }

    /// Writes the record. `syncs`: brings the bytes to stable storage before, and the record too. Returns
    /// `false` if the file has no record or it could not be written. File thread.
    ///
    /// `ranges`: the written bytes; `nil` for all up to `byteCount`. Two threads may call it at once: a
    /// record of fewer bytes does not replace one of more.
    @discardableResult
    func checkpoint(syncs: Bool, ranges: ByteRanges? = nil) -> Bool {
        let ranges = ranges ?? ByteRanges([0..<byteCount])
        guard isResumable else { return false }
        let isSynced: Bool
        do throws(TransferError) {
            if syncs { try sync() }
            isSynced = syncs
        } catch {
            return false
        }
        let (isKept, recorded) = record(ranges, isSynced: isSynced)
        if let recorded { pieces?.recorded(recorded, of: self) }
        return isKept
    }

    /// Writes the record of these bytes. Returns whether one is on disk, and the record if it was written.
    private func record(_ ranges: ByteRanges, isSynced: Bool) -> (isKept: Bool, written: PartialRecord?) {
        keeping.withLock { keeping in
            guard !keeping.isOver, var record = keeping.record else { return (false, nil) }
            if ranges.byteCount < record.ranges.byteCount { return (true, nil) }
            record.boot = Boot.identifier
            record.ranges = ranges
            if isSynced { record.synced = ranges }
            if record == keeping.onDisk { return (true, nil) }
            switch write(record, syncs: isSynced) {
            case .written:
                (keeping.record, keeping.onDisk) = (record, record)
                return (true, record)
            case .failed: return (false, nil)
            case .fileRemoved:
                (keeping.onDisk, keeping.isOver) = (nil, true)
                return (false, nil)
            }
        }
    }

    /// Leaves the bytes to a later attempt. Returns `nil` if that is not possible; the caller then discards
    /// the file. File thread.
    ///
    /// On a full disk the file may lose its last bytes to make room for the record.
    func keep(syncs: Bool, ranges: ByteRanges? = nil) -> KeptPartialFile? {
        let all = ranges ?? ByteRanges([0..<byteCount])
        guard !all.isEmpty else { return nil }
        if !checkpoint(syncs: syncs, ranges: all) {
            let fewer = shortened(all)
            guard !fewer.isEmpty, checkpoint(syncs: syncs, ranges: fewer) || isOnRecord(fewer) else {
                return nil
            }
        }
        var kept = KeptPartialFile(destination, partial: name)
        kept.partialDownload = keeping.withLock { $0.record }.map {
            PartialDownload(byteCount: $0.ranges.byteCount, total: $0.total)
        }
        letGo()
        return kept
    }

    /// Sends the kept bytes to the content store if it gets them, and then calls `done`, also if that fails.
    func sendPieces(_ done: @escaping @Sendable () -> Void) {
        guard let pieces, let record = keeping.withLock({ $0.record }) else { return done() }
        pieces.sendRest(record, of: self, done)
    }

    /// Cuts the end off the file and returns what is left of `ranges`.
    private func shortened(_ ranges: ByteRanges) -> ByteRanges {
        let size = max(0, (ranges.ranges.last?.upperBound ?? 0) - EngineLimits.recordReserveByteCount)
        // After a failed sync the file cannot be used, however much room there is.
        guard isResumable, syncError.load(ordering: .relaxed) == 0,
            ftruncate(descriptor, off_t(size)) == 0
        else { return ranges }
        written.store(size, ordering: .relaxed)
        keeping.withLock { $0.record = $0.record?.clipped(to: size) }
        return ranges.clipped(to: size)
    }

    /// Whether the record on disk suffices for a later attempt, if no other can be written. For bytes that
    /// were only appended it does: the file's size says how many there are.
    private func isOnRecord(_ ranges: ByteRanges) -> Bool {
        guard syncError.load(ordering: .relaxed) == 0 else { return false }
        return keeping.withLock { keeping in
            guard keeping.onDisk != nil, !keeping.isOver, var record = keeping.record else { return false }
            guard record.boot == Boot.identifier else { return false }
            record.ranges =
                record.isSequential ? ranges : record.ranges.clipped(to: ranges.ranges.last?.upperBound ?? 0)
            keeping.record = record
            return !record.ranges.isEmpty
        }
    }

    /// Unlocks the file and leaves its bytes and record as they are. Any thread.
    func letGo() {
        _ = end()
        flock(descriptor, LOCK_UN)
    }

    /// Removes the record: the file has its final name.
    func forgetRecord() {
        guard end(), let place = destination.openDirectory else { return }
        place.remove(PartialNames.record(of: name))
    }

    /// Identity of the file, whatever its name; `nil` if the file system does not tell.
    var identity: FileIdentity? {
        var status = stat()
        return fstat(descriptor, &status) == 0 ? FileIdentity(status) : nil
    }

    /// Ends the keeping of records. Returns whether one is on disk.
    private func end() -> Bool {
        keeping.withLock { keeping in
            keeping.isOver = true
            return keeping.onDisk != nil
        }
    }

    private enum RecordWrite { case written, failed, fileRemoved }

    /// Writes the record, unless a later attempt has removed the file: on a node that was frozen or cut off,
    /// this attempt may not know yet that it has lost its lease. That attempt removes first the file, then
    /// the record. So a record that is written too late is removed here, or by that attempt.
    private func write(_ record: PartialRecord, syncs: Bool) -> RecordWrite {
        let name = PartialNames.record(of: name)
        guard let place = destination.openDirectory, place.replace(name, record.encode(), syncs: syncs) else {
            return .failed
        }
        let isRemoved = place.inode(self.name).map { $0 != record.inode } ?? (errno == ENOENT)
        guard isRemoved else { return .written }
        place.remove(name)
        return .fileRemoved
    }
}

extension Destination {
    fileprivate var pieceSender: PieceSender? {
        objects.map { PieceSender($0, of: job, attempt: attempt) }
    }
}

/// The names of what attempts leave beside a destination: `.ferry-JOB-ATTEMPT.part` and its record.
enum PartialNames {
    static func prefix(of job: JobID) -> String { ".ferry-\(job)-" }

    static func partial(of job: JobID, attempt: Int32) -> String { "\(prefix(of: job))\(attempt).part" }

    static func record(of partial: String) -> String { partial + ".json" }

    /// Name of a record while it is being written.
    static func draft(of record: String) -> String { record + ".new" }

    /// The job and attempt that a name belongs to; `nil` if Ferry has not made it.
    static func owner(of name: String) -> (job: JobID, attempt: Int32, isPartial: Bool)? {
        guard name.hasPrefix(".ferry-") else { return nil }
        let rest = name.dropFirst(7)
        guard let dash = rest.firstIndex(of: "-"), let job = JobID(rest[..<dash]) else { return nil }
        let tail = rest[rest.index(after: dash)...]
        guard let dot = tail.firstIndex(of: "."), let attempt = Int32(tail[..<dot]), attempt >= 0 else {
            return nil
        }
        let ending = tail[dot...]
        guard [".part", ".part.json", ".part.json.new"].contains(ending) else { return nil }
        return (job, attempt, ending == ".part")
    }
}

/// A partial file that stays after its attempt: beside its linked final name, or for a later attempt.
struct KeptPartialFile: Sendable {
    let destination: Destination
    let partial: String
    /// The bytes, if a later attempt may continue them.
    var partialDownload: PartialDownload?

    init(_ destination: Destination, partial: String) {
        self.destination = destination
        self.partial = partial
    }

    /// Removes the file and its record, unless a later attempt continues the file: on a node that was frozen,
    /// an attempt may end after that has begun. File thread.
    func removeUnlessHeld() {
        guard let place = destination.openDirectory else { return }
        let opened = openat(place.descriptor, partial, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)
        defer { if opened >= 0 { close(opened) } }
        guard opened < 0 || flock(opened, LOCK_EX | LOCK_NB) == 0 else { return }
        remove()
    }

    /// File thread.
    func remove() {
        guard let place = destination.openDirectory else { return }
        place.remove(partial)
        place.remove(PartialNames.record(of: partial))
    }
}

/// The partial files that attempts of this process have left, until their job ends or continues.
final class KeptPartialFiles: Sendable {
    private let waiting = Mutex<[JobID: KeptPartialFile]>([:])

    /// A job that continues on another node is reported here only if a result comes too late. Beyond
    /// `keptPartialFileCountMax` all entries are forgotten, and `PartialSweep` finds their files.
    func add(_ kept: KeptPartialFile) {
        waiting.withLock { waiting in
            if waiting.count >= EngineLimits.keptPartialFileCountMax { waiting = [:] }
            waiting[kept.destination.job] = kept
        }
    }

    /// Returns and forgets the files of these jobs.
    func take(_ jobs: [JobID]) -> [KeptPartialFile] {
        waiting.withLock { waiting in
            guard !waiting.isEmpty else { return [] }
            return jobs.compactMap { waiting.removeValue(forKey: $0) }
        }
    }

    /// Returns and forgets the files of these attempts, not those of later attempts of their jobs.
    func take(_ attempts: [LostAttempt]) -> [KeptPartialFile] {
        waiting.withLock { waiting in
            attempts.compactMap { attempt in
                guard waiting[attempt.job]?.destination.attempt == attempt.number else { return nil }
                return waiting.removeValue(forKey: attempt.job)
            }
        }
    }
}
