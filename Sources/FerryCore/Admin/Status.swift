/// Unfinished work in one snapshot of the database. Exact: a job counts until its terminal state is
/// committed.
public struct StoreStatus: Sendable, Equatable {
    /// Jobs in each state.
    public var waiting: Int64
    public var queued: Int64
    public var running: Int64
    public var suspended: Int64
    /// Deliveries that are not finished.
    public var deliveriesPending: Int64
    /// Seconds that the oldest queued job has waited, or `nil` if none is queued.
    public var oldestQueuedSeconds: Double?
    /// Seconds that the oldest delivery has waited, or `nil` if there is none.
    public var oldestDeliverySeconds: Double?
    /// The nodes of the cluster.
    public var nodes: [NodeStatus]
    /// Duration of the last heartbeat in seconds, or `nil` before the first.
    public var roundTripSeconds: Double?
    /// `true` if an operator has paused Ferry.
    public var isPaused: Bool
    /// `true` if the pause also holds deliveries, schedules and probes of hosts.
    public var isHeld: Bool

    /// Creates a status.
    public init(
        waiting: Int64 = 0, queued: Int64 = 0, running: Int64 = 0, suspended: Int64 = 0,
        deliveriesPending: Int64 = 0, oldestQueuedSeconds: Double? = nil,
        oldestDeliverySeconds: Double? = nil, nodes: [NodeStatus] = [], roundTripSeconds: Double? = nil,
        isPaused: Bool = false, isHeld: Bool = false
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
        self.isHeld = isHeld
    }
}

/// A node as the others see it.
public struct NodeStatus: Sendable, Equatable {
    /// Identifier of the node.
    public let id: NodeID
    /// Its name.
    public let name: String
    /// Its version of Ferry.
    public let version: String
    /// Time of its start.
    public let startedAt: Timestamp
    /// Seconds since its last heartbeat.
    public let heartbeatAgeSeconds: Double
    /// Attempts that run on it.
    public let running: Int32
    /// `true` if it drains.
    public let isDraining: Bool
    /// `true` if it runs transfers.
    public let isWorker: Bool
    /// Address at which other nodes reach it (`FERRY_NODE_URL`); `nil` if it advertises none.
    public let url: String?
    /// `true` if its last heartbeat is older than a lease: other nodes run its jobs.
    public let isDead: Bool

    /// Creates a status.
    public init(
        id: NodeID, name: String, version: String, startedAt: Timestamp, heartbeatAgeSeconds: Double,
        running: Int32, isDraining: Bool, isWorker: Bool, url: String? = nil, isDead: Bool = false
    ) {
        self.isDead = isDead
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
