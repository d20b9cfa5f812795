import FerryCore
import Synchronization
import Sys

/// Jobs that this node has finished in the last two seconds. Most clients ask for the result at once, and
/// need no statement then. Any thread.
///
/// Keeps only jobs that nothing but a retry or their deletion can change from then on: no acknowledgement is
/// awaited, and no bytes are left to resume from. `prepare` precedes the commit, so that a change right after
/// the commit finds the entry and removes it.
final class RecentResults: Sendable {
    /// Payload of the notification about a deleted or retried job: this text, a colon and the job's id.
    static let changeNotification = "finished"

    /// Nanoseconds for which a job is kept, and the number of jobs.
    static let nanoseconds: Int64 = 2_000_000_000
    static let countMax = 1_024
    /// Bytes of the largest response body that is kept.
    static let bodyBytesMax = 4_096

    fileprivate struct Entry {
        var record: JobRecord
        /// When it was committed, in monotonic nanoseconds; `nil` before the commit.
        var committedAt: Int64?
    }

    fileprivate struct State {
        var entries: [JobID: Entry] = [:]
        /// The jobs in the order of `prepare`, from `first` on; used as a ring once it is full.
        var order: [JobID] = []
        var first = 0
    }

    private let state = Mutex(State())

    /// Values of a job in the database after its end was committed.
    struct Committed {
        let job: JobID
        /// The revision that the job has now.
        let revision: Int32
        let startedAt: Timestamp?
        /// `true` if an endpoint asks for an acknowledgement.
        let isAcknowledged: Bool

        /// Returns `true` if the job has not changed since `record` was made.
        func agrees(with record: JobRecord) -> Bool { record.revision == revision && !isAcknowledged }
    }

    /// Adds jobs that the next transaction finishes.
    func prepare(_ jobs: [FinishedJob]) {
        state.withLock { state in
            for job in jobs where job.isKeptAfterCommit {
                var record = job.record
                // As read from a row: without the secret values that the attempt has used.
                record.storedSpec = StoredSpec(record.storedSpec.json)
                state.add(record)
            }
        }
    }

    /// Makes the prepared jobs readable, except those that the database knows otherwise.
    func commit(_ jobs: [Committed], at now: Int64) {
        state.withLock { state in
            for job in jobs {
                guard let index = state.entries.index(forKey: job.job) else { continue }
                if job.agrees(with: state.entries.values[index].record) {
                    state.entries.values[index].record.startedAt = job.startedAt
                    state.entries.values[index].committedAt = now
                } else {
                    state.entries.remove(at: index)
                }
            }
        }
    }

    /// Removes a job that is deleted or retried.
    func forget(_ job: JobID) {
        state.withLock { _ = $0.entries.removeValue(forKey: job) }
    }

    /// Returns the job if this node has finished it within the last two seconds.
    func record(of job: JobID, tenant: String, at now: Int64) -> JobRecord? {
        state.withLock { state in
            guard let entry = state.entries[job], let committedAt = entry.committedAt,
                now - committedAt < Self.nanoseconds, entry.record.tenant == tenant
            else { return nil }
            return entry.record
        }
    }
}

extension RecentResults.State {
    fileprivate mutating func add(_ record: JobRecord) {
        if order.count < RecentResults.countMax {
            order.append(record.id)
        } else {
            entries.removeValue(forKey: order[first])
            order[first] = record.id
            first = (first + 1) % RecentResults.countMax
        }
        entries[record.id] = RecentResults.Entry(record: record)
    }
}

extension FinishedJob {
    /// `true` if the job may be kept in `RecentResults`.
    fileprivate var isKeptAfterCommit: Bool {
        isWholeRow && (record.body?.count ?? 0) <= RecentResults.bodyBytesMax
    }
}
