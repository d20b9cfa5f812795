import FerryCore
import Synchronization
import Testing

@testable import FerryAPI

@Suite("GET /v1/jobs")
struct ListJobsTests {
    @Test("pages of jobs have no gaps, newest first")
    func pages() throws {
        let fixture = Fixture()
        let ids = try (0..<7).map { _ in try fixture.submit().description }
        var seen: [String] = []
        var target = "/v1/jobs?limit=3&state=queued"
        for page in 0..<3 {
            let response = try fixture.send("GET", target)
            seen += response.json["data"]?.array?.compactMap { $0["id"]?.string } ?? []
            guard let link = response.header("Link") else {
                #expect(page == 2 && response.json["next_cursor"] == .null)
                break
            }
            #expect(link.hasSuffix(">; rel=\"next\""))
            target = String(link.dropFirst().prefix { $0 != ">" })
            #expect(target.contains(try #require(response.json["next_cursor"]?.string)))
        }
        #expect(seen == ids.reversed())
    }

    @Test("a page of large jobs ends early, and the next page continues after it")
    func longEntries() throws {
        let fixture = Fixture()
        let text = String(repeating: "x", count: 2_000)
        let pairs = (0..<50).map { #""\#($0)":"\#(text)""# }.joined(separator: ",")
        let ids = try (0..<100).map { _ in try fixture.submit(#","metadata":{\#(pairs)}"#).description }
        var seen: [String] = []
        var target: String? = "/v1/jobs?limit=500"
        while let next = target {
            let response = try fixture.send("GET", next)
            let page = response.json["data"]?.array?.compactMap { $0["id"]?.string } ?? []
            seen += page
            target = response.json["next_cursor"]?.string.map { "/v1/jobs?limit=500&cursor=\($0)" }
            #expect(seen.count == 100 ? target == nil : page.count > 70 && target != nil)
        }
        #expect(seen == ids.reversed())
    }

    @Test("filters are passed to the store")
    func filters() throws {
        let fixture = Fixture()
        let response = try fixture.send(
            "GET",
            "/v1/jobs?session=s&state=failed,queued&kind=data&host=A.example"
                + "&created_after=2026-01-01T00:00:00Z&metadata.a%2Eb=c%26d&metadata.e="
                + "&error=timed_out,connection_lost&waiting_reason=no_free_slot,paused&retried=false"
                + "&finished_after=2026-01-02T00:00:00Z&finished_before=2026-01-03T00:00:00Z"
                + "&retry_of=\(JobID(high: 1, low: 2))"
        )
        #expect(response.status == 200)
        var expected = JobQuery(
            tenant: "default", session: "s", states: [.failed, .queued], kind: .data, host: "a.example")
        expected.createdAfter = Timestamp(rfc3339: "2026-01-01T00:00:00Z")
        expected.metadata = [.init("a.b", "c&d"), .init("e", "")]
        expected.errors = [.timedOut, .connectionLost]
        expected.waitingReasons = [.noFreeSlot, .paused]
        expected.finishedAfter = Timestamp(rfc3339: "2026-01-02T00:00:00Z")
        expected.finishedBefore = Timestamp(rfc3339: "2026-01-03T00:00:00Z")
        expected.isRetried = false
        expected.retryOf = JobID(high: 1, low: 2)
        expected.limit = 51
        #expect(fixture.store.state.withLock { $0.queries } == [expected])
    }

    @Test(
        "the filter host is a name, host:port or an origin",
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
        "an invalid filter is 400",
        arguments: [
            "x=1", "limit=0", "limit=501", "limit=x", "limit=", "state=done", "state=queued,done",
            "state=queued,", "state=",
            "host=", "host=a.example/x", "host=https://a.example/x?y", "host=a%20b", "host=ftp://a.example",
            "host=a.example:0", "host=::1",
            "kind=stream",
            "created_after=today", "finished_after=today", "finished_before=", "error=", "error=lost",
            "waiting_reason=queue", "retried=1", "retry_of=sch_1", "by=state",
            "session=", "metadata.=x", "metadata=x", "limit=1&limit=2", "%ff=1", "host=%zz", "cursor=",
            "cursor=abc",
            "cursor=00000000000000000000000000deadbeef",
        ])
    func wrong(_ query: String) throws {
        let response = try Fixture().send("GET", "/v1/jobs?\(query)")
        #expect(
            response.status == 400 && ["invalid_parameter", "invalid_cursor"].contains(response.code),
            "\(query)")
    }

    @Test("`fields` selects members and members of objects, in the order of the job")
    func fields() throws {
        let fixture = Fixture()
        let id = try fixture.submit(#","metadata":{"a.b":"c","d":"e"}"#)
        let response = try fixture.send(
            "GET",
            "/v1/jobs?fields=state,id,error.code,request.url,metadata.a%2Eb,schedule,schedule.priority")
        let job = try #require(response.json["data"]?.array?.first)
        let names = try #require(job.members?.map(\.name))
        #expect(names == ["id", "state", "metadata", "request", "schedule", "error"])
        #expect(job["id"]?.string == "\(id)" && job["error"] == .null)
        #expect(job["metadata"] == .object([.init("a.b", .string("c"))]))
        #expect(job["request"]?.members?.map(\.name) == ["url"])
        #expect(try #require(job["schedule"]?.members).count > 3, "the whole object includes its members")
        let session = try fixture.send("GET", "/v1/sessions/default/jobs?fields=id")
        #expect(session.json["data"]?.array == [.object([.init("id", .string("\(id)"))])])
    }

    @Test(
        "an unknown field is 422 and names the nearest one",
        arguments: [
            ("id,stat", 1, "state"), ("error.cod", 0, "error.code"),
            ("request.methd,id", 0, "request.method"),
            ("", 0, nil), ("id.x", 0, nil), ("xxxxxxxxxx", 0, nil), ("error.", 0, nil), ("metadata.", 0, nil),
        ] as [(String, Int, String?)])
    func unknownFields(_ fields: String, _ place: Int, _ nearest: String?) throws {
        let response = try Fixture().send("GET", "/v1/jobs?fields=\(fields)")
        let error = try #require(response.json["errors"]?.array?.first)
        #expect(response.status == 422 && response.code == "invalid_fields")
        #expect(error["pointer"]?.string == "#/fields/\(place)" && error["code"]?.string == "unknown_field")
        let hint = error["detail"]?.string?.split(separator: "Did you mean ").dropFirst().first
        #expect(hint.map { String($0.dropLast()) } == nearest, "\(error)")
    }

    @Test("a summary passes its dimensions and filters to the store, and shows one value or a list")
    func summary() throws {
        let fixture = Fixture()
        let job = JobID(high: 1, low: 2)
        fixture.store.state.withLock {
            $0.summary = JobSummary(
                rows: [
                    .init(values: ["https://a.example:443", "timed_out"], count: 7, example: job),
                    .init(values: ["https://a.example:443", nil], count: 1, example: job),
                ], isExact: false)
        }
        let both = try fixture.send("GET", "/v1/jobs/summary?by=host,error&state=failed&retried=false")
        #expect(both.status == 200 && both.json["is_exact"] == .bool(false))
        let first = try #require(both.json["data"]?.array?.first)
        #expect(first["value"] == .array([.string("https://a.example:443"), .string("timed_out")]))
        #expect(first["count"]?.integer == 7 && first["example"]?.string == "\(job)")
        fixture.store.state.withLock {
            $0.summary = JobSummary(rows: [.init(values: [nil], count: 2, example: job)], isExact: true)
        }
        let one = try fixture.send("GET", "/v1/jobs/summary?by=waiting_reason&metadata.a=b")
        #expect(one.json["data"]?.array?.first?["value"] == .null && one.json["is_exact"] == .bool(true))
        let (dimensions, queries) = fixture.store.state.withLock { ($0.summaries, $0.queries) }
        #expect(dimensions == [[.host, .error], [.waitingReason]])
        #expect(queries.map(\.states) == [[.failed], []] && queries[0].isRetried == false)
        #expect(queries[1].metadata == [.init("a", "b")])
    }

    @Test(
        "a summary without one or two different dimensions is 400",
        arguments: ["", "by=", "by=state,host,error", "by=state,state", "by=size", "by=state&limit=1"])
    func wrongSummary(_ query: String) throws {
        let response = try Fixture().send("GET", "/v1/jobs/summary?\(query)")
        #expect(response.status == 400 && response.code == "invalid_parameter", "\(query)")
    }

    @Test("a cursor stays valid when filters and limit change")
    func cursor() throws {
        let fixture = Fixture()
        let ids = try (0..<3).map { _ in try fixture.submit().description }
        let cursor = try #require(try fixture.send("GET", "/v1/jobs?limit=1").json["next_cursor"]?.string)
        let rest = try fixture.send("GET", "/v1/jobs?limit=2&state=queued&cursor=\(cursor)")
        #expect(rest.json["data"]?.array?.compactMap { $0["id"]?.string } == [ids[1], ids[0]])
    }

    @Test("a read that the database stopped is 503 `store_unavailable` with the limit and Retry-After")
    func stoppedReads() throws {
        let fixture = Fixture()
        fixture.store.state.withLock { $0.failure = .readStopped }
        let response = try fixture.send("GET", "/v1/jobs/\(JobID(high: 1, low: 1))")
        #expect(response.status == 503 && response.code == "store_unavailable")
        #expect(response.header("Retry-After") == "1")
        #expect(response.json["detail"]?.string?.contains("\(Int(Limits.readSecondsMax)) s") == true)
    }

    @Test("a job whose tenant's events are not numbered yet is 503 with Retry-After, and not deleted")
    func eventsBehind() throws {
        let fixture = Fixture()
        let id = try fixture.submit()
        fixture.store.finish(id, .failed)
        fixture.store.state.withLock { $0.failure = .eventsBehind }
        let response = try fixture.send("DELETE", "/v1/jobs/\(id)")
        #expect(response.status == 503 && response.header("Retry-After") == "1")
        #expect(response.json["detail"]?.string?.contains("events of this tenant") == true)
        fixture.store.state.withLock { $0.failure = nil }
        #expect(try fixture.send("GET", "/v1/jobs/\(id)").status == 200)
    }

    @Test("a stopped scan gives a short or empty page with next_cursor")
    func stoppedScans() throws {
        let fixture = Fixture()
        let ids = try (0..<7).map { _ in try fixture.submit() }
        for id in [ids[0], ids[5]] { fixture.store.finish(id, .failed) }
        fixture.store.state.withLock { $0.scanCount = 3 }
        var pages: [[String]] = []
        var target: String? = "/v1/jobs?state=failed&limit=2"
        while let next = target, pages.count < 9 {
            let response = try fixture.send("GET", next)
            pages.append(response.json["data"]?.array?.compactMap { $0["id"]?.string } ?? [])
            let link = response.header("Link")
            target = link.map { String($0.dropFirst().prefix { $0 != ">" }) }
            #expect((response.json["next_cursor"] == .null) == (link == nil))
        }
        #expect(pages == [[ids[5].description], [], [ids[0].description]])
    }

    @Test("a tenant sees only its own jobs")
    func tenants() throws {
        let fixture = Fixture()
        _ = try fixture.submit()
        #expect(
            try fixture.send("GET", "/v1/jobs", key: fixture.strangerKey).json["data"]?.array?.isEmpty == true
        )
    }
}
