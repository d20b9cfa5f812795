import Synchronization

/// Limits how many new deliveries this node's sender gets leased when they are created, without a claim. The
/// sender publishes its demand; the relay reserves deliveries before the commit. May be used on any thread.
public final class DeliveryCredits: Sendable {
    private struct Receiver {
        /// Deliveries that the sender accepts for this receiver, or `nil` if it does not know the receiver.
        var demand: Int?
        var reservedCount = 0
        /// End of the pause while the sender's circuit breaker is open, else `nil`.
        var pausedUntil: Timestamp?
    }
    private struct State {
        var receivers: [ReceiverQueueID: Receiver] = [:]
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
    public init() {}

    /// `true` if a delivery can be reserved now.
    public var isOpen: Bool { state.withLock { $0.total > $0.reservedWeight } }

    /// Reserves a delivery: one of its receiver, and its weight of the total. No tenant gets more than it
    /// leaves for others. Returns `false` if the delivery must wait for a claim.
    public func reserve(_ delivery: Delivery) -> Bool {
        state.withLock { state in
            let left = state.total - state.reservedWeight
            let (tenant, weight) = (delivery.tenant, delivery.weight)
            let ownWeight = state.tenants[tenant] ?? 0
            guard weight <= left, ownWeight <= left, !state.fullTenants.contains(tenant) else {
                return false
            }
            var receiver = state.receivers[delivery.receiverQueue] ?? Receiver()
            guard receiver.reservedCount < receiver.demand ?? state.other else { return false }
            receiver.reservedCount += 1
            state.tenants[tenant] = ownWeight + weight
            state.reservedWeight += weight
            state.receivers[delivery.receiverQueue] = receiver
            return true
        }
    }

    /// Returns when the sender tries the receiver again, if its circuit breaker is open; `nil` if it is
    /// closed, or the sender does not know the receiver.
    public func pausedUntil(_ receiver: ReceiverQueueID) -> Timestamp? {
        state.withLock { $0.receivers[receiver]?.pausedUntil }
    }

    /// Passes committed deliveries to the sender, which must not block.
    public func hand(_ handed: LeasedDeliveries) {
        let sender = state.withLock { $0.sender }
        sender?(handed)
    }

    /// Releases the reservations of deliveries that were not created.
    public func release(_ deliveries: [Delivery]) {
        state.withLock { Self.release(deliveries, &$0) }
    }

    /// Sets the sender; call it before `publish`.
    public func connect(_ sender: @escaping @Sendable (LeasedDeliveries) -> Void) {
        state.withLock { $0.sender = sender }
    }

    /// Updates the demand of the sender: of receivers that changed, and, in `gone`, of those that it no
    /// longer knows. `arrived`: reserved deliveries that the sender counts itself from now on.
    public func publish(
        _ demand: DeliveryDemand, gone: [ReceiverQueueID] = [], arrived: [Delivery] = []
    ) {
        state.withLock { state in
            state.total = demand.total
            state.other = demand.other
            state.fullTenants = demand.fullTenants
            for (id, count) in demand.queues {
                state.receivers[id, default: Receiver()].demand = count
                state.receivers[id]?.pausedUntil = demand.pauses[id]
            }
            for id in gone {
                state.receivers[id]?.demand = nil
                state.receivers[id]?.pausedUntil = nil
            }
            Self.release(arrived, &state)
            for id in gone where state.receivers[id]?.reservedCount == 0 { state.receivers[id] = nil }
        }
    }

    private static func release(_ deliveries: [Delivery], _ state: inout State) {
        for delivery in deliveries {
            let (id, tenant, weight) = (delivery.receiverQueue, delivery.tenant, delivery.weight)
            // No input reaches this: each reservation is in one value, which is released once.
            guard var receiver = state.receivers[id], receiver.reservedCount > 0 else {
                preconditionFailure("a reservation was released twice")
            }
            receiver.reservedCount -= 1
            state.reservedWeight -= weight
            let ownWeight = state.tenants[tenant] ?? 0
            state.tenants[tenant] = ownWeight > weight ? ownWeight - weight : nil
            state.receivers[id] = receiver.reservedCount == 0 && receiver.demand == nil ? nil : receiver
        }
    }
}

/// Committed deliveries that were created leased to this node's sender.
public struct LeasedDeliveries: Sendable {
    /// The deliveries.
    public var deliveries: [Delivery] = []
    /// End of their lease.
    public var leasedUntil: Timestamp
    /// Receivers with further new deliveries that were not reserved.
    public var unreserved: Set<ReceiverQueueID> = []

    /// Creates an empty set.
    public init(leasedUntil: Timestamp) { self.leasedUntil = leasedUntil }
}
