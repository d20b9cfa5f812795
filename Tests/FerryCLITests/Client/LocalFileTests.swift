import Sys
import Testing

@testable import FerryCLI

@Suite("Local files")
struct LocalFileTests {
    @Test(
        "a suggested file name never leaves the directory",
        arguments: [
            ("a.txt", "a.txt"), ("../a.txt", "a.txt"), ("c:\\a.txt", "a.txt"), (".profile", nil), ("", nil),
            // Each name is one `Character` in Swift and several characters in the file system.
            ("a\u{202E}gpj.exe", "agpj.exe"), ("a\u{2028}b\u{9B}", "ab"),
            ("sub/\u{301}x", "\u{301}x"), ("/\u{200D}x", "\u{200D}x"), (".\u{301}x", nil),
        ] as [(String, String?)])
    func names(name: String, expected: String?) {
        #expect(LocalFile.safeName(name).map { Array($0.utf8) } == expected.map { Array($0.utf8) })
    }

    @Test("a file name of maximum length works, also for two writers at once")
    func longNames() throws {
        try withTemporaryDirectory { directory in
            let path = "\(directory)/" + String(repeating: "x", count: 255)
            let writers = try (0..<2).map { _ in try FileWriter(LocalPath(path), replaces: true) }
            for (writer, text) in zip(writers, ["first", "second"]) {
                #expect(Array(text.utf8).withUnsafeBytes { writer.write($0) })
                try writer.finish()
                #expect(contents(path) == text)
            }
            #expect(directoryNames(directory).count == 1)
        }
    }

    @Test("spaces before a header field's value are removed, others are kept")
    func pairs() {
        #expect(JobOptions.pair("Name:  a b ", separator: ":")?.1 == "a b ")
        #expect(JobOptions.pair("name=  a b ", separator: "=")?.1 == "  a b ")
        #expect(JobOptions.pair("name=\u{301}", separator: "=")?.0 == "name")
        #expect(JobOptions.pair("=x", separator: "=") == nil && JobOptions.pair("x", separator: "=") == nil)
    }
}
