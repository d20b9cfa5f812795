import Testing

@testable import FerryCore

@Suite("Search for bytes in texts")
struct ByteSearchTests {
    /// Short texts are kept in place of a pointer to their memory.
    private static let texts = [
        "", "?", "a?b", "é?", "a text of more than fifteen bytes?x", "no such byte in this longer text",
        "ééééééééééééééé?é",
    ]

    @Test("the index of a byte is that of the standard library, also in parts of texts", arguments: texts)
    func index(text: String) {
        #expect(text.firstIndex(ofByte: 0x3F) == text.utf8.firstIndex(of: 0x3F))
        #expect(text.containsByte { $0 == 0x3F } == text.utf8.contains(0x3F))
        let part = text.dropFirst()
        #expect(part.firstIndex(ofByte: 0x3F) == part.utf8.firstIndex(of: 0x3F))
        #expect(part.containsByte { $0 > 0x7F } == part.utf8.contains { $0 > 0x7F })
    }

    @Test(
        "only ASCII letters are the same in both cases",
        arguments: [
            ("Content-Type", "content-tYPE", true), ("", "", true), ("etag", "etags", false),
            ("@", "`", false), ("[", "{", false), ("É", "é", false), ("a\u{7F}", "A_", false),
            ("x-amz-checksum-sha256", "X-Amz-Checksum-SHA256", true),
        ])
    func equality(first: String, second: String, isSame: Bool) {
        #expect(equalIgnoringCase(first, second) == isSame)
    }
}
