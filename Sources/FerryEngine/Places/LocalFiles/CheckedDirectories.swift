import Synchronization
import Sys

/// Directories of destinations that were opened and checked a moment ago, so that the next attempt there need
/// not wait for a file thread before it connects (docs/decisions/0051-checked-directories.md). Any thread.
final class CheckedDirectories: Sendable {
    private struct Key: Hashable {
        let root: ObjectIdentifier
        let path: String
    }

    private struct Entry {
        /// Held, so that no other root gets its identifier.
        let root: StorageDirectory
        let directory: StorageDirectory
        /// Monotonic nanoseconds.
        let checkedAt: Int64
    }

    private let entries = Mutex<[Key: Entry]>([:])
    private let clock: @Sendable () -> Int64

    /// `clock`: monotonic nanoseconds.
    init(clock: @escaping @Sendable () -> Int64 = monotonicNanoseconds) { self.clock = clock }

    /// Notes that the directory of a destination was opened and may be written to. The oldest entry is
    /// forgotten if there are too many.
    func note(_ directory: StorageDirectory, of destination: Destination) {
        let now = clock()
        let key = Key(root: ObjectIdentifier(destination.root), path: destination.directory)
        entries.withLock { entries in
            if entries.count >= EngineLimits.checkedDirectoryCountMax, entries[key] == nil,
                let oldest = entries.min(by: { $0.value.checkedAt < $1.value.checkedAt })
            {
                entries[oldest.key] = nil
            }
            entries[key] = Entry(root: destination.root, directory: directory, checkedAt: now)
        }
    }

    /// Returns the directory of a destination if it was checked within the last second, else `nil`.
    func directory(of destination: Destination) -> StorageDirectory? {
        let key = Key(root: ObjectIdentifier(destination.root), path: destination.directory)
        let found = entries.withLock { $0[key] }
        guard let found, clock() - found.checkedAt < EngineLimits.checkedDirectoryTime else { return nil }
        return found.directory
    }

    /// Closes the directories that are of no use any more: an open one keeps its file system mounted. Called
    /// about once a second.
    func forgetOld() {
        let now = clock()
        entries.withLock { entries in
            guard !entries.isEmpty else { return }
            entries = entries.filter { now - $0.value.checkedAt < EngineLimits.checkedDirectoryTime }
        }
    }
}
