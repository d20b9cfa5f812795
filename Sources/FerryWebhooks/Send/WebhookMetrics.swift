/// Counters of a sender since its start, and its current numbers.
package struct WebhookMetrics: Sendable, Equatable {
    /// Deliveries that receivers accepted.
    package var deliveredCount: Int64 = 0
    /// Delivery attempts that were not accepted, last attempts included.
    package var failedTryCount: Int64 = 0
    /// Retries that were scheduled.
    package var retryCount: Int64 = 0
    /// Deliveries that were given up.
    package var givenUpCount: Int64 = 0
    /// Claimed deliveries that were returned without an attempt, because their receiver could not take them
    /// in time.
    package var returnedCount: Int64 = 0
    /// Requests in flight now.
    package var inFlightCount = 0
    /// Claimed deliveries that wait for their turn.
    package var waitingCount = 0
    /// Delivery attempts by duration: entry `i` counts those up to `durationBounds[i]`, the last entry the
    /// longer ones. Not cumulative.
    package var durationCounts = [Int64](repeating: 0, count: durationBounds.count + 1)
    /// Sum of the durations of all attempts in seconds.
    package var durationSum = 0.0

    /// Upper bounds of `durationCounts` in seconds.
    package static let durationBounds: [Double] = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15]

    mutating func add(duration: Double) {
        let index = Self.durationBounds.firstIndex { duration <= $0 } ?? Self.durationBounds.count
        durationCounts[index] += 1
        durationSum += duration
    }
}
