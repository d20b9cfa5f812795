/// Why the database did not do what it was asked to do.
package struct PostgresError: Error, Sendable, Equatable, CustomStringConvertible {
    package enum Kind: Sendable {
        /// The server refused a statement; `sqlState` says why.
        case statementFailed
        /// There is no connection (any more). Whether a commit happened just before is unknown.
        case connectionLost
        /// Our own deadline passed. The connection is closed; whether the commit happened is unknown.
        case timedOut
        /// The server is older than this program needs.
        case serverTooOld
        /// The connection URL cannot be parsed.
        case invalidURL
        /// A pooler gives one connection's transactions to several sessions.
        case sessionsShared
    }

    package let kind: Kind
    /// Five characters (PostgreSQL manual, appendix A), where the server sent them.
    package let sqlState: String?
    /// The violated constraint's name, where there is one.
    package let constraint: String?
    /// The name of the statement that failed, where one is known.
    package let statement: String?
    /// The words of the server or of libpq. For operators; never part of a response. Holds no password.
    package let message: String

    package init(
        _ kind: Kind, sqlState: String? = nil, constraint: String? = nil, statement: String? = nil,
        message: String
    ) {
        self.kind = kind
        self.sqlState = sqlState
        self.constraint = constraint
        self.statement = statement
        self.message = message
    }

    /// Whether this connection is of no more use and another one may do better: class 08, a server that
    /// shuts down, starts or is full, or a standby where the primary was expected (25006).
    package var isConnectionLost: Bool {
        switch kind {
        case .connectionLost, .timedOut: true
        case .serverTooOld, .invalidURL, .sessionsShared: false
        case .statementFailed:
            sqlState.map { $0.hasPrefix("08") || Self.connectionStates.contains($0) } ?? false
        }
    }

    /// Whether the transaction may be committed although there is an error.
    package var isOutcomeUnknown: Bool { kind == .connectionLost || kind == .timedOut }

    /// Whether the same transaction may succeed when it is simply sent again (serialization, deadlock).
    package var isRetryable: Bool { sqlState == "40001" || sqlState == "40P01" }

    /// Whether the server has stopped the statement (57014: `statement_timeout`, or an operator). The
    /// connection goes on.
    package var isCancellation: Bool { sqlState == "57014" }

    /// Whether the server cannot do it just now, whatever is asked: it is out of disk, memory or connections
    /// (class 53), has stopped the statement, or somebody holds a lock for too long (55P03). Sent again at
    /// once, the same thing is likely to happen.
    package var isShortage: Bool {
        isCancellation || sqlState.map { $0.hasPrefix("53") || $0 == "55P03" } ?? false
    }

    /// Whether the values are to blame, so that sending the same ones again fails again: classes 21, 22, 23,
    /// 54 and what a function raises.
    package var isOfData: Bool {
        sqlState.map { state in ["21", "22", "23", "54", "P0"].contains { state.hasPrefix($0) } } ?? false
    }

    package var isUniqueViolation: Bool { sqlState == "23505" }

    package var description: String {
        var text = message
        if let sqlState { text += " [\(sqlState)]" }
        if let statement { text += " (statement \(statement))" }
        return text
    }

    /// Shutdown, crash shutdown, starting up, database dropped, read-only, too many connections; a
    /// prepared statement that is gone, or whose result type a migration has changed.
    private static let connectionStates: Set<String> = [
        "57P01", "57P02", "57P03", "57P04", "25006", "53300", "26000", "0A000",
    ]
}
