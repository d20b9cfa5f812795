import Testing

@testable import FerryCore

@Suite("Objects with default values")
struct StandardTextsTests {
    private func check<Object: FieldObject>(_ type: Object.Type) throws {
        let texts = try #require(Object.standardTexts, "\(type)")
        for isRedacted in [false, true] {
            var writer = JSONWriter()
            writer.beginObject()
            Object().writeFields(into: &writer, isRedacted: isRedacted)
            writer.endObject()
            #expect(texts.text(isRedacted: isRedacted) == writer.bytes, "\(type)")
        }
    }

    @Test("the prepared text is what the fields with their default values are written as")
    func prepared() throws {
        try check(JobSpec.Integrity.self)
        try check(JobSpec.Redirects.self)
        try check(JobSpec.Acceptance.self)
        try check(JobSpec.RetryRules.self)
        try check(JobSpec.Network.self)
        try check(JobSpec.Schedule.self)
        try check(QuestionRules.self)
    }

    @Test("an object with one other value is written with it, and the others of the job as prepared")
    func changed() throws {
        var spec = JobSpec()
        spec.retry.attemptCountMax = 3
        spec.network.bytesPerSecondMax = 7
        let json = try JSON.parse(spec.encode())
        #expect(json["retry"]?["max_attempts"]?.integer == 3 && json["retry"]?["multiplier"]?.integer == 2)
        #expect(json["network"]?["max_bytes_per_second"]?.integer == 7)
        #expect(json["redirects"]?["max"]?.integer == 20 && json["integrity"]?["size"] == .null)
        #expect(
            json["retry"]?.members?.count == (try JSON.parse(JobSpec().encode()))["retry"]?.members?.count)
    }

    @Test("a text is written with escapes where JSON needs them")
    func escapes() {
        for (text, json) in [
            ("", #""""#), ("a", #""a""#), ("é🚢", #""é🚢""#), ("a\"b", #""a\"b""#), ("\\", #""\\""#),
            ("a\nb\u{1F}", #""a\nb\u001f""#),
            (String(repeating: "x", count: 99) + "\t", "\"" + String(repeating: "x", count: 99) + #"\t""#),
        ] {
            var writer = JSONWriter()
            writer.value(text)
            #expect(String(decoding: writer.bytes, as: UTF8.self) == json)
        }
    }
}
