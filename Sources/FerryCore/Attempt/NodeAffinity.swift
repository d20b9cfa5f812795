/// The only node that can do a job: it has the file that is to be sent.
package struct NodeAffinity: Sendable, Equatable {
    package let name: String
    /// It transfers, and has said lastly then that it is alive.
    package let heartbeatAt: Timestamp
    package let isDrained: Bool

    package init(name: String, heartbeatAt: Timestamp, isDrained: Bool = false) {
        self.name = name
        self.heartbeatAt = heartbeatAt
        self.isDrained = isDrained
    }

    /// Reads what read_jobs.sql says of a node; nil: it does not transfer.
    package init?(json: [UInt8]) {
        guard let row = try? JSON.parse(json), row["works"]?.bool == true, let name = row["name"]?.string,
            let heartbeat = row["heartbeat_at"]?.integer
        else { return nil }
        self.init(
            name: name, heartbeatAt: Timestamp(microseconds: heartbeat),
            isDrained: row["drains"]?.bool ?? false)
    }
}
