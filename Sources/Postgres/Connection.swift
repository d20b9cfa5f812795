import CPostgres
import Glibc
import Sys

/// A session with a PostgreSQL server, in pipeline mode.
///
/// Owns a PGconn and closes it with the value. Used by one thread at a time. Calls block that thread until
/// their deadline at most.
public struct Connection: ~Copyable {
    /// `nil` after `close()`.
    private var raw: OpaquePointer?
    private let statements = StatementCache()
    private let resultTimeout: Duration
    private let shutdownTimeout: ShutdownTimeout?
    /// Version of the server as in PQserverVersion: 150020 is 15.20.
    public let serverVersion: Int
    /// Address of the server, or of the pooler in front of it.
    public let server: ServerAddress

    /// PostgreSQL 14, the first version with all pipeline and SQL functions that are used.
    public static let oldestServerVersion = 140_000

    /// Connects and waits until the session is ready. `url` is a libpq URI or keyword string and may name
    /// several hosts. Its values override those of `options`, except for run-time parameters that it sets
    /// with the keyword `options`.
    public init(url: String, options: ConnectionOptions = ConnectionOptions()) throws(PostgresError) {
        let raw = try Self.openPipeline(url: url, options: options)
        do throws(PostgresError) {
            try Self.configure(raw, options)
        } catch {
            PQfinish(raw)
            throw error
        }
        self.raw = raw
        resultTimeout = options.resultTimeout
        shutdownTimeout = options.shutdownTimeout
        serverVersion = Int(PQserverVersion(raw))
        server = ServerAddress(raw)
    }

    /// Opens a session without the run-time parameters of `options`.
    init(bare url: String, _ options: ConnectionOptions) throws(PostgresError) {
        let raw = try Self.openPipeline(url: url, options: options)
        self.raw = raw
        resultTimeout = options.resultTimeout
        shutdownTimeout = options.shutdownTimeout
        serverVersion = Int(PQserverVersion(raw))
        server = ServerAddress(raw)
    }

    private static func openPipeline(
        url: String, options: ConnectionOptions
    ) throws(PostgresError) -> OpaquePointer {
        let raw = try Self.open(url: url, options: options)
        let version = Int(PQserverVersion(raw))
        guard version >= Self.oldestServerVersion else {
            PQfinish(raw)
            throw PostgresError(
                .serverTooOld, message: "the server has version \(version / 10_000); 14 or newer is needed")
        }
        guard PQsetnonblocking(raw, 1) == 0, PQenterPipelineMode(raw) == 1 else {
            let message = Self.message(of: raw)
            PQfinish(raw)
            throw PostgresError(.connectionLost, message: message)
        }
        return raw
    }

    deinit {
        if let raw { PQfinish(raw) }
    }

    /// `true` if the session is open. The server may have closed it since the last call.
    public var isOpen: Bool { raw != nil }

    /// Ends the session. Later calls throw `connectionLost`; closing again does nothing.
    public mutating func close() {
        if let raw { PQfinish(raw) }
        raw = nil
    }

    /// Returns `false` and closes the session if it is no longer alive. Reads what the server has sent,
    /// without waiting.
    public mutating func checkAlive() -> Bool {
        guard let raw else { return false }
        var descriptor = pollfd(fd: PQsocket(raw), events: Int16(POLLIN), revents: 0)
        while poll(&descriptor, 1, 0) > 0 {
            guard PQconsumeInput(raw) == 1, PQstatus(raw) == CONNECTION_OK else {
                close()
                return false
            }
            _ = PQisBusy(raw)
        }
        return true
    }

    // MARK: Pipelines

    /// Sends the statements that `build` adds as one implicit transaction, and returns all results.
    ///
    /// If a statement or the commit fails, the server undoes the transaction. The error is thrown after all
    /// results have been read, so the connection can still be used. If `timeout` passes first (`nil`:
    /// `resultTimeout` of the options), the connection is closed, and the transaction may have been
    /// committed. The error is then that of a statement if one had failed, else `timedOut`. Large amounts of
    /// data in both directions cannot block each other, because the client reads while it writes.
    public mutating func pipeline(
        timeout: Duration? = nil, _ build: (inout Pipeline) -> Void
    ) throws(PostgresError) -> PipelineResults {
        guard let raw else { throw Self.closed }
        var pipeline = Pipeline(raw: raw, statements: statements)
        build(&pipeline)
        let wait = ResultWait(raw: raw, timeout: timeout ?? resultTimeout, shutdownTimeout)
        var isInStep = false
        do {
            return try pipeline.finish(wait, isInStep: &isInStep)
        } catch {
            if !isInStep || error.isConnectionLost || PQstatus(raw) != CONNECTION_OK { close() }
            throw error
        }
    }

    /// Runs one statement in a transaction of its own.
    public mutating func execute(
        _ statement: Statement, _ parameters: Parameters = Parameters(), timeout: Duration? = nil
    ) throws(PostgresError) -> ResultSet {
        var results = try pipeline(timeout: timeout) { $0.send(statement, parameters) }
        return results.take(0)
    }

    /// Returns the time of a round trip to the server without a statement.
    public mutating func ping(timeout: Duration = .seconds(5)) throws(PostgresError) -> Duration {
        let start = Sys.monotonicNanoseconds()
        _ = try pipeline(timeout: timeout) { _ in }
        return .nanoseconds(Sys.monotonicNanoseconds() - start)
    }

    // MARK: Scripts

    /// Runs several commands through the simple protocol, in one transaction unless the script controls
    /// transactions itself. For migrations and administration. Throws the first error.
    public mutating func execute(script: String, timeout: Duration? = nil) throws(PostgresError) {
        guard let raw else { throw Self.closed }
        // No input reaches this: scripts are constants and migrations.
        precondition(!script.utf8.contains(0), "a script is a C string and holds no U+0000")
        let wait = ResultWait(raw: raw, timeout: timeout ?? resultTimeout, shutdownTimeout)
        guard PQexitPipelineMode(raw) == 1, PQsendQuery(raw, script) == 1 else {
            throw abandon(PostgresError(.connectionLost, message: Self.message(of: raw)))
        }
        var failure: PostgresError?
        do throws(PostgresError) {
            while let result = try wait.nextResult() {
                defer { PQclear(result) }
                switch PQresultStatus(result) {
                case PGRES_COPY_IN, PGRES_COPY_OUT, PGRES_COPY_BOTH:
                    throw PostgresError(.connectionLost, message: "COPY is not supported in scripts")
                case PGRES_FATAL_ERROR, PGRES_BAD_RESPONSE:
                    failure = failure ?? PostgresError(result: result, statement: nil)
                default: break
                }
            }
        } catch {
            throw abandon(failure ?? error)
        }
        guard PQstatus(raw) == CONNECTION_OK, PQenterPipelineMode(raw) == 1 else {
            throw abandon(failure ?? PostgresError(.connectionLost, message: Self.message(of: raw)))
        }
        if let failure { throw failure.isConnectionLost ? abandon(failure) : failure }
    }

    /// Runs `body` between BEGIN and COMMIT. After an error, rolls back and rethrows it.
    public mutating func transaction<Value>(
        _ body: (inout Connection) throws(PostgresError) -> Value
    ) throws(PostgresError) -> Value {
        try execute(script: "BEGIN")
        do {
            let value = try body(&self)
            try execute(script: "COMMIT")
            return value
        } catch {
            // A session that cannot roll back must not be used again.
            do { if isOpen { try execute(script: "ROLLBACK") } } catch { close() }
            throw error
        }
    }

    private mutating func abandon(_ error: PostgresError) -> PostgresError {
        close()
        return error
    }

    // MARK: Notifications

    /// Subscribes to a channel (LISTEN). Idempotent.
    public mutating func listen(_ channel: String) throws(PostgresError) {
        // No input reaches this: channels are constants, and the identifier of this node.
        precondition(!channel.contains("\""), "a channel's name holds no quotation mark")
        try execute(script: "LISTEN \"\(channel)\"")
    }

    /// Waits until notifications arrive, `wakeDescriptor` is readable or `timeout` has passed, and returns
    /// the notifications. Throws `connectionLost` if the session has ended.
    public mutating func notifications(
        timeout: Duration, wakeDescriptor: Int32 = -1
    ) throws(PostgresError) -> [Notification] {
        let deadline = Sys.monotonicNanoseconds() + timeout.nanoseconds
        while true {
            guard checkAlive(), let raw else {
                throw PostgresError(.connectionLost, message: "the server closed the connection")
            }
            let arrived = takeNotifications(raw)
            let rest = deadline - Sys.monotonicNanoseconds()
            if !arrived.isEmpty || rest <= 0 { return arrived }
            var descriptors = [
                pollfd(fd: PQsocket(raw), events: Int16(POLLIN), revents: 0),
                pollfd(fd: wakeDescriptor, events: Int16(POLLIN), revents: 0),
            ]
            _ = poll(&descriptors, 2, Duration.nanoseconds(rest).milliseconds)
            if descriptors[1].revents != 0 && descriptors[0].revents == 0 { return [] }
        }
    }

    private func takeNotifications(_ raw: OpaquePointer) -> [Notification] {
        var arrived: [Notification] = []
        while let next = PQnotifies(raw) {
            arrived.append(
                Notification(
                    channel: String(cString: next.pointee.relname),
                    payload: next.pointee.extra.map { String(cString: $0) } ?? "",
                    processID: next.pointee.be_pid))
            PQfreemem(next)
        }
        return arrived
    }

    static let closed = PostgresError(.connectionLost, message: "the connection is closed")

    static func message(of raw: OpaquePointer?) -> String {
        var text = PQerrorMessage(raw).map { String(cString: $0) } ?? "out of memory"
        while text.last?.isNewline == true { text.removeLast() }
        return text
    }
}

/// Address of the other end of a connection.
public struct ServerAddress: Sendable, Equatable {
    /// IPv4 or IPv6 address without brackets; `nil` for a Unix socket.
    public let address: String?
    /// TCP port. For a Unix socket, the number in its name: a server that listens on TCP as well uses that
    /// port.
    public let port: UInt16

    init(_ raw: OpaquePointer) {
        let text = PQhostaddr(raw).map { String(cString: $0) } ?? ""
        // For a Unix socket, libpq returns its directory.
        address = text.isEmpty || text.hasPrefix("/") || text.hasPrefix("@") ? nil : text
        port = PQport(raw).flatMap { UInt16(String(cString: $0)) } ?? 5432
    }
}

/// A notification that a session has sent with NOTIFY.
public struct Notification: Sendable, Equatable {
    /// Name of the channel.
    public let channel: String
    /// Payload; empty if there is none.
    public let payload: String
    /// Server process ID of the session that sent it.
    public let processID: Int32
}
