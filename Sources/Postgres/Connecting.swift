import CPostgres
import Glibc

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
            ("dbname", url),
            ("client_encoding", "UTF8"),
            ("options", [given["options"] ?? "", options.commandLine].joined(separator: " ")),
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
