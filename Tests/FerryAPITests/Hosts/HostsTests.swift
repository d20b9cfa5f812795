import FerryAPI
import FerryCore
import Synchronization
import Testing

extension MemoryStore {
    func hosts(after origin: String, limit: Int, reply: @escaping Reply<[HostRecord]>) {
        let all = state.withLock { $0.hosts.values.sorted { $0.origin < $1.origin } }
        reply(.success(Array(all.filter { $0.origin > origin }.prefix(limit))))
    }

    func host(_ origin: String, reply: @escaping Reply<HostRecord>) {
        reply(.success(state.withLock { $0.hosts[origin] } ?? HostRecord(origin: origin, state: .normal)))
    }

    func changeHost(
        _ origin: String, _ patch: HostPatch, if isAllowed: @escaping @Sendable (HostRecord) -> Bool,
        reply: @escaping Reply<Result<HostRecord, InvalidFields>>
    ) {
        let (known, isFull) = state.withLock { ($0.hosts[origin], $0.hosts.count >= $0.hostCountMax) }
        if known == nil, isFull { return reply(.failure(.overloaded)) }
        var host = known ?? HostRecord(origin: origin, state: .normal)
        let before = host
        if let least = patch.connectionsMin { host.connectionsMin = least }
        if let most = patch.connectionsMax { host.connectionsMax = most }
        if let isPaused = patch.isPaused { host.isPaused = isPaused }
        if let rate = patch.bytesPerSecondMax { host.bytesPerSecondMax = rate }
        if let rate = patch.requestsPerSecondMax { host.requestsPerSecondMax = rate }
        if let until = patch.backoffUntil { host.backoffUntil = until }
        if let least = host.connectionsMin, let most = host.connectionsMax, least > most {
            return reply(.success(.failure(HostPatch.invalidBounds())))
        }
        guard isAllowed(before) else { return reply(.failure(.stale(revision: nil))) }
        state.withLock { [host] in $0.hosts[origin] = host }
        reply(.success(.success(host)))
    }
}

@Suite("Hosts")
struct HostsTests {
    private let path = "/v1/admin/hosts/https%3A%2F%2Fexample.org%3A443"

    @Test("a host is shown and changed by a merge patch, by its origin or its name")
    func patch() throws {
        let fixture = Fixture()
        let unknown = try fixture.send("GET", path)
        #expect(unknown.status == 200 && unknown.json["state"] == .string("normal"))
        let body =
            #"{"maximum_connections":5,"paused":true,"max_bytes_per_second":9,"max_requests_per_second":0.5,"#
            + #""backoff_until":"2099-01-01T00:00:00Z"}"#
        let changed = try fixture.send("PATCH", "/v1/admin/hosts/EXAMPLE.org", body)
        #expect(changed.status == 200 && changed.json["host"] == .string("https://example.org:443"))
        #expect(changed.json["maximum_connections"] == .integer(5) && changed.json["paused"] == .bool(true))
        #expect(changed.json["backoff_until"]?.string?.hasPrefix("2099") == true)
        let cleared = try fixture.send(
            "PATCH", path, #"{"backoff_until":null,"maximum_connections":null,"paused":null}"#)
        #expect(cleared.json["paused"] == .bool(false))
        #expect(cleared.json["backoff_until"] == .null && cleared.json["maximum_connections"] == .null)
        #expect(cleared.json["max_bytes_per_second"] == .integer(9), "what is absent stays")
        #expect(cleared.json["max_requests_per_second"]?.double == 0.5)
        #expect(try fixture.send("GET", path).json == cleared.json)
    }

    @Test(
        "invalid settings are 422 with a pointer",
        arguments: [
            (#"{"maximum_connections":0}"#, "#/maximum_connections"), (#"{"paused":7}"#, "#/paused"),
            (#"{"backoff_until":"soon"}"#, "#/backoff_until"), (#"{"limit":1}"#, "#/limit"),
            (#"{"max_requests_per_second":0}"#, "#/max_requests_per_second"),
            (#"{"max_requests_per_second":"9"}"#, "#/max_requests_per_second"),
            (#"{"minimum_connections":9,"maximum_connections":3}"#, "#/minimum_connections"),
        ])
    func wrong(body: String, pointer: String) throws {
        let response = try Fixture().send("PATCH", path, body)
        #expect(response.status == 422, "\(body)")
        #expect(response.json["errors"]?.array?.compactMap { $0["pointer"]?.string } == [pointer])
    }

    @Test("a malformed host is 400, and hosts need the role admin")
    func names() throws {
        let fixture = Fixture()
        for name in ["ftp%3A%2F%2Fa", "a%2Fb", "https%3A%2F%2Fa%2Fb", "a%3Fb", "-%20"] {
            #expect(try fixture.send("GET", "/v1/admin/hosts/\(name)").status == 400, "\(name)")
        }
        #expect(try fixture.send("GET", path, key: "").status == 401)
    }

    @Test("one host too many is 409 without Retry-After")
    func full() throws {
        let fixture = Fixture()
        fixture.store.state.withLock { $0.hostCountMax = 1 }
        for isPaused in [true, false] {
            #expect(try fixture.send("PATCH", path, #"{"paused":\#(isPaused)}"#).status == 200)
        }
        let refused = try fixture.send("PATCH", "/v1/admin/hosts/b", #"{"paused":true}"#)
        #expect(refused.status == 409 && refused.code == "limit_reached")
        #expect(refused.json["detail"]?.string?.contains("hosts") == true)
        #expect(refused.header("Retry-After") == nil && refused.header("RateLimit") == nil)
        #expect(fixture.store.state.withLock { $0.hosts.count } == 1)
    }

    @Test("hosts are listed in pages")
    func list() throws {
        let fixture = Fixture()
        for name in ["a", "b", "c"] {
            #expect(try fixture.send("PATCH", "/v1/admin/hosts/\(name)", #"{"paused":true}"#).status == 200)
        }
        let first = try fixture.send("GET", "/v1/admin/hosts?limit=2")
        #expect(
            first.json["data"]?.array?.compactMap { $0["host"]?.string } == [
                "https://a:443", "https://b:443",
            ])
        let cursor = try #require(first.json["next_cursor"]?.string)
        #expect(cursor == "https://b:443")
        let second = try fixture.send("GET", "/v1/admin/hosts?limit=2&cursor=https%3A%2F%2Fb%3A443")
        #expect(second.json["data"]?.array?.count == 1 && second.json["next_cursor"] == .null)
        #expect(try fixture.send("GET", "/v1/admin/hosts?cursor=x%20y").status == 400)
        #expect(try fixture.send("GET", "/v1/admin/hosts?cursor=b").status == 400, "no scheme")
        #expect(try fixture.send("GET", "/v1/admin/hosts?cursor=https%3A%2F%2F253.00%3A2008").status == 200)
    }
}
