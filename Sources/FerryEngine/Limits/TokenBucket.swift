import Synchronization

/// A rate in bytes a second that any number of transfers share, on any threads.
///
/// Whoever wants to move bytes is given the next place in line and keeps it, so all who ask are served in
/// turn: equal portions are equal shares, and nobody starves. Places are counted in bytes; the rate says when
/// the turn of each comes, also when it changes meanwhile. Time is counted in nanoseconds of one monotonic
/// clock.
final class TokenBucket: Sendable {
    /// A place in line.
    struct Place: Sendable {
        let bucket: TokenBucket
        fileprivate let position: Double

        /// When its turn comes at the rate of now; 0 when that is as long ago as no clock tells: at once.
        var time: Int64 { bucket.time(of: position) }
    }

    private struct State {
        var nanosecondsPerByte: Double
        /// Whose turn it is at an instant; all others follow from the rate.
        var turn: Double
        var instant: Double
        /// From here on nothing is given away yet.
        var next: Double
        /// Jobs that move bytes under it, and the most at once since somebody has looked.
        var jobCount = 0
        var jobCountPeak = 0

        func position(at time: Double) -> Double { turn + (time - instant) / nanosecondsPerByte }
        func time(of position: Double) -> Double { instant + (position - turn) * nanosecondsPerByte }
    }

    /// Time that was not used and may be made up for: what a late wake-up costs, and the largest burst.
    static let creditNanoseconds = 100e6

    private let state: Mutex<State>

    init(bytesPerSecond: Int64, now: Int64) {
        state = Mutex(
            State(
                nanosecondsPerByte: 1e9 / Double(max(1, bytesPerSecond)), turn: 0, instant: Double(now),
                next: 0))
    }

    /// The next place for so many bytes.
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

    /// Another rate from now on, if it is another one; returns whether it is. Places stay as they are in
    /// line: their turns come sooner or later than they would have.
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
