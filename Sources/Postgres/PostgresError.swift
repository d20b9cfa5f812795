/// Reason for which the database did not execute a request.
public struct PostgresError: Error, Sendable, Equatable, CustomStringConvertible {
    /// Classes of errors.
    public enum Kind: Sendable {
        /// The server rejected a statement; `sqlState` is the reason.
        case statementFailed
        /// There is no connection, or it was lost. The last transaction may have been committed.
        case connectionLost
        /// The client's own deadline passed. The connection is closed; the transaction may have been
        /// committed.
        case timedOut
        /// The server is older than `Connection.oldestServerVersion`.
        case serverTooOld
        /// libpq cannot parse the connection URL.
        case invalidURL
        /// A pooler assigns the transactions of one connection to different sessions.
        case sessionsShared
    }

    /// Class of the error.
    public let kind: Kind
    /// SQLSTATE, five characters (PostgreSQL manual, appendix A); `nil` if the server sent none.
    public let sqlState: String?
    /// Name of the violated constraint, or `nil`.
    public let constraint: String?
    /// Name of the statement that failed, or `nil` if it is not known.
    public let statement: String?
    /// Text of the server or of libpq. For operators only: it is never part of a response. Contains no
    /// password.
    public let message: String

    /// Creates an error.
    public init(
        _ kind: Kind, sqlState: String? = nil, constraint: String? = nil, statement: String? = nil,
        message: String
    ) {
        self.kind = kind
        self.sqlState = sqlState
        self.constraint = constraint
        self.statement = statement
        self.message = message
    }

    /// `true` if this connection cannot be used again but a new one may work: class 08, a server that shuts
    /// down, starts or has no connections left, or a standby in the place of the primary (25006).
    public var isConnectionLost: Bool {
        switch kind {
        case .connectionLost, .timedOut: true
        case .serverTooOld, .invalidURL, .sessionsShared: false
        case .statementFailed:
            sqlState.map { $0.hasPrefix("08") || Self.connectionStates.contains($0) } ?? false
        }
    }

    /// `true` if the transaction may have been committed despite the error.
    public var isOutcomeUnknown: Bool { kind == .connectionLost || kind == .timedOut }

    /// `true` if the same transaction may succeed when it is repeated (serialization failure, deadlock).
    public var isRetryable: Bool { sqlState == "40001" || sqlState == "40P01" }

    /// `true` if a row with the same key exists (23505).
    public var isUniqueViolation: Bool { sqlState == "23505" }

    /// `true` if the server cancelled the statement (57014: `statement_timeout`, or an operator). The
    /// connection can still be used.
    public var isCancellation: Bool { sqlState == "57014" }

    /// `true` if the server cannot execute any such request at the moment: it has no disk space, memory or
    /// connections left (class 53), has cancelled the statement, or a lock was not available (55P03). An
    /// immediate repetition is likely to fail as well.
    public var isShortage: Bool {
        isCancellation || sqlState.map { $0.hasPrefix("53") || $0 == "55P03" } ?? false
    }

    /// `true` if the values cause the error, so that the same values will fail again: classes 21, 22, 23 and
    /// 54, and errors raised by functions.
    public var isOfData: Bool {
        sqlState.map { state in ["21", "22", "23", "54", "P0"].contains { state.hasPrefix($0) } } ?? false
    }

    /// Message, SQLSTATE and statement for logs.
    public var description: String {
        var text = message
        if let sqlState { text += " [\(sqlState)]" }
        if let statement { text += " (statement \(statement))" }
        return text
    }

    /// SQLSTATEs of a session that cannot be used again: shutdown, crash, starting up, database dropped,
    /// read-only, too many connections; a prepared statement that does not exist, or whose result type a
    /// migration has changed.
    private static let connectionStates: Set<String> = [
        "57P01", "57P02", "57P03", "57P04", "25006", "53300", "26000", "0A000",
    ]
}
