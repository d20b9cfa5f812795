internal import FerryCore
internal import Synchronization
internal import Sys

/// Limit of the requests of one key: a token bucket that holds `burst` tokens and gains `perSecond`.
package struct RateLimit: Sendable, Equatable {
    /// Tokens that the bucket gains per second; a request takes one.
    package var perSecond: Double
    /// Capacity of the bucket, in requests.
    package var burst: Double

    package init(perSecond: Double = 20_000, burst: Double = 40_000) {
        self.perSecond = perSecond
        self.burst = burst
    }
}

/// Token buckets, one for each key. Any thread.
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

    /// Takes a token. Returns `nil`, or, if the bucket is empty, the seconds until it has a token.
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

    /// Returns the problem for a key whose bucket is empty (draft-ietf-httpapi-ratelimit-headers-10).
    func problem(wait: Double) -> Problem {
        var problem = Problem(
            .rateLimited, "The key has used up its quota of \(Int(limit.perSecond)) requests per second.")
        problem.fields = quotaFields(
            "requests", quota: Int64(limit.burst), window: max(1, Int(limit.burst / limit.perSecond)),
            seconds: wait)
        return problem
    }
}

/// Returns the fields of a response to a client whose quota is used up. `window`: period of the quota, in
/// seconds; `seconds`: time until the next request may succeed.
func quotaFields(
    _ name: String, quota: Int64, window: Int? = nil, seconds: Double
) -> [(name: String, value: String)] {
    let wait = max(1, Int(seconds.rounded(.up)))
    return [
        ("Retry-After", "\(wait)"),
        ("RateLimit-Policy", #""\#(name)";q=\#(quota)"# + (window.map { ";w=\($0)" } ?? "")),
        ("RateLimit", #""\#(name)";r=0;t=\#(wait)"#),
    ]
}
