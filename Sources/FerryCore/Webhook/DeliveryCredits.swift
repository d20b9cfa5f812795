import Synchronization

/// Limits how many new deliveries this node's sender gets leased when they are created, without a claim. The
/// sender publishes its demand; the relay reserves deliveries before the commit. May be used on any thread.
package final class DeliveryCredits: Sendable {
    private struct Lane {
        /// Deliveries that the sender accepts for this receiver, or `nil` if it does not know the receiver.
        var room: Int?
        var reservedCount = 0
    }
    private struct State {
        var lanes: [ReceiverQueueID: Lane] = [:]
        /// Accepted weight of all receivers together (`Delivery.weight`).
        var total = 0
        var other = 0
        var reservedWeight = 0
        var fullTenants: Set<String> = []
        /// Part of `reservedWeight` by tenant.
        var tenants: [String: Int] = [:]
        var sender: (@Sendable (LeasedDeliveries) -> Void)?
    }
    private let state = Mutex(State())

    /// Creates credits of 0 until the sender publishes its demand.
    package init() {}

    /// `true` if a delivery can be reserved now.
    package var isOpen: Bool { state.withLock { $0.total > $0.reservedWeight } }

    /// Reserves a delivery: one of its receiver, and its weight of the total. No tenant gets more than it
    /// leaves for others. Returns `false` if the delivery must wait for a claim.
    package func reserve(_ delivery: Delivery) -> Bool {
        state.withLock { state in
            let left = state.total - state.reservedWeight
            let (tenant, weight) = (delivery.tenant, delivery.weight)
            let ownWeight = state.tenants[tenant] ?? 0
            guard weight <= left, ownWeight <= left, !state.fullTenants.contains(tenant) else {
                return false
            }
            var lane = state.lanes[delivery.lane] ?? Lane()
            guard lane.reservedCount < lane.room ?? state.other else { return false }
            lane.reservedCount += 1
            state.tenants[tenant] = ownWeight + weight
            state.reservedWeight += weight
            state.lanes[delivery.lane] = lane
            return true
        }
    }

    /// Passes committed deliveries to the sender, which must not block.
    package func hand(_ handed: LeasedDeliveries) {
        let sender = state.withLock { $0.sender }
        sender?(handed)
    }

    /// Releases the reservations of deliveries that were not created.
    package func release(_ deliveries: [Delivery]) {
        state.withLock { Self.release(deliveries, &$0) }
    }

    /// Sets the sender; call it before `publish`.
    package func connect(_ sender: @escaping @Sendable (LeasedDeliveries) -> Void) {
        state.withLock { $0.sender = sender }
    }

    /// Updates the demand of the sender: of receivers that changed, and, in `gone`, of those that it no
    /// longer knows. `arrived`: reserved deliveries that the sender counts itself from now on.
    package func publish(
        _ rooms: DeliveryDemand, gone: [ReceiverQueueID] = [], arrived: [Delivery] = []
    ) {
        state.withLock { state in
            state.total = rooms.total
            state.other = rooms.other
            state.fullTenants = rooms.fullTenants
            for (id, room) in rooms.lanes { state.lanes[id, default: Lane()].room = room }
            for id in gone { state.lanes[id]?.room = nil }
            Self.release(arrived, &state)
            for id in gone where state.lanes[id]?.reservedCount == 0 { state.lanes[id] = nil }
        }
    }

    private static func release(_ deliveries: [Delivery], _ state: inout State) {
        for delivery in deliveries {
            let (id, tenant, weight) = (delivery.lane, delivery.tenant, delivery.weight)
            guard var lane = state.lanes[id], lane.reservedCount > 0 else {
                preconditionFailure("a place was given back twice")
            }
            lane.reservedCount -= 1
            state.reservedWeight -= weight
            let ownWeight = state.tenants[tenant] ?? 0
            state.tenants[tenant] = ownWeight > weight ? ownWeight - weight : nil
            state.lanes[id] = lane.reservedCount == 0 && lane.room == nil ? nil : lane
        }
    }
}

/// Committed deliveries that were created leased to this node's sender.
package struct LeasedDeliveries: Sendable {
    /// The deliveries.
    package var deliveries: [Delivery] = []
    /// End of their lease.
    package var leasedUntil: Timestamp
    /// Receivers with further new deliveries that were not reserved.
    package var overflowing: Set<ReceiverQueueID> = []

    /// Creates an empty set.
    package init(leasedUntil: Timestamp) { self.leasedUntil = leasedUntil }
}
