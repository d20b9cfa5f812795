/// JSON Schemas (2020-12) by name, as components of the OpenAPI document. They are made from the declarations
/// of objects: `FieldObject.fields` and `ShownObject.members`.
public final class FieldSchemas {
    /// Use of an object.
    public enum Use: Equatable {
        /// Body of a request; `nil` for objects outside of jobs.
        case request(JobKind?)
        /// Merge patch (RFC 7396): every field is optional, and null sets the default.
        case patch
        /// Merge patch of the request in an answer, which may replace further fields.
        case answer
        /// Part of a response: every field is present.
        case response
    }

    /// Schemas by name, in the order in which they were added.
    public private(set) var components: [JSON.Member] = []

    /// Creates an empty collection.
    public init() {}

    /// Adds the schema of a type and of the objects in it. `name` and `text`: the schema's, if they are not
    /// the type's.
    public func add<Object: FieldObject>(
        _ type: Object.Type, _ use: Use, named name: String? = nil, _ text: String? = nil
    ) { _ = reference(ObjectDescription(type), use, named: name, text) }

    /// Adds the schema of an object of responses and of the objects in it.
    public func add(_ types: any ShownObject.Type...) {
        for type in types { _ = type.shownSchema(in: self) }
    }

    /// Adds a schema unless there is one of this name. Returns a reference to it.
    @discardableResult
    public func reference(_ name: String, _ make: () -> JSON) -> [JSON.Member] {
        if !components.contains(where: { $0.name == name }) {
            // The place is taken before the objects inside are added.
            let index = components.count
            components.append(JSON.Member(name, .null))
            components[index] = JSON.Member(name, make())
        }
        return [JSON.Member("$ref", .string("#/components/schemas/\(name)"))]
    }

    private func reference(
        _ object: ObjectDescription, _ use: Use, named: String? = nil, _ text: String? = nil
    ) -> [JSON.Member] {
        reference(named ?? Self.name(of: object, use)) { schema(of: object, use, text ?? object.text) }
    }

    private static func name(of object: ObjectDescription, _ use: Use) -> String {
        switch use {
        case .request(let kind?) where object.dependsOnKind:
            "\(kind.rawValue.prefix(1).uppercased())\(kind.rawValue.dropFirst())\(object.name)Input"
        case .request: "\(object.name)Input"
        case .patch: "\(object.name)Patch"
        case .answer: "New\(object.name)"
        case .response: object.name
        }
    }

    private func schema(of object: ObjectDescription, _ use: Use, _ text: String) -> JSON {
        let (properties, required) = fields(of: object, use)
        return .schema(
            text, required: required, properties,
            isClosed: use != .response, Self.rules(of: object, use).filter { $0.name != "required" })
    }

    private static func rules(of object: ObjectDescription, _ use: Use) -> [JSON.Member] {
        guard case .request(let kind) = use else { return [] }
        let alternatives = object.alternatives(for: kind)
        guard !alternatives.isEmpty else { return object.rules(kind) }
        if alternatives.count == 1 {
            return object.rules(kind) + [JSON.Member("required", .array([.string(alternatives[0].name)]))]
        }
        let required = alternatives.map {
            JSON.object([JSON.Member("required", .array([.string($0.name)]))])
        }
        return object.rules(kind) + [JSON.Member("oneOf", .array(required))]
    }

    /// Returns the schemas of the fields, and the names of those that are required.
    func fields(of object: ObjectDescription, _ use: Use) -> (properties: [JSON.Member], required: [JSON]) {
        let requiredByRule =
            Self.rules(of: object, use).first { $0.name == "required" }?.value.array ?? []
        var properties: [JSON.Member] = []
        var required: [JSON] = []
        for field in object.fields where !field.traits.isStoredOnly {
            let name = JSON.string(field.name)
            let isRequired =
                switch use {
                case .request(let kind):
                    field.traits.isRequired && !(field.traits.isInResumeData && kind != .data)
                        || requiredByRule.contains(name)
                case .patch, .answer: false
                case .response:
                    !field.traits.isShownOnly && !field.traits.isAlternative && !field.traits.isAddition
                }
            guard let property = property(field, of: object, use, isRequired: isRequired) else { continue }
            properties.append(JSON.Member(field.name, property))
            if isRequired { required.append(name) }
        }
        return (properties, required)
    }

    /// Returns the schema of a field, or `nil` if the use has no such field.
    private func property(
        _ field: FieldDescription, of object: ObjectDescription, _ use: Use, isRequired: Bool
    ) -> JSON? {
        let traits = field.traits
        var isNullable = field.isNullable && (use == .response || !isRequired)
        switch use {
        case .request(let kind):
            if traits.isShownOnly { return nil }
            if let kind, !traits.kinds.contains(JobKinds(kind)) {
                return traits.isAlternative ? nil : Self.unused(field)
            }
        case .patch, .answer:
            if traits.isShownOnly || traits.change == .never || traits.change == .repeated { return nil }
            if traits.change == .answered, use == .patch { return nil }
            isNullable = isNullable || !traits.isRequired
        case .response:
            if traits.isWriteOnly { return nil }
        }
        var members: [JSON.Member]
        switch field.kind {
        case .object(let nested):
            let replaces = use == .answer && traits.change == .answered
            members = reference(nested, use == .answer ? replaces ? .request(nil) : .patch : use)
        case .value(let schema, let shown):
            members = use == .response ? shown : schema
            if case .request(let kind?) = use, let variant = object.variant(field.name, kind) {
                members.removeAll { member in variant.contains { $0.name == member.name } }
                members += variant
            }
        }
        members = isNullable ? Self.nullable(members) : members
        if case .request = use, !traits.isRequired, !field.standard.isNull, case .value = field.kind,
            !members.contains(where: { $0.name == "default" }), field.standard != .array([]),
            field.standard != .object([]), field.standard != .string("")
        {
            members.append(JSON.Member("default", field.standard))
        }
        members.append(JSON.Member("description", .string(Self.text(of: field))))
        return .object(members)
    }

    /// Returns the schema of a field that the kind of job does not have: a request may repeat the value that
    /// the job shows.
    private static func unused(_ field: FieldDescription) -> JSON {
        var members =
            switch field.standard {
            case .bool(let value): only(value)
            case .integer(let value):
                [
                    JSON.Member("type", "integer"), JSON.Member("minimum", .integer(value)),
                    JSON.Member("maximum", .integer(value)),
                ]
            case .string(let value):
                [JSON.Member("type", "string"), JSON.Member("enum", .array([.string(value)]))]
            case .array:
                [
                    JSON.Member("type", "array"),
                    JSON.Member("items", .object([JSON.Member("type", "string")])),
                    JSON.Member("maxItems", .integer(0)),
                ]
            default: [JSON.Member("type", "null")]
            }
        members.append(
            JSON.Member("description", .string("Only \(field.traits.kinds.names) jobs have this field.")))
        return .object(members)
    }

    /// Returns the schema of one boolean, without `const`, which generators do not support.
    private static func only(_ value: Bool) -> [JSON.Member] {
        [
            JSON.Member("type", "boolean"),
            JSON.Member("not", .object([JSON.Member("enum", .array([.bool(!value)]))])),
        ]
    }

    /// Returns the sentences of a field with its unit.
    private static func text(of field: FieldDescription) -> String {
        var text = field.text
        if let unit = field.traits.unit { text += " In \(unit.rawValue)." }
        if field.traits.inheritance != .none { text += " The session can set another default." }
        return text
    }

    /// Returns the schema with null as a further value.
    static func nullable(_ members: [JSON.Member]) -> [JSON.Member] {
        if members.contains(where: { $0.name == "$ref" || $0.name == "oneOf" }) {
            let own = members.filter { $0.name != "oneOf" }
            let choices = members.first { $0.name == "oneOf" }?.value.array ?? [.object(own)]
            let null = JSON.object([JSON.Member("type", "null")])
            return [JSON.Member("oneOf", .array(choices + [null]))]
        }
        return members.map { member in
            switch member.name {
            case "type": JSON.Member("type", .array([member.value, "null"]))
            case "enum": JSON.Member("enum", .array((member.value.array ?? []) + [.null]))
            default: member
            }
        }
    }
}

extension JSON {
    /// Returns the schema of an object. `isClosed`: `true` if it has no other members.
    public static func schema(
        _ text: String, required: [JSON] = [], _ properties: [Member], isClosed: Bool = false,
        _ rules: [Member] = []
    ) -> JSON {
        var members = [Member("type", "object"), Member("description", .string(text))]
        if !required.isEmpty { members.append(Member("required", .array(required))) }
        members.append(Member("properties", .object(properties)))
        if isClosed { members.append(Member("additionalProperties", .bool(false))) }
        return .object(members + rules)
    }
}
