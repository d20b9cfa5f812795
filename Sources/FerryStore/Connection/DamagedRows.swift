import FerryCore
import Logging
import Synchronization

/// Logs jobs whose rows cannot be read, each job once. Any thread.
final class DamagedRows: DamageLog {
    /// About 1 MB. After that many jobs some may be logged again.
    private static let countMax = 16_384
    private let logger: Logger
    private let reported = Mutex<Set<JobID>>([])

    init(_ logger: Logger) { self.logger = logger }

    func report(_ job: JobID, _ error: StoredJSONError) {
        let isNew = reported.withLock { jobs in
            if jobs.count >= Self.countMax { jobs.removeAll() }
            return jobs.insert(job).inserted
        }
        guard isNew else { return }
        logger.error(
            "the row of a job cannot be read",
            metadata: ["job.id": "\(job)", "error.member": "\(error.member)"])
    }
}
