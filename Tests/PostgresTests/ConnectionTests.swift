import Glibc
import Postgres
import Sys
import TestSupport
import Testing

@Suite("Connections")
struct ConnectionTests {
    let database: TestDatabase
    static let one = Statement("one", "SELECT 1::int4")

    init() throws { database = try TestDatabase() }

    @Test("settings with spaces and backslashes apply in addition to those of the URL")
    func settings() throws {
        var options = ConnectionOptions()
        options.applicationName = "ferry test"
        options.pinsPlans = true
        options.settings = [.init("ferry.shard", #"3 a\b"#)]
        var connection = try Connection(
            url: database.url + "&options=-c%20work_mem%3D5MB", options: options)
        let result = try connection.execute(
            Statement(
                "settings",
                """
                SELECT current_setting('ferry.shard'), current_setting('enable_sort'),
                       current_setting('work_mem'), current_setting('application_name'),
                       current_setting('statement_timeout'), current_setting('jit'),
                       current_setting('idle_in_transaction_session_timeout')
                """))
        #expect(result.text(0, 0) == #"3 a\b"#)
        #expect(result.text(0, 1) == "off" && result.text(0, 2) == "5MB")
        #expect(result.text(0, 3) == "ferry test" && result.text(0, 4) == "30s" && result.text(0, 5) == "off")
        #expect(result.text(0, 6) == "30s")
        #expect(connection.serverVersion >= Connection.oldestServerVersion)
    }

    @Test("a read-only server is not used unless the URL allows any")
    func readOnly() throws {
        let name = try #require(database.url.dropFirst("postgresql:///".count).split(separator: "?").first)
        var before = try Connection(url: database.url)
        try before.execute(script: "ALTER DATABASE \"\(name)\" SET default_transaction_read_only = on")
        do {
            _ = try Connection(url: database.url)
            Issue.record("it was connected to")
        } catch {
            #expect(error.isConnectionLost && error.description.contains("read-only"), "\(error)")
        }
        var any = try Connection(url: database.url + "&target_session_attrs=any")
        #expect(try any.execute(Self.one).int32(0, 0) == 1)
        try before.execute(script: "ALTER DATABASE \"\(name)\" RESET default_transaction_read_only")
        _ = try Connection(url: database.url)
    }

    @Test("the server detects a lost client by TCP keepalive settings")
    func keepalives() throws {
        let port = try FreePort.find()
        let server = try TestServer(tcpPort: port)
        defer { server.remove() }
        var connection = try Connection(url: "postgresql://postgres@127.0.0.1:\(port)/postgres")
        let result = try connection.execute(
            Statement(
                "keepalives",
                """
                SELECT current_setting('tcp_keepalives_idle'), current_setting('tcp_keepalives_interval'),
                       current_setting('tcp_keepalives_count'), current_setting('tcp_user_timeout')
                """))
        #expect((0..<4).map { result.text(0, $0) } == ["10", "5", "3", "10000"])
    }

    @Test(
        "errors never contain the password",
        arguments: [
            "postgresql://user:hunter22@127.0.0.1:1/db", "postgresql://user:hunter22%zz@[/db",
            "postgresql://user:hunter22@127.0.0.1:port/db",
        ])
    func password(url: String) {
        do {
            _ = try Connection(url: url)
            Issue.record("there is no such server")
        } catch {
            #expect(!error.description.contains("hunter22"))
            #expect(error.kind == .connectionLost || error.kind == .invalidURL)
        }
    }

    @Test("a failed script is rolled back and leaves the connection usable")
    func script() throws {
        var connection = try Connection(url: database.url)
        do {
            try connection.execute(script: "CREATE TABLE a (n int); INSERT INTO a VALUES ('x')")
            Issue.record("the script did not fail")
        } catch {
            #expect(error.sqlState == "22P02")
        }
        let result = try connection.execute(Statement("a", "SELECT to_regclass('a') IS NULL"))
        #expect(result.bool(0, 0) == true)
    }

    @Test("a transaction commits its body or rolls it back")
    func transaction() throws {
        var connection = try Connection(url: database.url)
        try connection.execute(script: "CREATE TABLE a (n int)")
        let insert = Statement("insert", "INSERT INTO a VALUES (1)")
        try connection.transaction { connection throws(PostgresError) in
            _ = try connection.execute(insert)
        }
        do {
            try connection.transaction { connection throws(PostgresError) in
                _ = try connection.execute(insert)
                try connection.execute(script: "SELECT 1/0")
            }
            Issue.record("the body did not fail")
        } catch {
            #expect(error.sqlState == "22012")
        }
        let result = try connection.execute(Statement("count", "SELECT count(*) FROM a"))
        #expect(result.int64(0, 0) == 1)
    }

    private static let process = Statement("process", "SELECT pg_backend_pid()")

    @Test("BEGIN and COMMIT time out like other statements if the server hangs")
    func hangingTransaction() throws {
        var options = ConnectionOptions()
        options.resultTimeout = .milliseconds(500)
        for hangsAtOnce in [true, false] {
            var connection = try Connection(url: database.url, options: options)
            let pid = try connection.execute(Self.process, timeout: .seconds(60)).int32(0, 0)
            defer { kill(pid, SIGCONT) }
            if hangsAtOnce { kill(pid, SIGSTOP) }
            do {
                try connection.transaction { connection throws(PostgresError) in
                    _ = try connection.execute(Self.one, timeout: .seconds(60))
                    kill(pid, SIGSTOP)
                }
                Issue.record("it was committed")
            } catch {
                #expect(error.kind == .timedOut)
            }
            #expect(connection.isOpen == false)
        }
    }

    @Test("the shutdown timeout shortens a wait in progress")
    func shutdownTimeout() throws {
        let shutdown = ShutdownTimeout()
        let pids = Signal<pid_t>()
        let ended = Signal<PostgresError.Kind?>()
        let gate = Gate()
        let thread = Thread(name: "waits") { [url = database.url] in
            do throws(PostgresError) {
                var options = ConnectionOptions()
                options.resultTimeout = .seconds(3_600)
                options.shutdownTimeout = shutdown
                var connection = try Connection(url: url, options: options)
                pids.fire(try connection.execute(Self.process).int32(0, 0))
                _ = gate.pass()
                _ = try connection.execute(Self.one)
                ended.fire(nil)
            } catch {
                ended.fire(error.kind)
            }
        }
        let pid = try #require(pids.wait().first)
        kill(pid, SIGSTOP)
        gate.open()
        shutdown.begin()
        #expect(ended.wait() == [.timedOut])
        kill(pid, SIGCONT)
        thread.join()
    }

    @Test("a ping measures a round trip")
    func ping() throws {
        var connection = try Connection(url: database.url)
        #expect(try connection.ping(timeout: .seconds(60)) > .zero)
    }

    @Test("a notification, the wake descriptor and the timeout end a wait")
    func listening() throws {
        var listener = try Connection(url: database.url)
        try listener.listen("ferry_jobs")
        let sender = Thread(name: "sender") { [url = database.url] in
            do {
                var connection = try Connection(url: url)
                try connection.execute(script: "NOTIFY ferry_jobs, 'now'")
            } catch {
                Issue.record("\(error)")
            }
        }
        let arrived = try listener.notifications(timeout: .seconds(60))
        sender.join()
        #expect(arrived.map(\.payload) == ["now"] && arrived.map(\.channel) == ["ferry_jobs"])
        let wake = EventDescriptor()
        wake.signal()
        #expect(try listener.notifications(timeout: .seconds(60), wakeDescriptor: wake.descriptor) == [])
        #expect(try listener.notifications(timeout: .milliseconds(5)) == [])
        _ = try listener.ping(timeout: .seconds(60))
    }

    @Test("a connection is set up again after a restart and a crash of the server")
    func restart() throws {
        let server = try TestServer()
        defer { server.remove() }
        var states: [ReconnectingConnection.State] = []
        let reconnecting = ReconnectingConnection(
            url: server.url(),
            setUp: { connection throws(PostgresError) in try connection.listen("ferry") },
            onStateChange: { states.append($0) })
        func one() throws(PostgresError) -> Int32 {
            try reconnecting.withConnection { connection throws(PostgresError) in
                let result = try connection.execute(Self.one)
                return result.int32(0, 0)
            }
        }
        #expect(try one() == 1)
        server.stop()
        #expect(throws: PostgresError.self) { try one() }
        #expect(
            states.last.flatMap(Self.pause) == ReconnectingConnection.retryDelayMin
                && !reconnecting.isConnected)
        try server.start()
        Self.wait(reconnecting.retryIn)
        #expect(try one() == 1)
        // The statement detects the dead connection while the new server already runs.
        server.stop(3)
        try server.start()
        #expect(try one() == 1)
        #expect(states.count >= 4)
        #expect(states.first.map(Self.isConnected) == true && states.last.map(Self.isConnected) == true)
    }

    @Test("a server shutdown during a statement is connectionLost with the server's reason")
    func terminated() throws {
        var connection = try Connection(url: database.url)
        do {
            _ = try connection.execute(Statement("suicide", "SELECT pg_terminate_backend(pg_backend_pid())"))
            Issue.record("the session survived")
        } catch {
            #expect(error.sqlState == "57P01" && error.isConnectionLost)
        }
        #expect(connection.isOpen == false)
    }

    @Test(
        "a session ended for its idle transaction is connectionLost")
    func idleTransaction() throws {
        var connection = try Connection(url: database.url)
        var other = try Connection(url: database.url)
        let pid = try connection.execute(Statement("pid", "SELECT pg_backend_pid()::text")).text(0, 0)
        let sessions = Statement("sessions", "SELECT count(*) FROM pg_stat_activity WHERE pid = \(pid)")
        let limit = Statement(
            "limit", "SELECT set_config('idle_in_transaction_session_timeout', '20', false)")
        do {
            try connection.transaction { connection throws(PostgresError) in
                // Set after BEGIN: libpq does not report a message that arrives with the response to BEGIN.
                _ = try connection.execute(limit)
                // Simulates a process that is stopped here.
                while try other.execute(sessions).int64(0, 0) > 0 {}
                _ = try connection.execute(Self.one)
            }
            Issue.record("the session survived")
        } catch {
            #expect(error.sqlState == "25P03" && error.isConnectionLost, "\(error)")
        }
        #expect(connection.isOpen == false)
    }

    @Test("retry delays grow from 50 ms to 2 s while the server is down")
    func backoff() {
        var pauses: [Duration] = []
        let reconnecting = ReconnectingConnection(
            url: "postgresql://user@127.0.0.1:1/db",
            onStateChange: { state in Self.pause(state).map { pauses.append($0) } })
        for _ in 0..<3 {
            Self.wait(reconnecting.retryIn)
            #expect(throws: PostgresError.self) {
                try reconnecting.withConnection { connection throws(PostgresError) in
                    _ = try connection.ping()
                }
            }
        }
        #expect(pauses == [50, 100, 200].map { .milliseconds($0) })
    }

    private static func pause(_ state: ReconnectingConnection.State) -> Duration? {
        if case .disconnected(_, let retryIn) = state { retryIn } else { nil }
    }

    private static func isConnected(_ state: ReconnectingConnection.State) -> Bool {
        if case .connected = state { true } else { false }
    }

    private static func wait(_ duration: Duration) {
        let deadline = Sys.monotonicNanoseconds() + Int64(duration / .nanoseconds(1))
        _ = Mailbox<Int>().wait(milliseconds: Int32(duration / .milliseconds(1)) + 1)
        while Sys.monotonicNanoseconds() < deadline {}
    }
}
