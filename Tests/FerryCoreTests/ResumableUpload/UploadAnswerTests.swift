import FerryCore
import Testing

/// The fields of a response that the protocols of resumable uploads read.
@Suite struct UploadAnswerTests {
    private static func answer(_ fields: [(String, String)]) -> UploadAnswer {
        UploadAnswer(status: 200) { name in fields.filter { $0.0 == name }.map(\.1) }
    }

    @Test(
        "an offset is a non-negative integer of at most 15 digits; anything else is ignored",
        arguments: [
            ("0", Int64(0)), ("17", 17), (" 17 ", 17), ("17;a=b", 17),
            ("999999999999999", 999_999_999_999_999),
            ("-1", nil), ("1.0", nil), ("1000000000000000", nil), ("", nil), ("x", nil), ("?1", nil),
        ] as [(String, Int64?)])
    func offset(text: String, number: Int64?) {
        #expect(Self.answer([("upload-offset", text)]).offset == number)
    }

    @Test("a repeated field is ignored")
    func repeated() {
        let answer = Self.answer([
            ("upload-offset", "1"), ("upload-offset", "1"), ("upload-complete", "?1"),
            ("upload-complete", "?1"),
        ])
        #expect(answer == UploadAnswer(status: 200))
    }

    @Test("completeness is read from either field; Upload-Complete counts")
    func complete() {
        let rules: [([(String, String)], Bool?)] = [
            ([("upload-complete", "?1")], true), ([("upload-complete", "?0")], false),
            ([("upload-complete", "?0;x")], false), ([("upload-complete", "1")], nil),
            ([("upload-incomplete", "?0")], true), ([("upload-incomplete", "?1")], false),
            ([("upload-complete", "?0"), ("upload-incomplete", "?0")], false), ([], nil),
        ]
        for (fields, isComplete) in rules {
            #expect(Self.answer(fields).isComplete == isComplete, "\(fields)")
        }
    }

    @Test("limits are read; a known key of another type makes the whole field void")
    func limit() {
        let rules: [([String], UploadLimit?)] = [
            (["max-size=10, max-append-size=3;x=y"], UploadLimit(byteCountMax: 10, appendByteCountMax: 3)),
            (["max-size=10", "max-append-size=3"], UploadLimit(byteCountMax: 10, appendByteCountMax: 3)),
            (["min-size=0"], UploadLimit()), (["later=\"x\", max-age=9"], UploadLimit()),
            (["max-size=1, max-size=2"], UploadLimit(byteCountMax: 2)),
            (["max-size=10, max-append-size=\"3\""], nil), (["max-size"], nil), (["max-size=1.5"], nil),
            (["max-size=-1"], nil), (["max-age=?1"], nil), (["max-size=10,"], nil), (["=1"], nil),
        ]
        for (texts, limit) in rules {
            #expect(Self.answer(texts.map { ("upload-limit", $0) }).limit == limit, "\(texts)")
        }
    }

    @Test("version and Tus-Resumable are read")
    func others() {
        #expect(Self.answer([("upload-draft-interop-version", "8")]).version == 8)
        #expect(Self.answer([("tus-resumable", "1.0.0")]).speaksTus)
        #expect(!Self.answer([("tus-resumable", "0.2.2")]).speaksTus && !Self.answer([]).speaksTus)
    }
}
