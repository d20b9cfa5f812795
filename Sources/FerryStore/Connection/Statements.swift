import Postgres

/// All SQL statements. An extension in each folder declares a constant for each file of its `SQL/` folder.
/// `StatementTests` prepares each statement and compares the number of its parameters.
package enum Statements {
    static func make(
        _ name: String, _ sql: [UInt8], parameters: Int = 0, usesCustomPlan: Bool = false
    ) -> Statement {
        Statement(
            name, .init(decoding: sql, as: UTF8.self), parameters: parameters, usesCustomPlan: usesCustomPlan)
    }
}
