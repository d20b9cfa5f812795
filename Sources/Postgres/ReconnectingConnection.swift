import Sys

/// A lane's connection that heals itself: it connects when it is needed, and again after it was lost.
///
/// Owned by one thread. Statements prepare themselves on the new connection; anything else a session needs
/// (LISTEN) belongs into `setUp`, and what does not stay the same for long into `renew`.
package final class ReconnectingConnection {
    /// What the lane's owner may want to show.
    package enum State: Sendable, Equatable {
        /// `serverVersion` as PQserverVersion counts.
        case connected(serverVersion: Int, ServerPlace)
        /// The next attempt is due after `retryIn`.
        case disconnected(PostgresError, retryIn: Duration)
    }

    /// The first pause after a failed attempt; it doubles up to `retryDelayMax`.
    package static let retryDelayMin: Duration = .milliseconds(50)
    package static let retryDelayMax: Duration = .seconds(2)

    /// How often it has connected: what was learned of rows over an earlier connection another server may not
    /// have.
    package private(set) var connectionCount = 0

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

    /// Does not connect yet. The closures are called on the owning thread; `renew` before a use, once it was
    /// not for longer than `renewalInterval`.
    package init(
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

    /// Whether a session is open, as far as was noticed.
    package var isConnected: Bool { connection != nil }

    /// How long to wait before `withConnection` will try to connect again; zero when it may be called now.
    package var retryIn: Duration {
        connection != nil ? .zero : .nanoseconds(max(0, nextAttempt - Sys.monotonicNanoseconds()))
    }

    /// Runs `body` with an open connection, connecting first where needed.
    ///
    /// Throws at once while the pause after a failed attempt lasts. An error of `body` is thrown on; if it
    /// means that the connection is of no more use, the next call gets a new one. A connection that died
    /// while idle is replaced before `body` runs, so that a restarted server costs no error.
    package func withConnection<Value: ~Copyable>(
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

    /// Closes the connection; the next use opens a new one.
    package func close() {
        connection = nil
    }

    /// The same, but what the server has undone in favor of somebody else is sent again, up to `countMax`
    /// times in all: then both are likely to get through. `body` must not have answered anybody by then.
    package func withConnection<Value: ~Copyable>(
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
