import FerryCore
import Synchronization
import Testing

@testable import FerryAPI

@Suite("Status, limits and keys")
struct AdminTests {
    @Test("the status has all documented members")
    func status() throws {
        let response = try Fixture().send("GET", "/v1/admin/status")
        #expect(response.status == 200 && response.json["version"] == .string("9.9"))
        #expect(response.json["jobs"]?["running"] == .integer(3))
        #expect(response.json["nodes"]?.array?.first?["heartbeat_age_seconds"]?.double == 0.5)
        for name in [
            "uptime_seconds", "oldest_queued_seconds", "throughput", "database", "storage", "webhooks",
        ] {
            #expect(response.json[name] != nil, "\(name)")
        }
        #expect(try Fixture().send("GET", "/v1/admin/nodes").json["data"]?.array?.count == 1)
    }

    @Test("nodes and tenants are listed in pages, and invalid limits and cursors are 400 on every list")
    func pages() throws {
        let fixture = Fixture()
        fixture.store.state.withLock { state in
            state.tenants = ["c", "a", "b"].map {
                TenantStatus(tenant: $0, waiting: 0, queued: 1, running: 0, suspended: 0)
            }
            state.otherNodes = [3, 2].map {
                NodeStatus(
                    id: NodeID(high: 1, low: $0), name: "n", version: "1",
                    startedAt: Timestamp(microseconds: 0), heartbeatAgeSeconds: 0, running: 0,
                    isDraining: false, isWorker: true)
            }
        }
        func pages(_ path: String, _ name: String) throws -> [[String]] {
            var pages: [[String]] = []
            var next: String? = "\(path)?limit=2"
            while let target = next {
                let page = try fixture.send("GET", target)
                pages.append(page.json["data"]?.array?.compactMap { $0[name]?.string } ?? [])
                next = page.json["next_cursor"]?.string.map { "\(path)?limit=2&cursor=\($0)" }
                #expect(page.header("Link") == next.map { "<\($0)>; rel=\"next\"" })
            }
            return pages
        }
        #expect(try pages("/v1/admin/tenants", "tenant") == [["a", "b"], ["c"]])
        let nodes = ([1, 2, 3] as [UInt64]).map { "\(NodeID(high: 1, low: $0))" }
        #expect(try pages("/v1/admin/nodes", "id") == [[nodes[2], nodes[1]], [nodes[0]]])
        let lists = routes.filter { $0.operation.description.parameters.contains("Limit") }
        #expect(lists.count > 12)
        for list in lists {
            let isEndpoint = list.pattern.hasPrefix("/v1/webhooks")
            let id = isEndpoint ? "\(WebhookID(high: 1, low: 1))" : "\(JobID(high: 1, low: 1))"
            let path = list.pattern.replacing("{id}", with: id).replacing("{name}", with: "night")
            for (query, code) in [
                ("limit=501", "invalid_parameter"), ("limit=0", "invalid_parameter"),
                ("cursor=junk", "invalid_cursor"),
            ] {
                let response = try fixture.send("GET", "\(path)?\(query)")
                #expect(response.status == 400 && response.code == code, "\(path)?\(query): \(response.json)")
            }
        }
    }

    @Test("limits are changed by a merge patch, and invalid ones are 422 with a pointer")
    func limits() throws {
        let fixture = Fixture()
        let patch = { (body: String) in try fixture.send("PATCH", "/v1/admin/limits", body) }
        let first = try patch(#"{"max_bytes_sent_per_second":7,"max_bytes_per_second_per_host":9}"#)
        #expect(first.status == 200 && first.json["max_bytes_received_per_second"] == .null)
        #expect(try patch(#"{"max_bytes_sent_per_second":null}"#).status == 200)
        let now = try fixture.send("GET", "/v1/admin/limits").json
        #expect(now["max_bytes_sent_per_second"] == .null)
        #expect(now["max_bytes_per_second_per_host"] == .integer(9))
        let wrong = try patch(#"{"max_bytes_sent_per_second":0,"max_bytes_received_per_second":"1","x":1}"#)
        #expect(wrong.status == 422)
        #expect(
            Set(wrong.json["errors"]?.array?.compactMap { $0["pointer"]?.string } ?? [])
                == ["#/max_bytes_sent_per_second", "#/max_bytes_received_per_second", "#/x"])
        #expect(try patch("[]").status == 422)
        #expect(try fixture.send("GET", "/v1/admin/limits").json == now)
    }

    @Test("a new key is shown once, is valid immediately, and is invalid once revoked")
    func keys() throws {
        let fixture = Fixture()
        let made = try fixture.send("POST", "/v1/admin/keys", #"{"name":"ci","role":"viewer"}"#)
        #expect(made.status == 201)
        let key = try #require(made.json["key"]?.string)
        #expect(key.utf8.count == 35 && key.hasPrefix("fk_"))
        #expect(try fixture.send("GET", "/v1/jobs", key: key).status == 200)
        #expect(try fixture.send("POST", "/v1/jobs", small(), key: key).status == 403)
        let list = try fixture.send("GET", "/v1/admin/keys")
        #expect(!String(decoding: list.body, as: UTF8.self).contains(key))
        let id = try #require(made.json["id"]?.string)
        #expect(try fixture.send("DELETE", "/v1/admin/keys/\(id)").status == 204)
        #expect(try fixture.send("GET", "/v1/jobs", key: key).status == 401)
        #expect(try fixture.send("DELETE", "/v1/admin/keys/key_00000000000000000000000000").status == 404)
    }

    @Test("the configured admin key can be revoked")
    func configuredKey() throws {
        let fixture = Fixture()
        #expect(try fixture.send("GET", "/v1/admin/status").status == 200)
        let path = "/v1/admin/keys/\(Fixture.adminKeyID)"
        #expect(try fixture.send("DELETE", path).status == 204)
        #expect(try fixture.send("GET", "/v1/admin/status").status == 401)
        #expect(try fixture.send("GET", "/v1/admin/status", key: fixture.strangerKey).status == 200)
    }

    @Test("a repeated request gets the same key, with another body 422")
    func repeatedKey() throws {
        let fixture = Fixture()
        let body = #"{"name":"ci","role":"viewer"}"#
        let header = [(name: "Idempotency-Key", value: "k1")]
        let first = try fixture.send("POST", "/v1/admin/keys", body, header)
        let again = try fixture.send("POST", "/v1/admin/keys", body, header)
        #expect(first.status == 201 && first.header("Idempotency-Replayed") == nil)
        #expect(again.status == 201 && again.header("Idempotency-Replayed") == "true")
        #expect(again.json == first.json && again.header("Location") == first.header("Location"))
        let key = try #require(again.json["key"]?.string)
        #expect(try fixture.send("GET", "/v1/jobs", key: key).status == 200)
        let other = #"{"name":"ci","role":"client"}"#
        #expect(try fixture.send("POST", "/v1/admin/keys", other, header).code == "idempotency_key_reused")
    }

    @Test("keys are listed in pages, newest first")
    func keyPages() throws {
        let fixture = Fixture()
        var ids: [String] = []
        for number in 0..<4 {
            let made = try fixture.send("POST", "/v1/admin/keys", #"{"name":"\#(number)","role":"viewer"}"#)
            ids.append(try #require(made.json["id"]?.string))
        }
        let page = try fixture.send("GET", "/v1/admin/keys?limit=3")
        #expect(page.json["data"]?.array?.compactMap { $0["id"]?.string } == Array(ids.reversed().prefix(3)))
        let cursor = try #require(page.json["next_cursor"]?.string)
        let rest = try fixture.send("GET", "/v1/admin/keys?limit=3&cursor=\(cursor)").json
        #expect(rest["data"]?.array?.first?["id"]?.string == ids[0])
    }

    @Test(
        "an invalid request for a key is 422 with a pointer",
        arguments: [
            (#"{"role":"viewer"}"#, "#/name"), (#"{"name":"x"}"#, "#/role"),
            (#"{"name":"x","role":"root"}"#, "#/role"),
            (#"{"name":"","role":"viewer"}"#, "#/name"),
            (#"{"name":"x","role":"viewer","tenant":"../x"}"#, "#/tenant"),
            (#"{"name":"x","role":"viewer","x":1}"#, "#/x"),
        ])
    func wrong(_ body: String, _ pointer: String) throws {
        let response = try Fixture().send("POST", "/v1/admin/keys", body)
        #expect(response.json["errors"]?.array?.map { $0["pointer"]?.string } == [pointer])
    }

    @Test("generated keys differ and use the whole base32 alphabet")
    func generator() {
        let keys = (0..<200).map { _ in makeKey() }
        #expect(Set(keys).count == 200)
        #expect(Set(keys.flatMap { $0.dropFirst(3) }).count == 32)
    }
}
