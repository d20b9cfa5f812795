import Curl
import FerryCore
import Glibc
import Sys
import TestSupport
import TestThreads
import Testing

@Suite("Requests of clients", .onOwnThread)
struct RequestTests {
    private let ferry: FerryProcess

    init() throws { ferry = try FerryProcess.shared.get().ferry }

    /// Returns an origin that answers 200 with `ok`.
    private func plainOrigin() throws -> ScriptedOrigin {
        try ScriptedOrigin.answering { _, _ in Array("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".utf8) }
    }

    @Test("cancelling a running job closes its connection and leaves no file; a second cancel gets 409")
    func cancel() throws {
        let begun = Signal<Void>()
        let closed = Signal<Void>()
        let origin = try ScriptedOrigin { connection in
            _ = connection.readRequest()
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nsome bytes")
            begun.fire(())
            if connection.waitUntilClosed() { closed.fire(()) }
        }
        defer { origin.stop() }
        let id = try ferry.submit(
            #"{"kind":"download","request":{"url":"\#(origin.url)/x","timeout_for_request":600},"#
                + #""destination":{"path":"cancel/x"}}"#)
        #expect(begun.wait().count == 1)
        #expect(try ferry.call("POST", "/v1/jobs/\(id)/cancel", "{}").status == 200)
        #expect(closed.wait().count == 1)
        #expect(try ferry.finished(id)["state"]?.string == "cancelled")
        #expect(becomes { names(in: ferry.files + "/cancel").isEmpty })
        let again = try ferry.call("POST", "/v1/jobs/\(id)/cancel", "{}")
        #expect(again.status == 409)
        #expect(try again.json["code"]?.string == "invalid_state")
    }

    @Test("repeated header fields reach the server in order, and the response shows every line of its own")
    func repeatedFields() throws {
        let origin = try ScriptedOrigin.answering { _, _ in
            Array(
                ("HTTP/1.1 200 OK\r\nVia: a\r\nSet-Cookie: n=1\r\nvia: b\r\nSet-Cookie: m=2\r\n"
                    + "Content-Length: 2\r\n\r\nok").utf8)
        }
        defer { origin.stop() }
        let job = try ferry.run(
            #"{"kind":"data","request":{"url":"\#(origin.url)/","header_fields":["#
                + #"{"name":"X-Tag","value":"1"},{"name":"Cookie","value":"hush"},"#
                + #"{"name":"x-tag","value":"2"}]}}"#
        )
        #expect(job["state"]?.string == "succeeded", "\(job)")
        let sent = origin.requests.first?.lines.filter { $0.lowercased().hasPrefix("x-tag:") }
        #expect(sent == ["X-Tag: 1", "x-tag: 2"])
        let lines = { (part: String) in
            job[part]?["header_fields"]?.array?.map {
                "\($0["name"]?.string ?? "?"): \($0["value"]?.string ?? "hidden")"
            }
        }
        #expect(lines("request") == ["X-Tag: 1", "Cookie: hidden", "x-tag: 2"])
        #expect(job["request"]?["headers"]?["X-Tag"]?.string == "1, 2")
        #expect(
            lines("response") == [
                "Via: a", "Set-Cookie: n=1", "via: b", "Set-Cookie: m=2", "Content-Length: 2",
            ])
        #expect(
            job["response"]?["headers"] == .object([.init("Via", "a, b"), .init("Content-Length", "2")]))
    }

    @Test("an idempotency key with the same body replays the first response; another body gets 422")
    func idempotency() throws {
        let origin = try plainOrigin()
        defer { origin.stop() }
        let submit = { (path: String, key: String) in
            try ferry.call(
                "POST", "/v1/jobs", #"{"kind":"data","request":{"url":"\#(origin.url)\#(path)"}}"#,
                headers: ["Idempotency-Key": key])
        }
        let first = try submit("/one", "\"same\"")
        let second = try submit("/one", "same")
        #expect(first.status == 201 && second.status == 201)
        #expect(try first.json["id"] == second.json["id"])
        let spaced = try ferry.call(
            "POST", "/v1/jobs",
            #" { "request" : {"url":"\#(origin.url)\u002fone"}, "kind" : "data" } "#,
            headers: ["Idempotency-Key": "same"])
        #expect(try spaced.status == 201 && spaced.json["id"] == first.json["id"], "\(spaced.text)")
        let other = try submit("/other", "same")
        #expect(other.status == 422)
        #expect(try other.json["code"]?.string == "idempotency_key_reused")
        _ = try ferry.finished(first.json["id"]?.string ?? "")
        #expect(origin.requests.count == 1)
    }

    @Test("an idempotency key is rejected with 422 on another route of the same tenant")
    func idempotencyScope() throws {
        let origin = try plainOrigin()
        defer { origin.stop() }
        let job = #"{"kind":"data","request":{"url":"\#(origin.url)/scope"}}"#
        let first = try ferry.call("POST", "/v1/jobs", job, headers: ["Idempotency-Key": "scope"])
        let id = try #require(try first.json["id"]?.string)
        _ = try ferry.finished(id)
        for (path, body) in [
            ("/v1/jobs/batch", #"{"jobs":[\#(job)]}"#), ("/v1/jobs/\(id)/retry", "{}"),
            ("/v1/webhooks", #"{"url":"https://hooks.example/"}"#),
            ("/v1/schedules", #"{"interval":60,"enabled":false,"job":\#(job)}"#),
            ("/v1/admin/keys", #"{"name":"scope","role":"viewer"}"#),
        ] {
            let other = try ferry.call("POST", path, body, headers: ["Idempotency-Key": "scope"])
            #expect(other.status == 422, "\(path): \(other.text)")
            #expect(try other.json["code"]?.string == "idempotency_key_reused", "\(path)")
            // Every route that creates an object accepts a key.
            let key = ["Idempotency-Key": "scope-\(path)"]
            let created = try ferry.call("POST", path, body, headers: key)
            let again = try ferry.call("POST", path, "\n \(body) ", headers: key)
            #expect(created.status == 201 && again.status == 201, "\(path): \(created.text)")
            #expect(again.header("idempotency-replayed") == "true", "\(path)")
            #expect(try created.json["id"] == again.json["id"] && created.json["data"] == again.json["data"])
        }
        // The keys of another tenant are independent.
        let tenant = try ferry.makeKey(role: "client", tenant: "scope")
        let theirs = try ferry.call(
            "POST", "/v1/jobs", job, headers: ["Idempotency-Key": "scope"], key: tenant)
        #expect(theirs.status == 201 && theirs.header("idempotency-replayed") == nil)
        #expect(try theirs.json["id"] != first.json["id"])
    }

    @Test("a batch with a wrong job is rejected whole, with pointers to the jobs")
    func batch() throws {
        let origin = try plainOrigin()
        defer { origin.stop() }
        let good = #"{"kind":"data","request":{"url":"\#(origin.url)/"},"metadata":{"batch":"bad"}}"#
        let body = #"{"jobs":[\#(good),{"kind":"data","request":{"url":7}},{"kind":"data","extra":1}]}"#
        let refused = try ferry.call("POST", "/v1/jobs/batch", body)
        #expect(refused.status == 422 && refused.header("content-type") == "application/problem+json")
        let pointers = try (refused.json["errors"]?.array ?? []).compactMap { $0["pointer"]?.string }
        #expect(
            Set(pointers) == ["#/jobs/1/request/url", "#/jobs/2/request", "#/jobs/2/extra"], "\(pointers)")
        #expect(try ferry.allJobs("&metadata.batch=bad").isEmpty && origin.requests.isEmpty)
        #expect(try ferry.call("POST", "/v1/jobs/batch", "{\"jobs\":[").status == 400)
    }

    @Test("an NDJSON batch is accepted, and the response lists its jobs in order")
    func lines() throws {
        let origin = try plainOrigin()
        defer { origin.stop() }
        let body = (0..<30).map { index in
            #"{"kind":"data","request":{"url":"\#(origin.url)/\#(index)"},"metadata":{"n":"\#(index)"}}"#
        }.joined(separator: "\n")
        let response = try ferry.call(
            "POST", "/v1/jobs/batch", body + "\n\n", headers: ["Content-Type": "application/x-ndjson"])
        #expect(response.status == 201, "\(response.text)")
        let ids = try (response.json["data"]?.array ?? []).compactMap { $0["id"]?.string }
        #expect(ids.count == 30)
        for (index, id) in ids.enumerated() {
            let job = try ferry.finished(id)
            #expect(job["state"]?.string == "succeeded" && job["metadata"]?["n"]?.string == "\(index)")
        }
    }

    @Test("a list continues at its cursor while jobs are added, and its filters apply")
    func lists() throws {
        let origin = try plainOrigin()
        defer { origin.stop() }
        let one = #"{"kind":"data","request":{"url":"\#(origin.url)/"},"metadata":{"list":"a"}}"#
        let ids = try ferry.submitBatch(
            #"{"jobs":[\#(Array(repeating: one, count: 25).joined(separator: ","))]}"#)
        var listedIDs: [String] = []
        var path: String? = "/v1/jobs?limit=10&metadata.list=a"
        while let next = path {
            let response = try ferry.call("GET", next)
            let page = try response.json
            listedIDs += (page["data"]?.array ?? []).compactMap { $0["id"]?.string }
            _ = try ferry.submit(#"{"kind":"data","request":{"url":"\#(origin.url)/"}}"#)
            path = page["next_cursor"]?.string.map { "/v1/jobs?limit=10&metadata.list=a&cursor=\($0)" }
            #expect((response.header("link")?.contains(#"rel="next""#) == true) == (path != nil))
        }
        #expect(Set(listedIDs) == Set(ids) && listedIDs.count == 25 && listedIDs == listedIDs.sorted(by: >))
        #expect(try ferry.allJobs("&metadata.list=a&kind=upload").isEmpty)
        #expect(try ferry.allJobs("&metadata.list=b").isEmpty)
    }

    @Test("a failed job shows its error and its retry, and the retry names it in retry_of")
    func failures() throws {
        let nginx = try Nginx()
        defer { nginx.stop() }
        let body =
            #"{"kind":"download","request":{"url":"\#(nginx.url)/none"},"destination":{"path":"none"}}"#
        let missing = try ferry.run(body)
        #expect(missing["state"]?.string == "failed" && missing["response"]?["status"]?.integer == 404)
        #expect(missing["error"]?["code"]?.string == "unacceptable_status", "\(missing)")
        #expect(missing["error"]?["class"]?.string == "http_status")
        try nginx.serve("none", [1, 2, 3])
        let again = try ferry.call("POST", "/v1/jobs/\(missing["id"]?.string ?? "")/retry", "{}")
        #expect(again.status == 201)
        let second = try ferry.finished(again.json["id"]?.string ?? "")
        #expect(second["state"]?.string == "succeeded" && second["retry_of"] == missing["id"])
        let retried = try ferry.finished(missing["id"]?.string ?? "")
        #expect(retried["retried_by"] == second["id"] && missing["retried_by"] == .null)
        let changed = try #require(retried.members?.filter { missing[$0.name] != $0.value }.map(\.name))
        #expect(changed == ["revision", "retried_by"], "a terminal job changed otherwise")
        let cut = try ScriptedOrigin { connection in
            _ = connection.readRequest()
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort")
        }
        defer { cut.stop() }
        let short = try ferry.run(
            #"{"kind":"download","request":{"url":"\#(cut.url)/"},"destination":{"path":"short"},"#
                + #""retry":{"max_attempts":2,"initial_delay":0}}"#)
        #expect(short["error"]?["code"]?.string == "incomplete_body", "\(short)")
        #expect(cut.connectionCount == 2 && !names(in: ferry.files).contains("short"))
    }

    @Test("a full disk fails the job with storage_full and leaves no file")
    func diskFull() throws {
        let nginx = try Nginx()
        defer { nginx.stop() }
        try nginx.serve("large", patternBytes(3_000_000))
        try nginx.serve("little", [1, 2, 3])
        let small = try SmallFileSystem(ferry.files + "/small", byteCount: 1 << 20)
        defer { small.remove() }
        let download = { (name: String) in
            try ferry.run(
                #"{"kind":"download","request":{"url":"\#(nginx.url)/\#(name)"},"#
                    + #""destination":{"path":"small/\#(name)"},"retry":{"max_attempts":1}}"#)
        }
        let full = try download("large")
        #expect(full["state"]?.string == "failed", "\(full)")
        #expect(full["error"]?["code"]?.string == "storage_full", "\(full)")
        #expect(becomes { names(in: ferry.files + "/small").isEmpty })
        #expect(try download("little")["state"]?.string == "succeeded")
        #expect(becomes { try ferry.call("GET", "/readyz").status == 200 })
    }
}

extension RequestTests {
    @Test(
        "jobs to a full file system that no setting monitors wait until it has space; others run"
    )
    func fullFileSystem() throws {
        let origin = try RangeOrigin(patternBytes(3_000_000))
        defer { origin.stop() }
        let small = try SmallFileSystem(ferry.files + "/held", byteCount: 4 << 20)
        defer { small.remove() }
        try writeFile(small.path + "/ballast", [UInt8](repeating: 0, count: 3 << 20))
        let job = { (path: String) in
            #"{"kind":"download","request":{"url":"\#(origin.url)"},"destination":{"path":"\#(path)"},"#
                + #""retry":{"max_attempts":2,"initial_delay":0.1,"max_delay":0.1}}"#
        }
        let waiting = try ferry.submit(job("held/file"))
        // More attempts than `max_attempts`: an attempt that finds no disk space does not count.
        #expect(
            becomes {
                let job = try ferry.json("GET", "/v1/jobs/\(waiting)")
                return job["attempt"]?.integer ?? 0 > 4
                    && job["waiting_reason"]?["code"]?.string == "storage_low"
            })
        #expect(origin.requests.count == 1, "no request is sent without disk space")
        #expect(try ferry.run(job("elsewhere"))["state"]?.string == "succeeded")
        unlink(small.path + "/ballast")
        let done = try ferry.finished(waiting)
        #expect(done["state"]?.string == "succeeded", "\(done)")
        let isExact = readFile(small.path + "/file") == patternBytes(3_000_000)
        #expect(isExact)
    }
}
