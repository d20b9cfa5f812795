import FerryCore
import FerryEngine
import TestSupport
import TestThreads
import Testing

/// Requests that get the header fields of a session.
@Suite("Origins of additional headers", .serialized, .onOwnThread) struct AdditionalHeadersTests {
    /// Responds to each request with the fields that it carried, and to `/to/…` with a redirect there.
    private static func echo(_ target: @escaping @Sendable () -> String = { "" }) throws -> ScriptedOrigin {
        try ScriptedOrigin { connection in
            while let request = connection.readRequest() {
                if request.path == "/redirect" {
                    connection.send(
                        "HTTP/1.1 302 Found\r\nLocation: \(target())\r\nContent-Length: 0\r\n\r\n")
                } else {
                    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                }
            }
        }
    }

    private static func restrict(_ draft: inout Draft, to origins: [String], trustsProxy: Bool = true) {
        draft.secrets.headers = [.init("X-Shop-Token", "hush")]
        draft.spec.request.headers = [.init("X-Shop-Token", ""), .init("X-Plain", "1"), .init("X-Own", "2")]
        draft.spec.redirects.sendsCredentialsAcrossOrigins = true
        draft.spec.request.additionalHeaders = AdditionalHeaders(
            names: ["x-shop-token", "x-plain"], origins: origins.compactMap { try? OriginPattern($0) },
            trustsProxy: trustsProxy)
    }

    private static func fields(_ request: ScriptedOrigin.Request?) -> [String?] {
        ["X-Shop-Token", "X-Plain", "X-Own"].map { request?.header($0) }
    }

    @Test("the job's own URL gets the session's fields only if its origin is named")
    func ownURL() throws {
        let fixture = try Fixture()
        defer { fixture.stop() }
        let origin = try Self.echo()
        defer { origin.stop() }
        _ = fixture.run(.data, origin.url + "/") { Self.restrict(&$0, to: [origin.url]) }
        _ = fixture.run(.data, origin.url + "/") { Self.restrict(&$0, to: ["https://other.example"]) }
        _ = fixture.run(.data, origin.url + "/") { Self.restrict(&$0, to: []) }
        #expect(
            origin.requests.map(Self.fields) == [["hush", "1", "2"], [nil, nil, "2"], [nil, nil, "2"]])
    }

    @Test("a redirect takes the session's fields to named origins only, also with credentials across origins")
    func redirects() throws {
        let fixture = try Fixture()
        defer { fixture.stop() }
        let end = try Self.echo()
        defer { end.stop() }
        let start = try Self.echo { end.url + "/end" }
        defer { start.stop() }
        _ = fixture.run(.data, start.url + "/redirect") { Self.restrict(&$0, to: [start.url]) }
        _ = fixture.run(.data, start.url + "/redirect") { Self.restrict(&$0, to: [end.url]) }
        #expect(start.requests.map(Self.fields) == [["hush", "1", "2"], [nil, nil, "2"]])
        #expect(end.requests.map(Self.fields) == [[nil, nil, "2"], ["hush", "1", "2"]])
    }

    @Test("parts get the session's fields only if their origin is named, and mirrors only harmless ones")
    func mirrors() throws {
        let fixture = try Fixture()
        defer { fixture.stop() }
        let mirror = try Self.echo()
        defer { mirror.stop() }
        let failing = try ScriptedOrigin.answering { _, _ in
            Array("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".utf8)
        }
        defer { failing.stop() }
        let result = fixture.run(.download, failing.url + "/file") {
            Self.restrict(&$0, to: [failing.url])
            $0.spec.mirrors = [mirror.url + "/file"]
            $0.spec.segmentCountMax = 2
        }
        #expect(result?.success?.size == 2)
        #expect(!failing.requests.isEmpty && !mirror.requests.isEmpty)
        #expect(failing.requests.allSatisfy { Self.fields($0) == ["hush", "1", "2"] })
        #expect(mirror.requests.allSatisfy { Self.fields($0) == [nil, nil, nil] })
    }

    @Test("a proxy that the job names does not get the session's fields; the session's own proxy does")
    func proxies() throws {
        let fixture = try Fixture()
        defer { fixture.stop() }
        let proxy = try Self.echo()
        defer { proxy.stop() }
        for trusts in [false, true] {
            _ = fixture.run(.data, "http://shop.example/") {
                Self.restrict(&$0, to: ["http://shop.example"], trustsProxy: trusts)
                try? $0.pass(proxy.url)
            }
        }
        #expect(proxy.requests.map(Self.fields) == [[nil, nil, "2"], ["hush", "1", "2"]])
    }

    @Test("the repeated request of an authentication has the fields of the first one")
    func authentication() throws {
        let fixture = try Fixture()
        defer { fixture.stop() }
        let origin = try ScriptedOrigin { connection in
            while let request = connection.readRequest() {
                if request.header("authorization") == nil {
                    connection.send(
                        "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Digest realm=\"r\", nonce=\"n\"\r\n"
                            + "Content-Length: 0\r\n\r\n")
                } else {
                    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                }
            }
        }
        defer { origin.stop() }
        _ = fixture.run(.data, origin.url + "/") {
            Self.restrict(&$0, to: ["https://other.example"])
            $0.authenticate(.digest, "u", "p")
        }
        #expect(origin.requests.count == 2)
        #expect(origin.requests.allSatisfy { Self.fields($0) == [nil, nil, "2"] })
    }
}
