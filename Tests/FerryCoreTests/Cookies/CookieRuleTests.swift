import FerryCore
import Testing

/// Which cookies are stored, and which requests carry them: RFC 6265bis §5.1, §5.2, §5.4, §5.7 and §5.8.
@Suite("Rules of cookies") struct CookieRuleTests {
    private static let host = "https://www.a.example/"

    @Test(
        "the domain of a cookie is the request's host or a domain above it (§5.1.3 and §5.7, steps 7 to 10)",
        arguments: [
            ("", host, true), ("", "https://a.example/", false), ("", "https://b.www.a.example/", false),
            ("Domain=www.a.example", host, true), ("Domain=www.a.example", "https://b.www.a.example/", true),
            ("Domain=a.example", "https://a.example/", true),
            ("Domain=.A.eXample", "https://b.a.example/", true),
            ("Domain=a.example", "https://xa.example/", false), ("Domain=b.example", host, false),
            ("Domain=b.example", "https://b.example/", false), ("Domain=b.www.a.example", host, false),
            ("Domain=.", host, true), ("Domain=.", "https://a.example/", false), ("Domain=", host, true),
            ("Domain=..a.example", host, false), ("Domain=a.example.", host, false),
            ("Domain=a.example:443", host, false), ("Domain=\"a.example\"", host, false),
            ("Domain= a.example", host, true), ("Domain=. a.example", host, false),
            ("Domain=ä.example", host, false), ("Domain=b.example; Domain=a.example", host, true),
            ("Domain=a.example; Domain=b.example", host, false),
            // An empty value does not undo an earlier one.
            ("Domain=b.example; Domain=", host, false),
            ("Domain=a.example; Domain=", "https://a.example/", true),
        ])
    func domains(attribute: String, target: String, isSent: Bool) throws {
        let sent = try CookieJar.answer(["a=1; Path=/; " + attribute], from: Self.host, to: target)
        #expect(sent == (isSent ? "a=1" : nil))
    }

    @Test(
        "no cookie is for all hosts below a public suffix, whose own cookies are host-only (§5.7, step 9)",
        arguments: [
            ("https://b.co.example/", "co.example", "https://b.co.example/", false),
            ("https://b.co.example/", "example", "https://b.co.example/", false),
            ("https://co.example/", "co.example", "https://co.example/", true),
            ("https://co.example/", "co.example", "https://b.co.example/", false),
            ("https://c.b.co.example/", "b.co.example", "https://b.co.example/", true),
            ("https://localhost/", "localhost", "https://localhost/", true),
        ])
    func publicSuffixes(url: String, domain: String, target: String, isSent: Bool) throws {
        let sent = try CookieJar.answer(["a=1; Domain=" + domain], from: url, to: target)
        #expect(sent == (isSent ? "a=1" : nil))
    }

    @Test("a cookie whose domain has become a public suffix is not sent to hosts below it (§5.8.3)")
    func newSuffix() throws {
        var jar = CookieJar.empty()
        let stored = [
            Cookie.test("a", domain: "co.example"), Cookie.test("b", domain: "co.example", isHostOnly: true),
        ]
        jar.apply(stored: stored, removesOthers: true, now: cookieTime)
        #expect(try jar.sent(to: "https://x.co.example/") == nil)
        #expect(try jar.sent(to: "https://co.example/") == "b=1")
    }

    @Test(
        "an address is matched as a whole (§5.1.3)",
        arguments: [
            ("https://127.0.0.1/", "127.0.0.1", "https://127.0.0.1/", true),
            ("https://127.0.0.1/", "0.0.1", "https://127.0.0.1/", false),
            ("https://127.0.0.1/", "1", "https://127.0.0.1/", false),
            ("https://1.127.0.0.1.example/", "127.0.0.1", "https://127.0.0.1/", false),
            ("https://[::1]/", "[::1]", "https://[::1]/", true),
            ("https://[::1]/", "", "https://[::1]/", true),
        ])
    func addresses(url: String, domain: String, target: String, isSent: Bool) throws {
        let sent = try CookieJar.answer(["a=1; Domain=" + domain], from: url, to: target)
        #expect(sent == (isSent ? "a=1" : nil))
    }

    @Test("a host with a dot at its end is another host")
    func rootedHosts() throws {
        let rooted = "https://www.a.example./"
        #expect(try CookieJar.answer(["a=1"], from: rooted, to: rooted) == "a=1")
        #expect(try CookieJar.answer(["a=1"], from: rooted, to: Self.host) == nil)
        #expect(try CookieJar.answer(["a=1; Domain=a.example"], from: rooted, to: rooted) == nil)
        #expect(
            try CookieJar.answer(["a=1; Domain=a.example."], from: rooted, to: "https://b.a.example./")
                == "a=1")
    }

    @Test(
        "the path of a cookie is a prefix of the request's path up to a slash (§5.1.4)",
        arguments: [
            ("/", "/", true), ("/", "/x", true), ("/x", "/x", true), ("/x", "/x/", true),
            ("/x", "/x/y", true),
            ("/x", "/xy", false), ("/x", "/", false), ("/x", "/X", false), ("/x/", "/x/y", true),
            ("/x/", "/x", false), ("//", "/", false), ("/x", "/x?y", true), ("/x%20y", "/x%20y", true),
            ("/x y", "/x%20y", false), ("/%78", "/x", false), ("/é", "/%C3%A9", false), ("/x/..", "/", false),
        ])
    func paths(path: String, target: String, isSent: Bool) throws {
        let sent = try CookieJar.answer(["a=1; Path=" + path], to: "https://www.a.example" + target)
        #expect(sent == (isSent ? "a=1" : nil))
    }

    @Test(
        "without Path, the path is the request's without its last segment (§5.1.4)",
        arguments: [
            ("", "/"), ("/", "/"), ("/x", "/"), ("/x/", "/x"), ("/x/y", "/x"), ("/x/y/", "/x/y"),
            ("/x?/y", "/"),
        ])
    func defaultPaths(url: String, path: String) throws {
        var jar = CookieJar.empty()
        try jar.take(["a=1"], from: "https://a.example" + url)
        #expect(jar.cookies(now: cookieTime).map(\.path) == [path])
    }

    @Test(
        "secure cookies need https, or http to this machine (§5.7, step 13, and §5.8.3)",
        arguments: [
            ("https://a.example/", true), ("http://a.example/", false), ("http://localhost/", true),
            ("http://x.localhost:8080/", true), ("http://localhost.example/", false),
            ("http://127.0.0.1/", true), ("http://127.9.9.9/", true), ("http://[::1]/", true),
            ("http://[::ffff:127.0.0.1]/", true), ("http://128.0.0.1/", false), ("http://[::2]/", false),
            ("http://[1::1]/", false), ("http://0.0.0.0/", false),
        ])
    func secure(url: String, isSecure: Bool) throws {
        #expect(try CookieJar.answer(["a=1; Secure"], from: url, to: url) == (isSecure ? "a=1" : nil))
        var jar = CookieJar.empty()
        let host = try WebURL.parse(url).host
        jar.apply(
            stored: [.test(domain: host, isHostOnly: true, isSecure: true)], removesOthers: true,
            now: cookieTime)
        #expect(try jar.sent(to: url) == (isSecure ? "a=1" : nil))
    }

    @Test(
        "http cannot set a cookie over a secure one (§5.7, step 16)",
        arguments: [
            ("a=2", "http://www.a.example/", false), ("a=2; Domain=a.example", "http://b.a.example/", false),
            ("a=2; Path=/login/en", "http://www.a.example/", false),
            ("a=2; Path=/", "http://www.a.example/", true), ("a=2; Path=/log", "http://www.a.example/", true),
            ("b=2", "http://www.a.example/", true), ("a=2", "http://b.example/", true),
            ("a=2; Path=/login", "http://b.a.example/", true),
            ("a=2; Path=/login", "https://www.a.example/", true),
        ])
    func overlay(field: String, url: String, isStored: Bool) throws {
        for domain in ["", "; Domain=www.a.example"] {
            var jar = CookieJar.empty()
            try jar.take(["a=1; Secure; Path=/login" + domain], from: "https://www.a.example/")
            let path = field.contains("Path") || field.hasPrefix("b") ? "" : "; Path=/login"
            let context = try CookieContext(url)
            let wasStored = jar.take(setCookie: Array((field + path).utf8), context)
            #expect(wasStored == isStored)
        }
    }

    @Test(
        "names with a prefix need what it promises, in any case (§5.4 and §5.7, steps 20 to 22)",
        arguments: [
            ("__Secure-a=1", false), ("__Secure-a=1; Secure", true), ("__secure-a=1", false),
            ("__SECURE-a=1; Secure; Domain=a.example; Path=/x", true), ("_Secure-a=1", true),
            ("__Host-a=1", false), ("__Host-a=1; Secure", false), ("__Host-a=1; Secure; Path=/", true),
            ("__hOsT-a=1; Secure; Path=/", true), ("__host-a=1; Path=/", false),
            ("__Host-a=1; Secure; Path=/x", false), ("__Host-a=1; Secure; Path=", false),
            ("__Host-a=1; Secure; Path=/; Domain=www.a.example", false),
            ("__Http-a=1; Secure", false), ("__Http-a=1; HttpOnly", false),
            ("__http-a=1; Secure; HttpOnly; Domain=a.example", true),
            ("__Host-Http-a=1; Secure; Path=/", false), ("__Host-Http-a=1; Secure; HttpOnly", false),
            ("__Host-HTTP-a=1; Secure; HttpOnly; Path=/", true),
            ("__Secure-a", false), ("=__Host-a=1; Secure; Path=/", false), ("__http-a; Secure", false),
            ("__Host", true), ("__Secure", true),
        ])
    func prefixes(field: String, isStored: Bool) throws {
        var jar = CookieJar.empty()
        // The default path is that of the prefix, which is not enough.
        let wasStored = jar.take(setCookie: Array(field.utf8), try CookieContext(Self.host))
        #expect(wasStored == isStored)
    }

    @Test(
        "requests of other sites set and carry only cookies with SameSite=None (§5.7, step 18, §5.8.3)",
        arguments: [
            ("https://www.a.example/", nil, true), ("https://www.a.example/", "https://www.a.example/", true),
            ("https://www.a.example/", "https://a.example:81/x", true),
            ("https://www.a.example/", "https://b.example/", false),
            ("https://www.a.example/", "http://www.a.example/", false),
            ("https://x.co.example/", "https://y.co.example/", false),
            ("https://x.y.co.example/", "https://y.co.example/", true),
            ("https://co.example/", "https://co.example/", true),
            ("https://127.0.0.1/", "https://127.0.0.1/", true),
            ("https://127.0.0.1/", "https://1.0.0.1/", false),
        ] as [(String, String?, Bool)])
    func sites(url: String, main: String?, isSameSite: Bool) throws {
        let fields = [
            "n=1; SameSite=None; Secure", "l=1; SameSite=Lax", "s=1; SameSite=Strict", "u=1",
        ]
        var jar = CookieJar.empty()
        try jar.take(fields, from: url, main: main)
        #expect(try jar.sent(to: url) == (isSameSite ? "n=1; l=1; s=1; u=1" : "n=1"))
        jar = CookieJar.empty()
        try jar.take(fields, from: url)
        #expect(try jar.sent(to: url, main: main) == (isSameSite ? "n=1; l=1; s=1; u=1" : "n=1"))
    }

    @Test("SameSite=None needs Secure (§5.7, step 19)")
    func unrestricted() throws {
        #expect(try CookieJar.answer(["a=1; SameSite=None"]) == nil)
        #expect(try CookieJar.answer(["a=1; SameSite=None; Secure"]) == "a=1")
    }

    @Test(
        "the policy decides which answers set cookies",
        arguments: [
            (.always, "https://b.example/", true), (.never, nil, false),
            (.onlyFromMainDocumentDomain, nil, true),
            (.onlyFromMainDocumentDomain, "https://a.example/", true),
            (.onlyFromMainDocumentDomain, "http://x.a.example/", true),
            (.onlyFromMainDocumentDomain, "https://b.example/", false),
        ] as [(CookieAcceptPolicy, String?, Bool)])
    func policies(policy: CookieAcceptPolicy, main: String?, isStored: Bool) throws {
        let context = try CookieContext(Self.host, main: main, policy: policy)
        var jar = CookieJar.empty()
        let wasStored = jar.take(setCookie: Array("a=1; SameSite=None; Secure".utf8), context)
        #expect(wasStored == isStored)
    }

    @Test("a client cannot set a cookie that no answer could have set")
    func given() throws {
        let failures: [(Cookie, Cookie.Failure)] = [
            (.test("", ""), .empty), (.test("a", String(repeating: "x", count: 4_096)), .tooLong),
            (.test("a=b"), .invalidCharacter), (.test("a;b"), .invalidCharacter),
            (.test(" a"), .invalidCharacter),
            (.test("a", "b;c=d"), .invalidCharacter), (.test("a", "b\r\nX: y"), .invalidCharacter),
            (.test("a", "b\t"), .invalidCharacter), (.test(domain: ""), .invalidDomain),
            (.test(domain: "A.example"), .invalidDomain), (.test(domain: ".a.example"), .invalidDomain),
            (.test(domain: "a b"), .invalidDomain), (.test(domain: "127.1"), .invalidDomain),
            (.test(domain: "co.example"), .publicSuffix), (.test(path: ""), .invalidPath),
            (.test(path: "x"), .invalidPath), (.test(path: "/é"), .invalidPath),
            (.test(path: "/;"), .invalidPath), (.test(path: "/\n"), .invalidPath),
            (.test(path: "/" + String(repeating: "x", count: 1_024)), .invalidPath),
            (.test("__Secure-a"), .restrictedPrefix), (.test("__host-a", isSecure: true), .restrictedPrefix),
            (.test("", "__Secure-a", isSecure: true), .restrictedPrefix),
            (.test(sameSite: .unrestricted), .unrestrictedWithoutSecure),
        ]
        for (cookie, failure) in failures {
            var jar = CookieJar.empty()
            let error = #expect(throws: Cookie.Failure.self) { try jar.set(cookie, now: cookieTime) }
            #expect(error == failure && jar.isEmpty && !failure.message.isEmpty)
        }
        for cookie in [
            Cookie.test("__Host-a", isHostOnly: true, isSecure: true), .test("", "a=b"), .test("a", ""),
            .test(domain: "co.example", isHostOnly: true), .test(domain: "127.0.0.1"), .test(domain: "[::1]"),
        ] {
            var jar = CookieJar.empty()
            try jar.set(cookie, now: cookieTime)
            #expect(jar.cookies(now: cookieTime) == [cookie])
        }
    }
}
