/// Unfinished work in one snapshot of the database. Exact: a job counts until its terminal state is
/// committed.
package struct StoreStatus: Sendable, Equatable {
    /// Jobs in each state.
    package var waiting: Int64
    package var queued: Int64
    package var running: Int64
    package var suspended: Int64
    /// Deliveries that are not finished.
    package var deliveriesPending: Int64
    /// Seconds that the oldest queued job has waited, or `nil` if none is queued.
    package var oldestQueuedSeconds: Double?
    /// Seconds that the oldest delivery has waited, or `nil` if there is none.
    package var oldestDeliverySeconds: Double?
    /// The nodes of the cluster.
    package var nodes: [NodeStatus]
    /// Duration of the last heartbeat in seconds, or `nil` before the first.
    package var roundTripSeconds: Double?
    /// `true` if an operator has paused Ferry.
    package var isPaused: Bool

    /// Creates a status.
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
    /// Identifier of the node.
    package let id: NodeID
    /// Its name.
    package let name: String
    /// Its version of Ferry.
    package let version: String
    /// Time of its start.
    package let startedAt: Timestamp
    /// Seconds since its last heartbeat.
    package let heartbeatAgeSeconds: Double
    /// Attempts that run on it.
    package let running: Int32
    /// `true` if it drains.
    package let isDraining: Bool
    /// `true` if it runs transfers.
    package let isWorker: Bool
    /// Address at which other nodes reach it (`FERRY_NODE_URL`); `nil` if it advertises none.
    package let url: String?

    /// Creates a status.
    package init(
        id: NodeID, name: String, version: String, startedAt: Timestamp, heartbeatAgeSeconds: Double,
        running: Int32, isDraining: Bool, isWorker: Bool, url: String? = nil
    ) {
        self.id = id
        self.name = name
        self.version = version
        self.startedAt = startedAt
        self.heartbeatAgeSeconds = heartbeatAgeSeconds
        self.running = running
        self.isDraining = isDraining
        self.isWorker = isWorker
        self.url = url
    }
}
