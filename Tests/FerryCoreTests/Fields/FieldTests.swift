import FerryCore
import Testing

/// An object with one field more than a job's network rules: everything that a new field needs is here.
private struct Sample: FieldObject {
    static let summary = "A sample."
    static let schemaName = "Sample"
    var rate: Int64? = 5
    var delay = 2.0
    var name = "a"
    var secret = Secret()
    var inner = Inner()
    var choice: Inner?

    struct Inner: FieldObject {
        static let summary = "An inner object."
        static let schemaName = "Inner"
        var isOn = true
        var list: [String] = []

        mutating func fields(_ visitor: inout some FieldVisitor) {
            visitor.field("on", &isOn, .of(.always), "Whether it is on.")
            visitor.field("list", &list, ListRule(0...2, of: TextRule(1...3)), .plain, "Some texts.")
        }
    }

    mutating func fields(_ visitor: inout some FieldVisitor) {
        visitor.field("rate", &rate, 1...9, .of(unit: .bytesPerSecond), "A rate.")
        visitor.field("delay", &delay, 0...10, .of(unit: .seconds), "A delay.")
        visitor.field("name", &name, TextRule(1...5), .of(.never, required: true), "A name.")
        visitor.field("secret", &secret, TextRule(1...5), .plain, "A secret.")
        visitor.object("inner", &inner, .plain, "An object.")
        visitor.object("choice", &choice, .plain, "An object or null.")
    }

    mutating func check(_ body: FieldDecoder) {
        if rate == 9, delay == 9 { body.fail("delay", "invalid_combination", "Not both.") }
    }
}

@Suite("Fields")
struct FieldTests {
    private func read(_ text: String) throws -> Sample {
        try Sample(body: JSONView(parsing: Array(text.utf8)))
    }

    private func errors(_ read: () throws -> Sample) -> [String] {
        do {
            _ = try read()
            return []
        } catch let error as InvalidFields {
            return error.errors.map { "\($0.pointer) \($0.code)" }
        } catch { return ["\(error)"] }
    }

    private func shown(_ sample: Sample) -> String {
        var writer = JSONWriter()
        writer.beginObject()
        sample.writeFields(into: &writer, isRedacted: false)
        writer.endObject()
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    @Test("a declared field is read, shown with its default, and stored unless it is the default")
    func declared() throws {
        let plain = try read(#"{"name":"b"}"#)
        let values = #""rate":5,"delay":2,"name":"b","secret":null"#
        #expect(shown(plain) == #"{\#(values),"inner":{"on":true,"list":[]},"choice":null}"#)
        var writer = JSONWriter()
        writer.beginObject()
        plain.storeFields(into: &writer, isRedacted: false)
        writer.endObject()
        #expect(String(decoding: writer.bytes, as: UTF8.self) == #"{"rate":5,"delay":2,"name":"b"}"#)
        let full = try read(
            #"{"name":"b","rate":null,"delay":3,"secret":"x","inner":{"on":false},"choice":{}}"#)
        #expect(full.rate == nil && full.secret.isSet && full.secret.text == "x" && full.choice != nil)
        #expect(shown(full).contains(#""secret":{"set":true}"#))
    }

    @Test("all errors of a body are reported at once with their pointers")
    func everyError() {
        let found = errors {
            try read(
                #"{"rate":10,"delay":"x","secret":5,"inner":{"list":["","ab","ab"],"no":1},"#
                    + #""choice":7,"z":1}"#
            )
        }
        #expect(
            found == [
                "#/rate out_of_range", "#/delay wrong_type", "#/name required", "#/secret wrong_type",
                "#/inner/list too_many", "#/inner/no unknown_field", "#/choice wrong_type",
                "#/z unknown_field",
            ])
        #expect(errors { try read(#"{"name":"b","rate":9,"delay":9}"#) } == ["#/delay invalid_combination"])
    }

    @Test(
        "an unknown field names the nearest known one, also one of an object in the object",
        arguments: [
            ("rat", "rate"), ("dealy", "delay"), ("secrets", "secret"), ("on", "inner.on"),
            ("list", "inner.list"), ("limit", nil), ("x", nil),
            (String(repeating: "rate", count: 9_999), nil),
        ] as [(String, String?)])
    func nearest(_ name: String, _ known: String?) {
        let hint = known.map { " Did you mean \($0)?" } ?? ""
        #expect(
            throws: InvalidFields("#/\(name)", "unknown_field", "There is no field of this name here." + hint)
        ) {
            try read(#"{"name":"b","\#(name)":1}"#)
        }
    }

    @Test("a merge patch keeps what it does not name, and null sets the default")
    func patch() throws {
        let before = try read(#"{"name":"b","rate":7,"delay":3,"inner":{"on":false,"list":["a"]}}"#)
        let after = try before.merging(JSONView(parsing: Array(#"{"rate":null,"inner":{"on":null}}"#.utf8)))
        #expect(after.rate == 5 && after.delay == 3 && after.inner.isOn && after.inner.list == ["a"])
        #expect(
            errors { try before.merging(JSONView(parsing: Array(#"{"name":"c","inner":{"x":null}}"#.utf8))) }
                == ["#/name not_supported", "#/inner/x unknown_field"])
        #expect(
            try before.merging(JSONView(parsing: Array(#"{"choice":{"on":false}}"#.utf8))).choice?.isOn
                == false)
    }

    @Test("the description of a field has what its declaration says")
    func description() throws {
        let object = ObjectDescription(Sample.self)
        #expect(object.fields.map(\.name) == ["rate", "delay", "name", "secret", "inner", "choice"])
        let rate = try #require(object.fields.first)
        #expect(rate.isNullable && rate.standard == .integer(5) && rate.traits.unit == .bytesPerSecond)
        guard case .object(let inner) = object.fields[4].kind else { throw Unexpected() }
        #expect(inner.fields.map(\.name) == ["on", "list"] && inner.text == "An inner object.")
    }

    private struct Unexpected: Error {}
}
