import Curl
import FerryCore
import TestSupport
import TestThreads
import Testing

@Suite("Connection limits for segments, mirrors and redirects", .onOwnThread)
struct ConnectionLimitTests {
    private let database: TestDatabase

    init() throws { database = try TestDatabase() }

    private func twoNodes(_ more: [String: String] = [:]) throws -> [FerryProcess] {
        let settings = [
            "FERRY_DATABASE_URL": database.url, "FERRY_SECRET_KEY": "one key for all, long enough",
        ].merging(more) { $1 }
        let nodes = try (0..<2).map { _ in try FerryProcess(settings) }
        #expect(becomes { try nodes[0].json("GET", "/v1/admin/nodes")["data"]?.array?.count == 2 })
        return nodes
    }

    /// Pauses a host, and limits its connections if `maximum` is not `nil`. Submits jobs through each node
    /// until one of them waits, which proves that the node knows of the pause. Returns all submitted jobs:
    /// one per node waits, the others have succeeded.
    private func pause(_ origin: String, maximum: Int?, _ nodes: [FerryProcess]) throws -> [String] {
        try patch(
            origin, #"{"paused":true,"maximum_connections":\#(maximum.map(String.init) ?? "null")}"#, nodes)
        var ids: [String] = []
        for node in nodes {
            let isKnown = becomes {
                let id = try node.submit(job(origin + "/scout"))
                ids.append(id)
                var isPaused = false
                let isSettled = becomes {
                    let first = try node.json("GET", "/v1/jobs/\(id)")
                    isPaused = first["waiting_reason"]?["code"]?.string == "host_paused"
                    return isPaused || first["state"]?.string == "succeeded"
                }
                return isSettled && isPaused
            }
            #expect(isKnown)
        }
        return ids
    }

    private func patch(_ origin: String, _ patch: String, _ nodes: [FerryProcess]) throws {
        let response = try nodes[0].call("PATCH", "/v1/admin/hosts/\(percentEncoded(origin))", patch)
        #expect(response.status == 200, "\(response.text)")
    }

    private func job(_ url: String, _ rest: String = "") -> String {
        #"{"kind":"download","request":{"url":"\#(url)"}\#(rest)}"#
    }

    @Test(
        "jobs with eight segments on two nodes use exactly the two connections of their session")
    func segments() throws {
        let nodes = try twoNodes()
        defer { nodes.forEach { $0.remove() } }
        let origin = try CountingOrigin(limit: 2, minimum: 2)
        defer { origin.stop() }
        let put = try nodes[0].call(
            "PUT", "/v1/sessions/narrow", #"{"http_maximum_connections_per_host":2}"#)
        #expect(put.status == 200 || put.status == 201, "\(put.text)")
        let rest = #","session":"narrow","segments":8"#
        // A single job uses both connections.
        let alone = try nodes[1].run(job(origin.url + "/alone", rest))
        #expect(alone["state"]?.string == "succeeded" && origin.maximum == 2, "\(alone)")
        let ids = try (0..<6).map { try nodes[$0 % 2].submit(job("\(origin.url)/\($0)", rest)) }
        for id in ids { #expect(try nodes[0].finished(id)["state"]?.string == "succeeded") }
        #expect(origin.maximum == 2, "\(origin.maximum) connections at once")
    }

    @Test("jobs of an implicit session use six connections to a host on two nodes, and all succeed")
    func implicitSession() throws {
        // An empty setting is the default.
        let nodes = try twoNodes(["FERRY_HTTP_MAXIMUM_CONNECTIONS_PER_HOST": ""])
        defer { nodes.forEach { $0.remove() } }
        let origin = try CountingOrigin(limit: 6, minimum: 6)
        defer { origin.stop() }
        let ids = try (0..<20).map { try nodes[$0 % 2].submit(job("\(origin.url)/\($0)")) }
        #expect(becomes { origin.maximum == 6 })
        #expect(
            becomes {
                let reasons = try ids.compactMap {
                    try nodes[0].json("GET", "/v1/jobs/\($0)")["waiting_reason"]?["code"]?.string
                }
                return reasons.contains("session_limit")
            })
        for id in ids { #expect(try nodes[0].finished(id)["state"]?.string == "succeeded") }
        #expect(origin.maximum == 6, "\(origin.maximum) connections at once")
        let session = try nodes[1].json("GET", "/v1/sessions/default")
        #expect(session["is_configured"]?.bool == false)
        #expect(session["http_maximum_connections_per_host"]?.integer == 6)
    }

    @Test("a host's connection limit counts segments, mirrors and redirects of jobs on two nodes")
    func segmentsMirrorsRedirects() throws {
        let nodes = try twoNodes()
        defer { nodes.forEach { $0.remove() } }
        let origin = try CountingOrigin(limit: 3)
        defer { origin.stop() }
        let redirecting = try ScriptedOrigin.answering { [url = origin.url] request, _ in
            Array("HTTP/1.1 302 F\r\nLocation: \(url)\(request.path)\r\nContent-Length: 0\r\n\r\n".utf8)
        }
        defer { redirecting.stop() }
        let missing = try ScriptedOrigin.answering { _, _ in
            Array("HTTP/1.1 404 N\r\nContent-Length: 0\r\n\r\n".utf8)
        }
        defer { missing.stop() }
        var ids = try pause(origin.url, maximum: 3, nodes)
        try patch(origin.url, #"{"paused":false}"#, nodes)
        for index in 0..<3 {
            let node = nodes[index % 2]
            ids.append(try node.submit(job("\(origin.url)/\(index)", #","segments":4"#)))
            ids.append(try node.submit(job("\(redirecting.url)/\(index)")))
            ids.append(try node.submit(job("\(redirecting.url)/p\(index)", #","segments":4"#)))
            ids.append(
                try node.submit(
                    job("\(missing.url)/\(index)", #","mirrors":["\#(origin.url)/m\#(index)"]"#)))
        }
        for id in ids {
            #expect(becomes(seconds: 120) { try nodes[0].finished(id)["state"]?.string == "succeeded" })
        }
        #expect(origin.maximum <= 3, "\(origin.maximum) connections at once")
    }

    @Test("a paused host gets no requests of redirects, segments or mirrors; the jobs show host_held")
    func paused() throws {
        let nodes = try twoNodes()
        defer { nodes.forEach { $0.remove() } }
        let origin = try CountingOrigin(limit: 100)
        defer { origin.stop() }
        let redirecting = try ScriptedOrigin.answering { [url = origin.url] request, _ in
            Array("HTTP/1.1 302 F\r\nLocation: \(url)\(request.path)\r\nContent-Length: 0\r\n\r\n".utf8)
        }
        defer { redirecting.stop() }
        let waiting = try pause(origin.url, maximum: nil, nodes)
        let before = origin.requestCount
        let jobs = [
            job(redirecting.url + "/a"), job(redirecting.url + "/b", #","segments":4"#),
            job(redirecting.url + "/c", #","mirrors":["\#(origin.url)/d"]"#),
        ]
        let ids = try jobs.enumerated().map { try nodes[$0.offset % 2].submit($0.element) }
        for id in ids {
            #expect(
                becomes {
                    let one = try nodes[0].json("GET", "/v1/jobs/\(id)")
                    let reason = one["waiting_reason"]?["detail"]?.string ?? ""
                    return one["error"]?["code"]?.string == "host_held" && reason.contains("is paused")
                })
        }
        #expect(origin.requestCount == before)
        try patch(origin.url, #"{"paused":false}"#, nodes)
        for id in ids + waiting {
            let done = try nodes[0].finished(id)
            #expect(done["state"]?.string == "succeeded", "\(done)")
        }
    }
}
