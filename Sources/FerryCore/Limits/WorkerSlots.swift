import Synchronization

/// Counts the transfers that this node may still begin, and the jobs that it may still lease. May be used on
/// any thread.
///
/// A slot is held while a transfer runs. A lease is held from before it is written until the result is
/// committed: longer than the slot, so that no slot waits for a commit, and for at most `surplus` jobs more
/// than there are slots. A stalled attempt lends its slot with one more lease, and takes it back when it
/// continues, free or not (docs/decisions/0028 and 0049).
package final class WorkerSlots: Sendable {
    private struct Free {
        var slots: Int
        /// Free leases; negative if a commit of results has failed.
        var leases: Int
        /// Lent slots by the tenant of the attempt.
        var lent: [String: Int] = [:]
        var lentCount = 0
    }
    private let free: Mutex<Free>
    /// Number of slots.
    package let capacity: Int
    /// Number of slots that may be lent at once, by all tenants.
    private let lentMax: Int

    /// Leases beyond the slots, for results that are not committed yet and for prefetched jobs.
    package static let surplus = 64

    /// `lentMax`: number of lent slots that the process has descriptors and memory for.
    package init(capacity: Int, lentMax: Int = .max) {
        self.capacity = capacity
        self.lentMax = capacity > 0 ? lentMax : 0
        free = Mutex(Free(slots: capacity, leases: capacity > 0 ? capacity + Self.surplus : 0))
    }

    /// Reserves up to `count` slots with a lease each; returns how many.
    package func reserve(upTo count: Int) -> Int {
        free.withLock { free in
            let taken = max(0, min(free.slots, free.leases, count))
            free.slots -= taken
            free.leases -= taken
            return taken
        }
    }

    /// Releases slots with their leases.
    package func release(_ count: Int) {
        end(count)
        settle(count)
    }

    /// Reserves up to `count` leases without a slot; returns how many.
    package func reserveLeases(upTo count: Int) -> Int {
        free.withLock { free in
            let taken = max(0, min(free.leases, count))
            free.leases -= taken
            return taken
        }
    }

    /// Takes up to `count` slots for jobs that are leased already; returns how many.
    package func begin(upTo count: Int) -> Int {
        free.withLock { free in
            let taken = max(0, min(free.slots, count))
            free.slots -= taken
            return taken
        }
    }

    /// Releases the slots of ended transfers; their leases stay until `settle`.
    package func end(_ count: Int) {
        free.withLock { free in
            free.slots += count
            // No input reaches this: an attempt ends once.
            precondition(free.slots <= capacity, "a slot was freed twice")
        }
    }

    /// Releases leases whose results are committed, or are about to be.
    package func settle(_ count: Int) { free.withLock { $0.leases += count } }

    /// Takes back a release of leases, after the commit has failed.
    package func unsettle(_ count: Int) { free.withLock { $0.leases -= count } }

    /// Lends the slot of a stalled attempt of the tenant. Returns `false` if the tenant has lent at least as
    /// many slots as may still be lent: so one tenant lends half of all, a second one half of the rest, and a
    /// part is left for every further tenant.
    package func lend(for tenant: String) -> Bool {
        free.withLock { free in
            let count = free.lent[tenant, default: 0]
            guard count < lentMax - free.lentCount else { return false }
            free.lent[tenant] = count + 1
            free.lentCount += 1
            free.slots += 1
            free.leases += 1
            return true
        }
    }

    /// Takes a lent slot back for an attempt that continues. Until others end, more slots may be taken than
    /// there are.
    package func takeBack(for tenant: String) {
        free.withLock { free in
            // No input reaches this: only an attempt that has lent its slot takes one back.
            let count = free.lent[tenant, default: 0]
            precondition(count > 0, "a slot was taken back twice")
            free.lent[tenant] = count > 1 ? count - 1 : nil
            free.lentCount -= 1
            free.slots -= 1
            free.leases -= 1
        }
    }

    /// Slots that are lent.
    package var lentCount: Int { free.withLock { $0.lentCount } }

    /// Transfers that could begin now.
    package var freeCount: Int { free.withLock { max(0, min($0.slots, $0.leases)) } }

    /// `true` if running attempts are at least half as many as slots; attempts that lent their slot count.
    package var isScarce: Bool { free.withLock { 2 * (capacity - $0.slots + $0.lentCount) >= capacity } }

    /// Slots that are in use.
    package var busyCount: Int { free.withLock { capacity - $0.slots } }

    /// Leases that are in use.
    package var leaseCount: Int {
        free.withLock { capacity + (capacity > 0 ? Self.surplus : 0) + $0.lentCount - $0.leases }
    }
}
