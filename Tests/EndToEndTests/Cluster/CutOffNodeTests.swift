import Curl
import FerryCore
import TestSupport
import TestThreads
import Testing

@Suite("Unreachable hosts of one node", .onOwnThread)
struct CutOffNodeTests {
    @Test("a node that reaches no host leaves the jobs to the other node")
    func cutOff() throws {
        let origin = try ScriptedOrigin.answering { _, _ in
            Array("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".utf8)
        }
        defer { origin.stop() }
        let database = try TestDatabase()
        let settings = [
            "FERRY_DATABASE_URL": database.url, "FERRY_SECRET_KEY": "one key for both nodes, long enough",
            "FERRY_CONCURRENCY": "2",
        ]
        let good = try FerryProcess(settings)
        defer { good.remove() }
        // No proxy listens on this port.
        let proxy = "http://127.0.0.1:\(try FreePort.find())"
        let bad = try FerryProcess(settings.merging(["FERRY_PROXY": proxy]) { $1 })
        defer { bad.remove() }
        #expect(becomes { try good.json("GET", "/v1/admin/nodes")["data"]?.array?.count == 2 })
        let job =
            #"{"kind":"data","request":{"url":"\#(origin.url)/"},"schedule":{"waits_for_connectivity":true}}"#
        // Jobs of two sessions are queued, so that both nodes claim them. The accepting node may hold others.
        let jobs = (0..<20).map { #"{"session":"\#($0 % 2 == 0 ? "a" : "b")",\#(job.dropFirst())"# }
        let batch = #"{"jobs":[\#(jobs.joined(separator: ","))]}"#
        let isCutOff = { try bad.call("GET", "/metrics").text.contains("\nferry_node_cut_off 1\n") }
        let unfinished = {
            let jobs = try good.json("GET", "/v1/admin/status")["jobs"]
            return ["waiting", "queued", "running"].compactMap { jobs?[$0]?.integer as Int64? }.reduce(0, +)
        }
        let becameCutOff = becomes {
            guard try unfinished() < 40 else { return try isCutOff() }
            let sent = try good.call("POST", "/v1/jobs/batch", batch)
            #expect(sent.status < 300, "\(sent.text)")
            return try isCutOff()
        }
        #expect(becameCutOff)
        var ready = ""
        let isShown = becomes {
            let response = try bad.call("GET", "/readyz?verbose", key: "")
            ready = response.text
            return response.status == 200 && ready.contains("[!]reaches_hosts")
        }
        #expect(isShown, "\(ready)")
        // The node takes none of a batch of jobs: each succeeds at its first attempt. While the other node's
        // heartbeats are late, it may take some, so the batch is repeated.
        let areLeft = becomes {
            let ids = try (0..<20).map { _ in try good.submit(job) }
            let jobs = try ids.map { try good.finished($0) }
            for job in jobs { #expect(job["state"]?.string == "succeeded", "\(job)") }
            return jobs.allSatisfy { $0["attempt"]?.integer == 1 }
        }
        #expect(areLeft)
        #expect(becomes { try unfinished() == 0 })
        #expect(try good.json("GET", "/v1/jobs?state=failed")["data"]?.array?.isEmpty == true)
        // Without another node, the unreachable node starts jobs again.
        good.terminate()
        #expect(becomes { try !isCutOff() })
    }
}
