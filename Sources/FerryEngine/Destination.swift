import FerryCore
import Glibc

/// Where an attempt's file will be: a directory below a root, the final name, and the hidden partial beside
/// it, so that publication is one rename on one file system.
struct Destination: Sendable {
    let root: StorageDirectory
    /// Relative to the root; empty is the root itself.
    let directory: String
    let name: String
    let ifExists: JobSpec.Destination.IfExists
    let job: JobID
    let attempt: Int32
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

    private var partialPrefix: String { ".ferry-\(job)-" }
    var partialName: String { "\(partialPrefix)\(attempt).part" }

    /// The path below the root of a name in this directory.
    func path(of name: String) -> String { directory.isEmpty ? name : "\(directory)/\(name)" }

    /// The name with a number before its extension, for `if_exists: rename`.
    func name(numbered number: Int) -> String {
        guard number > 0 else { return name }
        guard let dot = name.lastIndex(of: "."), dot != name.startIndex else { return "\(name)-\(number)" }
        return "\(name[..<dot])-\(number)\(name[dot...])"
    }

    /// Removes what earlier attempts of this job left. A partial that shares its inode with the final name
    /// was published, but the node died before the result was committed: both go, this attempt fetches it
    /// again.
    func removeEarlierAttempts() {
        // Without the directory there is nothing to remove.
        guard let place = try? root.directory(directory, making: false) else { return }
        for partial in place.names(beginningWith: partialPrefix) where partial != partialName {
            if ifExists != .replace, let inode = place.inode(partial) {
                takeBack(inode, in: place)
            }
            place.remove(partial)
        }
    }

    private func takeBack(_ inode: ino_t, in place: StorageDirectory) {
        let last = ifExists == .rename ? EngineLimits.renameCountMax : 0
        for number in 0...last {
            let candidate = name(numbered: number)
            guard let other = place.inode(candidate) else { return }
            if other == inode {
                place.remove(candidate)
                return
            }
        }
    }
}
