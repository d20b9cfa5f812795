import FerryCore
import FerryEngine
import TestSupport
import TestThreads
import Testing

@Suite("Transfers through proxies", .serialized, .onOwnThread) struct ProxyTests {
    private static func with(
        _ kind: TestProxy.Kind, asks: Bool = false,
        _ body: (TestProxy, Nginx, Fixture) throws -> Void
    ) throws {
        let proxy = try TestProxy(kind, asksForCredentials: asks)
        defer { proxy.stop() }
        let nginx = try Nginx()
        defer { nginx.stop() }
        let fixture = try Fixture()
        defer { fixture.stop() }
        try nginx.serve("file", patternBytes(400_000))
        try body(proxy, nginx, fixture)
    }

    @Test(
        "a proxy passes files in both directions", arguments: [TestProxy.Kind.http, .socks5], [false, true])
    func passes(kind: TestProxy.Kind, asks: Bool) throws {
        try Self.with(kind, asks: asks) { proxy, nginx, fixture in
            // The name is the proxy's to resolve.
            let base = "http://localhost:\(nginx.port)"
            let (user, password) = asks ? ("user", "secret") : (nil, nil)
            let down = fixture.run(.download, base + "/file") {
                $0.to("file")
                try? $0.pass(proxy.url, user: user, password: password)
            }
            #expect(
                down?.success?.sha256 == sha256(patternBytes(400_000)), "\(String(describing: down?.failure))"
            )
            let up = fixture.run(.upload, base + "/put/x") {
                $0.spec.source = .path("file")
                try? $0.pass(proxy.url, user: user, password: password)
            }
            #expect(up?.success?.size == 400_000)
            #expect(readFile(nginx.root + "/put/x") == patternBytes(400_000))
            if kind == .http { #expect(proxy.requests.count == 2) }
        }
    }

    @Test("https passes through a tunnel, and the server's certificate is checked")
    func tunnel() throws {
        let authority = try TestAuthority.shared.get()
        let secure = try SecureNginx(authority)
        defer { secure.stop() }
        for kind in [TestProxy.Kind.http, .socks5] {
            try Self.with(kind) { proxy, _, fixture in
                for (server, isGood) in [(SecureNginx.Kind.valid, true), (.expired, false)] {
                    let result = fixture.run(.data, secure.url(server) + "/echo") {
                        $0.trust(authority.certificate)
                        try? $0.pass(proxy.url)
                    }
                    #expect(
                        (result?.response?.status == 200) == isGood, "\(String(describing: result?.failure))")
                    #expect(isGood || result?.failure?.code == .certificateInvalid)
                }
                if kind == .http {
                    #expect(proxy.requests.allSatisfy { $0.hasPrefix("CONNECT 127.0.0.1:") })
                    #expect(proxy.requests.count == 2)
                }
            }
        }
    }

    @Test("a proxy that asks for credentials fails the job at once")
    func credentials() throws {
        let authority = try TestAuthority.shared.get()
        let secure = try SecureNginx(authority)
        defer { secure.stop() }
        for kind in [TestProxy.Kind.http, .socks5] {
            try Self.with(kind, asks: true) { proxy, nginx, fixture in
                for url in [nginx.url + "/file", secure.url() + "/echo"] {
                    for password in [nil, "wrong"] {
                        let result = fixture.run(.download, url) {
                            $0.trust(authority.certificate)
                            if url.hasPrefix("http:") { $0.spec.request.connection?.tls = nil }
                            try? $0.pass(proxy.url, user: password.map { _ in "user" }, password: password)
                        }
                        let error = result?.failure
                        #expect(
                            error?.code == .authenticationRequired,
                            "\(kind) \(url): \(String(describing: error))")
                        #expect(error?.isRetryable == false)
                        // tinyproxy answers wrong credentials with 401, as the server itself would.
                        if kind == .http, url.hasPrefix("http:"), password != nil { continue }
                        #expect(error?.message.contains("proxy") == true)
                        #expect(error?.phase == .connecting)
                    }
                }
            }
        }
    }

    @Test("a tunnel that was opened with credentials is not reused by other jobs")
    func tunnelsStayApart() throws {
        let authority = try TestAuthority.shared.get()
        let secure = try SecureNginx(authority)
        defer { secure.stop() }
        try Self.with(.http, asks: true) { proxy, _, fixture in
            func run(_ user: String?, _ password: String?) -> AttemptResult? {
                fixture.run(.download, secure.url() + "/echo") {
                    $0.trust(authority.certificate)
                    try? $0.pass(proxy.url, user: user, password: password)
                }
            }
            #expect(run("user", "secret")?.success != nil)
            #expect(run("user", "wrong")?.failure?.code == .authenticationRequired)
            #expect(run(nil, nil)?.failure?.code == .authenticationRequired)
            #expect(run("user", "secret")?.success != nil)
        }
    }

    @Test("failures at the proxy are told apart from failures behind it")
    func failures() throws {
        try Self.with(.http) { proxy, _, fixture in
            let closed = "http://127.0.0.1:\(try FreePort.find())"
            let nobody = fixture.run(.download, "http://localhost:1/") { try? $0.pass(closed) }?.failure
            #expect(nobody?.code == .couldNotConnect && nobody?.message.contains("proxy") == true)
            #expect(nobody?.isRetryable == true)
            let unknown = fixture.run(.download, "http://localhost:1/") {
                try? $0.pass("http://ferry.invalid:3128")
            }?.failure
            #expect(unknown?.code == .hostNotFound && unknown?.message.contains("proxy") == true)
            let behind = fixture.run(.download, "https://localhost:1/") { try? $0.pass(proxy.url) }?.failure
            #expect(behind?.code == .couldNotConnect && behind?.isRetryable == true)
            #expect(behind?.message.contains("did not connect the server") == true)
            // CONNECT is no request of the job's: a POST may be tried again after it.
            let post = fixture.run(.data, "https://localhost:1/") {
                try? $0.pass(proxy.url)
                $0.spec.request.method = "POST"
                $0.payload = [1]
            }?.failure
            #expect(post?.code == .couldNotConnect && post?.isRetryable == true)
        }
        try Self.with(.socks5) { proxy, _, fixture in
            let behind = fixture.run(.download, "http://localhost:1/") { try? $0.pass(proxy.url) }?.failure
            #expect(behind?.code == .couldNotConnect && behind?.phase == .connecting)
        }
    }

    @Test("the egress policy checks the proxy's address, and the addresses of bypassed hosts")
    func egress() throws {
        let proxy = try TestProxy(.http)
        let nginx = try Nginx()
        let closed = try Fixture(allowsLoopback: false)
        let open = try Fixture()
        defer {
            closed.stop()
            open.stop()
            nginx.stop()
            proxy.stop()
        }
        let blocked = closed.run(.data, "http://example.org/") { try? $0.pass(proxy.url) }
        #expect(blocked?.failure?.code == .blockedAddress)
        let direct = open.run(.data, nginx.url + "/echo-headers") {
            try? $0.pass(proxy.url, bypass: ["127.0.0.0/8"])
        }
        #expect(direct?.response?.status == 200)
        #expect(proxy.requests.isEmpty)
        let excepted = closed.run(.data, nginx.url + "/echo-headers") {
            try? $0.pass(proxy.url, bypass: ["127.0.0.0/8"])
        }
        #expect(excepted?.failure?.code == .blockedAddress)
    }

    @Test("the operator's proxy serves jobs without one, also if the egress policy blocks its network")
    func serviceProxy() throws {
        let proxy = try TestProxy(.http, asksForCredentials: true)
        let nginx = try Nginx()
        let url = try ProxyURL(proxy.url)
        let fixture = try Fixture(allowsLoopback: false) {
            $0.proxy = ServiceProxy(
                url: url, user: "user", password: "secret", bypass: ProxyBypass(["127.0.0.1"]))
        }
        defer {
            fixture.stop()
            nginx.stop()
            proxy.stop()
        }
        let through = fixture.run(.data, "http://localhost:\(nginx.port)/echo-headers")
        #expect(through?.response?.status == 200, "\(String(describing: through?.failure))")
        #expect(proxy.requests.count == 1)
        // Without the proxy the address counts again.
        #expect(fixture.run(.data, nginx.url + "/echo-headers")?.failure?.code == .blockedAddress)
        let own = fixture.run(.data, "http://localhost:\(nginx.port)/") { try? $0.pass(proxy.url) }
        #expect(own?.failure?.code == .blockedAddress)
    }
}
