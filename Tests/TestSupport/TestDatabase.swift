import CSys
import Glibc
import Postgres
import Synchronization
import Sys
import Testing

/// A new database for one suite, dropped when the object is released.
package final class TestDatabase: Sendable {
    /// Template of new databases, filled once in a test process.
    package struct Template: Sendable {
        let name: String
        let fill: @Sendable (_ url: String) throws -> Void
        /// `fill` gets the URL of an empty database, for example to apply migrations.
        package init(name: String, fill: @escaping @Sendable (_ url: String) throws -> Void) {
            self.name = name
            self.fill = fill
        }
    }

    private static let nextNumber = Atomic<Int>(1)
    private static let templates = Mutex<Set<String>>([])

    private let server: TestServer
    private let name: String

    /// Creates the database on the shared server of the test process.
    package convenience init(template: Template? = nil) throws {
        try self.init(server: TestServer.shared.get(), template: template)
    }

    private init(server: TestServer, template: Template?) throws {
        self.server = server
        self.name = "test_\(Self.nextNumber.add(1, ordering: .relaxed).oldValue)"
        var source = "template1"
        if let template {
            source = "template_\(template.name)"
            // Under the lock: a database in use cannot be copied, and must not be filled twice.
            try Self.templates.withLock { templates in
                guard !templates.contains(source) else { return }
                // A failed earlier attempt has left the database.
                try server.administer("DROP DATABASE IF EXISTS \"\(source)\" WITH (FORCE)")
                try server.administer("CREATE DATABASE \"\(source)\"")
                try template.fill(Self.withConnectTimeout(server.url(database: source)))
                templates.insert(source)
            }
        }
        try Self.templates.withLock { _ in
            try server.administer("CREATE DATABASE \"\(name)\" TEMPLATE \"\(source)\"")
        }
    }

    deinit {
        do {
            let broken = try brokenRules()
            if !broken.isEmpty { Issue.record("\(name) has broken rows: \(broken.joined(separator: "; "))") }
        } catch {
            Issue.record("the rows of \(name) were not checked: \(error)")
        }
        do {
            try server.administer("DROP DATABASE \"\(name)\" WITH (FORCE)")
        } catch {
            print("TestDatabase: \(name) was not dropped: \(error)")
        }
    }

    /// Returns the rules that the rows break, each with the number of rows and one of them, as
    /// `ferry check --database` does. Returns none if the database does not have Ferry's schema.
    package func brokenRules() throws -> [String] {
        var connection = try Connection(url: url)
        let hasSchema = Statement("has_schema", "SELECT to_regclass('job_counts') IS NOT NULL")
        guard try connection.execute(hasSchema).bool(0, 0) else { return [] }
        let rows = try connection.execute(Statement("check_rows", Self.checkRows))
        return (0..<rows.rowCount).map {
            "\(rows.text($0, 0)): \(rows.int64($0, 1)) rows, such as \(rows.text($0, 2))"
        }
    }

    /// Text of the statement of `ferry check --database`. Read from its file, so that this target needs none
    /// of Ferry's.
    private static let checkRows: String = {
        let folder = "\(#filePath)".split(separator: "/").dropLast(3).joined(separator: "/")
        let path = "/\(folder)/Sources/FerryStore/Schema/SQL/check_rows.sql"
        guard let bytes = readFile(path) else { preconditionFailure("\(path) cannot be read") }
        return String(decoding: bytes, as: UTF8.self)
    }()

    /// A libpq URI; the user is a superuser without password.
    package var url: String { Self.withConnectTimeout(server.url(database: name)) }

    /// Allows 60 seconds for a connection: the default of two is too short on a busy machine. An option in
    /// the URL overrides the default.
    private static func withConnectTimeout(_ url: String) -> String { url + "&connect_timeout=60" }
}

/// A private PostgreSQL server in a temporary directory, on a Unix socket, and on a port of 127.0.0.1 if one
/// is given.
///
/// The server ends with the test process. Runs as the user `postgres` if the tests run as root.
package final class TestServer: Sendable {
    /// Shared server of this test process, started by the first suite that needs it.
    package static let shared = Result { try TestServer() }

    private static let running = Mutex<[TestServer]>([])

    /// Directory of the socket, with `data` and `log` below it.
    package let directory: String
    private let binaries: String
    private let user: (uid: uid_t, gid: gid_t)
    private let pid = Mutex<pid_t>(0)
    private let tcpPort: UInt16?

    /// Creates a cluster and starts the server. Takes about half a second.
    package init(tcpPort: UInt16? = nil) throws {
        self.tcpPort = tcpPort
        // Each new database has about 300 files. A file system on a disk creates them ten times as slowly.
        directory = try TemporaryDirectory.make("test", inMemory: true)
        binaries = try Self.findBinaries()
        user = try Self.findUser()
        if user.uid != uid_t.max, chown(directory, user.uid, user.gid) != 0 { throw SystemError("chown") }
        let initdb = try spawn(
            "initdb",
            [
                "-D", "\(directory)/data", "--no-sync", "-A", "trust", "-U", "postgres", "--locale=C", "-E",
                "UTF8",
            ])
        let status = Self.wait(for: initdb)
        guard status == 0 else { throw TestServerError("initdb ended with \(status):\n\(log)") }
        try start()
        let isFirst = Self.running.withLock { running in
            running.append(self)
            return running.count == 1
        }
        if isFirst { atexit { TestServer.running.withLock { $0 }.forEach { $0.remove(SIGQUIT) } } }
    }

    /// Returns a libpq URI of one of its databases.
    package func url(database: String = "postgres") -> String {
        // The name of the socket contains the port.
        "postgresql:///\(database)?host=\(directory)&port=\(tcpPort ?? 5432)&user=postgres"
    }

    /// Starts the server after `stop()` and waits until it accepts connections.
    package func start() throws {
        let process = try spawn(
            "postgres",
            [
                "-D", "\(directory)/data", "-k", directory, "-p", "\(tcpPort ?? 5432)",
                "-c", "listen_addresses=\(tcpPort == nil ? "" : "127.0.0.1")", "-c", "fsync=off",
                "-c", "shared_buffers=64MB", "-c", "max_connections=500", "-c", "log_min_messages=warning",
                "-c", "max_wal_size=256MB",
            ])
        pid.withLock { $0 = process }
        let deadline = Sys.monotonicNanoseconds() + 120_000_000_000
        while Sys.monotonicNanoseconds() < deadline {
            var status: Int32 = 0
            guard waitpid(process, &status, WNOHANG) == 0 else {
                throw TestServerError("the server did not start:\n\(log)")
            }
            if (try? Connection(url: url())) != nil { return }
            poll(nil, 0, 10)
        }
        throw TestServerError("the server did not become ready:\n\(log)")
    }

    /// Stops the server: SIGINT is a fast shutdown, SIGQUIT a crash. The data remain for the next start.
    package func stop(_ signal: Int32 = SIGINT) {
        let process = pid.withLock { pid in
            defer { pid = 0 }
            return pid
        }
        guard process > 0 else { return }
        kill(process, signal)
        _ = Self.wait(for: process)
    }

    /// Stops the server and removes its directory. Not for the shared server.
    package func remove(_ signal: Int32 = SIGINT) {
        stop(signal)
        TemporaryDirectory.remove(directory)
        Self.running.withLock { $0.removeAll { $0 === self } }
    }

    /// Runs an administrative command in the database `postgres`.
    package func administer(_ command: String) throws {
        // Copying a database takes long on a slow machine.
        var options = ConnectionOptions()
        options.connectTimeout = .seconds(120)
        options.resultTimeout = .seconds(120)
        options.statementTimeout = nil
        var connection = try Connection(url: url(), options: options)
        try connection.execute(script: command)
    }

    /// Output of initdb and the server.
    package var log: String {
        guard let file = fopen("\(directory)/log", "r") else { return "" }
        defer { fclose(file) }
        var buffer = [UInt8](repeating: 0, count: 1 << 16)
        let count = fread(&buffer, 1, buffer.count, file)
        return String(decoding: buffer.prefix(count), as: UTF8.self)
    }

    private func spawn(_ program: String, _ arguments: [String]) throws -> pid_t {
        let log = open("\(directory)/log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o644)
        guard log >= 0 else { throw SystemError("open") }
        defer { close(log) }
        let path = "\(binaries)/\(program)"
        let (binaries, user, directory) = (binaries, user, directory)
        let (process, code) = Spawner.shared.run { () -> (pid_t, Int32) in
            let argv = ([path] + arguments).map { strdup($0) } + [nil]
            let environment = [strdup("PATH=\(binaries):/usr/bin:/bin"), strdup("LC_ALL=C"), nil]
            defer { for text in argv + environment { free(text) } }
            let process = csys_spawn(
                path, argv, environment, user.uid, user.gid, SIGQUIT, log, directory)
            return (process, errno)
        }
        guard process > 0 else { throw SystemError("fork", code) }
        return process
    }

    private static func wait(for process: pid_t) -> Int32 {
        var status: Int32 = 0
        while waitpid(process, &status, 0) < 0 && errno == EINTR {}
        return status
    }

    private static func findBinaries() throws -> String {
        let versions = (14...20).reversed().map { "/usr/lib/postgresql/\($0)/bin" }
        let search = getenv("PATH").map { String(cString: $0) } ?? ""
        let candidates = versions + search.split(separator: ":").map(String.init)
        guard let found = candidates.first(where: { access("\($0)/initdb", X_OK) == 0 }) else {
            throw TestServerError("PostgreSQL's initdb is neither in PATH nor in /usr/lib/postgresql")
        }
        return found
    }

    /// PostgreSQL refuses to run as root.
    private static func findUser() throws -> (uid: uid_t, gid: gid_t) {
        guard geteuid() == 0 else { return (uid_t.max, gid_t.max) }
        guard let entry = getpwnam("postgres") else {
            throw TestServerError("as root, the tests need a user `postgres`")
        }
        return (entry.pointee.pw_uid, entry.pointee.pw_gid)
    }
}

/// Error of a test server that cannot start.
package struct TestServerError: Error, CustomStringConvertible {
    package let description: String
    init(_ description: String) { self.description = description }
}

/// Thread that starts all child processes. The thread never ends: a child gets its death signal when the
/// thread that started it ends (prctl(2), PR_SET_PDEATHSIG).
final class Spawner: Sendable {
    static let shared = Spawner()
    private let tasks = Mailbox<@Sendable () -> Void>()

    private init() {
        _ = Thread(name: "spawner") { [tasks] in
            while true {
                for task in tasks.wait(milliseconds: -1) { task() }
            }
        }
    }

    func run<Value: Sendable>(_ body: @escaping @Sendable () -> Value) -> Value {
        let result = Mailbox<Value>()
        tasks.send { result.send(body()) }
        while true {
            if let value = result.wait(milliseconds: -1).first { return value }
        }
    }
}
