import FerryCore
import Synchronization

/// The specs of jobs that this process has queued itself, so that a claim need not parse them again: parsing
/// costs as much as everything else that the dispatcher does for a job.
final class SpecCache: Sendable {
    /// About 10 MB.
    private static let countMax = 8_192

    private struct Entry {
        let json: [UInt8]
        let spec: JobSpec
    }
    private let entries = Mutex<[JobID: Entry]>([:])

    /// When it is full, everything goes: other nodes have claimed what is still there.
    func insert(_ jobs: [NewJob]) {
        entries.withLock { entries in
            for job in jobs.prefix(Self.countMax) {
                if entries.count >= Self.countMax { entries.removeAll(keepingCapacity: true) }
                entries[job.id] = Entry(json: job.specJSON, spec: job.spec)
            }
        }
    }

    /// Removes the spec of a claimed job and returns it, if it is still what the row says.
    func take(_ job: JobID, json: [UInt8]) -> JobSpec? {
        let entry = entries.withLock { $0.removeValue(forKey: job) }
        return entry?.json == json ? entry?.spec : nil
    }
}
