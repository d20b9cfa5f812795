import Sys

/// A connection that connects when it is needed and reconnects after it was lost.
///
/// Used by one thread. Statements are prepared again on each new connection. Other state that a session needs
/// (LISTEN) belongs in `setUp`; state that changes over time belongs in `renew`.
public final class ReconnectingConnection {
    /// State of the connection, for logs and health.
    public enum State: Sendable, Equatable {
        /// A session is open. `serverVersion` is that of PQserverVersion.
        case connected(serverVersion: Int, ServerAddress)
        /// There is no session. The next attempt is possible after `retryIn`.
        case disconnected(PostgresError, retryIn: Duration)
    }

    /// The first delay after a failed attempt. Each further one doubles it, up to `retryDelayMax`.
    public static let retryDelayMin: Duration = .milliseconds(50)
    /// The longest delay after a failed attempt.
    public static let retryDelayMax: Duration = .seconds(2)

    /// Number of connections made so far. Rows read over an earlier connection may not exist on the server of
    /// a later one.
    public private(set) var connectionCount = 0

    private let url: String
    private let options: ConnectionOptions
    private let setUp: (inout Connection) throws(PostgresError) -> Void
    private let renew: ((inout Connection) throws(PostgresError) -> Void)?
    private let renewalInterval: Int64
    private let onStateChange: (State) -> Void
    private var nextRenewal: Int64 = 0
    private var connection: Connection?
    private var retryDelay: Duration = .zero
    private var nextAttempt: Int64 = 0
    private var lastError = Connection.closed

    /// Creates an object that is not connected yet. The closures are called on the owner's thread. `renew` is
    /// called before a use if the last call was more than `renewalInterval` ago.
    public init(
        url: String, options: ConnectionOptions = ConnectionOptions(),
        setUp: @escaping (inout Connection) throws(PostgresError) -> Void = { _ throws(PostgresError) in },
        renewalInterval: Duration = .zero,
        renew: ((inout Connection) throws(PostgresError) -> Void)? = nil,
        onStateChange: @escaping (State) -> Void = { _ in }
    ) {
        self.renewalInterval = renewalInterval.nanoseconds
        self.renew = renew
        self.url = url
        self.options = options
        self.setUp = setUp
        self.onStateChange = onStateChange
    }

    /// `true` if a session is open. The server may have closed it since the last use.
    public var isConnected: Bool { connection != nil }

    /// Time until `withConnection` tries to connect again; zero if it can be called now.
    public var retryIn: Duration {
        connection != nil ? .zero : .nanoseconds(max(0, nextAttempt - Sys.monotonicNanoseconds()))
    }

    /// Runs `body` with an open connection, and connects first if there is none.
    ///
    /// Throws the last error at once during the delay after a failed attempt. Rethrows errors of `body`; if
    /// the error means that the connection is lost, the next call opens a new one. A connection that died
    /// while idle is replaced before `body` runs, so that a restart of the server causes no error.
    public func withConnection<Value: ~Copyable>(
        _ body: (inout Connection) throws(PostgresError) -> Value
    ) throws(PostgresError) -> Value {
        if connection?.checkAlive() != true { try connect() }
        guard var open = connection.take() else { throw lastError }
        do {
            try renewIfDue(&open)
            let value = try body(&open)
            connection = consume open
            return value
        } catch {
            if open.isOpen && !error.isConnectionLost {
                connection = consume open
            } else {
                scheduleRetry(after: error)
            }
            throw error
        }
    }

    /// Closes the connection. The next use opens a new one.
    public func close() {
        connection = nil
    }

    /// Like `withConnection(_:)`, but runs `body` again after a serialization failure or deadlock, up to
    /// `countMax` times in all. `body` must have no effects outside of the transaction.
    public func withConnection<Value: ~Copyable>(
        sendingUpTo countMax: Int, _ body: (inout Connection) throws(PostgresError) -> Value
    ) throws(PostgresError) -> Value {
        var count = 1
        while true {
            do {
                return try withConnection(body)
            } catch {
                guard error.isRetryable, count < countMax else { throw error }
                count += 1
            }
        }
    }

    private func connect() throws(PostgresError) {
        connection = nil
        guard Sys.monotonicNanoseconds() >= nextAttempt else { throw lastError }
        do {
            var fresh = try Connection(url: url, options: options)
            try setUp(&fresh)
            let (version, server) = (fresh.serverVersion, fresh.server)
            connection = consume fresh
            connectionCount += 1
            nextRenewal = 0
            retryDelay = .zero
            onStateChange(.connected(serverVersion: version, server))
        } catch {
            retryDelay = min(max(retryDelay * 2, Self.retryDelayMin), Self.retryDelayMax)
            scheduleRetry(after: error)
            throw error
        }
    }

    private func renewIfDue(_ open: inout Connection) throws(PostgresError) {
        guard let renew else { return }
        let now = Sys.monotonicNanoseconds()
        guard now >= nextRenewal else { return }
        try renew(&open)
        nextRenewal = now + renewalInterval
    }

    private func scheduleRetry(after error: PostgresError) {
        lastError = error
        nextAttempt = Sys.monotonicNanoseconds() + retryDelay.nanoseconds
        onStateChange(.disconnected(error, retryIn: retryDelay))
    }
}
