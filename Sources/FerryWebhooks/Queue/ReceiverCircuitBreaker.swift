import FerryCore

/// Leaves a receiver alone that seems to be dead: after some failures in a row nothing is sent for a while,
/// then one try finds out. A pure value; the clock is an argument and may step.
struct ReceiverCircuitBreaker {
    enum State: Equatable {
        case closed
        /// Nothing may be sent before.
        case open(until: Timestamp)
    }

    static let failureCountMax = 5
    /// Seconds: the first pause, which doubles up to the longest one.
    static let pauseMin = 5.0
    static let pauseMax = 60.0
    /// Seconds for which a receiver may ask to be left alone (`Retry-After`).
    static let retryAfterMax = 3_600.0

    private(set) var state = State.closed
    private var failureCount = 0
    private var pause = Self.pauseMin
    /// Of the endpoint, when it opened: whoever changes the endpoint, enables it perhaps, wants to see a try.
    private var revision: Int32?

    /// How many may be held at once; nil: as many as the window says.
    func roomMax(_ now: Timestamp) -> Int? {
        guard case .open(let until) = state else { return nil }
        // A clock that was set back must not make the pause longer.
        return now < until && until - now <= Self.retryAfterMax * 1.5 ? 0 : 1
    }

    /// When something may be sent again; nil: now.
    var opensAt: Timestamp? { if case .open(let until) = state { until } else { nil } }

    mutating func answered() {
        state = .closed
        failureCount = 0
        pause = Self.pauseMin
    }

    /// `jitter`: from 0 to 1. Returns whether it has opened now.
    mutating func failed(retryAfter: Double?, now: Timestamp, jitter: Double) -> Bool {
        failureCount += 1
        // What was on its way when it opened says nothing new.
        if roomMax(now) == 0, retryAfter == nil { return false }
        guard retryAfter != nil || failureCount >= Self.failureCountMax else { return false }
        var seconds = pause * (0.8 + 0.4 * jitter)
        if let retryAfter { seconds = max(seconds, min(retryAfter, Self.retryAfterMax)) }
        pause = min(pause * 2, Self.pauseMax)
        state = .open(until: now + seconds)
        return true
    }

    /// The endpoint has this revision now; another one than before closes it.
    mutating func note(revision: Int32) {
        defer { self.revision = revision }
        if let before = self.revision, before != revision { answered() }
    }
}
