import Foundation
import Testing

/// Rules of the repository that the compiler does not check.
@Suite("Rules of the repository")
struct TidyTests {
    @Test("no line of Swift is wider than 110 columns", arguments: Tree.swiftFiles)
    func width(_ file: SourceFile) {
        for (index, line) in file.lines.enumerated() where !line.contains("https://") {
            #expect(line.count <= 110, "\(file.path):\(index + 1) has \(line.count) columns")
        }
    }

    /// Folders whose comments do not keep the rule yet.
    private static let unnamedSubjects = [
        "Sources/FerryEngine/Transfer/", "Sources/FerryEngine/Segments/",
        "Sources/FerryCore/Job/JobRepresentation.swift",
    ]

    @Test("a doc comment in Sources begins with no question word", arguments: Tree.sourceFiles)
    func commentSubjects(_ file: SourceFile) {
        guard !Self.unnamedSubjects.contains(where: { file.path.hasPrefix($0) }) else { return }
        for (before, line) in zip([""] + file.lines, file.lines) where !before.contains(/^\s*\/\/\//) {
            #expect(
                !line.contains(/^\s*\/\/\/ (What|Who|How|Where|Why|Which)\b/),
                "\(file.path) has a comment that names no subject: \(line)")
        }
    }

    @Test("each row of the code map names one existing file")
    func codeMap() throws {
        let rows = try Tree.text("docs/code-map.md").split(separator: "\n").filter { $0.contains("? |") }
        #expect(rows.count >= 30)
        for row in rows {
            let paths = row.matches(of: /`([^`]+\/[^`]+)` \|$/).map { String($0.1) }
            #expect(paths.count == 1, "\(row) does not name one file")
            for path in paths {
                #expect(FileManager.default.fileExists(atPath: Tree.root + "/" + path), "there is no \(path)")
            }
        }
    }

    @Test(
        "each target imports only the targets that are allowed for it",
        arguments: Tree.sourceFiles)
    func imports(_ file: SourceFile) throws {
        let allowed = try #require(Tree.mayImport[file.target], "\(file.target) is not in Tree.mayImport")
        for name in file.imports {
            #expect(allowed.contains(name) || Tree.everywhere.contains(name), "\(file.path) imports \(name)")
        }
    }

    @Test(
        "sources contain no try!, no fatalError() without message, and no TODO without issue",
        arguments: Tree.sourceFiles)
    func bannedWords(_ file: SourceFile) {
        for (index, line) in file.lines.enumerated() {
            let code = line.split(separator: "//", maxSplits: 1, omittingEmptySubsequences: false).first ?? ""
            for word in ["try!", "fatalError()", "DispatchQueue", "Task.detached", "FoundationNetworking"] {
                #expect(!code.contains(word), "\(file.path):\(index + 1) says \(word)")
            }
            for word in ["TODO", "FIXME", "HACK"] where line.contains(word) {
                #expect(
                    line.contains("#"), "\(file.path):\(index + 1): \(word) without the number of an issue")
            }
        }
    }

    @Test("a precondition has a comment why no input reaches it", arguments: Tree.sourceFiles)
    func preconditions(_ file: SourceFile) {
        let words = ["precondition(", "preconditionFailure(", "fatalError(", "assert(", "assertionFailure("]
        for (index, line) in file.lines.enumerated() {
            let code = line.split(separator: "//", maxSplits: 1, omittingEmptySubsequences: false).first ?? ""
            guard words.contains(where: { code.contains($0) }) else { continue }
            let before = file.lines[max(0, index - 4)..<index]
            #expect(before.contains { $0.contains("//") }, "\(file.path):\(index + 1) states no reason")
        }
    }

    @Test("no Mutex holds a bare function: see Sources/Sys/Callback.swift", arguments: Tree.swiftFiles)
    func mutexOfFunction(_ file: SourceFile) {
        for (index, line) in file.lines.enumerated() {
            let code = line.split(separator: "//", maxSplits: 1, omittingEmptySubsequences: false).first ?? ""
            for match in code.matches(of: /Mutex</) {
                #expect(
                    !Self.holdsFunction(code[match.range.upperBound...]),
                    "\(file.path):\(index + 1) stores a function in a Mutex")
            }
            // The type of the closure is inferred.
            let closure = "Mutex(" + "{"
            #expect(!code.contains(closure), "\(file.path):\(index + 1) stores a function in a Mutex")
        }
    }

    /// Returns `true` if the generic arguments that `text` begins with, behind their `<`, have a function
    /// type or the name of one.
    private static func holdsFunction(_ text: Substring) -> Bool {
        var depth = 1
        var last: Character = " "
        var arguments = ""
        for character in text {
            if character == ">", last == "-" { return true }
            if character == "<" { depth += 1 }
            if character == ">" { depth -= 1 }
            if depth == 0 { break }
            arguments.append(character)
            last = character
        }
        let names = arguments.matches(of: /\w+/).map { String($0.output) }
        return names.contains { functionTypes.contains($0) }
    }

    /// Names of function types in this repository (`typealias`).
    private static let functionTypes = Set(
        Tree.swiftFiles.flatMap { file in
            file.lines.compactMap { line in
                line.firstMatch(of: /typealias (\w+)(<.*>)? = .*->/).map { String($0.output.1) }
            }
        })

    @Test("a Mutex with a function type is found, one with a callback is not")
    func findsFunctions() {
        for text in [
            "(@Sendable () -> Void)?>(nil)", "[Int: @Sendable (Int) -> Void]>([:])", "Reply<Int>>()",
        ] {
            #expect(Self.holdsFunction(Substring(text)), "\(text)")
        }
        for text in [
            "Callback?>(nil)", "Int>(0) { (a: Int) -> Int in a }", "[Int: Set<Int>]>([:]), f: () -> Void",
        ] {
            #expect(!Self.holdsFunction(Substring(text)), "\(text)")
        }
    }

    @Test("an unchecked Sendable has a comment with its reason", arguments: Tree.sourceFiles)
    func uncheckedSendable(_ file: SourceFile) {
        for (index, line) in file.lines.enumerated() where line.contains("@unchecked Sendable") {
            let near = file.lines[max(0, index - 6)...min(file.lines.count - 1, index + 2)]
            #expect(near.contains { $0.contains("//") }, "\(file.path):\(index + 1) states no reason")
        }
    }

    @Test("SQL is only in files of FerryStore, with a head comment and at most 110 columns")
    func sql() throws {
        let migrations = try Tree.files(below: "migrations", ending: ".sql")
        for file in try Tree.files(below: "Sources/FerryStore", ending: ".sql") + migrations {
            #expect(file.lines.first?.hasPrefix("--") == true, "\(file.path) does not begin with a comment")
            for (index, line) in file.lines.enumerated() {
                #expect(line.count <= 110, "\(file.path):\(index + 1) has \(line.count) columns")
            }
        }
        for file in Tree.sourceFiles where file.target != "FerryStore" && file.target != "Postgres" {
            for word in ["SELECT ", "INSERT INTO", "DELETE FROM"] {
                #expect(!file.text.contains(word), "\(file.path) holds SQL")
            }
        }
    }

    @Test("the program runs each migration file once, in the order of their numbers")
    func migrations() throws {
        let files = try Tree.files(below: "migrations", ending: ".sql").map { file in
            file.path.split(separator: "/").last.map { String($0.dropLast(".sql".count)) } ?? ""
        }
        let listed = try Tree.text("Sources/FerryStore/Schema/Migrator.swift")
            .matches(of: /version: (\d+), name: "(\w+)"/).map { match in
                String(repeating: "0", count: 4 - match.1.count) + "\(match.1)_\(match.2)"
            }
        #expect(files.sorted() == listed)
    }

    @Test("every error code is documented")
    func errors() throws {
        let page = try Tree.text("docs/errors.md")
        let source = try Tree.text("Sources/FerryCore/Errors/TransferError.swift")
        let pattern = /case ([a-zA-Z]+)(?: = "([a-z_]+)")?$/
        let codes = source.split(separator: "\n").prefix { !$0.contains("enum Class") }
            .compactMap { try? pattern.firstMatch(in: $0).map { $0.2 ?? $0.1 } }
        #expect(codes.count > 20)
        for code in codes { #expect(page.contains("`\(code)`"), "docs/errors.md does not explain \(code)") }
    }

    @Test("every setting is documented")
    func settings() throws {
        let page = try Tree.text("docs/configuration.md")
        let source = try Tree.text("Sources/FerryServer/Configuration/Configuration.swift")
        for match in source.matches(of: /Setting\("(FERRY_[A-Z_]+)"/) {
            #expect(page.contains("`\(match.1)`"), "docs/configuration.md does not explain \(match.1)")
        }
    }
}
