import FerryCore
import Synchronization

/// Specs of jobs that this process has queued, so that a claim need not parse them: parsing costs as much as
/// all other work of the dispatcher for a job. Any thread.
final class SpecCache: Sendable {
    /// About 10 MB.
    private static let countMax = 8_192

    private struct Entry {
        let json: [UInt8]
        let spec: JobSpec
    }
    private let entries = Mutex<[JobID: Entry]>([:])

    /// Adds specs. A full cache is emptied first: other nodes have leased the jobs that are still in it.
    func insert(_ jobs: [NewJob]) {
        entries.withLock { entries in
            for job in jobs.prefix(Self.countMax) {
                if entries.count >= Self.countMax { entries.removeAll(keepingCapacity: true) }
                entries[job.id] = Entry(json: job.specJSON, spec: job.spec)
            }
        }
    }

    /// Removes and returns the spec of a leased job, or `nil` if it differs from the row's `json`.
    func take(_ job: JobID, json: [UInt8]) -> JobSpec? {
        let entry = entries.withLock { $0.removeValue(forKey: job) }
        return entry?.json == json ? entry?.spec : nil
    }
}
