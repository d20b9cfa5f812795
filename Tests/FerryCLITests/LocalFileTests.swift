import Testing

@testable import FerryCLI

@Suite("Local files")
struct LocalFileTests {
    @Test(
        "the name that a server suggests is a name in this directory, or none",
        arguments: [
            ("a.txt", "a.txt"), ("../a.txt", "a.txt"), ("c:\\a.txt", "a.txt"), (".profile", nil), ("", nil),
            // One character each for Swift, several for the file system.
            ("sub/\u{301}x", "\u{301}x"), ("/\u{200D}x", "\u{200D}x"), (".\u{301}x", nil),
        ] as [(String, String?)])
    func names(name: String, expected: String?) {
        #expect(LocalFile.safeName(name).map { Array($0.utf8) } == expected.map { Array($0.utf8) })
    }
}
