package import Postgres

/// The reason why the schema cannot be used.
package enum MigrationError: Error, Sendable, CustomStringConvertible {
    case database(PostgresError)
    /// The database was migrated by a newer version of this program.
    case schemaTooNew(found: Int, known: Int)

    package var description: String {
        switch self {
        case .database(let error): "\(error)"
        case .schemaTooNew(let found, let known):
            "the database has schema version \(found), and this version of ferry knows only \(known)"
        }
    }
}

/// Applies missing migrations. There is no way back to an older schema.
package enum Migrator {
    struct Migration: Sendable {
        let version: Int
        let name: String
        let sql: [UInt8]
    }

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
        Migration(version: 1, name: "jobs", sql: PackageResources._001_jobs_sql),
        Migration(version: 2, name: "deliveries", sql: PackageResources._002_deliveries_sql),
        Migration(version: 3, name: "access", sql: PackageResources._003_access_sql),
        Migration(version: 4, name: "suspend", sql: PackageResources._004_suspend_sql),
        Migration(version: 5, name: "attempts", sql: PackageResources._005_attempts_sql),
        Migration(version: 6, name: "events", sql: PackageResources._006_events_sql),
        Migration(version: 7, name: "webhooks", sql: PackageResources._007_webhooks_sql),
        Migration(version: 8, name: "sessions", sql: PackageResources._008_sessions_sql),
        Migration(version: 9, name: "hosts", sql: PackageResources._009_hosts_sql),
        Migration(version: 10, name: "host_health", sql: PackageResources._010_host_health_sql),
        Migration(version: 11, name: "hints", sql: PackageResources._011_hints_sql),
        Migration(version: 12, name: "schedules", sql: PackageResources._012_schedules_sql),
        Migration(version: 13, name: "operations", sql: PackageResources._013_operations_sql),
        Migration(version: 14, name: "lots", sql: PackageResources._014_lots_sql),
        Migration(version: 15, name: "history", sql: PackageResources._015_history_sql),
        Migration(version: 16, name: "rejected_events", sql: PackageResources._016_rejected_events_sql),
        Migration(version: 17, name: "acknowledgements", sql: PackageResources._017_acknowledgements_sql),
        Migration(version: 18, name: "away", sql: PackageResources._018_away_sql),
        Migration(
            version: 19, name: "asking_endpoints", sql: PackageResources._019_asking_endpoints_sql),
        Migration(
            version: 20, name: "delivery_senders", sql: PackageResources._020_delivery_senders_sql),
        Migration(version: 21, name: "session_ends", sql: PackageResources._021_session_ends_sql),
        Migration(version: 22, name: "late_jobs", sql: PackageResources._022_late_jobs_sql),
        Migration(version: 23, name: "kept_bytes", sql: PackageResources._023_kept_bytes_sql),
        Migration(version: 24, name: "shown_keys", sql: PackageResources._024_shown_keys_sql),
        Migration(version: 25, name: "turns", sql: PackageResources._025_turns_sql),
        Migration(version: 26, name: "nodes", sql: PackageResources._026_nodes_sql),
        Migration(version: 27, name: "connections", sql: PackageResources._027_connections_sql),
        Migration(version: 28, name: "homes", sql: PackageResources._028_homes_sql),
        Migration(version: 29, name: "request_rates", sql: PackageResources._029_request_rates_sql),
        Migration(version: 30, name: "queued_at", sql: PackageResources._030_queued_at_sql),
        Migration(version: 31, name: "locks", sql: PackageResources._031_locks_sql),
        Migration(version: 32, name: "expiry", sql: PackageResources._032_expiry_sql),
        Migration(version: 33, name: "host_scopes", sql: PackageResources._033_host_scopes_sql),
        Migration(version: 34, name: "key_scope", sql: PackageResources._034_key_scope_sql),
        Migration(version: 35, name: "list_indexes", sql: PackageResources._035_list_indexes_sql),
        Migration(version: 36, name: "sealed_documents", sql: PackageResources._036_sealed_documents_sql),
        Migration(version: 37, name: "claim_flags", sql: PackageResources._037_claim_flags_sql),
        Migration(
            version: 38, name: "connectivity_default", sql: PackageResources._038_connectivity_default_sql),
        Migration(version: 39, name: "lost_attempts", sql: PackageResources._039_lost_attempts_sql),
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
    private static let versions = Statement("schema_versions", "SELECT version FROM schema_migrations")
    private static let lockNotAvailable = "55P03"
    private static var known: Int { migrations.last?.version ?? 0 }

    /// Applies missing migrations in one transaction under an advisory lock. Waits for another process that
    /// does the same, which is success too. Returns the versions that this call applied. Blocks.
    ///
    /// If other transactions hold a lock that a migration needs, `triesAgain` is called. It waits and returns
    /// `true`, or returns `false`: then the error is thrown.
    @discardableResult
    package static func migrate(
        url: String, triesAgain: (PostgresError) -> Bool = { _ in false }
    ) throws(MigrationError) -> [Int] {
        let outcome: (found: Int, new: [Int])
        do throws(PostgresError) {
            var connection = try connect(url, resultTimeout: .seconds(600))
            outcome = try applyMissing(&connection, triesAgain)
        } catch {
            throw .database(error)
        }
        if outcome.found > known { throw .schemaTooNew(found: outcome.found, known: known) }
        return outcome.new
    }

    private static func applyMissing(
        _ connection: inout Connection, _ triesAgain: (PostgresError) -> Bool
    ) throws(PostgresError) -> (found: Int, new: [Int]) {
        while true {
            do throws(PostgresError) {
                return try connection.transaction { connection throws(PostgresError) in
                    try applyOnce(&connection)
                }
            } catch {
                let isHeldUp = error.isRetryable || error.sqlState == lockNotAvailable
                guard isHeldUp, triesAgain(error) else { throw error }
            }
        }
    }

    private static func applyOnce(
        _ connection: inout Connection
    ) throws(PostgresError) -> (found: Int, new: [Int]) {
        try connection.execute(script: lockAndCreate)
        let found = try applied(&connection)
        let missing = migrations.filter { !found.contains($0.version) }
        for migration in missing {
            try connection.execute(script: String(decoding: migration.sql, as: UTF8.self))
            try connection.execute(
                script: """
                    INSERT INTO schema_migrations (version, name)
                    VALUES (\(migration.version), '\(migration.name)')
                    """)
        }
        return (found.max() ?? 0, missing.map(\.version))
    }

    /// Returns how many sessions the server admits for a node now, or `nil` if it does not say. Blocks.
    package static func freeSessionCount(url: String) throws(MigrationError) -> Int64? {
        do throws(PostgresError) {
            var connection = try connect(url)
            let rows = try connection.execute(Statements.freeSessionCount)
            // Plus the session of this query, which ends.
            return rows.rowCount == 0 ? nil : rows.int64OrNil(0, 0).map { $0 + 1 }
        } catch {
            throw .database(error)
        }
    }

    /// Reads the version of the schema without changing anything. Blocks.
    package static func check(url: String) throws(MigrationError) -> Status {
        do throws(PostgresError) {
            var connection = try connect(url)
            guard try connection.execute(exists).bool(0, 0) else {
                return Status(found: 0, known: known, isCurrent: false)
            }
            let found = try applied(&connection)
            return Status(
                found: found.max() ?? 0, known: known, isCurrent: found == Set(migrations.map(\.version)))
        } catch {
            throw .database(error)
        }
    }

    private static func applied(_ connection: inout Connection) throws(PostgresError) -> Set<Int> {
        let rows = try connection.execute(versions)
        return Set((0..<rows.rowCount).map { Int(rows.int32($0, 0)) })
    }

    private static func connect(
        _ url: String, resultTimeout: Duration = .seconds(60)
    ) throws(PostgresError) -> Connection {
        var options = ConnectionOptions()
        options.resultTimeout = resultTimeout
        options.applicationName = "ferry migrate"
        options.statementTimeout = nil
        options.idleInTransactionTimeout = nil
        // Every start calls this. A pooler that shares sessions would cause random failures later.
        try Connection.checkSessions(url: url, options: options)
        return try Connection(url: url, options: options)
    }
}
