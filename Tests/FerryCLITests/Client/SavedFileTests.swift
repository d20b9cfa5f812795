import Glibc
import Sys
import Testing

@testable import FerryCLI

@Suite("Saved files")
struct SavedFileTests {
    private func save(_ text: String, to path: String, replaces: Bool = true) throws {
        let writer = try FileWriter(LocalPath(path), replaces: replaces)
        #expect(Array(text.utf8).withUnsafeBytes { writer.write($0) })
        try writer.finish()
    }

    @Test(
        "a replaced file keeps its mode, and its part is never readable by others",
        arguments: [0o600, 0o640, 0o664, 0o755] as [mode_t])
    func modes(mode: mode_t) throws {
        try withTemporaryDirectory { directory in
            let path = "\(directory)/a"
            write("old", to: path)
            #expect(chmod(path, mode) == 0)
            try save("new", to: path)
            var status = stat()
            #expect(stat(path, &status) == 0 && status.st_mode & 0o777 == mode)
            #expect(contents(path) == "new")
        }
    }

    @Test("a symbolic link stays, and its target is replaced or created")
    func links() throws {
        try withTemporaryDirectory { directory in
            #expect(symlink("target", "\(directory)/link") == 0)
            for text in ["first", "second"] {
                try save(text, to: "\(directory)/link")
                #expect(contents("\(directory)/target") == text)
            }
            var status = stat()
            #expect(lstat("\(directory)/link", &status) == 0 && status.st_mode & S_IFMT == S_IFLNK)
            #expect(directoryNames(directory).count == 2)
        }
    }

    @Test("links that form a cycle are an error before a job is submitted")
    func cycle() throws {
        try withTemporaryDirectory { directory in
            #expect(symlink("b", "\(directory)/a") == 0 && symlink("a", "\(directory)/b") == 0)
            #expect(throws: ClientFailure.self) { try SavedFile("\(directory)/a") }
        }
    }

    @Test("a missing directory, a file as a directory and a name with a slash at the end are errors")
    func places() throws {
        try withTemporaryDirectory { directory in
            write("file", to: "\(directory)/file")
            for output in ["\(directory)/none/a", "\(directory)/file/a", "\(directory)/none/", ""] {
                #expect(throws: ClientFailure.self, "\(output)") { try SavedFile(output) }
            }
            _ = try SavedFile("\(directory)/a")
            _ = try SavedFile(directory)
            #expect(directoryNames(directory) == ["file"])
        }
    }

    @Test("a file whose name the server chose does not replace another, and leaves no part")
    func exists() throws {
        try withTemporaryDirectory { directory in
            write("mine", to: "\(directory)/a")
            #expect(throws: ClientFailure.self) { try save("new", to: "\(directory)/a", replaces: false) }
            #expect(contents("\(directory)/a") == "mine" && directoryNames(directory) == ["a"])
        }
    }

    @Test(
        "the bytes of an argument are restored from its text",
        arguments: [
            Array("a\u{301}é".utf8), [0x63, 0xE9, 0x2E], [0xFF, 0xFE], [0x61, 0xC3],
            [0xED, 0xA0, 0x80, 0x78],
            Array("\u{10FE41}".utf8), [],
        ] as [[UInt8]])
    func bytes(argument: [UInt8]) {
        #expect(ArgumentBytes.unescaped(ArgumentBytes.escaped(argument)) == argument)
    }

    @Test("white space at the ends of a key is removed")
    func keyEnds() throws {
        for text in ["key\n", "key\r\n", " key ", "\u{FEFF}key\n\n"] {
            #expect(try ClientOptions.key(text, named: "FERRY_KEY") == "key")
        }
    }

    @Test("white space inside a key is an error with status 2 and the variable's name")
    func keyInside() {
        for text in ["a b", "a\nb", "a\r\nb", "\n"] {
            let error = #expect(throws: ClientFailure.self) {
                try ClientOptions.key(text, named: "FERRY_KEY")
            }
            #expect(error?.kind == .usage && error?.description.contains("FERRY_KEY") == true)
        }
    }

    @Test("a byte order mark before JSON is skipped")
    func byteOrderMark() throws {
        try withTemporaryDirectory { (directory) throws in
            write("\u{FEFF}{}", to: "\(directory)/a")
            #expect(try LocalFile.readJSON("\(directory)/a", byteCountMax: 100) == Array("{}".utf8))
        }
    }
}
