import FerryCore
import FerryEngine
import TestSupport
import Testing

@Suite(.serialized) struct RedirectTests {
    /// Redirects `/NNN?target` with status NNN, and answers everything else with the request's line.
    private static func origin() throws -> ScriptedOrigin {
        try ScriptedOrigin.answering { request, body in
            let parts = request.path.split(separator: "?", maxSplits: 1)
            if let first = parts.first, let status = Int(first.dropFirst()), parts.count == 2 {
                return Array(
                    "HTTP/1.1 \(status) x\r\nLocation: \(parts[1])\r\nContent-Length: 3\r\n\r\nabc".utf8)
            }
            let text =
                "\(request.method) \(body.count) \(request.header("authorization") ?? "-") "
                + (request.header("x-api-key") ?? "-")
            return Array("HTTP/1.1 200 OK\r\nContent-Length: \(text.utf8.count)\r\n\r\n\(text)".utf8)
        }
    }

    private static func run(_ path: String, _ change: (inout Draft) -> Void = { _ in }) throws
        -> AttemptResult
    {
        let (origin, fixture) = (try origin(), try Fixture())
        defer {
            fixture.stop()
            origin.stop()
        }
        let ended = fixture.run(.data, origin.url + path, change)
        return try #require(ended)
    }

    private static func text(_ result: AttemptResult) -> String? {
        result.success?.body.map { String(decoding: $0, as: UTF8.self) }
    }

    @Test(
        "methods and bodies follow RFC 9110 §15.4",
        arguments: [
            (301, "POST", "GET 0"), (302, "POST", "GET 0"), (303, "POST", "GET 0"), (307, "POST", "POST 5"),
            (308, "POST", "POST 5"), (301, "PUT", "PUT 5"), (303, "PUT", "GET 0"), (307, "PUT", "PUT 5"),
        ])
    func methods(status: Int, method: String, expected: String) throws {
        let result = try Self.run("/\(status)?/end") {
            $0.spec.request.method = method
            $0.payload = Array("hello".utf8)
        }
        #expect(Self.text(result) == expected + " - -")
        #expect(result.response?.url.hasSuffix("/end") == true)
    }

    @Test("credentials stay with their origin unless the job sends them on")
    func credentials() throws {
        let other = try Self.origin()
        defer { other.stop() }
        for (target, sends, expected) in [
            ("/end", false, "GET 0 Bearer s k"), (other.url + "/end", false, "GET 0 - -"),
            (other.url + "/end", true, "GET 0 Bearer s k"),
        ] {
            let result = try Self.run("/302?\(target)") {
                $0.spec.request.headers = [.init("X-Api-Key", "k")]
                $0.secrets.headers = [.init("Authorization", "Bearer s")]
                $0.spec.redirects.sendsCredentialsAcrossOrigins = sends
            }
            #expect(Self.text(result) == expected)
        }
    }

    @Test("loops end, other schemes and blocked addresses are not followed")
    func refused() throws {
        let origin = try ScriptedOrigin.answering { _, _ in
            Array("HTTP/1.1 302 x\r\nLocation: /again\r\nContent-Length: 0\r\n\r\n".utf8)
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        let endless = fixture.run(.data, origin.url) { $0.spec.redirects.countMax = 5 }
        #expect(endless?.failure?.code == .tooManyRedirects)
        #expect(origin.requests.count == 6)
        #expect(try Self.run("/302?file:///etc/passwd").failure?.code == .redirectInvalid)
        #expect(try Self.run("/302?http://169.254.169.254/latest").failure?.code == .blockedAddress)
    }

    @Test("with the policy reject, the redirect itself is the answer")
    func rejected() throws {
        let result = try Self.run("/302?/end") { $0.spec.redirects.policy = .reject }
        #expect(Self.text(result) == "abc")
        #expect(result.response?.status == 302)
    }
}
