import FerryCore
import FerryEngine
import Synchronization
import TestSupport
import TestThreads
import Testing

@Suite("Authentication", .serialized, .onOwnThread) struct AuthenticationTests {
    private static func echo() throws -> ScriptedOrigin {
        try ScriptedOrigin.answering { request, _ in
            if let target = request.path.split(separator: "?").dropFirst().first {
                return Array("HTTP/1.1 302 x\r\nLocation: \(target)\r\nContent-Length: 0\r\n\r\n".utf8)
            }
            let text = request.header("authorization") ?? "-"
            return Array("HTTP/1.1 200 OK\r\nContent-Length: \(text.utf8.count)\r\n\r\n\(text)".utf8)
        }
    }

    @Test("Basic and Bearer credentials go with the first request, and only to their origin")
    func atOnce() throws {
        let (here, there, fixture) = (try Self.echo(), try Self.echo(), try Fixture())
        defer {
            fixture.stop()
            here.stop()
            there.stop()
        }
        for (scheme, secret, expected) in [
            (ConnectionRules.Authentication.Scheme.basic, "sécret:x", "Basic dXNlcjpzw6ljcmV0Ong="),
            (.bearer, "abc.def", "Bearer abc.def"),
        ] {
            let direct = fixture.run(.data, here.url + "/") { $0.authenticate(scheme, "user", secret) }
            #expect(direct?.text == expected)
            let within = fixture.run(.data, here.url + "/a?/b") { $0.authenticate(scheme, "user", secret) }
            #expect(within?.text == expected)
            let away = fixture.run(.data, here.url + "/a?\(there.url)/b") {
                $0.authenticate(scheme, "user", secret)
            }
            #expect(away?.text == "-")
            let allowed = fixture.run(.data, here.url + "/a?\(there.url)/b") {
                $0.authenticate(scheme, "user", secret)
                $0.spec.redirects.sendsCredentialsAcrossOrigins = true
            }
            #expect(allowed?.text == expected)
        }
    }

    @Test("Digest answers the challenge, and the body is sent once", arguments: ["MD5", "SHA-256"])
    func digest(algorithm: String) throws {
        let origin = try DigestOrigin(algorithm)
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        let bytes = patternBytes(2_500_000)
        try writeFile(fixture.root + "/source", bytes)
        let upload = fixture.run(.upload, origin.url + "/x?y=1") {
            $0.authenticate(.digest)
            $0.spec.source = .path("source")
        }
        #expect(upload?.success?.sha256 == sha256(bytes), "\(String(describing: upload?.failure))")
        #expect(
            origin.seen == [
                .init(method: "PUT", byteCount: 0, isAuthorized: false),
                .init(method: "PUT", byteCount: 2_500_000, isAuthorized: true),
            ])
        let post = fixture.run(.data, origin.url + "/") {
            $0.authenticate(.digest)
            $0.spec.request.method = "POST"
            $0.payload = Array("hello".utf8)
        }
        #expect(post?.text == "POST 5", "\(String(describing: post?.failure))")
    }

    @Test("a download with Digest stores the file without the challenge's body")
    func digestDownload() throws {
        let bytes = patternBytes(300_000)
        let origin = try DigestOrigin("SHA-256") { _, _ in
            Array("HTTP/1.1 200 OK\r\nContent-Length: \(bytes.count)\r\n\r\n".utf8) + bytes
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        // The third answer of a nonce is stale: three jobs one after the other come through nevertheless.
        for number in 0..<3 {
            let result = fixture.run(.download, origin.url + "/") {
                $0.authenticate(.digest)
                $0.to("file-\(number)")
            }
            #expect(result?.success?.sha256 == sha256(bytes))
            #expect(result?.response?.status == 200)
        }
    }

    @Test("a stale nonce is answered with the next one")
    func stale() throws {
        let origin = try DigestOrigin("MD5") { request, _ in
            guard request.path.utf8.count < 6 else {
                return Array("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".utf8)
            }
            return Array(
                "HTTP/1.1 302 x\r\nLocation: \(request.path)x\r\nContent-Length: 0\r\n\r\n".utf8)
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        let result = fixture.run(.data, origin.url + "/x") { $0.authenticate(.digest) }
        #expect(result?.text == "ok", "\(String(describing: result?.failure))")
    }

    @Test("wrong credentials fail a download without a retry; a data job succeeds with the 401")
    func wrong() throws {
        let origin = try DigestOrigin("SHA-256")
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        let download = fixture.run(.download, origin.url + "/") { $0.authenticate(.digest, "user", "wrong") }
        #expect(download?.failure?.code == .authenticationRequired)
        #expect(download?.failure?.isRetryable == false)
        #expect(download?.response?.status == 401)
        let data = fixture.run(.data, origin.url + "/") { $0.authenticate(.digest, "user", "wrong") }
        #expect(data?.text == "nope" && data?.response?.status == 401)
        let none = fixture.run(.download, origin.url + "/")
        #expect(none?.failure?.code == .authenticationRequired)
    }

    @Test("an unanswered request after a challenge is sent again only if it may be repeated")
    func unanswered() throws {
        for (byteCount, isAllowed) in [(0, false), (5_000, false), (5_000, true)] {
            let hasActed = Atomic<Bool>(false)
            let origin = try ScriptedOrigin { connection in
                while let request = connection.readRequest() {
                    _ = connection.readBody(of: request)
                    guard request.header("authorization") != nil else {
                        connection.send(
                            "HTTP/1.1 401 No\r\nWWW-Authenticate: Digest realm=\"r\", nonce=\"n\", "
                                + "qop=\"auth\"\r\nContent-Length: 2\r\n\r\nno")
                        continue
                    }
                    // The connection ends without a byte.
                    guard hasActed.exchange(true, ordering: .relaxed) else { return }
                    connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
                }
            }
            let fixture = try Fixture()
            defer {
                fixture.stop()
                origin.stop()
            }
            let result = fixture.run(.data, origin.url) {
                $0.authenticate(.digest)
                $0.spec.request.method = "POST"
                $0.payload = byteCount == 0 ? nil : patternBytes(byteCount)
                $0.spec.retry.repeatsNonIdempotent = isAllowed
            }
            let sentCount = origin.requests.filter { $0.header("authorization") != nil }.count
            if isAllowed {
                #expect(result?.text == "ok" && sentCount == 2, "\(String(describing: result?.failure))")
            } else {
                #expect(sentCount == 1 && result?.response == nil)
                #expect(result?.failure?.code == .connectionLost, "\(String(describing: result?.failure))")
                #expect(result?.failure?.isRetryable == false)
            }
        }
    }

    @Test("a server that sends no challenge gets the body")
    func unasked() throws {
        let origin = try ScriptedOrigin.answering { request, body in
            Array("HTTP/1.1 201 Created\r\nContent-Length: 0\r\nX-Got: \(body.count)\r\n\r\n".utf8)
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        let result = fixture.run(.upload, origin.url + "/") {
            $0.authenticate(.digest)
            $0.payload = Array("hello".utf8)
            $0.spec.source = .inline(.init(form: .text, byteCount: 5))
        }
        #expect(result?.success?.size == 5)
        #expect(result?.response?.headers.contains { $0.name == "X-Got" && $0.value == "5" } == true)
    }
}
