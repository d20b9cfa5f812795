import FerryCore
import Testing

@Suite("Webhook endpoints")
struct WebhookEndpointTests {
    private func decoded(_ text: String) throws(InvalidFields) -> WebhookEndpoint {
        guard let json = try? JSONView(parsing: Array(text.utf8)) else {
            throw InvalidFields("#", "bad", text)
        }
        return try WebhookEndpoint(body: json, FieldContext { $0.host == "10.0.0.1" ? "Not there." : nil })
    }

    private func errors(_ text: String) -> [String] {
        do throws(InvalidFields) {
            _ = try decoded(text)
            return []
        } catch {
            return error.errors.map { "\($0.pointer) \($0.code)" }
        }
    }

    @Test("an endpoint with a URL alone gets all events with the default schedule")
    func standard() throws {
        let endpoint = try decoded(#"{"url":"https://a.example/hook"}"#)
        #expect(endpoint == WebhookEndpoint(url: "https://a.example/hook"))
        #expect(endpoint.isEnabled && !endpoint.isOrdered && endpoint.format == .standard)
        #expect(endpoint.filter == WebhookFilter() && endpoint.retryDelays.count == 9)
    }

    @Test("all fields are read")
    func fields() throws {
        let endpoint = try decoded(
            """
            {"url":"https://a.example/hook","events":["job.failed","job.succeeded"],"session":"nightly",
             "metadata":{"team":"a"},"description":"ops","enabled":false,"ordered":true,
             "format":"cloudevents","retry":{"delays":[1,2.5]},"disable_after":7200}
            """)
        #expect(endpoint.filter.types == ["job.failed", "job.succeeded"])
        #expect(endpoint.filter.session == "nightly" && endpoint.filter.metadata == [.init("team", "a")])
        #expect(endpoint.description == "ops" && !endpoint.isEnabled && endpoint.isOrdered)
        #expect(endpoint.format == .cloudevents && endpoint.retryDelays == [1, 2.5])
        #expect(endpoint.disableAfter == 7200)
        #expect(try decoded(#"{"url":"https://a.example","events":["job.failed","*"]}"#).filter.types == nil)
    }

    @Test(
        "all errors are reported at once",
        arguments: [
            (#"{}"#, ["#/url required"]), (#"[]"#, ["# wrong_type"]),
            (#"{"url":"ftp://a/"}"#, ["#/url invalid_value"]),
            (#"{"url":"http://10.0.0.1/"}"#, ["#/url blocked_address"]),
            (
                #"{"url":"https://a.example","events":[],"ordered":1,"x":2}"#,
                ["#/events invalid_value", "#/ordered wrong_type", "#/x unknown_field"]
            ),
            (
                #"{"url":"https://a.example","events":["job.failed","job.eaten"]}"#,
                ["#/events/1 invalid_value"]
            ),
            (
                #"{"url":"https://a.example","retry":{"delays":[0,"1",86401],"max":1},"disable_after":1}"#,
                [
                    "#/retry/delays/0 out_of_range", "#/retry/delays/1 wrong_type",
                    "#/retry/delays/2 out_of_range", "#/retry/max unknown_field",
                    "#/disable_after out_of_range",
                ]
            ),
            (#"{"url":"https://a.example","metadata":{"a":1}}"#, ["#/metadata/a wrong_type"]),
            (#"{"url":"https://a.example","session":""}"#, ["#/session invalid_value"]),
            (#"{"url":"https://a.example","id":"whk_1"}"#, ["#/id unknown_field"]),
        ])
    func wrong(_ text: String, _ expected: [String]) { #expect(errors(text) == expected) }

    @Test("a merge patch changes the members that it names; null restores the default")
    func patches() throws {
        let before = try decoded(
            #"{"url":"https://a.example/","session":"s","metadata":{"a":"1","b":"2"},"ordered":true}"#)
        let patch = try JSONView(
            parsing: Array(#"{"session":null,"metadata":{"a":null,"c":"3"},"enabled":false}"#.utf8))
        let after = try before.merging(patch)
        #expect(after.filter.session == nil && after.isOrdered && !after.isEnabled)
        #expect(after.filter.metadata == [.init("b", "2"), .init("c", "3")])
        #expect(throws: InvalidFields.self) { try before.merging(JSONView(.string("x"))) }
        let wrong = JSON.object([.init("secret", .string("whsec_x"))])
        #expect(throws: InvalidFields("#/secret", "unknown_field", "There is no field of this name here.")) {
            try before.merging(JSONView(wrong))
        }
    }

    @Test("removing an unknown member is an error at any depth")
    func unknownNulls() throws {
        let before = try decoded(#"{"url":"https://a.example/"}"#)
        let found = { (patch: String) -> [String] in
            guard let patch = try? JSONView(parsing: Array(patch.utf8)) else { return ["no JSON"] }
            do throws(InvalidFields) {
                _ = try before.merging(patch)
                return []
            } catch {
                return error.errors.map { "\($0.pointer) \($0.code)" }
            }
        }
        #expect(found(#"{"id":null}"#) == ["#/id unknown_field"])
        #expect(found(#"{"retry":{"max":null}}"#) == ["#/retry/max unknown_field"])
        #expect(
            found(#"{"acknowledgement":{"by":null,"reminder":null}}"#)
                == ["#/acknowledgement/reminder unknown_field"])
        #expect(
            found(#"{"acknowledgement":{"reminders":{"max_count":null,"count":null}}}"#)
                == ["#/acknowledgement/reminders/count unknown_field"])
        let known = [
            #"{"events":null,"session":null,"metadata":{"a":null},"description":null,"enabled":null}"#,
            #"{"ordered":null,"format":null,"retry":{"delays":null},"disable_after":null}"#,
            #"{"retry":null,"metadata":null,"acknowledgement":null}"#,
        ]
        for patch in known { #expect(found(patch).isEmpty, "\(patch)") }
    }

    @Test("a filter matches an event if type, session and all metadata pairs match")
    func filter() {
        let pairs = [JobSpec.Pair("team", "a"), JobSpec.Pair("env", "prod")]
        #expect(WebhookFilter().matches(type: "x", session: "s", metadata: []))
        let filter = WebhookFilter(types: ["job.failed"], session: "s", metadata: pairs)
        let more = pairs + [JobSpec.Pair("x", "y")]
        #expect(filter.matches(type: "job.failed", session: "s", metadata: more.reversed()))
        #expect(!filter.matches(type: "job.succeeded", session: "s", metadata: more))
        #expect(!filter.matches(type: "job.failed", session: "t", metadata: more))
        #expect(!filter.matches(type: "job.failed", session: "s", metadata: [pairs[0]]))
        #expect(!filter.matches(type: "job.failed", session: "s", metadata: []))
        let other = [pairs[0], JobSpec.Pair("env", "test")]
        #expect(!filter.matches(type: "job.failed", session: "s", metadata: other))
    }

    @Test("keys are read back after encryption; older keys end with the overlap or before")
    func keys() throws {
        func key(_ number: UInt8) throws -> WebhookKeys.Key {
            let secret = try #require(WebhookSecret(key: Array(repeating: number, count: 32)))
            return .init(secret: secret, seed: Array(repeating: number, count: 32))
        }
        let now = Timestamp(microseconds: 1_790_000_000_000_000)
        let (first, second, third, last) = (try key(1), try key(2), try key(3), try key(9))
        var keys = WebhookKeys(first)
        keys.rotate(to: second, overlap: 100, now: now)
        #expect(WebhookKeys(json: keys.encode()) == keys)
        #expect(keys.newest == second && keys.valid(at: now + 99).count == 2)
        #expect(keys.valid(at: now + 100) == [second])
        keys.rotate(to: third, overlap: 20, now: now + 50)
        #expect(keys.keys.map(\.secret) == [third, second, first].map(\.secret))
        #expect(keys.valid(at: now + 69).count == 3 && keys.valid(at: now + 70) == [third])
        var later = keys
        later.rotate(to: last, overlap: 1_000, now: now + 60)
        #expect(later.valid(at: now + 70).map(\.secret) == [last, third].map(\.secret))
        later.rotate(to: first, overlap: 0, now: now + 61)
        #expect(later.keys == [first])
        for number in UInt8(4)...9 { keys.rotate(to: try key(number), overlap: 1_000, now: now + 60) }
        #expect(keys.keys.count == Limits.webhookKeyCountMax && keys.newest == last)
        for text in ["", "{}", "[]", #"[{"secret":"whsec_x","seed":""}]"#] {
            #expect(WebhookKeys(json: Array(text.utf8)) == nil)
        }
    }
}
