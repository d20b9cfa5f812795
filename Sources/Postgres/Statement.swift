/// An SQL statement that each connection prepares at its first use.
///
/// Parameters and results are sent in binary format. Two statements with the same name must have the same
/// text.
public struct Statement: Sendable {
    /// Name of the prepared statement; errors contain it.
    public let name: String
    /// One SQL command. The extended protocol rejects several.
    public let sql: String
    /// Number of parameters (`$n`) in the text.
    public let parameterCount: Int

    /// `true` if the statement is not prepared but planned for the values of each execution, which removes
    /// filters without a value from the plan. Statements after it in the same transaction get such custom
    /// plans as well.
    public let usesCustomPlan: Bool

    /// Creates a statement. `name` must be unique to the text.
    public init(_ name: String, _ sql: String, parameters: Int = 0, usesCustomPlan: Bool = false) {
        self.name = name
        self.sql = sql
        self.parameterCount = parameters
        self.usesCustomPlan = usesCustomPlan
    }
}

/// Names of the statements that a connection has prepared. Shared by the connection and its pipelines.
final class StatementCache {
    /// Text by name.
    private var texts: [String: String] = [:]

    func contains(_ statement: Statement) -> Bool {
        guard let text = texts[statement.name] else { return false }
        // No input reaches this: names and texts are constants.
        assert(text == statement.sql, "two statements are named \(statement.name)")
        return true
    }

    func insert(_ statement: Statement) { texts[statement.name] = statement.sql }
    func remove(_ name: String) { texts[name] = nil }
}
