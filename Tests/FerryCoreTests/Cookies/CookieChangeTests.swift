import FerryCore
import Testing

/// Changes of a jar on their way to the store, and those of other nodes.
@Suite("Changes of jars") struct CookieChangeTests {
    private static let url = "https://a.example/"

    @Test("each changed cookie is taken once, as it is then")
    func taking() throws {
        var jar = CookieJar.empty()
        #expect(!jar.hasChanges)
        try jar.take(["a=1", "a=2", "b=1", "b=1; Max-Age=0", "c=1"], from: Self.url)
        #expect(jar.hasChanges)
        let changes = jar.takeChanges()
        let stored = jar.cookies(now: cookieTime)
        #expect(stored.map(\.pair) == ["a=2", "c=1"])
        let gone = Cookie.test("b", isHostOnly: true).key
        #expect(changes == [.stored(stored[0]), .removed(gone), .stored(stored[1])])
        #expect(!jar.hasChanges)
        let further = jar.takeChanges()
        #expect(further == [])
    }

    @Test("removals and evictions are changes, expiries and stored cookies are not")
    func kinds() throws {
        var jar = CookieJar.empty(CookieLimits(domainCountMax: 1, countMax: 9, byteCountMax: 1 << 20))
        jar.apply(
            stored: [
                .test("a", isHostOnly: true), .test("t", domain: "b.example", expiresAt: cookieTime + 1),
            ],
            removesOthers: true, now: cookieTime)
        #expect(!jar.hasChanges && jar.count == 2)
        try jar.visit("https://b.example/", after: 2)
        #expect(!jar.hasChanges && jar.count == 1)
        try jar.take(["b=1"], from: Self.url, after: 2)
        let evicted = jar.takeChanges()
        #expect(evicted.map(\.key.name) == [Array("a".utf8), Array("b".utf8)])
        let count = jar.remove(where: .all, now: cookieTime + 3)
        let removed = jar.takeChanges()
        #expect(count == 1 && removed == [.removed(Cookie.test("b", isHostOnly: true).key)])
    }

    @Test("an access is a change if the stored one is more than an hour old")
    func access() throws {
        var jar = CookieJar.empty()
        try jar.take(["a=1"], from: Self.url)
        jar.confirm(jar.takeChanges())
        try jar.visit(Self.url, after: 3_600)
        #expect(!jar.hasChanges && jar.cookies(now: cookieTime)[0].lastAccessAt == cookieTime + 3_600)
        try jar.visit(Self.url, after: 3_601)
        let changes = jar.takeChanges()
        #expect(changes == jar.cookies(now: cookieTime).map { .stored($0) })
        try jar.visit(Self.url, after: 7_000)
        #expect(!jar.hasChanges)
        // The clock was set back.
        try jar.visit(Self.url, after: 10)
        #expect(jar.cookies(now: cookieTime)[0].lastAccessAt == cookieTime + 7_000)
    }

    @Test("changes of a failed write are taken again, as the cookies are then")
    func failedWrite() throws {
        var jar = CookieJar.empty()
        try jar.take(["a=1", "b=1"], from: Self.url)
        let changes = jar.takeChanges()
        try jar.take(["a=2"], from: Self.url)
        jar.putBack(changes)
        let again = jar.takeChanges()
        #expect(again == jar.cookies(now: cookieTime).map { .stored($0) })
        #expect(jar.cookies(now: cookieTime).map(\.pair) == ["a=2", "b=1"])
    }

    @Test("stored cookies replace those without unconfirmed changes")
    func applying() throws {
        var jar = CookieJar.empty()
        let others = ["a", "b", "c"].map { Cookie.test($0, "other", isHostOnly: true) }
        try jar.take(["a=1"], from: Self.url)
        let changes = jar.takeChanges()
        try jar.take(["b=1", "c=1", "c=1; Max-Age=0"], from: Self.url)
        jar.apply(stored: others, removesOthers: true, now: cookieTime)
        #expect(try jar.sent(to: Self.url) == "a=1; b=1")
        jar.confirm(changes)
        jar.apply(stored: others, removesOthers: true, now: cookieTime)
        #expect(try jar.sent(to: Self.url) == "a=other; b=1")
        jar.confirm(jar.takeChanges())
        jar.apply(stored: others, removesOthers: true, now: cookieTime)
        #expect(try jar.sent(to: Self.url) == "a=other; b=other; c=other")
        jar.apply(stored: [others[1]], removesOthers: false, now: cookieTime)
        #expect(jar.count == 3)
        jar.apply(stored: [others[1]], removesOthers: true, now: cookieTime)
        #expect(try jar.sent(to: Self.url) == "b=other")
        // A row whose time is over.
        let over = Cookie.test("b", isHostOnly: true, expiresAt: cookieTime)
        jar.apply(stored: [over], removesOthers: false, now: cookieTime)
        #expect(jar.isEmpty && !jar.hasChanges)
    }

    @Test("stored cookies beyond the limits are evicted, which is a change")
    func applyingMany() {
        var jar = CookieJar.empty(CookieLimits(domainCountMax: 2, countMax: 9, byteCountMax: 1 << 20))
        let stored = (0..<4).map { Cookie.test("c\($0)", lastAccessAt: cookieTime + Double($0)) }
        jar.apply(stored: stored, removesOthers: true, now: cookieTime + 9)
        #expect(jar.cookies(now: cookieTime) == Array(stored[2...]))
        let changes = jar.takeChanges()
        #expect(changes == [.removed(stored[0].key), .removed(stored[1].key)])
    }

    @Test("a jar that is not written notes no changes")
    func unrecorded() throws {
        var jar = CookieJar(publicSuffixes: FewSuffixes(), recordsChanges: false)
        try jar.take(["a=1", "b=1", "b=1; Max-Age=0"], from: Self.url)
        #expect(try jar.sent(to: Self.url) == "a=1")
        try jar.visit(Self.url, after: 9_999)
        let count = jar.remove(where: .all, now: cookieTime)
        #expect(count == 1 && !jar.hasChanges)
    }

    /// What the jar has to do, in the simplest way: the cookies, and for each write the keys it holds.
    private struct Model {
        var cookies: [Cookie.Key: Cookie] = [:]
        var changed: Set<Cookie.Key> = []
        var writes: [[CookieChange]] = []
        var rows: [Cookie.Key: Cookie] = [:]

        func isOwn(_ key: Cookie.Key) -> Bool {
            changed.contains(key) || writes.contains { $0.contains { $0.key == key } }
        }
    }

    @Test(
        "random changes, writes, failures and readings leave the jar as a simple model says",
        arguments: 1...40)
    func model(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        var (jar, model) = (CookieJar.empty(), Model())
        for step in 0..<300 {
            let now = cookieTime + Double(step)
            switch Int.random(in: 0..<8, using: &random) {
            case 0...2:
                var cookie = Cookie.test(
                    "c\(Int.random(in: 0..<6, using: &random))", "v\(step)", createdAt: now)
                let key = cookie.key
                cookie.createdAt = model.cookies[key]?.createdAt ?? now
                try jar.set(cookie, now: now)
                model.cookies[key] = cookie
                model.changed.insert(key)
            case 3:
                let name = "c\(Int.random(in: 0..<6, using: &random))"
                let count = jar.remove(where: CookieFilter(name: Array(name.utf8)), now: now)
                let key = Cookie.test(name).key
                #expect(count == (model.cookies.removeValue(forKey: key) == nil ? 0 : 1))
                if count > 0 { model.changed.insert(key) }
            case 4:
                let changes = jar.takeChanges()
                #expect(
                    changes
                        == model.changed.sorted().map { key in
                            model.cookies[key].map { .stored($0) } ?? .removed(key)
                        })
                model.changed = []
                model.writes.append(changes)
            case 5 where !model.writes.isEmpty:
                let changes = model.writes.removeFirst()
                if Bool.random(using: &random) {
                    jar.confirm(changes)
                    for case .stored(let cookie) in changes { model.rows[cookie.key] = cookie }
                    for case .removed(let key) in changes { model.rows[key] = nil }
                } else {
                    jar.putBack(changes)
                    model.changed.formUnion(changes.map(\.key))
                }
            case 6:
                // Another node writes or removes a row.
                let cookie = Cookie.test(
                    "c\(Int.random(in: 0..<6, using: &random))", "o\(step)", createdAt: now)
                model.rows[cookie.key] = Bool.random(using: &random) ? cookie : nil
            default:
                jar.apply(stored: Array(model.rows.values), removesOthers: true, now: now)
                for key in Set(model.cookies.keys).union(model.rows.keys) where !model.isOwn(key) {
                    model.cookies[key] = model.rows[key]
                }
            }
            #expect(jar.cookies(now: now) == model.cookies.values.sorted { $0.key < $1.key }, "step \(step)")
            #expect(jar.hasChanges == !model.changed.isEmpty)
            #expect(jar.byteCount == model.cookies.values.reduce(0) { $0 + $1.byteCount })
        }
    }
}
