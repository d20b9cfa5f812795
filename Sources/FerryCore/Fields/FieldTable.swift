/// Description of a field, from its declaration.
public struct FieldDescription: Sendable {
    /// Type of a field.
    public enum Kind: Sendable {
        /// A value: its JSON Schemas in requests and in responses, without null.
        case value([JSON.Member], shown: [JSON.Member])
        /// An object.
        case object(ObjectDescription)
    }

    /// Name of the field.
    public let name: String
    /// Type of the field.
    public let kind: Kind
    /// `true` if null is a value.
    public fileprivate(set) var isNullable: Bool
    /// Default value of the general session; null if there is none.
    public let standard: JSON
    /// Other properties.
    public let traits: FieldTraits
    /// One or two sentences.
    public let text: String
}

/// Description of an object, from its declaration.
public struct ObjectDescription: Sendable {
    /// Name of the object in OpenAPI.
    public let name: String
    /// One or two sentences.
    public let text: String
    /// The fields in the order of their declaration.
    public let fields: [FieldDescription]
    /// `FieldObject.schemaRules`.
    public let rules: @Sendable (JobKind?) -> [JSON.Member]
    /// `FieldObject.schema(of:for:)`.
    public let variant: @Sendable (_ field: String, JobKind) -> [JSON.Member]?

    /// Describes a type.
    public init<Object: FieldObject>(_ type: Object.Type) {
        var table = FieldTable()
        var object = Object()
        object.fields(&table)
        name = Object.schemaName
        text = Object.summary
        if Object.rejectsNull { for place in table.fields.indices { table.fields[place].isNullable = false } }
        fields = table.fields
        rules = { Object.schemaRules(for: $0) }
        variant = { Object.schema(of: $0, for: $1) }
    }

    /// Returns the fields of which a body gives exactly one. `kind`: that of the job, or `nil` for all of
    /// them.
    func alternatives(for kind: JobKind?) -> [FieldDescription] {
        fields.filter { field in
            field.traits.isAlternative && (kind.map { field.traits.kinds.contains(JobKinds($0)) } ?? true)
        }
    }

    /// `true` if the fields or their rules depend on the kind of the job.
    public var dependsOnKind: Bool {
        fields.contains { field in
            if field.traits.kinds != .all { return true }
            if JobKind.allCases.contains(where: { variant(field.name, $0) != nil }) { return true }
            if case .object(let object) = field.kind { return object.dependsOnKind }
            return false
        } || JobKind.allCases.contains { rules($0) != rules(nil) }
    }
}

/// Collects the descriptions of an object's fields.
private struct FieldTable: FieldVisitor {
    var fields: [FieldDescription] = []

    mutating func field<Value: FieldValue>(
        _ name: String, _ value: inout Value, _ rule: Value.Rule, _ traits: FieldTraits,
        _ text: @autoclosure () -> String
    ) {
        var standard = JSON.null
        if !traits.isAlternative {
            var writer = JSONWriter()
            value.encode(into: &writer, isRedacted: false)
            // What the encoder writes is JSON.
            standard = (try? JSON.parse(writer.bytes)) ?? .null
        }
        fields.append(
            FieldDescription(
                name: name, kind: .value(Value.schema(rule), shown: Value.shownSchema(rule)),
                isNullable: Value.isNullable, standard: standard, traits: traits, text: text()))
    }

    mutating func object<Object: FieldObject>(
        _ name: String, _ value: inout Object, _ traits: FieldTraits,
        _ text: @autoclosure () -> String
    ) {
        append(Object.self, name, isNullable: false, traits, text())
    }

    mutating func object<Object: FieldObject>(
        _ name: String, _ value: inout Object?, _ traits: FieldTraits,
        _ text: @autoclosure () -> String
    ) {
        append(Object.self, name, isNullable: true, traits, text())
    }

    private mutating func append<Object: FieldObject>(
        _ type: Object.Type, _ name: String, isNullable: Bool, _ traits: FieldTraits,
        _ text: @autoclosure () -> String
    ) {
        fields.append(
            FieldDescription(
                name: name, kind: .object(ObjectDescription(type)), isNullable: isNullable, standard: .null,
                traits: traits, text: text()))
    }
}
