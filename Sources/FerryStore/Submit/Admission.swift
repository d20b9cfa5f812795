import FerryCore
import Synchronization
import Sys

/// How many unfinished jobs a tenant may have, and whether more fit. Any thread.
///
/// While all tenants together have fewer, nobody has to be counted. Else a census says how many each has, and
/// what this node accepts is added until the next one; what other nodes accept meanwhile may go beyond.
final class Admission: Sendable {
    private struct Census {
        /// By tenant; nil until the first one.
        var counts: [String: Int64]?
        /// Monotonic nanoseconds.
        var nextAt: Int64 = 0
    }

    /// Unfinished jobs of one tenant.
    let jobCountMax: Int64
    /// Unfinished jobs of all tenants: at the last heartbeat, and what was accepted here since.
    private let total = Atomic<Int64>(0)
    /// Whether somebody would have to be counted.
    private let wantsCensus = Atomic<Bool>(false)
    private let census = Mutex(Census())

    init(jobCountMax: Int64) { self.jobCountMax = jobCountMax }

    /// Whether some tenant may have too many and asks for more here, so that they are to be counted.
    var isTight: Bool { wantsCensus.load(ordering: .relaxed) }

    /// The heartbeat has seen so many unfinished jobs.
    func note(total count: Int64) {
        total.store(count, ordering: .relaxed)
        guard count < jobCountMax else { return }
        wantsCensus.store(false, ordering: .relaxed)
        census.withLock { $0 = Census() }
    }

    /// Tenants were counted, and will be again at `nextAt` (monotonic nanoseconds).
    func note(_ tenants: [TenantStatus], nextAt: Int64) {
        census.withLock { census in
            census.counts = Dictionary(
                tenants.map { ($0.tenant, $0.jobCount) }, uniquingKeysWith: { first, _ in first })
            census.nextAt = nextAt
        }
    }

    /// Takes so many jobs of a tenant; nil, or the seconds until it is worth asking again.
    func admit(_ count: Int, of tenant: String) -> Double? {
        let all = total.add(Int64(count), ordering: .relaxed).newValue
        guard all > jobCountMax else { return nil }
        wantsCensus.store(true, ordering: .relaxed)
        return census.withLock { census in
            guard let before = census.counts?[tenant, default: 0] else { return nil }
            guard before + Int64(count) <= jobCountMax else {
                return max(0, Double(census.nextAt - monotonicNanoseconds()) / 1e9) + 0.1
            }
            census.counts?[tenant] = before + Int64(count)
            return nil
        }
    }
}
