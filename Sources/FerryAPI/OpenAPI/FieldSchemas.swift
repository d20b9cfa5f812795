internal import FerryCore

/// JSON Schemas (2020-12) of the objects that declare their fields in `FieldObject.fields`.
struct FieldSchemas {
    /// Use of an object.
    enum Use: Equatable {
        /// Body of a request; `nil` for objects outside of jobs.
        case request(JobKind?)
        /// Merge patch (RFC 7396): every field is optional, and null sets the default.
        case patch
        /// Part of a response: every field is present.
        case response
    }

    /// Schemas by name, in the order in which they were added.
    private(set) var components: [JSON.Member] = []

    /// Returns the schemas as members of an object.
    var text: String {
        var writer = JSONWriter(reservingCapacity: 32_768)
        writer.value(.object(components))
        return String(decoding: writer.bytes.dropFirst().dropLast(), as: UTF8.self)
    }

    /// Adds the schema of a type and of the objects in it. `name` and `text`: the schema's, if they are not
    /// the type's. `envelope`: members of the response besides the fields, as JSON.
    mutating func add<Object: FieldObject>(
        _ type: Object.Type, _ use: Use, named name: String? = nil, _ text: String? = nil,
        with envelope: String = ""
    ) {
        let added = add(ObjectDescription(type), use, named: name)
        guard let index = components.firstIndex(where: { $0.name == added }),
            var members = components[index].value.members
        else { return }
        if let text {
            members = members.map { $0.name == "description" ? JSON.Member($0.name, .string(text)) : $0 }
        }
        let own = Self.parsed("{\(envelope)}").members ?? []
        if !own.isEmpty {
            members = members.map { member in
                switch member.name {
                case "required":
                    JSON.Member(
                        member.name, .array(own.map { .string($0.name) } + (member.value.array ?? [])))
                case "properties": JSON.Member(member.name, .object(own + (member.value.members ?? [])))
                default: member
                }
            }
        }
        components[index] = JSON.Member(added, .object(members))
    }

    /// Adds a schema that is given as JSON.
    mutating func add(_ name: String, _ schema: String) {
        components.append(JSON.Member(name, Self.parsed(schema)))
    }

    private static func parsed(_ text: String) -> JSON {
        // The text is part of the source; a test reads the document that contains it.
        (try? JSON.parse(Array(text.utf8))) ?? .null
    }

    /// Adds an object's schema unless there is one of this name, and returns the name.
    private mutating func add(_ object: ObjectDescription, _ use: Use, named: String? = nil) -> String {
        let name = named ?? Self.name(of: object, use)
        if !components.contains(where: { $0.name == name }) {
            // The place is taken before the objects inside are added.
            let index = components.count
            components.append(JSON.Member(name, .null))
            let schema = schema(of: object, use)
            components[index] = JSON.Member(name, schema)
        }
        return name
    }

    private static func name(of object: ObjectDescription, _ use: Use) -> String {
        switch use {
        case .request(let kind?) where object.dependsOnKind:
            "\(kind.rawValue.prefix(1).uppercased())\(kind.rawValue.dropFirst())\(object.name)Input"
        case .request: "\(object.name)Input"
        case .patch: "\(object.name)Patch"
        case .response: object.name
        }
    }

    private mutating func schema(of object: ObjectDescription, _ use: Use) -> JSON {
        var rules: [JSON.Member] = []
        if case .request(let kind) = use { rules = object.rules(kind) }
        let requiredByRule = rules.first { $0.name == "required" }?.value.array ?? []
        var properties: [JSON.Member] = []
        var required: [JSON] = []
        for field in object.fields {
            let name = JSON.string(field.name)
            let isRequired =
                switch use {
                case .request: field.traits.isRequired || requiredByRule.contains(name)
                case .patch: false
                case .response: !field.traits.isShownOnly
                }
            guard let property = property(field, of: object, use, isRequired: isRequired) else { continue }
            properties.append(JSON.Member(field.name, property))
            if isRequired { required.append(name) }
        }
        var members = [JSON.Member("type", "object"), JSON.Member("description", .string(object.text))]
        if !required.isEmpty { members.append(JSON.Member("required", .array(required))) }
        members.append(JSON.Member("properties", .object(properties)))
        if use != .response { members.append(JSON.Member("additionalProperties", .bool(false))) }
        members += rules.filter { $0.name != "required" }
        return .object(members)
    }

    /// Returns the schema of a field, or `nil` if the use has no such field.
    private mutating func property(
        _ field: FieldDescription, of object: ObjectDescription, _ use: Use, isRequired: Bool
    ) -> JSON? {
        let traits = field.traits
        var isNullable = field.isNullable && (use == .response || !isRequired)
        switch use {
        case .request(let kind):
            if traits.isShownOnly { return nil }
            if let kind, !traits.kinds.contains(JobKinds(kind)) { return Self.unused(field) }
        case .patch:
            if traits.isShownOnly || traits.change == .never || traits.change == .repeated { return nil }
            isNullable = isNullable || !traits.isRequired
        case .response:
            if traits.isWriteOnly { return nil }
        }
        var members: [JSON.Member]
        switch field.kind {
        case .object(let nested):
            let reference = JSON.string("#/components/schemas/\(add(nested, use))")
            members = [JSON.Member("$ref", reference)]
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
        if field.traits.inheritance == .session { text += " The session can set another default." }
        return text
    }

    /// Returns the schema with null as a further value.
    private static func nullable(_ members: [JSON.Member]) -> [JSON.Member] {
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
