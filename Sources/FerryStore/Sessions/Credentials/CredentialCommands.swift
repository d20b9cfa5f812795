package import FerryCore
import Logging
import Postgres

/// Reads and changes credentials of sessions. Any thread.
package final class CredentialCommands: Sendable {
    private let commands: CommandQueue
    private let reads: ReadPool
    private let sessionLoader: SessionLoader

    init(_ commands: CommandQueue, _ reads: ReadPool, _ sessionLoader: SessionLoader) {
        self.commands = commands
        self.reads = reads
        self.sessionLoader = sessionLoader
    }

    /// Reads credentials of a session by name. Fails with `notFound` if the session was never configured or
    /// used.
    package func credentials(
        of session: SessionKey, after name: String?, limit: Int, reply: @escaping Reply<[CredentialRecord]>
    ) {
        let sessionLoader = sessionLoader
        reads.read("list_credentials", of: .tenant(session.tenant), reply) {
            connection throws(PostgresError) in
            let found = try SessionCommands.record(of: session, &connection, sessionLoader)
            guard found.record != nil || found.isKnown else { return .failure(.notFound) }
            var parameters = Parameters(session)
            parameters.append(text: name ?? "")
            parameters.append(int32: Int32(clamping: limit))
            let rows = try connection.execute(Statements.listCredentials, parameters)
            guard found.record != nil else { return .success([]) }
            return .success((0..<rows.rowCount).map { sessionLoader.credential(rows, $0, of: session) })
        }
    }

    /// Reads a credential.
    package func credential(
        _ name: String, of session: SessionKey, reply: @escaping Reply<CredentialRecord>
    ) {
        let sessionLoader = sessionLoader
        reads.read("read_credential", of: .tenant(session.tenant), reply) {
            connection throws(PostgresError) in
            let isConfigured =
                try SessionCommands.record(of: session, &connection, sessionLoader).record != nil
            let found = try Self.record(name, session, &connection, sessionLoader)
            return if isConfigured, let found { .success(found) } else { .failure(.notFound) }
        }
    }

    /// Creates or replaces a credential. Every node knows it before it accepts the next job.
    package func putCredential(
        _ name: String, of session: SessionKey, _ draft: CredentialDraft, if condition: SessionCondition,
        reply: @escaping Reply<CredentialPut>
    ) {
        let sessionLoader = sessionLoader
        commands.perform("put_credential", reply) { connection throws(PostgresError) in
            // An iteration fails only if another transaction has changed the credential or its session
            // meanwhile.
            for _ in 0..<10 {
                let owner = try SessionCommands.record(of: session, &connection, sessionLoader)
                guard let configured = owner.record else {
                    return .failure(owner.isKnown ? .sessionNotConfigured : .notFound)
                }
                guard configured.invalidation == nil else { return .failure(.sessionInvalidated) }
                let found = try Self.record(name, session, &connection, sessionLoader)
                if let error = condition.refusal(of: found) { return .failure(error) }
                if let found, found.isIdentical(to: draft) { return .success(.stored(found)) }
                if found == nil, try Self.hasTooMany(session, &connection) {
                    return .failure(.tooManyCredentials)
                }
                var parameters = Parameters(session)
                parameters.append(text: name)
                parameters.append(int32: found?.revision ?? 0)
                parameters.append(bool: draft.credential.persistence == .permanent)
                parameters.append(text: draft.credential.encodedStored)
                parameters.append(bytea: draft.sealedSecrets)
                parameters.append(sessionLoader.context.clock.now())
                var results = try connection.pipeline { pipeline in
                    pipeline.send(Statements.lockSessionEpoch)
                    pipeline.send(Statements.putCredential, parameters)
                    pipeline.send(Statements.notify, .sessionsNotification)
                }
                let rows = results.take(1)
                guard rows.rowCount == 1 else { continue }
                let record = sessionLoader.credential(rows, 0, of: session)
                try sessionLoader.readSessions(&connection)
                return .success(found == nil ? .created(record) : .stored(record))
            }
            return .failure(.unavailable)
        }
    }

    /// Removes a credential. No job that is submitted after the reply uses it.
    package func deleteCredential(
        _ name: String, of session: SessionKey, if condition: SessionCondition, reply: @escaping Reply<Void>
    ) {
        let sessionLoader = sessionLoader
        commands.perform("delete_credential", reply) { connection throws(PostgresError) in
            for _ in 0..<10 {
                let isConfigured =
                    try SessionCommands.record(of: session, &connection, sessionLoader).record != nil
                guard isConfigured, let found = try Self.record(name, session, &connection, sessionLoader)
                else { return .failure(.notFound) }
                if let error = condition.refusal(of: found) { return .failure(error) }
                var parameters = Parameters(session)
                parameters.append(text: name)
                parameters.append(int32: found.revision)
                guard
                    try Self.remove(Statements.deleteCredential, parameters, &connection, sessionLoader) == 1
                else { continue }
                return .success(())
            }
            return .failure(.unavailable)
        }
    }

    /// Removes all credentials of a session, and reloads this node's sessions. Returns their number.
    static func removeAll(
        of session: SessionKey, _ connection: inout Connection, _ sessionLoader: SessionLoader
    ) throws(PostgresError) -> Int {
        try remove(Statements.removeCredentials, Parameters(session), &connection, sessionLoader)
    }

    // MARK: On the connection

    private static func remove(
        _ statement: Statement, _ parameters: Parameters, _ connection: inout Connection,
        _ sessionLoader: SessionLoader
    ) throws(PostgresError) -> Int {
        var results = try connection.pipeline { pipeline in
            pipeline.send(Statements.lockSessionEpoch)
            pipeline.send(statement, parameters)
            pipeline.send(Statements.notify, .sessionsNotification)
        }
        let count = results.take(1).rowCount
        if count > 0 { try sessionLoader.readSessions(&connection) }
        return count
    }

    private static func record(
        _ name: String, _ session: SessionKey, _ connection: inout Connection, _ sessionLoader: SessionLoader
    ) throws(PostgresError) -> CredentialRecord? {
        var parameters = Parameters(session)
        parameters.append(text: name)
        let rows = try connection.execute(Statements.readCredential, parameters)
        return rows.rowCount == 0 ? nil : sessionLoader.credential(rows, 0, of: session)
    }

    private static func hasTooMany(
        _ session: SessionKey, _ connection: inout Connection
    ) throws(PostgresError) -> Bool {
        let rows = try connection.execute(Statements.countCredentials, Parameters(session))
        return rows.int64(0, 0) >= Int64(Limits.sessionCredentialCountMax)
            || rows.int64(0, 1) >= Int64(Limits.tenantCredentialCountMax)
    }
}

extension SessionCondition {
    /// Returns the error if the condition is not met by a credential; `nil`: there is none.
    fileprivate func refusal(of found: CredentialRecord?) -> StoreError? {
        switch self {
        case .none: nil
        case .exists: found == nil ? .stale(revision: 0) : nil
        case .revision(let revision):
            revision == found?.revision ?? 0 ? nil : .stale(revision: found?.revision ?? 0)
        }
    }
}

extension SessionLoader {
    /// Reads the columns of read_credential.sql.
    func credential(
        _ rows: borrowing ResultSet, _ row: Int, of session: SessionKey
    ) -> CredentialRecord {
        // Logged below.
        let credential = try? SessionCredential(storedJSON: rows.bytes(row, 4))
        let secrets = rows.bytesOrNil(row, 5).flatMap { context.configuration.openSecrets($0) }
        let name = rows.text(row, 0)
        if credential == nil || secrets == nil {
            context.logger.error(
                "a credential cannot be read and is not used",
                metadata: ["tenant": "\(session.tenant)", "session": "\(session.name)"])
        }
        return CredentialRecord(
            name, revision: rows.int32(row, 1), createdAt: rows.instant(row, 2),
            updatedAt: rows.instant(row, 3), credential: credential ?? SessionCredential(),
            secrets: credential == nil ? nil : secrets)
    }
}
