package import FerryCore
import Postgres
import Sys

/// Reads and changes sessions. Any thread.
package final class SessionCommands: Sendable {
    private let commands: CommandQueue
    private let reads: ReadPool
    private let sessionLoader: SessionLoader

    init(_ commands: CommandQueue, _ reads: ReadPool, _ sessionLoader: SessionLoader) {
        self.commands = commands
        self.reads = reads
        self.sessionLoader = sessionLoader
    }

    /// The sessions as this node knows them.
    package var sessionCache: SessionCache { sessionLoader.context.sessions }

    /// Reads a session with the counts of its unfinished jobs. Fails with `notFound` if it was never
    /// configured or used.
    package func session(_ key: SessionKey, reply: @escaping Reply<SessionOverview>) {
        let sessionLoader = sessionLoader
        reads.read("read_session", of: .tenant(key.tenant), reply) { connection throws(PostgresError) in
            guard let overview = try Self.overview(of: key, &connection, sessionLoader) else {
                return .failure(.notFound)
            }
            return .success(overview)
        }
    }

    /// Reads a page of a tenant's sessions by name, without job counts.
    package func sessions(
        tenant: String, after name: String?, limit: Int, reply: @escaping Reply<[SessionOverview]>
    ) {
        let sessionLoader = sessionLoader
        reads.read("list_sessions", of: .tenant(tenant), reply) { connection throws(PostgresError) in
            var parameters = Parameters()
            parameters.append(text: tenant)
            parameters.append(text: name ?? "")
            parameters.append(int32: Int32(clamping: limit))
            let rows = try connection.execute(Statements.listSessions, parameters)
            return .success(
                (0..<rows.rowCount).map { row in
                    SessionOverview(
                        SessionKey(tenant: tenant, name: rows.text(row, 12)),
                        record: rows.isNull(row, 0) ? nil : sessionLoader.session(rows, row),
                        implicit: sessionLoader.context.sessions.current.implicit)
                })
        }
    }

    /// Creates or changes a session. Every node knows the change before it accepts the next job.
    package func putSession(
        _ key: SessionKey, _ draft: SessionDraft, if condition: SessionCondition,
        reply: @escaping Reply<SessionPut>
    ) {
        let sessionLoader = sessionLoader
        commands.perform("put_session", reply) { connection throws(PostgresError) in
            // An iteration fails only if another transaction has changed the session meanwhile.
            for _ in 0..<10 {
                let found = try Self.record(of: key, &connection, sessionLoader).record
                if found == nil, try Self.hasTooMany(key.tenant, &connection) {
                    return .failure(.tooManySessions)
                }
                if let result = Self.result(found, draft, condition) {
                    guard let found, case .success(.unchanged) = result else { return result }
                    return .success(
                        .unchanged(SessionOverview(found, counts: try Self.counts(of: key, &connection))))
                }
                var parameters = Parameters(key)
                parameters.append(int32: found?.revision ?? 0)
                parameters.append(
                    text: draft.configuration.encodeStored(sessionLoader.context.configuration.seal))
                parameters.append(bytea: draft.sealedSecrets)
                parameters.append(sessionLoader.context.clock.now())
                parameters.append(bool: draft.configuration.sendsLaunchEvents)
                guard
                    let record = try Self.change(
                        Statements.putSession, parameters, &connection, sessionLoader)
                else { continue }
                let overview = SessionOverview(record, counts: try Self.counts(of: key, &connection))
                return .success(found == nil ? .created(overview) : .changed(overview))
            }
            return .failure(.unavailable)
        }
    }

    /// Returns the result if nothing is to be written; `nil` if the draft is to be written.
    private static func result(
        _ found: SessionRecord?, _ draft: SessionDraft, _ condition: SessionCondition
    ) -> Result<SessionPut, StoreError>? {
        let finding = condition.finding(found) { $0?.invalidation != nil ? .sessionInvalidated : nil }
        if case .refused(let error) = finding { return .failure(error) }
        guard let found else { return nil }
        if found.isReadable, found.secrets.isIdentical(to: draft.secrets),
            found.configuration.isIdentical(to: draft.configuration)
        {
            return .success(.unchanged(SessionOverview(found)))
        }
        return condition == .none ? .success(.needsCondition) : nil
    }

    /// Invalidates a session: it accepts no more jobs. Its jobs are cancelled, or end by themselves; the
    /// session ends after the last of them. Idempotent, but `cancel` may follow `finish`.
    package func invalidateSession(
        _ key: SessionKey, _ mode: SessionInvalidation, if condition: SessionCondition,
        reply: @escaping Reply<SessionOverview>
    ) {
        let sessionLoader = sessionLoader
        commands.perform("invalidate_session", reply) { connection throws(PostgresError) in
            guard key.name != SessionName.standard else { return .failure(.sessionInUse) }
            for _ in 0..<10 {
                guard let found = try Self.overview(of: key, &connection, sessionLoader) else {
                    return .failure(.notFound)
                }
                if found.record == nil, try Self.hasTooMany(key.tenant, &connection) {
                    return .failure(.tooManySessions)
                }
                let finding = condition.finding(found.record) { _ in nil }
                if case .refused(let error) = finding { return .failure(error) }
                let before = found.record?.invalidation
                if before == .cancel || before == mode || found.record?.endedAt != nil {
                    return .success(found)
                }
                var parameters = Parameters(key)
                parameters.append(int32: found.revision)
                parameters.append(text: mode.rawValue)
                parameters.append(sessionLoader.context.clock.now())
                parameters.append(text: sessionLoader.context.sessions.current.implicit.encodeStored())
                let statement = Statements.invalidateSession
                guard let record = try Self.change(statement, parameters, &connection, sessionLoader) else {
                    continue
                }
                sessionLoader.signals.chores.send(())
                return .success(SessionOverview(record, counts: try Self.counts(of: key, &connection)))
            }
            return .failure(.unavailable)
        }
    }

    /// Removes a session that has ended. Fails with `sessionInUse` if it has not.
    package func deleteSession(
        _ key: SessionKey, if condition: SessionCondition, reply: @escaping Reply<Void>
    ) {
        let sessionLoader = sessionLoader
        commands.perform("delete_session", reply) { connection throws(PostgresError) in
            for _ in 0..<10 {
                let (found, isKnown) = try Self.record(of: key, &connection, sessionLoader)
                guard let found else { return .failure(isKnown ? .sessionInUse : .notFound) }
                let finding = condition.finding(found) { $0?.endedAt == nil ? .sessionInUse : nil }
                if case .refused(let error) = finding { return .failure(error) }
                var parameters = Parameters(key)
                parameters.append(int32: found.revision)
                var results = try connection.pipeline { pipeline in
                    pipeline.send(Statements.lockSessionEpoch)
                    pipeline.send(Statements.deleteSession, parameters)
                    pipeline.send(Statements.notify, .sessionsNotification)
                }
                guard results.take(1).rowCount == 1 else { continue }
                try sessionLoader.readSessions(&connection)
                return .success(())
            }
            return .failure(.unavailable)
        }
    }

    /// Reloads sessions. Called when another node has changed some.
    func adopt() {
        let sessionLoader = sessionLoader
        let ignore: Reply<Void> = { _ in }
        reads.read("sessions", of: .service, ignore) { connection throws(PostgresError) in
            try sessionLoader.readSessions(&connection)
            return .success(())
        }
    }

    // MARK: On the connection

    /// Runs a change while no job can be accepted, and reloads this node's sessions. Returns `nil` if the
    /// condition of the statement was not met.
    static func change(
        _ statement: Statement, _ parameters: Parameters, _ connection: inout Connection,
        _ sessionLoader: SessionLoader
    ) throws(PostgresError) -> SessionRecord? {
        var results = try connection.pipeline { pipeline in
            pipeline.send(Statements.lockSessionEpoch)
            pipeline.send(statement, parameters)
            pipeline.send(Statements.notify, .sessionsNotification)
        }
        let rows = results.take(1)
        guard rows.rowCount == 1 else { return nil }
        let record = sessionLoader.session(rows, 0)
        try sessionLoader.readSessions(&connection)
        return record
    }

    /// Reads a session. `isKnown`: `true` if it is the default session or has had events.
    static func record(
        of key: SessionKey, _ connection: inout Connection, _ sessionLoader: SessionLoader
    ) throws(PostgresError) -> (record: SessionRecord?, isKnown: Bool) {
        let rows = try connection.execute(Statements.readSession, Parameters(key))
        return (
            rows.isNull(0, 0) ? nil : sessionLoader.session(rows, 0),
            rows.bool(0, 12) || key.name == SessionName.standard
        )
    }

    static func overview(
        of key: SessionKey, _ connection: inout Connection, _ sessionLoader: SessionLoader
    ) throws(PostgresError) -> SessionOverview? {
        let (record, isKnown) = try record(of: key, &connection, sessionLoader)
        let counts = try counts(of: key, &connection)
        guard record != nil || isKnown || !counts.isEmpty else { return nil }
        return SessionOverview(
            key, record: record, implicit: sessionLoader.context.sessions.current.implicit, counts: counts)
    }

    static func counts(
        of key: SessionKey, _ connection: inout Connection
    ) throws(PostgresError) -> SessionOverview.Counts {
        let countMax = Limits.sessionJobCountMax
        var parameters = Parameters()
        parameters.append(text: key.tenant)
        let isDefault = key.name == SessionName.standard
        if !isDefault { parameters.append(text: key.name) }
        // One more than is shown, to see whether there are more.
        parameters.append(int32: Int32(countMax + 1))
        let rows = try connection.execute(
            isDefault ? Statements.countDefaultJobs : Statements.countSessionJobs, parameters)
        var counts = SessionOverview.Counts()
        var total: Int64 = 0
        for row in 0..<rows.rowCount {
            let count = rows.int64(row, 1)
            total = isDefault ? rows.int64(row, 2) : total + count
            switch JobState(rawValue: rows.text(row, 0)) {
            case .waiting: counts.waiting = count
            case .queued: counts.queued = count
            case .running: counts.running = count
            case .suspended: counts.suspended = count
            case .succeeded, .failed, .cancelled, nil: break
            }
        }
        counts.isExact = total <= countMax
        return counts
    }

    private static func hasTooMany(
        _ tenant: String, _ connection: inout Connection
    ) throws(PostgresError) -> Bool {
        var parameters = Parameters()
        parameters.append(text: tenant)
        return try connection.execute(Statements.countSessions, parameters).int64(0, 0)
            >= Int64(Limits.sessionCountMax)
    }
}

extension SessionCondition {
    /// Checks the session's state, then the condition. An unconfigured session has revision 0.
    fileprivate func finding(
        _ found: SessionRecord?, unless refusal: (SessionRecord?) -> StoreError?
    ) -> ChangeCheck<SessionRecord?> {
        let checked = ChangeCheck.allowed(found).checkingState(refusal)
        return switch self {
        case .none: checked
        case .exists: checked.checkingState { $0 == nil ? .stale(revision: 0) : nil }
        case .revision(let revision): checked.matching(revision, of: found?.revision ?? 0)
        }
    }
}

extension Parameters {
    init(_ key: SessionKey) {
        self.init()
        append(text: key.tenant)
        append(text: key.name)
    }

    static var sessionsNotification: Parameters {
        var parameters = Parameters()
        parameters.append(text: SessionCache.notification)
        return parameters
    }
}
