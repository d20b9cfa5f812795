import FerryCore
import Glibc
import Logging
import Synchronization
import Sys

/// Free space on the file systems that bodies are written to: how much there is, how much is promised to
/// running transfers, and which file systems cannot be written to. Any thread.
final class StorageSpace: Sendable {
    private let volumes = Mutex<[dev_t: StorageVolume]>([:])
    private let shortages = StorageShortages()
    private let failures = StorageFailures()
    private let stallDetector: StorageStallDetector
    let needs = StorageNeeds()
    private let reserve: Int64
    private let shortageMax: Int64
    private let watched: [String]
    private let admission: DownloadAdmission
    private let isMeasuring = Atomic<Bool>(false)
    private let latest = Mutex<[StorageSpaceReport]>([])
    /// The file systems of `watched` whose failures stop downloads, each with one of those directories.
    private let writableVolumes = Mutex<[dev_t: StorageDirectory]>([:])
    /// The directories of `watched` that were read-only at the start; they do not stop downloads.
    private let readOnlyAtStart: Set<String>
    private let logger: Logger?

    /// `reserve`: bytes that stay free. `watched`: directories on whose file systems downloads are stored.
    /// While one of them is short of space or cannot be written to, `admission` lets no download begin.
    ///
    /// `shortageMax`: nanoseconds after which a shortage is forgotten that no transfer has met since.
    init(
        reserve: Int64, watched: [String], admission: DownloadAdmission,
        shortageMax: Int64 = EngineLimits.shortageMax,
        stallDetector: StorageStallDetector = StorageStallDetector(timeout: 120, syncs: false),
        logger: Logger? = nil
    ) {
        self.stallDetector = stallDetector
        self.reserve = reserve
        self.shortageMax = shortageMax
        self.watched = watched
        self.admission = admission
        self.logger = logger
        // A directory that cannot be read now is not known to be read-only; `measure` reports its error.
        readOnlyAtStart = Set(watched.filter { (try? WatchedState($0))?.isReadOnly == true })
        measure()
    }

    /// Promises space for a body below `place`. `byteCount`: its expected length; `nil` if that is unknown.
    /// `tenant`: whose estimate the length is; `nil` if the length is known. Throws `storage_full` if the
    /// space is smaller.
    func claim(
        at place: StorageDirectory, expecting byteCount: Int64?, estimatedBy tenant: String? = nil
    ) throws(TransferError) -> StorageClaim {
        let volume = volume(of: place.descriptor)
        let promised = try volume?.promise(byteCount ?? 0, estimatedBy: tenant, place.descriptor) ?? 0
        return StorageClaim(volume, promised, estimatedBy: tenant)
    }

    /// Notes that a write found no space although it was promised: another process has used it.
    func noteFull(at place: StorageDirectory) { volume(of: place.descriptor)?.noteFull(place.descriptor) }

    /// Whether a file system has run full or could not be written to, and is not known to have recovered.
    var hasShortages: Bool { shortages.count > 0 || failures.count > 0 }

    /// Throws `storage_full` while there is no space below `place` for a file of so many bytes, of which the
    /// first `held` are there, after a body found none, and `storage_unavailable` while writing there fails.
    /// The attempt then ends before it sends a request.
    func needSpace(
        at place: StorageDirectory, expecting byteCount: Int64, after held: Int64 = 0
    ) throws(TransferError) {
        if let device = place.device { try failures.check(device) }
        try volume(of: place.descriptor)?.needSpace(for: byteCount, after: held, place.descriptor)
    }

    /// Whether no file can be written below `place`, asked after one write has failed. Stops downloads at
    /// once if the watched directory on that file system cannot be written to either; it can be if only a
    /// mount of its own is read-only.
    func isUnavailable(at place: StorageDirectory) -> Bool {
        guard let device = place.device else { return true }
        if failures[device] != nil { return true }
        let osError = place.writingTrial()
        guard saysUnavailable(osError) else { return false }
        guard let usual = writableVolumes.withLock({ $0[device] }) else {
            failures.note(osError, at: place, on: device)
            return true
        }
        let usualError = usual.writingTrial()
        guard saysUnavailable(usualError) else { return false }
        // Downloads stop first: an attempt that finds the failure noted ends at once, and no other may begin
        // in its place.
        close(.unwritable, because: usualError)
        failures.note(usualError, at: usual, on: device)
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

    /// Whether a disk hangs, so that nothing that writes should begin.
    var isStalled: Bool { stallDetector.isStalled(monotonicNanoseconds()) }

    /// Whether a disk has hung for so long that attempts which wait for it are given up.
    var isLost: Bool { stallDetector.isLost(monotonicNanoseconds()) }

    func stop() { stallDetector.stop() }

    /// Called once a second: measures the watched directories on a file thread, since a hanging file system
    /// would block the loop. One measurement runs at a time.
    func measure(on fileThreads: FileThreadPool) {
        let now = monotonicNanoseconds()
        let writable = watched.filter { !readOnlyAtStart.contains($0) }
        stallDetector.check(now, busy: fileThreads.busyNanoseconds(now), at: writable)
        if stallDetector.isStalled(now) { close(.unwritable, because: ETIMEDOUT) }
        guard !isMeasuring.exchange(true, ordering: .relaxed) else { return }
        fileThreads.send(
            .run { [self] in
                measure()
                isMeasuring.store(false, ordering: .relaxed)
            })
    }

    func measure() {
        forgetShortages()
        var (reports, failure): ([StorageSpaceReport], Int32?) = ([], nil)
        var writableVolumes: [dev_t: StorageDirectory] = [:]
        for path in watched {
            do throws(SystemError) {
                let state = try WatchedState(path)
                if let report = report(path, state.place) { reports.append(report) }
                if readOnlyAtStart.contains(path) { continue }
                writableVolumes[state.device] = writableVolumes[state.device] ?? state.place
                if state.isReadOnly, failures[state.device] == nil {
                    close(.unwritable, because: EROFS)
                    failures.note(EROFS, at: state.place, on: state.device)
                }
                failure = failure ?? failures.meet(state.device)
            } catch {
                if saysUnavailable(error.code) { failure = failure ?? error.code }
            }
        }
        latest.withLock { [reports] in $0 = reports }
        self.writableVolumes.withLock { [writableVolumes] in $0 = writableVolumes }
        if isStalled { failure = ETIMEDOUT }
        if let failure { return close(.unwritable, because: failure) }
        // Downloads begin again only with more free space than they stopped at, so that they do not stop and
        // start by turns.
        let isFull = admission.hold == .noSpace
        let hasSpace = reports.allSatisfy { report in
            report.free - report.promised >= report.reserve + (isFull ? report.reserve / 8 : 0)
        }
        guard hasSpace else { return close(.noSpace) }
        guard admission.hold != nil else { return }
        admission.set(nil)
        logger?.notice("Downloads begin again.")
    }

    private func close(_ hold: DownloadAdmission.Hold, because osError: Int32 = 0) {
        guard admission.hold != hold else { return }
        admission.set(hold)
        switch hold {
        case .noSpace:
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

    /// The job that waited for space may be gone. As long as a shortage is known, every download is checked
    /// before it begins.
    private func forgetShortages() {
        guard hasShortages else { return }
        let now = monotonicNanoseconds()
        failures.lookAgain(metBefore: now - shortageMax)
        for volume in volumes.withLock({ Array($0.values) }) {
            volume.forgetShortage(metBefore: now - shortageMax)
        }
    }

    /// The last measurement of each watched directory that could be measured.
    var reports: [StorageSpaceReport] { latest.withLock { $0 } }

    private func report(_ path: String, _ place: StorageDirectory) -> StorageSpaceReport? {
        guard let volume = volume(of: place.descriptor) else { return nil }
        volume.measure(place.descriptor)
        return volume.report(path)
    }
}

/// The state of a watched directory or, if it is missing, of the nearest directory above it.
private struct WatchedState {
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

/// The space on one file system as operators see it, in bytes.
package struct StorageSpaceReport: Sendable, Equatable {
    /// The watched directory.
    package let path: String
    /// Bytes that unprivileged processes may still write.
    package let free: Int64
    /// Bytes that are promised to running transfers.
    package let promised: Int64
    /// Bytes that downloads leave free.
    package let reserve: Int64
}

/// Lengths of the files that found no space, so that their origins need not be asked again. Any thread.
final class StorageNeeds: Sendable {
    private static let countMax = 10_000
    private let needs = Mutex<[JobID: Int64]>([:])

    /// Beyond `countMax` all lengths are forgotten; those jobs ask their origins once more.
    func note(_ job: JobID, _ byteCount: Int64) {
        needs.withLock { needs in
            if needs.count >= Self.countMax { needs = [:] }
            needs[job] = byteCount
        }
    }

    subscript(job: JobID) -> Int64? { needs.withLock { $0[job] } }
    func forget(_ job: JobID) { needs.withLock { $0[job] = nil } }
}

/// Number of file systems that have run full and are not known to have space again.
final class StorageShortages: Sendable {
    private let value = Atomic<Int>(0)
    var count: Int { value.load(ordering: .relaxed) }
    func add(_ change: Int) { value.wrappingAdd(change, ordering: .relaxed) }
}
