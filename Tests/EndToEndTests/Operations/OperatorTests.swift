import Curl
import FerryCore
import Glibc
import Postgres
import TestSupport
import TestThreads
import Testing

@Suite("Commands and pages for operators", .onOwnThread)
struct OperatorTests {
    @Test("ferry check names missing migrations before ferry migrate, and none after it")
    func checkAndMigrate() throws {
        let database = try TestDatabase()
        let directory = try TemporaryDirectory.make("check")
        defer { TemporaryDirectory.remove(directory) }
        let environment = ["FERRY_DATABASE_URL": database.url, "FERRY_DATA_DIR": directory]
        let run = { (words: String...) in try Program.run([Program.ferry] + words, environment: environment) }
        let before = try run("check")
        #expect(before.status == 0 && before.output.contains("ferry migrate"), "\(before)")
        let migrated = try run("migrate", "--json")
        let applied = try JSON.parse(Array(migrated.output.utf8))["applied"]?.array ?? []
        #expect(migrated.status == 0 && applied.first?.integer == 1, "\(migrated)")
        #expect(try run("migrate").output == "The schema is up to date.\n")
        #expect(try run("migrate", "--json").output == "{\"applied\":[]}\n")
        let after = try run("check", "--json")
        let report = try JSON.parse(Array(after.output.utf8))
        #expect(after.status == 0 && report["ok"]?.bool == true, "\(after)")
        let names = Set((report["checks"]?.array ?? []).compactMap { $0["name"]?.string })
        #expect(names == ["configuration", "libraries", "disk", "database", "schema"])
        #expect(try run("check", "--database").output.contains("ok   rows: consistent\n"))
        var connection = try Connection(url: database.url)
        try connection.execute(script: "INSERT INTO job_counts (shard, queued) VALUES ('wrong', 3)")
        let broken = try run("check", "--database")
        #expect(broken.status == 1 && broken.output.contains("queued: counted 3, found 0"), "\(broken)")
        #expect(try run("check").status == 0)
        try connection.execute(script: "DELETE FROM job_counts")
    }

    @Test("check, migrate and serve name wrong settings and show no secret")
    func refusals() throws {
        let directory = try TemporaryDirectory.make("check")
        defer { TemporaryDirectory.remove(directory) }
        let run = { (command: String, settings: [String: String]) in
            try Program.run(
                [Program.ferry, command], environment: ["FERRY_DATA_DIR": directory].merging(settings) { $1 })
        }
        let nowhere = "postgresql://user:hush-83421@127.0.0.1:1/none"
        for command in ["check", "migrate", "serve"] {
            let result = try run(command, ["FERRY_DATABASE_URL": nowhere])
            #expect(result.status == 1, "\(command): \(result)")
            #expect(!(result.output + result.messages).contains("hush-83421"), "\(command): \(result)")
        }
        for (name, value) in [
            ("FERRY_LISTEN", "nowhere"), ("FERRY_CONCURRENCY", "many"), ("FERRY_EGRESS_ALLOW", "10.0.0.0/99"),
            ("FERRY_ADMIN_KEY", "short"), ("FERRY_ROLES", "api,cook"), ("FERRY_WEBHOOK_SECRET", "abc"),
        ] {
            for command in ["check", "migrate", "serve"] {
                let result = try run(command, [name: value])
                #expect(
                    result.status == 2 && result.messages.contains(name), "\(command), \(name): \(result)")
            }
        }
    }

    @Test("ferry check reports a wrong user and an older data directory of the private PostgreSQL")
    func privatePostgres() throws {
        let directory = try TemporaryDirectory.make("check")
        defer { TemporaryDirectory.remove(directory) }
        let own = ["PATH": "/usr/local/bin:/usr/bin:/bin", "FERRY_DATA_DIR": directory]
        let check = { (settings: [String: String]) throws -> Program.Result in
            try Program.run([Program.ferry, "check"], environment: own.merging(settings) { $1 })
        }
        let found = try check([:])
        #expect(found.status == 0 && found.output.contains("private, with PostgreSQL "), "\(found)")
        if geteuid() == 0 {
            for (user, words) in [
                ("nobody-there", "there is no user nobody-there"), ("root", "must name another user"),
            ] {
                let refused = try check(["FERRY_POSTGRES_USER": user])
                #expect(refused.status == 1 && refused.output.contains(words), "\(refused)")
            }
        }
        mkdir(directory + "/postgres", 0o700)
        try writeFile(directory + "/postgres/PG_VERSION", Array("9\n".utf8))
        let older = try check([:])
        #expect(
            older.status == 1 && older.output.contains("created by PostgreSQL 9, but version"), "\(older)")
    }

    @Test("unknown FERRY_ settings get a warning with a suggestion; those of Kubernetes do not")
    func unknownSettings() throws {
        let directory = try TemporaryDirectory.make("check")
        defer { TemporaryDirectory.remove(directory) }
        let environment = [
            "FERRY_DATA_DIR": directory, "FERRY_DATABASE_URL": "postgresql://127.0.0.1:1/none",
            "FERRY_CONCURENCY": "hush-77", "FERRY_ADMIN_KEY_FIEL": "x", "FERRY_WHATEVER_ELSE_THERE_IS": "1",
            "FERRY_KEY_FILE": "/x", "FERRY_SERVICE_HOST": "10.0.0.1", "FERRY_PORT_8080_TCP_ADDR": "10.0.0.1",
            "FERRY_API_PORT": "tcp://10.0.0.1:8080",
        ]
        let checked = try Program.run([Program.ferry, "check"], environment: environment)
        let warnings = checked.lines.filter { $0.hasPrefix("warn ") }
        #expect(
            warnings == [
                "warn environment: Unknown setting FERRY_ADMIN_KEY_FIEL is ignored. "
                    + "Did you mean FERRY_ADMIN_KEY_FILE?",
                "warn environment: Unknown setting FERRY_CONCURENCY is ignored. "
                    + "Did you mean FERRY_CONCURRENCY?",
                "warn environment: Unknown setting FERRY_WHATEVER_ELSE_THERE_IS is ignored.",
            ])
        let json = try Program.run([Program.ferry, "check", "--json"], environment: environment)
        let findings = try JSON.parse(Array(json.output.utf8))["checks"]?.array ?? []
        #expect(findings.filter { $0["warning"]?.bool == true }.map { $0["ok"]?.bool } == [true, true, true])
        let served = try Program.run([Program.ferry, "serve"], environment: environment)
        #expect(served.messages.contains("Did you mean FERRY_CONCURRENCY?"), "\(served)")
        #expect(!(checked.output + served.messages).contains("hush-77"))
        try writeFile(directory + "/settings", Array("FERRY_CONCURENCY=1".utf8))
        let file = try Program.run([Program.ferry, "check", "--config", directory + "/settings"])
        #expect(file.status == 2 && file.messages.contains("Did you mean FERRY_CONCURRENCY?"), "\(file)")
    }

    @Test("the first admin key is logged once, is valid, and is not stored in plain text")
    func firstKey() throws {
        let database = try TestDatabase()
        let ferry = try FerryProcess(["FERRY_DATABASE_URL": database.url, "FERRY_ADMIN_KEY": ""])
        defer { ferry.remove() }
        // The message is logged a moment after /readyz succeeds; the key is logged before it.
        #expect(becomes { ferry.log.contains("Ferry is ready on") })
        let key = try #require(ferry.log.firstMatch(of: /fk_[0-9a-z]{32,}/)).output
        #expect(try ferry.call("GET", "/v1/admin/status", key: String(key)).status == 200)
        let shown = ferry.log
        ferry.terminate()
        try ferry.start()
        #expect(becomes { ferry.log.dropFirst(shown.count).contains("Ferry is ready on") })
        #expect(!ferry.log.dropFirst(shown.count).contains("fk_"))
        #expect(try ferry.call("GET", "/v1/admin/status", key: String(key)).status == 200)
        let dump = try Program.run(
            ["pg_dump", "--dbname", database.url], environment: ["PATH": "/usr/bin:/bin"])
        #expect(dump.status == 0 && !dump.output.contains(key))
    }

    @Test("a failed first start logs and creates no key; the next start logs a valid key")
    func failedFirstStart() throws {
        let database = try TestDatabase()
        let directory = try TemporaryDirectory.make("first")
        defer { TemporaryDirectory.remove(directory) }
        let other = try ScriptedOrigin.answering { _, _ in [] }
        defer { other.stop() }
        let settings = [
            "FERRY_DATABASE_URL": database.url, "FERRY_ADMIN_KEY": "", "FERRY_DATA_DIR": directory,
            "FERRY_WEBHOOK_SECRET": "",
        ]
        let busy = ["FERRY_LISTEN": String(other.url.dropFirst("http://".count)), "PATH": "/usr/bin:/bin"]
        let failed = try Program.run([Program.ferry, "serve"], environment: settings.merging(busy) { $1 })
        #expect(failed.status == 1 && failed.messages.contains("is in use by another server"), "\(failed)")
        #expect(!failed.messages.contains("fk_"))
        let ferry = try FerryProcess(settings)
        defer { ferry.remove() }
        let key = try #require(ferry.log.firstMatch(of: /fk_[0-9a-z]{32,}/), "\(ferry.log)").output
        #expect(ferry.log.contains(/signed with: +whsec_/), "\(ferry.log)")
        let keys = try ferry.json("GET", "/v1/admin/keys", key: String(key))["data"]?.array
        #expect(keys?.map { $0["name"]?.string } == ["first admin key"], "\(keys ?? [])")
    }

    @Test("a generated webhook secret is logged once")
    func generatedSecret() throws {
        let database = try TestDatabase()
        let ferry = try FerryProcess(["FERRY_DATABASE_URL": database.url, "FERRY_WEBHOOK_SECRET": ""])
        defer { ferry.remove() }
        #expect(ferry.log.contains(/signed with, shown this once: +whsec_/), "\(ferry.log)")
        let shown = ferry.log
        ferry.terminate()
        try ferry.start()
        #expect(!ferry.log.dropFirst(shown.count).contains("whsec_"))
    }

    @Test("a revoked FERRY_ADMIN_KEY stays revoked, and the audit names it")
    func configuredKey() throws {
        let database = try TestDatabase()
        let ferry = try FerryProcess(["FERRY_DATABASE_URL": database.url])
        defer { ferry.remove() }
        let other = try ferry.makeKey(role: "admin", tenant: "other")
        let keys = try ferry.json("GET", "/v1/admin/keys")["data"]?.array ?? []
        let configured = try #require(keys.first { $0["name"]?.string == "FERRY_ADMIN_KEY" })
        let path = "/v1/admin/keys/\(configured["id"]?.string ?? "")"
        #expect(try ferry.call("DELETE", path).status == 204)
        #expect(try ferry.call("GET", "/v1/admin/keys").status == 401)
        let audit = try ferry.json("GET", "/v1/admin/audit", key: other)["data"]?.array ?? []
        #expect(audit.map { $0["operation"]?.string } == ["revokeKey", "createKey"])
        for entry in audit {
            #expect(entry["key"] == configured["id"] && entry["key_name"] == configured["name"], "\(entry)")
        }
        #expect(!ferry.log.contains("FERRY_ADMIN_KEY"))
        ferry.terminate()
        try ferry.start()
        #expect(try ferry.call("GET", "/v1/admin/keys").status == 401)
        #expect(ferry.log.contains("FERRY_ADMIN_KEY was revoked"))
        ferry.terminate()
        try ferry.start(["FERRY_ADMIN_KEY": "another-admin-key-0123456789"])
        #expect(try ferry.call("GET", "/v1/admin/keys", key: "another-admin-key-0123456789").status == 200)
        #expect(try ferry.call("GET", "/v1/admin/keys").status == 401)
        #expect(!ferry.log.contains("still valid"))
        ferry.terminate()
        try ferry.start(["FERRY_ADMIN_KEY": "a-third-admin-key-0123456789"])
        #expect(try ferry.call("GET", "/v1/admin/keys", key: "another-admin-key-0123456789").status == 200)
        #expect(ferry.log.contains("An earlier FERRY_ADMIN_KEY is still valid"))
    }

    @Test("status, nodes, metrics, health pages and problems have the expected contents")
    func pages() throws {
        let ferry = try FerryProcess.shared.get().ferry
        let status = try ferry.json("GET", "/v1/admin/status")
        #expect(status["database"]?["ok"]?.bool == true && status["nodes"]?.array?.count == 1, "\(status)")
        let nodes = try ferry.json("GET", "/v1/admin/nodes")["data"]?.array ?? []
        #expect(nodes.map { $0["id"] } == status["nodes"]?.array?.map { $0["id"] })
        let metrics = try ferry.call("GET", "/metrics")
        #expect(metrics.status == 200 && metrics.text.contains("# TYPE "))
        #expect(metrics.header("content-type")?.hasPrefix("text/plain") == true)
        for path in ["/livez", "/readyz", "/openapi.json", "/docs"] {
            #expect(becomes { try ferry.call("GET", path, key: "").status == 200 }, "\(path)")
        }
        let missing = try ferry.call("GET", "/v1/nothing")
        #expect(missing.status == 404 && missing.header("content-type") == "application/problem+json")
        let wrong = try ferry.call("PUT", "/v1/jobs", "{}")
        #expect(wrong.status == 405 && wrong.header("allow")?.contains("POST") == true)
    }

    @Test("a second process with the same data directory exits with 1; the first one continues")
    func oneService() throws {
        let ferry = try FerryProcess.shared.get().ferry
        let environment = ferry.environment.merging(["FERRY_LISTEN": "127.0.0.1:\(try FreePort.find())"]) {
            $1
        }
        let second = try Program.run([Program.ferry, "serve"], environment: environment)
        #expect(second.status == 1 && second.messages.contains("FERRY_DATA_DIR"), "\(second)")
        #expect(becomes { try ferry.call("GET", "/readyz").status == 200 })
    }
}
