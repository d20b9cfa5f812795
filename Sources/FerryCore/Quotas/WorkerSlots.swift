import Synchronization

/// Counts the transfers that this node may still begin, and the jobs that it may still lease. May be used on
/// any thread.
///
/// A slot is held while a transfer runs. A lease is held from before it is written until the result is
/// committed: longer than the slot, so that no slot waits for a commit, and for at most `surplus` jobs more
/// than there are slots. A stalled attempt lends its slot with one more lease, and takes it back when it
/// continues, free or not (docs/decisions/0028 and 0049). While tenants wait that hold fewer slots than their
/// share, slow attempts of other tenants lend theirs earlier (docs/decisions/0050).
public final class WorkerSlots: Sendable {
    private struct Free {
        var slots: Int
        /// Free leases; negative if a commit of results has failed.
        var leases: Int
        /// Lent slots by the tenant of the attempt.
        var lent: [String: Int] = [:]
        var lentCount = 0
        /// Those of them that were lent early.
        var early: [String: Int] = [:]
        /// Free slots that are missing for `waiting`.
        var missing = 0
        /// Tenants that hold fewer slots than their share and have jobs that could begin.
        var waiting: Set<String> = []
    }
    private let free: Mutex<Free>
    /// `true` while `missing` is not 0. Read for each byte that moves while a slot is lent.
    private let isMissing = Atomic<Bool>(false)
    /// Number of slots.
    public let capacity: Int
    /// Number of slots that may be lent at once, by all tenants.
    private let lentMax: Int
    /// Number of slots that tenants may divide among them; the other loans are early ones.
    private let dividedMax: Int

    /// Leases beyond the slots, for results that are not committed yet and for prefetched jobs.
    public static let surplus = 64

    /// `lentMax`: number of lent slots that the process has descriptors and memory for.
    public init(capacity: Int, lentMax: Int = .max) {
        self.capacity = capacity
        self.lentMax = capacity > 0 ? lentMax : 0
        dividedMax = self.lentMax - min(capacity, self.lentMax / 2)
        free = Mutex(Free(slots: capacity, leases: capacity > 0 ? capacity + Self.surplus : 0))
    }

    /// Reserves up to `count` slots with a lease each; returns how many.
    public func reserve(upTo count: Int) -> Int {
        free.withLock { free in
            let taken = max(0, min(free.slots, free.leases, count))
            free.slots -= taken
            free.leases -= taken
            if taken > 0, free.missing > 0 { setMissing(max(0, free.missing - taken), &free) }
            return taken
        }
    }

    private func setMissing(_ count: Int, _ free: inout Free) {
        free.missing = count
        isMissing.store(count > 0, ordering: .relaxed)
    }

    /// Releases slots with their leases.
    public func release(_ count: Int) {
        end(count)
        settle(count)
    }

    /// Reserves up to `count` leases without a slot; returns how many.
    public func reserveLeases(upTo count: Int) -> Int {
        free.withLock { free in
            let taken = max(0, min(free.leases, count))
            free.leases -= taken
            return taken
        }
    }

    /// Takes up to `count` slots for jobs that are leased already; returns how many.
    public func begin(upTo count: Int) -> Int {
        free.withLock { free in
            let taken = max(0, min(free.slots, count))
            free.slots -= taken
            return taken
        }
    }

    /// Releases the slots of ended transfers; their leases stay until `settle`.
    public func end(_ count: Int) {
        free.withLock { free in
            free.slots += count
            // No input reaches this: an attempt ends once.
            precondition(free.slots <= capacity, "a slot was freed twice")
        }
    }

    /// Releases leases whose results are committed, or are about to be.
    public func settle(_ count: Int) { free.withLock { $0.leases += count } }

    /// Takes back a release of leases, after the commit has failed.
    public func unsettle(_ count: Int) { free.withLock { $0.leases -= count } }

    /// Lends the slot of a stalled attempt of the tenant. Returns `false` if the tenant has lent at least as
    /// many slots as may still be lent: so one tenant lends half of all, a second one half of the rest, and a
    /// part is left for every further tenant.
    public func lend(for tenant: String) -> Bool {
        free.withLock { free in
            guard free.lent[tenant, default: 0] < dividedMax - free.lentCount else { return false }
            lend(for: tenant, &free)
            return true
        }
    }

    private func lend(for tenant: String, _ free: inout Free) {
        free.lent[tenant, default: 0] += 1
        free.lentCount += 1
        free.slots += 1
        free.leases += 1
    }

    /// Sets which tenants wait for how many slots, because they hold fewer than their share.
    public func expect(_ count: Int, for tenants: Set<String>) {
        free.withLock { free in
            setMissing(count, &free)
            free.waiting = tenants
        }
    }

    /// `true` while tenants wait that hold fewer slots than their share. Lent slots are not taken back then.
    public var areMissing: Bool { isMissing.load(ordering: .relaxed) }

    /// Lends the slot of a slow attempt while other tenants wait for more slots than are free. Such loans may
    /// use the parts of other tenants, and the loans that are in no part: a tenant that has used up its part
    /// begins no further attempts.
    public func lendEarly(for tenant: String) -> Bool {
        free.withLock { free in
            guard max(0, min(free.slots, free.leases)) < free.missing, !free.waiting.contains(tenant),
                free.lentCount < lentMax
            else { return false }
            lend(for: tenant, &free)
            free.early[tenant, default: 0] += 1
            return true
        }
    }

    /// Makes an early loan an ordinary one: the attempt is stalled by now.
    public func settleEarlyLoan(of tenant: String) { free.withLock { endEarlyLoan(of: tenant, &$0) } }

    private func endEarlyLoan(of tenant: String, _ free: inout Free) {
        let count = free.early[tenant, default: 0]
        free.early[tenant] = count > 1 ? count - 1 : nil
    }

    /// Tenants that may begin no further attempts. They have lent early as many slots as there are, or have
    /// lent their part, which is at least as many.
    public var tenantsWithoutLoans: Set<String> {
        free.withLock { free in
            let rest = dividedMax - free.lentCount
            guard !free.early.isEmpty || free.lentCount >= rest else { return [] }
            let tenants = free.lent.filter {
                $0.value >= max(capacity, rest) || free.early[$0.key, default: 0] >= capacity
            }
            return Set(tenants.keys)
        }
    }

    /// Takes a lent slot back for an attempt that continues. Until others end, more slots may be taken than
    /// there are. `isEarly`: the slot was lent early, and is not yet an ordinary loan.
    public func takeBack(for tenant: String, isEarly: Bool = false) {
        free.withLock { free in
            // No input reaches this: only an attempt that has lent its slot takes one back.
            let count = free.lent[tenant, default: 0]
            precondition(count > 0, "a slot was taken back twice")
            free.lent[tenant] = count > 1 ? count - 1 : nil
            free.lentCount -= 1
            free.slots -= 1
            free.leases -= 1
            if isEarly { endEarlyLoan(of: tenant, &free) }
        }
    }

    /// Lent slots by tenant.
    public var lentByTenant: [String: Int] { free.withLock { $0.lent } }

    /// Slots that are lent.
    public var lentCount: Int { free.withLock { $0.lentCount } }

    /// Transfers that could begin now.
    public var freeCount: Int { free.withLock { max(0, min($0.slots, $0.leases)) } }

    /// `true` if running attempts are at least half as many as slots; attempts that lent their slot count.
    public var isScarce: Bool { free.withLock { 2 * (capacity - $0.slots + $0.lentCount) >= capacity } }

    /// Slots that are in use.
    public var busyCount: Int { free.withLock { capacity - $0.slots } }

    /// Leases that are in use.
    public var leaseCount: Int {
        free.withLock { capacity + (capacity > 0 ? Self.surplus : 0) + $0.lentCount - $0.leases }
    }
}
