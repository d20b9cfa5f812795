import FerryCore
import OpenSSL
import Synchronization
import Testing

@testable import FerryAPI

@Suite("Webhook endpoints")
struct WebhooksTests {
    private let fixture = Fixture()

    private func create(_ extra: String = "", _ headers: [(name: String, value: String)] = []) throws
        -> ReceivedResponse
    {
        try fixture.send(
            "POST", "/v1/webhooks", #"{"url":"https://hooks.example/in"\#(extra)}"#, key: fixture.clientKey,
            headers)
    }

    private func path(_ response: ReceivedResponse) throws -> String {
        "/v1/webhooks/\(try #require(response.json["id"]?.string))"
    }

    @Test("an endpoint is created, shown, listed, changed and deleted; its secret is shown once")
    func life() throws {
        let made = try create(#","ordered":true"#)
        #expect(made.status == 201 && made.header("ETag") == "\"r1\"")
        let path = try path(made)
        #expect(made.header("Location") == path)
        #expect(WebhookSecret(made.json["secret"]?.string ?? "") != nil)
        #expect(made.json["public_key"]?.string?.hasPrefix("whpk_") == true)
        let shown = try fixture.send("GET", path, key: fixture.viewerKey)
        #expect(shown.json["secret"] == .object([.init("set", .bool(true))]))
        #expect(shown.json["ordered"] == .bool(true) && shown.json["events"] == .array([.string("*")]))
        #expect(try fixture.send("GET", "/v1/webhooks").json["data"]?.array == [shown.json])
        let stale = try fixture.send("PATCH", path, #"{"enabled":false}"#, [("If-Match", "\"r7\"")])
        #expect(stale.status == 412 && stale.json["revision"] == .integer(1))
        let changed = try fixture.send(
            "PATCH", path, #"{"enabled":false}"#, [("If-Match", #""r7", "r1""#)])
        #expect(changed.status == 200 && changed.header("ETag") == "\"r2\"")
        #expect(changed.json["disabled_reason"]?["code"] == .string("requested"))
        #expect(try fixture.send("PATCH", path, #"{"secret":"x"}"#).status == 422)
        #expect(try fixture.send("DELETE", path, [("If-Match", #""r1", "r3""#)]).status == 412)
        #expect(try fixture.send("DELETE", path, [("If-Match", #""r1", "r2""#)]).status == 204)
        #expect(try fixture.send("GET", path).status == 404)
    }

    @Test("an endpoint that an admin key creates is one of an operator, others are not")
    func operators() throws {
        let body = #"{"url":"https://hooks.example/in","events":["host.unreachable","host.recovered"]}"#
        let made = try fixture.send("POST", "/v1/webhooks", body)
        #expect(made.status == 201)
        #expect(try create(#","events":["host.unreachable"]"#).status == 201)
        let operators = fixture.store.state.withLock { $0.operatorWebhooks }
        #expect(operators.map(\.description) == [try #require(made.json["id"]?.string)])
    }

    @Test("values of header fields are never shown; a change keeps those that it does not name")
    func headers() throws {
        let key = [(name: "Idempotency-Key", value: "fields")]
        let fields = #","payload":"thin","headers":{"X-Note":"hush","Authorization":"hush too"}"#
        let made = try create(fields, key)
        let hidden = JSON.object([.init("set", .bool(true))])
        let both = JSON.object([.init("X-Note", hidden), .init("Authorization", hidden)])
        #expect(made.status == 201 && made.json["headers"] == both && made.json["payload"] == "thin")
        #expect(try create(fields, key).body == made.body)
        let path = try path(made)
        #expect(try fixture.send("GET", path).json["headers"] == both)
        let stored = { [store = fixture.store] in store.headers(of: path) }
        #expect(stored().map(\.value) == ["hush", "hush too"])
        let changed = try fixture.send("PATCH", path, #"{"headers":{"x-note":null,"B":"new"}}"#)
        #expect(changed.json["headers"]?.members?.map(\.name) == ["Authorization", "B"])
        #expect(stored() == [.init("Authorization", "hush too"), .init("B", "new")])
        #expect(try fixture.send("PATCH", path, #"{"description":"d"}"#).json["revision"] == .integer(3))
        #expect(stored().count == 2)
        #expect(try fixture.send("PATCH", path, #"{"headers":{"webhook-id":"x"}}"#).status == 422)
        let none = try fixture.send("PATCH", path, #"{"headers":null,"payload":"full"}"#)
        #expect(none.json["headers"] == .object([]) && none.json["payload"] == "full" && stored().isEmpty)
    }

    @Test("header fields of an endpoint stay with its receiver unless the patch gives or removes all of them")
    func otherReceiver() throws {
        let path = try path(create(#","headers":{"Authorization":"hush","X-Note":"n"}"#))
        let patch = { [fixture] (body: String) throws -> ReceivedResponse in
            try fixture.send("PATCH", path, "{\(body)}", key: fixture.clientKey)
        }
        let others = [
            #""url":"https://other.example/in""#, #""url":"http://hooks.example/in""#,
            #""url":"https://hooks.example:8443/in""#,
        ]
        for other in others {
            for kept in ["", #","headers":{"authorization":"b"}"#, #","headers":{"X-Note":null,"C":"c"}"#] {
                let refused = try patch(other + kept)
                #expect(refused.status == 422, "\(other)\(kept): \(refused.json)")
                let error = refused.json["errors"]?.array?.first
                #expect(error?["pointer"] == "#/url" && error?["code"] == "invalid_combination")
            }
        }
        // All errors are reported at once.
        #expect(try patch(others[0] + #","ordered":7"#).json["errors"]?.array?.count == 2)
        let stored = { [store = fixture.store] in store.headers(of: path) }
        #expect(try patch(#""url":"https://hooks.example/other?a=b""#).status == 200)
        #expect(stored() == [.init("Authorization", "hush"), .init("X-Note", "n")])
        #expect(try patch(others[0] + #","headers":{"AUTHORIZATION":"c","X-Note":null}"#).status == 200)
        #expect(stored() == [.init("AUTHORIZATION", "c")])
        let lines = #","header_fields":[{"name":"Authorization","value":"d"}]"#
        #expect(try patch(others[1] + lines).status == 200)
        #expect(stored() == [.init("Authorization", "d")])
        #expect(try patch(others[2] + #","headers":null"#).status == 200 && stored().isEmpty)
        #expect(try patch(others[0]).status == 200)
    }

    @Test("viewers only read endpoints, other tenants do not see them, and invalid fields are 422")
    func refusals() throws {
        let path = try path(create())
        let body = #"{"url":"https://hooks.example/in"}"#
        #expect(try fixture.send("POST", "/v1/webhooks", body, key: fixture.viewerKey).status == 403)
        for (method, body) in [("GET", nil), ("PATCH", "{}"), ("DELETE", nil)] as [(String, String?)] {
            #expect(try fixture.send(method, path, body, key: fixture.strangerKey).status == 404)
        }
        #expect(try fixture.send("POST", path + "/test", "{}", key: fixture.strangerKey).status == 404)
        let wrong = try create(#","events":["nothing"]"#)
        #expect(
            wrong.status == 422 && wrong.json["errors"]?.array?.first?["pointer"] == .string("#/events/0"))
        let blocked = try fixture.send("POST", "/v1/webhooks", #"{"url":"http://127.0.0.1/"}"#)
        #expect(blocked.json["errors"]?.array?.first?["code"] == .string("blocked_address"))
        #expect(try fixture.send("GET", "/v1/webhooks/job_x").status == 404)
    }

    @Test("a repeated request gets the first response, secret included")
    func idempotency() throws {
        let key = [(name: "Idempotency-Key", value: "k1")]
        let first = try create("", key)
        let second = try create("", key)
        #expect(second.status == 201 && second.json == first.json)
        #expect(second.header("Idempotency-Replayed") == "true")
        #expect(try create(#","ordered":true"#, key).code == "idempotency_key_reused")
    }

    @Test("the number of a tenant's endpoints is limited")
    func limit() throws {
        for _ in 0..<Limits.webhookCountMax { #expect(try create().status == 201) }
        let response = try create()
        #expect(response.status == 409 && response.code == "limit_reached")
    }

    @Test("a rotation shows a new secret and keeps the old one valid for the requested time")
    func rotation() throws {
        let made = try create()
        let path = try path(made)
        let rotated = try fixture.send("POST", path + "/rotate_secret", #"{"overlap_seconds":60}"#)
        #expect(rotated.status == 200 && rotated.header("ETag") == "\"r2\"")
        #expect(rotated.json["secret"] != made.json["secret"])
        #expect(rotated.json["public_key"] != made.json["public_key"])
        let record = try #require(fixture.store.state.withLock { $0.webhooks.first })
        let keys = try #require(Fixture.openKeys(record.sealedKeys))
        #expect(keys.keys.map(\.secret.text) == [rotated, made].compactMap { $0.json["secret"]?.string })
        #expect(keys.keys.last?.validUntil == FixedClock().now() + 60)
        let privateKey = try #require(Ed25519PrivateKey(seed: keys.newest.seed))
        #expect(rotated.json["public_key"] == .string(webhookPublicKeyText(privateKey.publicKey)))
        for wrong in [#"{"overlap_seconds":604801}"#, #"{"overlap":1}"#] {
            #expect(try fixture.send("POST", path + "/rotate_secret", wrong).status == 422)
        }
        #expect(try fixture.send("POST", path + "/rotate_secret", nil).status == 200)
    }

    @Test("testing an endpoint responds with the try; deliveries are filtered by state and type")
    func deliveries() throws {
        let path = try path(create())
        let ping = try fixture.send("POST", path + "/test", "{}")
        #expect(ping.status == 200 && ping.json["type"] == .string("webhook.ping"))
        #expect(ping.json["tries"]?.array?.first?["status"] == .integer(204))
        #expect(ping.json["job"] == .null && ping.json["session"] == .null)
        for (query, count) in [
            ("", 1), ("?state=accepted", 1), ("?state=pending", 0), ("?type=job.failed", 0),
        ] {
            let list = try fixture.send("GET", path + "/deliveries" + query)
            #expect(list.json["data"]?.array?.count == count, "\(query)")
        }
        #expect(try fixture.send("GET", path + "/deliveries?state=odd").status == 400)
    }

    @Test("a replay takes a time range and responds with the number of deliveries")
    func replay() throws {
        let path = try path(create()) + "/replay"
        let response = try fixture.send("POST", path, #"{"since":"2026-11-21T00:00:00Z","only":"failed"}"#)
        #expect(response.status == 200 && response.json["redelivered"] == .integer(7))
        let replay = try #require(fixture.store.state.withLock { $0.replays.first })
        #expect(replay.onlyFailed && replay.until == nil)
        for wrong in [
            "{}", #"{"since":null}"#, #"{"since":"x"}"#, #"{"since":"2026-11-21T00:00:00Z","only":"all"}"#,
            #"{"since":"2026-11-21T00:00:00Z","until":"2026-11-20T00:00:00Z"}"#,
        ] {
            #expect(try fixture.send("POST", path, wrong).status == 422, "\(wrong)")
        }
    }
}
