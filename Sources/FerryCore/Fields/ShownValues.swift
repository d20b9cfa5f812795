// Values of responses: JSON's own types, times, identifiers, enumerations, lists, and stored objects.

extension ShownValue where Self: FieldValue {
    public func show(into writer: inout JSONWriter, isRedacted: Bool) {
        encode(into: &writer, isRedacted: isRedacted)
    }
}

extension ShownValue where Self: FieldValue, Rule == NoRule {
    public static func shownSchema(in schemas: FieldSchemas) -> [JSON.Member] { shownSchema(NoRule()) }
}

extension Bool: ShownValue {}
extension Timestamp: ShownValue {}
extension ShownValue where Self: BinaryInteger {
    public static func shownSchema(in schemas: FieldSchemas) -> [JSON.Member] {
        [JSON.Member("type", "integer")]
    }
}
extension Int: ShownValue {}
extension Int64: ShownValue {}
extension Int32: ShownValue {
    public func show(into writer: inout JSONWriter, isRedacted: Bool) { writer.value(self) }
}
extension UInt16: ShownValue {
    public func show(into writer: inout JSONWriter, isRedacted: Bool) { writer.value(self) }
}

extension Double: ShownValue {
    public static func shownSchema(in schemas: FieldSchemas) -> [JSON.Member] {
        [JSON.Member("type", "number")]
    }
}

extension String: ShownValue {
    public static func shownSchema(in schemas: FieldSchemas) -> [JSON.Member] {
        [JSON.Member("type", "string")]
    }
}

extension Identifier: ShownValue {
    public func show(into writer: inout JSONWriter, isRedacted: Bool) { writer.value(self) }
    public static func shownSchema(in schemas: FieldSchemas) -> [JSON.Member] {
        [JSON.Member("type", "string"), .pattern("^\(Kind.prefix)[0-7][0-9a-hjkmnp-tv-z]{25}$")]
    }
}

extension Optional: ShownValue where Wrapped: ShownValue {
    public func show(into writer: inout JSONWriter, isRedacted: Bool) {
        if let self { self.show(into: &writer, isRedacted: isRedacted) } else { writer.null() }
    }
    public static func shownSchema(in schemas: FieldSchemas) -> [JSON.Member] {
        FieldSchemas.nullable(Wrapped.shownSchema(in: schemas))
    }
}

extension Array: ShownValue where Element: ShownValue {
    public func show(into writer: inout JSONWriter, isRedacted: Bool) {
        writer.beginArray()
        for element in self { element.show(into: &writer, isRedacted: isRedacted) }
        writer.endArray()
    }
    public static func shownSchema(in schemas: FieldSchemas) -> [JSON.Member] {
        [JSON.Member("type", "array"), JSON.Member("items", .object(Element.shownSchema(in: schemas)))]
    }
}

/// An enumeration whose cases are the values of a member.
public protocol ShownChoice: ShownValue, CaseIterable {
    /// Value in the API.
    var name: String { get }
}

extension ShownChoice where Self: RawRepresentable<String> {
    public var name: String { rawValue }
}

extension ShownChoice {
    public func show(into writer: inout JSONWriter, isRedacted: Bool) { writer.value(name) }
    public static func shownSchema(in schemas: FieldSchemas) -> [JSON.Member] { choices }

    /// The schema of the values.
    public static var choices: [JSON.Member] {
        [JSON.Member("type", "string"), JSON.Member("enum", .array(allCases.map { .string($0.name) }))]
    }
}

/// A mark in place of a secret value.
struct SetMark: ShownValue {
    func show(into writer: inout JSONWriter, isRedacted: Bool) { writer.raw(setMark) }
    static func shownSchema(in schemas: FieldSchemas) -> [JSON.Member] {
        [JSON.Member("$ref", "#/components/schemas/Hidden")]
    }
}

/// JSON as it is stored: text of another value.
public struct StoredJSON<Value: ShownValue>: ShownValue {
    private let json: [UInt8]

    /// Creates a value.
    public init(_ json: [UInt8]) { self.json = json }

    public func show(into writer: inout JSONWriter, isRedacted: Bool) { writer.raw(json) }
    public static func shownSchema(in schemas: FieldSchemas) -> [JSON.Member] {
        Value.shownSchema(in: schemas)
    }
}

extension JSON: ShownValue {
    public func show(into writer: inout JSONWriter, isRedacted: Bool) { writer.value(self) }
    public static func shownSchema(in schemas: FieldSchemas) -> [JSON.Member] { [] }
}

extension JSON.Member {
    /// The keyword `minimum`.
    public static func minimum(_ number: Int) -> Self { Self("minimum", JSON(number)) }
    /// The keyword `pattern`.
    public static func pattern(_ expression: String) -> Self { Self("pattern", .string(expression)) }
    /// The keyword `not` for the texts that match the expression. Null is no text.
    public static func exclusion(_ expression: String) -> Self {
        Self("not", .object([Self("type", "string"), pattern(expression)]))
    }
    /// The keyword `enum`.
    public static func choices(_ values: [String]) -> Self {
        Self("enum", .array(values.map { .string($0) }))
    }
    /// The keyword `examples`.
    public static func examples(_ examples: JSON...) -> Self { Self("examples", .array(examples)) }
}

let setMark = Array(#"{"set":true}"#.utf8)
