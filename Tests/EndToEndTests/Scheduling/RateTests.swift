import Curl
import FerryCore
import Glibc
import Sys
import TestSupport
import TestThreads
import Testing

@Suite("Rate limits", .onOwnThread)
struct RateTests {
    @Test("PATCH changes rate, priority and description of a running job without a new attempt")
    func job() throws {
        let ferry = try FerryProcess.shared.get().ferry
        let nginx = try Nginx()
        defer { nginx.stop() }
        try nginx.serve("file", patternBytes(2_000_000))
        let id = try ferry.submit(
            #"{"kind":"download","request":{"url":"\#(nginx.url)/file"},"destination":{"path":"paced"},"#
                + #""network":{"max_bytes_per_second":20000}}"#)
        #expect(
            becomes {
                try ferry.json("GET", "/v1/jobs/\(id)")["progress"]?["bytes_received"]?.integer ?? 0 > 10_000
            })
        let before = try ferry.call("GET", "/v1/jobs/\(id)")
        #expect(try before.json["state"]?.string == "running")
        let tag = before.header("etag") ?? ""
        let patch = { (body: String) in
            try ferry.call("PATCH", "/v1/jobs/\(id)", body, headers: ["If-Match": tag])
        }
        let refused = try patch(#"{"retry":{"max_attempts":3}}"#)
        #expect(refused.status == 409, "\(refused.text)")
        let changed = try patch(#"{"description":"faster","metadata":{"a":"b"}}"#)
        #expect(changed.status == 200, "\(changed.text)")
        #expect(try patch(#"{"description":"late"}"#).status == 412)
        let accelerated = try ferry.call(
            "PATCH", "/v1/jobs/\(id)",
            #"{"network":{"max_bytes_per_second":50000000},"schedule":{"priority":0.75}}"#)
        #expect(accelerated.status == 200, "\(accelerated.text)")
        let job = try ferry.finished(id)
        #expect(job["state"]?.string == "succeeded" && job["attempt"]?.integer == 1, "\(job)")
        #expect(job["description"]?.string == "faster" && job["schedule"]?["priority"]?.double == 0.75)
        #expect(try ferry.call("PATCH", "/v1/jobs/\(id)", "{}").status == 409)
    }

    @Test("configured service limits can be changed during transfers and survive a restart")
    func service() throws {
        let nginx = try Nginx()
        defer { nginx.stop() }
        try nginx.serve("file", patternBytes(3_000_000))
        let database = try TestDatabase()
        let ferry = try FerryProcess([
            "FERRY_DATABASE_URL": database.url, "FERRY_MAX_BYTES_PER_SECOND": "50000",
        ])
        defer { ferry.remove() }
        #expect(
            try ferry.json("GET", "/v1/admin/limits")["max_bytes_received_per_second"]?.integer == 50_000)
        let ids = try (0..<2).map { index in
            try ferry.submit(
                #"{"kind":"download","request":{"url":"\#(nginx.url)/file"},"#
                    + #""destination":{"path":"\#(index)"}}"#
            )
        }
        let received = { (id: String) in
            try ferry.json("GET", "/v1/jobs/\(id)")["progress"]?["bytes_received"]?.integer ?? 0
        }
        #expect(becomes { try ids.allSatisfy { try received($0) > 30_000 } })
        for id in ids { #expect(try received(id) < 1_000_000) }
        let changed = try ferry.call(
            "PATCH", "/v1/admin/limits",
            #"{"max_bytes_received_per_second":20000000,"max_bytes_per_second_per_host":null}"#,
            headers: ["Content-Type": "application/merge-patch+json"])
        #expect(changed.status == 200, "\(changed.text)")
        #expect(try changed.json["max_bytes_sent_per_second"]?.integer == 50_000)
        for id in ids { #expect(try ferry.finished(id)["state"]?.string == "succeeded") }
        ferry.terminate()
        try ferry.start()
        #expect(
            try ferry.json("GET", "/v1/admin/limits")["max_bytes_received_per_second"]?.integer == 20_000_000)
    }

    /// Returns the rates of jobs in bytes per second, measured over at least a second through the node of
    /// each job.
    private static func rates(_ jobs: [(node: FerryProcess, id: String)]) throws -> [Double] {
        let read = {
            try jobs.map {
                try $0.node.json("GET", "/v1/jobs/\($0.id)")["progress"]?["bytes_received"]?.integer ?? 0
            }
        }
        let began = monotonicNanoseconds()
        let before = try read()
        poll(nil, 0, 1_000)
        let after = try read()
        let seconds = Double(monotonicNanoseconds() - began) / 1e9
        return zip(after, before).map { Double($0 - $1) / seconds }
    }

    /// Submits a job and returns it with the node that runs it: usually `node`, unless another node was
    /// faster.
    private static func begin(
        _ body: String, on node: FerryProcess, of nodes: [FerryProcess]
    ) throws -> (node: FerryProcess, id: String) {
        let id = try node.submit(body)
        var name: String?
        _ = becomes {
            name = try node.json("GET", "/v1/jobs/\(id)")["node"]?.string
            return name != nil
        }
        let runner = try nodes.first { node in
            try String(decoding: #require(readFile(node.directory + "/node")), as: UTF8.self) == name
        }
        return (try #require(runner, "the job runs on \(name ?? "none")"), id)
    }

    @Test("a session's rate is divided among the nodes that run its jobs")
    func nodes() throws {
        let nginx = try Nginx()
        defer { nginx.stop() }
        try nginx.serve("file", [])
        #expect(truncate(nginx.root + "/file", 2_000_000_000) == 0)
        let database = try TestDatabase()
        let nodes = try (0..<2).map { _ in
            try FerryProcess([
                "FERRY_DATABASE_URL": database.url, "FERRY_SECRET_KEY": "one key for both, long enough",
            ])
        }
        defer { for node in nodes { node.remove() } }
        #expect(becomes { try nodes[0].json("GET", "/v1/admin/nodes")["data"]?.array?.count == 2 })
        let limit = 1_000_000.0
        // Without a connection limit, a job runs on the node that accepted it.
        let session = #"{"max_bytes_per_second":1000000,"http_maximum_connections_per_host":null}"#
        #expect(try nodes[0].call("PUT", "/v1/sessions/slow", session).status == 201)
        let body = #"{"kind":"download","session":"slow","request":{"url":"\#(nginx.url)/file"}}"#
        // The only job gets the whole rate, which is twice an equal share of two nodes.
        let first = try Self.begin(body, on: nodes[0], of: nodes)
        #expect(becomes(seconds: 60) { try Self.rates([first])[0] > 0.85 * limit })
        #expect(try Self.rates([first])[0] < 1.2 * limit)
        let other = try #require(nodes.first { $0 !== first.node })
        let second = try Self.begin(body, on: other, of: nodes)
        #expect(
            becomes(seconds: 60) {
                let rates = try Self.rates([first, second])
                return rates.allSatisfy { (0.4...0.6).contains($0 / limit) }
            })
        #expect(try nodes[0].call("POST", "/v1/jobs/\(first.id)/cancel", "{}").status == 200)
        #expect(becomes(seconds: 60) { try Self.rates([second])[0] > 0.85 * limit })
        #expect(try nodes[1].call("POST", "/v1/jobs/\(second.id)/cancel", "{}").status == 200)
    }
}
