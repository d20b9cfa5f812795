import FerryCore
import TestSupport
import TestThreads
import Testing

@testable import FerryEngine

/// Cookies within a chain of redirects.
@Suite("Cookies of redirects", .serialized, .onOwnThread) struct RedirectCookieTests {
    private static let now = Timestamp(microseconds: 784_111_777_000_000)

    private static func field(
        _ cookies: [String], from: String = "http://www.a.example/x/y", to: String, own: [String] = [],
        after seconds: Double = 0
    ) throws -> String? {
        var head = ResponseHead(status: 302, isHTTP1: true)
        for cookie in cookies { head.append("Set-Cookie", cookie) }
        var jar = RedirectCookies()
        jar.take(head, from: try WebURL.parse(from), now: now)
        return jar.field(for: try WebURL.parse(to), with: own, now: now + seconds)?.text
    }

    @Test(
        "a cookie is sent where its host, path, scheme and age allow it",
        arguments: [
            ("a=1", "http://www.a.example/x/z", "a=1"), ("a=1", "http://www.a.example/xy", nil),
            ("a=1; Path=/", "http://a.example/", nil),
            ("a=1; Path=/; Domain=.A.example", "http://b.a.example/", "a=1"),
            ("a=1; Path=/; Domain=example", "http://b.example/", nil),
            // The installed Public Suffix List.
            ("a=1; Path=/; Domain=co.uk", "http://b.co.uk/", nil),
            ("a=1; Path=/; Secure", "https://www.a.example/", nil),
            ("a=1; Path=/; Expires=Sun, 06-Nov-94 08:49:38 GMT", "http://www.a.example/", "a=1"),
            ("a=1; Path=/; Expires=Sun, 06-Nov-94 08:49:36 GMT", "http://www.a.example/", nil),
            ("a; Path=/", "http://www.a.example/", "a"),
        ])
    func rules(cookie: String, url: String, sent: String?) throws {
        let from = url.contains(".uk") ? "http://a.co.uk/x/y" : "http://www.a.example/x/y"
        #expect(try Self.field([cookie], from: from, to: url) == sent)
    }

    @Test("a later cookie replaces one of the same name; longer paths come first; old cookies are gone")
    func order() throws {
        let url = "http://www.a.example/x/y"
        #expect(try Self.field(["a=1", "a=2", "b=3; Path=/"], to: url) == "a=2; b=3")
        #expect(try Self.field(["b=3; Path=/", "a=1"], to: url) == "a=1; b=3")
        #expect(try Self.field(["a=1", "a=; Max-Age=0"], to: url) == nil)
        #expect(try Self.field(["a=1"], to: url, own: ["a=0; c=2", "d=4"]) == "c=2; d=4; a=1")
        #expect(try Self.field(["a=1; Path=/no"], to: url, own: ["c=2"]) == "c=2")
        #expect(try Self.field(["a=1; Max-Age=9"], to: url, after: 8) == "a=1")
        #expect(try Self.field(["a=1; Max-Age=9"], to: url, after: 9) == nil)
    }

    @Test("the oldest cookies are dropped beyond the limits")
    func limits() throws {
        let url = "http://www.a.example/x/y"
        let many = (0...EngineLimits.cookies.countMax).map { "c\($0)=1" }
        let sent = try #require(try Self.field(many, to: url))
        #expect(!sent.contains("c0=") && sent.hasPrefix("c1="))
        let large = (1...8).map { "c\($0)=" + String(repeating: "x", count: 4_000) }
        #expect(large.count * 4_000 > EngineLimits.cookies.byteCountMax)
        #expect(try Self.field(large, to: url)?.hasPrefix("c4=") == true)
    }

    @Test(
        "the octets of a cookie are sent back as they came, also after a wait",
        arguments: [[0x63, 0xE9], [0x63, 0xC3, 0xA9], [0xB0, 0xA1, 0x80]] as [[UInt8]])
    func octets(value: [UInt8]) throws {
        let line = Array("Set-Cookie: a=".utf8) + value + Array("; Path=/".utf8)
        let origin = try ScriptedOrigin { connection in
            while let request = connection.readRequest() {
                let isTarget = request.path == "/y"
                let head = isTarget ? "200 OK" : "302 x\r\nLocation: /y"
                connection.send(
                    Array("HTTP/1.1 \(head)\r\n".utf8) + line + Array("\r\nContent-Length: 0\r\n\r\n".utf8))
            }
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        #expect(
            fixture.run(.data, origin.url + "/x") {
                $0.secrets.headers = [.init("Cookie", "ö=ü")]
            }?.success != nil)
        let sent = try #require(origin.requests.last?.octets("cookie"))
        #expect(sent == Array("ö=ü; a=".utf8) + value)

        var parser = ResponseHeadParser()
        for line in [Array("HTTP/1.1 302 x".utf8), line] { _ = parser.take(line) }
        guard case .complete(let head) = parser.take([]) else { throw CancellationError() }
        var jar = RedirectCookies()
        jar.take(head, from: try WebURL.parse(origin.url), now: Self.now)
        let hop = JobQuestion.Hop(Hop(url: .unknown, method: "GET", sendsBody: false))
        let next = NextRequest.redirect(DelayedRedirect(hop, cookies: jar.cookies, attempt: 2))
        #expect(try NextRequest(sealed: next.encode(.inverted), opening: .inverted) == next)
    }

    @Test("cookies of a redirect reach its target beside those of the job, in one stream and in parts")
    func chain() throws {
        let origin = try ScriptedOrigin.answering { request, _ in
            let hasPassed = request.header("cookie")?.contains("gate=open") ?? false
            let head =
                hasPassed
                ? "200 OK"
                : "302 x\r\nLocation: \(request.path)\r\nSet-Cookie: gate=open; Path=/; HttpOnly"
            return Array("HTTP/1.1 \(head)\r\nContent-Length: 0\r\n\r\n".utf8)
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        for segments in [1, 2] {
            let result = fixture.run(.download, origin.url + "/x") {
                $0.to("file")
                $0.spec.segmentCountMax = segments
                $0.secrets.headers = [.init("Cookie", "own=1")]
            }
            #expect(result?.success != nil, "\(segments)")
            #expect(origin.requests.suffix(2).map { $0.header("cookie") } == ["own=1", "own=1; gate=open"])
        }
    }
}
