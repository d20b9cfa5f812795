import FerryCore
import Synchronization
import Sys

/// Prefetched attempts: leased ones that wait for a slot, so that a slot that becomes free begins the next
/// transfer without a round trip to the database. Any thread.
///
/// They are few. An attempt that has not begun after `patience` goes back to the queue.
final class HeldAttempts: Sendable {
    struct Held: Sendable {
        let attempt: Attempt
        /// When it was leased; monotonic nanoseconds.
        let since: Int64
    }

    /// Maximum, whatever the number of slots.
    static let countMax = 32
    /// Longest time between lease and begin, in nanoseconds.
    let patience: Int64

    private let held = Mutex<[Held]>([])
    /// Read at every end of a transfer, without the lock.
    private let heldCount = Atomic<Int>(0)

    init(seconds: Double) { patience = Int64(seconds * 1e9) }

    var count: Int { heldCount.load(ordering: .sequentiallyConsistent) }

    func add(_ attempts: some Collection<Attempt>, at now: Int64) {
        change { $0 += attempts.map { Held(attempt: $0, since: now) } }
    }

    /// Removes and returns the first ones, at most `count`.
    func take(_ count: Int) -> [Held] {
        change { held in
            defer { held.removeFirst(min(count, held.count)) }
            return Array(held.prefix(count))
        }
    }

    /// Removes and returns those that were leased before `instant`.
    func take(olderThan instant: Int64) -> [Held] {
        guard count > 0 else { return [] }
        return change { held in
            defer { held.removeAll { $0.since < instant } }
            return held.filter { $0.since < instant }
        }
    }

    func take(_ job: JobID) -> Held? {
        guard count > 0 else { return nil }
        return change { held in
            held.firstIndex { $0.attempt.job == job }.map { held.remove(at: $0) }
        }
    }

    var all: [Held] { held.withLock { $0 } }

    /// When the first one goes back to the queue, in monotonic nanoseconds; `nil` if there is none.
    var nextReturn: Int64? {
        guard count > 0 else { return nil }
        return held.withLock { $0.first?.since }.map { $0 + patience }
    }

    private func change<Value: Sendable>(_ body: (inout [Held]) -> Value) -> Value {
        held.withLock { held in
            defer { heldCount.store(held.count, ordering: .sequentiallyConsistent) }
            return body(&held)
        }
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

extension StoreContext {
    /// Begins attempts that have slots.
    func begin(_ attempts: [Attempt]) {
        guard !attempts.isEmpty, let runner = attemptRunner else { return }
        runner.begin(attempts)
        // An edit that came before the runner knew the attempt is in the registry by now.
        edits.rates(of: attempts) { runner.changeRate($0, bytesPerSecondMax: $1) }
    }

    /// Begins prefetched attempts while slots are free.
    func beginHeld() {
        let slots = configuration.slots
        while held.count > 0 {
            let begun = slots.begin(upTo: held.count)
            guard begun > 0 else { return }
            let next = held.take(begun)
            // Another thread took the attempts. The loop looks again: a third one may have found no slot
            // meanwhile.
            if next.count < begun { slots.end(begun - next.count) }
            for one in next { begin(one) }
        }
    }

    private func begin(_ held: HeldAttempts.Held) {
        guard attemptRunner != nil, mayBegin(held) else { return giveBack([held.attempt]) }
        begin([held.attempt])
    }

    /// Gives back attempts that have slots and must not begin.
    func giveBack(_ attempts: [Attempt]) {
        configuration.slots.end(attempts.count)
        for attempt in attempts { end(attempt, .released) }
    }

    /// Returns `true` if nothing has happened since the lease that forbids to begin. A job with a limit by
    /// now goes back: claims alone count against limits.
    private func mayBegin(_ held: HeldAttempts.Held) -> Bool {
        let attempt = held.attempt
        guard mayLease, configuration.downloads.admits(attempt.spec.kind),
            Sys.monotonicNanoseconds() - held.since < self.held.patience, attempt.expiry > clock.now()
        else { return false }
        if attempt.spec.awaitsHost, health.unreachable(attempt.origin) != nil { return false }
        return claimQueueName(attempt.scope, session: attempt.spec.session, sessions.current).origin.isEmpty
    }

    /// Reports the result of an attempt that has not begun.
    private func end(_ attempt: Attempt, _ outcome: AttemptResult.Outcome, leavesBytes: Bool = false) {
        let send = heldResult.withLock { $0 }
        send(
            AttemptResult(
                attempt: attempt, outcome: outcome, response: nil, bytesReceived: 0, bytesSent: 0,
                leavesBytes: leavesBytes))
    }

    /// Stops the attempt of a job if this node has one.
    func stop(_ job: JobID, _ how: AttemptStop) {
        guard let held = held.take(job) else {
            attemptRunner?.stop(job, how)
            return
        }
        switch how {
        case .suspend: end(held.attempt, .suspended)
        case .cancel: end(held.attempt, .cancelled)
        case .cancelKeepingBytes: end(held.attempt, .cancelled, leavesBytes: held.attempt.number > 1)
        }
    }
}
