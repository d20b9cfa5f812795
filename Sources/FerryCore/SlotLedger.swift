import Synchronization

/// How many transfers this node may still begin, and how many jobs it may still lease.
///
/// A slot is held while a transfer runs. A lease is held from before it is written until its result is
/// committed: longer than the slot, so that a slot waits for no commit, by `surplus` leases at most.
package final class SlotLedger: Sendable {
    private struct Free {
        var slots: Int
        /// Below zero while results that were to be committed are not.
        var leases: Int
    }
    private let free: Mutex<Free>
    /// Transfers at once.
    package let capacity: Int

    /// Leases beyond the slots: results that are not committed yet, and what is held for the next slots.
    package static let surplus = 64

    package init(capacity: Int) {
        self.capacity = capacity
        free = Mutex(Free(slots: capacity, leases: capacity > 0 ? capacity + Self.surplus : 0))
    }

    /// Reserves up to `count` slots, each with a lease; returns how many.
    package func reserve(upTo count: Int) -> Int {
        free.withLock { free in
            let taken = max(0, min(free.slots, free.leases, count))
            free.slots -= taken
            free.leases -= taken
            return taken
        }
    }

    /// Gives back slots with their leases.
    package func release(_ count: Int) {
        end(count)
        settle(count)
    }

    /// Reserves up to `count` leases for which there is no slot yet; returns how many.
    package func reserveLeases(upTo count: Int) -> Int {
        free.withLock { free in
            let taken = max(0, min(free.leases, count))
            free.leases -= taken
            return taken
        }
    }

    /// Takes up to `count` slots for what is leased already; returns how many.
    package func begin(upTo count: Int) -> Int {
        free.withLock { free in
            let taken = max(0, min(free.slots, count))
            free.slots -= taken
            return taken
        }
    }

    /// Transfers are over; their results are still to be committed.
    package func end(_ count: Int) {
        free.withLock { free in
            free.slots += count
            precondition(free.slots <= capacity, "a slot was freed twice")
        }
    }

    /// Leases are gone, or are about to be.
    package func settle(_ count: Int) { free.withLock { $0.leases += count } }

    /// Leases that were about to be gone are still there.
    package func unsettle(_ count: Int) { free.withLock { $0.leases -= count } }

    /// Transfers that could begin at once.
    package var freeCount: Int { free.withLock { max(0, min($0.slots, $0.leases)) } }

    /// Slots that are taken.
    package var busyCount: Int { free.withLock { capacity - $0.slots } }

    /// Leases that are taken.
    package var leaseCount: Int { free.withLock { capacity + (capacity > 0 ? Self.surplus : 0) - $0.leases } }
}
