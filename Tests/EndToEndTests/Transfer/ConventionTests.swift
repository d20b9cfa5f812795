import Curl
import FerryCore
import TestSupport
import TestThreads
import Testing

/// Rules that apply to all endpoints of the API.
@Suite("Conventions of the API", .onOwnThread)
struct ConventionTests {
    private let ferry: FerryProcess

    init() throws { ferry = try FerryProcess.shared.get().ferry }

    @Test("event streams send progress of running jobs of their session, unless progress is false")
    func progress() throws {
        let origin = try HalfwayOrigin(free: 0)
        defer { origin.stop() }
        let id = try ferry.submit(
            #"{"kind":"data","session":"far","request":{"url":"\#(origin.url)/f/1"}}"#)
        #expect(origin.stopped.wait().count == 1)
        let paths = ["/v1/events?session=far", "/v1/jobs/\(id)/events"]
        let listeners = try paths.map { try EventListener(ferry, $0) }
        let others = try ["/v1/events?session=far&progress=false", "/v1/jobs/\(id)/events?progress=false"]
            .map { try EventListener(ferry, $0) }
        let otherSession = try EventListener(ferry, "/v1/events?session=near")
        defer { for listener in listeners + others + [otherSession] { listener.stop() } }
        for listener in listeners {
            let hasProgress = becomes {
                listener.messages.wait(seconds: 1).contains { message in
                    message.event == "progress" && message.data["job"]?.string == id
                        && message.data["progress"]?["bytes_received"]?.integer == 10_000
                }
            }
            #expect(hasProgress)
        }
        origin.open()
        for other in others {
            var received: [EventListener.Message] = []
            #expect(
                becomes {
                    received += other.messages.wait(seconds: 1)
                    return received.contains { $0.event == "job.succeeded" }
                })
            #expect(!received.contains { $0.event == "progress" })
        }
        #expect(!otherSession.messages.wait(seconds: 1).contains { $0.event == "progress" })
        let refused = try ferry.call("GET", "/v1/events?progress=true")
        #expect(refused.status == 400 && refused.text.contains("text/event-stream"))
    }

    @Test(
        "an unknown query parameter is rejected with 400 by every route",
        arguments: [
            ("POST", "/v1/jobs"), ("PATCH", "/v1/jobs/x"), ("DELETE", "/v1/jobs/x"),
            ("PUT", "/v1/sessions/x"),
            ("GET", "/v1/webhooks/x"), ("GET", "/v1/deliveries/x"), ("GET", "/v1/jobs/x/content"),
            ("GET", "/v1/admin/status"), ("GET", "/v1/admin/nodes"), ("GET", "/v1/admin/keys"),
            ("GET", "/v1/admin/limits"), ("GET", "/v1/admin/windows"), ("GET", "/v1/admin/tenants"),
            ("POST", "/v1/admin/pause"), ("GET", "/livez"),
        ])
    func unknownParameter(_ method: String, _ path: String) throws {
        let response = try ferry.call(method, path + "?wiat=1", method == "GET" ? nil : "{}")
        #expect(response.status == 400 && response.text.contains("wiat"), "\(response)")
        #expect(try response.json["code"]?.string == "invalid_parameter")
    }

    @Test("operator lists have pages; a wrong limit or cursor is rejected")
    func pages() throws {
        for path in ["nodes", "tenants", "hosts", "audit"].map({ "/v1/admin/\($0)" }) + ["/v1/sessions"] {
            #expect(try ferry.call("GET", path + "?limit=1").status == 200, "\(path)")
            #expect(try ferry.call("GET", path + "?limit=501").status == 400, "\(path)")
            #expect(
                try ferry.json("GET", path + "?cursor=junk")["code"]?.string == "invalid_cursor", "\(path)")
        }
    }

    @Test("an encoded body, another charset and a missing body are rejected with a message")
    func bodies() throws {
        let job = #"{"kind":"data","request":{"url":"http://127.0.0.1:1/"}}"#
        let encoded = try ferry.call("POST", "/v1/jobs", job, headers: ["Content-Encoding": "gzip"])
        #expect(encoded.status == 415 && encoded.text.contains("Content-Encoding"))
        let type = "application/json; charset=latin1"
        #expect(try ferry.call("POST", "/v1/jobs", job, headers: ["Content-Type": type]).status == 415)
        for type in ["application/ndjson", "application/jsonl"] {
            let lines = job + "\n" + job + "\n"
            let batch = try ferry.call("POST", "/v1/jobs/batch", lines, headers: ["Content-Type": type])
            #expect(batch.status == 201, "\(batch)")
        }
        let missing = try ferry.call("POST", "/v1/sessions/default/invalidate")
        #expect(missing.status == 400 && missing.text.contains("needs a body"), "\(missing)")
        let mode = #"{"mode":"finish"}"#
        let standard = try ferry.call("POST", "/v1/sessions/default/invalidate", mode)
        #expect(standard.status == 409 && standard.text.contains("never invalidated"), "\(standard)")
        let endpoint = try #require(
            try ferry.json("POST", "/v1/webhooks", #"{"url":"http://127.0.0.1:1/"}"#)["id"]?.string)
        let deliveries = "/v1/webhooks/\(endpoint)/deliveries?type="
        #expect(try ferry.call("GET", deliveries + "job.nothing").status == 400)
        #expect(try ferry.call("GET", deliveries + "webhook.ping").status == 200)
        #expect(try ferry.call("DELETE", "/v1/webhooks/\(endpoint)").status == 204)
    }

    @Test("operator objects have ETags: 304 for If-None-Match, 412 for a stale If-Match")
    func tags() throws {
        let changes = [
            (
                "limits", #"{"max_bytes_per_second_per_host":9007199254740991}"#,
                #"{"max_bytes_per_second_per_host":null}"#
            ),
            ("hosts/tagged.example", #"{"maximum_connections":5}"#, #"{"maximum_connections":6}"#),
            (
                "windows",
                #"{"windows":[{"name":"n","cron":"0 3 1 1 *","duration":60,"discretionary":false}]}"#,
                #"{"windows":[]}"#
            ),
        ]
        for (name, first, second) in changes {
            let path = "/v1/admin/\(name)"
            let tag = try #require(try ferry.call("GET", path).header("etag"), "\(name)")
            let unchanged = try ferry.call("GET", path, headers: ["If-None-Match": tag])
            #expect(unchanged.status == 304 && unchanged.body.isEmpty, "\(name)")
            #expect(try ferry.call("PATCH", path, first, headers: ["If-Match": tag]).status == 200, "\(name)")
            let late = try ferry.call("PATCH", path, second, headers: ["If-Match": tag])
            #expect(late.status == 412 && late.text.contains("stale"), "\(name): \(late)")
            let now = try #require(try ferry.call("GET", path).header("etag"))
            #expect(
                try ferry.call("PATCH", path, second, headers: ["If-Match": now]).status == 200, "\(name)")
        }
    }

    @Test("an API key is created once per idempotency key, readable, and revoked with If-Match")
    func keys() throws {
        let body = #"{"name":"once","role":"viewer"}"#
        let make = { (body: String) in
            try ferry.call("POST", "/v1/admin/keys", body, headers: ["Idempotency-Key": "key-once"])
        }
        let (first, again) = (try make(body), try make(body))
        #expect(first.status == 201 && again.status == 201, "\(first) \(again)")
        #expect(again.header("idempotency-replayed") == "true")
        let key = try #require(try first.json["key"]?.string)
        #expect(try again.json == first.json)
        #expect(try ferry.call("GET", "/v1/jobs?limit=1", key: key).status == 200)
        #expect(try make(#"{"name":"twice","role":"viewer"}"#).status == 422)
        let path = try #require(first.header("location"))
        let read = try ferry.call("GET", path)
        #expect(read.status == 200 && !read.text.contains(key))
        #expect(try ferry.json("GET", "/v1/admin/keys?limit=1")["data"]?.array?.count == 1)
        // Other tests create keys meanwhile, so the key is only among the newest.
        let newest = try ferry.json("GET", "/v1/admin/keys?limit=500")["data"]?.array
        let id = try first.json["id"]
        #expect(newest?.filter { $0["id"] == id }.count == 1)
        let tag = try #require(read.header("etag"))
        #expect(try ferry.call("DELETE", path, headers: ["If-Match": "\"old\""]).status == 412)
        #expect(try ferry.call("DELETE", path, headers: ["If-Match": tag]).status == 204)
        #expect(try ferry.call("GET", "/v1/jobs?limit=1", key: key).status == 401)
    }

    @Test("jobs are listed by several states, and by host with or without scheme and port")
    func jobs() throws {
        let origin = try HalfwayOrigin(free: 1)
        defer { origin.stop() }
        let job = #"{"kind":"data","session":"narrowed","request":{"url":"\#(origin.url)/f/1"}}"#
        let done = try #require(try ferry.run(job)["id"]?.string)
        let running = try ferry.submit(job)
        #expect(origin.stopped.wait().count == 1)
        let ids = { (query: String) in
            try ferry.json("GET", "/v1/jobs?session=narrowed&\(query)")["data"]?.array?
                .compactMap { $0["id"]?.string } ?? []
        }
        #expect(try ids("state=running,succeeded") == [running, done])
        #expect(try ids("state=queued,succeeded") == [done] && ids("state=running") == [running])
        let hostAndPort = String(origin.url.dropFirst("http://".count))
        for host in [hostAndPort, origin.url, "127.0.0.1"] {
            #expect(try ids("host=\(host)").count == 2, "\(host)")
        }
        #expect(try ids("host=https://\(hostAndPort)").isEmpty && ids("host=127.0.0.1:1").isEmpty)
        let refused = try ferry.call("GET", "/v1/jobs?host=\(origin.url)/f/1")
        #expect(refused.status == 400 && refused.text.contains("without a path"))
    }
}
