import FerryCore
import Synchronization
import Sys

/// Limits the unfinished jobs of each tenant, and the submissions of tenants that have used up their bytes of
/// the day. Any thread.
///
/// While all tenants together have fewer jobs than one may have, and the tenant has no limit of its own, no
/// tenant is counted. Else a tenant's jobs are the last count and all that this node has admitted since the
/// count began, or was about to commit then. So a node alone never admits more than the limit; jobs that
/// other nodes admit between two counts may exceed it.
final class Admission: Sendable {
    /// The answer to a submission.
    enum Verdict: Equatable {
        /// The jobs may be inserted. To be settled with `settle`.
        case admitted
        case refused(StoreError)
        /// Only a count tells. It may begin at this time, in monotonic nanoseconds.
        case needsCount(at: Int64)
    }

    private struct Tally {
        /// Admitted jobs whose commit is not known.
        var inFlight: Int64 = 0
        /// The last count; `nil` before the first one.
        var counted: Int64?
        /// Jobs that were in flight when that count began, or were admitted since.
        var added: Int64 = 0
        /// The same for the count that is under way.
        var addedSinceBegin: Int64 = 0
        /// Number of the count that has begun last.
        var begun = 0
        // Monotonic nanoseconds.
        var countedAt: Int64 = 0
        var nextCountAt: Int64 = 0

        var isUnused: Bool { inFlight == 0 && counted == nil && begun == 0 }

        mutating func add(_ count: Int64) {
            added += count
            addedSinceBegin += count
        }

        mutating func begin() -> Int {
            begun += 1
            addedSinceBegin = inFlight
            return begun
        }

        /// Takes a count, unless another one has begun since.
        mutating func end(_ number: Int, _ count: Int64) -> Bool {
            guard number == begun else { return false }
            (counted, added) = (count, addedSinceBegin)
            return true
        }
    }

    private struct State {
        var all = Tally(counted: 0)
        var tenants: [String: Tally] = [:]
        /// `true` if other nodes are alive.
        var hasPeers = true
    }

    /// Nanoseconds between two counts of a tenant, at least; else ten times the duration of one.
    static let countPause: Int64 = 100_000_000
    /// Nanoseconds for which a count is right although other nodes admit jobs.
    private static let peerPause: Int64 = 2_000_000_000

    /// Unfinished jobs that one tenant may have, unless a limit of its own is lower.
    let jobCountMax: Int64
    private let quotas: TenantQuotas
    private let clock: DatabaseClock
    private let state = Mutex(State())

    init(
        jobCountMax: Int64, quotas: TenantQuotas = TenantQuotas(), clock: DatabaseClock = DatabaseClock()
    ) {
        self.jobCountMax = jobCountMax
        self.quotas = quotas
        self.clock = clock
    }

    // MARK: Submissions

    /// Admits jobs of a tenant, or tells why not. `storesBytes`: whether Ferry stores what one of them
    /// receives.
    func admit(_ count: Int, of tenant: String, storesBytes: @autoclosure () -> Bool = false) -> Verdict {
        if let most = quotas.storageUsedUp(tenant), storesBytes() {
            return .refused(.storageQuotaExceeded(max: most))
        }
        if let refusal = transferRefusal(of: tenant) { return .refused(refusal) }
        let count = Int64(count)
        let own = quotas.limits(of: tenant)?.jobCountMax
        return state.withLock { state in
            let isNear = (state.all.counted ?? 0) + state.all.added + count > jobCountMax
            var tally = state.tenants[tenant] ?? Tally()
            if own != nil || isNear {
                let limit = min(own ?? .max, jobCountMax)
                let verdict = Self.verdict(count, tally, limit: limit, hasPeers: state.hasPeers)
                switch verdict {
                case .admitted: break
                case .needsCount: return verdict
                case .refused:
                    let wait = Double(tally.nextCountAt - monotonicNanoseconds()) / 1e9
                    return .refused(refusal(own, retryAfter: max(0, wait) + 0.1))
                }
            } else {
                // No limit is near: the next one that applies needs a new count.
                tally.counted = nil
            }
            tally.inFlight += count
            tally.add(count)
            state.tenants[tenant] = tally
            state.all.inFlight += count
            state.all.add(count)
            return .admitted
        }
    }

    /// `.refused` with any error stands for the refusal.
    private static func verdict(_ count: Int64, _ tally: Tally, limit: Int64, hasPeers: Bool) -> Verdict {
        guard let counted = tally.counted else { return .needsCount(at: tally.nextCountAt) }
        let now = monotonicNanoseconds()
        if counted + tally.added + count <= limit {
            let age = max(peerPause, tally.nextCountAt - tally.countedAt)
            return hasPeers && now - tally.countedAt > age ? .needsCount(at: now) : .admitted
        }
        // Jobs that were counted just now fill the limit. Others may have ended since they were admitted.
        let isFull = counted + count > limit
        return isFull && now < tally.nextCountAt ? .refused(.failed) : .needsCount(at: tally.nextCountAt)
    }

    /// The refusal of a tenant that must not have more jobs. `own`: its own limit.
    private func refusal(_ own: Int64?, retryAfter: Double) -> StoreError {
        guard let own, own <= jobCountMax else {
            return .tooManyJobs(max: jobCountMax, retryAfter: retryAfter)
        }
        return .quotaExceeded(.unfinishedJobs, max: own, retryAfter: retryAfter)
    }

    /// Returns the refusal of a tenant for which no count can begin soon. `at`: when it can, in monotonic
    /// nanoseconds.
    func refusal(of tenant: String, countAt at: Int64) -> StoreError {
        refusal(
            quotas.limits(of: tenant)?.jobCountMax,
            retryAfter: max(0, Double(at - monotonicNanoseconds()) / 1e9) + 0.1)
    }

    private func transferRefusal(of tenant: String) -> StoreError? {
        guard let most = quotas.limits(of: tenant)?.bytesPerDay else { return nil }
        let now = clock.now()
        guard let until = quotas.usedUpUntil(tenant, at: now) else { return nil }
        return .quotaExceeded(.bytesPerDay, max: most, retryAfter: until - now)
    }

    /// Settles admitted jobs after their transaction. `isCommitted`: `false` if they are certainly not
    /// inserted.
    func settle(_ count: Int, of tenant: String, isCommitted: Bool) {
        let count = Int64(count)
        state.withLock { state in
            state.all.inFlight -= count
            var tally = state.tenants[tenant] ?? Tally()
            tally.inFlight -= count
            if !isCommitted {
                state.all.add(-count)
                tally.add(-count)
            }
            state.tenants[tenant] = tally.isUnused ? nil : tally
        }
    }

    // MARK: Counts

    /// Call before a heartbeat reads the number of unfinished jobs. Returns the number of this count.
    func beginTotal() -> Int { state.withLock { $0.all.begin() } }

    /// Notes the number of unfinished jobs that a heartbeat has read. `number`: the value of `beginTotal`.
    func note(total count: Int64, _ number: Int, hasPeers: Bool) {
        state.withLock { state in
            _ = state.all.end(number, count)
            state.hasPeers = hasPeers
        }
    }

    /// Call before the jobs of a tenant are counted. Returns the number of this count.
    func beginCount(of tenant: String) -> Int {
        state.withLock { $0.tenants[tenant, default: Tally()].begin() }
    }

    /// Takes a count of a tenant's jobs, unless another one has begun since. `number`: the value of
    /// `beginCount`; `nanoseconds`: its duration.
    func note(_ count: Int64, of tenant: String, _ number: Int, nanoseconds: Int64) {
        let now = monotonicNanoseconds()
        state.withLock { state in
            guard var tally = state.tenants[tenant], tally.end(number, count) else { return }
            tally.countedAt = now
            tally.nextCountAt = now + max(Self.countPause, 10 * nanoseconds)
            state.tenants[tenant] = tally
        }
    }
}

/// Jobs that a transaction has admitted, by tenant.
struct AdmittedJobs: Sendable {
    fileprivate var counts: [String: Int] = [:]

    mutating func add(_ count: Int, of tenant: String) { counts[tenant, default: 0] += count }
}

extension Admission {
    /// Gives back jobs of a transaction that it does not insert.
    func withdraw(_ count: Int, of tenant: String, _ jobs: inout AdmittedJobs) {
        guard count > 0 else { return }
        jobs.counts[tenant, default: 0] -= count
        settle(count, of: tenant, isCommitted: false)
    }

    /// Settles the jobs of a transaction, and forgets them.
    func settle(_ jobs: inout AdmittedJobs, isCommitted: Bool) {
        for (tenant, count) in jobs.counts { settle(count, of: tenant, isCommitted: isCommitted) }
        jobs = AdmittedJobs()
    }
}

extension StoreError {
    /// Seconds after which a refused submission may be accepted; `nil` for other errors.
    var retryAfter: Double? {
        switch self {
        case .tooManyJobs(_, let seconds), .quotaExceeded(_, _, let seconds): seconds
        default: nil
        }
    }
}
