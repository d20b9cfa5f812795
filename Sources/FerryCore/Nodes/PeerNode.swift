/// Another node, as its row in the database describes it.
public struct PeerNode: Sendable, Equatable {
    /// Identifier of the node.
    public let id: NodeID
    /// Address at which other nodes reach it (`FERRY_NODE_URL`), without a slash at the end; `nil` if it
    /// advertises none.
    public let url: String?
    /// Time of its last heartbeat, by the database's clock.
    public let heartbeatAt: Timestamp
    /// `true` if it runs transfers.
    public let isWorker: Bool
    /// `true` if it has stopped, or was silent for so long that it no longer counts as a node.
    public let hasLeft: Bool

    /// Creates a node.
    public init(id: NodeID, url: String?, heartbeatAt: Timestamp, isWorker: Bool, hasLeft: Bool = false) {
        self.id = id
        self.url = url
        self.heartbeatAt = heartbeatAt
        self.isWorker = isWorker
        self.hasLeft = hasLeft
    }
}
