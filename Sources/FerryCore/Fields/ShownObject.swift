/// An object of responses that clients do not send, such as an attempt. Its members are declared once, in
/// `members`: the JSON and the OpenAPI schema follow from the declaration.
public protocol ShownObject: ShownValue {
    /// Description of the object, for OpenAPI.
    static var summary: String { get }

    /// Name of the object in OpenAPI, such as `Attempt`: unique, letters and digits. Declared by each type,
    /// because a release build prints the name of a private type with its context.
    static var schemaName: String { get }

    /// Members of the object's JSON Schema besides type, description and properties.
    static var schemaRules: [JSON.Member] { get }

    /// Declares the members in the order in which they are shown.
    static func members(_ list: inout some MemberVisitor<Self>)
}

/// A value in a response.
public protocol ShownValue: Sendable {
    /// Writes the value. `isRedacted`: `true` to hide what may be secret.
    func show(into writer: inout JSONWriter, isRedacted: Bool)

    /// Returns the JSON Schema of the type, and adds the schemas that it refers to.
    static func shownSchema(in schemas: FieldSchemas) -> [JSON.Member]
}

/// Operation on the members of an object: writing, describing.
public protocol MemberVisitor<Object> {
    associatedtype Object

    /// A member that is always present. `rules`: members of its schema besides the type.
    mutating func member<Value: ShownValue>(
        _ name: String, _ value: (Object) -> Value, _ text: @autoclosure () -> String,
        _ rules: @autoclosure () -> [JSON.Member])

    /// A member that is absent if the value is `nil`.
    mutating func optional<Value: ShownValue>(
        _ name: String, _ value: (Object) -> Value?, _ text: @autoclosure () -> String,
        _ rules: @autoclosure () -> [JSON.Member])

    /// An object of some of the members, with a schema of its own.
    mutating func object(
        _ name: String, named: String, _ text: @autoclosure () -> String, _ members: (inout Self) -> Void)

    /// Members that are described as always present, and are absent if the condition is not met: what they
    /// show cannot be read.
    mutating func members(if condition: (Object) -> Bool, _ members: (inout Self) -> Void)

    /// The members of an object that is JSON already; they are not described.
    mutating func rawMembers(_ json: (Object) -> [UInt8]?)

    /// The members of another object.
    mutating func include<Other: ShownObject>(_ value: (Object) -> Other)

    /// The fields of an object that clients send.
    mutating func fields<Fields: FieldObject>(_ value: (Object) -> Fields)

    /// A member that is described here and written elsewhere.
    mutating func described<Value: ShownValue>(
        _ name: String, _ type: Value.Type, _ text: @autoclosure () -> String,
        _ rules: @autoclosure () -> [JSON.Member])

    /// A member of the stored form that is not described; absent if the value is `nil`.
    mutating func stored<Value: ShownValue>(_ name: String, _ value: (Object) -> Value?)
}

extension MemberVisitor {
    /// A member whose schema has only a type.
    public mutating func member<Value: ShownValue>(
        _ name: String, _ value: (Object) -> Value, _ text: @autoclosure () -> String
    ) { member(name, value, text(), []) }

    /// An optional member whose schema has only a type.
    public mutating func optional<Value: ShownValue>(
        _ name: String, _ value: (Object) -> Value?, _ text: @autoclosure () -> String
    ) { optional(name, value, text(), []) }

    /// A described member whose schema has only a type.
    public mutating func described<Value: ShownValue>(
        _ name: String, _ type: Value.Type, _ text: @autoclosure () -> String
    ) { described(name, type, text(), []) }
}

// MARK: Writing

extension ShownObject {
    public static var schemaRules: [JSON.Member] { [] }

    public func show(into writer: inout JSONWriter, isRedacted: Bool) {
        writer.beginObject()
        showMembers(into: &writer, isRedacted: isRedacted)
        writer.endObject()
    }

    /// Writes the members into an open object.
    public func showMembers(into writer: inout JSONWriter, isRedacted: Bool) {
        var visitor = MemberWriter(
            object: self, isRedacted: isRedacted, writer: JSONWriter(reservingCapacity: 0))
        // Moved, since the text of a shared writer is copied by the next write.
        swap(&writer, &visitor.writer)
        Self.members(&visitor)
        swap(&writer, &visitor.writer)
    }

    /// Returns the object as JSON.
    public func shown(isRedacted: Bool = true, reservingCapacity: Int = 512) -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: reservingCapacity)
        show(into: &writer, isRedacted: isRedacted)
        return writer.bytes
    }
}

private struct MemberWriter<Object>: MemberVisitor {
    let object: Object
    let isRedacted: Bool
    var writer: JSONWriter

    mutating func member<Value: ShownValue>(
        _ name: String, _ value: (Object) -> Value, _ text: @autoclosure () -> String,
        _ rules: @autoclosure () -> [JSON.Member]
    ) {
        writer.name(name)
        value(object).show(into: &writer, isRedacted: isRedacted)
    }

    mutating func optional<Value: ShownValue>(
        _ name: String, _ value: (Object) -> Value?, _ text: @autoclosure () -> String,
        _ rules: @autoclosure () -> [JSON.Member]
    ) { stored(name, value) }

    mutating func object(
        _ name: String, named: String, _ text: @autoclosure () -> String, _ members: (inout Self) -> Void
    ) {
        writer.name(name)
        writer.beginObject()
        members(&self)
        writer.endObject()
    }

    mutating func members(if condition: (Object) -> Bool, _ members: (inout Self) -> Void) {
        if condition(object) { members(&self) }
    }

    mutating func rawMembers(_ json: (Object) -> [UInt8]?) {
        if let json = json(object) { writer.rawMembers(of: json) }
    }

    mutating func include<Other: ShownObject>(_ value: (Object) -> Other) {
        value(object).showMembers(into: &writer, isRedacted: isRedacted)
    }

    mutating func fields<Fields: FieldObject>(_ value: (Object) -> Fields) {
        value(object).writeFields(into: &writer, isRedacted: isRedacted)
    }

    mutating func described<Value: ShownValue>(
        _ name: String, _ type: Value.Type, _ text: @autoclosure () -> String,
        _ rules: @autoclosure () -> [JSON.Member]
    ) {}

    mutating func stored<Value: ShownValue>(_ name: String, _ value: (Object) -> Value?) {
        guard let value = value(object) else { return }
        writer.name(name)
        value.show(into: &writer, isRedacted: isRedacted)
    }
}

// MARK: Describing

extension ShownObject {
    public static func shownSchema(in schemas: FieldSchemas) -> [JSON.Member] {
        schemas.reference(schemaName) {
            var table = MemberTable<Self>(schemas: schemas)
            members(&table)
            return table.schema(summary, schemaRules)
        }
    }
}

/// Collects the schemas of an object's members.
private struct MemberTable<Object>: MemberVisitor {
    let schemas: FieldSchemas
    var properties: [JSON.Member] = []
    var required: [JSON] = []

    func schema(_ text: String, _ rules: [JSON.Member] = []) -> JSON {
        .schema(text, required: required, properties, rules)
    }

    mutating func member<Value: ShownValue>(
        _ name: String, _ value: (Object) -> Value, _ text: @autoclosure () -> String,
        _ rules: @autoclosure () -> [JSON.Member]
    ) { described(name, Value.self, text(), rules()) }

    mutating func optional<Value: ShownValue>(
        _ name: String, _ value: (Object) -> Value?, _ text: @autoclosure () -> String,
        _ rules: @autoclosure () -> [JSON.Member]
    ) { add(name, Value.shownSchema(in: schemas), text(), rules()) }

    mutating func object(
        _ name: String, named: String, _ text: @autoclosure () -> String, _ members: (inout Self) -> Void
    ) {
        let reference = schemas.reference(named) {
            var table = Self(schemas: schemas)
            members(&table)
            return table.schema(text())
        }
        add(name, reference, text())
        required.append(.string(name))
    }

    mutating func members(if condition: (Object) -> Bool, _ members: (inout Self) -> Void) { members(&self) }

    mutating func rawMembers(_ json: (Object) -> [UInt8]?) {}

    mutating func include<Other: ShownObject>(_ value: (Object) -> Other) {
        var table = MemberTable<Other>(schemas: schemas)
        Other.members(&table)
        properties += table.properties
        required += table.required
    }

    mutating func fields<Fields: FieldObject>(_ value: (Object) -> Fields) {
        let fields = schemas.fields(of: ObjectDescription(Fields.self), .response)
        properties += fields.properties
        required += fields.required
    }

    mutating func described<Value: ShownValue>(
        _ name: String, _ type: Value.Type, _ text: @autoclosure () -> String,
        _ rules: @autoclosure () -> [JSON.Member]
    ) {
        add(name, Value.shownSchema(in: schemas), text(), rules())
        required.append(.string(name))
    }

    mutating func stored<Value: ShownValue>(_ name: String, _ value: (Object) -> Value?) {}

    private mutating func add(
        _ name: String, _ schema: [JSON.Member], _ text: String, _ rules: [JSON.Member] = []
    ) {
        properties.append(
            JSON.Member(name, .object(schema + rules + [JSON.Member("description", .string(text))])))
    }
}
