internal import FerryCore
internal import Synchronization
internal import Sys

/// How many requests a key may make: a bucket that holds `burst` and fills with `perSecond`.
package struct RateLimit: Sendable, Equatable {
    package var perSecond: Double
    package var burst: Double

    package init(perSecond: Double = 20_000, burst: Double = 40_000) {
        self.perSecond = perSecond
        self.burst = burst
    }
}

/// A token bucket a key.
final class RateLimiter: Sendable {
    private struct Bucket {
        var tokens: Double
        var filledAt: Int64
    }
    private let limit: RateLimit
    private let buckets = Mutex<[KeyID: Bucket]>([:])
    private let now: @Sendable () -> Int64

    init(_ limit: RateLimit, now: @escaping @Sendable () -> Int64 = { monotonicNanoseconds() }) {
        self.limit = limit
        self.now = now
    }

    /// Takes a token; returns nil, or the seconds until there is one again.
    func take(_ key: KeyID) -> Double? {
        let now = now()
        return buckets.withLock { buckets in
            var bucket = buckets[key] ?? Bucket(tokens: limit.burst, filledAt: now)
            let gained = Double(now - bucket.filledAt) / 1e9 * limit.perSecond
            bucket.tokens = min(limit.burst, bucket.tokens + gained)
            bucket.filledAt = now
            let wait = bucket.tokens >= 1 ? nil : (1 - bucket.tokens) / limit.perSecond
            if wait == nil { bucket.tokens -= 1 }
            buckets[key] = bucket
            return wait
        }
    }

    /// The answer to a key whose bucket is empty (draft-ietf-httpapi-ratelimit-headers-10).
    func problem(wait: Double) -> Problem {
        let seconds = Int(wait.rounded(.up))
        var problem = Problem(
            .rateLimited, "This key makes more than \(Int(limit.perSecond)) requests a second.")
        problem.fields = [
            ("Retry-After", "\(max(1, seconds))"),
            (
                "RateLimit-Policy",
                #""requests";q=\#(Int(limit.burst));w=\#(max(1, Int(limit.burst / limit.perSecond)))"#
            ),
            ("RateLimit", #""requests";r=0;t=\#(max(1, seconds))"#),
        ]
        return problem
    }
}
