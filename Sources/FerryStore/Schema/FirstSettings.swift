package import Postgres

/// Reads and writes settings that the first start of a database fixes. Has a connection of its own, before
/// the `Store` exists.
package struct FirstSettings: ~Copyable {
    private var connection: Connection

    /// Connects. The schema must be current. Blocks.
    package init(url: String) throws(PostgresError) {
        var options = ConnectionOptions()
        options.applicationName = "ferry start"
        connection = try Connection(url: url, options: options)
    }

    /// Stores a setting unless it exists, and returns the stored value. Blocks.
    package mutating func keep(_ name: String, _ value: [UInt8]) throws(PostgresError) -> [UInt8] {
        while true {
            if let kept = try Settings.put(name, value, &connection) { return kept }
        }
    }
}
