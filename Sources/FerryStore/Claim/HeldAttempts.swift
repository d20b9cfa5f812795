import FerryCore
import FerryScheduler
import Postgres
import Synchronization
import Sys

/// Attempts that this node has leased and that wait for a slot, so that a slot that becomes free begins the
/// next transfer without a round trip to the database. Any thread.
///
/// There are two kinds. **Prefetched** ones were claimed from the queue. They are few, and go back if they
/// have not begun after `patience`. **Submitted** ones were leased as they were inserted, because nothing
/// else waited: all are of one session, and they begin in the order of their urgency. They go back to the
/// queue as soon as a job of another claim queue, or a more urgent one, is queued, so that shares and
/// priorities decide about all of them. Their rows do not say when they begin: a begin is recorded with the
/// result, or after `recordingDelay`.
final class HeldAttempts: Sendable {
    struct Held: Sendable {
        let attempt: Attempt
        let urgency: Timestamp
        /// When it goes back to the queue; monotonic nanoseconds.
        let returnAt: Int64
        /// `true` if it was leased as it was inserted.
        let isSubmitted: Bool
    }

    /// The tenant and session whose jobs are held since their submission.
    struct Owner: Sendable, Equatable {
        let tenant: String
        let session: String
    }

    /// What the row of a job that was held since its submission does not say.
    enum Begin: Sendable { case recorded, unrecorded, never }

    fileprivate struct State {
        /// The next one to begin is the last one.
        var held: [Held] = []
        var submittedCount = 0
        /// Places of submitted ones whose commit is not known yet.
        var reserved = 0
        var owner: Owner?
        var mustReturn = false
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

    // MARK: Adding

    /// Adds attempts that were claimed.
    func add(prefetched attempts: [(attempt: Attempt, urgency: Timestamp)], at now: Int64) {
        guard !attempts.isEmpty else { return }
        change { state in
            state.insert(
                attempts.map {
                    Held(
                        attempt: $0.attempt, urgency: $0.urgency, returnAt: now + patience, isSubmitted: false
                    )
                })
        }
    }

    /// Reserves places for up to `count` jobs that are about to be inserted. Returns how many: 0 if jobs of
    /// another session are held. With peers there are no more than this node does in a second.
    func reserve(upTo count: Int, of owner: Owner, hasPeers: Bool, capacity: Int) -> Int {
        state.withLock { state in
            guard state.submittedCount + state.reserved == 0 || state.owner == owner, !state.mustReturn else {
                return 0
            }
            let most =
                hasPeers ? min(submittedMax, max(capacity, state.endsPerSecond)) : submittedMax
            let reserved = max(0, min(count, most - state.submittedCount - state.reserved))
            state.reserved += reserved
            if reserved > 0 { state.owner = owner }
            return reserved
        }
    }

    /// Releases reserved places whose commit has failed.
    func unreserve(_ count: Int) {
        guard count > 0 else { return }
        state.withLock { state in
            state.reserved -= count
            if state.submittedCount + state.reserved == 0 { state.forgetSubmitted() }
        }
    }

    /// Adds attempts that were inserted with a lease, in their reserved places.
    func add(submitted attempts: [(attempt: Attempt, urgency: Timestamp)], hasPeers: Bool, at now: Int64) {
        let returnAt = hasPeers ? now + Self.submittedPatience : .max
        change { state in
            state.reserved -= attempts.count
            state.submittedCount += attempts.count
            state.isUnlimited = state.isUnlimited || !hasPeers
            state.insert(
                attempts.map {
                    Held(attempt: $0.attempt, urgency: $0.urgency, returnAt: returnAt, isSubmitted: true)
                })
        }
    }

    /// Notes that jobs were queued. Submitted attempts go back unless these jobs come after them anyway.
    func noteQueued(_ queue: ClaimQueue, head: Timestamp) {
        state.withLock { state in
            guard state.submittedCount + state.reserved > 0 else { return }
            let last = state.held.first
            let isOwn =
                queue.origin == nil && queue.tenant == state.owner?.tenant
                && queue.session == state.owner?.session
            if !isOwn || last.map({ head < $0.urgency }) ?? false { state.mustReturn = true }
        }
    }

    // MARK: Taking

    /// Whether the next attempt is a submitted one; `nil` if there is none.
    var isNextSubmitted: Bool? { count > 0 ? state.withLock { $0.held.last?.isSubmitted } : nil }

    /// Removes and returns the next attempt if it is of that kind.
    func takeNext(isSubmitted: Bool) -> Held? {
        change { state in
            guard state.held.last?.isSubmitted == isSubmitted else { return nil }
            return state.remove(at: state.held.count - 1)
        }
    }

    /// Removes and returns those that must go back at `now`; all of them if `isAll`. `hasPeers`: other nodes
    /// are alive, so that submitted ones that were held without a limit go back.
    func takeReturns(at now: Int64, isAll: Bool, hasPeers: Bool) -> [Held] {
        guard count > 0 else { return [] }
        return change { state in
            if hasPeers, state.isUnlimited { state.mustReturn = true }
            guard isAll || state.mustReturn || state.earliestReturn <= now else { return [] }
            let returnsSubmitted = state.mustReturn
            let back = state.held.filter {
                isAll || $0.returnAt <= now || $0.isSubmitted && returnsSubmitted
            }
            state.held.removeAll { isAll || $0.returnAt <= now || $0.isSubmitted && returnsSubmitted }
            state.submittedCount = state.held.count { $0.isSubmitted }
            state.earliestReturn = state.held.lazy.map(\.returnAt).min() ?? .max
            if state.submittedCount + state.reserved == 0 { state.forgetSubmitted() }
            return back
        }
    }

    func take(_ job: JobID) -> Held? {
        guard count > 0 else { return nil }
        return change { state in
            state.held.firstIndex { $0.attempt.job == job }.map { state.remove(at: $0) }
        }
    }

    /// Number of held attempts by tenant.
    var countsByTenant: [String: Int] {
        guard count > 0 else { return [:] }
        return state.withLock { state in
            state.held.reduce(into: [:]) { $0[$1.attempt.tenant, default: 0] += 1 }
        }
    }

    var all: [Held] { state.withLock { $0.held.reversed() } }

    /// When the first one goes back to the queue, in monotonic nanoseconds; `nil` if none does.
    var nextReturn: Int64? {
        guard count > 0 else { return nil }
        return state.withLock { state in
            state.mustReturn ? 0 : state.earliestReturn == .max ? nil : state.earliestReturn
        }
    }

    // MARK: Begins of submitted attempts

    /// Notes that a submitted attempt begins.
    func begin(_ attempt: Attempt, at now: Int64) {
        state.withLock { $0.begun[attempt.job] = (attempt, now) }
    }

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

    /// Attempts whose begin is to be recorded at `now`, at most `count`.
    func unrecordedBegins(_ count: Int, at now: Int64) -> [Attempt] {
        state.withLock { state in
            guard !state.begun.isEmpty else { return [] }
            let due = state.begun.values.lazy.filter { $0.at <= now - Self.recordingDelay }
            return due.prefix(count).map(\.attempt)
        }
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
        func precedes(_ a: HeldAttempts.Held, _ b: HeldAttempts.Held) -> Bool {
            (a.urgency, a.attempt.job) > (b.urgency, b.attempt.job)
        }
        let added = added.sorted(by: precedes)
        earliestReturn = min(earliestReturn, added.lazy.map(\.returnAt).min() ?? .max)
        guard let first = held.first, let last = added.last else { return held = added + held }
        if precedes(last, first) { return held.insert(contentsOf: added, at: 0) }
        held = (held + added).sorted(by: precedes)
    }

    /// Call when no submitted attempt is held or reserved.
    fileprivate mutating func forgetSubmitted() { (mustReturn, isUnlimited, owner) = (false, false, nil) }

    fileprivate mutating func remove(at index: Int) -> HeldAttempts.Held {
        let one = held.remove(at: index)
        if one.isSubmitted { submittedCount -= 1 }
        if submittedCount + reserved == 0 { forgetSubmitted() }
        return one
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
