package import Postgres

/// A rule of check_rows.sql that rows break.
package struct BrokenRule: Sendable, Equatable {
    /// Condition that holds for rows that keep to the rule.
    package let rule: String
    package let rowCount: Int64
    /// One of the rows: its identifier, or what was counted and found.
    package let example: String
}

/// Checks the stored rows against the rules that the types of this program guarantee and no constraint does.
package enum RowCheck {
    /// Time for which the check may read.
    private static let timeout = Duration.seconds(86_400)

    /// Returns the rules that rows of the database break. The schema must be current. Reads all jobs,
    /// deliveries and events in one snapshot; changes nothing. Blocks.
    package static func brokenRules(url: String) throws(PostgresError) -> [BrokenRule] {
        var options = ConnectionOptions()
        options.applicationName = "ferry check"
        options.statementTimeout = nil
        options.resultTimeout = timeout
        options.settings = [.init("default_transaction_read_only", "on")]
        var connection = try Connection(url: url, options: options)
        return try brokenRules(&connection)
    }

    static func brokenRules(_ connection: inout Connection) throws(PostgresError) -> [BrokenRule] {
        let rows = try connection.execute(Statements.checkRows)
        return (0..<rows.rowCount).map { row in
            BrokenRule(rule: rows.text(row, 0), rowCount: rows.int64(row, 1), example: rows.text(row, 2))
        }
    }
}
