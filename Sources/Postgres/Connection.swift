import CPostgres
import Glibc
import Sys

/// One session with a PostgreSQL server, in pipeline mode.
///
/// Owns one PGconn, which is closed with the value. A connection belongs to one thread at a time and its
/// calls block that thread, at most until their deadline.
package struct Connection: ~Copyable {
    /// nil once closed.
    private var raw: OpaquePointer?
    private let statements = StatementCache()
    private let answerTimeout: Duration
    private let impatience: ShutdownTimeout?
    /// As PQserverVersion counts: 150020 is 15.20.
    package let serverVersion: Int
    /// Where the server, or the pooler in front of it, was reached.
    package let server: ServerPlace

    /// 14 brought the pipelines and functions that we use.
    package static let oldestServerVersion = 140_000

    /// Connects and waits until the session is ready. `url` is a libpq URI or a keyword string, with
    /// several hosts if need be; what it names wins over `options`, its `options` excepted.
    package init(url: String, options: ConnectionOptions = ConnectionOptions()) throws(PostgresError) {
        let raw = try Self.openPipeline(url: url, options: options)
        do throws(PostgresError) {
            try Self.configure(raw, options)
        } catch {
            PQfinish(raw)
            throw error
        }
        self.raw = raw
        answerTimeout = options.answerTimeout
        impatience = options.impatience
        serverVersion = Int(PQserverVersion(raw))
        server = ServerPlace(raw)
    }

    /// A session as the server gives it, without the settings of `options`.
    init(bare url: String, _ options: ConnectionOptions) throws(PostgresError) {
        let raw = try Self.openPipeline(url: url, options: options)
        self.raw = raw
        answerTimeout = options.answerTimeout
        impatience = options.impatience
        serverVersion = Int(PQserverVersion(raw))
        server = ServerPlace(raw)
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

    /// Whether the session can still be used, as far as was noticed.
    package var isOpen: Bool { raw != nil }

    /// Ends the session. Calls after this one throw `connectionLost`; closing again does nothing.
    package mutating func close() {
        if let raw { PQfinish(raw) }
        raw = nil
    }

    /// Whether the idle session is still alive: reads what the server said meanwhile, without waiting.
    package mutating func checkAlive() -> Bool {
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

    /// Sends everything that `build` adds as one implicit transaction, waits for all results and returns
    /// them.
    ///
    /// The error of any statement, or of the commit, undoes the whole and is thrown once the server is in
    /// step again, so that the connection stays usable. When `timeout` (nil: `answerTimeout` of the options)
    /// passes first the connection is closed, and the error thrown that a statement had by then, or else
    /// `timedOut`: whether the commit happened is then unknown. Large volumes in both directions cannot block
    /// each other: while we write, we read.
    package mutating func pipeline(
        timeout: Duration? = nil, _ build: (inout Pipeline) -> Void
    ) throws(PostgresError) -> PipelineResults {
        guard let raw else { throw Self.closed }
        var pipeline = Pipeline(raw: raw, statements: statements)
        build(&pipeline)
        let exchange = ResultWait(raw: raw, timeout: timeout ?? answerTimeout, impatience)
        var isInStep = false
        do {
            return try pipeline.finish(exchange, isInStep: &isInStep)
        } catch {
            if !isInStep || error.isConnectionLost || PQstatus(raw) != CONNECTION_OK { close() }
            throw error
        }
    }

    /// Runs one statement as a transaction of its own.
    package mutating func execute(
        _ statement: Statement, _ parameters: Parameters = Parameters(), timeout: Duration? = nil
    ) throws(PostgresError) -> ResultSet {
        var results = try pipeline(timeout: timeout) { $0.send(statement, parameters) }
        return results.take(0)
    }

    /// The time of one round trip to the server, without a statement.
    package mutating func ping(timeout: Duration = .seconds(5)) throws(PostgresError) -> Duration {
        let start = Sys.monotonicNanoseconds()
        _ = try pipeline(timeout: timeout) { _ in }
        return .nanoseconds(Sys.monotonicNanoseconds() - start)
    }

    // MARK: Scripts

    /// Runs a text of several commands through the simple protocol, as one transaction unless it says
    /// otherwise itself. For migrations and administration. Throws the first error.
    package mutating func execute(script: String, timeout: Duration? = nil) throws(PostgresError) {
        guard let raw else { throw Self.closed }
        precondition(!script.utf8.contains(0), "a script is a C string and holds no U+0000")
        let exchange = ResultWait(raw: raw, timeout: timeout ?? answerTimeout, impatience)
        guard PQexitPipelineMode(raw) == 1, PQsendQuery(raw, script) == 1 else {
            throw abandon(PostgresError(.connectionLost, message: Self.message(of: raw)))
        }
        var failure: PostgresError?
        do throws(PostgresError) {
            while let result = try exchange.nextResult() {
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

    /// Runs `body` between BEGIN and COMMIT; an error rolls back and is thrown on.
    package mutating func transaction<Value>(
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

    /// Subscribes to a channel; once is enough, more does no harm.
    package mutating func listen(_ channel: String) throws(PostgresError) {
        precondition(!channel.contains("\""), "a channel's name holds no quotation mark")
        try execute(script: "LISTEN \"\(channel)\"")
    }

    /// Waits until notifications have arrived, `wakeDescriptor` is readable or the time is over, and takes
    /// what has arrived. Throws `connectionLost` when the session ends.
    package mutating func notifications(
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

/// The other end of a connection.
package struct ServerPlace: Sendable, Equatable {
    /// An IPv4 or IPv6 address without brackets; nil through a Unix socket.
    package let address: String?
    /// Of a Unix socket: the number in its name, at which such a server listens on TCP too, if it does.
    package let port: UInt16

    init(_ raw: OpaquePointer) {
        let text = PQhostaddr(raw).map { String(cString: $0) } ?? ""
        // libpq gives the directory of a Unix socket here.
        address = text.isEmpty || text.hasPrefix("/") || text.hasPrefix("@") ? nil : text
        port = PQport(raw).flatMap { UInt16(String(cString: $0)) } ?? 5432
    }
}

/// What another session, or this one, said with NOTIFY.
package struct Notification: Sendable, Equatable {
    package let channel: String
    package let payload: String
    /// The server process of the session that sent it.
    package let processID: Int32
}
