package import FerryCore
import Postgres

/// Reads and changes the cookies of sessions. Any thread.
package final class CookieCommands: Sendable {
    private let commands: CommandQueue
    private let reads: ReadPool
    private let sessionLoader: SessionLoader

    init(_ commands: CommandQueue, _ reads: ReadPool, _ sessionLoader: SessionLoader) {
        self.commands = commands
        self.reads = reads
        self.sessionLoader = sessionLoader
    }

    /// Replies with the storage of a session after it was read. Errors: `notFound`, `sessionNotConfigured`.
    package func cookies(of key: SessionKey, reply: @escaping Reply<CookieStorage>) {
        let sessionLoader = sessionLoader
        reads.read("read_cookies", of: .tenant(key.tenant), reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<CookieStorage, StoreError> in
            try Self.storage(of: key, &connection, sessionLoader)
        }
    }

    /// Changes the cookies of a session, and replies once that is stored. `change` may be called several
    /// times. Errors: `notFound`, `sessionNotConfigured`.
    package func changeCookies<Value: Sendable>(
        of key: SessionKey, _ change: @escaping @Sendable (inout CookieJar) -> Value,
        reply: @escaping Reply<Value>
    ) {
        let sessionLoader = sessionLoader
        commands.perform("change_cookies", reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<Value, StoreError> in
            let storage: CookieStorage
            switch try Self.storage(of: key, &connection, sessionLoader) {
            case .failure(let error): return .failure(error)
            case .success(let found): storage = found
            }
            let value = storage.change(change)
            try CookieWriting(of: storage).run(&connection, sessionLoader.context)
            return .success(value)
        }
    }

    /// Removes the cookies and credentials of a session. Errors: `notFound`, `sessionNotConfigured`.
    package func resetSession(_ key: SessionKey, reply: @escaping Reply<SessionOverview>) {
        let sessionLoader = sessionLoader
        commands.perform("reset_session", reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<SessionOverview, StoreError> in
            let storage: CookieStorage
            switch try Self.storage(of: key, &connection, sessionLoader) {
            case .failure(let error): return .failure(error)
            case .success(let found): storage = found
            }
            let now = sessionLoader.context.clock.now()
            _ = storage.change { $0.remove(where: .all, now: now) }
            try CookieWriting(of: storage).run(&connection, sessionLoader.context)
            _ = try CredentialCommands.removeAll(of: key, &connection, sessionLoader)
            return try SessionCommands.overview(of: key, &connection, sessionLoader).map { .success($0) }
                ?? .failure(.notFound)
        }
    }

    /// Stores the cookies that this node has in memory, and makes requests of the session that begin later
    /// use new connections. Errors: `notFound`, `sessionNotConfigured`.
    package func flushSession(_ key: SessionKey, reply: @escaping Reply<SessionOverview>) {
        let sessionLoader = sessionLoader
        commands.perform("flush_session", reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<SessionOverview, StoreError> in
            try CookieWriting(allOf: sessionLoader.context.cookies).run(&connection, sessionLoader.context)
            var parameters = Parameters(key)
            parameters.append(sessionLoader.context.clock.now())
            let statement = Statements.flushSession
            guard
                let record = try SessionCommands.change(statement, parameters, &connection, sessionLoader)
            else {
                return .failure(try Self.refusal(of: key, &connection, sessionLoader))
            }
            let counts = try SessionCommands.counts(of: key, &connection)
            return .success(SessionOverview(record, counts: counts))
        }
    }

    /// Returns the error about a session that is not configured.
    private static func refusal(
        of key: SessionKey, _ connection: inout Connection, _ sessionLoader: SessionLoader
    ) throws(PostgresError) -> StoreError {
        try SessionCommands.overview(of: key, &connection, sessionLoader) == nil
            ? .notFound : .sessionNotConfigured
    }

    private static func storage(
        of key: SessionKey, _ connection: inout Connection, _ sessionLoader: SessionLoader
    ) throws(PostgresError) -> Result<CookieStorage, StoreError> {
        let record = try SessionCommands.record(of: key, &connection, sessionLoader).record
        guard let record else { return .failure(try refusal(of: key, &connection, sessionLoader)) }
        let storage = sessionLoader.context.cookies.storage(of: record)
        try CookieReading([storage]).run(&connection, sessionLoader.context)
        return .success(storage)
    }
}
