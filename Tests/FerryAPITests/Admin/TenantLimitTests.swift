import FerryCore
import Synchronization
import Testing

@testable import FerryAPI

@Suite("Limits of tenants")
struct TenantLimitTests {
    private let path = "/v1/admin/tenants/acme/limits"

    @Test("a tenant without limits has none; PUT replaces all of them")
    func replace() throws {
        let fixture = Fixture()
        let none: JSON = [
            "unfinished_jobs": nil, "bytes_per_day": nil, "storage_bytes": nil, "requests_per_second": nil,
        ]
        let first = try fixture.send("GET", path)
        #expect(first.status == 200 && first.json == none)
        let body = #"{"unfinished_jobs":5,"bytes_per_day":0,"storage_bytes":null,"requests_per_second":7}"#
        let set = try fixture.send("PUT", path, body, [("If-Match", try #require(first.header("ETag")))])
        #expect(set.status == 200 && set.json == (try JSON.parse(Array(body.utf8))))
        #expect(try fixture.send("GET", path).json == set.json)
        #expect(try fixture.send("PUT", path, "{}", [("If-Match", "\"x\"")]).status == 412)
        #expect(try fixture.send("PUT", path, "{}").json == none)
        #expect(try fixture.send("GET", "/v1/admin/tenants/other/limits").json == none)
    }

    @Test("values that are no numbers of the range are 422, other names of tenants 400")
    func invalid() throws {
        let fixture = Fixture()
        for body in [
            #"{"unfinished_jobs":-1}"#, #"{"bytes_per_day":1.5}"#, #"{"storage_bytes":"1"}"#,
            #"{"requests_per_second":0}"#, #"{"jobs":1}"#,
        ] {
            #expect(try fixture.send("PUT", path, body).status == 422, "\(body)")
        }
        for name in ["A", "a.b", "%20", String(repeating: "a", count: 129)] {
            let response = try fixture.send("GET", "/v1/admin/tenants/\(name)/limits")
            #expect(response.status == 400 && response.code == "invalid_parameter", "\(name)")
        }
    }

    @Test("only operators see and set limits, and the audit log has what they set")
    func roles() throws {
        let fixture = Fixture()
        for key in [fixture.clientKey, fixture.viewerKey] {
            #expect(try fixture.send("GET", path, nil, key: key).status == 403)
            #expect(try fixture.send("PUT", path, "{}", key: key).status == 403)
        }
        #expect(try fixture.send("PUT", path, #"{"unfinished_jobs":5}"#).status == 200)
        let entry = try fixture.send("GET", "/v1/admin/audit").json["data"]?.array?.first
        #expect(entry?["operation"] == "replaceTenantLimits" && entry?["path"] == .string(path))
        #expect(entry?["body"] == ["unfinished_jobs": 5])
    }
}
