import Foundation
import Testing

@testable import FerryCore

/// Compares the JSON parser with Foundation's, and the decoder of bodies with the bounds that the
/// declarations of the fields state. Seeded; with `FERRY_TEST_LONG` in the environment each test takes five
/// minutes.
@Suite("JSON beside Foundation")
struct JSONComparisonTests {
    /// Calls `body` with a seed: for a fixed number of seeds, or for five minutes.
    private static func repeatedly(_ count: UInt64, _ body: (UInt64) throws -> Void) rethrows {
        let isLong = ProcessInfo.processInfo.environment["FERRY_TEST_LONG"] != nil
        let end = Date(timeIntervalSinceNow: 300)
        var seed: UInt64 = 0
        while isLong ? Date() < end : seed < count {
            try body(seed)
            seed += 1
        }
    }

    // MARK: Parser

    @Test("the parser accepts what Foundation accepts, with the same values")
    func parser() {
        Self.repeatedly(8_000) { seed in
            var random = SeededRandom(seed: seed)
            var text = Array(Self.text(depth: 4, &random).utf8)
            if seed % 3 != 0 { Self.damage(&text, &random) }
            // Foundation reads UTF-16 and UTF-32 as well, which it tells by zeros and byte order marks.
            if text.contains(0) || text.contains(0xFE) || text.contains(0xFF) || text.starts(with: [0xEF]) {
                return
            }
            let theirs = try? JSONSerialization.jsonObject(with: Data(text), options: .fragmentsAllowed)
            let ours: JSON
            do throws(JSON.SyntaxError) {
                ours = try JSON.parse(text)
            } catch {
                // Rules of Ferry: names are unique, and numbers are finite. Foundation accepts a comma before
                // a closing bracket.
                let before = text[..<error.offset].last { ![0x20, 0x0A, 0x0D, 0x09].contains($0) }
                if error.reason.hasSuffix("occurs twice") || error.reason == "a number is too large"
                    || before == UInt8(ascii: ",")
                {
                    return
                }
                #expect(
                    theirs == nil,
                    "seed \(seed): \(error): \(String(decoding: text, as: UTF8.self).debugDescription)")
                return
            }
            #expect(
                theirs.map { Self.isEqual(ours, $0) } == true,
                "seed \(seed): \(String(decoding: text, as: UTF8.self).debugDescription)")
        }
    }

    /// Returns a JSON text with white space and escapes in random places.
    private static func text(depth: Int, _ random: inout SeededRandom) -> String {
        func space() -> String { ["", "", "", " ", "\n", "\t\r "].randomElement(using: &random) ?? "" }
        let value =
            switch Int.random(in: 0..<(depth > 0 ? 8 : 5), using: &random) {
            case 0: ["null", "true", "false"].randomElement(using: &random) ?? ""
            case 1: "\(Int64.random(in: Int64.min...Int64.max, using: &random))"
            case 2: number(&random)
            case 3, 4: string(&random)
            case 5:
                "["
                    + (0..<Int.random(in: 0..<4, using: &random)).map { _ in text(depth: depth - 1, &random) }
                    .joined(separator: ",") + space() + "]"
            default:
                "{" + space()
                    + (0..<Int.random(in: 0..<20, using: &random)).map { place in
                        // Without the number, some names occur twice.
                        let name = string(&random).dropLast() + (place % 7 == 6 ? "" : "\(place)") + "\""
                        return space() + name + space() + ":" + text(depth: depth - 1, &random)
                    }.joined(separator: ",") + space() + "}"
            }
        return space() + value + space()
    }

    private static func number(_ random: inout SeededRandom) -> String {
        let parts = ["-", "0", "7", "12", "999", ".5", ".25", ".0", "e1", "E+2", "e-3", "e400", "1"]
        return (0..<Int.random(in: 1..<4, using: &random))
            .map { _ in parts.randomElement(using: &random) ?? "" }.joined()
    }

    private static func string(_ random: inout SeededRandom) -> String {
        let parts = [
            "a", "name", #"\""#, #"\\"#, #"\/"#, #"\n"#, #"\u0041"#, #"\u00e9"#, #"\ud83d\ude80"#, "é", "世",
            "🚢",
        ]
        // Not valid: a control character and halves of pairs.
        let wrong = ["\u{1}", #"\ud800"#, #"\udc00x"#, #"\x"#, #"\u12"#]
        let text = (0..<Int.random(in: 0..<5, using: &random)).map { _ in
            (Int.random(in: 0..<60, using: &random) == 0 ? wrong : parts).randomElement(using: &random) ?? ""
        }
        return "\"" + text.joined() + "\""
    }

    /// Changes, removes or inserts up to three bytes.
    private static func damage(_ text: inout [UInt8], _ random: inout SeededRandom) {
        let bytes = Array(#"{}[]",:\ue+-.019tfn /"#.utf8) + [0x09, 0x1F, 0x80, 0xC3, 0xE2, 0xF0]
        for _ in 0..<Int.random(in: 1...3, using: &random) {
            guard let place = text.indices.randomElement(using: &random) else { return }
            let byte = bytes.randomElement(using: &random) ?? 0x20
            switch Int.random(in: 0..<3, using: &random) {
            case 0: text[place] = byte
            case 1: text.remove(at: place)
            default: text.insert(byte, at: place)
            }
        }
    }

    private static func isEqual(_ ours: JSON, _ theirs: Any) -> Bool {
        switch ours {
        case .null: return theirs is NSNull
        case .bool(let value): return theirs as? Bool == value
        case .string(let value): return (theirs as? String)?.utf8.elementsEqual(value.utf8) == true
        case .integer, .number, .literal:
            guard let number = theirs as? NSNumber else { return false }
            if let integer = ours.integer { return "\(number)" == "\(integer)" }
            // Foundation reads many digits as a decimal number, whose double may differ in the last place.
            guard let double = ours.double else { return false }
            return abs(number.doubleValue - double) <= 1e-14 * abs(double)
        case .array(let values):
            guard let others = theirs as? [Any], others.count == values.count else { return false }
            return zip(values, others).allSatisfy(isEqual)
        case .object(let members):
            guard let others = theirs as? [String: Any] else { return false }
            // Foundation's dictionary takes equivalent Unicode sequences as one name.
            return others.count <= members.count
                && others.allSatisfy { other in
                    members.contains { $0.name == other.key && isEqual($0.value, other.value) }
                }
        }
    }

    // MARK: Decoder

    /// A value for a field, and whether its declaration allows it.
    private struct Choice {
        let json: JSON
        let isValid: Bool
    }

    @Test("the decoder reports exactly the values that the declared types and bounds exclude")
    func decoder() throws {
        let description = ObjectDescription(JobSpec.self)
        try Self.repeatedly(600) { seed in
            var random = SeededRandom(seed: seed)
            var choices: [String: Bool] = [:]
            let kind = JobKind.allCases.randomElement(using: &random) ?? .data
            var body = Self.object(description, kind, at: "#", &choices, &random)
            body.append(.init("kind", .string(kind.rawValue)))
            let json = try JSONView(.object(body), at: "#")
            let errors: [FieldError]
            do throws(InvalidFields) {
                _ = try JobRequest(json, refusal: { _ in nil })
                errors = []
            } catch {
                errors = error.errors
            }
            // Combinations of fields have rules of their own.
            let bounds = [
                "wrong_type", "out_of_range", "invalid_value", "too_long", "too_many", "unknown_field",
            ]
            let reported = Set(errors.filter { bounds.contains($0.code) }.map(\.pointer))
            for (pointer, isValid) in choices {
                #expect(reported.contains(pointer) != isValid, "seed \(seed): \(pointer), \(errors)")
            }
        }
    }

    /// Returns some members of an object, and notes which of them are valid.
    private static func object(
        _ description: ObjectDescription, _ kind: JobKind, at path: String, _ choices: inout [String: Bool],
        _ random: inout SeededRandom
    ) -> [JSON.Member] {
        var members: [JSON.Member] = []
        for field in description.fields where !field.traits.isShownOnly && field.name != "kind" {
            let isRequired = field.traits.isRequired || path == "#/request" && field.name == "method"
            guard field.traits.kinds.contains(JobKinds(kind)),
                isRequired || Int.random(in: 0..<3, using: &random) == 0
            else { continue }
            let pointer = "\(path)/\(field.name)"
            switch field.kind {
            case .object(let inner):
                // An object of an optional field may need members that are no plain values.
                guard isRequired || !inner.fields.contains(where: \.traits.isRequired) else { continue }
                let value = object(inner, kind, at: pointer, &choices, &random)
                members.append(.init(field.name, .object(value)))
            case .value(let schema, _):
                let known = field.name == "url" ? "http://a.example/" : field.name == "method" ? "PUT" : nil
                guard let choice = choice(schema, known, &random) else { continue }
                choices[pointer] = choice.isValid || choice.json.isNull && field.isNullable
                members.append(.init(field.name, choice.json))
            }
        }
        return members
    }

    /// Returns a value for a schema; `nil` if only a rule in code says what is valid.
    private static func choice(
        _ schema: [JSON.Member], _ known: String?, _ random: inout SeededRandom
    ) -> Choice? {
        let schema = JSON.object(schema)
        guard let type = schema["type"]?.string else { return nil }
        let wrong: [JSON] = [.bool(true), .string("x"), .array([.integer(1)]), .object([]), .number(0.5)]
            .filter { !matches($0, type) }
        let isWrong = Int.random(in: 0..<6, using: &random) == 0
        if isWrong { return wrong.randomElement(using: &random).map { Choice(json: $0, isValid: false) } }
        switch type {
        case "boolean": return schema["not"] == nil ? Choice(json: .bool(true), isValid: true) : nil
        case "string":
            if let known { return Choice(json: .string(known), isValid: true) }
            if let values = schema["enum"]?.array {
                if Bool.random(using: &random) { return Choice(json: .string("Nothing"), isValid: false) }
                return values.randomElement(using: &random).map { Choice(json: $0, isValid: true) }
            }
            guard let most = schema["maxLength"]?.integer, schema["format"] == nil else { return nil }
            // What is too long is excluded whatever the pattern is.
            let text = String(repeating: "x", count: Int(most) + 1)
            return Choice(json: .string(text), isValid: false)
        case "integer", "number":
            guard let least = schema["minimum"]?.double, let most = schema["maximum"]?.double else {
                return nil
            }
            let values = [
                (least, true), (most, true), (least - 1, false), (most * 2 + 1, false),
            ]
            return values.randomElement(using: &random).map { Choice(json: JSON(number: $0), isValid: $1) }
        default: return nil
        }
    }

    private static func matches(_ json: JSON, _ type: String) -> Bool {
        switch type {
        case "boolean": json.bool != nil
        case "string": json.string != nil
        case "array": json.array != nil
        case "object": json.members != nil
        case "number": json.double != nil
        default: json.integer != nil
        }
    }
}
