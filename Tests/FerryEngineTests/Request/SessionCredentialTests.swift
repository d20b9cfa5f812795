import FerryCore
import FerryEngine
import TestSupport
import TestThreads
import Testing

@Suite("Credentials of sessions in requests", .serialized, .onOwnThread) struct SessionCredentialTests {
    private let cache = SessionCache()

    /// Stores the session's credentials: for each its name, the URL of its server, and members of its space.
    private func keep(
        _ credentials: (name: String, url: String, space: String, secrets: String)..., revision: Int32 = 1
    ) throws {
        let now = Timestamp(microseconds: 0)
        let records = try credentials.map { given in
            let url = try WebURL.parse(given.url)
            let json = #"""
                {"protection_space":{"scheme":"\#(url.scheme.rawValue)","host":"\#(url.host)",
                "port":\#(url.port)\#(given.space)},\#(given.secrets)}
                """#
            let draft = try CredentialDraft(JSONView(parsing: Array(json.utf8)), seal: { $0 })
            return CredentialRecord(
                given.name, revision: revision, createdAt: now, updatedAt: now, credential: draft.credential,
                secrets: draft.secrets)
        }
        let next = cache.current.epoch + 1
        let key = SessionKey(tenant: "tenant", name: SessionName.standard)
        let record = SessionRecord(
            key, revision: 1, epoch: next, createdAt: now, updatedAt: now,
            configuration: SessionConfiguration(), credentials: records)
        cache.put(SessionSnapshot(epoch: next, removal: 0, records: [key: record]))
    }

    private static let user = #""user":"user","password":"secret""#
    private static let basic = "Basic dXNlcjpzZWNyZXQ="

    /// A server that demands Basic authentication of `user` below `/p/`, and none elsewhere. Below
    /// `/to/` it redirects to the rest of the path.
    private static func protected(
        _ challenge: String = #"Basic realm="files""#, accepts: String = basic
    ) throws -> ScriptedOrigin {
        try ScriptedOrigin.answering { request, body in
            let path = request.path
            if let place = path.firstRange(of: "/to/") {
                let target = path[place.upperBound...]
                return Array("HTTP/1.1 302 x\r\nLocation: \(target)\r\nContent-Length: 0\r\n\r\n".utf8)
            }
            guard path.hasPrefix("/p/"), request.header("authorization") != accepts else {
                let text = "\(request.method) \(body.count)"
                return Array("HTTP/1.1 200 OK\r\nContent-Length: \(text.utf8.count)\r\n\r\n\(text)".utf8)
            }
            return Array(
                "HTTP/1.1 401 x\r\nWWW-Authenticate: \(challenge)\r\nContent-Length: 4\r\n\r\nnope".utf8)
        }
    }

    private func fixture() throws -> Fixture { try Fixture { $0.sessions = cache } }

    private func sent(_ origin: ScriptedOrigin) -> [String?] {
        origin.requests.map { $0.header("authorization") }
    }

    @Test("a challenge is answered in the same attempt, and later jobs below its path send Basic at once")
    func basic() throws {
        let (origin, fixture) = (try Self.protected(), try fixture())
        defer {
            fixture.stop()
            origin.stop()
        }
        try keep(("a", origin.url, #","realm":"files""#, Self.user))
        #expect(fixture.run(.data, origin.url + "/open")?.text == "GET 0")
        #expect(fixture.run(.data, origin.url + "/p/d/one")?.text == "GET 0")
        #expect(sent(origin) == [nil, nil, Self.basic])
        #expect(fixture.run(.data, origin.url + "/p/d/e/two")?.text == "GET 0")
        #expect(fixture.run(.download, origin.url + "/open")?.success != nil)
        #expect(sent(origin).dropFirst(3) == [Self.basic, nil])
        // Above the path, the server is asked again.
        #expect(fixture.run(.data, origin.url + "/p/three")?.text == "GET 0")
        #expect(sent(origin).dropFirst(5) == [nil, Self.basic])
    }

    @Test("an upload sends its body again with the credential")
    func upload() throws {
        let (origin, fixture) = (try Self.protected(), try fixture())
        defer {
            fixture.stop()
            origin.stop()
        }
        try keep(("a", origin.url, "", Self.user))
        let bytes = patternBytes(50_000)
        try writeFile(fixture.root + "/source", bytes)
        let result = fixture.run(.upload, origin.url + "/p/x") { $0.spec.source = .path("source") }
        #expect(result?.success?.sha256 == sha256(bytes), "\(String(describing: result?.failure))")
        #expect(sent(origin) == [nil, Self.basic])
    }

    @Test("Digest uses the nonce for later requests with a rising count, and renews a stale one")
    func digest() throws {
        let (origin, fixture) = (try DigestOrigin("MD5"), try fixture())
        defer {
            fixture.stop()
            origin.stop()
        }
        try keep(("a", origin.url, "", Self.user))
        for _ in 0..<3 { #expect(fixture.run(.data, origin.url + "/a?b=c")?.text == "GET 0") }
        // A nonce serves twice: the third request finds it stale.
        #expect(origin.seen.map(\.isAuthorized) == [false, true, true, false, true])
        #expect(origin.nonceCounts == ["00000001", "00000002", "00000003", "00000001"])
    }

    @Test("a bearer token answers its challenge")
    func bearer() throws {
        let (origin, fixture) = (try Self.protected("Bearer", accepts: "Bearer abc"), try fixture())
        defer {
            fixture.stop()
            origin.stop()
        }
        try keep(("a", origin.url, "", #""token":"abc""#))
        for _ in 0..<2 { #expect(fixture.run(.data, origin.url + "/p/x")?.text == "GET 0") }
        #expect(sent(origin) == [nil, "Bearer abc", "Bearer abc"])
    }

    @Test("a refused credential is sent once, and the job fails as without one")
    func refused() throws {
        let (origin, fixture) = (try Self.protected(), try fixture())
        defer {
            fixture.stop()
            origin.stop()
        }
        try keep(("a", origin.url, "", #""user":"user","password":"wrong""#))
        let result = fixture.run(.download, origin.url + "/p/x")
        #expect(result?.failure?.code == .authenticationRequired && result?.failure?.isRetryable == false)
        #expect(sent(origin).count == 2)
    }

    @Test("if one credential is refused, the next one that fits is sent")
    func several() throws {
        let (origin, fixture) = (try Self.protected(), try fixture())
        defer {
            fixture.stop()
            origin.stop()
        }
        try keep(
            ("a", origin.url, #","realm":"files""#, #""user":"user","password":"wrong""#),
            ("b", origin.url, "", Self.user))
        #expect(fixture.run(.download, origin.url + "/p/x")?.success != nil)
        #expect(fixture.run(.download, origin.url + "/p/y")?.success != nil)
        #expect(sent(origin).count == 4 && sent(origin).suffix(2) == [Self.basic, Self.basic])
    }

    @Test("a credential is not sent to another origin: by redirects, mirrors, or across origins")
    func otherOrigins() throws {
        let (own, other, fixture) = (try Self.protected(), try Self.protected(), try fixture())
        defer {
            fixture.stop()
            own.stop()
            other.stop()
        }
        try keep(("a", own.url, "", Self.user))
        #expect(fixture.run(.download, own.url + "/p/x")?.success != nil)
        let result = fixture.run(.download, own.url + "/p/to/\(other.url)/p/x") {
            $0.spec.redirects.sendsCredentialsAcrossOrigins = true
        }
        #expect(result?.failure?.code == .authenticationRequired)
        let mirrored = fixture.run(.download, own.url + "/p/y") {
            $0.spec.mirrors = [other.url + "/p/x"]
            $0.spec.segmentCountMax = 2
        }
        #expect(mirrored?.success != nil)
        #expect(sent(other).allSatisfy { $0 == nil })
        #expect(sent(own).last == Self.basic)
    }

    @Test("after a redirect, the credential of the target's own space is used there")
    func redirects() throws {
        let (own, other, fixture) = (try Self.protected(), try Self.protected(), try fixture())
        defer {
            fixture.stop()
            own.stop()
            other.stop()
        }
        try keep(("a", other.url, "", Self.user))
        #expect(fixture.run(.download, own.url + "/to/\(other.url)/p/x")?.success != nil)
        #expect(sent(own) == [nil] && sent(other) == [nil, Self.basic])
    }

    @Test("the job's own credential wins: auth, and an Authorization field")
    func ownCredential() throws {
        let (origin, fixture) = (try Self.protected(), try fixture())
        defer {
            fixture.stop()
            origin.stop()
        }
        try keep(("a", origin.url, "", Self.user))
        #expect(fixture.run(.data, origin.url + "/p/x")?.text == "GET 0")
        let auth = fixture.run(.download, origin.url + "/p/x") { $0.authenticate(.basic, "user", "own") }
        #expect(auth?.failure?.code == .authenticationRequired)
        let field = fixture.run(.download, origin.url + "/p/x") {
            $0.spec.request.headers = [.init("Authorization", "")]
            $0.secrets.headers = [.init("Authorization", "Own 1")]
        }
        #expect(field?.failure?.code == .authenticationRequired)
        #expect(sent(origin).suffix(2) == ["Basic dXNlcjpvd24=", "Own 1"])
    }

    @Test("a deleted credential is no longer sent, and a replaced one at once with its new password")
    func changes() throws {
        let (origin, fixture) = (try Self.protected(), try fixture())
        defer {
            fixture.stop()
            origin.stop()
        }
        try keep(("a", origin.url, "", #""user":"user","password":"wrong""#))
        #expect(fixture.run(.download, origin.url + "/p/x")?.failure != nil)
        try keep(("a", origin.url, "", Self.user), revision: 2)
        #expect(fixture.run(.download, origin.url + "/p/x")?.success != nil)
        try keep()
        #expect(fixture.run(.download, origin.url + "/p/x")?.failure?.code == .authenticationRequired)
        #expect(sent(origin).suffix(3) == [nil, Self.basic, nil])
    }

    @Test("a download in parts answers the challenge once and sends the credential with each part")
    func parts() throws {
        let bytes = patternBytes(3_000_000)
        let origin = try DigestOrigin("SHA-256") { _, _ in
            Array("HTTP/1.1 200 OK\r\nContent-Length: \(bytes.count)\r\n\r\n".utf8) + bytes
        }
        let fixture = try fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        try keep(("a", origin.url, "", Self.user))
        let result = fixture.run(.download, origin.url + "/x") { $0.spec.segmentCountMax = 4 }
        #expect(result?.success?.sha256 == sha256(bytes), "\(String(describing: result?.failure))")
    }

    @Test("a proxy gets its own credential after a challenge, then at once, and no other server gets it")
    func proxies() throws {
        let (proxy, nginx, fixture) = (
            try TestProxy(.http, asksForCredentials: true), try Nginx(), try fixture()
        )
        defer {
            fixture.stop()
            nginx.stop()
            proxy.stop()
        }
        let run = { (isThrough: Bool) in
            fixture.run(.data, "http://localhost:\(nginx.port)/echo-headers") {
                if isThrough { try? $0.pass(proxy.url) }
            }
        }
        try keep(("a", proxy.url, "", Self.user))
        #expect(run(true)?.response?.status == 407, "it is not for proxies")
        try keep(("a", proxy.url, #","proxy":true"#, Self.user), revision: 2)
        let before = proxy.requests.count
        for _ in 0..<2 {
            let result = run(true)
            #expect(result?.response?.status == 200, "\(String(describing: result?.failure))")
            #expect(result?.text?.contains("dXNlcjpzZWNyZXQ=") == false)
        }
        #expect(proxy.requests.count == before + 3)
        #expect(run(false)?.response?.status == 200)
        try keep(("a", proxy.url, #","proxy":true"#, #""user":"user","password":"no""#), revision: 3)
        // tinyproxy refuses a wrong password with 401.
        #expect(run(true)?.response?.status == 401)
    }

    @Test("a tunnel that a proxy refuses is asked for again with the proxy's credential")
    func tunnels() throws {
        let authority = try TestAuthority.shared.get()
        let (proxy, secure, fixture) = (
            try TestProxy(.http, asksForCredentials: true), try SecureNginx(authority), try fixture()
        )
        defer {
            fixture.stop()
            secure.stop()
            proxy.stop()
        }
        let run = {
            fixture.run(.data, secure.url(.valid) + "/echo") {
                $0.trust(authority.certificate)
                try? $0.pass(proxy.url)
            }
        }
        try keep(("a", proxy.url, #","proxy":true"#, Self.user))
        for _ in 0..<2 {
            let result = run()
            #expect(result?.response?.status == 200, "\(String(describing: result?.failure))")
        }
        #expect(proxy.requests.count == 3)
        try keep(("a", proxy.url, #","proxy":true"#, #""user":"user","password":"no""#), revision: 2)
        #expect(run()?.failure?.code == .authenticationRequired)
        #expect(proxy.requests.count == 5)
    }

    @Test("with on_challenge ask, a refused credential is proposed, and none before it was tried")
    func question() throws {
        let (origin, fixture) = (try Self.protected(), try fixture())
        defer {
            fixture.stop()
            origin.stop()
        }
        let ask = { (path: String) in
            fixture.run(.download, origin.url + path) { $0.spec.asksOnChallenge = true }?.outcome
        }
        guard case .asked(let without)? = ask("/p/x") else { throw Unexpected() }
        #expect(without.proposedCredential == nil)
        try keep(("a", origin.url, "", #""user":"user","password":"wrong""#))
        guard case .asked(let refused)? = ask("/p/x") else { throw Unexpected() }
        #expect(refused.proposedCredential == .init(name: "a", user: "user"))
        guard case .challenge(let spaces, let count) = refused.subject else { throw Unexpected() }
        #expect(spaces.map(\.method) == [.basic] && count == 1)
        try keep(("a", origin.url, "", Self.user), revision: 2)
        guard case .succeeded? = ask("/p/x") else { throw Unexpected() }
    }
}

private struct Unexpected: Error {}
