/// An SQL statement that each connection prepares when it first needs it.
///
/// Parameters and results travel in binary form. Two statements with one name must have one text.
package struct Statement: Sendable {
    /// The name under which it is prepared, and which errors carry.
    package let name: String
    /// One command; several are refused by the extended protocol.
    package let sql: String
    /// The number of `$n` in the text.
    package let parameterCount: Int

    /// Not prepared: planned for each execution's own values, so that filters that are not given vanish. What
    /// follows in the same transaction is planned in the same way.
    package let isPlannedAnew: Bool

    package init(_ name: String, _ sql: String, parameters: Int = 0, isPlannedAnew: Bool = false) {
        self.name = name
        self.sql = sql
        self.parameterCount = parameters
        self.isPlannedAnew = isPlannedAnew
    }
}

/// The names that one connection has prepared; shared by the connection and the pipeline it runs.
final class StatementCache {
    private var names: Set<String> = []

    func contains(_ statement: Statement) -> Bool { names.contains(statement.name) }
    func insert(_ name: String) { names.insert(name) }
    func remove(_ name: String) { names.remove(name) }
}
