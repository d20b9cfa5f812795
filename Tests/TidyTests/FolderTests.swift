import Testing

/// Uses of folders by other folders of a target.
@Suite("Folders")
struct FolderTests {
    /// A folder of a target.
    struct Folder: Sendable, CustomTestStringConvertible {
        let target: String
        let name: String
        let mayUse: [String]
        var testDescription: String { "\(target)/\(name)" }
    }

    private static let folders = FolderUses.targets.flatMap { target, folders in
        folders.map { Folder(target: target, name: $0.name, mayUse: $0.mayUse) }
    }

    /// The files of the declared targets by folder.
    private static let sources: [String: [String: [SwiftSource]]] = {
        var sources: [String: [String: [SwiftSource]]] = [:]
        for file in Tree.sourceFiles where FolderUses.targets.contains(where: { $0.name == file.target }) {
            let parts = file.path.split(separator: "/")
            guard parts.count > 3 else { continue }
            sources[file.target, default: [:]][String(parts[2]), default: []].append(SwiftSource(file.text))
        }
        return sources
    }()

    /// The folders that declare each name, by target.
    private static let declaring: [String: [String: Set<String>]] = sources.mapValues { folders in
        var declaring: [String: Set<String>] = [:]
        for (folder, files) in folders {
            for name in files.lazy.flatMap(\.declared) { declaring[name, default: []].insert(folder) }
        }
        return declaring
    }

    /// The other folders of the target whose names the folder uses, each with one such name.
    private static func uses(_ folder: Folder) -> [String: String] {
        var uses: [String: String] = [:]
        for name in sources[folder.target]?[folder.name]?.flatMap(\.used) ?? [] {
            for other in declaring[folder.target]?[name] ?? [] where other != folder.name {
                uses[other] = name
            }
        }
        return uses
    }

    @Test("each folder with Swift files is declared", arguments: FolderUses.targets.map(\.name))
    func declaration(_ target: String) throws {
        let declared = Self.folders.filter { $0.target == target }.map(\.name)
        #expect(declared.count == Set(declared).count)
        #expect(Set(declared) == Set(try #require(Self.sources[target]).keys))
    }

    @Test("each name is declared in one folder", arguments: FolderUses.targets.map(\.name))
    func uniqueness(_ target: String) {
        for (name, folders) in Self.declaring[target] ?? [:] {
            #expect(folders.count == 1, "\(name) is declared in \(folders.sorted())")
        }
    }

    @Test("a folder uses only the folders that are declared for it, and all of them", arguments: folders)
    func use(_ folder: Folder) {
        let uses = Self.uses(folder)
        for (other, name) in uses {
            #expect(folder.mayUse.contains(other), "\(folder.testDescription) uses \(name) of \(other)")
        }
        for other in folder.mayUse {
            #expect(uses[other] != nil, "\(folder.testDescription) does not use \(other)")
        }
    }

    @Test(
        "a folder uses only folders that are declared before it, so that no cycle exists", arguments: folders)
    func order(_ folder: Folder) throws {
        let names = Self.folders.filter { $0.target == folder.target }.map(\.name)
        let place = try #require(names.firstIndex(of: folder.name))
        for other in folder.mayUse {
            #expect(
                names[..<place].contains(other), "\(other) is not declared before \(folder.testDescription)")
        }
    }

    @Test("names in comments and texts are no uses, those in code within texts are")
    func reading() {
        let source = SwiftSource(
            #"""
            // Comment
            /// A `Documented` type.
            package final class Declared: Base {
                private let text = "Text \(Inner("\(Innermost())")) Rest"
                let long = """
                    "Quoted" \(Other.member)
                    """
            }
            private struct Hidden {}
            private extension Extended { func added() {} }
            func function(_ argument: Argument) {}
            extension Statements { static let some = make(1) }
            let used = Statements.another
            """#)
        #expect(source.declared == ["Declared", "function", "used", "Statements.some"])
        let names = ["Base", "Inner", "Innermost", "Other", "Argument", "Statements.another", "Extended"]
        #expect(source.used.isSuperset(of: names))
        #expect(source.used.isDisjoint(with: ["Comment", "Documented", "Text", "Rest", "Quoted", "member"]))
    }
}
