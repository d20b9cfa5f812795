/// Unfinished work, in one snapshot of the database. Exact: a job counts until its terminal state has
/// committed.
package struct StoreStatus: Sendable, Equatable {
    package var waiting: Int64
    package var queued: Int64
    package var running: Int64
    package var suspended: Int64
    package var deliveriesPending: Int64
    /// Seconds, as everywhere here; nil when nothing is queued.
    package var oldestQueuedSeconds: Double?
    package var oldestDeliverySeconds: Double?
    package var nodes: [NodeStatus]
    /// Of the last heartbeat.
    package var roundTripSeconds: Double?
    /// Whether operators have paused the service.
    package var isPaused: Bool

    package init(
        waiting: Int64 = 0, queued: Int64 = 0, running: Int64 = 0, suspended: Int64 = 0,
        deliveriesPending: Int64 = 0, oldestQueuedSeconds: Double? = nil,
        oldestDeliverySeconds: Double? = nil, nodes: [NodeStatus] = [], roundTripSeconds: Double? = nil,
        isPaused: Bool = false
    ) {
        self.waiting = waiting
        self.queued = queued
        self.running = running
        self.suspended = suspended
        self.deliveriesPending = deliveriesPending
        self.oldestQueuedSeconds = oldestQueuedSeconds
        self.oldestDeliverySeconds = oldestDeliverySeconds
        self.nodes = nodes
        self.roundTripSeconds = roundTripSeconds
        self.isPaused = isPaused
    }
}

/// A node as the others see it.
package struct NodeStatus: Sendable, Equatable {
    package let id: NodeID
    package let name: String
    package let version: String
    package let startedAt: Timestamp
    package let heartbeatAgeSeconds: Double
    package let running: Int32
    package let isDraining: Bool
    /// Whether it transfers at all.
    package let isWorker: Bool

    package init(
        id: NodeID, name: String, version: String, startedAt: Timestamp, heartbeatAgeSeconds: Double,
        running: Int32, isDraining: Bool, isWorker: Bool
    ) {
        self.id = id
        self.name = name
        self.version = version
        self.startedAt = startedAt
        self.heartbeatAgeSeconds = heartbeatAgeSeconds
        self.running = running
        self.isDraining = isDraining
        self.isWorker = isWorker
    }
}
