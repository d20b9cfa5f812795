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

/// A token bucket.
struct TokenBucket {
    private var tokens: Double
    /// Monotonic nanoseconds.
    private var filledAt: Int64

    /// Makes a full bucket.
    init(_ limit: RateLimit, at now: Int64) {
        tokens = limit.burst
        filledAt = now
    }

    /// Takes a token. Returns `nil`, or, if the bucket is empty, the seconds until it has a token.
    mutating func take(_ limit: RateLimit, at now: Int64) -> Double? {
        tokens = min(limit.burst, tokens + Double(now - filledAt) / 1e9 * limit.perSecond)
        filledAt = now
        guard tokens >= 1 else { return (1 - tokens) / limit.perSecond }
        tokens -= 1
        return nil
    }
}

/// Token buckets, one for each key. Any thread.
final class RateLimiter: Sendable {
    private let limit: RateLimit
    private let buckets = Mutex<[KeyID: TokenBucket]>([:])
    private let now: @Sendable () -> Int64

    init(_ limit: RateLimit, now: @escaping @Sendable () -> Int64 = { monotonicNanoseconds() }) {
        self.limit = limit
        self.now = now
    }

    /// Takes a token. Returns `nil`, or, if the bucket is empty, the seconds until it has a token.
    func take(_ key: KeyID) -> Double? {
        let now = now()
        return buckets.withLock { buckets in
            buckets[key, default: TokenBucket(limit, at: now)].take(limit, at: now)
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

/// Token buckets of the tenants with a limit of requests. Any thread.
final class TenantRateLimiter: Sendable {
    private let quotas: TenantQuotas
    private let buckets = Mutex<[String: TokenBucket]>([:])
    private let now: @Sendable () -> Int64

    init(_ quotas: TenantQuotas, now: @escaping @Sendable () -> Int64 = { monotonicNanoseconds() }) {
        self.quotas = quotas
        self.now = now
    }

    /// Takes a token of a tenant, if its requests are limited. Throws if its bucket is empty.
    func take(_ tenant: String) throws(Problem) {
        guard let count = quotas.limits(of: tenant)?.requestsPerSecond else { return }
        let now = now()
        let limit = RateLimit(perSecond: Double(count), burst: Double(count))
        let wait = buckets.withLock { buckets in
            buckets[tenant, default: TokenBucket(limit, at: now)].take(limit, at: now)
        }
        guard let wait else { return }
        var problem = Problem(
            .quotaExceeded, "The tenant has used up its \(count) requests per second on this node.")
        problem.fields = quotaFields("requests", quota: count, window: 1, seconds: wait)
        throw problem
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
