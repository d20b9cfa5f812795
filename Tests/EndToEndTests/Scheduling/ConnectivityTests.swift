import Curl
import FerryCore
import Sys
import TestSupport
import TestThreads
import Testing

@Suite("Unreachable hosts", .onOwnThread)
struct ConnectivityTests {
    private let database: TestDatabase

    init() throws { database = try TestDatabase() }

    private func start(_ settings: [String: String] = [:]) throws -> FerryProcess {
        try FerryProcess(["FERRY_DATABASE_URL": database.url].merging(settings) { $1 })
    }

    /// Returns a batch of jobs that wait for connectivity.
    private func batch(_ url: String, _ count: Int, _ more: String = "") -> String {
        let jobs = (0..<count).map { number in
            #"{"kind":"data","request":{"url":"\#(url)/\#(number)"},"#
                + #""schedule":{"waits_for_connectivity":true}\#(more)}"#
        }
        return #"{"jobs":[\#(jobs.joined(separator: ","))]}"#
    }

    private func metric(_ name: String, _ ferry: FerryProcess) throws -> Int {
        let text = try ferry.call("GET", "/metrics").text
        let line = text.split(separator: "\n").first { $0.hasPrefix(name + " ") || $0.hasPrefix(name + "{") }
        return line?.split(separator: " ").last.flatMap { Double($0) }.map { Int($0) } ?? 0
    }

    private func waiting(_ ferry: FerryProcess) throws -> Int {
        try ferry.allJobs("&state=waiting").count { $0["waiting_for"]?.string == "connectivity" }
    }

    @Test("jobs of a stopped origin wait without using attempts and succeed when the origin starts")
    func stoppedOrigin() throws {
        let ferry = try start(["FERRY_CONCURRENCY": "8"])
        defer { ferry.remove() }
        let receiver = try WebhookReceiver()
        defer { receiver.stop() }
        let port = try FreePort.find()
        let ids = try ferry.submitBatch(
            batch(
                "http://127.0.0.1:\(port)", 20,
                #","retry":{"max_attempts":1},"webhook":{"url":"\#(receiver.url)","events":"#
                    + #"["job.waiting_for_connectivity","job.succeeded"]}"#))
        #expect(becomes { try waiting(ferry) == 20 })
        // The jobs whose attempts failed are queued again for a moment when they retry.
        var one: JSON?
        let isExplained = becomes {
            one = try ferry.json("GET", "/v1/jobs/\(ids[0])")
            return one?["waiting_reason"]?["code"]?.string == "connectivity"
        }
        #expect(isExplained && one?["error"]?["code"]?.string == "could_not_connect", "\(one ?? .null)")
        #expect(becomes { try metric("ferry_host_probes_total", ferry) >= 2 })
        let isShown = becomes {
            one = try ferry.json("GET", "/v1/jobs/\(ids[19])")
            let at = one?["waiting_reason"]?["next_check_at"]?.string.flatMap { Timestamp(rfc3339: $0) }
            return one?["next_attempt_at"]?.isNull == true && at.map { $0.microseconds > 0 } == true
        }
        #expect(isShown, "the shared probe's time: \(one ?? .null)")
        let begun = try metric("ferry_attempts_started_total", ferry)
        #expect(becomes { try metric("ferry_host_probes_total", ferry) >= 3 })
        #expect(try metric("ferry_attempts_started_total", ferry) == begun, "only the probe connects")
        let origin = try ScriptedOrigin(port: port) { connection in
            while connection.readRequest() != nil {
                guard connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") else { return }
            }
        }
        defer { origin.stop() }
        for id in ids {
            let job = try ferry.finished(id)
            #expect(job["state"]?.string == "succeeded", "\(job)")
        }
        #expect(origin.requests.count == 20)
        let types = receiver.deliveries.wait(for: 40).compactMap { $0.json["type"]?.string }
        #expect(types.count { $0 == "job.waiting_for_connectivity" } == 20 && types.count == 40)
    }

    @Test("a job for an https URL of a host without TLS fails with tls_failed after its attempts")
    func withoutTLS() throws {
        let ferry = try start()
        defer { ferry.remove() }
        let nginx = try Nginx()
        defer { nginx.stop() }
        let url = "https" + nginx.url.dropFirst("http".count)
        let job = try ferry.run(
            #"{"kind":"data","request":{"url":"\#(url)/"},"retry":{"max_attempts":3,"initial_delay":0.01}}"#)
        #expect(job["state"]?.string == "failed" && job["attempt"]?.integer == 3, "\(job)")
        #expect(job["error"]?["code"]?.string == "tls_failed")
        #expect(job["error"]?["message"]?.string?.contains("does not speak TLS") == true, "\(job)")
    }

    @Test(
        "hosts that accept connections and send nothing do not block jobs of other hosts",
        arguments: ["https", "http"])
    func silentHosts(scheme: String) throws {
        let ferry = try start(["FERRY_CONCURRENCY": "2"])
        defer { ferry.remove() }
        let gate = Gate()
        // Each host accepts connections and sends neither a handshake nor a response.
        let silent = try (0..<6).map { _ in
            try ScriptedOrigin { _ in _ = gate.pass(seconds: 600) }
        }
        let origin = try ScriptedOrigin.answering { _, _ in
            Array("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".utf8)
        }
        defer {
            gate.open()
            for one in silent + [origin] { one.stop() }
        }
        let began = monotonicNanoseconds()
        let first = try silent.map { one in
            try ferry.submit(#"{"kind":"data","request":{"url":"\#(scheme)://127.0.0.1:\#(one.port)/"}}"#)
        }
        // This job is queued after all of them and ends long before the first of them times out.
        let id = try ferry.submit(#"{"kind":"data","request":{"url":"\#(origin.url)/"}}"#)
        #expect(try ferry.finished(id)["state"]?.string == "succeeded")
        // Some of the others may begin after it. A handshake times out after 30 s: on a machine so slow that
        // some may time out before all attempts have stalled, other attempts follow.
        if monotonicNanoseconds() - began < 12_000_000_000 {
            #expect(becomes(seconds: 15) { try metric("ferry_attempts_stalled", ferry) == 6 })
        }
        for one in first { _ = try ferry.call("POST", "/v1/jobs/\(one)/cancel") }
        #expect(becomes { try metric("ferry_worker_slots_free", ferry) == 2 })
        #expect(becomes { try metric("ferry_attempts_stalled", ferry) == 0 })
    }

    @Test("a host that does not respond gets fewer than ten connections until it responds")
    func unanswered() throws {
        let ferry = try start(["FERRY_CONCURRENCY": "2"])
        defer { ferry.remove() }
        let gate = Gate()
        let response = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
        let silent = try ScriptedOrigin { connection in
            _ = connection.readRequest()
            _ = gate.pass(seconds: 600)
            connection.send(response)
        }
        let origin = try ScriptedOrigin.answering { _, _ in Array(response.utf8) }
        defer {
            gate.open()
            for one in [silent, origin] { one.stop() }
        }
        let first = try ferry.submitBatch(batch(silent.url, 30))
        let id = try ferry.submit(#"{"kind":"data","request":{"url":"\#(origin.url)/"}}"#)
        #expect(try ferry.finished(id)["state"]?.string == "succeeded")
        let hosts = try ferry.json("GET", "/v1/admin/hosts")["data"]?.array
        let host = try #require(hosts?.first { $0["host"]?.string == silent.url })
        let scope = try #require(host["scopes"]?.array?.first, "\(host)")
        #expect(scope["state"]?.string == "limited", "\(host)")
        #expect(scope["connection_limit"]?.integer ?? 99 < 10 && silent.connectionCount < 10, "\(host)")
        gate.open()
        for id in first { #expect(try ferry.finished(id)["state"]?.string == "succeeded") }
    }

    @Test("while an origin is down, every connection is a first attempt or a probe")
    func oneProber() throws {
        let ferry = try start(["FERRY_CONCURRENCY": "4"])
        defer { ferry.remove() }
        // The origin closes each connection during the handshake.
        let origin = try ScriptedOrigin { _ in }
        defer { origin.stop() }
        let url = "https://127.0.0.1:\(origin.port)"
        _ = try ferry.submitBatch(batch(url, 20))
        #expect(becomes { try waiting(ferry) == 20 })
        #expect(becomes { try metric("ferry_host_probes_total", ferry) >= 3 })
        #expect(
            becomes {
                let begun = try metric("ferry_attempts_started_total", ferry)
                return try origin.connectionCount == begun + metric("ferry_host_probes_total", ferry)
            })
        #expect(try metric("ferry_attempts_started_total", ferry) <= 20, "jobs were tried more than once")
    }

    @Test("by default, a job fails after its attempts while others wait")
    func withoutWaiting() throws {
        let ferry = try start()
        defer { ferry.remove() }
        let url = "http://127.0.0.1:\(try FreePort.find())"
        _ = try ferry.submitBatch(batch(url, 3))
        #expect(becomes { try metric("ferry_host_probes_total", ferry) >= 1 })
        let job = try ferry.run(
            #"{"kind":"data","request":{"url":"\#(url)/"},"retry":{"max_attempts":2,"initial_delay":0.01}}"#)
        #expect(job["state"]?.string == "failed" && job["attempt"]?.integer == 2, "\(job)")
        #expect(job["error"]?["class"]?.string == "connectivity")
    }

    @Test("a job submitted while its host is unreachable has no attempt and no job.started")
    func notBegun() throws {
        let ferry = try start()
        defer { ferry.remove() }
        let port = try FreePort.find()
        let url = "http://127.0.0.1:\(port)"
        _ = try ferry.submitBatch(batch(url, 3))
        #expect(becomes { try metric("ferry_host_probes_total", ferry) >= 1 && waiting(ferry) == 3 })
        let ids = try ferry.submitBatch(batch(url, 5))
        #expect(becomes { try waiting(ferry) == 8 })
        let types = { (id: String) in
            try ferry.json("GET", "/v1/jobs/\(id)/events")["data"]?.array?.compactMap { $0["type"]?.string }
        }
        for id in ids {
            let job = try ferry.json("GET", "/v1/jobs/\(id)")
            #expect(job["attempt"]?.integer == 0 && job["started_at"]?.isNull == true, "\(job)")
            #expect(job["error"]?["code"]?.string == "could_not_connect")
            #expect(becomes { try types(id)?.contains("job.waiting_for_connectivity") == true })
            #expect(try types(id)?.contains("job.started") == false)
        }
        let origin = try ScriptedOrigin(port: port) { connection in
            while connection.readRequest() != nil {
                guard connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") else { return }
            }
        }
        defer { origin.stop() }
        for id in ids {
            let job = try ferry.finished(id)
            #expect(job["state"]?.string == "succeeded" && job["attempt"]?.integer == 1, "\(job)")
            #expect(becomes { try types(id)?.contains("job.succeeded") == true })
            #expect(try types(id)?.count { $0 == "job.started" } == 1)
        }
    }

    @Test("a job with mirrors uses them while other jobs wait for its host")
    func mirrors() throws {
        let ferry = try start()
        defer { ferry.remove() }
        let mirror = try Nginx()
        defer { mirror.stop() }
        try mirror.serve("f", patternBytes(1_000))
        let url = "http://127.0.0.1:\(try FreePort.find())"
        _ = try ferry.submitBatch(batch(url, 3))
        #expect(becomes { try metric("ferry_host_probes_total", ferry) >= 1 && waiting(ferry) == 3 })
        let job = try ferry.run(
            #"{"kind":"download","request":{"url":"\#(url)/f"},"mirrors":["\#(mirror.url)/f"]}"#)
        #expect(job["state"]?.string == "succeeded", "\(job)")
        // The first of the waiting jobs is queued again for a moment when it retries.
        #expect(becomes { try waiting(ferry) == 3 }, "the host itself is still unreachable")
    }

    @Test("timeout_for_resource or a cancellation ends a job that waits for connectivity")
    func ends() throws {
        let ferry = try start()
        defer { ferry.remove() }
        let url = "http://127.0.0.1:\(try FreePort.find())"
        let ids = try ferry.submitBatch(batch(url, 2))
        #expect(becomes { try waiting(ferry) == 2 })
        #expect(try ferry.call("POST", "/v1/jobs/\(ids[0])/cancel", "{}").status == 200)
        #expect(try ferry.finished(ids[0])["state"]?.string == "cancelled")
        #expect(try ferry.call("POST", "/v1/jobs/\(ids[1])/suspend", "{}").status == 200)
        #expect(try ferry.call("POST", "/v1/jobs/\(ids[1])/resume", "{}").status == 200)
        #expect(becomes { try waiting(ferry) == 1 })
        let bounded = try ferry.run(
            #"{"kind":"data","request":{"url":"\#(url)/"},"#
                + #""schedule":{"timeout_for_resource":1,"waits_for_connectivity":true}}"#)
        #expect(bounded["error"]?["code"]?.string == "resource_timeout", "\(bounded)")
    }
}
