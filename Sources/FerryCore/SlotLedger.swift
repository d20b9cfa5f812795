import Synchronization

/// How many transfers this node may still begin. Reserved before a lease is written, freed after the result
/// is committed.
package final class SlotLedger: Sendable {
    private let free: Mutex<Int>
    package let capacity: Int

    package init(capacity: Int) {
        self.capacity = capacity
        free = Mutex(capacity)
    }

    /// Reserves up to `count` slots; returns how many.
    package func reserve(upTo count: Int) -> Int {
        free.withLock { free in
            let taken = max(0, min(free, count))
            free -= taken
            return taken
        }
    }

    package func release(_ count: Int) {
        free.withLock { free in
            free += count
            precondition(free <= capacity, "a slot was freed twice")
        }
    }

    package var freeCount: Int { free.withLock { $0 } }
}
