import FerryCore
import Synchronization

/// The leases that this process knows that it holds: a job, and the attempt that it runs. Any thread.
final class LeaseRegistry: Sendable {
    private struct Leases {
        var held: [JobID: Int32] = [:]
        /// Of jobs that are just being submitted.
        var expected: Set<JobID> = []
    }

    private let leases = Mutex(Leases())

    /// Leases are about to be written, as far as this process can say. Nobody is to give them back as unknown
    /// (`contains`), nor to take them for lost because the database does not know them yet (`all`).
    func expect(_ jobs: some Sequence<JobID>) {
        leases.withLock { $0.expected.formUnion(jobs) }
    }

    /// These were not written, as far as is known.
    func dismiss(_ jobs: some Sequence<JobID>) {
        leases.withLock { $0.expected.subtract(jobs) }
    }

    /// These are written.
    func insert(_ added: some Sequence<(JobID, Int32)>) {
        leases.withLock { leases in
            for (job, attempt) in added {
                leases.held[job] = attempt
                leases.expected.remove(job)
            }
        }
    }

    /// A later attempt of the same job stays.
    func remove(_ removed: some Sequence<(JobID, Int32)>) {
        leases.withLock { leases in
            for (job, attempt) in removed where leases.held[job] == attempt { leases.held[job] = nil }
        }
    }

    func contains(_ job: JobID) -> Bool {
        leases.withLock { $0.held[job] != nil || $0.expected.contains(job) }
    }

    func holds(_ job: JobID, attempt: Int32) -> Bool { leases.withLock { $0.held[job] == attempt } }

    /// Those that are written.
    var all: [JobID: Int32] { leases.withLock { $0.held } }
}
