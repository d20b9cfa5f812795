import FerryCore
import Synchronization

/// The leases that this process knows: jobs and their attempt numbers. Any thread.
final class LeaseRegistry: Sendable {
    private struct Leases {
        /// Attempt numbers of committed leases.
        var held: [JobID: Int32] = [:]
        /// Jobs that are inserted with a lease, before the commit is known.
        var expected: Set<JobID> = []
    }

    private let leases = Mutex(Leases())

    /// Notes leases that are about to be committed. They are neither given back as unknown (`contains`) nor
    /// taken for lost because the database does not have them yet (`all`).
    func expect(_ jobs: some Sequence<JobID>) {
        leases.withLock { $0.expected.formUnion(jobs) }
    }

    /// Forgets expected leases whose commit has failed or has an unknown outcome.
    func dismiss(_ jobs: some Sequence<JobID>) {
        leases.withLock { $0.expected.subtract(jobs) }
    }

    /// Adds committed leases.
    func insert(_ added: some Sequence<(JobID, Int32)>) {
        leases.withLock { leases in
            for (job, attempt) in added {
                leases.held[job] = attempt
                leases.expected.remove(job)
            }
        }
    }

    /// Removes leases. A later attempt of the same job stays.
    func remove(_ removed: some Sequence<(JobID, Int32)>) {
        leases.withLock { leases in
            for (job, attempt) in removed where leases.held[job] == attempt { leases.held[job] = nil }
        }
    }

    func contains(_ job: JobID) -> Bool {
        leases.withLock { $0.held[job] != nil || $0.expected.contains(job) }
    }

    func holds(_ job: JobID, attempt: Int32) -> Bool { leases.withLock { $0.held[job] == attempt } }

    /// The committed leases.
    var all: [JobID: Int32] { leases.withLock { $0.held } }
}
