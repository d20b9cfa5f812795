import FerryCore
import Synchronization
import Testing

@testable import FerryAPI

@Suite("Authentication and roles")
struct AuthenticationTests {
    @Test(
        "requests without a valid key are 401, except on routes that need no key",
        arguments: routes.map(\.operation))
    func unauthorized(_ operation: FerryAPI.Operation) throws {
        let route = try #require(routes.first { $0.operation == operation })
        let path = route.pattern.replacing("{id}", with: "job_00000000000000000000000000")
        for key in [nil, "wrong", ""] as [String?] {
            let response = try Fixture().send(route.method, path, key: key)
            guard route.role != nil else {
                #expect(response.status == 200)
                continue
            }
            #expect(response.status == 401)
            #expect(response.header("WWW-Authenticate")?.hasPrefix("Bearer") == true)
        }
    }

    @Test("a key with a role below the route's is 403", arguments: routes.map(\.operation))
    func forbidden(_ operation: FerryAPI.Operation) throws {
        let fixture = Fixture()
        let route = try #require(routes.first { $0.operation == operation })
        guard let role = route.role else { return }
        let path = route.pattern.replacing("{id}", with: "job_00000000000000000000000000")
        for (key, has) in [
            (fixture.viewerKey, Role.viewer), (fixture.clientKey, .client), (Fixture.adminKey, .admin),
        ] {
            let status = try fixture.send(route.method, path, key: key).status
            #expect((status == 403) == (has < role), "\(route.pattern) as \(has): \(status)")
        }
    }

    @Test(
        "a malformed Authorization field is 401",
        arguments: ["Basic x", "Bearer", "Bearer a b", "Bearer  ", "bearer", "Bearer\u{a0}an-admin-key"])
    func malformed(_ value: String) throws {
        #expect(try Fixture().send("GET", "/v1/jobs", key: nil, [("Authorization", value)]).status == 401)
    }

    @Test("the scheme Bearer is case-insensitive, and two Authorization fields are 401")
    func scheme() throws {
        let good = ("Authorization", "bearer an-admin-key")
        #expect(try Fixture().send("GET", "/v1/jobs", key: nil, [good]).status == 200)
        #expect(try Fixture().send("GET", "/v1/jobs", key: nil, [good, good]).status == 401)
    }

    @Test("a large body without a key is refused before it is read")
    func early() throws {
        let fixture = Fixture()
        let body = String(repeating: " ", count: 20_000)
        #expect(try fixture.send("POST", "/v1/jobs/batch", body, key: nil).status == 401)
        #expect(try fixture.send("POST", "/v1/jobs/batch", body, key: fixture.viewerKey).status == 403)
    }

    @Test("a key above its rate limit gets 429 with Retry-After; other keys are not limited")
    func rateLimit() throws {
        // So slow that the bucket gains no token while the test runs.
        let fixture = Fixture(rateLimit: RateLimit(perSecond: 0.001, burst: 2))
        #expect(try fixture.send("GET", "/v1/jobs").status == 200)
        #expect(try fixture.send("GET", "/v1/jobs").status == 200)
        let response = try fixture.send("GET", "/v1/jobs")
        #expect(response.status == 429 && response.code == "rate_limited")
        let seconds = try #require(response.header("Retry-After").flatMap { Int($0) })
        #expect((900...1_000).contains(seconds))
        #expect(response.header("RateLimit") == #""requests";r=0;t=\#(seconds)"#)
        #expect(response.header("RateLimit-Policy") == #""requests";q=2;w=2000"#)
        #expect(try fixture.send("GET", "/v1/jobs", key: fixture.viewerKey).status == 200)
        #expect(try fixture.send("GET", "/livez").status == 200)
    }

    @Test("an empty token bucket refills with time")
    func bucket() {
        let now = Mutex(Int64(0))
        let limiter = RateLimiter(RateLimit(perSecond: 10, burst: 1)) { now.withLock { $0 } }
        let key = KeyID(high: 0, low: 1)
        #expect(limiter.take(key) == nil)
        #expect(limiter.take(key) == 0.1)
        now.withLock { $0 = 100_000_000 }
        #expect(limiter.take(key) == nil)
    }
}
