import FerryCore
import FerryScheduler
import Postgres
import Synchronization
import Sys

/// Attempts that this node has leased and that wait for a slot or a connection, so that one that becomes free
/// begins the next transfer without a round trip to the database. Any thread.
///
/// There are two kinds. **Prefetched** ones were claimed from the queue. They are few, and go back if they
/// have not begun after `patience`. **Submitted** ones were leased as they were inserted, because no queued
/// job precedes them. They begin in the order of their urgency. Those that wait for a slot are all of one
/// session; those that wait for a connection of their session to a host (`ConnectionPool`) compete with no
/// other session while slots are free. They go back to the queue as soon as shares or priorities have to
/// decide between them and other jobs. Their rows do not say when they begin: a begin is recorded with the
/// result, or after `recordingDelay`, or before the database counts connections.
final class HeldAttempts: Sendable {
    struct Held: Sendable {
        let attempt: Attempt
        let urgency: Timestamp
        /// When it goes back to the queue; monotonic nanoseconds.
        let returnAt: Int64
        /// `true` if it was leased as it was inserted.
        let isSubmitted: Bool
        /// The connections that it waits for. Without an origin if nothing limits it.
        let pool: ConnectionPool

        fileprivate var rank: HeldOrder.Rank { .init(urgency: urgency, job: attempt.job) }
        fileprivate var place: Place { Place(pool) }
    }

    /// The tenant and session of a job that is held since its submission, and whether a limit concerns it.
    struct Place: Sendable, Hashable {
        let tenant: String
        let session: String
        let isLimited: Bool

        init(_ pool: ConnectionPool) {
            (tenant, session, isLimited) = (pool.tenant, pool.session, !pool.origin.isEmpty)
        }

        func isOfSession(_ other: Place) -> Bool { tenant == other.tenant && session == other.session }
    }

    /// Begin of an attempt that was held since the submission of its job: the job's row does not show it.
    enum Begin: Sendable { case recorded, unrecorded, never }

    fileprivate struct State {
        var held: [JobID: Held] = [:]
        var order = HeldOrder()
        /// Submitted ones, also those whose commit is not known yet.
        var places: [Place: Int] = [:]
        /// Submitted ones whose commit is not known yet.
        var reserved = 0
        var submittedCount = 0
        var mustReturn = false
        /// Pools whose submitted ones go back.
        var returning: Set<ConnectionPool> = []
        /// `true` if submitted ones were added while no other node was alive.
        var isUnlimited = false
        /// No attempt goes back before, unless `mustReturn`; monotonic nanoseconds.
        var earliestReturn = Int64.max
        /// Submitted attempts that have begun, and when; monotonic nanoseconds.
        var begun: [JobID: (attempt: Attempt, at: Int64)] = [:]
        /// Submitted attempts that have ended without a begin.
        var never: Set<JobID> = []
        /// Ends of attempts: in the second that began at `since`, and in a second before.
        var (endCount, endsPerSecond, since) = (0, 0, Int64(0))
    }

    /// Maximum of prefetched attempts, whatever the number of slots.
    static let countMax = 32
    /// Maximum of submitted attempts.
    private let submittedMax: Int
    /// Nanoseconds for which a submitted attempt is held while other nodes are alive.
    private static let submittedPatience: Int64 = 1_000_000_000
    /// Nanoseconds after which the begin of a submitted attempt is recorded.
    private static let recordingDelay: Int64 = 500_000_000
    /// Longest time between claim and begin of a prefetched attempt, in nanoseconds.
    let patience: Int64

    private let state = Mutex(State())
    /// Read at every end of a transfer, without the lock.
    private let heldCount = Atomic<Int>(0)

    /// `seconds`: longest time between claim and begin of a prefetched attempt.
    init(seconds: Double, submittedMax: Int) {
        patience = Int64(seconds * 1e9)
        self.submittedMax = submittedMax
    }

    var count: Int { heldCount.load(ordering: .sequentiallyConsistent) }

    /// Number of prefetched attempts.
    var prefetchedCount: Int { count == 0 ? 0 : state.withLock { $0.held.count - $0.submittedCount } }

    // MARK: Adding

    /// Adds attempts that were claimed.
    func add(
        prefetched attempts: [(attempt: Attempt, urgency: Timestamp, pool: ConnectionPool)], at now: Int64
    ) {
        guard !attempts.isEmpty else { return }
        change { state in
            state.insert(
                attempts.map {
                    Held(
                        attempt: $0.attempt, urgency: $0.urgency, returnAt: now + patience,
                        isSubmitted: false, pool: $0.pool)
                })
        }
    }

    /// Reserves places for up to `count` jobs that are about to be inserted. Returns how many: 0 if jobs are
    /// held that they would compete with. With peers there are no more than this node does in a second.
    /// `hasFreeSlots`: no held job waits for a slot.
    func reserve(
        upTo count: Int, of place: Place, hasPeers: Bool, capacity: Int, hasFreeSlots: Bool
    ) -> Int {
        state.withLock { state in
            guard !state.mustReturn else { return 0 }
            let isAlone = state.places.keys.allSatisfy { $0.isOfSession(place) }
            let competesWithNone =
                hasFreeSlots && place.isLimited && state.places.keys.allSatisfy { $0.isLimited }
            guard isAlone || competesWithNone else { return 0 }
            let most =
                hasPeers ? min(submittedMax, max(capacity, state.endsPerSecond)) : submittedMax
            let reserved = max(0, min(count, most - state.submittedCount - state.reserved))
            state.reserved += reserved
            if reserved > 0 { state.places[place, default: 0] += reserved }
            return reserved
        }
    }

    /// Releases a reserved place of a job that was not inserted, or is given back.
    func unreserve(_ places: some Sequence<Place>) {
        state.withLock { state in
            for place in places {
                state.reserved -= 1
                state.leave(place)
            }
        }
    }

    /// Adds attempts that were inserted with a lease, in their reserved places.
    func add(
        submitted attempts: [(attempt: Attempt, urgency: Timestamp, pool: ConnectionPool)], hasPeers: Bool,
        at now: Int64
    ) {
        let returnAt = hasPeers ? now + Self.submittedPatience : .max
        change { state in
            state.reserved -= attempts.count
            state.submittedCount += attempts.count
            state.isUnlimited = state.isUnlimited || !hasPeers
            state.insert(
                attempts.map {
                    Held(
                        attempt: $0.attempt, urgency: $0.urgency, returnAt: returnAt, isSubmitted: true,
                        pool: $0.pool)
                })
        }
    }

    /// Notes that jobs were queued. Submitted attempts go back unless these jobs come after them anyway, or
    /// do not compete with them.
    func noteQueued(_ queue: ClaimQueue, head: Timestamp) {
        state.withLock { state in
            guard state.submittedCount + state.reserved > 0 else { return }
            let pool = ConnectionPool(
                tenant: queue.tenant, session: queue.session, origin: queue.origin ?? "")
            let precedes = state.order.last(of: pool).map { head < $0.urgency } ?? false
            if state.places.keys.allSatisfy(\.isLimited) {
                // They compete with other pools only for slots (`noteCompetition`).
                if precedes { state.returning.insert(pool) }
                return
            }
            let isOwn =
                queue.origin == nil && state.places.keys.allSatisfy { $0.isOfSession(Place(pool)) }
            if !isOwn || precedes { state.mustReturn = true }
        }
    }

    /// Notes that no slot is free for jobs that could begin, while other jobs are queued: all submitted ones
    /// go back if shares decide between them.
    func noteCompetition() {
        guard count > 0 else { return }
        state.withLock { state in
            if state.order.next != nil, state.places.keys.contains(where: \.isLimited) {
                state.mustReturn = true
            }
        }
    }

    // MARK: Taking

    /// `true` if an attempt may wait for nothing but a slot.
    var hasReady: Bool { count > 0 && state.withLock { $0.order.next != nil } }

    /// Returns `true` if an attempt waits for a connection of the pool.
    func isHeld(_ pool: ConnectionPool) -> Bool { count > 0 && state.withLock { $0.order.contains(pool) } }

    /// Takes a pool in again that had no free connection.
    func takeIn(_ pool: ConnectionPool) {
        if count > 0 { state.withLock { _ = $0.order.takeIn(pool) } }
    }

    /// Takes all pools in again: limits have changed.
    func takeInAll() {
        if count > 0 { state.withLock { $0.order.takeInAll() } }
    }

    /// Removes and returns the next attempt of a pool with a free connection, with a slot. `admit` counts the
    /// connection. `isRefused`: the attempt has the slot, and goes back.
    ///
    /// A submitted attempt counts as begun before the lock is released, so that no begin is missing when the
    /// database counts connections again.
    func takeNext(
        _ slots: WorkerSlots, at clock: DatabaseClock, admit: (Held) -> ConnectionRegistry.HeldVerdict
    ) -> (attempt: Attempt, isRefused: Bool)? {
        guard count > 0 else { return nil }
        return change { state in
            while let (pool, job) = state.order.next, let next = state.held[job] {
                // A submitted attempt has no lease among those of the slots until it begins.
                let begun = next.isSubmitted ? slots.reserve(upTo: 1) : slots.begin(upTo: 1)
                guard begun > 0 else {
                    state.mustReturn = state.mustReturn || state.hasSeveralSessions
                    return nil
                }
                switch admit(next) {
                case .full:
                    if next.isSubmitted { slots.release(1) } else { slots.end(1) }
                    state.order.setAside(pool)
                case .refused:
                    state.remove(next)
                    if next.isSubmitted { state.never.insert(job) }
                    return (next.attempt, true)
                case .begins:
                    state.remove(next)
                    guard next.isSubmitted else { return (next.attempt, false) }
                    let attempt = next.attempt.beginning(at: clock.now())
                    state.begun[job] = (attempt, Sys.monotonicNanoseconds())
                    return (attempt, false)
                }
            }
            return nil
        }
    }

    /// Removes and returns those that must go back at `now`; all of them if `isAll`. `hasPeers`: other nodes
    /// are alive, so that submitted ones that were held without a limit go back.
    func takeReturns(at now: Int64, isAll: Bool, hasPeers: Bool) -> [Held] {
        guard count > 0 else { return [] }
        return change { state in
            if hasPeers, state.isUnlimited { state.mustReturn = true }
            guard isAll || state.mustReturn || !state.returning.isEmpty || state.earliestReturn <= now else {
                return []
            }
            let (returnsSubmitted, returning) = (state.mustReturn, state.returning)
            state.returning = []
            let back = state.held.values.filter {
                isAll || $0.returnAt <= now
                    || $0.isSubmitted && (returnsSubmitted || returning.contains($0.pool))
            }
            for held in back { state.remove(held) }
            state.earliestReturn = state.held.values.lazy.map(\.returnAt).min() ?? .max
            return back.sorted { $0.rank < $1.rank }
        }
    }

    func take(_ job: JobID) -> Held? {
        guard count > 0 else { return nil }
        return change { state in
            guard let held = state.held[job] else { return nil }
            state.remove(held)
            return held
        }
    }

    /// Number of held attempts by tenant that could begin if a slot were free.
    var countsByTenant: [String: Int] {
        guard count > 0 else { return [:] }
        return state.withLock { $0.order.readyCounts }
    }

    var all: [Held] { state.withLock { $0.held.values.sorted { $0.rank < $1.rank } } }

    /// When the first one goes back to the queue, in monotonic nanoseconds; `nil` if none does.
    var nextReturn: Int64? {
        guard count > 0 else { return nil }
        return state.withLock { state in
            state.mustReturn || !state.returning.isEmpty
                ? 0 : state.earliestReturn == .max ? nil : state.earliestReturn
        }
    }

    // MARK: Begins of submitted attempts

    /// Notes that a submitted attempt ends without having begun.
    func endBeforeBegin(_ attempt: Attempt) { _ = state.withLock { $0.never.insert(attempt.job) } }

    /// Returns what the row of the job does not say about the attempt that has ended, and forgets it.
    func takeBegin(_ job: JobID, at now: Int64) -> Begin {
        state.withLock { state in
            state.endCount += 1
            if now - state.since > 1_000_000_000 {
                state.endsPerSecond = state.endCount
                (state.endCount, state.since) = (0, now)
            }
            if state.begun.removeValue(forKey: job) != nil { return .unrecorded }
            return state.never.remove(job) == nil ? .recorded : .never
        }
    }

    /// Attempts whose begin is to be recorded at `now`, at most `count`. `isUrgent`: without a delay.
    func unrecordedBegins(_ count: Int, at now: Int64, isUrgent: (Attempt) -> Bool) -> [Attempt] {
        state.withLock { state in
            var due: [Attempt] = []
            for begun in state.begun.values where due.count < count {
                if begun.at <= now - Self.recordingDelay || isUrgent(begun.attempt) {
                    due.append(begun.attempt)
                }
            }
            return due
        }
    }

    /// Returns `true` if a begin that is urgent is not recorded.
    func hasUnrecordedBegin(_ isUrgent: (Attempt) -> Bool) -> Bool {
        state.withLock { $0.begun.values.contains { isUrgent($0.attempt) } }
    }

    /// When the next begin is to be recorded, in monotonic nanoseconds; `nil` if none is.
    var nextRecording: Int64? {
        state.withLock { $0.begun.values.lazy.map(\.at).min() }.map { $0 + Self.recordingDelay }
    }

    /// Returns the attempt of a job that was held since its submission, has begun, and is not recorded.
    func begun(_ job: JobID) -> Attempt? { state.withLock { $0.begun[job]?.attempt } }

    /// Notes that begins are recorded.
    func recorded(_ jobs: some Sequence<JobID>) {
        state.withLock { state in for job in jobs { state.begun[job] = nil } }
    }

    private func change<Value: Sendable>(_ body: (inout State) -> Value) -> Value {
        state.withLock { state in
            defer { heldCount.store(state.held.count, ordering: .sequentiallyConsistent) }
            return body(&state)
        }
    }
}

extension HeldAttempts.State {
    /// Inserts attempts, which need not be in order.
    fileprivate mutating func insert(_ added: [HeldAttempts.Held]) {
        guard let first = added.first else { return }
        for one in added {
            held[one.attempt.job] = one
            earliestReturn = min(earliestReturn, one.returnAt)
        }
        guard added.contains(where: { $0.pool != first.pool }) else {
            return order.insert(added.map(\.rank), in: first.pool)
        }
        for (pool, ones) in Dictionary(grouping: added, by: \.pool) {
            order.insert(ones.map(\.rank), in: pool)
        }
    }

    /// `true` if submitted attempts are of several sessions.
    fileprivate var hasSeveralSessions: Bool {
        guard places.count > 1, let first = places.first?.key else { return false }
        return places.keys.contains { !$0.isOfSession(first) }
    }

    /// Gives the place of a submitted attempt up.
    fileprivate mutating func leave(_ place: HeldAttempts.Place) {
        // No input reaches this: each place was reserved.
        guard let count = places[place] else { preconditionFailure("a held job left twice") }
        places[place] = count > 1 ? count - 1 : nil
        if places.isEmpty { (mustReturn, isUnlimited) = (false, false) }
    }

    fileprivate mutating func remove(_ one: HeldAttempts.Held) {
        guard held.removeValue(forKey: one.attempt.job) != nil else { return }
        order.remove(one.rank, in: one.pool)
        guard one.isSubmitted else { return }
        submittedCount -= 1
        leave(one.place)
    }
}

/// Estimates how many jobs to prefetch: as many as end while a transaction commits.
struct Turnover {
    private var mean = 0.0
    private var lastCommit: Int64 = 0

    /// Notes a commit of `count` results that took `nanoseconds`.
    mutating func note(ended count: Int, at now: Int64, nanoseconds: Int64) {
        let part = Double(nanoseconds) / Double(max(1, now - lastCommit))
        lastCommit = now
        // Results that gather while one transaction commits and the next one forms.
        mean += (Double(count) * min(1, 2 * part) - mean) / 4
    }

    /// Starts the estimate anew: some attempts were prefetched and found no slot in time.
    mutating func forget() { mean = 0 }

    func wanted(capacity: Int) -> Int {
        mean < 0.5 ? 0 : min(Int(mean.rounded(.up)), capacity, HeldAttempts.countMax)
    }
}
