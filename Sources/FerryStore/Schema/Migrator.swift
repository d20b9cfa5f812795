package import Postgres

/// The reason why the schema cannot be used.
package enum MigrationError: Error, Sendable, CustomStringConvertible {
    case database(PostgresError)
    /// The database was migrated by a newer version of this program.
    case schemaTooNew(found: Int, known: Int)
    /// The database has a migration that no release of this program has: an unreleased build created it.
    case unreleasedSchema(version: Int, name: String)

    package var description: String {
        switch self {
        case .database(let error): "\(error)"
        case .schemaTooNew(let found, let known):
            "the database has schema version \(found), and this version of ferry knows only \(known)"
        case .unreleasedSchema(let version, let name):
            """
            an unreleased build of ferry created the database (its migration \(version) is "\(name)"), and \
            this version cannot migrate it; nothing was changed. Name a new, empty database in \
            FERRY_DATABASE_URL; for the private PostgreSQL, name a new directory in FERRY_DATA_DIR
            """
        }
    }
}

/// Applies missing migrations. There is no way back to an older schema. What a migration may change is in
/// docs/decisions/0039-one-baseline.md.
package enum Migrator {
    struct Migration: Sendable {
        let version: Int
        let name: String
        let sql: [UInt8]
    }

    /// A row of `schema_migrations`.
    private typealias Applied = (version: Int, name: String)

    /// The versions of the schema and of this program.
    package struct Status: Sendable, Equatable {
        /// Newest migration in the database; 0 if there is none.
        package let found: Int
        /// Newest migration of this program.
        package let known: Int
        /// `true` if exactly the migrations of this program are applied.
        package let isCurrent: Bool
    }

    /// One entry for each file of `migrations/`, in the order of their numbers.
    static let migrations = [
        Migration(version: 1, name: "baseline", sql: PackageResources._001_baseline_sql)
    ]

    // Another process that migrates may take any time. If a transaction reads a table for long (a dump, a
    // report), the migration gives up its wait after 2 s: every other use of the table queues behind it.
    private static let lockAndCreate = """
        SELECT pg_advisory_xact_lock(7378697629483820646);
        SET LOCAL lock_timeout = '2s';
        CREATE TABLE IF NOT EXISTS schema_migrations (
            version integer NOT NULL, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now(),
            CONSTRAINT schema_migrations_pkey PRIMARY KEY (version));
        """
    private static let exists = Statement(
        "schema_exists", "SELECT to_regclass('schema_migrations') IS NOT NULL")
    private static let versions = Statement(
        "schema_versions", "SELECT version, name FROM schema_migrations ORDER BY version")
    private static let lockNotAvailable = "55P03"

    /// Applies missing migrations in one transaction under an advisory lock. Waits for another process that
    /// does the same, which is success too. Returns the versions that this call applied. Changes nothing in a
    /// database that another version of this program has to migrate. Blocks.
    ///
    /// If other transactions hold a lock that a migration needs, `triesAgain` is called. It waits and returns
    /// `true`, or returns `false`: then the error is thrown.
    @discardableResult
    package static func migrate(
        url: String, triesAgain: (PostgresError) -> Bool = { _ in false }
    ) throws(MigrationError) -> [Int] {
        try migrate(url: url, to: migrations, triesAgain: triesAgain)
    }

    /// Like `migrate(url:triesAgain:)`, with other migrations than those of this program.
    static func migrate(
        url: String, to migrations: [Migration], triesAgain: (PostgresError) -> Bool = { _ in false }
    ) throws(MigrationError) -> [Int] {
        let outcome: Result<[Int], MigrationError>
        do throws(PostgresError) {
            var connection = try connect(url, resultTimeout: .seconds(600))
            outcome = try applyMissing(migrations, &connection, triesAgain)
        } catch {
            throw .database(error)
        }
        return try outcome.get()
    }

    private static func applyMissing(
        _ migrations: [Migration], _ connection: inout Connection, _ triesAgain: (PostgresError) -> Bool
    ) throws(PostgresError) -> Result<[Int], MigrationError> {
        while true {
            do throws(PostgresError) {
                return try connection.transaction { connection throws(PostgresError) in
                    try applyOnce(migrations, &connection)
                }
            } catch {
                let isHeldUp = error.isRetryable || error.sqlState == lockNotAvailable
                guard isHeldUp, triesAgain(error) else { throw error }
            }
        }
    }

    private static func applyOnce(
        _ migrations: [Migration], _ connection: inout Connection
    ) throws(PostgresError) -> Result<[Int], MigrationError> {
        try connection.execute(script: lockAndCreate)
        let found = try applied(&connection)
        if let refusal = refusal(of: found, migrations) { return .failure(refusal) }
        let missing = migrations.filter { migration in !found.contains { $0.version == migration.version } }
        for migration in missing {
            try connection.execute(script: String(decoding: migration.sql, as: UTF8.self))
            try connection.execute(
                script: """
                    INSERT INTO schema_migrations (version, name)
                    VALUES (\(migration.version), '\(migration.name)')
                    """)
        }
        return .success(missing.map(\.version))
    }

    /// Returns why a database with the migrations `found` is not for `migrations`, or `nil`.
    private static func refusal(of found: [Applied], _ migrations: [Migration]) -> MigrationError? {
        let names = Dictionary(uniqueKeysWithValues: migrations.map { ($0.version, $0.name) })
        let known = migrations.last?.version ?? 0
        if let other = found.first(where: { $0.version <= known && $0.name != names[$0.version] }) {
            return .unreleasedSchema(version: other.version, name: other.name)
        }
        guard let last = found.last, last.version > known else { return nil }
        return .schemaTooNew(found: last.version, known: known)
    }

    /// Returns how many sessions the server admits for a node now, or `nil` if it does not say. Blocks.
    package static func freeSessionCount(url: String) throws(MigrationError) -> Int64? {
        do throws(PostgresError) {
            // No other session before this one: the server counts a closed session for a moment.
            var connection = try Connection(url: url, options: connectionOptions())
            let rows = try connection.execute(Statements.freeSessionCount)
            // Plus the session of this query, which ends.
            return rows.rowCount == 0 ? nil : rows.int64OrNil(0, 0).map { $0 + 1 }
        } catch {
            throw .database(error)
        }
    }

    /// Reads the version of the schema without changing anything. Throws if `migrate` would refuse the
    /// database. Blocks.
    package static func check(url: String) throws(MigrationError) -> Status {
        let found: [Applied]
        do throws(PostgresError) {
            var connection = try connect(url)
            found = try connection.execute(exists).bool(0, 0) ? applied(&connection) : []
        } catch {
            throw .database(error)
        }
        if let refusal = refusal(of: found, migrations) { throw refusal }
        return Status(
            found: found.last?.version ?? 0, known: migrations.last?.version ?? 0,
            isCurrent: found.count == migrations.count)
    }

    /// Returns the migrations of the database, the oldest first.
    private static func applied(_ connection: inout Connection) throws(PostgresError) -> [Applied] {
        let rows = try connection.execute(versions)
        return (0..<rows.rowCount).map { (version: Int(rows.int32($0, 0)), name: rows.text($0, 1)) }
    }

    private static func connect(
        _ url: String, resultTimeout: Duration = .seconds(60)
    ) throws(PostgresError) -> Connection {
        let options = connectionOptions(resultTimeout: resultTimeout)
        // Every start calls this. A pooler that shares sessions would cause random failures later.
        try Connection.checkSessions(url: url, options: options)
        return try Connection(url: url, options: options)
    }

    private static func connectionOptions(resultTimeout: Duration = .seconds(60)) -> ConnectionOptions {
        var options = ConnectionOptions()
        options.resultTimeout = resultTimeout
        options.applicationName = "ferry migrate"
        options.statementTimeout = nil
        options.idleInTransactionTimeout = nil
        return options
    }
}
