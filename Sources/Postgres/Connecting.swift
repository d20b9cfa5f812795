import CPostgres
import Glibc
import Sys

extension Connection {
    /// Opens a PGconn, which the caller owns. Errors never contain the password.
    static func open(url: String, options: ConnectionOptions) throws(PostgresError) -> OpaquePointer {
        guard let given = parse(url) else {
            // libpq's own message would quote the URL.
            throw PostgresError(.invalidURL, message: "the database URL is not a valid libpq URI")
        }
        // Parameters before `dbname` are defaults that the URL overrides; parameters after it override the
        // URL (PQconnectdbParams).
        let parameters: [(String, String)] = [
            ("fallback_application_name", options.applicationName),
            ("connect_timeout", String((options.connectTimeout.milliseconds + 999) / 1000)),
            ("keepalives_idle", "10"),
            ("keepalives_interval", "5"),
            ("keepalives_count", "3"),
            ("tcp_user_timeout", String(options.tcpUserTimeout.milliseconds)),
            // Excludes standbys and read-only primaries: libpq then tries the next host of the URL.
            ("target_session_attrs", "read-write"),
            ("dbname", url),
            ("client_encoding", "UTF8"),
        ]
        let keys = parameters.map { UnsafePointer(strdup($0.0)) } + [nil]
        let values = parameters.map { UnsafePointer(strdup($0.1)) } + [nil]
        defer {
            for text in keys + values { free(UnsafeMutablePointer(mutating: text)) }
        }
        guard let raw = PQconnectdbParams(keys, values, 1) else {
            throw PostgresError(.connectionLost, message: "out of memory")
        }
        PQsetNoticeProcessor(raw, ignoreNotice, nil)
        guard PQstatus(raw) == CONNECTION_OK else {
            let text = message(of: raw)
            PQfinish(raw)
            throw PostgresError(.connectionLost, message: redacted(text, password: given["password"]))
        }
        return raw
    }

    private static let settings = Statement(
        "session_settings",
        "SELECT set_config(s.name, s.value, false) FROM unnest($1::text[], $2::text[]) AS s(name, value)",
        parameters: 2)

    /// Sets the session's parameters in one round trip. The start-up parameter `options` would not do:
    /// poolers reject it or silently ignore it.
    static func configure(_ raw: OpaquePointer, _ options: ConnectionOptions) throws(PostgresError) {
        let all = options.sessionSettings
        var parameters = Parameters()
        parameters.appendArray(.text, all) { $0.append(text: $1.name) }
        parameters.appendArray(.text, all) { $0.append(text: $1.value) }
        var pipeline = Pipeline(raw: raw, statements: StatementCache())
        pipeline.send(settings, parameters)
        let wait = ResultWait(raw: raw, timeout: options.connectTimeout, options.shutdownTimeout)
        // After an error the caller closes the connection, so its state does not matter.
        var isInStep = false
        _ = try pipeline.finish(wait, isInStep: &isInStep)
    }

    // Not prepared: a prepared statement would stay in a session that other clients share.
    private static let process = Statement("server_process", "SELECT pg_backend_pid()", usesCustomPlan: true)

    /// Throws `sessionsShared` if a pooler assigns the transactions of one connection to different sessions.
    ///
    /// Opens two connections. While the second has a transaction open, the first must still have the server
    /// process it had before, and it must be another process. Leaves nothing in sessions that other clients
    /// share.
    public static func checkSessions(
        url: String, options: ConnectionOptions = ConnectionOptions()
    ) throws(PostgresError) {
        let wait = options.connectTimeout
        var first = try Connection(bare: url, options)
        var second = try Connection(bare: url, options)
        let before = try first.execute(process, timeout: wait).int32(0, 0)
        try second.execute(script: "BEGIN", timeout: wait)
        let inside = try second.execute(process, timeout: wait).int32(0, 0)
        // Not asked if both have the same process: a pooler would make it wait for the second one's
        // transaction.
        let meanwhile = try inside == before ? nil : first.execute(process, timeout: wait).int32(0, 0)
        try second.execute(script: "COMMIT", timeout: wait)
        let after = try second.execute(process, timeout: wait).int32(0, 0)
        guard meanwhile == before, after == inside else {
            throw PostgresError(
                .sessionsShared,
                message:
                    "a pooler in front of the database changes the session after each transaction; Ferry "
                    + "needs one session per connection: set pool_mode = session")
        }
    }

    /// Returns the values that the URL sets, by keyword, or `nil` if libpq cannot parse it.
    private static func parse(_ url: String) -> [String: String]? {
        var message: UnsafeMutablePointer<CChar>?
        let options = PQconninfoParse(url, &message)
        PQfreemem(message)
        guard let options else { return nil }
        defer { PQconninfoFree(options) }
        var given: [String: String] = [:]
        var next = options
        while let keyword = next.pointee.keyword {
            if let value = next.pointee.val { given[String(cString: keyword)] = String(cString: value) }
            next += 1
        }
        return given
    }

    private static func redacted(_ text: String, password: String?) -> String {
        guard let password, !password.isEmpty, text.contains(password) else { return text }
        return "the connection failed; the server's message contains the password and is omitted"
    }
}

/// Ignores notices (such as "relation exists, skipping"), which libpq would print on stderr.
private func ignoreNotice(_ context: UnsafeMutableRawPointer?, _ message: UnsafePointer<CChar>?) {}
