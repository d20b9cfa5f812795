import Curl
import FerryCore
import Synchronization
import Sys
import TestSupport
import TestThreads
import Testing

@Suite("Isolation of tenants at a shared host", .onOwnThread)
struct HostIsolationTests {
    private let database: TestDatabase
    private let ferry: FerryProcess

    init() throws {
        database = try TestDatabase()
        ferry = try FerryProcess([
            "FERRY_DATABASE_URL": database.url, "FERRY_SECRET_KEY": "one key for all, long enough",
        ])
    }

    /// Returns an origin that answers 503 below `/bad`, 429 with `Retry-After: 3600` below `/quota`, and 200
    /// for other paths.
    private static func origin() throws -> ScriptedOrigin {
        try ScriptedOrigin { connection in
            while let request = connection.readRequest() {
                let head =
                    if request.path.hasPrefix("/bad") {
                        "HTTP/1.1 503 Busy\r\n"
                    } else if request.path.hasPrefix("/quota") {
                        "HTTP/1.1 429 Slow\r\nRetry-After: 3600\r\n"
                    } else {
                        "HTTP/1.1 200 OK\r\n"
                    }
                guard connection.send(head + "Content-Length: 2\r\n\r\nok") else { return }
            }
        }
    }

    private func submit(_ url: String, _ count: Int, key: String, retry: String = "{}") throws -> [String] {
        let jobs = (0..<count).map { number in
            #"{"kind":"download","request":{"url":"\#(url)/\#(number)"},"retry":\#(retry)}"#
        }
        let response = try ferry.call(
            "POST", "/v1/jobs/batch", #"{"jobs":[\#(jobs.joined(separator: ","))]}"#, key: key)
        guard response.status == 201 else { throw TestSupportError("\(response.status): \(response.text)") }
        return try response.json["data"]?.array?.compactMap { $0["id"]?.string } ?? []
    }

    /// Returns the waiting reasons of the tenant's unfinished jobs.
    private func reasons(key: String) throws -> [String] {
        try ["queued", "waiting"].flatMap { state in
            let page = try ferry.json("GET", "/v1/jobs?limit=500&state=\(state)", key: key)["data"]
            return try #require(page?.array).compactMap { $0["waiting_reason"]?["code"]?.string }
        }
    }

    /// Waits until the jobs of a tenant have succeeded. Returns the reasons for which any of them waited at
    /// its host.
    private func hostReasons(of ids: [String], key: String) throws -> Set<String> {
        var foundReasons: Set<String> = []
        let isOver = becomes {
            foundReasons.formUnion(try reasons(key: key).filter { $0.hasPrefix("host_") })
            let done = try ferry.json("GET", "/v1/jobs?limit=500&state=succeeded", key: key)["data"]?.array
            return done?.count == ids.count
        }
        #expect(isOver)
        return foundReasons
    }

    private func scopes(_ url: String) throws -> [JSON] {
        try ferry.json("GET", "/v1/admin/hosts/\(percentEncoded(url))")["scopes"]?.array ?? []
    }

    @Test("a tenant's failing path limits that path, and no job of another tenant waits at the host")
    func failingPath() throws {
        defer { ferry.remove() }
        let origin = try Self.origin()
        defer { origin.stop() }
        let bad = try ferry.makeKey(role: "client", tenant: "bad")
        let good = try ferry.makeKey(role: "client", tenant: "good")
        let failing = #"{"max_attempts":1000,"initial_delay":0.1,"multiplier":1}"#
        _ = try submit("\(origin.url)/bad", 100, key: bad, retry: failing)
        #expect(becomes { try !scopes(origin.url).isEmpty }, "the path is limited")
        // Jobs of the same tenant below another path run meanwhile.
        let other = try submit("\(origin.url)/other", 50, key: bad)
        for id in other { #expect(try ferry.finished(id, key: bad)["state"]?.string == "succeeded") }
        let ids = try submit("\(origin.url)/good", 300, key: good)
        #expect(try hostReasons(of: ids, key: good).isEmpty)
        let found = try scopes(origin.url)
        #expect(found.allSatisfy { $0["tenant"]?.string == "bad" }, "\(found)")
        #expect(found.contains { $0["path"]?.string == "/bad" }, "\(found)")
        let host = try ferry.json("GET", "/v1/admin/hosts/\(percentEncoded(origin.url))")
        #expect(host["state"]?.string == "normal" && host["request_rate_limit"]?.isNull == true, "\(host)")
        // The tenant's own jobs show why they wait.
        #expect(becomes { try reasons(key: bad).contains { $0.hasPrefix("host_") } })
    }

    @Test("Retry-After in a response to one tenant does not delay jobs of another tenant")
    func retryAfter() throws {
        defer { ferry.remove() }
        let origin = try Self.origin()
        defer { origin.stop() }
        let bad = try ferry.makeKey(role: "client", tenant: "bad")
        let good = try ferry.makeKey(role: "client", tenant: "good")
        let waiting = try submit("\(origin.url)/quota", 20, key: bad)
        #expect(becomes { try scopes(origin.url).contains { $0["state"]?.string == "backing_off" } })
        let ids = try submit("\(origin.url)/good", 100, key: good)
        #expect(try hostReasons(of: ids, key: good).isEmpty)
        for id in waiting {
            let job = try ferry.json("GET", "/v1/jobs/\(id)", key: bad)
            #expect(job["state"]?.string == "waiting" || job["state"]?.string == "queued", "\(job)")
        }
        let found = try #require(try scopes(origin.url).first)
        let end = try #require(found["backoff_until"]?.string.flatMap { Timestamp(rfc3339: $0) })
        #expect((3_000...3_601).contains(end - Timestamp(microseconds: wallMicroseconds())), "\(found)")
    }
}
