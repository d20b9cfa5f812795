import FerryCore
import Synchronization
import Sys

/// Limits the unfinished jobs of each tenant. Any thread.
///
/// While all tenants together have fewer jobs than one may have, no tenant is counted. Else `TenantCounts`
/// counts each tenant's jobs now and then, and this node adds what it accepts until the next count. Jobs that
/// other nodes accept meanwhile may exceed the limit.
final class Admission: Sendable {
    private struct Count {
        /// Unfinished jobs by tenant; `nil` before the first count.
        var counts: [String: Int64]?
        /// Time of the next count, in monotonic nanoseconds.
        var nextAt: Int64 = 0
    }

    /// Unfinished jobs that one tenant may have.
    let jobCountMax: Int64
    /// Unfinished jobs of all tenants at the last heartbeat, plus the jobs that this node accepted since.
    private let total = Atomic<Int64>(0)
    /// `true` if a submission came while `total` was above the limit.
    private let isCountNeeded = Atomic<Bool>(false)
    private let lastCount = Mutex(Count())

    init(jobCountMax: Int64) { self.jobCountMax = jobCountMax }

    /// `true` if tenants have to be counted: one of them may have too many jobs and submits more to this
    /// node.
    var needsCount: Bool { isCountNeeded.load(ordering: .relaxed) }

    /// Notes the number of unfinished jobs that a heartbeat has read.
    func note(total count: Int64) {
        total.store(count, ordering: .relaxed)
        guard count < jobCountMax else { return }
        isCountNeeded.store(false, ordering: .relaxed)
        lastCount.withLock { $0 = Count() }
    }

    /// Takes the counts of tenants. The next count is at `nextAt` (monotonic nanoseconds).
    func note(_ tenants: [TenantStatus], nextAt: Int64) {
        lastCount.withLock { lastCount in
            lastCount.counts = Dictionary(
                tenants.map { ($0.tenant, $0.jobCount) }, uniquingKeysWith: { first, _ in first })
            lastCount.nextAt = nextAt
        }
    }

    /// Admits jobs of a tenant. Returns `nil` if they are admitted, else the seconds after which to try
    /// again.
    func admit(_ count: Int, of tenant: String) -> Double? {
        let all = total.add(Int64(count), ordering: .relaxed).newValue
        guard all > jobCountMax else { return nil }
        isCountNeeded.store(true, ordering: .relaxed)
        return lastCount.withLock { lastCount in
            guard let before = lastCount.counts?[tenant, default: 0] else { return nil }
            guard before + Int64(count) <= jobCountMax else {
                return max(0, Double(lastCount.nextAt - monotonicNanoseconds()) / 1e9) + 0.1
            }
            lastCount.counts?[tenant] = before + Int64(count)
            return nil
        }
    }
}
