import FerryCore
import Synchronization
import TestSupport
import Testing

@testable import FerryAPI

@Suite("Merged and duplicate forms")
struct MergedFormsTests {
    /// Names of members: fields of all routes, dotted and empty forms of them, and unknown ones.
    private static let names = [
        "metadata", "metadata.t", "metadata.", "metadata.metadata.t", "metadata.t.u", "filter",
        "filter.state",
        "state", "session", "host", "kind", "created_after", "schedule", "acknowledged", "ids", "dry_run",
        "request", "request.url", "url", "method", "headers", "body", "form", "json", "destination", "path",
        "retry", "retry.statuses", "statuses", "accept", "status", "source", "fields", "job", "jobs", "cron",
        "interval", "time_zone", "start_at", "webhook", "secret", "events", "resume_data", "credential",
        "disposition", "windows", "tls", "t", "", "é", "e\u{301}", "a/b~c", "\\u0000", "\\ud83d\\ude00",
    ]
    private static let words = [
        "null", "true", "false", "0", "-0", "1.5", "1e300", "9223372036854775808", "\"\"", "\"t\"",
        "\"failed\"", "\"env=test\"", "\"http://a.example/{scheduled_at:date}\"", "\"2026-11-21T22:00:00Z\"",
        "\"* * * * *\"", "\"\\u0000\"", "[]", "{}", "[null]", "{\"t\":\"x\"}", "{\"t\":null}",
        "[[\"t\",\"x\"]]",
    ]

    /// Returns the text of a value; objects may have a name twice.
    private static func value(_ depth: Int, _ random: inout SeededRandom) -> String {
        switch Int.random(in: 0..<(depth > 0 ? 5 : 2), using: &random) {
        case 0, 1: return words.randomElement(using: &random) ?? "null"
        case 2:
            let values = (0..<Int.random(in: 0..<3, using: &random)).map { _ in value(depth - 1, &random) }
            return "[\(values.joined(separator: ","))]"
        default:
            var members = (0..<Int.random(in: 0..<5, using: &random)).map { _ in
                "\"\(names.randomElement(using: &random) ?? "")\":\(value(depth - 1, &random))"
            }
            if let first = members.first, Int.random(in: 0..<12, using: &random) == 0 {
                members.append(first)
            }
            return "{\(members.joined(separator: ","))}"
        }
    }

    /// Routes with bodies that start from a valid one, whose members random ones join or replace.
    private static func targets(_ fixture: Fixture) throws -> [(method: String, path: String, valid: String)]
    {
        let job = try fixture.submit(#","metadata":{"t":"x"}"#)
        let schedule = #"{"interval":60,"job":{"kind":"data","request":{"url":"http://a.example/"}}}"#
        let webhook = #"{"url":"https://hooks.example/in"}"#
        let make = { (path: String, body: String) throws -> String in
            let response = try fixture.send("POST", path, body)
            try #require(response.status == 201, "\(response.json)")
            return try #require(response.header("Location"))
        }
        let bulk = ["suspend", "resume", "cancel", "retry"].map {
            ("POST", "/v1/jobs/\($0)", #"{"filter":{},"dry_run":true}"#)
        }
        return bulk + [
            ("PATCH", "/v1/jobs/\(job)", "{}"),
            ("POST", "/v1/jobs", small()), ("POST", "/v1/jobs/batch", #"{"jobs":[\#(small())]}"#),
            ("PUT", try make("/v1/schedules", schedule), schedule), ("POST", "/v1/schedules", schedule),
            ("PATCH", try make("/v1/webhooks", webhook), "{}"), ("POST", "/v1/webhooks", webhook),
            ("PUT", "/v1/sessions/s", "{}"), ("PATCH", "/v1/admin/limits", "{}"),
            ("PATCH", "/v1/admin/windows", "{}"), ("PATCH", "/v1/admin/hosts/a.example", "{}"),
            ("PUT", "/v1/admin/tenants/acme/limits", "{}"),
        ]
    }

    @Test("no body with merged or duplicate forms is a 5xx or ends the process", arguments: UInt64(1)...8)
    func random(_ seed: UInt64) throws {
        let fixture = Fixture()
        let targets = try Self.targets(fixture)
        var random = SeededRandom(seed: seed)
        for _ in 0..<60 {
            for (method, path, valid) in targets {
                var body = Self.value(4, &random)
                if body.hasPrefix("{"), Bool.random(using: &random) {
                    let own = valid.dropFirst().dropLast()
                    let other = body.dropFirst().dropLast()
                    body = "{\(own)\(own.isEmpty || other.isEmpty ? "" : ",")\(other)}"
                }
                let response = try fixture.send(method, path, body)
                #expect(
                    (200..<500).contains(response.status), "\(method) \(path) \(body): \(response.status)")
            }
        }
    }

    @Test(
        "a condition on metadata in two forms is 422 in every bulk command, also in a dry run",
        arguments: ["suspend", "resume", "cancel", "retry"])
    func bulk(_ verb: String) throws {
        let fixture = Fixture()
        for (filter, pointer) in [
            (#"{"metadata.t":"x","metadata":{"t":"x"}}"#, "#/filter/metadata.t"),
            (#"{"metadata.t":"x","metadata":{"t":"y","u":"z"}}"#, "#/filter/metadata.t"),
            (#"{"metadata.":"x","metadata":{"":"x"}}"#, "#/filter/metadata."),
            (#"{"metadata.t":null,"metadata":{"t":"x"}}"#, "#/filter/metadata.t"),
            (#"{"metadata.t":{"a":"b"},"metadata":{"t":"x"}}"#, "#/filter/metadata.t"),
            (#"{"metadata.customer":"42","metadata":"env=test"}"#, "#/filter/metadata"),
            (#"{"metadata.customer":"42","metadata":["env"]}"#, "#/filter/metadata"),
            (#"{"metadata.customer":"42","metadata":null}"#, "#/filter/metadata"),
            (#"{"metadata.t":"x","Metadata.u":"y"}"#, "#/filter/Metadata.u"),
        ] {
            for rest in ["", #","dry_run":true"#] {
                let response = try fixture.send("POST", "/v1/jobs/\(verb)", #"{"filter":\#(filter)\#(rest)}"#)
                let pointers = response.json["errors"]?.array?.compactMap { $0["pointer"]?.string } ?? []
                #expect(response.status == 422 && pointers.contains(pointer), "\(filter): \(response.json)")
            }
        }
        #expect(fixture.store.state.withLock { $0.newBulkOperations.isEmpty })
    }

    @Test("null is no condition of a bulk command: 422")
    func null() throws {
        let fixture = Fixture()
        let names = [
            "session", "state", "kind", "host", "created_after", "schedule", "acknowledged", "metadata",
            "metadata.t",
        ]
        for name in names {
            let response = try fixture.send("POST", "/v1/jobs/cancel", #"{"filter":{"\#(name)":null}}"#)
            let error = response.json["errors"]?.array?.first
            #expect(response.status == 422 && error?["code"]?.string == "wrong_type", "\(name)")
            #expect(error?["pointer"]?.string == "#/filter/\(name)")
        }
        for body in [#"{"filter":null}"#, #"{"ids":null}"#, #"{"filter":{},"ids":null}"#] {
            #expect(try fixture.send("POST", "/v1/jobs/cancel", body).status == 422, "\(body)")
        }
        #expect(fixture.store.state.withLock { $0.newBulkOperations.isEmpty })
    }

    @Test("the filter that an operation shows can be sent again")
    func shownFilter() throws {
        let fixture = Fixture()
        let filter = #"{"state":"failed","metadata.b":"2","metadata":{"a":"1"},"acknowledged":false}"#
        let first = try fixture.send("POST", "/v1/jobs/cancel", #"{"filter":\#(filter)}"#)
        try #require(first.status == 202)
        var writer = JSONWriter()
        writer.value(try #require(first.json["filter"]))
        let text = String(decoding: writer.bytes, as: UTF8.self)
        #expect(try fixture.send("POST", "/v1/jobs/cancel", #"{"filter":\#(text)}"#).status == 202)
        let selections = fixture.store.state.withLock { $0.newBulkOperations.map(\.selection) }
        #expect(selections.count == 2 && selections[0] == selections[1])
    }
}
