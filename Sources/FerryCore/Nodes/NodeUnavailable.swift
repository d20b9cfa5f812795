/// Reason for which a node cannot be asked for data that only that node has.
public struct NodeUnavailable: Error, Sendable, Equatable {
    /// The kind of the reason.
    public enum Reason: Sendable, Equatable {
        /// The node is not in the database, or the database cannot be read.
        case isUnknown
        /// The node has stopped, or was silent for a long time.
        case hasLeft
        /// The node sends no heartbeats: it is dead or has lost the database.
        case isSilent
        /// The node does not say where other nodes reach it.
        case hasNoAddress
        /// There is no response, or only a part of one.
        case doesNotAnswer
        /// The node refuses the signature of this node's request.
        case refuses
        /// Something else than the node answers at its address.
        case isElsewhere
    }

    /// The node that was to be asked.
    public let node: NodeID
    /// The reason.
    public let reason: Reason
    /// Time of its last heartbeat; `nil` if not known.
    public let heartbeatAt: Timestamp?

    /// Creates a failure.
    public init(_ node: NodeID, _ reason: Reason, heartbeatAt: Timestamp?) {
        self.node = node
        self.reason = reason
        self.heartbeatAt = heartbeatAt
    }

    /// Creates a failure of a node with a row.
    public init(_ node: PeerNode, _ reason: Reason) {
        self.init(node.id, reason, heartbeatAt: node.heartbeatAt)
    }

    /// Description of the problem, as sentences. Names no address, because tenants read it.
    public var detail: String {
        let last = heartbeatAt.map { " Its last heartbeat was at \($0)." } ?? ""
        let what =
            switch reason {
            case .isUnknown: "is not known"
            case .hasLeft: "has left the service"
            case .isSilent: "sends no heartbeats"
            case .hasNoAddress: "advertises no address to other nodes: set FERRY_NODE_URL on it"
            case .doesNotAnswer: "does not answer at its address"
            case .refuses: "refuses requests of this node: compare FERRY_SECRET_KEY and the clocks"
            case .isElsewhere: "is not what answers at its FERRY_NODE_URL"
            }
        return "Only the node \(node) has this, and it \(what).\(last)"
    }
}

extension NodeUnavailable: ShownObject {
    public static let summary = "Why the node that runs the job cannot be asked for its progress."
    public static let schemaName = "NodeUnavailable"
    /// Code of the reason, in a job and in a problem document.
    public static let code = "node_unavailable"

    public static func members(_ list: inout some MemberVisitor<Self>) {
        list.member("code", { _ in code }, "Always node_unavailable.")
        list.member("node", \.node, "Identifier of the node.")
        list.member("heartbeat_at", \.heartbeatAt, "Time of the node's last heartbeat, or null if not known.")
        list.member("detail", \.detail, "What is wrong, as sentences.")
    }
}
