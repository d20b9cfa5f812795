import FerryCore
import Glibc

/// Location of an attempt's file: a directory below a root, the final name, and the hidden partial file
/// beside it, so that publication is one rename within one file system.
struct Destination: Sendable {
    let root: StorageDirectory
    /// Relative to the root; empty is the root itself.
    let directory: String
    /// Empty if the job names only a directory, until the response has suggested a name.
    var name: String
    let ifExists: JobSpec.Destination.IfExists
    let job: JobID
    private(set) var attempt: Int32
    /// Whether the service manages the file: only Ferry writes to its directory.
    let isManaged: Bool
    /// The content store, if it gets the bytes of unfinished downloads that Ferry manages; else `nil`.
    private(set) var objects: ContentObjects?

    /// `root`: the directory that the location is below.
    init(
        root: StorageDirectory, _ location: ContentLocation,
        ifExists: JobSpec.Destination.IfExists = .replace, of attempt: Attempt,
        objects: ContentObjects? = nil
    ) {
        self.root = root
        if location == .managedFile { self.objects = objects }
        (directory, name) = splitPath(location.path(of: attempt.job))
        self.ifExists = ifExists
        self.job = attempt.job
        self.attempt = attempt.number
        isManaged = location == .managedFile
    }

    /// The destination of a finished job: all its attempts count as earlier ones.
    init(root: StorageDirectory, _ location: ContentLocation, job: JobID) {
        self.root = root
        (directory, name) = splitPath(location.path(of: job))
        ifExists = .replace
        self.job = job
        attempt = .max
        isManaged = location == .managedFile
    }

    /// Name of the directory among the objects of a batch (`CommitBatch.object`).
    var directoryKey: [UInt8] {
        var key: [UInt8] = []
        key.reserveCapacity(directory.utf8.count + 4)
        withUnsafeBytes(of: root.descriptor) { key.append(contentsOf: $0) }
        key.append(contentsOf: directory.utf8)
        return key
    }

    /// The directory; `nil` if it is missing or cannot be opened. Then no file can be found, removed or
    /// written there, so callers need not know why.
    var openDirectory: StorageDirectory? { try? root.directory(directory, making: false) }

    var partialName: String { PartialNames.partial(of: job, attempt: attempt) }

    /// If the job names only a directory, takes the name that the response suggests.
    mutating func takeName(from head: ResponseHead, _ url: WebURL) {
        guard name.isEmpty else { return }
        name = suggestedFilename(head, url: url) ?? job.description
    }

    /// Returns the location of a file with that name in this directory.
    func location(of name: String) -> ContentLocation {
        isManaged ? .managedFile : .namedFile(path: directory.isEmpty ? name : "\(directory)/\(name)")
    }

    /// Returns the name with a number before its extension, for `if_exists: rename`.
    func name(numbered number: Int) -> String {
        number > 0 ? fittedName(name, insert: "-\(number)") : name
    }

    /// Throws what would keep the file from getting its name, as far as that can be known before the first
    /// byte: a file or a directory in its place, a path through a file, a directory that may not be written.
    /// Returns the directory, or `nil` if it is missing.
    @discardableResult
    func check() throws(TransferError) -> StorageDirectory? {
        guard !isManaged else { return nil }
        let (place, isMissing) = try nearestDirectory()
        guard faccessat(place.descriptor, ".", W_OK | X_OK, AT_EACCESS) == 0 else {
            throw storageError(errno)
        }
        guard !isMissing else { return nil }
        try checkName(in: place)
        return place
    }

    /// Throws what `check` throws about the name. `place`: the directory.
    func checkName(in place: StorageDirectory) throws(TransferError) {
        guard !name.isEmpty, let status = place.status(name) else { return }
        switch ifExists {
        case .fail: throw storageError(EEXIST)
        case .replace: if status.st_mode & S_IFMT == S_IFDIR { throw storageError(EISDIR) }
        case .rename: break
        }
    }

    /// Returns the error that `check` throws; `nil` if nothing keeps the file from getting its name. A
    /// directory that may be written is noted in `checked`. File thread.
    func failure(noting checked: CheckedDirectories) -> TransferError? {
        do throws(TransferError) {
            if let place = try check() { checked.note(place, of: self) }
            return nil
        } catch {
            return error
        }
    }

    /// Opens the directory or, if it is missing, the nearest one above it.
    private func nearestDirectory() throws(TransferError) -> (StorageDirectory, isMissing: Bool) {
        var path = directory
        while true {
            do throws(TransferError) {
                return (try root.directory(path, making: false), path != directory)
            } catch {
                guard error.osError == ENOENT, !path.isEmpty else { throw error }
                path = splitPath(path).directory
            }
        }
    }

    /// Takes over the best partial file of earlier attempts of this job and removes those that cannot be
    /// used. Files that cannot be read now are left to later attempts. `identity`: the identity of the
    /// request that the bytes must come from; `nil` if no bytes may be continued. `withGaps`: whether bytes
    /// behind a gap count. File thread.
    func takeOver(identity: String?, withGaps: Bool = false) -> Resumption? {
        // If the directory does not exist or open, no file can be found or removed.
        guard let place = openDirectory else { return nil }
        var best: Resumption?
        for name in earlierNames(in: place) {
            // Files of later attempts stay: if some exist, this attempt has lost its lease without knowing
            // it.
            guard let owner = PartialNames.owner(of: name), owner.attempt < attempt else { continue }
            guard owner.isPartial else {
                removeStray(name, in: place)
                continue
            }
            do throws(TransferError) {
                let found = try resumption(name, in: place, identity: identity, withGaps: withGaps)
                if let found, found.byteCount > best?.byteCount ?? 0 {
                    best?.file.discard()
                    best = found
                } else {
                    place.remove(name)
                    place.remove(PartialNames.record(of: name))
                }
            } catch {
                // The file cannot be read now, so it stays for a later attempt.
                continue
            }
        }
        return best
    }

    /// If a partial file shares its inode with the final name, it was published, but the node died before the
    /// result was committed. Both names are removed, and this attempt fetches the file again.
    private func resumption(
        _ name: String, in place: StorageDirectory, identity: String?, withGaps: Bool
    ) throws(TransferError) -> Resumption? {
        if ifExists != .replace, let status = place.status(name), status.st_nlink > 1,
            takeBack(status.st_ino, in: place)
        {
            return nil
        }
        guard let identity else { return nil }
        return try Resumption(name, of: self, in: place, identity: identity, withGaps: withGaps)
    }

    /// Returns the names that earlier attempts may have left here. Asking for a few names is faster than
    /// reading a directory with very many files.
    private func earlierNames(in place: StorageDirectory) -> [String] {
        guard attempt <= EngineLimits.namedAttemptCountMax else {
            return place.names(beginningWith: PartialNames.prefix(of: job))
        }
        let names = (0..<attempt).flatMap { number -> [String] in
            let partial = PartialNames.partial(of: job, attempt: number)
            let record = PartialNames.record(of: partial)
            return [partial, record, PartialNames.draft(of: record)]
        }
        return names.filter { place.status($0) != nil }
    }

    /// If the job's destination has changed, moves the bytes that an earlier attempt of this process left at
    /// the former destination, and removes them there. File thread.
    func adopt(_ kept: KeptPartialFile, identity: String?, withGaps: Bool) {
        var earlier = kept.destination
        let isElsewhere = !earlier.directory.hasSameBytes(as: directory) || earlier.isManaged != isManaged
        guard earlier.attempt < attempt, isElsewhere else { return }
        earlier.attempt = attempt
        if let identity {
            adopt(from: earlier, identity: identity, withGaps: withGaps)
        }
        // Removes bytes that could not be moved, for example to another file system.
        kept.remove()
    }

    /// Moves the bytes that another job has left, as if an attempt of this job had left them. Only the first
    /// job that asks gets them. File thread.
    func adopt(from other: Destination, identity: String, withGaps: Bool = false) {
        guard let found = other.takeOver(identity: identity, withGaps: withGaps) else { return }
        defer { found.file.letGo() }
        // Without the directory the bytes stay; the download reports why it cannot be made.
        guard let from = other.openDirectory, let into = try? root.directory(directory, making: true)
        else { return }
        let name = PartialNames.partial(of: job, attempt: 0)
        let record = PartialNames.record(of: name)
        let isMoved =
            renameat(
                from.descriptor, PartialNames.record(of: found.file.name), into.descriptor, record) == 0
            && renameat(from.descriptor, found.file.name, into.descriptor, name) == 0
        // A move to another file system fails; the bytes then stay where they are until they expire.
        if !isMoved { into.remove(record) }
    }

    /// Removes a record whose file is missing, or a draft of a record.
    private func removeStray(_ name: String, in place: StorageDirectory) {
        let partial = name.hasSuffix(".json") ? String(name.dropLast(5)) : nil
        if let partial, place.inode(partial) != nil { return }
        place.remove(name)
    }

    /// Removes the final name of an inode. Returns `false` if it has none.
    private func takeBack(_ inode: ino_t, in place: StorageDirectory) -> Bool {
        // The response had suggested the name, and may suggest another one now.
        if name.isEmpty {
            let published = place.names(beginningWith: "").first {
                PartialNames.owner(of: $0) == nil && place.inode($0) == inode
            }
            if let published { place.remove(published) }
            return published != nil
        }
        let last = ifExists == .rename ? EngineLimits.renameCountMax : 0
        for number in 0...last {
            let candidate = name(numbered: number)
            guard let other = place.inode(candidate) else { return false }
            if other == inode {
                place.remove(candidate)
                return true
            }
        }
        return false
    }
}

extension ContentLocation {
    /// Returns the path of a job's file, relative to the root of the location.
    func path(of job: JobID) -> String { path ?? ManagedFiles.path(for: job) }
}
