import FerryCore
import Testing

/// The jar: order, replacement, expiry, limits and selection (RFC 6265bis §5.7 and §5.8).
@Suite("Jars of cookies") struct CookieJarTests {
    private static let url = "https://www.a.example/x/y"

    @Test("longer paths are sent first, then cookies that were created earlier (§5.8.3)")
    func order() throws {
        let fields = [
            "a=1; Path=/", "b=1; Path=/x", "c=1; Path=/x/y", "d=1; Path=/; Domain=a.example",
            "e=1; Path=/x; Domain=a.example", "f=1; Path=/",
        ]
        #expect(try CookieJar.answer(fields, to: Self.url) == "c=1; b=1; e=1; a=1; d=1; f=1")
        #expect(try CookieJar.answer(fields.reversed(), to: Self.url) == "c=1; e=1; b=1; f=1; d=1; a=1")
    }

    @Test("cookies of one answer keep their order when they are stored and read again")
    func storedOrder() throws {
        var jar = CookieJar.empty()
        try jar.take((0..<20).map { "c\(19 - $0)=1" }, from: Self.url)
        let sent = try jar.sent(to: Self.url)
        var other = CookieJar.empty()
        other.apply(stored: jar.cookies(now: cookieTime).shuffled(), removesOthers: true, now: cookieTime)
        #expect(try other.sent(to: Self.url) == sent)
    }

    @Test("a cookie replaces one of the same name, domain, flag and path, and keeps its creation time (§5.7)")
    func replacement() throws {
        var jar = CookieJar.empty()
        try jar.take(["a=1", "b=1"], from: Self.url)
        try jar.take(["b=2", "a=2; Secure", "A=3", "a=4; Path=/"], from: Self.url, after: 5)
        try jar.take(["a=5; Domain=www.a.example"], from: Self.url, after: 6)
        #expect(try jar.sent(to: Self.url, after: 7) == "a=2; b=2; A=3; a=5; a=4")
        #expect(jar.count == 5)
    }

    @Test("an expired cookie removes the one with the same key, and no other (§5.7)")
    func removal() throws {
        let over = "; Max-Age=0"
        #expect(try CookieJar.answer(["a=1", "a=2" + over]) == nil)
        #expect(try CookieJar.answer(["a=1", "a=" + over, "a=2"]) == "a=2")
        #expect(try CookieJar.answer(["a=1", "a=2; Path=/" + over]) == "a=1")
        #expect(try CookieJar.answer(["a=1", "a=2; Domain=www.a.example" + over]) == "a=1")
        var jar = CookieJar.empty()
        try jar.take(["a=1; Secure; Path=/"], from: "https://www.a.example/")
        try jar.take(["a=1; Path=/" + over], from: "http://www.a.example/")
        #expect(try jar.sent(to: Self.url) == "a=1")
    }

    @Test("a cookie is gone at the time of its expiry; a session cookie stays")
    func expiry() throws {
        var jar = CookieJar.empty()
        try jar.take(["a=1; Max-Age=10", "b=1", "c=1; Max-Age=20"], from: Self.url)
        #expect(try jar.sent(to: Self.url, after: 9.9) == "a=1; b=1; c=1")
        #expect(jar.cookies(now: cookieTime + 10).count == 2)
        #expect(try jar.sent(to: Self.url, after: 10) == "b=1; c=1")
        try jar.visit(Self.url, after: 10)
        #expect(jar.count == 2)
        #expect(try jar.sent(to: Self.url, after: 21) == "b=1")
        #expect(try jar.sent(to: Self.url, after: 1e10) == "b=1")
    }

    @Test("beyond the limit of a domain, unused cookies go first, those without Secure before all (§5.7)")
    func domainLimit() throws {
        var jar = CookieJar.empty(CookieLimits(domainCountMax: 3, countMax: 9, byteCountMax: 1 << 20))
        try jar.take(["a=1; Secure", "b=1", "c=1; Path=/q"], from: Self.url)
        try jar.visit(Self.url, after: 1)
        try jar.take(["d=1; Secure"], from: Self.url, after: 2)
        #expect(jar.cookies(now: cookieTime).map(\.pair).sorted() == ["a=1", "b=1", "d=1"])
        try jar.take(["e=1; Secure"], from: Self.url, after: 3)
        #expect(jar.cookies(now: cookieTime).map(\.pair).sorted() == ["a=1", "d=1", "e=1"])
        // A new cookie without Secure goes itself.
        try jar.take(["f=1"], from: Self.url, after: 4)
        #expect(jar.cookies(now: cookieTime).map(\.pair).sorted() == ["a=1", "d=1", "e=1"])
        try jar.take(["g=1; Secure"], from: Self.url, after: 5)
        #expect(jar.cookies(now: cookieTime).map(\.pair).sorted() == ["d=1", "e=1", "g=1"])
        // Other domains have a limit of their own.
        try jar.take(["h=1; Domain=a.example", "i=1; Domain=a.example"], from: Self.url, after: 6)
        #expect(jar.count == 5)
    }

    @Test("beyond the limits of the jar, the cookie that was not used for the longest time goes (§5.7)")
    func jarLimits() throws {
        var jar = CookieJar.empty(CookieLimits(domainCountMax: 9, countMax: 3, byteCountMax: 1 << 20))
        for host in ["b", "c", "d"] { try jar.take(["a=1; Secure"], from: "https://\(host).example/") }
        try jar.visit("https://b.example/", after: 1)
        try jar.take(["a=1"], from: "https://e.example/", after: 2)
        #expect(jar.cookies(now: cookieTime).map(\.domain) == ["b.example", "d.example", "e.example"])

        let one = Cookie.test("a", String(repeating: "x", count: 1_000), domain: "a.example").byteCount
        jar = .empty(CookieLimits(domainCountMax: 9, countMax: 9, byteCountMax: 2 * one))
        for host in ["a", "b", "c"] {
            try jar.take(["a=" + String(repeating: "x", count: 1_000)], from: "https://\(host).example/")
        }
        #expect(jar.cookies(now: cookieTime).map(\.domain) == ["b.example", "c.example"])
        #expect(jar.byteCount == 2 * one)
    }

    @Test("a session's jar has at least the capacity of RFC 6265bis §6.1")
    func standardLimits() throws {
        var jar = CookieJar.empty()
        try jar.take((0..<200).map { "c\($0)=1" }, from: Self.url)
        #expect(jar.count == 180)
        for number in 0..<3_005 { try jar.take(["a=1"], from: "https://h\(number).example/") }
        #expect(jar.count == 3_000 && jar.byteCount < CookieLimits.standard.byteCountMax)
    }

    @Test("a filter selects by name, receiving host, path and creation time")
    func filters() throws {
        var jar = CookieJar.empty()
        try jar.take(["a=1", "b=1; Domain=a.example; Path=/"], from: Self.url)
        try jar.take(["a=2"], from: "https://b.example/", after: 5)
        func names(_ filter: CookieFilter) -> [String] {
            jar.cookies(where: filter, now: cookieTime).map { "\($0.pair) \($0.domain)" }
        }
        let (first, second, third) = ("b=1 a.example", "a=2 b.example", "a=1 www.a.example")
        #expect(names(.all) == [first, second, third])
        #expect(names(CookieFilter(name: [0x61])) == [second, third])
        #expect(names(CookieFilter(domain: "www.a.example")) == [first, third])
        #expect(names(CookieFilter(domain: ".WWW.a.example")) == [first, third])
        #expect(names(CookieFilter(domain: "a.example")) == [first])
        #expect(names(CookieFilter(domain: "c.www.a.example")) == [first])
        #expect(names(CookieFilter(domain: "example")) == [] && names(CookieFilter(domain: "a b")) == [])
        #expect(names(CookieFilter(path: "/x")) == [third])
        #expect(names(CookieFilter(since: cookieTime + 5)) == [second])
        #expect(names(CookieFilter(name: [0x61], domain: "b.example", since: cookieTime + 6)) == [])
        let count = jar.remove(where: CookieFilter(name: [0x61]), now: cookieTime + 6)
        #expect(count == 2 && jar.count == 1)
        let rest = jar.remove(where: .all, now: cookieTime + 6)
        #expect(rest == 1 && jar.isEmpty && jar.byteCount == 0)
    }

    @Test("pages of cookies hold each cookie once, in the order of the keys")
    func pages() throws {
        var jar = CookieJar.empty()
        for host in ["b", "a", "c"] {
            try jar.take(["x=1", "y=1; Path=/p", "x=2; Path=/p"], from: "https://\(host).example/")
        }
        let all = jar.cookies(now: cookieTime)
        var (pages, last) = ([Cookie](), Cookie.Key?.none)
        while true {
            let page = jar.cookies(after: last, limit: 2, now: cookieTime)
            guard let key = page.last?.key else { break }
            pages += page
            last = try Cookie.Key(octets: key.octets)
        }
        #expect(pages == all && all.count == 9)
    }

    @Test("a client's cookie lives at most 400 days and was created by now")
    func given() throws {
        var jar = CookieJar.empty()
        let ahead = cookieTime + 9e9
        try jar.set(.test("a", expiresAt: ahead, createdAt: ahead, lastAccessAt: ahead), now: cookieTime)
        try jar.set(.test("b", createdAt: cookieTime + -50), now: cookieTime)
        let (a, b) = (jar.cookies(now: cookieTime)[0], jar.cookies(now: cookieTime)[1])
        #expect(a.expiresAt == cookieTime + 400 * 86_400 && a.createdAt == cookieTime)
        #expect(a.lastAccessAt == cookieTime && b.createdAt == cookieTime + -50)
        try jar.set(.test("a", expiresAt: cookieTime), now: cookieTime)
        #expect(jar.cookies(now: cookieTime) == [b])
    }

    @Test("descriptions of cookies show neither names nor values")
    func descriptions() throws {
        let cookie = Cookie.test("secretname", "secretvalue")
        for value in [cookie, cookie.key, CookieChange.stored(cookie), CookieChange.removed(cookie.key)]
            as [Any]
        {
            var dumped = ""
            dump(value, to: &dumped)
            let text = "\(value) \(String(reflecting: value)) " + dumped
            #expect(!text.contains("secret") && text.contains("a.example"))
        }
    }
}
