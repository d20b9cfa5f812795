import Testing

@testable import FerryCore

@Suite("Status patterns")
struct StatusPatternTests {
    private static func job(_ rules: String) -> String {
        #"{"kind":"data","request":{"url":"http://a.example/"},\#(rules)}"#
    }

    @Test("statuses are numbers, texts and classes, stored and shown as they were given")
    func asGiven() throws {
        let list = #"[408,"408","5xx",599,100]"#
        let job = try decode(Self.job(#""retry":{"statuses":\#(list)},"accept":{"status":\#(list)}"#))
        let shown = String(decoding: job.spec.encode(), as: UTF8.self)
        #expect(shown.contains(#""statuses":\#(list)"#) && shown.contains(#""status":\#(list)"#))
        let restored = try JobSpec(storedJSON: job.spec.encodeStored())
        #expect(String(decoding: restored.encode(), as: UTF8.self) == shown)
        let patch = try JSON.parse(Array(#"{"retry":{"statuses":[429]}}"#.utf8))
        let changed = try job.merging(JSONView(patch)) { _ in nil }
        #expect(String(decoding: changed.spec.encode(), as: UTF8.self).contains(#""statuses":[429]"#))
    }

    @Test(
        "an invalid status is rejected with the pointer of the element",
        arguments: [
            "99", "600", "-408", "408.5", "1e300", "\"600\"", "\"4x8\"", "\"40\"", "\"4080\"", "\"5XX\"",
            "\"\"", "null", "true", "[408]", "{}",
        ])
    func invalid(_ value: String) {
        for (rules, pointer) in [
            (#""retry":{"statuses":[200,\#(value)]}"#, "#/retry/statuses/1"),
            (#""accept":{"status":[200,\#(value)]}"#, "#/accept/status/1"),
        ] { #expect(errors(Self.job(rules)).map(\.pointer) == [pointer], "\(rules)") }
    }

    @Test("a number and its digits match one status, a class matches a hundred")
    func matching() throws {
        let spec = try decode(Self.job(#""accept":{"status":[408,"409","5xx"]}"#)).spec
        let accepted = (100..<600).filter { status in spec.accept.status.contains { $0.matches(status) } }
        #expect(accepted == [408, 409] + (500..<600))
    }
}
