/// A value of stored objects and responses that no body can give.
public protocol RecordValue: FieldValue where Rule == NoRule {}

extension RecordValue {
    public static func decode(_ json: JSONView, _ rule: NoRule, _ place: FieldPlace) -> Self? {
        place.fail("not_supported", "A request cannot give this.")
    }
    public static func schema(_ rule: NoRule) -> [JSON.Member] { [] }
}

/// A value of an enumeration in a stored object, or the text of one that only another version knows.
public struct OpenChoice<Choice: ShownChoice & RawRepresentable<String>>: RecordValue {
    /// Value in the API.
    public let name: String
    /// The value, or `nil` if this version does not know it.
    public var choice: Choice? { Choice(rawValue: name) }

    /// Creates a value that this version knows.
    public init(_ choice: Choice) { name = choice.rawValue }

    private init(name: String) { self.name = name }

    public static func restore(_ json: JSON) -> Self? { json.string.map { Self(name: $0) } }
    public func encode(into writer: inout JSONWriter, isRedacted: Bool) { writer.value(name) }
    public static func schema(_ rule: NoRule) -> [JSON.Member] { Choice.choices }
}

/// The fields of an object that is stored, as a response shows them.
public struct ShownFields<Object: FieldObject>: ShownObject {
    public static var summary: String { Object.summary }
    public static var schemaName: String { Object.schemaName }

    private let object: Object

    /// Creates an object of a response.
    public init(_ object: Object) { self.object = object }

    public static func members(_ list: inout some MemberVisitor<Self>) { list.fields(\.object) }
}
