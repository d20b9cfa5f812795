internal import Synchronization

/// Counts requests by route, method and status, and how long they took.
package final class APIMetrics: Sendable {
    /// Upper bounds of the histogram's buckets, in seconds.
    package static let bounds = [
        0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10,
    ]
    /// One route's figures.
    package struct Snapshot: Sendable {
        /// The pattern; `none` for requests that found no route.
        package let route: String
        package let method: String
        /// Requests by status; 0: the client left before an answer.
        package let byStatus: [Int: UInt64]
        /// By bucket, not cumulative; the last one is above every bound.
        package let buckets: [UInt64]
        package let sumSeconds: Double
    }
    private struct Counts {
        var byStatus: [Int: UInt64] = [:]
        var buckets = [UInt64](repeating: 0, count: APIMetrics.bounds.count + 1)
        var sumNanoseconds: Int64 = 0
    }
    /// Each with a lock of its own: they are never waited for.
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
