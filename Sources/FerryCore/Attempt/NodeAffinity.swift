/// The only node that can do a job, because it has the file to send.
public struct NodeAffinity: Sendable, Equatable {
    /// Name of the node.
    public let name: String
    /// Last heartbeat of the node as a node that runs transfers.
    public let heartbeatAt: Timestamp
    /// `true` if the node drains.
    public let isDrained: Bool

    /// Creates an affinity.
    public init(name: String, heartbeatAt: Timestamp, isDrained: Bool = false) {
        self.name = name
        self.heartbeatAt = heartbeatAt
        self.isDrained = isDrained
    }

    /// Reads the node in a row of read_jobs.sql; `nil` if the node runs no transfers.
    public init?(json: [UInt8]) {
        // Built by SQL as JSON; anything else counts as no node.
        guard let row = try? JSON.parse(json), row["works"]?.bool == true, let name = row["name"]?.string,
            let heartbeat = row["heartbeat_at"]?.integer
        else { return nil }
        self.init(
            name: name, heartbeatAt: Timestamp(microseconds: heartbeat),
            isDrained: row["drains"]?.bool ?? false)
    }
}
