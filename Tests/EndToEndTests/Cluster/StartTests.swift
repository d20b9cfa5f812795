import Curl
import FerryCore
import Glibc
import Postgres
import Sys
import TestSupport
import TestThreads
import Testing

@Suite("Failed and interrupted starts", .onOwnThread)
struct StartTests {
    private static let secretKey = "one key for all nodes, long enough"

    @Test("failed starts lease no job; the next node runs each POST job once")
    func failedStarts() throws {
        let database = try TestDatabase()
        let origin = try ScriptedOrigin.answering { _, _ in
            Array("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".utf8)
        }
        defer { origin.stop() }
        let settings = ["FERRY_DATABASE_URL": database.url, "FERRY_SECRET_KEY": Self.secretKey]
        let api = try FerryProcess(settings.merging(["FERRY_ROLES": "api"]) { $1 })
        defer { api.remove() }
        let job = #"{"kind":"data","request":{"url":"\#(origin.url)/","method":"POST"}}"#
        let jobs = try api.submitBatch(
            #"{"jobs":[\#(Array(repeating: job, count: 30).joined(separator: ","))]}"#)
        var connection = try Connection(url: database.url)
        // Storing the configured key is the last statement of a start.
        try connection.execute(
            script: """
                CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    RAISE EXCEPTION 'no key is stored';
                END $$;
                CREATE TRIGGER refuse BEFORE INSERT ON api_keys FOR EACH ROW EXECUTE FUNCTION refuse();
                """)
        let directory = try TemporaryDirectory.make("failing")
        defer { TemporaryDirectory.remove(directory) }
        let free = "127.0.0.1:\(try FreePort.find())"
        let failures = [
            (
                ["FERRY_LISTEN": free, "FERRY_SECRET_KEY": "quite another key, long enough"],
                "another FERRY_SECRET_KEY"
            ),
            (["FERRY_LISTEN": "127.0.0.1:\(api.port)"], "is in use by another server"),
            (["FERRY_LISTEN": free], "Ferry cannot start"),
        ]
        for (changes, words) in failures {
            let environment = api.environment.merging(["FERRY_DATA_DIR": directory]) { $1 }
                .merging(["FERRY_ROLES": "api,worker,webhooks"]) { $1 }.merging(changes) { $1 }
            let failed = try Program.run([Program.ferry, "serve"], environment: environment)
            #expect(failed.status == 1 && failed.messages.contains(words), "\(failed)")
        }
        let untouched = Statement(
            "untouched", "SELECT count(*) FROM jobs WHERE state = 'queued' AND attempt = 0")
        #expect(try connection.execute(untouched).int64(0, 0) == 30)
        let nodes = Statement("nodes", "SELECT count(*) FROM nodes")
        #expect(try connection.execute(nodes).int64(0, 0) == 1, "a failed start has left its row")
        #expect(origin.requests.isEmpty)
        try connection.execute(script: "DROP TRIGGER refuse ON api_keys")
        let worker = try FerryProcess(settings)
        defer { worker.remove() }
        for id in jobs { #expect(try api.finished(id)["state"] == .string("succeeded")) }
        #expect(origin.requests.count == 30)
    }

    @Test("a node that cannot read the API keys does not start")
    func unreadKeys() throws {
        let database = try TestDatabase()
        // Without a configured admin key: a start looks that key up before it reads all keys.
        let ferry = try FerryProcess(["FERRY_DATABASE_URL": database.url, "FERRY_ADMIN_KEY": ""])
        defer { ferry.remove() }
        #expect(ferry.terminate() == 0)
        var connection = try Connection(url: database.url)
        try connection.execute(script: "ALTER TABLE api_keys RENAME COLUMN revoked_at TO gone_at")
        let log = ferry.directory + "/failed-log"
        let pid = try Program.start([Program.ferry, "serve"], environment: ferry.environment, log: log)
        #expect(end(pid) == 1)
        #expect(text(log).contains("Ferry cannot start"), "\(text(log))")
        try connection.execute(script: "ALTER TABLE api_keys RENAME COLUMN gone_at TO revoked_at")
        try ferry.start()
    }

    @Test("a start that waits for a lock exits with 0 at the first signal", arguments: [SIGTERM, SIGINT])
    func ended(_ signal: Int32) throws {
        let database = try TestDatabase()
        var holder = try Connection(url: database.url)
        // Advisory lock of migrations.
        try holder.execute(script: "SELECT pg_advisory_lock(7378697629483820646)")
        let directory = try TemporaryDirectory.make("ended")
        defer { TemporaryDirectory.remove(directory) }
        let environment = [
            "PATH": "/usr/local/bin:/usr/bin:/bin", "FERRY_DATABASE_URL": database.url,
            "FERRY_DATA_DIR": directory + "/data", "FERRY_LISTEN": "127.0.0.1:\(try FreePort.find())",
            "FERRY_ADMIN_KEY": adminKey, "FERRY_LOG_LEVEL": "notice",
        ]
        let log = directory + "/log"
        let pid = try Program.start([Program.ferry, "serve"], environment: environment, log: log)
        let waiting = Statement(
            "waiting",
            """
            SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock'
            """)
        let isWaiting = becomes(seconds: 120) { try holder.execute(waiting).int64(0, 0) == 1 }
        #expect(isWaiting)
        kill(pid, signal)
        #expect(end(pid) == 0)
        #expect(text(log).contains("Ferry was stopped during its start"), "\(text(log))")
    }

    @Test("environment variables of libpq do not affect the private PostgreSQL")
    func libpqVariables() throws {
        let ferry = try FerryProcess([
            "PGPORT": "1", "PGHOSTADDR": "127.0.0.1", "PGSERVICE": "nowhere", "PGOPTIONS": "-c nonsense=1",
            "PGSSLMODE": "verify-full", "PGCHANNELBINDING": "require", "PGTARGETSESSIONATTRS": "standby",
        ])
        defer { ferry.remove() }
        #expect(try ferry.call("GET", "/v1/admin/status").status == 200)
        #expect(ferry.terminate() == 0)
    }

    @Test("the threads of event streams and storage checks exist after the start")
    func threads() throws {
        let ferry = try FerryProcess()
        defer { ferry.remove() }
        // A thread sets its name when it first runs.
        let areThere = becomes { ferry.threads.isSuperset(of: ["ferry-events", "storage-check"]) }
        #expect(areThere, "\(ferry.threads)")
    }

    @Test(
        "as root, a start continues in the cluster directory that a killed first start had chosen",
        .enabled(if: geteuid() == 0))
    func killedFirstStart() throws {
        let root = try TemporaryDirectory.make("killed")
        defer { TemporaryDirectory.remove(root) }
        chmod(root, 0o755)
        for (name, mode) in [("bin", 0o755), ("said", 0o777), ("closed", 0o700)] {
            mkdir("\(root)/\(name)", 0o700)
            chmod("\(root)/\(name)", mode_t(mode))
        }
        // Fake programs of the newest version: initdb writes the path of the cluster to a file and does not
        // end.
        let programs = [
            "postgres": "echo 'postgres (PostgreSQL) 99.0'",
            "initdb": "echo \"$2\" > \(root)/said/begun; exec sleep 600",
        ]
        for (name, command) in programs {
            try writeFile("\(root)/bin/\(name)", Array("#!/bin/sh\n\(command)\n".utf8))
            chmod("\(root)/bin/\(name)", 0o755)
        }
        let data = "\(root)/closed/data"
        let environment = [
            "PATH": "\(root)/bin:/usr/local/bin:/usr/bin:/bin", "FERRY_DATA_DIR": data,
            "FERRY_LISTEN": "127.0.0.1:\(try FreePort.find())", "FERRY_ADMIN_KEY": adminKey,
        ]
        let pid = try Program.start(
            [Program.ferry, "serve"], environment: environment, log: "\(root)/log")
        let isBegun = becomes { text("\(root)/said/begun").hasSuffix("\n") }
        kill(pid, SIGKILL)
        _ = Program.wait(pid)
        #expect(isBegun, "\(text("\(root)/log"))")
        let begun = String(text("\(root)/said/begun").dropLast())
        let home = String(begun.dropLast("/postgres.new".count))
        try #require(home.hasPrefix("/var/lib/ferry/cluster-"))
        defer { TemporaryDirectory.remove(home) }
        let ferry = try FerryProcess(["FERRY_DATA_DIR": data])
        defer { ferry.remove() }
        let cluster = try #require(realpath("\(data)/postgres", nil))
        defer { free(cluster) }
        #expect(String(cString: cluster) == "\(home)/postgres")
        #expect(directoryNames(home) == ["postgres"])
        #expect(!directoryNames(data).contains("postgres.new"))
    }

    /// Waits for the process. Returns its exit status, or 128 plus the number of the signal.
    private func end(_ pid: pid_t) -> Int32 {
        var status: Int32 = 0
        guard becomes(seconds: 120, { waitpid(pid, &status, WNOHANG) == pid }) else {
            kill(pid, SIGKILL)
            return Program.wait(pid)
        }
        return status & 0x7F == 0 ? status >> 8 & 0xFF : 128 + status & 0x7F
    }

    private func text(_ path: String) -> String { String(decoding: readFile(path) ?? [], as: UTF8.self) }
}
