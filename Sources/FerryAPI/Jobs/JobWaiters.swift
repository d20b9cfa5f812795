package import FerryCore
internal import Synchronization
internal import Sys

/// Requests that wait for jobs to become terminal (`Prefer: wait`).
///
/// A job that ends on this node ends its waits at once. For jobs on other nodes, each waiter reads the job
/// every 0.5 s. Any thread.
package final class JobWaiters: Sendable {
    /// Identifies one waiting request.
    package struct Token: Hashable, Sendable {
        let job: JobID
        let number: UInt64
    }
    private struct Waiter {
        /// Times in monotonic nanoseconds.
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

    /// Starts the thread that ends waits at their deadlines. To be called once; `stop` ends the thread.
    package func start() {
        _ = Thread(name: "ferry-waiters") { while self.runDue() {} }
    }

    /// Number of waiting requests.
    package var count: Int { state.withLock { $0.waiters.values.reduce(0) { $0 + $1.count } } }

    /// Registers a request. `done` is called exactly once, unless `remove` comes first: when the job has
    /// ended, after `seconds`, or at `stop`. Until then `look` is called every 0.5 s; it reads the job and
    /// calls `finish` if the job has ended.
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

    /// Ends the waits for these jobs, which are terminal and committed.
    package func finished(_ jobs: [JobID]) {
        let woken = state.withLock { state -> [Waiter] in
            guard !state.waiters.isEmpty else { return [] }
            return jobs.flatMap { state.waiters.removeValue(forKey: $0)?.values.map { $0 } ?? [] }
        }
        for waiter in woken { waiter.done() }
    }

    /// Calls `look` of all waiters for these jobs, which have changed.
    package func changed(_ jobs: [JobID]) {
        let looking = state.withLock { state -> [(Token, Waiter)] in
            guard !state.waiters.isEmpty else { return [] }
            return jobs.flatMap { job in
                (state.waiters[job] ?? [:]).map { (Token(job: job, number: $0.key), $0.value) }
            }
        }
        for (token, waiter) in looking { waiter.look(token) }
    }

    /// Ends one wait. Does nothing if it is over already.
    package func finish(_ token: Token) { take(token)?.done() }

    /// Removes a waiter without calling `done`. Returns `false` if `done` was called already, or is being
    /// called.
    @discardableResult
    package func remove(_ token: Token) -> Bool { take(token) != nil }

    /// Ends the thread and all waits. Later waits end at once.
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

    /// Sleeps until a deadline or a look is due, and calls it. Returns `false` after `stop`.
    private func runDue() -> Bool {
        let next = state.withLock { state in
            state.waiters.values.lazy.flatMap(\.values).map { min($0.deadline, $0.lookAt) }.min()
        }
        let delay = next.map { Int32(clamping: max(0, ($0 - monotonicNanoseconds()) / 1_000_000 + 1)) } ?? -1
        // Only the first waiter wakes the thread. Later ones are seen within 100 ms.
        _ = wakeups.wait(milliseconds: next == nil ? -1 : min(delay, 100))
        guard !wakeups.isClosed else { return false }
        let now = monotonicNanoseconds()
        let (over, looks) = state.withLock { state in Self.due(&state, now) }
        for waiter in over { waiter.done() }
        for (token, waiter) in looks { waiter.look(token) }
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
