import FerryCore
import Glibc
import Logging
import Synchronization
import Sys

/// The files on the disks of this node: those below the tenants' storage roots, and managed files.
final class LocalFiles: Place {
    /// A directory that files are below, and when its path was looked at, in monotonic nanoseconds.
    private struct Root {
        let directory: StorageDirectory
        let checkedAt: Int64
    }

    let fileThreads: FileThreadPool
    let space: StorageSpace
    let keptPartialFiles = KeptPartialFiles()
    let checkedDirectories = CheckedDirectories()
    /// Whether a file is on stable storage before its job has succeeded.
    let syncs: Bool
    private let configuration: EngineConfiguration
    private let objects: ContentObjects?
    private let roots = Mutex<[String: Root]>([:])
    /// Nanoseconds for which a root is used without a look at its path.
    private static let rootCheckInterval: Int64 = 100_000_000

    /// `objects`: the content store, if it gets the bytes of unfinished downloads.
    init(
        _ configuration: EngineConfiguration, _ fileThreads: FileThreadPool, objects: ContentObjects?,
        _ logger: Logger
    ) {
        self.configuration = configuration
        self.objects = objects
        self.fileThreads = fileThreads
        syncs = configuration.fileSync == .full
        space = StorageSpace(
            reserve: configuration.storageReserve, watched: configuration.watchedDirectories,
            admission: configuration.downloads,
            stallDetector: StorageStallDetector(
                timeout: configuration.storageTimeout, syncs: configuration.fileSync == .full),
            logger: logger)
    }

    func keeps(_ location: ContentLocation) -> Bool {
        switch location {
        case .managedFile, .namedFile: true
        case .object: false
        }
    }

    // MARK: Sinks and sources

    func sink(for attempt: Attempt, on loop: EngineLoop) throws(TransferError) -> any StreamSink {
        LocalFileSink(for: attempt, at: self, on: loop)
    }

    func partsSink(for attempt: Attempt, on loop: EngineLoop) throws(TransferError) -> any PartsSink {
        LocalPartsSink(try destination(of: attempt), for: attempt, at: self, on: loop)
    }

    func source(of content: PlacedContent) throws(TransferError) -> any ByteSource {
        let (path, modes) = root(of: content.location, content.tenant)
        // Reading makes no directory.
        guard let root = try existingRoot(path, modes) else { throw .sourceMissing }
        return try LocalFileSource(
            content.location.path(of: content.job), below: root, isManaged: content.location == .managedFile)
    }

    func removeContent(of job: JobID, at location: ContentLocation?) {
        let path = "\(configuration.managedFilesDirectory)/\(ManagedFiles.path(for: job))"
        // On a file thread: a large file, or a disk that hangs, takes long. If a crash leaves the file, the
        // sweep finds it by its name.
        fileThreads.send(.run { unlink(path) })
    }

    // MARK: Directories

    /// Returns where the file of an attempt goes: the destination that its job names, or a managed file.
    func destination(of attempt: Attempt) throws(TransferError) -> Destination {
        let location = attempt.spec.contentLocation
        let ifExists = location == .managedFile ? nil : attempt.spec.destination?.ifExists
        return Destination(
            root: try openRoot(of: location, attempt.tenant), location, ifExists: ifExists ?? .replace,
            of: attempt, objects: objects)
    }

    /// Returns where the file of another job went, whose bytes a job may continue.
    func destination(of point: ResumePoint) throws(TransferError) -> Destination {
        Destination(root: try openRoot(of: point.location, point.tenant), point.location, job: point.job)
    }

    /// Returns the path of the directory that a location is below, and the permissions of what is made there.
    private func root(of location: ContentLocation, _ tenant: String) -> (path: String, modes: FileModes) {
        switch location {
        case .managedFile, .object: (configuration.managedFilesDirectory, .own)
        case .namedFile: (configuration.storageRoot(tenant), configuration.fileModes(tenant))
        }
    }

    /// Opens the directory that a location is below. A directory that is missing is made.
    private func openRoot(
        of location: ContentLocation, _ tenant: String
    ) throws(TransferError) -> StorageDirectory {
        let (path, modes) = root(of: location, tenant)
        if let root = try existingRoot(path, modes) { return root }
        return known(try StorageDirectory.root(path, modes), at: path)
    }

    /// Returns a root, which is opened once and kept while its path leads to it; `nil` if there is none. If
    /// another directory was put or mounted at the path, files go there, at the latest after
    /// `rootCheckInterval`.
    private func existingRoot(_ path: String, _ modes: FileModes) throws(TransferError) -> StorageDirectory? {
        let found = roots.withLock { $0[path] }
        if let found, monotonicNanoseconds() - found.checkedAt < Self.rootCheckInterval {
            return found.directory
        }
        if let found, found.directory.isStill(at: path) { return known(found.directory, at: path) }
        return try StorageDirectory.existingRoot(path, modes).map { known($0, at: path) }
    }

    /// Keeps a root that is at its path now.
    private func known(_ directory: StorageDirectory, at path: String) -> StorageDirectory {
        let root = Root(directory: directory, checkedAt: monotonicNanoseconds())
        roots.withLock { roots in
            if roots.count >= 1_000 { roots = [:] }
            roots[path] = root
        }
        return directory
    }

    /// Makes a file without a name, for bytes that a running attempt needs. `byteCount`: their expected
    /// number; `nil` if it is unknown. Throws `storage_full`, `storage_unavailable` or `storage_failed`.
    func unnamedFile(expecting byteCount: Int64?) throws(TransferError) -> ClaimedFile {
        let directory = try openRoot(of: .managedFile, "")
        let claim = try space.claim(at: directory, expecting: byteCount)
        return ClaimedFile(
            descriptor: try directory.unnamedFile(), directory: directory, space: space, claim: claim)
    }

    // MARK: What attempts leave

    func forget(_ point: ResumePoint) {
        fileThreads.send(
            // If the root does not open, the bytes stay, and `PartialSweep` removes them.
            .run { [self] in _ = try? destination(of: point).takeOver(identity: nil) })
    }

    func removePartialFiles(of jobs: [JobID]) {
        let kept = keptPartialFiles.take(jobs)
        guard !kept.isEmpty else { return }
        fileThreads.send(.run { for one in kept { one.remove() } })
    }

    func removePartialFiles(of attempts: [LostAttempt]) {
        let kept = keptPartialFiles.take(attempts)
        guard !kept.isEmpty else { return }
        fileThreads.send(.run { for one in kept { one.removeUnlessHeld() } })
    }

    func keepBytes(of jobs: [JobID]) { _ = keptPartialFiles.take(jobs) }

    func secondPassed() {
        space.measure(on: fileThreads)
        checkedDirectories.forgetOld()
    }

    func stop() { space.stop() }
}

extension StorageDirectory {
    /// Whether the path still leads to this directory. `false` if it leads elsewhere or does not exist. A
    /// file system that does not answer counts as unchanged.
    fileprivate func isStill(at path: String) -> Bool {
        var (found, own) = (stat(), stat())
        guard stat(path, &found) == 0 else { return errno != ENOENT }
        guard fstat(descriptor, &own) == 0 else { return false }
        return found.st_dev == own.st_dev && found.st_ino == own.st_ino
    }
}
