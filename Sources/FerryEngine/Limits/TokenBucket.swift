import Synchronization

/// A rate in bytes per second that any number of transfers share. Any thread.
///
/// A transfer that wants to move bytes reserves the next place in line and keeps it. Transfers are served in
/// turn: equal portions are equal shares, and none starves. Places are counted in bytes; the current rate
/// decides when the time of each place comes. Times are nanoseconds of one monotonic clock.
final class TokenBucket: Sendable {
    /// A place in line.
    struct Place: Sendable {
        let bucket: TokenBucket
        fileprivate let position: Double

        /// When the place's time comes at the current rate; 0 or an instant in the past means now.
        var time: Int64 { bucket.time(of: position) }
    }

    private struct State {
        var nanosecondsPerByte: Double
        /// The position whose time comes at `instant`; all other times follow from the rate.
        var turn: Double
        var instant: Double
        /// The first position that is not reserved.
        var next: Double
        /// Jobs that move bytes under the limit, and the most at once since `takePeak`.
        var jobCount = 0
        var jobCountPeak = 0

        func position(at time: Double) -> Double { turn + (time - instant) / nanosecondsPerByte }
        func time(of position: Double) -> Double { instant + (position - turn) * nanosecondsPerByte }
    }

    /// Nanoseconds of unused time that may be made up for. It bounds the largest burst, and covers late
    /// wake-ups.
    static let creditNanoseconds = 100e6

    private let state: Mutex<State>

    init(bytesPerSecond: Int64, now: Int64) {
        state = Mutex(
            State(
                nanosecondsPerByte: 1e9 / Double(max(1, bytesPerSecond)), turn: 0, instant: Double(now),
                next: 0))
    }

    /// Reserves the next place for so many bytes.
    func reserve(_ byteCount: Int, now: Int64) -> Place {
        let position = state.withLock { state in
            let first = max(state.next, state.position(at: Double(now) - Self.creditNanoseconds))
            state.next = first + Double(byteCount)
            return first
        }
        return Place(bucket: self, position: position)
    }

    private func time(of position: Double) -> Int64 {
        Int64(min(max(0, state.withLock { $0.time(of: position) }), 9e18))
    }

    /// Changes the rate from now on. Returns `false` if the rate is the same. Reserved places stay in line,
    /// but their times change.
    @discardableResult
    func change(bytesPerSecond: Int64, now: Int64) -> Bool {
        let nanosecondsPerByte = 1e9 / Double(max(1, bytesPerSecond))
        return state.withLock { state in
            guard nanosecondsPerByte != state.nanosecondsPerByte else { return false }
            (state.turn, state.instant) = (state.position(at: Double(now)), Double(now))
            state.nanosecondsPerByte = nanosecondsPerByte
            return true
        }
    }

    var bytesPerSecond: Double { state.withLock { 1e9 / $0.nanosecondsPerByte } }

    /// Notes that a job begins to move bytes under the limit; `leave` notes its end.
    func enter() {
        state.withLock { state in
            state.jobCount += 1
            state.jobCountPeak = max(state.jobCountPeak, state.jobCount)
        }
    }
    func leave() { state.withLock { $0.jobCount -= 1 } }

    /// Returns the most jobs at once since the last call.
    func takePeak() -> Int {
        state.withLock { state in
            defer { state.jobCountPeak = state.jobCount }
            return state.jobCountPeak
        }
    }
}
