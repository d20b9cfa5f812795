import CSys
package import FerryCore
import Glibc
import Sys

/// Removes partial files and records that are not needed any more: of jobs that are finished or deleted,
/// whose node never came back, or whose resume data has expired. Slow on purpose; one thread at a time.
package struct PartialSweep: Sendable {
    /// Decision about the files of a job that the store knows.
    package enum Decision: Sendable { case keep, remove }

    /// Cost of opening a directory, counted in names.
    private static let directoryStep = 8
    /// File systems without files: proc, sysfs, cgroup2 (statfs(2)).
    private static let kernelTypes: Set<Int64> = [0x9FA0, 0x6265_6572, 0x6367_7270]
    /// Files that one question to the store is about, at most.
    private static let askMax = 200
    /// Depth of directories, at most.
    private static let depthMax = 64
    /// Seconds after which the file of a job that the store does not know is removed: another service may
    /// share the directory.
    private static let strangerSeconds = 86_400

    private let ask: @Sendable ([JobID]) -> [JobID: Decision]?
    private let isStopped: @Sendable () -> Bool

    /// `ask`: what becomes of the files of these jobs; without an entry if the store does not know the job.
    /// `nil` if the store is not available; then all files stay.
    package init(
        ask: @escaping @Sendable ([JobID]) -> [JobID: Decision]?, isStopped: @escaping @Sendable () -> Bool
    ) {
        self.ask = ask
        self.isStopped = isStopped
    }

    /// Walks all directories below `root` without following links. Returns how many files were removed.
    package func run(below root: String) -> Int {
        let descriptor = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard descriptor >= 0 else { return 0 }
        var throttle = WalkThrottle()
        return visit(descriptor, depth: 0, &throttle)
    }

    /// Closes the descriptor.
    private func visit(_ descriptor: Int32, depth: Int, _ throttle: inout WalkThrottle) -> Int {
        defer { close(descriptor) }
        guard Self.holdsFiles(descriptor) else { return 0 }
        throttle.took(Self.directoryStep)
        var found: [(name: String, job: JobID)] = []
        var directories: [String] = []
        visitDirectory(descriptor) { name, mayBeDirectory in
            throttle.took(1)
            if let owner = PartialNames.owner(of: name) {
                found.append((name: name, job: owner.job))
            } else if mayBeDirectory {
                directories.append(name)
            }
            return !isStopped()
        }
        var removed = 0
        for start in Swift.stride(from: 0, to: found.count, by: Self.askMax) {
            removed += judge(found[start..<min(start + Self.askMax, found.count)], in: descriptor)
        }
        guard depth < Self.depthMax else { return removed }
        for name in directories where !isStopped() {
            let below = openat(descriptor, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
            if below >= 0 { removed += visit(below, depth: depth + 1, &throttle) }
        }
        return removed
    }

    private static func holdsFiles(_ descriptor: Int32) -> Bool {
        !kernelTypes.contains(csys_file_system_type(descriptor))
    }

    private func judge(_ found: ArraySlice<(name: String, job: JobID)>, in descriptor: Int32) -> Int {
        guard let decisions = ask(Array(Set(found.map(\.job)))) else { return 0 }
        return found.count { name, job in
            let goes =
                switch decisions[job] {
                case .keep?: false
                case .remove?: true
                case nil: isOld(name, in: descriptor)
                }
            return goes && unlinkat(descriptor, name, 0) == 0
        }
    }

    private func isOld(_ name: String, in descriptor: Int32) -> Bool {
        var status = stat()
        guard fstatat(descriptor, name, &status, AT_SYMLINK_NOFOLLOW) == 0 else { return false }
        return status.st_mtim.tv_sec < time(nil) - Self.strangerSeconds
    }
}

/// Limits a walk to a fiftieth of one core, since transfers come first.
private struct WalkThrottle {
    /// Nanoseconds of walking before a rest, and how many times longer the rest is.
    private static let turn: Int64 = 2_000_000
    private static let restFactor: Int64 = 49
    /// Longest rest, in nanoseconds: a disk that is slow now may be fast later.
    private static let restMax: Int64 = 1_000_000_000
    /// Names between two readings of the clock.
    private static let stride = 64

    private var since = monotonicNanoseconds()
    private var seen = 0

    mutating func took(_ steps: Int) {
        seen += steps
        guard seen >= Self.stride else { return }
        seen = 0
        let worked = monotonicNanoseconds() - since
        guard worked >= Self.turn else { return }
        usleep(UInt32(min(worked * Self.restFactor, Self.restMax) / 1_000))
        since = monotonicNanoseconds()
    }
}
