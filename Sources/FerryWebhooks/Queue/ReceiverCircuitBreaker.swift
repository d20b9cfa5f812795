import FerryCore

/// Circuit breaker of one receiver: after several failures in a row it stops requests for a while, then
/// allows one. The clock is an argument and may jump.
struct ReceiverCircuitBreaker {
    enum State: Equatable {
        case closed
        /// No request may start before `until`.
        case open(until: Timestamp)
    }

    static let failureCountMax = 5
    /// Seconds of the first pause. Each further pause is twice as long, up to `pauseMax`.
    static let pauseMin = 5.0
    static let pauseMax = 60.0
    /// Longest `Retry-After` that is respected, in seconds.
    static let retryAfterMax = 3_600.0

    private(set) var state = State.closed
    private var failureCount = 0
    private var pause = Self.pauseMin
    /// Revision of the endpoint. After a change of the endpoint, which may enable it, the breaker allows
    /// requests at once.
    private var revision: Int32?

    /// Returns how many deliveries the queue may hold, or `nil` if the window decides.
    func heldMax(_ now: Timestamp) -> Int? {
        guard case .open(let until) = state else { return nil }
        // A clock that was set back must not make the pause longer.
        return now < until && until - now <= Self.retryAfterMax * 1.5 ? 0 : 1
    }

    /// End of the pause; `nil` if the breaker is closed.
    var opensAt: Timestamp? { if case .open(let until) = state { until } else { nil } }

    mutating func succeeded() {
        state = .closed
        failureCount = 0
        pause = Self.pauseMin
    }

    /// Counts a failure. `jitter`: from 0 to 1. Returns `true` if the breaker has opened now.
    mutating func failed(retryAfter: Double?, now: Timestamp, jitter: Double) -> Bool {
        failureCount += 1
        // Failures of requests that were in flight when it opened are not counted again.
        if heldMax(now) == 0, retryAfter == nil { return false }
        guard retryAfter != nil || failureCount >= Self.failureCountMax else { return false }
        var seconds = pause * (0.8 + 0.4 * jitter)
        if let retryAfter { seconds = max(seconds, min(retryAfter, Self.retryAfterMax)) }
        pause = min(pause * 2, Self.pauseMax)
        state = .open(until: now + seconds)
        return true
    }

    /// Takes the current revision of the endpoint, and closes the breaker if it has changed.
    mutating func update(revision: Int32) {
        defer { self.revision = revision }
        if let before = self.revision, before != revision { succeeded() }
    }
}
