import FerryCore
import Testing

private func json(_ text: String) throws -> JSON { try JSON.parse(Array(text.utf8)) }

@Suite("Merge patches")
struct JobPatchTests {
    @Test(
        "the examples of RFC 7396",
        arguments: [
            (#"{"a":"b"}"#, #"{"a":"c"}"#, #"{"a":"c"}"#),
            (#"{"a":"b"}"#, #"{"b":"c"}"#, #"{"a":"b","b":"c"}"#),
            (#"{"a":"b"}"#, #"{"a":null}"#, "{}"), (#"{"a":"b","b":"c"}"#, #"{"a":null}"#, #"{"b":"c"}"#),
            (#"{"a":["b"]}"#, #"{"a":"c"}"#, #"{"a":"c"}"#),
            (#"{"a":"c"}"#, #"{"a":["b"]}"#, #"{"a":["b"]}"#),
            (#"{"a":{"b":"c"}}"#, #"{"a":{"b":"d","c":null}}"#, #"{"a":{"b":"d"}}"#),
            (#"{"a":[{"b":"c"}]}"#, #"{"a":[1]}"#, #"{"a":[1]}"#),
            (#"["a","b"]"#, #"["c","d"]"#, #"["c","d"]"#),
            (#"{"a":"b"}"#, #"["c"]"#, #"["c"]"#), (#"{"a":"foo"}"#, "null", "null"),
            (#"{"e":null}"#, #"{"a":1}"#, #"{"e":null,"a":1}"#),
            ("[1,2]", #"{"a":"b","c":null}"#, #"{"a":"b"}"#),
            ("{}", #"{"a":{"bb":{"ccc":null}}}"#, #"{"a":{"bb":{}}}"#),
        ])
    func examples(_ target: String, _ patch: String, _ result: String) throws {
        #expect(try json(target).merged(with: json(patch)) == json(result))
    }

    @Test("every part that can be changed keeps what the patch does not name", arguments: fullJobs)
    func parts(_ text: String) throws {
        let spec = try decode(text).spec
        let patch = try json(
            #"{"description":"n","schedule":{"timeout_for_resource":77},"retry":{"max_attempts":2},"#
                + #""redirects":{"max":1},"accept":{"max_bytes":5},"request":{"timeout_for_request":9}}"#)
        let changed = try spec.merging(patch) { _ in nil }
        var expected = spec
        expected.description = "n"
        expected.schedule.timeoutForResource = 77
        expected.retry.attemptCountMax = 2
        expected.redirects.countMax = 1
        expected.accept.byteCountMax = 5
        expected.request.timeoutForRequest = 9
        #expect(changed == expected && !changed.differsOnlyWhileRunning(from: spec))
        let live = try spec.merging(json(#"{"schedule":{"priority":1},"metadata":{"x":"y"}}"#)) { _ in nil }
        #expect(live != spec && live.differsOnlyWhileRunning(from: spec))
        #expect(try spec.merging(json("{}")) { _ in nil } == spec)
    }

    @Test("credentials stay with the server that they are for")
    func credentials() throws {
        let elsewhere = [
            #"{"request":{"url":"https://b.example/"}}"#, #"{"request":{"url":"http://a.example/"}}"#,
            #"{"request":{"url":"https://a.example:8443/"}}"#,
            #"{"redirects":{"send_credentials_across_origins":true}}"#,
        ]
        for secret in [
            #""headers":{"Authorization":"Bearer x"}"#, #""headers":{"X-Session-Token":"x"}"#,
            #""auth":{"type":"bearer","token":"x"}"#,
        ] {
            let text = #"{"kind":"data","request":{"url":"https://a.example/x",\#(secret)}}"#
            let spec = try decode(text).spec
            for patch in elsewhere {
                #expect(throws: InvalidFields.self, "\(patch)") {
                    try spec.merging(json(patch)) { _ in nil }
                }
            }
            let moved = try spec.merging(json(#"{"request":{"url":"https://a.example/y"}}"#)) { _ in nil }
            #expect(moved.request.url == "https://a.example/y")
        }
        let free = try decode(#"{"kind":"data","request":{"url":"https://a.example/x"}}"#).spec
        for patch in elsewhere { _ = try free.merging(json(patch)) { _ in nil } }
    }

    @Test("a patch that is wrong, or comes out wrong, is refused with its pointers")
    func wrong() throws {
        let spec = try decode(#"{"kind":"data","request":{"url":"http://a.example/"}}"#).spec
        let refused = { (patch: String) -> [String] in
            do throws(InvalidFields) {
                _ = try spec.merging((try? json(patch)) ?? .null) { _ in "Not there." }
                return []
            } catch {
                return error.errors.map { "\($0.code) \($0.pointer)" }
            }
        }
        #expect(refused("[]") == ["wrong_type #"])
        #expect(refused(#"{"request":{"url":"http://b.example/"}}"#) == ["blocked_address #/request/url"])
        #expect(refused(#"{"destination":{"path":"x"}}"#) == ["invalid_combination #/destination"])
        #expect(refused(#"{"webhook":null,"session":"x"}"#).count == 2)
        #expect(refused(#"{"metadata":7}"#) == ["wrong_type #/metadata"])
        #expect(refused(#"{"network":{"max_bytes_per_second":0}}"#).count == 1)
    }
}
