import Synchronization

/// Places for deliveries that this node's sender gets as they are made, leased to it, so that it need not
/// claim them. The sender says how many it has; whoever makes deliveries reserves them before the commit.
/// Any thread.
package final class DeliveryPlaces: Sendable {
    private struct Lane {
        /// As the sender said last; nil: it has nothing to do with the lane.
        var room: Int?
        var reservedCount = 0
        /// Whose it is, while something is reserved.
        var tenant = ""
    }
    private struct State {
        var lanes: [LaneID: Lane] = [:]
        var total = 0
        var other = 0
        var reservedCount = 0
        var fullTenants: Set<String> = []
        /// What is reserved, by tenant.
        var tenants: [String: Int] = [:]
        var sender: (@Sendable (HandedDeliveries) -> Void)?
    }
    private let state = Mutex(State())

    /// Nothing can be reserved before the sender's first word.
    package init() {}

    /// Whether anything can be reserved now.
    package var isOpen: Bool { state.withLock { $0.total > $0.reservedCount } }

    /// Of a lane, which is the tenant's. No tenant gets more than it leaves to others. False: the delivery
    /// has to wait until it is claimed.
    package func reserve(_ id: LaneID, of tenant: String) -> Bool {
        state.withLock { state in
            let left = state.total - state.reservedCount
            let ownCount = state.tenants[tenant] ?? 0
            guard left > 0, ownCount <= left, !state.fullTenants.contains(tenant) else { return false }
            var lane = state.lanes[id] ?? Lane()
            guard lane.reservedCount < lane.room ?? state.other else { return false }
            lane.reservedCount += 1
            lane.tenant = tenant
            state.tenants[tenant] = ownCount + 1
            state.reservedCount += 1
            state.lanes[id] = lane
            return true
        }
    }

    /// After the commit: to the sender. It must not block.
    package func hand(_ handed: HandedDeliveries) {
        let sender = state.withLock { $0.sender }
        sender?(handed)
    }

    /// Deliveries for which places were reserved were not made.
    package func release(_ lanes: [LaneID]) {
        state.withLock { Self.release(lanes, &$0) }
    }

    /// To be called before anything is published.
    package func connect(_ sender: @escaping @Sendable (HandedDeliveries) -> Void) {
        state.withLock { $0.sender = sender }
    }

    /// The sender's word: lanes that changed, and in `gone` those that it has forgotten. `arrived`: of
    /// deliveries for which places were reserved, and that count among its own now.
    package func publish(
        _ rooms: DeliveryRooms, gone: [LaneID] = [], arrived: [LaneID] = []
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

    private static func release(_ lanes: [LaneID], _ state: inout State) {
        for id in lanes {
            guard var lane = state.lanes[id], lane.reservedCount > 0 else {
                preconditionFailure("a place was given back twice")
            }
            lane.reservedCount -= 1
            state.reservedCount -= 1
            let ownCount = state.tenants[lane.tenant] ?? 0
            state.tenants[lane.tenant] = ownCount > 1 ? ownCount - 1 : nil
            state.lanes[id] = lane.reservedCount == 0 && lane.room == nil ? nil : lane
        }
    }
}

/// Deliveries that were made for this node's sender: leased to it, committed.
package struct HandedDeliveries: Sendable {
    package var deliveries: [Delivery] = []
    package var leasedUntil: Timestamp
    /// Lanes of which others were made that had no place here.
    package var overflowing: Set<LaneID> = []

    package init(leasedUntil: Timestamp) { self.leasedUntil = leasedUntil }
}
