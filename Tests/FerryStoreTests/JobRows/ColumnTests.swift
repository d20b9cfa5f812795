import FerryCore
import Postgres
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("Columns and effects in SQL", .onOwnThread)
struct ColumnTests {
    private static let all = JobColumn.allCases.map { columnName("\($0)") }
    private static let shared = Array(all.prefix(JobColumn.sharedCount))
    private static let claimed = shared + ClaimColumn.allCases.map { columnName("\($0)") }

    /// Statements that `StoredJob` reads, and the columns that it reads.
    private static let statements: [(statement: Statement, columns: [String])] = [
        (Statements.readJobs, all), (Statements.listJobs, all), (Statements.claimJobs, claimed),
        (Statements.claimLimitedJobs, claimed), (Statements.lockDependents, shared),
        (Statements.cancelSessions, shared), (Statements.expiredJobs, shared + ["has_bytes"]),
        (Statements.dueQuestions, shared + ["question"]),
    ]

    /// Returns a case of an enumeration as SQL writes it: `createdAt` is `created_at`.
    private static func columnName(_ name: String) -> String {
        name.map { $0.isUppercase ? "_\($0.lowercased())" : "\($0)" }.joined()
    }

    @Test("statements have the columns that are read from them, in this order")
    func columns() throws {
        var options = ConnectionOptions()
        options.settings = [
            .init("ferry.shard", "test"), .init("ferry.claim_queues", ""), .init("ferry.permits", ";"),
        ]
        let database = try TestDatabase(template: template)
        var connection = try Connection(url: database.url, options: options)
        for (statement, columns) in Self.statements {
            try connection.execute(script: "PREPARE \(statement.name) AS \(statement.sql)")
            let nulls = Array(repeating: "NULL", count: statement.parameterCount).joined(separator: ", ")
            let arguments = nulls.isEmpty ? "" : "(\(nulls))"
            let rows = try connection.execute(
                Statement("\(statement.name)_columns", "EXECUTE \(statement.name)\(arguments)"))
            let found = columns.indices.map { rows.columnName($0) ?? "" }
            #expect(found == columns, "\(statement.name)")
        }
    }

    private static let effects: [String: JobEffects] = [
        "revises": .revises, "endsAttempt": .endsAttempt, "losesAttempt": .losesAttempt,
        "countsWait": .countsWait, "keepsDueTime": .keepsDueTime, "requestsSuspension": .requestsSuspension,
        "withdrawsSuspension": .withdrawsSuspension, "requestsCancellation": .requestsCancellation,
        "keepsBytes": .keepsBytes, "recordsBegin": .recordsBegin,
    ]

    @Test("change_jobs.sql uses the bits of effects that it names, and names them as the transition table")
    func effectBits() throws {
        let lines = "\(Statements.changeJobs.sql)".split(separator: "\n")
        let comment = lines.filter { $0.hasPrefix("--") }.joined(separator: " ")
        let start = try #require(comment.firstRange(of: "Effects: ")).upperBound
        let named = comment[start...].prefix { $0 != "." }.matches(of: /([0-9]+) (\w+)/)
            .map { (Int32($0.1), String($0.2)) }
        for (bit, name) in named { #expect(Self.effects[name]?.rawValue == bit, "\(name)") }
        let code = lines.filter { !$0.hasPrefix("--") }.joined(separator: "\n")
        let used = Set(code.matches(of: /effects & ([0-9]+)/).compactMap { Int32($0.1) })
        #expect(used == Set(named.compactMap(\.0)))
    }
}
