import FerryCore
import Testing

@Suite("Characters of names")
struct NameCharactersTests {
    @Test("only controls, line and paragraph separators and bidirectional controls are forbidden")
    func everyScalar() {
        for value in UInt32(0)...0x10FFFF {
            guard let scalar = Unicode.Scalar(value) else { continue }
            let properties = scalar.properties
            let isForbidden =
                [.control, .lineSeparator, .paragraphSeparator].contains(properties.generalCategory)
                || properties.isBidiControl
            guard NameCharacters.isForbidden(scalar) != isForbidden else { continue }
            Issue.record("U+\(String(value, radix: 16)) is \(isForbidden ? "allowed" : "forbidden")")
        }
    }

    @Test("forbidden characters are removed from a server's name")
    func removal() {
        let name = "a\u{202E}gpj.\u{2028}e\u{85}x\u{61C}e\u{7F} é\u{200D}"
        #expect(NameCharacters.removingForbidden(from: name) == "agpj.exe é\u{200D}")
        #expect(NameCharacters.removingForbidden(from: "a b.txt") == "a b.txt")
    }

    @Test(
        "a forbidden character in a path or a name of a form is rejected with its pointer",
        arguments: [
            "\\u0000", "\\n", "\\u007f", "\\u0085", "\\u009b", "\\u061c", "\\u200e", "\\u200f", "\\u2028",
            "\\u2029", "\\u202a", "\\u202e", "\\u2066", "\\u2069",
        ])
    func clients(escaped: String) {
        let name = "a\(escaped)b"
        let job = { (kind: String, rest: String) in
            #"{"kind":"\#(kind)","request":{"url":"http://a.example/"},\#(rest)}"#
        }
        let data = { (part: String) in
            #"{"kind":"data","request":{"url":"http://a.example/","method":"POST","#
                + #""body":{"multipart":[\#(part)]}}}"#
        }
        for (text, pointer) in [
            (job("download", #""destination":{"path":"\#(name)"}"#), "#/destination/path"),
            (job("download", #""destination":{"path":"\#(name)/"}"#), "#/destination/path"),
            (job("upload", #""source":{"path":"x/\#(name)"}"#), "#/source/path"),
            (
                job("upload", #""source":{"path":"x","form":{"file_name":"\#(name)"}}"#),
                "#/source/form/file_name"
            ),
            (job("upload", #""source":{"path":"x","form":{"field":"\#(name)"}}"#), "#/source/form/field"),
            (data(#"{"name":"\#(name)","text":"x"}"#), "#/request/body/multipart/0/name"),
            (data(#"{"name":"x","path":"\#(name)"}"#), "#/request/body/multipart/0/path"),
            (
                data(#"{"name":"x","text":"x","file_name":"\#(name)"}"#),
                "#/request/body/multipart/0/file_name"
            ),
        ] {
            let found = errors(text)
            #expect(found.map(\.pointer) == [pointer] && found.map(\.code) == ["invalid_value"], "\(text)")
        }
        let fields = errors(
            job("upload", #""source":{"path":"x","form":{"fields":{"\#(name)":"x"}}}"#))
        #expect(fields.map(\.code) == ["invalid_value"])
        // Texts that are not names are not restricted.
        if escaped != "\\u0000" {
            #expect(errors(job("data", #""description":"\#(name)","metadata":{"a":"\#(name)"}"#)).isEmpty)
        }
    }
}
