import Synchronization

/// A rate in bytes a second that any number of transfers share, on any threads.
///
/// Whoever wants to move bytes is given the next place in time and keeps it, so all who ask are served in
/// turn: equal portions are equal shares, and nobody starves. Time is counted in nanoseconds of one monotonic
/// clock.
final class TokenBucket: Sendable {
    private struct State {
        var nanosecondsPerByte: Double
        /// From here on nothing is given away yet.
        var next: Double
        /// Grows when the places that were given mean nothing any more.
        var generation = 0
        /// Jobs that move bytes under it, and the most at once since somebody has looked.
        var jobCount = 0
        var jobCountPeak = 0
    }

    /// Time that was not used and may be made up for: what a late wake-up costs, and the largest burst.
    static let creditNanoseconds = 100e6

    private let state: Mutex<State>

    init(bytesPerSecond: Int64, now: Int64) {
        state = Mutex(State(nanosecondsPerByte: 1e9 / Double(max(1, bytesPerSecond)), next: Double(now)))
    }

    /// When so many bytes may move; not after `now`: at once.
    func reserve(_ byteCount: Int, now: Int64) -> Int64 {
        state.withLock { state in
            let place = max(state.next, Double(now) - Self.creditNanoseconds)
            state.next = place + Double(byteCount) * state.nanosecondsPerByte
            return Int64(min(place, 9e18))
        }
    }

    /// Another rate from now on, if it is another one; returns whether it is. Places that were given are
    /// forgotten then: who waits for one has to ask anew.
    @discardableResult
    func change(bytesPerSecond: Int64, now: Int64) -> Bool {
        let nanosecondsPerByte = 1e9 / Double(max(1, bytesPerSecond))
        return state.withLock { state in
            guard nanosecondsPerByte != state.nanosecondsPerByte else { return false }
            state.nanosecondsPerByte = nanosecondsPerByte
            state.next = Double(now)
            state.generation += 1
            return true
        }
    }

    var bytesPerSecond: Double { state.withLock { 1e9 / $0.nanosecondsPerByte } }

    /// Another one after each `change`.
    var generation: Int { state.withLock { $0.generation } }

    /// A job begins to move bytes under it, or has ended to.
    func enter() {
        state.withLock { state in
            state.jobCount += 1
            state.jobCountPeak = max(state.jobCountPeak, state.jobCount)
        }
    }
    func leave() { state.withLock { $0.jobCount -= 1 } }

    /// The most jobs at once since the last time.
    func takePeak() -> Int {
        state.withLock { state in
            defer { state.jobCountPeak = state.jobCount }
            return state.jobCountPeak
        }
    }
}
