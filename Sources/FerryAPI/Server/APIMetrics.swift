internal import Synchronization

/// Counts requests by route and status, and measures their durations. Any thread.
package final class APIMetrics: Sendable {
    /// Upper bounds of the buckets of the duration histogram, in seconds.
    package static let bounds = [
        0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
    ]
    /// Counts of one route.
    package struct Snapshot: Sendable {
        /// Pattern of the route; `none` for requests without a route.
        package let route: String
        /// Method of the route; `any` for requests without a route.
        package let method: String
        /// Number of requests by status; 0 if the client disconnected before the response.
        package let byStatus: [Int: UInt64]
        /// Number of requests by bucket, not cumulative. The last bucket is above all bounds.
        package let buckets: [UInt64]
        /// Sum of the durations, in seconds.
        package let sumSeconds: Double
    }
    private struct Counts {
        var byStatus: [Int: UInt64] = [:]
        var buckets = [UInt64](repeating: 0, count: APIMetrics.bounds.count + 1)
        var sumNanoseconds: Int64 = 0
    }
    /// Counts of one route under their own lock, so that requests of different routes do not wait for each
    /// other.
    private final class Counter: Sendable {
        let counts = Mutex(Counts())
    }
    private let counters = (0...routes.count).map { _ in Counter() }

    init() {}

    func count(route: Int?, status: Int?, nanoseconds: Int64) {
        let seconds = Double(nanoseconds) / 1e9
        let bucket = Self.bounds.firstIndex { seconds <= $0 } ?? Self.bounds.count
        counters[route ?? routes.count].counts.withLock { counts in
            counts.byStatus[status ?? 0, default: 0] += 1
            counts.buckets[bucket] += 1
            counts.sumNanoseconds += nanoseconds
        }
    }

    /// Returns the counts of all routes. Requests without a route come last.
    package func snapshot() -> [Snapshot] {
        counters.enumerated().map { index, counter in
            let counts = counter.counts.withLock { $0 }
            let route = index < routes.count ? routes[index] : nil
            return Snapshot(
                route: route?.pattern ?? "none", method: route?.method ?? "any", byStatus: counts.byStatus,
                buckets: counts.buckets, sumSeconds: Double(counts.sumNanoseconds) / 1e9)
        }
    }
}
