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

/// What one connection has prepared; shared by the connection and the pipeline it runs.
final class StatementCache {
    /// By their names.
    private var texts: [String: String] = [:]

    func contains(_ statement: Statement) -> Bool {
        guard let text = texts[statement.name] else { return false }
        assert(text == statement.sql, "two statements are named \(statement.name)")
        return true
    }

    func insert(_ statement: Statement) { texts[statement.name] = statement.sql }
    func remove(_ name: String) { texts[name] = nil }
}
