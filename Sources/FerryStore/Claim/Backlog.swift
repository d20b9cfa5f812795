import FerryCore
import FerryScheduler
import Synchronization

/// Knowledge of this process about the queued jobs without asking the database: how many this node could
/// lease, and in which claim queues they are. Any thread.
///
/// A claim that leases fewer jobs than it asked for has emptied its claim queues, except for jobs that were
/// queued after it began. A scan of the table finds jobs that other processes have queued.
final class Backlog: Sendable {
    /// Jobs that this process has added to one claim queue.
    struct Addition: Sendable {
        /// Urgency of the most urgent one.
        var head: Timestamp
        var count: Int
    }

    /// Claim queues whose additions are remembered, about 2 MB. There are more only while this node leases
    /// nothing for long; a scan finds them afterwards.
    static let additionCountMax = 10_000

    /// The last claim has left claim queues that may have more jobs.
    private let isDeep = Atomic<Bool>(false)
    private let queued = Atomic<Int>(0)
    private let seen = Atomic<Int>(0)
    private let scansWanted = Atomic<Int>(0)
    private let scansDone = Atomic<Int>(0)
    private let additions = Mutex<[ClaimQueue: Addition]>([:])

    /// Notes jobs that this process has queued and committed. Called only on nodes that lease jobs.
    func add(_ added: [ClaimQueue: Addition]) {
        guard !added.isEmpty else { return }
        let isFull = additions.withLock { additions in
            additions.merge(added) { Addition(head: min($0.head, $1.head), count: $0.count + $1.count) }
            guard additions.count > Self.additionCountMax else { return false }
            additions = [:]
            return true
        }
        queued.add(added.values.reduce(0) { $0 + $1.count }, ordering: .acquiringAndReleasing)
        if isFull { addUnknown() }
    }

    /// Requests a scan: another process has queued an unknown number of jobs.
    func addUnknown() { scansWanted.add(1, ordering: .acquiringAndReleasing) }

    /// Returns and forgets what was added since the last call. Call after reading `mark`.
    func takeAdditions() -> [ClaimQueue: Addition] {
        additions.withLock { additions in
            defer { additions = [:] }
            return additions
        }
    }

    /// Jobs that this process has queued so far. A claim reads it before it begins.
    var mark: Int { queued.load(ordering: .acquiring) }
    /// Number of the scan that was requested last; `nil` if every requested scan is done.
    var wantedScan: Int? {
        let wanted = scansWanted.load(ordering: .acquiring)
        return wanted == scansDone.load(ordering: .acquiring) ? nil : wanted
    }

    /// Notes that a scan is done that began after the request `wanted`.
    func scanned(_ wanted: Int) { scansDone.store(wanted, ordering: .releasing) }

    /// Notes a committed claim that began at `mark`. `isDeep`: claim queues are left that may have more jobs.
    func claimed(since mark: Int, isDeep: Bool) {
        self.isDeep.store(isDeep, ordering: .releasing)
        if !isDeep { seen.store(mark, ordering: .releasing) }
    }

    /// Upper bound of the queued jobs; `nil` if the number is unknown.
    var count: Int? {
        if isDeep.load(ordering: .acquiring) || wantedScan != nil { return nil }
        return max(0, queued.load(ordering: .acquiring) - seen.load(ordering: .acquiring))
    }

    var isEmpty: Bool { count == 0 }
}
