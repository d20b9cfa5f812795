package import Postgres

/// What a database keeps from its first start on, as a start finds it: before it knows this node, and on a
/// connection of its own.
package struct FirstSettings: ~Copyable {
    private var connection: Connection

    /// The schema must be current. Blocks.
    package init(url: String) throws(PostgresError) {
        var options = ConnectionOptions()
        options.applicationName = "ferry start"
        connection = try Connection(url: url, options: options)
    }

    /// Keeps a setting unless there is one, and returns the one that counts.
    package mutating func keep(_ name: String, _ value: [UInt8]) throws(PostgresError) -> [UInt8] {
        while true {
            if let kept = try ControlLane.putSetting(name, value, &connection) { return kept }
        }
    }
}
