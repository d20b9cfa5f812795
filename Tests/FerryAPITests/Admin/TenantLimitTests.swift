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
            "unfinished_jobs": .null, "bytes_per_day": .null, "storage_bytes": .null,
            "requests_per_second": .null,
        ]
        let first = try fixture.send("GET", path)
        #expect(first.status == 200 && first.json == none)
        let body = #"{"unfinished_jobs":5,"bytes_per_day":0,"storage_bytes":null,"requests_per_second":7}"#
        let set = try fixture.send("PUT", path, body, [("If-Match", try #require(first.header("ETag")))])
        let wanted = try JSON.parse(Array(body.utf8))
        #expect(set.status == 200 && set.json == wanted)
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
        #expect(entry?["body"] == ["unfinished_jobs": .integer(5)])
    }

    /// The quotas of a node that has read these limits.
    private func quotas(
        _ limits: [String: TenantLimits], _ quotas: TenantQuotas = TenantQuotas()
    ) -> TenantQuotas {
        _ = quotas.apply(
            limits.mapValues { .init(limits: $0) }, reading: quotas.beginReading(), at: .distantPast)
        return quotas
    }

    @Test("all keys of a tenant share its requests per second; other tenants do not")
    func requests() throws {
        let now = Mutex<Int64>(1)
        let limiter = TenantRateLimiter(
            quotas(["a": TenantLimits(requestsPerSecond: 2), "b": TenantLimits(jobCountMax: 1)])
        ) { now.withLock { $0 } }
        let take = { (tenant: String) -> Problem? in
            do throws(Problem) {
                try limiter.take(tenant)
                return nil
            } catch {
                return error
            }
        }
        let isFree = { (tenant: String) in take(tenant) == nil }
        #expect(isFree("a") && isFree("a"))
        let refusal = try #require(take("a"))
        #expect(refusal.status == 429 && refusal.code == "quota_exceeded")
        let fields = Dictionary(refusal.fields.map { ($0.name, $0.value) }) { $1 }
        #expect(fields["RateLimit-Policy"] == #""requests";q=2;w=1"#)
        #expect(fields["RateLimit"] == #""requests";r=0;t=1"# && fields["Retry-After"] == "1")
        for _ in 0..<5 { #expect(isFree("b") && isFree("c")) }
        now.withLock { $0 += 500_000_000 }
        #expect(isFree("a") && !isFree("a"))
        now.withLock { $0 += 60_000_000_000 }
        #expect(isFree("a") && isFree("a") && !isFree("a"), "no more than a second's requests")
    }

    @Test("a request beyond the tenant's requests per second is refused whatever its key")
    func refusedRequest() throws {
        let fixture = Fixture()
        _ = quotas(["default": TenantLimits(requestsPerSecond: 1)], fixture.quotas)
        var codes: Set<String> = []
        // The bucket of one request per second cannot allow all of them, on the slowest machine.
        for _ in 0..<200 {
            for key in [fixture.clientKey, fixture.viewerKey] {
                let response = try fixture.send("GET", "/v1/jobs", nil, key: key)
                if response.status != 200 { codes.insert(response.code ?? "") }
            }
        }
        #expect(codes == ["quota_exceeded"])
        #expect(try fixture.send("GET", "/v1/jobs", nil, key: fixture.strangerKey).status == 200)
        #expect(try fixture.send("GET", "/livez").status == 200)
    }
}
