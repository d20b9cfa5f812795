import FerryCore
import Glibc
import Sys
import TestSupport
import Testing

@testable import FerryEngine

/// Reports about hosts that the end of an attempt leads to.
@Suite struct HostResponseTests {
    private static func with(_ body: (Fixture) throws -> Void) throws {
        let fixture = try Fixture()
        defer { fixture.stop() }
        try body(fixture)
    }

    /// Answers every request with that status, and asks for a pause.
    private static func throttling(_ status: Int = 429, retryAfter: String = "60") throws -> ScriptedOrigin {
        try ScriptedOrigin.answering { _, _ in
            Array(
                "HTTP/1.1 \(status) Slow\r\nRetry-After: \(retryAfter)\r\nContent-Length: 0\r\n\r\n".utf8)
        }
    }

    @Test("Retry-After as a date is reported in seconds, also if the job accepts any status")
    func date() throws {
        try Self.with { fixture in
            let origin = try ScriptedOrigin.answering { _, _ in
                var now = time(nil) + 60
                var parts = tm()
                gmtime_r(&now, &parts)
                var text = [CChar](repeating: 0, count: 64)
                strftime(&text, 64, "%a, %d %b %Y %H:%M:%S GMT", &parts)
                let date = String(decoding: text.prefix { $0 != 0 }.map { UInt8($0) }, as: UTF8.self)
                return Array(
                    "HTTP/1.1 503 Slow\r\nRetry-After: \(date)\r\nContent-Length: 0\r\n\r\n".utf8)
            }
            defer { origin.stop() }
            for kind in [JobKind.data, .download] {
                let result = try #require(fixture.run(kind, origin.url))
                #expect((result.success != nil) == (kind == .data))
                #expect(result.hostResponse?.status == 503 && result.hostResponse?.scope.origin == origin.url)
                #expect((30...60).contains(result.hostResponse?.retryAfter ?? 0))
            }
        }
    }

    @Test("after a redirect the response counts for the host that it led to")
    func redirected() throws {
        try Self.with { fixture in
            let busy = try Self.throttling()
            let first = try ScriptedOrigin.answering { _, _ in
                Array("HTTP/1.1 302 F\r\nLocation: \(busy.url)/x\r\nContent-Length: 0\r\n\r\n".utf8)
            }
            defer {
                first.stop()
                busy.stop()
            }
            let result = try #require(fixture.run(.download, first.url))
            let scope = RequestScope(tenant: "tenant", origin: busy.url, path: "/x")
            #expect(
                result.hostResponse
                    == HostResponse(job: result.attempt.job, scope: scope, status: 429, retryAfter: 60))
            #expect(result.scope == scope && result.endedAtOtherHost)
        }
    }

    @Test("each source that refuses parts or mirrors is reported once", arguments: [1, 4])
    func sources(segments: Int) throws {
        try Self.with { fixture in
            let origins = [try Self.throttling(), try Self.throttling(503, retryAfter: "7")]
            defer { for origin in origins { origin.stop() } }
            let result = try #require(
                fixture.run(.download, origins[0].url) {
                    $0.spec.segmentCountMax = segments
                    $0.spec.mirrors = [origins[1].url]
                })
            #expect(result.failure?.code == .unacceptableStatus && result.retryAfter == 60)
            let told = fixture.sink.received.wait(for: 2)
            #expect(told.map(\.scope.origin) == origins.map(\.url))
            #expect(told.map(\.status) == [429, 503] && told.map(\.retryAfter) == [60, 7])
            #expect(result.hostResponse == nil)
        }
    }

    @Test("refused parts are reported while another part still runs")
    func beside() throws {
        try Self.with { fixture in
            let bytes = patternBytes(8 << 20)
            let gate = Gate()
            let origin = try RangeOrigin(bytes) { answer, _, number in
                if number > 0 {
                    (answer.status, answer.body) = (429, [])
                    answer.headers["Retry-After"] = "30"
                } else {
                    answer.halfway = (after: 100_000, body: { _ = gate.pass() })
                }
            }
            defer { origin.stop() }
            fixture.engine.begin([
                fixture.attempt(.download, origin.url) { $0.spec.segmentCountMax = 4 }
            ])
            // All three: if the first part ends before, no source is left for the rest.
            let told = fixture.sink.received.wait(for: 3)
            #expect(told.count == 3)
            for one in told {
                #expect(one.status == 429 && one.retryAfter == 30)
                #expect(origin.url.hasPrefix(one.scope.origin + "/"))
            }
            gate.open()
            let result = try #require(fixture.sink.arrived.wait().first)
            #expect(result.success?.size == Int64(bytes.count) && result.hostResponse == nil)
        }
    }

    @Test("a response through a job's own proxy counts for the host only through a tunnel")
    func proxies() throws {
        let builder = RequestBuilder(userAgent: "test", proxy: nil, clock: Fixture.SystemClock())
        try Self.with { fixture in
            func isServers(_ url: String, _ change: (inout Draft) -> Void) throws -> Bool {
                builder.isAnsweredByServer(fixture.attempt(.download, url, change), try WebURL.parse(url))
            }
            let proxy = "http://127.0.0.1:3128"
            #expect(try isServers("http://a.example/") { _ in })
            #expect(try !isServers("http://a.example/") { try? $0.pass(proxy) })
            #expect(try isServers("http://a.example/") { try? $0.pass(proxy, bypass: ["a.example"]) })
            #expect(try isServers("https://a.example/") { try? $0.pass(proxy) })
            #expect(
                try !isServers("https://a.example/") {
                    try? $0.pass(proxy)
                    $0.trust("of the owner")
                })
            let busy = try Self.throttling()
            let real = try TestProxy(.http)
            defer {
                busy.stop()
                real.stop()
            }
            let result = try #require(fixture.run(.download, busy.url) { try? $0.pass(real.url) })
            #expect(result.response?.status == 429 && result.hostResponse == nil)
        }
    }
}
