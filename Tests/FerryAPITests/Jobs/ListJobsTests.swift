import FerryCore
import Synchronization
import Testing

@testable import FerryAPI

@Suite("GET /v1/jobs")
struct ListJobsTests {
    @Test("pages follow each other without gaps, newest first")
    func pages() throws {
        let fixture = Fixture()
        let ids = try (0..<7).map { _ in try fixture.submit().description }
        var seen: [String] = []
        var target = "/v1/jobs?limit=3&state=queued"
        for page in 0..<3 {
            let answer = try fixture.send("GET", target)
            seen += answer.json["data"]?.array?.compactMap { $0["id"]?.string } ?? []
            guard let link = answer.header("Link") else {
                #expect(page == 2 && answer.json["next_cursor"] == .null)
                break
            }
            #expect(link.hasSuffix(">; rel=\"next\""))
            target = String(link.dropFirst().prefix { $0 != ">" })
            #expect(target.contains(try #require(answer.json["next_cursor"]?.string)))
        }
        #expect(seen == ids.reversed())
    }

    @Test("a page of long entries ends early, and the next one goes on behind it")
    func longEntries() throws {
        let fixture = Fixture()
        let text = String(repeating: "x", count: 2_000)
        let pairs = (0..<50).map { #""\#($0)":"\#(text)""# }.joined(separator: ",")
        let ids = try (0..<100).map { _ in try fixture.submit(#","metadata":{\#(pairs)}"#).description }
        var seen: [String] = []
        var target: String? = "/v1/jobs?limit=500"
        while let next = target {
            let answer = try fixture.send("GET", next)
            let page = answer.json["data"]?.array?.compactMap { $0["id"]?.string } ?? []
            seen += page
            target = answer.json["next_cursor"]?.string.map { "/v1/jobs?limit=500&cursor=\($0)" }
            #expect(seen.count == 100 ? target == nil : page.count > 70 && target != nil)
        }
        #expect(seen == ids.reversed())
    }

    @Test("filters arrive at the store")
    func filters() throws {
        let fixture = Fixture()
        let answer = try fixture.send(
            "GET",
            "/v1/jobs?session=s&state=failed,queued&kind=data&host=A.example"
                + "&created_after=2026-01-01T00:00:00Z&metadata.a%2Eb=c%26d&metadata.e="
        )
        #expect(answer.status == 200)
        var expected = JobQuery(
            tenant: "default", session: "s", states: [.failed, .queued], kind: .data, host: "a.example")
        expected.createdAfter = Timestamp(rfc3339: "2026-01-01T00:00:00Z")
        expected.metadata = [.init("a.b", "c&d"), .init("e", "")]
        expected.limit = 51
        #expect(fixture.store.state.withLock { $0.queries } == [expected])
    }

    @Test(
        "a host is named as a name, with its port, or as an origin",
        arguments: [
            ("A.example", "a.example", nil), ("[::1]", "[::1]", nil),
            ("127.0.0.1:8080", nil, ["http://127.0.0.1:8080", "https://127.0.0.1:8080"]),
            ("[::1]:443", nil, ["http://[::1]:443", "https://[::1]:443"]),
            ("https://A.example", nil, ["https://a.example:443"]),
            ("http://a.example:81/", nil, ["http://a.example:81"]),
        ] as [(String, String?, [String]?)])
    func hosts(_ value: String, _ host: String?, _ origins: [String]?) throws {
        let fixture = Fixture()
        #expect(try fixture.send("GET", "/v1/jobs?host=\(value)").status == 200)
        let query = try #require(fixture.store.state.withLock { $0.queries }.first)
        #expect(query.host == host && query.origins == origins, "\(query)")
    }

    @Test(
        "what cannot be a filter is 400",
        arguments: [
            "x=1", "limit=0", "limit=501", "limit=x", "limit=", "state=done", "state=queued,done",
            "state=queued,", "state=",
            "host=", "host=a.example/x", "host=https://a.example/x?y", "host=a%20b", "host=ftp://a.example",
            "host=a.example:0", "host=::1",
            "kind=stream",
            "created_after=today",
            "session=", "metadata.=x", "metadata=x", "limit=1&limit=2", "%ff=1", "host=%zz", "cursor=",
            "cursor=abc",
            "cursor=00000000000000000000000000deadbeef",
        ])
    func wrong(_ query: String) throws {
        let answer = try Fixture().send("GET", "/v1/jobs?\(query)")
        #expect(
            answer.status == 400 && ["invalid_parameter", "invalid_cursor"].contains(answer.code), "\(query)")
    }

    @Test("a cursor is a place, so it stays valid when filters and limit change")
    func cursor() throws {
        let fixture = Fixture()
        let ids = try (0..<3).map { _ in try fixture.submit().description }
        let cursor = try #require(try fixture.send("GET", "/v1/jobs?limit=1").json["next_cursor"]?.string)
        let rest = try fixture.send("GET", "/v1/jobs?limit=2&state=queued&cursor=\(cursor)")
        #expect(rest.json["data"]?.array?.compactMap { $0["id"]?.string } == [ids[1], ids[0]])
    }

    @Test("a read that the database has stopped is 503 `store_unavailable`, with the limit and Retry-After")
    func stoppedReads() throws {
        let fixture = Fixture()
        fixture.store.state.withLock { $0.failure = .readStopped }
        let answer = try fixture.send("GET", "/v1/jobs/\(JobID(high: 1, low: 1))")
        #expect(answer.status == 503 && answer.code == "store_unavailable")
        #expect(answer.header("Retry-After") == "1")
        #expect(answer.json["detail"]?.string?.contains("\(Int(Limits.readSecondsMax)) s") == true)
    }

    @Test("a scan that stops before the page is full gives a short or empty page with next_cursor")
    func stoppedScans() throws {
        let fixture = Fixture()
        let ids = try (0..<7).map { _ in try fixture.submit() }
        for id in [ids[0], ids[5]] { fixture.store.finish(id, .failed) }
        fixture.store.state.withLock { $0.scanCount = 3 }
        var pages: [[String]] = []
        var target: String? = "/v1/jobs?state=failed&limit=2"
        while let next = target, pages.count < 9 {
            let answer = try fixture.send("GET", next)
            pages.append(answer.json["data"]?.array?.compactMap { $0["id"]?.string } ?? [])
            let link = answer.header("Link")
            target = link.map { String($0.dropFirst().prefix { $0 != ">" }) }
            #expect((answer.json["next_cursor"] == .null) == (link == nil))
        }
        #expect(pages == [[ids[5].description], [], [ids[0].description]])
    }

    @Test("a tenant sees its own")
    func tenants() throws {
        let fixture = Fixture()
        _ = try fixture.submit()
        #expect(
            try fixture.send("GET", "/v1/jobs", key: fixture.strangerKey).json["data"]?.array?.isEmpty == true
        )
    }
}
