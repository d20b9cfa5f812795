extension JobSpec {
    /// Texts of a form in the client's order: a map, or a list, in which names may repeat. Shown with their
    /// sizes, in the form in which the client gave them.
    struct FormTexts: FieldValue {
        /// Bounds of a form.
        struct Rule: Sendable {
            /// Number of fields.
            var countMax: Int
            /// Bounds of a name, or `nil`.
            var name: TextRule?
        }

        var fields: [(name: String, text: InlineBytes)]
        /// `true` if the client has given a list.
        var isList = false

        /// The fields while their texts are known.
        var pairs: [Pair] {
            fields.map { Pair($0.name, String(decoding: $0.text.bytes, as: UTF8.self)) }
        }

        static func == (a: Self, b: Self) -> Bool {
            a.isList == b.isList && a.fields.elementsEqual(b.fields, by: ==)
        }

        static func decode(_ json: JSONView, _ rule: Rule, _ place: FieldPlace) -> FormTexts? {
            guard let count = json.members?.count ?? json.array?.count else {
                return place.failType("an object or an array", json)
            }
            guard count <= rule.countMax else {
                return place.fail(
                    "too_many", "At most \(rule.countMax) entries are allowed, these are \(count).")
            }
            var texts = FormTexts(fields: [], isList: !json.isObject)
            for member in json.members ?? [] {
                let item = place.item(member.name)
                if let name = rule.name { _ = name.check(member.name, item) }
                if let text = InlineBytes.decode(member.value, .text, item) {
                    texts.fields.append((member.name, text))
                }
            }
            for (index, value) in (json.array ?? []).enumerated() {
                let item = place.item("\(index)")
                guard let field = FormField.decode(value, NoRule(), item) else { continue }
                if let name = rule.name {
                    _ = name.check(
                        field.name, FieldPlace(path: item.pointer, name: "name", context: item.context))
                }
                texts.fields.append((field.name, field.text))
            }
            return texts
        }
        static func restore(_ json: JSON) -> FormTexts? {
            var texts = FormTexts(fields: [], isList: json.array != nil)
            for member in json.members ?? [] {
                guard let text = InlineBytes.restore(member.value) else { return nil }
                texts.fields.append((member.name, text))
            }
            for value in json.array ?? [] {
                guard let name = value["name"]?.string,
                    let text = value["value"].flatMap({ InlineBytes.restore($0) })
                else { return nil }
                texts.fields.append((name, text))
            }
            return texts
        }
        func encode(into writer: inout JSONWriter, isRedacted: Bool) {
            if isList { writer.beginArray() } else { writer.beginObject() }
            for field in fields {
                if isList {
                    writer.beginObject()
                    writer.member("name", field.name)
                }
                writer.name(isList ? "value" : field.name)
                field.text.encode(into: &writer, isRedacted: isRedacted)
                if isList { writer.endObject() }
            }
            if isList { writer.endArray() } else { writer.endObject() }
        }
        static func schema(_ rule: Rule) -> [JSON.Member] {
            let name = rule.name.map { Array(String.schema($0).dropFirst()) } ?? []
            let map: [JSON.Member] = [
                JSON.Member("type", "object"), JSON.Member("maxProperties", JSON(rule.countMax)),
                JSON.Member("additionalProperties", .object([JSON.Member("type", "string")])),
            ]
            let names = name.isEmpty ? [] : [JSON.Member("propertyNames", .object(name))]
            let field = field(
                name: [JSON.Member("type", "string")] + name, value: [JSON.Member("type", "string")],
                [JSON.Member("additionalProperties", .bool(false))])
            let list = [
                JSON.Member("type", "array"), JSON.Member("maxItems", JSON(rule.countMax)),
                JSON.Member("items", field),
            ]
            return [JSON.Member("oneOf", .array([.object(map + names), .object(list)]))]
        }
        static func shownSchema(_ rule: Rule) -> [JSON.Member] {
            let map: [JSON.Member] = [
                JSON.Member("type", "object"),
                JSON.Member("additionalProperties", .object(sizeSchema)),
            ]
            let list = [
                JSON.Member("type", "array"),
                JSON.Member("items", field(name: [JSON.Member("type", "string")], value: sizeSchema, [])),
            ]
            return [JSON.Member("oneOf", .array([.object(map), .object(list)]))]
        }

        /// Returns the schema of an element of a list.
        private static func field(
            name: [JSON.Member], value: [JSON.Member], _ rest: [JSON.Member]
        ) -> JSON {
            .object(
                [
                    JSON.Member("type", "object"), JSON.Member("required", .array(["name", "value"])),
                    JSON.Member(
                        "properties",
                        .object([JSON.Member("name", .object(name)), JSON.Member("value", .object(value))])),
                ] + rest)
        }

        /// The schema of `{"size": 5}`.
        static let sizeSchema = [JSON.Member("$ref", "#/components/schemas/ShownSize")]
    }

    /// Field of a form that is given as a list.
    private struct FormField: FieldObject, FieldValue {
        static let summary = "A field of a form."
        static let schemaName = "FormField"

        var name = ""
        var text = InlineBytes([])

        mutating func fields(_ visitor: inout some FieldVisitor) {
            let names = TextRule(0...Int.max, pattern: nil) { _ in nil }
            visitor.field("name", &name, names, .of(required: true), "Name of the field.")
            visitor.field("value", &text, .text, .of(required: true), "Text of the field.")
        }
    }
}

/// Returns the pairs as `application/x-www-form-urlencoded` (WHATWG URL §5.2).
public func formEncoded(_ pairs: [JobSpec.Pair]) -> [UInt8] {
    var text: [UInt8] = []
    for (index, pair) in pairs.enumerated() {
        if index > 0 { text.append(UInt8(ascii: "&")) }
        appendFormEncoded(pair.name, to: &text)
        text.append(UInt8(ascii: "="))
        appendFormEncoded(pair.value, to: &text)
    }
    return text
}

private func appendFormEncoded(_ part: String, to text: inout [UInt8]) {
    for byte in part.utf8 {
        switch byte {
        case UInt8(ascii: " "): text.append(UInt8(ascii: "+"))
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "*"), UInt8(ascii: "-"), UInt8(ascii: "."),
            UInt8(ascii: "_"):
            text.append(byte)
        default: appendPercentEncoded(byte, to: &text)
        }
    }
}
