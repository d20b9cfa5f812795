import Synchronization

/// Places for deliveries that this node's sender gets as they are made, leased to it, so that it need not
/// claim them. The sender says how many it has; whoever makes deliveries reserves them before the commit.
/// Any thread.
package final class DeliveryCredits: Sendable {
    private struct Lane {
        /// As the sender said last, in deliveries; nil: it has nothing to do with the lane.
        var room: Int?
        var reservedCount = 0
    }
    private struct State {
        var lanes: [ReceiverQueueID: Lane] = [:]
        /// Of all lanes together, in `Delivery.weight`.
        var total = 0
        var other = 0
        var reservedWeight = 0
        var fullTenants: Set<String> = []
        /// Of `reservedWeight`.
        var tenants: [String: Int] = [:]
        var sender: (@Sendable (LeasedDeliveries) -> Void)?
    }
    private let state = Mutex(State())

    /// Nothing can be reserved before the sender's first word.
    package init() {}

    /// Whether anything can be reserved now.
    package var isOpen: Bool { state.withLock { $0.total > $0.reservedWeight } }

    /// One of its lane, and its weight of all. No tenant gets more than it leaves to others. False: the
    /// delivery has to wait until it is claimed.
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

    /// After the commit: to the sender. It must not block.
    package func hand(_ handed: LeasedDeliveries) {
        let sender = state.withLock { $0.sender }
        sender?(handed)
    }

    /// Deliveries for which places were reserved were not made.
    package func release(_ deliveries: [Delivery]) {
        state.withLock { Self.release(deliveries, &$0) }
    }

    /// To be called before anything is published.
    package func connect(_ sender: @escaping @Sendable (LeasedDeliveries) -> Void) {
        state.withLock { $0.sender = sender }
    }

    /// The sender's word: lanes that changed, and in `gone` those that it has forgotten. `arrived`: of
    /// deliveries for which places were reserved, and that count among its own now.
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

/// Deliveries that were made for this node's sender: leased to it, committed.
package struct LeasedDeliveries: Sendable {
    package var deliveries: [Delivery] = []
    package var leasedUntil: Timestamp
    /// Lanes of which others were made that had no place here.
    package var overflowing: Set<ReceiverQueueID> = []

    package init(leasedUntil: Timestamp) { self.leasedUntil = leasedUntil }
}
