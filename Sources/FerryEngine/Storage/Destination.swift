import FerryCore
import Glibc

/// Where an attempt's file will be: a directory below a root, the final name, and the hidden partial beside
/// it, so that publication is one rename on one file system.
struct Destination: Sendable {
    let root: StorageDirectory
    /// Relative to the root; empty is the root itself.
    let directory: String
    /// Empty until the answer has suggested one, when the job names only a directory.
    var name: String
    let ifExists: JobSpec.Destination.IfExists
    let job: JobID
    private(set) var attempt: Int32
    /// The service keeps the file: its path is not shown.
    let isKept: Bool

    init(
        root: StorageDirectory, path: String, ifExists: JobSpec.Destination.IfExists, of attempt: Attempt,
        isKept: Bool
    ) {
        self.root = root
        (directory, name) = splitPath(path)
        self.ifExists = ifExists
        self.job = attempt.job
        self.attempt = attempt.number
        self.isKept = isKept
    }

    /// Of a job that is over: all its attempts count as earlier ones.
    init(root: StorageDirectory, path: String, job: JobID) {
        self.root = root
        (directory, name) = splitPath(path)
        ifExists = .replace
        self.job = job
        attempt = .max
        isKept = false
    }

    var partialName: String { PartialNames.partial(of: job, attempt: attempt) }

    /// In a directory the file gets the name that the answer suggests.
    mutating func takeName(from head: ResponseHead, _ url: WebURL) {
        guard name.isEmpty else { return }
        name = suggestedFilename(head, url: url) ?? job.description
    }

    /// The path below the root of a name in this directory.
    func path(of name: String) -> String { directory.isEmpty ? name : "\(directory)/\(name)" }

    /// The name with a number before its extension, for `if_exists: rename`.
    func name(numbered number: Int) -> String {
        number > 0 ? fittedName(name, insert: "-\(number)") : name
    }

    /// Takes over what earlier attempts of this job left and removes what cannot be used; what cannot be read
    /// now is left to later attempts. The job's file may be continued when `identity` is what it was asked
    /// for with; nil: never. `withGaps`: also behind gaps. File thread.
    func takeOver(identity: String?, withGaps: Bool = false) -> Resumption? {
        // Without the directory there is nothing to remove.
        guard let place = try? root.directory(directory, making: false) else { return nil }
        var best: Resumption?
        for name in earlierNames(in: place) {
            // What later attempts have left is theirs: then this one has lost its lease and does not know it.
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
                // Nobody can tell what it is worth.
                continue
            }
        }
        return best
    }

    /// A partial that shares its inode with the final name was published, but the node died before the result
    /// was committed: both go, this attempt fetches it again.
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

    /// What attempts before this one may have left here. Some names are sooner asked for than a directory is
    /// read that holds very many files.
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

    /// Takes what an earlier attempt of this process has left from where the job's destination was then, and
    /// removes it there. File thread.
    func adopt(_ leftover: Leftover, identity: String?, withGaps: Bool) {
        var earlier = leftover.destination
        let isElsewhere = !earlier.directory.hasSameBytes(as: directory) || earlier.isKept != isKept
        guard earlier.attempt < attempt, isElsewhere else { return }
        earlier.attempt = attempt
        if let identity {
            adopt(from: earlier, identity: identity, withGaps: withGaps)
        }
        // What could not be moved, as to another file system.
        leftover.remove()
    }

    /// Takes the bytes that another job has left as if an attempt of this one had: once, by whoever comes
    /// first. File thread.
    func adopt(from other: Destination, identity: String, withGaps: Bool = false) {
        guard let found = other.takeOver(identity: identity, withGaps: withGaps) else { return }
        defer { found.file.letGo() }
        guard let from = try? other.root.directory(other.directory, making: false),
            let into = try? root.directory(directory, making: true)
        else { return }
        let name = PartialNames.partial(of: job, attempt: 0)
        let record = PartialNames.record(of: name)
        let isMoved =
            renameat(
                from.descriptor, PartialNames.record(of: found.file.name), into.descriptor, record) == 0
            && renameat(from.descriptor, found.file.name, into.descriptor, name) == 0
        // From one file system to another: then the bytes stay where they are until their time is over.
        if !isMoved { into.remove(record) }
    }

    /// A record without its file, or one that was being written.
    private func removeStray(_ name: String, in place: StorageDirectory) {
        let partial = name.hasSuffix(".json") ? String(name.dropLast(5)) : nil
        if let partial, place.inode(partial) != nil { return }
        place.remove(name)
    }

    /// Removes the final name of an inode, if it has one.
    private func takeBack(_ inode: ino_t, in place: StorageDirectory) -> Bool {
        // The answer had suggested the name, and may suggest another one now.
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
