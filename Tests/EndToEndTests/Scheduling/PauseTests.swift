import Curl
import FerryCore
import TestSupport
import TestThreads
import Testing

@Suite("Pauses, drains and the limit of unfinished jobs", .onOwnThread)
struct PauseTests {
    private func job(_ origin: ScriptedOrigin) -> String {
        #"{"kind":"data","request":{"url":"\#(origin.url)/"}}"#
    }

    private func origin() throws -> ScriptedOrigin {
        try ScriptedOrigin { connection in
            while connection.readRequest() != nil {
                connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            }
        }
    }

    @Test("a paused cluster accepts jobs and starts none until it is resumed, also after a restart")
    func pause() throws {
        let database = try TestDatabase()
        let ferry = try FerryProcess(["FERRY_DATABASE_URL": database.url])
        defer { ferry.remove() }
        let origin = try origin()
        defer { origin.stop() }
        let environment = ["FERRY_URL": ferry.url, "FERRY_KEY": adminKey]
        let paused = try Program.run([Program.ferry, "admin", "pause"], environment: environment)
        #expect(paused.status == 0 && paused.output.contains("true"), "\(paused)")
        let id = try ferry.submit(job(origin))
        #expect(try ferry.json("GET", "/v1/jobs/\(id)")["state"] == .string("queued"))
        ferry.kill9()
        try ferry.start()
        let status = try ferry.json("GET", "/v1/admin/status")
        #expect(status["paused"] == .bool(true) && status["jobs"]?["queued"] == .integer(1), "\(status)")
        let waiting = try ferry.json("GET", "/v1/jobs/\(id)", headers: ["Prefer": "wait=1"])
        #expect(waiting["state"] == .string("queued"))
        #expect(waiting["waiting_reason"]?["code"] == .string("paused"), "\(waiting)")
        #expect(try ferry.call("GET", "/metrics").text.contains("\nferry_paused 1\n"))
        let resumed = try Program.run([Program.ferry, "admin", "resume"], environment: environment)
        #expect(resumed.status == 0, "\(resumed)")
        #expect(try ferry.finished(id)["state"] == .string("succeeded"))
        let audit = try Program.run([Program.ferry, "admin", "audit"], environment: environment)
        #expect(audit.output.contains("pauseService") && audit.output.contains("resumeService"), "\(audit)")
    }

    @Test("a drained node starts no jobs, finishes those that run, serves the API and is not ready")
    func drain() throws {
        let database = try TestDatabase()
        let ferry = try FerryProcess(["FERRY_DATABASE_URL": database.url])
        defer { ferry.remove() }
        let gate = Gate()
        let begun = Signal<Void>()
        let slow = try ScriptedOrigin { connection in
            _ = connection.readRequest()
            begun.fire(())
            _ = gate.pass()
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        }
        defer { slow.stop() }
        defer { gate.open() }
        let origin = try origin()
        defer { origin.stop() }
        let running = try ferry.submit(job(slow))
        #expect(begun.wait().count == 1)
        let nodes = try ferry.json("GET", "/v1/admin/nodes")["data"]?.array
        let node = try #require(nodes?.first?["id"]?.string)
        let environment = ["FERRY_URL": ferry.url, "FERRY_KEY": adminKey]
        let drained = try Program.run(
            [Program.ferry, "admin", "drain", node, "--json"], environment: environment)
        #expect(try JSON.parse(Array(drained.output.utf8))["draining"] == .bool(true), "\(drained)")
        #expect(try ferry.call("GET", "/readyz").status == 503)
        #expect(try ferry.call("GET", "/readyz?verbose").text.contains("[-]not_draining failed"))
        #expect(try ferry.call("GET", "/livez").status == 200)
        for path in ["status", "nodes"] {
            let shown = try ferry.json("GET", "/v1/admin/\(path)")
            let first = (shown["nodes"] ?? shown["data"])?.array?.first
            #expect(first?["draining"] == .bool(true), "\(shown)")
        }
        let later = try ferry.submit(job(origin))
        #expect(try ferry.json("GET", "/v1/jobs/\(later)")["state"] == .string("queued"))
        #expect(try ferry.json("GET", "/v1/jobs/\(running)")["state"] == .string("running"))
        gate.open()
        #expect(try ferry.finished(running)["state"] == .string("succeeded"))
        let isExplained = becomes {
            let job = try ferry.json("GET", "/v1/jobs/\(later)")
            return job["state"] == .string("queued")
                && job["waiting_reason"]?["code"] == .string("no_worker")
        }
        #expect(isExplained)
        let reason = try ferry.json("GET", "/v1/jobs/\(later)")["waiting_reason"]?["detail"]?.string
        #expect(reason?.contains("drained") == true)
        #expect(try ferry.call("GET", "/readyz").status == 503)
        let resumed = try Program.run([Program.ferry, "admin", "resume", node], environment: environment)
        #expect(resumed.status == 0, "\(resumed)")
        #expect(becomes { try ferry.call("GET", "/readyz").status == 200 })
        #expect(try ferry.json("GET", "/v1/admin/status")["nodes"]?.array?.first?["draining"] == .bool(false))
        #expect(try ferry.finished(later)["state"] == .string("succeeded"))
    }

    @Test("a tenant beyond its limit of unfinished jobs gets 429 with Retry-After; others do not")
    func admission() throws {
        let database = try TestDatabase()
        let ferry = try FerryProcess([
            "FERRY_DATABASE_URL": database.url, "FERRY_MAX_UNFINISHED_JOBS": "20",
        ])
        defer { ferry.remove() }
        #expect(try ferry.call("POST", "/v1/admin/pause", "{}").status == 200)
        let later = #"{"kind":"data","request":{"url":"http://127.0.0.1:9/"}}"#
        let key = try ferry.makeKey(role: "client", tenant: "busy")
        for _ in 0..<20 { _ = try ferry.submit(later, key: key) }
        var refusal: BufferedRequest.Response?
        let isRefused = becomes {
            let response = try ferry.call("POST", "/v1/jobs", later, key: key)
            refusal = response
            return response.status == 429
        }
        #expect(isRefused)
        #expect(try refusal?.json["code"] == .string("too_many_jobs"))
        #expect(refusal?.header("ratelimit-policy") == #""jobs";q=20"#)
        #expect((Int(refusal?.header("retry-after") ?? "") ?? 0) >= 1)
        #expect(try ferry.call("POST", "/v1/jobs", later).status == 201, "another tenant")
        let tenants = try ferry.json("GET", "/v1/admin/tenants")["data"]?.array
        #expect(tenants?.contains { $0["tenant"] == .string("busy") } == true)
    }
}
