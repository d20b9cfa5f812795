import Curl
import FerryCore
import TestSupport
import TestThreads
import Testing

/// Counts the requests of a lone node, which keeps the limits of sessions in its memory.
@Suite("Connection limits of a lone node", .onOwnThread)
struct LoneNodeConnectionTests {
    private let node: FerryProcess

    /// An empty setting is the default, six connections.
    init() throws { node = try FerryProcess(["FERRY_HTTP_MAXIMUM_CONNECTIONS_PER_HOST": ""]) }

    private func job(_ url: String, _ rest: String = "") -> String {
        #"{"kind":"download","request":{"url":"\#(url)"}\#(rest)}"#
    }

    private func states(_ ids: [String]) throws -> [String] {
        try ids.map { try node.json("GET", "/v1/jobs/\($0)")["state"]?.string ?? "" }
    }

    @Test("six requests at a time, also after jobs were cancelled or suspended, or their node was killed")
    func ends() throws {
        defer { node.remove() }
        let origin = try HalfwayOrigin(free: 0)
        defer { origin.stop() }
        var ids = try (0..<20).map { try node.submit(job("\(origin.url)/f/\($0)")) }
        #expect(origin.stopped.wait(for: 6).count == 6)
        #expect(origin.requestCount == 6)
        // Two that run, and two that wait in memory.
        for index in [0, 12] {
            #expect(try node.call("POST", "/v1/jobs/\(ids[index])/cancel").status < 300)
            #expect(try node.call("POST", "/v1/jobs/\(ids[index + 1])/suspend").status < 300)
        }
        let stopped = [0, 1, 12, 13].map { ids[$0] }
        #expect(becomes { try states(stopped) == ["cancelled", "suspended", "cancelled", "suspended"] })
        // Two others have their connections, and no more than these.
        #expect(becomes { origin.requestCount == 8 })
        ids += try (20..<26).map { try node.submit(job("\(origin.url)/f/\($0)")) }
        #expect(origin.requestCount == 8)
        node.kill9()
        try node.start()
        for index in [1, 13] {
            #expect(try node.call("POST", "/v1/jobs/\(ids[index])/resume").status < 300)
        }
        #expect(becomes { origin.requestCount == 14 })
        origin.open()
        for (index, id) in ids.enumerated() {
            let state = try node.finished(id)["state"]?.string
            #expect(state == ([0, 12].contains(index) ? "cancelled" : "succeeded"), "\(index)")
        }
        // All six connections are free again.
        let before = origin.requestCount
        ids = try (30..<36).map { try node.submit(job("\(origin.url)/f/\($0)")) }
        for id in ids { #expect(try node.finished(id)["state"]?.string == "succeeded") }
        #expect(origin.requestCount == before + 6)
    }

    @Test("redirects, segments and mirrors stay within six, and failed redirects lose no connection")
    func redirects() throws {
        defer { node.remove() }
        let origin = try CountingOrigin(limit: 6)
        defer { origin.stop() }
        let redirecting = try ScriptedOrigin.answering { [url = origin.url] request, _ in
            Array("HTTP/1.1 302 F\r\nLocation: \(url)\(request.path)\r\nContent-Length: 0\r\n\r\n".utf8)
        }
        defer { redirecting.stop() }
        let lost = try ScriptedOrigin.answering { _, _ in
            Array("HTTP/1.1 302 F\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n".utf8)
        }
        defer { lost.stop() }
        var ids: [String] = []
        for index in 0..<8 {
            let segments = index % 2 == 0 ? "" : #","segments":4"#
            ids.append(try node.submit(job("\(origin.url)/\(index)", segments)))
            ids.append(try node.submit(job("\(redirecting.url)/\(index)")))
            ids.append(
                try node.submit(job("\(redirecting.url)/m", #","mirrors":["\#(origin.url)/m\#(index)"]"#)))
        }
        let failing = try (0..<8).map {
            try node.submit(job("\(lost.url)/\($0)", #","retry":{"max_attempts":1}"#))
        }
        for id in ids {
            #expect(becomes { try node.finished(id)["state"]?.string == "succeeded" })
        }
        for id in failing { #expect(try node.finished(id)["state"]?.string == "failed") }
        #expect(origin.maximum <= 6, "\(origin.maximum) connections at once")
    }
}
