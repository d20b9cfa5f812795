import Synchronization

/// How many transfers this node may still begin, and how many jobs it may still lease.
///
/// A slot is held while a transfer runs. A lease is held from before it is written until its result is
/// committed: longer than the slot, so that a slot waits for no commit, by `surplus` leases at most. An
/// attempt on which nothing moves lends its slot, with one more lease, and takes it back when it needs it,
/// free or not (docs/decisions/0028).
package final class WorkerSlots: Sendable {
    private struct Free {
        var slots: Int
        /// Below zero while results that were to be committed are not.
        var leases: Int
        /// Slots that are lent, by the origins that say nothing.
        var lent: [String: Int] = [:]
        var lentCount = 0
    }
    private let free: Mutex<Free>
    /// Transfers at once.
    package let capacity: Int
    /// Slots that may be lent at once.
    private let lentMax: Int

    /// Leases beyond the slots: results that are not committed yet, and what is held for the next slots.
    package static let surplus = 64
    /// Slots that may be lent: by attempts of one origin, for each slot that there is, and in all, but at
    /// least as many as there are.
    package static let lentOfOriginMax = 8
    private static let lentPerSlot = 16
    private static let lentCountMax = 1_024

    /// `lentMax`: what the process has room for.
    package init(capacity: Int, lentMax: Int = .max) {
        self.capacity = capacity
        self.lentMax = min(lentMax, max(capacity, min(capacity * Self.lentPerSlot, Self.lentCountMax)))
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

    /// Somebody else may have the slot of an attempt. False: as many are lent as may be.
    package func lend(for origin: String) -> Bool {
        free.withLock { free in
            let count = free.lent[origin, default: 0]
            guard count < Self.lentOfOriginMax, free.lentCount < lentMax else { return false }
            free.lent[origin] = count + 1
            free.lentCount += 1
            free.slots += 1
            free.leases += 1
            return true
        }
    }

    /// An attempt that has lent its slot needs it again. More may be taken than there are until others end.
    package func takeBack(for origin: String) {
        free.withLock { free in
            let count = free.lent[origin, default: 0]
            precondition(count > 0, "a slot was taken back twice")
            free.lent[origin] = count > 1 ? count - 1 : nil
            free.lentCount -= 1
            free.slots -= 1
            free.leases -= 1
        }
    }

    /// Slots that are lent.
    package var lentCount: Int { free.withLock { $0.lentCount } }

    /// Transfers that could begin at once.
    package var freeCount: Int { free.withLock { max(0, min($0.slots, $0.leases)) } }

    /// Whether as many attempts run as half of the slots are for.
    package var isScarce: Bool { free.withLock { 2 * (capacity - $0.slots + $0.lentCount) >= capacity } }

    /// Slots that are taken.
    package var busyCount: Int { free.withLock { capacity - $0.slots } }

    /// Leases that are taken.
    package var leaseCount: Int {
        free.withLock { capacity + (capacity > 0 ? Self.surplus : 0) + $0.lentCount - $0.leases }
    }
}
