import FerryCore
import Logging
import Postgres

extension SessionCache {
    /// Payload of the notification that sessions have changed.
    static let notification = "sessions"
}

extension PostgresError {
    /// `true` for the error of submit_jobs.sql that sessions have changed since they were read.
    var isSessionChange: Bool { sqlState == "FE001" }
}

/// Reads sessions from the database, and keeps those that this node knows current. Any thread.
struct SessionLoader: Sendable {
    let context: StoreContext
    let signals: StoreSignals

    /// Reloads the sessions that have changed.
    func readSessions(_ database: ReconnectingConnection) throws(PostgresError) {
        try database.withConnection { connection throws(PostgresError) in try readSessions(&connection) }
    }

    func readSessions(_ connection: inout Connection) throws(PostgresError) {
        let known = context.sessions.current
        var snapshot = try sessions(after: known, &connection)
        // An epoch that goes back means that the database was restored from an older copy.
        if snapshot.epoch < known.epoch {
            snapshot = try sessions(
                after: SessionSnapshot(connectionsPerHostMax: known.connectionsPerHostMax), &connection)
            context.logger.warning(
                "the epoch of sessions has decreased: the database seems to be an older copy",
                metadata: ["epoch": "\(snapshot.epoch)", "before": "\(known.epoch)"])
            context.cookies.forgetAll()
        }
        if context.sessions.put(snapshot, inPlaceOf: known) {
            signals.attemptRunner?.setSessionRates(snapshot.rates)
            // Jobs may wait for a limit that is higher now.
            signals.lookForJobs()
        }
    }

    /// Returns `known` with the sessions that have changed since.
    private func sessions(
        after known: SessionSnapshot, _ connection: inout Connection
    ) throws(PostgresError) -> SessionSnapshot {
        var results = try connection.pipeline { pipeline in
            pipeline.send(Statements.changedSessions, .int64(known.epoch))
            // Read after the sessions: a later change of a credential is read again with its session.
            pipeline.send(Statements.changedCredentials, .int64(known.epoch))
        }
        let rows = results.take(0)
        let credentials = credentials(results.take(1))
        let (epoch, removal) = (rows.int64(0, 12), rows.int64(0, 13))
        var records = removal > known.epoch ? [:] : known.records
        for row in 0..<rows.rowCount where !rows.isNull(row, 0) {
            let record = session(rows, row, credentials)
            records[record.key] = record
        }
        return SessionSnapshot(
            epoch: epoch, removal: removal, records: records, after: known.epoch < 0 ? nil : known,
            connectionsPerHostMax: known.connectionsPerHostMax)
    }

    /// Reads the rows of changed_credentials.sql.
    private func credentials(_ rows: borrowing ResultSet) -> [SessionKey: [CredentialRecord]] {
        var credentials: [SessionKey: [CredentialRecord]] = [:]
        for row in 0..<rows.rowCount {
            let key = SessionKey(tenant: rows.text(row, 6), name: rows.text(row, 7))
            credentials[key, default: []].append(credential(rows, row, of: key))
        }
        return credentials
    }

    /// Reads the columns of changed_sessions.sql. `credentials`: those of all sessions that are read.
    func session(
        _ rows: borrowing ResultSet, _ row: Int, _ credentials: [SessionKey: [CredentialRecord]] = [:]
    ) -> SessionRecord {
        let key = SessionKey(tenant: rows.text(row, 0), name: rows.text(row, 1))
        var secrets: JobSecrets? = JobSecrets()
        if let sealed = rows.bytesOrNil(row, 7) { secrets = context.configuration.openSecrets(sealed) }
        // Logged below.
        let values = try? SessionConfiguration(
            storedJSON: rows.bytes(row, 6), opening: context.configuration.seal)
        if values == nil || secrets == nil {
            context.logger.error(
                "a session cannot be read and accepts no jobs",
                metadata: ["tenant": "\(key.tenant)", "session": "\(key.name)"])
        }
        return SessionRecord(
            key, revision: rows.int32(row, 2), epoch: rows.int64(row, 3), createdAt: rows.instant(row, 4),
            updatedAt: rows.instant(row, 5), configuration: values ?? context.sessions.current.implicit,
            secrets: secrets ?? JobSecrets(), isReadable: values != nil && secrets != nil,
            invalidation: rows.textOrNil(row, 8).flatMap(SessionInvalidation.init),
            invalidatedAt: rows.instantOrNil(row, 9), endedAt: rows.instantOrNil(row, 10),
            flushedAt: rows.instantOrNil(row, 11), credentials: credentials[key] ?? [])
    }
}
