import Testing

@testable import FerryCore

/// The two forms of header fields: a map and a list of lines.
@Suite("Header fields")
struct HeaderFieldTests {
    private func decode(_ fields: String) throws -> JobRequest {
        let text = #"{"kind":"data","request":{"url":"http://a.example/",\#(fields)}}"#
        return try JobRequest(JSONView(parsing: Array(text.utf8)), refusal: { _ in nil })
    }

    private func errors(_ fields: String) throws -> [String] {
        do {
            _ = try decode(fields)
            return []
        } catch let error as InvalidFields {
            return error.errors.map { "\($0.pointer) \($0.code)" }
        }
    }

    private static let repeated = #"""
        "header_fields":[{"name":"Accept","value":"a/b"},{"name":"X-Token","value":"hush-1"},
        {"name":"accept","value":"c/d"},{"name":"x-token","value":"hush-2"}]
        """#

    @Test("names that differ only in case are repeated, in short and long sections")
    func repetition() {
        for count in [1, 20, 50] {
            let lines = (0..<count).map { JobSpec.Pair("X-Field-\($0)", "v") }
            #expect(!lines.hasRepeatedNames && lines.combined == lines)
            let more = lines + [JobSpec.Pair("x-FIELD-0", "w"), JobSpec.Pair("X_Field-0", "z")]
            #expect(more.hasRepeatedNames && more.combined.count == count + 1)
            #expect(more.combined[0] == JobSpec.Pair("X-Field-0", "v, w"))
            let cookies = lines + [JobSpec.Pair("SET-Cookie", "a=1")]
            #expect(!cookies.hasRepeatedNames && cookies.combined == lines)
        }
        #expect(!HeaderRules.isSame("@a", "`a") && HeaderRules.isSame("aZ-1", "Az-1"))
    }

    @Test("a list keeps the order and the repeated names of its lines")
    func list() throws {
        let job = try decode(Self.repeated)
        #expect(job.spec.request.headers.map(\.name) == ["Accept", "X-Token", "accept", "x-token"])
        #expect(job.secrets.headers == [.init("X-Token", "hush-1"), .init("x-token", "hush-2")])
        let shown = try JSON.parse(job.spec.encode())["request"]
        let hidden = JSON.object([.init("set", .bool(true))])
        #expect(shown?["headers"]?["Accept"] == "a/b, c/d")
        #expect(shown?["header_fields"]?.array?.map { $0["value"] } == ["a/b", hidden, "c/d", hidden])
    }

    @Test("repeated lines survive the stored form, with and without encrypted values")
    func stored() throws {
        let spec = try decode(
            #""header_fields":[{"name":"X-Own","value":"hush-1"},{"name":"x-own","value":"hush-2"}]"#
        ).spec
        let sealed = spec.encodeStored(.inverted)
        #expect(!String(decoding: sealed, as: UTF8.self).contains("hush"))
        #expect(try JobSpec(storedJSON: sealed, opening: .inverted) == spec)
        #expect(try JobSpec(storedJSON: spec.encodeStored()) == spec)
        #expect(try JobSpec(storedJSON: spec.encode()) == spec)
        let unique = try decode(#""headers":{"A":"1","B":"2"}"#).spec.encodeStored()
        #expect(!String(decoding: unique, as: UTF8.self).contains("header_fields"))
    }

    @Test("both forms are accepted if they have the same fields")
    func bothForms() throws {
        let lines = #""header_fields":[{"name":"A","value":"1"},{"name":"a","value":"2"}]"#
        #expect(try errors(#""headers":{"a":"1, 2"},\#(lines)"#) == [])
        #expect(
            try errors(#""headers":{"a":"1"},\#(lines)"#) == ["#/request/header_fields invalid_combination"])
        #expect(
            try errors(#""headers":{"A":"1"},"header_fields":[]"#)
                == ["#/request/header_fields invalid_combination"])
    }

    @Test("each invalid line is reported with its place")
    func invalid() throws {
        let lines = #"""
            "header_fields":[{"name":"Host","value":"x"},{"name":"","value":"x"},
            {"name":"A","value":"\u0001"},{"name":"B"},{"name":"C","value":"x","more":1},"D"]
            """#
        #expect(
            try errors(lines) == [
                "#/request/header_fields/0 invalid_value", "#/request/header_fields/1 invalid_value",
                "#/request/header_fields/2 invalid_value", "#/request/header_fields/3/value required",
                "#/request/header_fields/4/more unknown_field", "#/request/header_fields/5 wrong_type",
            ])
        let many = Array(repeating: #"{"name":"A","value":"b"}"#, count: Limits.headerCountMax + 1)
        #expect(
            try errors(#""header_fields":[\#(many.joined(separator: ","))]"#)
                == ["#/request/header_fields too_many"])
    }

    @Test("Host may be set by an admin, once, as a name or address with a port")
    func host() throws {
        let errors = { (headers: String, isAdmin: Bool) throws -> [String] in
            let json = #"{"kind":"data","request":{"url":"http://a.example/",\#(headers)}}"#
            let view = try JSONView(parsing: Array(json.utf8))
            do throws(InvalidFields) {
                let job = try JobRequest(view, mayNameHost: isAdmin, refusal: { _ in nil })
                #expect(job.spec.request.headers.map(\.name) == ["Host"])
                return []
            } catch {
                return error.errors.map { "\($0.pointer) \($0.code)" }
            }
        }
        for value in ["b.example", "b.example:81", "[::1]:81", "127.0.0.1"] {
            #expect(try errors(#""headers":{"Host":"\#(value)"}"#, true) == [])
        }
        #expect(
            try errors(#""headers":{"Host":"b.example"}"#, false) == ["#/request/headers/Host invalid_value"])
        for value in ["", "b.example/", "http://b.example", "u@b.example", "a b", "ü.example", "b:0"] {
            #expect(
                try errors(#""headers":{"Host":"\#(value)"}"#, true)
                    == ["#/request/headers/Host invalid_value"], "\(value)")
        }
        let twice = #""header_fields":[{"name":"Host","value":"b"},{"name":"host","value":"c"}]"#
        #expect(try errors(twice, true) == ["#/request/header_fields/1 duplicate"])
    }

    @Test("a patch of header_fields replaces all lines, one of headers all lines of a name")
    func patch() throws {
        let job = try decode(Self.repeated)
        let draft = JobRequest(job.spec, job.secrets)
        let merged = { (patch: String) in
            try draft.merging(
                JSONView(parsing: Array(#"{"request":{\#(patch)}}"#.utf8)), refusal: { _ in nil })
        }
        let replaced = try merged(#""header_fields":[{"name":"X-Token","value":"hush-3"}]"#)
        #expect(replaced.spec.request.headers.map(\.name) == ["X-Token"])
        #expect(replaced.secrets.headers == [.init("X-Token", "hush-3")])
        let changed = try merged(#""headers":{"ACCEPT":"e/f"}"#)
        #expect(changed.spec.request.headers.map(\.name) == ["X-Token", "x-token", "ACCEPT"])
        #expect(changed.secrets == job.secrets, "untouched lines keep their values in order")
        #expect(try merged(#""header_fields":[]"#).spec.request.headers.isEmpty)
        #expect(try merged(#""headers":{"accept":null,"x-token":null}"#).secrets.headers.isEmpty)
    }

    @Test("a response whose names are unique is stored without header_fields and shown with it")
    func uniqueNames() throws {
        let response = TransferResponse(
            status: 200, url: "http://a/",
            headers: [.init("ETag", #""\\"}"#), .init("X-Token", "t"), .init("Via", "")],
            mimeType: nil, suggestedFilename: nil, expectedContentLength: nil)
        let stored = Stored(response, .inverted)
        #expect(!String(decoding: stored.json, as: UTF8.self).contains("header_fields"))
        let fields = try [Disclosure.full(.inverted), .redacted].map {
            try shownResponse(Stored(json: stored.json), for: $0)["header_fields"]?.array?
                .map { $0["value"] }
        }
        let hidden = JSON.object([.init("set", .bool(true))])
        #expect(fields == [[#""\\"}"#, "t", ""], [#""\\"}"#, hidden, ""]])
    }

    @Test("fields of later versions are not_supported, and their default values are accepted")
    func laterFields() throws {
        let given = #"""
            {"kind":"data","request":{"url":"http://a.example/"},
            "destination":{"path":"a","s3":{"bucket":"bkt","key":"k"}}}
            """#
        let error = #expect(throws: InvalidFields.self) {
            try JobRequest(JSONView(parsing: Array(given.utf8)), refusal: { _ in nil })
        }
        #expect(error?.errors.allSatisfy { $0.code == "not_supported" } == true)
        #expect(error?.errors.map(\.pointer) == ["#/destination/s3"])
        let off = #"""
            {"kind":"data","request":{"url":"http://a.example/"},
            "destination":{"path":"a","s3":null,"headers":null}}
            """#
        let plain =
            #"{"kind":"data","request":{"url":"http://a.example/"},"destination":{"path":"a"}}"#
        let spec = { (text: String) in
            try JobRequest(JSONView(parsing: Array(text.utf8)), refusal: { _ in nil }).spec
        }
        #expect(try spec(off) == spec(plain))
    }

    @Test("suspended is stored only if it is true, and not repeated")
    func suspended() throws {
        let spec = { (value: String) in
            let text = #"{"kind":"data","request":{"url":"http://a.example/"},"suspended":\#(value)}"#
            return try JobRequest(JSONView(parsing: Array(text.utf8)), refusal: { _ in nil }).spec
        }
        for value in [true, false] {
            let spec = try spec("\(value)")
            let stored = spec.encodeStored(.inverted)
            #expect(spec.startsSuspended == value)
            #expect(String(decoding: stored, as: UTF8.self).contains("suspended") == value)
            var restored = try JobSpec(storedJSON: stored, opening: .inverted)
            #expect(restored.startsSuspended == value)
            #expect(try JSON.parse(restored.encode())["suspended"] == .bool(value))
            restored.repeat(at: Timestamp(microseconds: 0))
            #expect(!restored.startsSuspended)
        }
        for value in ["null", "1", #""true""#] {
            #expect(throws: InvalidFields.self) { try spec(value) }
        }
    }

    @Test("waits_for_connectivity is true by default only in background sessions")
    func connectivity() throws {
        func session(_ text: String) throws -> SessionConfiguration {
            try SessionConfiguration(body: JSONView(parsing: Array(text.utf8)))
        }
        #expect(try !session("{}").waitsForConnectivity)
        #expect(try session(#"{"kind":"background"}"#).waitsForConnectivity)
        #expect(try !session(#"{"kind":"background","waits_for_connectivity":false}"#).waitsForConnectivity)
        #expect(try session(#"{"waits_for_connectivity":true}"#).waitsForConnectivity)
        #expect(try !decode(#""headers":{}"#).spec.schedule.waitsForConnectivity)
    }
}
