import FerryCore
import Foundation
import TestGolden
import Testing

@Suite("Reference of fields")
struct FieldReferenceTests {
    /// The objects with a section of their own, in the order of the page.
    private static let objects = [
        (ObjectDescription(JobSpec.self), hasPatch: true),
        (ObjectDescription(SessionConfiguration.self), hasPatch: false),
        (ObjectDescription(ScheduleSpec.self), hasPatch: false),
        (ObjectDescription(WebhookEndpoint.self), hasPatch: true),
    ]

    @Test("docs/fields.md is what the declarations say")
    func page() throws {
        let path = GoldenFile.path("../../docs/fields.md")
        let text = Self.text
        if GoldenFile.isRecording { try Data(text.utf8).write(to: URL(fileURLWithPath: path)) }
        let found = try String(decoding: Data(contentsOf: URL(fileURLWithPath: path)), as: UTF8.self)
        #expect(found == text, "run FERRY_RECORD_GOLDEN=1 scripts/swift-tests --filter Reference")
    }

    @Test("each column that a declaration names is in a migration")
    func columns() throws {
        let folder = GoldenFile.path("../../migrations")
        let statements = try FileManager.default.contentsOfDirectory(atPath: folder).map {
            try String(decoding: Data(contentsOf: URL(fileURLWithPath: "\(folder)/\($0)")), as: UTF8.self)
        }.joined()
        let words = Set(statements.split { !($0.isLetter || $0 == "_") })
        let columns = Self.objects.flatMap { Self.columns(of: $0.0) }
        #expect(columns.count > 5)
        for column in columns { #expect(words.contains(column[...]), "\(column)") }
    }

    private static func columns(of object: ObjectDescription) -> [String] {
        object.fields.flatMap { field in
            var columns = [field.traits.column].compactMap(\.self)
            if case .object(let inner) = field.kind { columns += self.columns(of: inner) }
            return columns
        }
    }

    private static var text: String {
        var lines = [
            "# Fields", "",
            "Every field of the bodies that clients send, with its type, bounds and default. Generated from "
                + "the",
            "declarations in `Sources/FerryCore`; a test compares it. `/openapi.json` of a node has the "
                + "same, and the",
            "responses. \"Change\" states when `PATCH` may change the field; by an answer: only "
                + "`use_new_request`",
            "changes it, as a whole.",
        ]
        for (object, hasPatch) in objects {
            lines += ["", "## \(object.name)", "", wrapped(object.text), ""]
            lines.append("| Field | Type | Default |\(hasPatch ? " Change |" : "") Meaning |")
            lines.append("|---|---|---|\(hasPatch ? "---|" : "")---|")
            lines += rows(of: object, prefix: "", hasPatch ? .always : nil)
        }
        return lines.joined(separator: "\n") + "\n"
    }

    /// `change`: the least strict rule of the objects around; `nil` without the column.
    private static func rows(
        of object: ObjectDescription, prefix: String, _ change: FieldTraits.Change?
    ) -> [String] {
        object.fields.flatMap { field -> [String] in
            if field.traits.isShownOnly { return [] }
            let name = prefix + field.name
            let inner = change.map { [.never, .answered].contains($0) ? $0 : field.traits.change }
            switch field.kind {
            case .object(let object):
                let type = field.isNullable ? "object or null" : "object"
                return [row(name, type, field, inner)] + rows(of: object, prefix: name + ".", inner)
            case .value(let schema, _): return [row(name, self.type(schema, field), field, inner)]
            }
        }
    }

    private static func row(
        _ name: String, _ type: String, _ field: FieldDescription, _ change: FieldTraits.Change?
    ) -> String {
        let hasDefault = !field.standard.isNull && field.standard != .string("")
        let standard =
            field.traits.isRequired ? "required" : hasDefault ? "`\(text(field.standard))`" : ""
        var cells = ["`\(name)`", type, standard]
        switch change {
        case .never, .repeated: cells.append("never")
        case .answered: cells.append("by an answer")
        case .whileStopped: cells.append("not while running")
        case .always: cells.append("until terminal")
        case nil: break
        }
        var meaning = field.text
        if field.traits.kinds != .all { meaning += " Kind: \(field.traits.kinds.names)." }
        if field.traits.inheritance != .none { meaning += " Default: the session's." }
        cells.append(meaning.replacing("|", with: "\\|").replacing("*", with: "\\*"))
        return "| \(cells.joined(separator: " | ")) |"
    }

    /// Returns a type with its bounds in words.
    private static func type(_ schema: [JSON.Member], _ field: FieldDescription) -> String {
        let value = { (name: String) in schema.first { $0.name == name }?.value }
        let forms = (value("oneOf")?.array ?? []).map { $0.members ?? [] }
        if !forms.isEmpty, forms.allSatisfy({ $0.contains { $0.name == "type" } }) {
            let types = forms.map { form in self.type(form, unit: nil) }.joined(separator: ", or ")
            return field.isNullable ? types + ", or null" : types
        }
        let text = type(schema, unit: field.traits.unit)
        return field.isNullable ? text + ", or null" : text
    }

    /// Returns a type that has one form.
    private static func type(_ schema: [JSON.Member], unit: FieldTraits.Unit?) -> String {
        let value = { (name: String) in schema.first { $0.name == name }?.value }
        var type = value("type")?.string ?? (schema.isEmpty ? "any value" : "object")
        if let choices = value("enum")?.array {
            type = choices.map { "`\(text($0))`" }.joined(separator: ", ")
        } else if let least = value("minimum"), let most = value("maximum") {
            type += " \(text(least)) to \(text(most))"
        } else if let most = value("maxLength") {
            type += ", at most \(text(most)) bytes"
        } else if let most = value("maxItems") {
            type += ", at most \(text(most)) elements"
        } else if let most = value("maxProperties") {
            type += ", at most \(text(most)) members"
        }
        if let unit { type += ", \(unit.rawValue)" }
        return type
    }

    private static func text(_ json: JSON) -> String {
        json.string ?? GoldenFile.text(json)
    }

    private static func wrapped(_ text: String) -> String {
        var lines = [""]
        for word in text.split(separator: " ") {
            if lines[lines.count - 1].utf8.count + word.utf8.count + 1 > 105 { lines.append("") }
            lines[lines.count - 1] += lines[lines.count - 1].isEmpty ? String(word) : " \(word)"
        }
        return lines.joined(separator: "\n")
    }
}
