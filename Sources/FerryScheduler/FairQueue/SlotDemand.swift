/// Slots for which tenants wait that hold fewer than their share, while no slot is free. The share of a
/// tenant is an equal part of the slots, at least one.
///
/// A value without clock or I/O.
package struct SlotDemand: Sendable, Equatable {
    /// Number of missing slots, at most as many as the node has.
    package let count: Int
    /// The tenants that wait for them.
    package let tenants: Set<String>

    /// `queued`: jobs that could begin now, by tenant. `held`: used slots by tenant, without those that are
    /// lent. `capacity`: slots of the node.
    package init(queued: [String: Int], held: [String: Int], capacity: Int) {
        let share = max(1, capacity / max(1, Set(queued.keys).union(held.keys).count))
        var (count, tenants) = (0, Set<String>())
        for (tenant, jobCount) in queued {
            let missing = min(jobCount, share - held[tenant, default: 0])
            guard missing > 0 else { continue }
            count += missing
            tenants.insert(tenant)
        }
        // Only other tenants lend slots.
        let isLendable = held.keys.contains { !tenants.contains($0) }
        self.count = isLendable ? min(count, capacity) : 0
        self.tenants = isLendable ? tenants : []
    }
}
