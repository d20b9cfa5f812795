import FerryCore
import Synchronization
import TestSupport
import Testing

@testable import FerryAPI

@Suite("Operations on many jobs")
struct BulkOperationsTests {
    @Test(
        "a request with a filter starts an operation: 202 with its location",
        arguments: ["suspend", "resume", "cancel", "retry"])
    func start(_ verb: String) throws {
        let fixture = Fixture()
        let body = #"""
            {"filter": {"state": ["failed", "cancelled"], "host": "Example.org:8080", "session": "s",
             "kind": "data", "created_after": "2026-11-01T00:00:00Z", "acknowledged": false,
             "metadata": {"a": "b"}}}
            """#
        let response = try fixture.send("POST", "/v1/jobs/\(verb)", body)
        #expect(response.status == 202)
        let id = try #require(response.json["id"]?.string)
        #expect(id.hasPrefix("opn_") && response.header("Location") == "/v1/operations/\(id)")
        #expect(response.json["kind"]?.string == verb && response.json["state"]?.string == "running")
        for count in ["matched", "changed", "skipped", "failed", "examined"] {
            #expect(response.json[count]?.integer == 0, "\(count)")
        }
        #expect(response.json["finished_at"] == .null && response.json["id_count"] == .null)
        #expect(response.json["filter"]?["state"]?.array == [.string("failed"), .string("cancelled")])
        #expect(response.json["filter"]?["host"]?.string == "example.org:8080")
        let stored = try #require(fixture.store.state.withLock { $0.newBulkOperations.first })
        guard case .filter(let filter) = stored.selection else {
            Issue.record("\(stored.selection)")
            return
        }
        #expect(filter.states == [.failed, .cancelled] && filter.isUnacknowledged)
        #expect(filter.origins == ["http://example.org:8080", "https://example.org:8080"])
        #expect(filter.host == nil && filter.kind == .data && filter.session == "s")
        #expect(filter.metadata == [.init("a", "b")] && filter.createdAfter != nil)
        let read = try fixture.send("GET", "/v1/operations/\(id)")
        #expect(read.status == 200 && read.json["id"]?.string == id)
        #expect(try fixture.send("GET", "/v1/operations").json["data"]?.array?.count == 1)
    }

    @Test("the filter has the names and texts of the list's parameters")
    func listNames() throws {
        let fixture = Fixture()
        let body = #"{"filter": {"state": "failed,cancelled", "metadata.order": "1", "metadata.b": "2"}}"#
        #expect(try fixture.send("POST", "/v1/jobs/cancel", body).status == 202)
        _ = try fixture.send("GET", "/v1/jobs?state=failed,cancelled&metadata.order=1&metadata.b=2")
        let (stored, query) = fixture.store.state.withLock { ($0.newBulkOperations[0], $0.queries[0]) }
        #expect(stored.selection == .filter(query.filter))
    }

    @Test("identifiers count once, and jobs of the request are sorted")
    func identifiers() throws {
        let fixture = Fixture()
        let ids = try [fixture.submit(), fixture.submit()]
        let list = (ids + [ids[0]]).map { "\"\($0)\"" }.joined(separator: ",")
        let response = try fixture.send("POST", "/v1/jobs/cancel", "{\"ids\": [\(list)]}")
        #expect(response.status == 202 && response.json["id_count"]?.integer == 2)
        #expect(response.json["filter"] == .null)
        let stored = try #require(fixture.store.state.withLock { $0.newBulkOperations.first })
        #expect(stored.selection == .jobs(ids.sorted(by: >)) && !stored.keepsBytes)
    }

    @Test("a dry run responds with the number of jobs and starts nothing")
    func dryRun() throws {
        let fixture = Fixture()
        let id = try fixture.submit()
        for body in [#"{"filter": {}, "dry_run": true}"#, "{\"ids\": [\"\(id)\"], \"dry_run\": true}"] {
            let response = try fixture.send("POST", "/v1/jobs/cancel", body)
            #expect(response.status == 200 && response.json == .object([.init("matched", .integer(1))]))
        }
        #expect(try fixture.send("GET", "/v1/operations").json["data"]?.array?.isEmpty == true)
    }

    @Test(
        "an invalid body is 422 with the pointer of each error",
        arguments: [
            ("{}", "#"), (#"{"ids": [], "filter": {}}"#, "#"), (#"{"ids": []}"#, "#/ids"),
            (#"{"ids": ["job_1"]}"#, "#/ids/0"), (##"{"ids": ["#/jobs/0"]}"##, "#/ids/0"),
            (#"{"filter": {"state": "done"}}"#, "#/filter/state"),
            (#"{"filter": {"state": []}}"#, "#/filter/state"),
            (#"{"filter": {"host": "a/b"}}"#, "#/filter/host"),
            (#"{"filter": {"acknowledged": true}}"#, "#/filter/acknowledged"),
            (#"{"filter": {"session": "a b"}}"#, "#/filter/session"),
            (#"{"filter": {"metadata.a": 1}}"#, "#/filter/metadata.a"),
            (#"{"filter": {"limit": 5}}"#, "#/filter/limit"),
            (#"{"filter": {}, "dry_run": 1}"#, "#/dry_run"),
            (#"{"filter": {}, "x": 1}"#, "#/x"),
        ])
    func invalid(_ body: String, _ pointer: String) throws {
        let fixture = Fixture()
        let response = try fixture.send("POST", "/v1/jobs/suspend", body)
        #expect(response.status == 422, "\(body)")
        let pointers = response.json["errors"]?.array?.compactMap { $0["pointer"]?.string } ?? []
        #expect(pointers.contains(pointer), "\(body): \(pointers)")
    }

    @Test("only a cancellation may produce resume data")
    func resumeData() throws {
        let fixture = Fixture()
        let body = #"{"filter": {}, "produce_resume_data": true}"#
        #expect(try fixture.send("POST", "/v1/jobs/cancel", body).status == 202)
        #expect(fixture.store.state.withLock { $0.newBulkOperations.last?.keepsBytes } == true)
        #expect(try fixture.send("POST", "/v1/jobs/suspend", body).status == 422)
    }

    @Test("a repeated Idempotency-Key returns the first operation")
    func idempotency() throws {
        let fixture = Fixture()
        let key = [("Idempotency-Key", "bulk")].map { (name: $0.0, value: $0.1) }
        let first = try fixture.send("POST", "/v1/jobs/cancel", #"{"filter": {}}"#, key)
        let again = try fixture.send("POST", "/v1/jobs/cancel", #"{"filter": {}}"#, key)
        #expect(first.status == 202 && again.status == 202 && again.json["id"] == first.json["id"])
        #expect(again.header("Idempotency-Replayed") == "true")
        #expect(first.header("Idempotency-Replayed") == nil)
    }

    @Test("an operation is cancelled, and unknown to other tenants")
    func cancelOperation() throws {
        let fixture = Fixture()
        let made = try fixture.send("POST", "/v1/jobs/retry", #"{"filter": {}}"#)
        let path = "/v1/operations/\(try #require(made.json["id"]?.string))"
        #expect(try fixture.send("GET", path, key: fixture.strangerKey).status == 404)
        #expect(try fixture.send("POST", "\(path)/cancel", key: fixture.strangerKey).status == 404)
        let cancelled = try fixture.send("POST", "\(path)/cancel", "{}")
        #expect(cancelled.status == 200 && cancelled.json["state"]?.string == "cancelled")
        #expect(try fixture.send("POST", "\(path)/cancel", #"{"x": 1}"#).status == 422)
        #expect(try fixture.send("GET", "/v1/operations/opn_1").status == 404)
    }

    @Test("viewers see operations and start none")
    func roles() throws {
        let fixture = Fixture()
        #expect(
            try fixture.send("POST", "/v1/jobs/cancel", #"{"filter": {}}"#, key: fixture.viewerKey).status
                == 403)
        #expect(try fixture.send("GET", "/v1/operations", key: fixture.viewerKey).status == 200)
    }

    @Test("more running operations than allowed are 409, and the audit log has each request")
    func limitAndAudit() throws {
        let fixture = Fixture()
        for _ in 0..<Limits.bulkOperationCountMax {
            #expect(try fixture.send("POST", "/v1/jobs/cancel", #"{"filter": {}}"#).status == 202)
        }
        let refused = try fixture.send("POST", "/v1/jobs/cancel", #"{"filter": {}}"#)
        #expect(refused.status == 409 && refused.code == "limit_reached")
        let audit = try fixture.send("GET", "/v1/admin/audit", key: Fixture.adminKey)
        let entries = audit.json["data"]?.array ?? []
        #expect(entries.first?["operation"]?.string == "cancelJobs")
        #expect(entries.first?["status"]?.integer == 409 && entries.first?["body"] == .null)
        #expect(entries.last?["body"]?["filter"] == .object([]))
    }
}
