package import FerryCore
import Glibc
import Sys

/// Removes managed files of jobs that no longer exist. Slow on purpose; one thread at a time.
package struct ManagedFileSweep: Sendable {
    /// Files that one question to the store is about, at most, and microseconds between two questions.
    private static let askMax = 500
    private static let pause: UInt32 = 20_000

    private let ask: @Sendable ([JobID]) -> Set<JobID>?
    private let isStopped: @Sendable () -> Bool

    /// `ask`: returns which of these jobs exist; `nil` if the store is not available.
    package init(
        ask: @escaping @Sendable ([JobID]) -> Set<JobID>?, isStopped: @escaping @Sendable () -> Bool
    ) {
        self.ask = ask
        self.isStopped = isStopped
    }

    /// Checks the files of jobs that were created before `instant`. Returns how many were removed.
    package func run(in directory: String, madeBefore instant: Timestamp) -> Int {
        var shards: [String] = []
        visit(directory) { name in
            if name.utf8.count == 2, Int(name, radix: 16) != nil { shards.append(name) }
        }
        var removed = 0
        for shard in shards where !isStopped() {
            var jobs: [JobID] = []
            visit("\(directory)/\(shard)") { name in
                if let job = JobID(name), job.millisecondsSince1970 < instant.microseconds / 1_000 {
                    jobs.append(job)
                }
            }
            for start in stride(from: 0, to: jobs.count, by: Self.askMax) where !isStopped() {
                removed += judge(jobs[start..<min(start + Self.askMax, jobs.count)], below: directory)
                usleep(Self.pause)
            }
        }
        return removed
    }

    private func judge(_ jobs: ArraySlice<JobID>, below directory: String) -> Int {
        guard let known = ask(Array(jobs)) else { return 0 }
        return jobs.count { job in
            !known.contains(job) && unlink("\(directory)/\(ManagedFiles.path(for: job))") == 0
        }
    }

    private func visit(_ path: String, _ body: (String) -> Void) {
        let descriptor = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
        guard descriptor >= 0 else { return }
        defer { close(descriptor) }
        visitDirectory(descriptor) { name, _ in
            body(name)
            return !isStopped()
        }
    }
}
