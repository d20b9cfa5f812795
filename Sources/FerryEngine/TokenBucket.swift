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

    /// Another rate from now on. Places that were given are forgotten: who waits for one has to ask anew.
    func change(bytesPerSecond: Int64, now: Int64) {
        state.withLock {
            $0 = State(nanosecondsPerByte: 1e9 / Double(max(1, bytesPerSecond)), next: Double(now))
        }
    }

    var bytesPerSecond: Double { state.withLock { 1e9 / $0.nanosecondsPerByte } }
}
