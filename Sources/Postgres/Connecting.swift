import CPostgres
import Glibc
import Sys

extension Connection {
    /// Opens a PGconn, or throws why not. Never tells the password.
    static func open(url: String, options: ConnectionOptions) throws(PostgresError) -> OpaquePointer {
        guard let given = parse(url) else {
            // libpq's own words would quote the URL.
            throw PostgresError(.invalidURL, message: "the database URL is not a valid libpq URI")
        }
        // What stands before `dbname` yields to the URL, what stands after it wins (PQconnectdbParams).
        let parameters: [(String, String)] = [
            ("fallback_application_name", options.applicationName),
            ("connect_timeout", String((options.connectTimeout.milliseconds + 999) / 1000)),
            ("keepalives_idle", "10"),
            ("keepalives_interval", "5"),
            ("keepalives_count", "3"),
            ("tcp_user_timeout", String(options.tcpUserTimeout.milliseconds)),
            // A standby, or a primary that was made read-only, is as good as none: libpq tries the next host
            // of the URL.
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

    /// Sets up the session, in one round trip. Not with the start-up parameter `options`: poolers refuse it,
    /// or drop it without a word.
    static func configure(_ raw: OpaquePointer, _ options: ConnectionOptions) throws(PostgresError) {
        let all = options.sessionSettings
        var parameters = Parameters()
        parameters.appendArray(.text, all) { $0.append(text: $1.name) }
        parameters.appendArray(.text, all) { $0.append(text: $1.value) }
        var pipeline = Pipeline(raw: raw, statements: StatementCache())
        pipeline.send(settings, parameters)
        let exchange = ResultWait(raw: raw, timeout: options.connectTimeout, options.impatience)
        // Who cannot set it up closes it.
        var isInStep = false
        _ = try pipeline.finish(exchange, isInStep: &isInStep)
    }

    // Planned anew, which is unnamed: nothing of it stays in a session that belongs to others too.
    private static let process = Statement("server_process", "SELECT pg_backend_pid()", isPlannedAnew: true)

    /// Throws `sessionsShared` when a pooler gives the transactions of one connection to several sessions.
    ///
    /// Two connections tell: while the second has a transaction open, the first one's own server process
    /// must be there for it as before, and be another. Leaves no trace in sessions that others use as well.
    package static func checkSessions(
        url: String, options: ConnectionOptions = ConnectionOptions()
    ) throws(PostgresError) {
        let wait = options.connectTimeout
        var first = try Connection(bare: url, options)
        var second = try Connection(bare: url, options)
        let before = try first.execute(process, timeout: wait).int32(0, 0)
        try second.execute(script: "BEGIN", timeout: wait)
        let inside = try second.execute(process, timeout: wait).int32(0, 0)
        // Asked only where it cannot be kept waiting by the second one's transaction.
        let meanwhile = try inside == before ? nil : first.execute(process, timeout: wait).int32(0, 0)
        try second.execute(script: "COMMIT", timeout: wait)
        let after = try second.execute(process, timeout: wait).int32(0, 0)
        guard meanwhile == before, after == inside else {
            throw PostgresError(
                .sessionsShared,
                message: "a pooler in front of the database gives each transaction another session, and "
                    + "settings, prepared statements and locks need one that stays: pool_mode = session")
        }
    }

    /// What the URL sets, by keyword; nil when libpq cannot parse it.
    private static func parse(_ url: String) -> [String: String]? {
        var complaint: UnsafeMutablePointer<CChar>?
        let options = PQconninfoParse(url, &complaint)
        PQfreemem(complaint)
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
        return "the connection failed; the server's words are withheld because they contain the password"
    }
}

/// Notices (such as "relation exists, skipping") have no reader; libpq would print them on stderr.
private func ignoreNotice(_ context: UnsafeMutableRawPointer?, _ message: UnsafePointer<CChar>?) {}
