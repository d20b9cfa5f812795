/// What a sender has done since its start, and what it holds now.
package struct WebhookMetrics: Sendable, Equatable {
    /// Deliveries that a receiver accepted.
    package var deliveredCount: Int64 = 0
    /// Tries that were not accepted, the last ones included.
    package var failedTryCount: Int64 = 0
    /// Further tries that were scheduled.
    package var retryCount: Int64 = 0
    /// Deliveries that will not be tried again.
    package var givenUpCount: Int64 = 0
    /// Claimed deliveries that went back untried, because their receiver could not take them in time.
    package var returnedCount: Int64 = 0
    /// Requests on their way now.
    package var inFlightCount = 0
    /// Claimed deliveries that wait for a free place.
    package var waitingCount = 0
    /// Tries by duration: how many took at most `durationBounds[i]`; the last entry counts the longer ones.
    package var durationCounts = [Int64](repeating: 0, count: durationBounds.count + 1)
    /// Seconds of all tries.
    package var durationSum = 0.0

    /// Seconds; upper bounds of `durationCounts`, not cumulative.
    package static let durationBounds: [Double] = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15]

    mutating func add(duration: Double) {
        let index = Self.durationBounds.firstIndex { duration <= $0 } ?? Self.durationBounds.count
        durationCounts[index] += 1
        durationSum += duration
    }
}
