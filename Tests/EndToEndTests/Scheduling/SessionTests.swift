import Curl
import FerryCore
import Glibc
import TestSupport
import TestThreads
import Testing

@Suite("Sessions", .onOwnThread)
struct SessionTests {
    /// Two nodes with the same storage root.
    private struct Pair {
        let database: TestDatabase
        let first: FerryProcess
        let second: FerryProcess

        init(_ settings: [String: String] = [:]) throws {
            database = try TestDatabase()
            let all = [
                "FERRY_DATABASE_URL": database.url, "FERRY_SECRET_KEY": "one key for both nodes, long enough",
            ].merging(settings) { $1 }
            first = try FerryProcess(all)
            second = try FerryProcess(all.merging(["FERRY_STORAGE_ROOT": first.files]) { $1 })
        }

        func remove() {
            second.remove()
            first.remove()
        }
    }

    @Test("a session changed through one node applies to the next job on the other node")
    func effective() throws {
        let nodes = try Pair()
        defer { nodes.remove() }
        let rounds = Signal<String>()
        let origin = try ScriptedOrigin { connection in
            while let request = connection.readRequest() {
                rounds.fire(request.header("x-round") ?? "none")
                connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
            }
        }
        defer { origin.stop() }
        for round in 0..<10 {
            let timeout = round + 600
            let (one, other) = round % 2 == 0 ? (nodes.first, nodes.second) : (nodes.second, nodes.first)
            let tag = round == 0 ? [:] : ["If-Match": "\"r\(round)\""]
            let put = try one.call(
                "PUT", "/v1/sessions/s",
                #"{"http_additional_headers":{"X-Round":"\#(round)"},"timeout_for_request":\#(timeout)}"#,
                headers: tag)
            #expect(put.status == (round == 0 ? 201 : 200), "\(put.text)")
            let job = try other.run(#"{"kind":"data","session":"s","request":{"url":"\#(origin.url)/"}}"#)
            #expect(job["state"]?.string == "succeeded", "\(job)")
            #expect(job["request"]?["timeout_for_request"]?.double == Double(timeout))
            #expect(rounds.wait().first == "\(round)")
        }
        let sessions = try nodes.second.json("GET", "/v1/sessions")["data"]?.array ?? []
        #expect(sessions.compactMap { $0["identifier"]?.string } == ["default", "s"])
        #expect(try nodes.first.json("GET", "/v1/sessions/s/jobs")["data"]?.array?.count == 10)
    }

    @Test("if a node dies while it cancels an invalidated session, the other node finishes")
    func cancel() throws {
        let nodes = try Pair(["FERRY_CONCURRENCY": "4"])
        defer { nodes.remove() }
        let origin = try HalfwayOrigin(free: 0, trickles: true)
        defer { origin.stop() }
        let batch = origin.batch(0..<400).replacing(#""kind":"#, with: #""session":"s","kind":"#)
        let ids = try nodes.first.submitBatch(batch)
        let other = try nodes.first.submit(
            #"{"kind":"data","request":{"url":"\#(origin.url)/"},"#
                + #""schedule":{"earliest_begin_at":"2100-01-01T00:00:00Z"}}"#)
        #expect(origin.stopped.wait(for: 8, seconds: 240).count >= 8, "both nodes work")
        let invalidate = try nodes.first.call("POST", "/v1/sessions/s/invalidate", #"{"mode":"cancel"}"#)
        #expect(invalidate.status == 200, "\(invalidate.text)")
        nodes.first.kill9()
        let refused = try nodes.second.call("POST", "/v1/jobs/batch", batch)
        #expect(refused.status == 409, "\(refused.text)")
        #expect(try refused.json["code"]?.string == "session_invalidated")
        #expect(
            becomes(seconds: 240) {
                let session = try nodes.second.json("GET", "/v1/sessions/s")
                return session["ended_at"]?.string != nil
            })
        #expect(try nodes.second.allJobs("&session=s").allSatisfy { $0["state"]?.string == "cancelled" })
        #expect(try nodes.second.allJobs("&session=s").count == ids.count)
        #expect(try nodes.second.json("GET", "/v1/jobs/\(other)")["state"]?.string == "waiting")
        #expect(try nodes.second.call("DELETE", "/v1/sessions/s").status == 204)
        let again = #"{"kind":"data","session":"s","request":{"url":"\#(origin.url)/"}}"#
        #expect(try nodes.second.call("POST", "/v1/jobs", again).status == 201, "the name can be used again")
    }

    @Test("with sends_launch_events false, only the jobs' own webhooks get events, not endpoints")
    func launchEvents() throws {
        let database = try TestDatabase()
        let ferry = try FerryProcess(["FERRY_DATABASE_URL": database.url])
        defer { ferry.remove() }
        let receiver = try WebhookReceiver()
        defer { receiver.stop() }
        let origin = try ScriptedOrigin.answering { _, _ in
            Array("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".utf8)
        }
        defer { origin.stop() }
        let endpoint = #"{"url":"\#(receiver.url)/endpoint","events":["job.succeeded"]}"#
        #expect(try ferry.call("POST", "/v1/webhooks", endpoint).status == 201)
        #expect(try ferry.call("PUT", "/v1/sessions/quiet", #"{"sends_launch_events":false}"#).status == 201)
        let quiet = #"{"kind":"data","session":"quiet","request":{"url":"\#(origin.url)/"}"#
        let own = #","webhook":{"url":"\#(receiver.url)/own"}"#
        for body in [quiet + "}", quiet + own + "}"] {
            #expect(try ferry.run(body)["state"]?.string == "succeeded")
        }
        let loud = try ferry.run(#"{"kind":"data","request":{"url":"\#(origin.url)/"}}"#)
        #expect(loud["state"]?.string == "succeeded")
        let deliveries = receiver.deliveries.wait(for: 2).map(\.json)
        let sessions = deliveries.compactMap { $0["data"]?["session"]?.string }
        #expect(sessions.sorted() == ["default", "quiet"], "\(deliveries)")
        #expect(receiver.deliveries.wait(for: 1, seconds: 1).isEmpty)
    }

    @Test("a session's rate applies on all nodes, and a change applies to running jobs")
    func rate() throws {
        let nodes = try Pair()
        defer { nodes.remove() }
        let nginx = try Nginx()
        defer { nginx.stop() }
        // With the limit, both downloads take ten minutes.
        try nginx.serve("file", [])
        #expect(truncate(nginx.root + "/file", 30_000_000) == 0)
        #expect(becomes { try nodes.first.json("GET", "/v1/admin/nodes")["data"]?.array?.count == 2 })
        let put = { (rate: String, tag: [String: String]) in
            try nodes.first.call(
                "PUT", "/v1/sessions/slow", #"{"max_bytes_per_second":\#(rate)}"#, headers: tag
            ).status
        }
        #expect(try put("100000", [:]) == 201)
        let body = { (path: String) in
            #"{"kind":"download","session":"slow","request":{"url":"\#(nginx.url)/file"},"#
                + #""destination":{"path":"\#(path)"}}"#
        }
        let ids = [try nodes.first.submit(body("a")), try nodes.second.submit(body("b"))]
        #expect(
            becomes {
                try ids.allSatisfy { id in
                    let job = try nodes.first.json("GET", "/v1/jobs/\(id)")
                    return job["state"]?.string == "running"
                }
            })
        #expect(try put("null", ["If-Match": "\"r1\""]) == 200)
        for id in ids { #expect(try nodes.second.finished(id)["state"]?.string == "succeeded") }
    }

    @Test(
        "after invalidation with finish, jobs finish despite a crash, and one event reports the end")
    func finish() throws {
        let receiver = try WebhookReceiver()
        defer { receiver.stop() }
        let database = try TestDatabase()
        let ferry = try FerryProcess(["FERRY_DATABASE_URL": database.url, "FERRY_CONCURRENCY": "2"])
        defer { ferry.remove() }
        let origin = try HalfwayOrigin(free: 0, trickles: true)
        defer { origin.stop() }
        let batch = origin.batch(0..<6).replacing(#""kind":"#, with: #""session":"s","kind":"#)
        _ = try ferry.submitBatch(batch)
        #expect(origin.stopped.wait(for: 2).count == 2)
        let withWebhook = try ferry.submit(
            #"{"kind":"data","session":"s","request":{"url":"\#(origin.url)/f/7"},"#
                + #""webhook":{"url":"\#(receiver.url)","events":["job.succeeded","session.invalidated"]}}"#)
        #expect(
            try ferry.call("POST", "/v1/sessions/s/invalidate", #"{"mode":"finish"}"#).status == 200)
        #expect(try ferry.call("POST", "/v1/jobs/batch", batch).status == 409)
        let session = try ferry.json("GET", "/v1/sessions/s")
        #expect(session["ended_at"] == .null && session["jobs"]?["running"]?.integer == 2)
        #expect(try ferry.call("DELETE", "/v1/sessions/s").status == 409)
        ferry.kill9()
        try ferry.start()
        origin.open()
        #expect(becomes(seconds: 240) { try ferry.json("GET", "/v1/sessions/s")["ended_at"]?.string != nil })
        let jobs = try ferry.allJobs("&session=s")
        #expect(jobs.count == 7 && jobs.allSatisfy { $0["state"]?.string == "succeeded" })
        #expect(try ferry.call("POST", "/v1/jobs/batch", batch).status == 409, "also after a restart")
        let deliveries = receiver.deliveries.wait(for: 2, seconds: 60).map(\.json)
        #expect(
            Set(deliveries.compactMap { $0["type"]?.string }) == ["job.succeeded", "session.invalidated"])
        let end = deliveries.first { $0["type"]?.string == "session.invalidated" }
        #expect(end?["data"]?["session"]?.string == "s" && end?["data"]?["job"] == .null)
        let sequences = deliveries.compactMap { $0["data"]?["sequence"]?.integer }
        #expect(end?["data"]?["sequence"]?.integer == sequences.max(), "after the last job's event")
        #expect(try ferry.json("GET", "/v1/jobs/\(withWebhook)")["state"]?.string == "succeeded")
    }
}
