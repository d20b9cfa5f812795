import Glibc
import TestSupport

/// A PgBouncer process in front of a test database, on a free port, with its own directory.
final class PgBouncer: Sendable {
    let url: String
    private let directory: String
    private let pid: pid_t

    /// `mode` is the `pool_mode`. The configuration has no setting that serves only Ferry.
    init(before database: TestDatabase, mode: String) throws {
        guard let socketDirectory = database.url.split(separator: "host=").last?.split(separator: "&").first,
            let name = database.url.split(separator: "///").last?.split(separator: "?").first
        else { throw TestSupportError("no directory in \(database.url)") }
        directory = try TemporaryDirectory.make("pgbouncer")
        chmod(directory, 0o755)
        let port = try FreePort.find()
        // PgBouncer refuses to run as root. The user `postgres` may open the server's socket.
        let account = geteuid() == 0 ? "user = postgres" : ""
        let file = directory + "/pgbouncer.ini"
        try writeFile(
            file,
            Array(
                """
                [databases]
                * = host=\(socketDirectory) user=postgres
                [pgbouncer]
                listen_addr = 127.0.0.1
                listen_port = \(port)
                unix_socket_dir =
                auth_type = any
                pool_mode = \(mode)
                default_pool_size = 100
                max_client_conn = 200
                \(account)

                """.utf8))
        pid = try ChildProcess.start(["pgbouncer", "-q", file])
        url = "postgresql://postgres@127.0.0.1:\(port)/\(name)"
        guard FreePort.waitUntilOpen(port) else {
            ChildProcess.end(pid)
            throw TestSupportError("pgbouncer does not listen on \(port)")
        }
    }

    func stop() {
        ChildProcess.end(pid)
        TemporaryDirectory.remove(directory)
    }
}
