import FerryCore
import Glibc
import Synchronization

/// A partial file and the descriptor that writes it. Closed with its last owner; removed only by `discard()`.
///
/// When a later attempt may go on from its bytes, a record of them is kept beside it, and a lock (flock(2))
/// keeps that attempt away until this one has let go: also from a node that only seemed dead.
final class PartialFile: Sendable {
    /// The record, as it is true and as it was written last.
    private struct Keeping {
        var record: PartialRecord?
        var onDisk: PartialRecord?
        /// The file was published, discarded or left to a later attempt.
        var isOver = false
    }

    let descriptor: Int32
    /// In the destination's directory.
    let name: String
    private let destination: Destination
    private let written: Atomic<Int64>
    /// The first errno of a sync, 0: none. Nobody knows then which bytes the kernel has thrown away, and it
    /// tells but once.
    private let syncError = Atomic<Int32>(0)
    private let keeping: Mutex<Keeping>

    /// Makes a file that did not exist.
    init(_ destination: Destination, in place: StorageDirectory) throws(TransferError) {
        self.destination = destination
        name = destination.partialName
        descriptor = try place.newFile(name)
        written = Atomic(0)
        keeping = Mutex(Keeping())
    }

    /// Takes over one that an earlier attempt left, to write from `byteCount` on. The descriptor holds its
    /// lock. `onDisk`: its record as it was found.
    init(
        _ destination: Destination, name: String, descriptor: Int32, byteCount: Int64, record: PartialRecord,
        onDisk: PartialRecord
    ) {
        self.destination = destination
        self.name = name
        self.descriptor = descriptor
        written = Atomic(byteCount)
        keeping = Mutex(Keeping(record: record, onDisk: onDisk))
    }

    deinit { close(descriptor) }

    var byteCount: Int64 { written.load(ordering: .relaxed) }

    /// One thread at a time. Throws `storage_full` or `storage_failed`.
    func append(_ bytes: UnsafeRawBufferPointer) throws(TransferError) {
        try writeAll(descriptor, bytes, at: byteCount)
        written.wrappingAdd(Int64(bytes.count), ordering: .relaxed)
    }

    /// The same for bytes that have their place: `byteCount` is the end of the last ones then.
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

    /// What has been written, all of it in memory: for small ones. Throws `storage_failed`. File thread.
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

    /// Removes the name, and the record. File thread: a large file takes milliseconds.
    func discard() {
        let isRecorded = end()
        // Whoever moved the directory away took the partial along.
        guard let place = try? destination.root.directory(destination.directory, making: false) else {
            return
        }
        place.remove(name)
        if isRecorded { place.remove(PartialNames.record(of: name)) }
    }

    /// Brings what has been written to stable storage. Throws from the first failure on: a later sync that
    /// succeeds says nothing of the bytes before. File thread.
    func sync() throws(TransferError) {
        if syncError.load(ordering: .relaxed) == 0, fdatasync(descriptor) != 0 {
            syncError.store(errno, ordering: .relaxed)
        }
        let failed = syncError.load(ordering: .relaxed)
        guard failed == 0 else { throw storageError(failed) }
    }

    // MARK: For a later attempt

    /// Whether a later attempt may go on from here.
    var isResumable: Bool { keeping.withLock { $0.record != nil && !$0.isOver } }

    /// From now on a later attempt may go on from these bytes. Where the file system knows no locks nothing
    /// changes.
    func becomeResumable(_ record: PartialRecord) {
        var status = stat()
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0, fstat(descriptor, &status) == 0 else { return }
        var record = record
        record.inode = UInt64(status.st_ino)
        keeping.withLock { [record] in $0.record = record }
    }

    /// File thread: writes the record. `syncs`: what has been written until now is brought to stable storage
    /// before, and the record too. False: there is none, or it could not be written.
    ///
    /// `ranges`: the bytes there are; nil: all up to `byteCount`. Two threads may be at it: what tells of
    /// less than the other one's changes nothing.
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
        return keeping.withLock { keeping in
            guard !keeping.isOver, var record = keeping.record else { return false }
            if ranges.byteCount < record.ranges.byteCount { return true }
            record.boot = Boot.identifier
            record.ranges = ranges
            if isSynced { record.synced = ranges }
            guard record == keeping.onDisk || write(record, syncs: isSynced) else { return false }
            (keeping.record, keeping.onDisk) = (record, record)
            return true
        }
    }

    /// File thread: leaves the bytes to a later attempt. Nil: that is not possible, and the file is to be
    /// discarded.
    ///
    /// On a full disk the last bytes may have to make room for the record, so that it may be shorter then.
    func keep(syncs: Bool, ranges: ByteRanges? = nil) -> Leftover? {
        let all = ranges ?? ByteRanges([0..<byteCount])
        guard !all.isEmpty else { return nil }
        if !checkpoint(syncs: syncs, ranges: all) {
            let fewer = shortened(all)
            guard !fewer.isEmpty, checkpoint(syncs: syncs, ranges: fewer) || isOnRecord(fewer) else {
                return nil
            }
        }
        var leftover = Leftover(destination, partial: name)
        leftover.kept = keeping.withLock { $0.record }.map {
            PartialDownload(byteCount: $0.ranges.byteCount, total: $0.total)
        }
        letGo()
        return leftover
    }

    /// Gives back the end of the file, and says what is left of these bytes.
    private func shortened(_ ranges: ByteRanges) -> ByteRanges {
        let size = max(0, (ranges.ranges.last?.upperBound ?? 0) - EngineLimits.recordRoomByteCount)
        // A sync that has failed spoils the file; no room helps.
        guard isResumable, syncError.load(ordering: .relaxed) == 0,
            ftruncate(descriptor, off_t(size)) == 0
        else { return ranges }
        written.store(size, ordering: .relaxed)
        keeping.withLock { $0.record = $0.record?.clipped(to: size) }
        return ranges.clipped(to: size)
    }

    /// Whether the record that is on disk is enough to go on from, now that another one cannot be written:
    /// that of bytes that were only appended leaves it to the file's size how many there are.
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

    /// Leaves bytes and record as they were found. Any thread.
    func letGo() {
        _ = end()
        flock(descriptor, LOCK_UN)
    }

    /// The file has its final name: nobody needs to go on.
    func forgetRecord() {
        guard end(), let place = try? destination.root.directory(destination.directory, making: false) else {
            return
        }
        place.remove(PartialNames.record(of: name))
    }

    /// Of the file, whatever its name. Nil when the file system does not say.
    var identity: FileIdentity? {
        var status = stat()
        return fstat(descriptor, &status) == 0 ? FileIdentity(status) : nil
    }

    /// Whether a record is on disk. No other one is written.
    private func end() -> Bool {
        keeping.withLock { keeping in
            keeping.isOver = true
            return keeping.onDisk != nil
        }
    }

    private func write(_ record: PartialRecord, syncs: Bool) -> Bool {
        guard let place = try? destination.root.directory(destination.directory, making: false) else {
            return false
        }
        return place.replace(PartialNames.record(of: name), record.encode(), syncs: syncs)
    }
}

/// The names of what attempts leave beside a destination: `.ferry-JOB-ATTEMPT.part` and its record.
enum PartialNames {
    static func prefix(of job: JobID) -> String { ".ferry-\(job)-" }

    static func partial(of job: JobID, attempt: Int32) -> String { "\(prefix(of: job))\(attempt).part" }

    static func record(of partial: String) -> String { partial + ".json" }

    /// While it is being written.
    static func draft(of record: String) -> String { record + ".new" }

    /// Whose file that is; nil when it is none of ours.
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

/// A partial file that stays when its attempt has ended: beside its linked final name, or for a later
/// attempt.
struct Leftover: Sendable {
    let destination: Destination
    let partial: String
    /// Of one that is for a later attempt.
    var kept: PartialDownload?

    init(_ destination: Destination, partial: String) {
        self.destination = destination
        self.partial = partial
    }

    /// File thread.
    func remove() {
        guard let place = try? destination.root.directory(destination.directory, making: false) else {
            return
        }
        place.remove(partial)
        place.remove(PartialNames.record(of: partial))
    }
}

/// What attempts of this process have left, until their job is settled or goes on.
final class Leftovers: Sendable {
    private let waiting = Mutex<[JobID: Leftover]>([:])

    /// Jobs that go on elsewhere are never heard of again: beyond a bound all are forgotten, and the sweep
    /// finds their files.
    func add(_ leftover: Leftover) {
        waiting.withLock { waiting in
            if waiting.count >= EngineLimits.leftoverCountMax { waiting = [:] }
            waiting[leftover.destination.job] = leftover
        }
    }

    /// What is left of these jobs, once.
    func take(_ jobs: [JobID]) -> [Leftover] {
        waiting.withLock { waiting in
            guard !waiting.isEmpty else { return [] }
            return jobs.compactMap { waiting.removeValue(forKey: $0) }
        }
    }
}
