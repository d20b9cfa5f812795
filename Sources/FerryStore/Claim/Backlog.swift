import FerryCore
import FerryScheduler
import Synchronization

/// What is known of the queue without asking: how many jobs may wait there that this node could take, and in
/// which lots.
///
/// A claim that finds less than it asked for has emptied the lots that it asked, up to what was queued after
/// it began; what others have queued is found by looking.
final class Backlog: Sendable {
    /// Rows that this process has queued in one lot.
    struct Addition: Sendable {
        var head: Timestamp
        var count: Int
    }

    /// Lots of which it is remembered, about 2 MB. More come only while nothing is leased here for long: they
    /// are looked for afterwards.
    static let additionCountMax = 10_000

    /// The last round has left lots that may have more.
    private let isDeep = Atomic<Bool>(false)
    private let queued = Atomic<Int>(0)
    private let seen = Atomic<Int>(0)
    private let looksWanted = Atomic<Int>(0)
    private let looksDone = Atomic<Int>(0)
    private let additions = Mutex<[ClaimQueue: Addition]>([:])

    /// To be called after this process, which leases jobs, has queued rows and committed them.
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

    /// Somebody has queued an unknown number of rows: the lots are looked for.
    func addUnknown() { looksWanted.add(1, ordering: .acquiringAndReleasing) }

    /// What was added since the last call. To be called after `mark`.
    func takeAdditions() -> [ClaimQueue: Addition] {
        additions.withLock { additions in
            defer { additions = [:] }
            return additions
        }
    }

    /// What a round remembers before it begins.
    var mark: Int { queued.load(ordering: .acquiring) }
    /// Nil: nobody has asked for a look that is not done.
    var wantedLook: Int? {
        let wanted = looksWanted.load(ordering: .acquiring)
        return wanted == looksDone.load(ordering: .acquiring) ? nil : wanted
    }

    /// A look that began when `wanted` was wanted has seen everything.
    func looked(_ wanted: Int) { looksDone.store(wanted, ordering: .releasing) }

    /// A round that began at `mark` has committed. `isDeep`: lots are left that may have more.
    func claimed(since mark: Int, isDeep: Bool) {
        self.isDeep.store(isDeep, ordering: .releasing)
        if !isDeep { seen.store(mark, ordering: .releasing) }
    }

    /// At most this many jobs queue; nil: more than can be told.
    var count: Int? {
        if isDeep.load(ordering: .acquiring) || wantedLook != nil { return nil }
        return max(0, queued.load(ordering: .acquiring) - seen.load(ordering: .acquiring))
    }

    var isEmpty: Bool { count == 0 }
}
