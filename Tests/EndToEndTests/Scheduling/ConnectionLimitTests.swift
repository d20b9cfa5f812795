import Curl
import FerryCore
import TestSupport
import TestThreads
import Testing

@Suite("Limits of connections, whatever opens them", .onOwnThread)
struct ConnectionLimitTests {
    private let database: TestDatabase

    init() throws { database = try TestDatabase() }

    private func twoNodes() throws -> [FerryProcess] {
        let settings = [
            "FERRY_DATABASE_URL": database.url, "FERRY_SECRET_KEY": "one key for all, long enough",
        ]
        let nodes = try (0..<2).map { _ in try FerryProcess(settings) }
        #expect(becomes { try nodes[0].json("GET", "/v1/admin/nodes")["data"]?.array?.count == 2 })
        return nodes
    }

    /// Pauses a host, and limits it if `maximum` is not nil. Returns jobs there, of which one for each node
    /// waits: every node knows. Until then some begin, one after the other, and those are over.
    private func pause(_ origin: String, maximum: Int?, _ nodes: [FerryProcess]) throws -> [String] {
        try patch(
            origin, #"{"paused":true,"maximum_connections":\#(maximum.map(String.init) ?? "null")}"#, nodes)
        var ids: [String] = []
        for node in nodes {
            let isKnown = becomes {
                let id = try node.submit(job(origin + "/scout"))
                ids.append(id)
                var isHeld = false
                let isSettled = becomes {
                    let scout = try node.json("GET", "/v1/jobs/\(id)")
                    isHeld = scout["waiting_reason"]?["code"]?.string == "host_paused"
                    return isHeld || scout["state"]?.string == "succeeded"
                }
                return isSettled && isHeld
            }
            #expect(isKnown)
        }
        return ids
    }

    private func patch(_ origin: String, _ patch: String, _ nodes: [FerryProcess]) throws {
        let answer = try nodes[0].call("PATCH", "/v1/admin/hosts/\(percentEncoded(origin))", patch)
        #expect(answer.status == 200, "\(answer.text)")
    }

    private func job(_ url: String, _ rest: String = "") -> String {
        #"{"kind":"download","request":{"url":"\#(url)"}\#(rest)}"#
    }

    @Test(
        "a session's limit of two holds for jobs in eight parts on two nodes, and its parts use what is free")
    func parts() throws {
        let nodes = try twoNodes()
        defer { nodes.forEach { $0.remove() } }
        let origin = try CountingOrigin(limit: 2, floor: 2)
        defer { origin.stop() }
        let put = try nodes[0].call(
            "PUT", "/v1/sessions/narrow", #"{"http_maximum_connections_per_host":2}"#)
        #expect(put.status == 200 || put.status == 201, "\(put.text)")
        let rest = #","session":"narrow","segments":8"#
        // Alone it uses both.
        let alone = try nodes[1].run(job(origin.url + "/alone", rest))
        #expect(alone["state"]?.string == "succeeded" && origin.most == 2, "\(alone)")
        let ids = try (0..<6).map { try nodes[$0 % 2].submit(job("\(origin.url)/\($0)", rest)) }
        for id in ids { #expect(try nodes[0].finished(id)["state"]?.string == "succeeded") }
        #expect(origin.most == 2, "\(origin.most) connections at once")
    }

    @Test("a host's limit counts the parts of some jobs, the mirrors of others, and redirects to it")
    func everything() throws {
        let nodes = try twoNodes()
        defer { nodes.forEach { $0.remove() } }
        let origin = try CountingOrigin(limit: 3)
        defer { origin.stop() }
        let leading = try ScriptedOrigin.answering { [url = origin.url] request, _ in
            Array("HTTP/1.1 302 F\r\nLocation: \(url)\(request.path)\r\nContent-Length: 0\r\n\r\n".utf8)
        }
        defer { leading.stop() }
        let missing = try ScriptedOrigin.answering { _, _ in
            Array("HTTP/1.1 404 N\r\nContent-Length: 0\r\n\r\n".utf8)
        }
        defer { missing.stop() }
        var ids = try pause(origin.url, maximum: 3, nodes)
        try patch(origin.url, #"{"paused":false}"#, nodes)
        for index in 0..<3 {
            let node = nodes[index % 2]
            ids.append(try node.submit(job("\(origin.url)/\(index)", #","segments":4"#)))
            ids.append(try node.submit(job("\(leading.url)/\(index)")))
            ids.append(try node.submit(job("\(leading.url)/p\(index)", #","segments":4"#)))
            ids.append(
                try node.submit(
                    job("\(missing.url)/\(index)", #","mirrors":["\#(origin.url)/m\#(index)"]"#)))
        }
        for id in ids {
            #expect(becomes(seconds: 120) { try nodes[0].finished(id)["state"]?.string == "succeeded" })
        }
        #expect(origin.most <= 3, "\(origin.most) connections at once")
    }

    @Test("a paused host gets nothing from redirects, parts and mirrors, and the jobs say what they wait for")
    func paused() throws {
        let nodes = try twoNodes()
        defer { nodes.forEach { $0.remove() } }
        let origin = try CountingOrigin(limit: 100)
        defer { origin.stop() }
        let leading = try ScriptedOrigin.answering { [url = origin.url] request, _ in
            Array("HTTP/1.1 302 F\r\nLocation: \(url)\(request.path)\r\nContent-Length: 0\r\n\r\n".utf8)
        }
        defer { leading.stop() }
        let held = try pause(origin.url, maximum: nil, nodes)
        let before = origin.requestCount
        let jobs = [
            job(leading.url + "/a"), job(leading.url + "/b", #","segments":4"#),
            job(leading.url + "/c", #","mirrors":["\#(origin.url)/d"]"#),
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
        for id in ids + held {
            let done = try nodes[0].finished(id)
            #expect(done["state"]?.string == "succeeded", "\(done)")
        }
    }
}
