import FerryCore
import Synchronization

/// Specs of jobs that this process has queued, so that a claim need not parse them: parsing costs as much as
/// all other work of the dispatcher for a job. Any thread.
final class SpecCache: Sendable {
    /// About 10 MB.
    private static let countMax = 8_192

    private let entries = Mutex<[JobID: StoredSpec]>([:])

    /// Adds specs. A full cache is emptied first: other nodes have leased the jobs that are still in it.
    func insert(_ jobs: [NewJob]) {
        entries.withLock { entries in
            for job in jobs.prefix(Self.countMax) {
                if entries.count >= Self.countMax { entries.removeAll(keepingCapacity: true) }
                entries[job.id] = job.storedSpec
            }
        }
    }

    /// Removes and returns the spec of a leased job, or `nil` if it differs from the row's `json`.
    func take(_ job: JobID, json: [UInt8]) -> StoredSpec? {
        let spec = entries.withLock { $0.removeValue(forKey: job) }
        return spec?.json == json ? spec : nil
    }
}
