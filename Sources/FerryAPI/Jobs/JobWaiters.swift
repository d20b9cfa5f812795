package import FerryCore
internal import Synchronization
internal import Sys

/// Requests that wait for jobs to become terminal (`Prefer: wait`).
///
/// A job that ends on this node wakes its waiters at once; for those that run on another node each waiter
/// looks by itself every half second. Safe from any thread.
package final class JobWaiters: Sendable {
    /// Names one waiting request.
    package struct Token: Hashable, Sendable {
        let job: JobID
        let number: UInt64
    }
    private struct Waiter {
        let deadline: Int64
        var lookAt: Int64
        let look: @Sendable (Token) -> Void
        let done: @Sendable () -> Void
    }
    private struct State {
        var waiters: [JobID: [UInt64: Waiter]] = [:]
        var numberLast: UInt64 = 0
        var isStopped = false
    }
    private static let lookNanoseconds: Int64 = 500_000_000
    private let state = Mutex(State())
    private let wakeups = Mailbox<Int64>()

    package init() {}

    /// Starts the thread that watches deadlines; it ends with `stop`. Call once.
    package func start() {
        _ = Thread(name: "ferry-waiters") { while self.turn() {} }
    }

    /// How many requests wait.
    package var count: Int { state.withLock { $0.waiters.values.reduce(0) { $0 + $1.count } } }

    /// Registers a request. `done` is called exactly once unless `remove` comes first: when the job has
    /// ended, when the time is over or when the service stops. `look` is called now and then meanwhile: it
    /// reads the job and calls `finish` when that has ended.
    package func wait(
        for job: JobID, seconds: Double, look: @escaping @Sendable (Token) -> Void,
        done: @escaping @Sendable () -> Void
    ) -> Token {
        let now = monotonicNanoseconds()
        let deadline = now + Int64(min(max(seconds, 0), Limits.waitSecondsMax) * 1e9)
        let waiter = Waiter(deadline: deadline, lookAt: now + Self.lookNanoseconds, look: look, done: done)
        let (token, isFirst) = state.withLock { state in
            state.numberLast += 1
            let token = Token(job: job, number: state.numberLast)
            guard !state.isStopped else { return (token, nil as Bool?) }
            let isFirst = state.waiters.isEmpty
            state.waiters[job, default: [:]][token.number] = waiter
            return (token, isFirst)
        }
        switch isFirst {
        case true?: wakeups.send(deadline)
        case false?: break
        case nil: done()
        }
        return token
    }

    /// These jobs are terminal and committed.
    package func finished(_ jobs: [JobID]) {
        let woken = state.withLock { state -> [Waiter] in
            guard !state.waiters.isEmpty else { return [] }
            return jobs.flatMap { state.waiters.removeValue(forKey: $0)?.values.map { $0 } ?? [] }
        }
        for waiter in woken { waiter.done() }
    }

    /// These jobs have changed: whoever waits for one looks at it now.
    package func changed(_ jobs: [JobID]) {
        let looking = state.withLock { state -> [(Token, Waiter)] in
            guard !state.waiters.isEmpty else { return [] }
            return jobs.flatMap { job in
                (state.waiters[job] ?? [:]).map { (Token(job: job, number: $0.key), $0.value) }
            }
        }
        for (token, waiter) in looking { waiter.look(token) }
    }

    /// This waiter's job has ended; nothing happens when it does not wait any more.
    package func finish(_ token: Token) { take(token)?.done() }

    /// Forgets a waiter without calling it. Returns false when it was called already, or is being called.
    @discardableResult
    package func remove(_ token: Token) -> Bool { take(token) != nil }

    /// Ends the thread and every wait.
    package func stop() {
        let woken = state.withLock { state -> [Waiter] in
            state.isStopped = true
            let all = state.waiters.values.flatMap(\.values)
            state.waiters = [:]
            return all
        }
        wakeups.close()
        for waiter in woken { waiter.done() }
    }

    private func take(_ token: Token) -> Waiter? {
        state.withLock { state in
            let waiter = state.waiters[token.job]?.removeValue(forKey: token.number)
            if state.waiters[token.job]?.isEmpty == true { state.waiters[token.job] = nil }
            return waiter
        }
    }

    /// Sleeps until something is due and does it. False once stopped.
    private func turn() -> Bool {
        let next = state.withLock { state in
            state.waiters.values.lazy.flatMap(\.values).map { min($0.deadline, $0.lookAt) }.min()
        }
        let pause = next.map { Int32(clamping: max(0, ($0 - monotonicNanoseconds()) / 1_000_000 + 1)) } ?? -1
        // Only the first waiter wakes the thread; those that come later are seen within this time.
        _ = wakeups.wait(milliseconds: next == nil ? -1 : min(pause, 100))
        guard !wakeups.isClosed else { return false }
        let now = monotonicNanoseconds()
        let (over, looking) = state.withLock { state in Self.due(&state, now) }
        for waiter in over { waiter.done() }
        for (token, waiter) in looking { waiter.look(token) }
        return true
    }

    private static func due(_ state: inout State, _ now: Int64) -> (
        over: [Waiter], looking: [(Token, Waiter)]
    ) {
        var over: [Waiter] = []
        var looking: [(Token, Waiter)] = []
        for (job, waiters) in state.waiters {
            for (number, waiter) in waiters {
                if waiter.deadline <= now {
                    over.append(waiter)
                    state.waiters[job]?[number] = nil
                } else if waiter.lookAt <= now {
                    looking.append((Token(job: job, number: number), waiter))
                    state.waiters[job]?[number]?.lookAt = now + lookNanoseconds
                }
            }
            if state.waiters[job]?.isEmpty == true { state.waiters[job] = nil }
        }
        return (over, looking)
    }
}
