package import FerryCore
import Foundation

/// A case of a golden file: an input, and the output of the version that recorded it.
package struct GoldenCase: Sendable {
    /// Name, unique in the file.
    package let name: String
    /// `context` and `input`.
    package let given: [JSON.Member]
    /// The output.
    package let found: [JSON.Member]

    /// Creates a case.
    package init(_ name: String, given: [JSON.Member] = [], found: [JSON.Member]) {
        self.name = name
        self.given = given
        self.found = found
    }

    /// Returns the member of the input with this name, or `nil`.
    package subscript(name: String) -> JSON? { given.first { $0.name == name }?.value }

    fileprivate init?(_ json: JSON) {
        guard let name = json["name"]?.string, let members = json.members else { return nil }
        let given = ["context", "input"]
        self.init(
            name, given: members.filter { given.contains($0.name) },
            found: members.filter { $0.name != "name" && !given.contains($0.name) })
    }
}

/// A file of `Tests/golden` with recorded cases, sorted by name. Each member of a case has its own line.
package struct GoldenFile: Sendable {
    /// The recorded cases.
    package let cases: [GoldenCase]
    private let path: String

    /// `true` if the files are to be written with the present output.
    package static var isRecording: Bool {
        ProcessInfo.processInfo.environment["FERRY_RECORD_GOLDEN"] == "1"
    }

    /// Returns the path of a file of `Tests/golden`.
    package static func path(_ name: String) -> String {
        #filePath.split(separator: "/").dropLast(2).map { "/\($0)" }.joined() + "/golden/" + name
    }

    /// Reads the file `name` of `Tests/golden`. A missing file has no cases while files are recorded.
    package init(_ name: String) throws {
        path = Self.path(name)
        if Self.isRecording, !FileManager.default.fileExists(atPath: path) {
            cases = []
            return
        }
        let text = Array(try Data(contentsOf: URL(fileURLWithPath: path)))
        cases = try JSON.parse(text).array?.compactMap(GoldenCase.init) ?? []
    }

    /// Returns a text for each case whose output is not the recorded one, or writes the file and returns
    /// nothing while files are recorded.
    package func differences(from found: [GoldenCase]) throws -> [String] {
        if Self.isRecording {
            try write(found)
            return []
        }
        guard !cases.isEmpty else { return ["no cases are recorded"] }
        let expected = Dictionary(cases.map { ($0.name, $0) }) { $1 }
        let names = Set(found.map(\.name))
        let missing = cases.filter { !names.contains($0.name) }.map { "\($0.name): not found any more" }
        return missing + found.compactMap { Self.difference($0, from: expected[$0.name]) }
    }

    private static func difference(_ found: GoldenCase, from expected: GoldenCase?) -> String? {
        guard let expected else { return "\(found.name): not recorded" }
        let names = expected.found.map(\.name) + found.found.map(\.name)
        var lines: [String] = []
        for (index, name) in names.enumerated() where !names[..<index].contains(name) {
            let old = expected.found.first { $0.name == name }.map { text($0.value) } ?? "nothing"
            let new = found.found.first { $0.name == name }.map { text($0.value) } ?? "nothing"
            guard !old.utf8.elementsEqual(new.utf8) else { continue }
            lines.append("\(name)\n  expected \(old)\n  found    \(new)")
        }
        return lines.isEmpty ? nil : "\(found.name): \(lines.joined(separator: "\n"))"
    }

    private func write(_ cases: [GoldenCase]) throws {
        let sorted = cases.sorted { $0.name.utf8.lexicographicallyPrecedes($1.name.utf8) }
        let texts = sorted.map { item in
            let members = [JSON.Member("name", .string(item.name))] + item.given + item.found
            let texts = members.map { "\(Self.text(.string($0.name))):\(Self.lines($0))" }
            return "{\(texts.joined(separator: ",\n "))}"
        }
        try Data("[\n\(texts.joined(separator: ",\n"))\n]\n".utf8).write(to: URL(fileURLWithPath: path))
    }

    /// Returns the value of a member on one line, errors on one line each.
    private static func lines(_ member: JSON.Member) -> String {
        guard member.name == "errors", let errors = member.value.array, !errors.isEmpty else {
            return text(member.value)
        }
        return "[\n  " + errors.map(text).joined(separator: ",\n  ") + "]"
    }
}

extension GoldenFile {
    /// Returns a value as JSON on one line.
    package static func text(_ json: JSON) -> String {
        var writer = JSONWriter()
        writer.value(json)
        return String(decoding: writer.bytes, as: UTF8.self)
    }

    /// Returns a value as JSON with sorted members. A value that is longer than a line has a line for each of
    /// its members or elements.
    package static func sortedText(_ json: JSON, indent: String = "") -> String {
        let inner = indent + " "
        let line = text(sorted(json))
        if line.utf8.count + indent.utf8.count < 100 { return line }
        switch json {
        case .object(let members) where !members.isEmpty:
            let sorted = members.sorted { $0.name.utf8.lexicographicallyPrecedes($1.name.utf8) }
            let lines = sorted.map {
                "\(inner)\(text(.string($0.name))): \(sortedText($0.value, indent: inner))"
            }
            return "{\n\(lines.joined(separator: ",\n"))\n\(indent)}"
        case .array(let values) where !values.isEmpty:
            let lines = values.map { inner + sortedText($0, indent: inner) }
            return "[\n\(lines.joined(separator: ",\n"))\n\(indent)]"
        default: return line
        }
    }

    private static func sorted(_ json: JSON) -> JSON {
        switch json {
        case .object(let members):
            .object(
                members.sorted { $0.name.utf8.lexicographicallyPrecedes($1.name.utf8) }
                    .map { JSON.Member($0.name, sorted($0.value)) })
        case .array(let values): .array(values.map(sorted))
        default: json
        }
    }

    /// Returns the lines that differ from the file `name` of `Tests/golden`, which has one text, or writes
    /// the file while files are recorded.
    package static func lineDifferences(_ name: String, from found: String) throws -> [String] {
        let url = URL(fileURLWithPath: path(name))
        if isRecording {
            try Data(found.utf8).write(to: url)
            return []
        }
        let expected = String(decoding: try Data(contentsOf: url), as: UTF8.self)
        guard !expected.utf8.elementsEqual(found.utf8) else { return [] }
        let (old, new) = (expected.split(separator: "\n"), found.split(separator: "\n"))
        return new.difference(from: old).map { change in
            switch change {
            case .remove(let line, let text, _): "\(name):\(line + 1) expected \(text)"
            case .insert(let line, let text, _): "\(name):\(line + 1) found    \(text)"
            }
        }
    }
}
