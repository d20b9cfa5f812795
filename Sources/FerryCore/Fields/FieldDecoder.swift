/// Reads an untrusted body into an object: a new one, or a merge patch (RFC 7396) of one that exists. Reports
/// each member that is invalid, missing or unknown; the object keeps its value there.
public struct FieldDecoder: FieldVisitor {
    /// Kind of a body: a new object or a merge patch.
    public enum Mode: Sendable { case new, patch }

    private var reader: FieldReader
    /// Kind of the body: a new object or a merge patch.
    public let mode: Mode
    /// Context in which the body is decoded.
    public let context: FieldContext
    /// `true` if the body must have the required members.
    private let requiresMembers: Bool
    /// Default values of members that the patch sets to null.
    private let defaults: [String: any FieldValue]
    /// `true` if null is no value of any field.
    private let rejectsNull: Bool
    /// Number of the fields of which exactly one is given, of those that are, and whether one is given that
    /// jobs of this kind do not have.
    private var alternatives = (count: 0, givenCount: 0, hasOther: false)

    /// Reads `json` into `object`, which has its default values, or for a patch its current ones.
    /// `isCreated`: `true` if the patch creates the object.
    static func decode<Object: FieldObject>(
        _ json: JSONView, into object: inout Object, at path: String, _ mode: Mode, isCreated: Bool = false,
        _ context: FieldContext
    ) {
        guard let reader = FieldReader(json, at: path, context.errors) else { return }
        var decoder = FieldDecoder(
            reader: reader, mode: mode, context: context, requiresMembers: mode == .new || isCreated,
            defaults: mode == .patch && reader.hasNull
                ? FieldCapture.values(of: Self.standard(Object.self, context)) : [:],
            rejectsNull: Object.rejectsNull)
        object.fields(&decoder)
        if decoder.alternatives.count > 0 { decoder.checkAlternatives(of: Object.self) }
        object.check(decoder)
        guard decoder.hasUnknownFields else { return }
        let known = KnownFields(of: Object.self)
        decoder.reader.finish(except: Object.memberPrefix) { known.nearest(to: $0) }
    }

    /// Returns an object with the values that a new one has if its body names none.
    static func standard<Object: FieldObject>(_ type: Object.Type, _ context: FieldContext) -> Object {
        var object = Object()
        guard context.defaults != nil else { return object }
        var inheritance = FieldInheritance(context: context)
        object.fields(&inheritance)
        object.inherit(from: context)
        return object
    }

    /// JSON Pointer of the object.
    public var path: String { reader.path }

    /// Returns `true` if the body determines the member: a new object names it, or a patch does not reset it.
    public func isGiven(_ name: String) -> Bool {
        mode == .new ? reader.has(name) : !reader.has(name) || reader.hasValue(name)
    }

    /// Like `isGiven(_:)`, for a member of an object that is a member.
    func isGiven(_ name: String, in object: String) -> Bool {
        guard isGiven(object) else { return false }
        let member = reader.member(name, of: object)
        return mode == .new ? member != nil : member?.isNull != true
    }

    /// Returns `true` if the body names the member.
    public func has(_ name: String) -> Bool { reader.has(name) }

    /// Returns `true` if the body determines the member itself: it is of a new object, or a patch that names
    /// it.
    func isNamed(_ name: String) -> Bool { mode == .new || reader.has(name) }

    /// `true` if the body has members that are no fields of the object.
    var hasUnknownFields: Bool { reader.hasUnread }

    /// Returns `true` if the body gives the member a value other than null.
    public func hasValue(_ name: String) -> Bool { reader.hasValue(name) }

    /// Returns `true` if the body has the member and no error was found in it so far.
    public func isValid(_ name: String) -> Bool {
        let pointer = reader.pointer(name)
        return reader.has(name) && !context.errors.all.contains { $0.pointer == pointer }
    }

    /// Returns the members of the body whose names begin with `prefix`.
    func members(withPrefix prefix: String) -> [JSONView.Member] { reader.members(withPrefix: prefix) }

    /// Returns the place of a member.
    func place(of name: String) -> FieldPlace { FieldPlace(path: reader.path, name: name, context: context) }

    /// Reports an error of a member. `steps`: its JSON Pointer in the object, such as `redirects/policy`.
    public func fail(_ steps: String, _ code: String, _ detail: String) {
        context.errors.add("\(reader.path)/\(steps)", code, detail)
    }

    /// Returns the member, or `nil` if there is nothing to decode.
    private mutating func member(_ name: String, _ traits: FieldTraits) -> JSONView? {
        if traits.isShownOnly || traits.isStoredOnly { return nil }
        guard let json = reader.value(name) else {
            if traits.isRequired, requiresMembers {
                reader.addError(name, "required", "This field is required.")
            }
            return nil
        }
        if mode == .patch, traits.change == .never || traits.change == .answered && !context.isAnswer {
            failUnchangeable(name)
            return nil
        }
        if json.isNull, rejectsNull {
            reader.addError(name, "wrong_type", "This must not be null; leave it out.")
            return nil
        }
        if json.isNull, mode == .patch, traits.isRequired || traits.isAlternative {
            reader.addError(name, "required", "This field is required.")
            return nil
        }
        return json
    }

    private func failUnchangeable(_ name: String) {
        reader.addError(
            name, "not_supported",
            "This cannot be changed after the submission; cancel the job and submit another one.")
    }

    /// Reports a field that the job's kind does not have. Null and default values are allowed everywhere.
    private func checkKind(_ name: String, _ traits: FieldTraits) {
        guard let kind = context.kind, !traits.kinds.contains(JobKinds(kind)) else { return }
        if traits.isForOthersLater {
            reader.addError(
                name, "not_supported",
                "In this version of Ferry only \(traits.kinds.names) jobs have this field.")
        } else {
            reader.addError(name, "invalid_combination", "Only \(traits.kinds.names) jobs have this field.")
        }
    }

    /// Reports an error unless exactly one of the alternatives is given. A patch may leave them as they are.
    private func checkAlternatives<Object: FieldObject>(of type: Object.Type) {
        let count = alternatives.givenCount
        guard count > 1 || requiresMembers && count == 0 && !alternatives.hasOther else { return }
        let names = ObjectDescription(type).alternatives(for: context.kind).map(\.name)
        if count == 0, names.count == 1 {
            return reader.addError(names[0], "required", "This field is required.")
        }
        context.errors.add(
            path, count == 0 ? "required" : "invalid_combination",
            "Exactly one of these must be given: \(names.joined(separator: ", ")).")
    }

    public mutating func field<Value: FieldValue>(
        _ name: String, _ value: inout Value, _ rule: Value.Rule, _ traits: FieldTraits,
        _ text: @autoclosure () -> String
    ) {
        if traits.isAlternative {
            guard context.kind.map({ traits.kinds.contains(JobKinds($0)) }) ?? true else {
                guard let json = member(name, traits), !json.isNull else { return }
                alternatives.hasOther = true
                return checkKind(name, traits)
            }
            alternatives.count += 1
            if has(name) { alternatives.givenCount += 1 }
        }
        guard let json = member(name, traits) else {
            if mode == .new, traits.inheritance == .session {
                value = context.inherited(name, as: Value.self) ?? value
            }
            return
        }
        if json.isNull, mode == .patch, let standard = defaults[name] as? Value {
            value = standard
            return
        }
        if json.isNull, traits.isAddition { return }
        let place = FieldPlace(path: reader.path, name: name, context: context)
        let before = value
        let read = mode == .new ? Value.decode(json, rule, place) : value.merging(json, rule, place)
        value = read ?? value
        if mode == .patch, traits.change == .repeated, value != before { failUnchangeable(name) }
        if traits.kinds != .all, value != before { checkKind(name, traits) }
    }

    public mutating func object<Object: FieldObject>(
        _ name: String, _ value: inout Object, _ traits: FieldTraits,
        _ text: @autoclosure () -> String
    ) {
        let json = member(name, traits)
        if mode == .new { value = Self.standard(Object.self, context) }
        guard let json else { return }
        if json.isNull, mode == .patch {
            value = Self.standard(Object.self, context)
            return
        }
        Self.decode(json, into: &value, at: reader.pointer(name), mode, context)
    }

    public mutating func object<Object: FieldObject>(
        _ name: String, _ value: inout Object?, _ traits: FieldTraits,
        _ text: @autoclosure () -> String
    ) {
        guard let json = member(name, traits) else { return }
        guard !json.isNull else {
            value = nil
            return
        }
        guard json.isObject else {
            return context.errors.addWrongType(reader.pointer(name), "an object", json)
        }
        if let kind = context.kind, !traits.kinds.contains(JobKinds(kind)) { alternatives.hasOther = true }
        checkKind(name, traits)
        // An answer replaces such an object; it does not merge with it.
        let isReplaced = traits.change == .answered
        let before = isReplaced ? nil : value
        var object = before ?? Self.standard(Object.self, context)
        Self.decode(
            json, into: &object, at: reader.pointer(name), isReplaced ? .new : mode,
            isCreated: before == nil, context)
        value = object
    }

    public mutating func unsupported(_ name: String, off: JSON) {
        guard let json = reader.value(name), json.json != off, !(mode == .patch && json.isNull) else {
            return
        }
        alternatives.hasOther = true
        guard off.isNull || json.typeName == off.typeName else {
            return context.errors.addWrongType(reader.pointer(name), off.typeName, json)
        }
        reader.addError(
            name, "not_supported",
            "This is not supported yet by this version of Ferry; leave it out.")
    }
}

extension FieldObject {
    /// Reads a new object from an untrusted body. Throws all errors at once.
    public init(body: JSONView, _ context: FieldContext = FieldContext()) throws(InvalidFields) {
        self = try FieldDecoder.standard(Self.self, context).reading(body, .new, context)
    }

    /// Returns this object after a merge patch (RFC 7396). Throws all errors at once.
    public func merging(
        _ patch: JSONView, _ context: FieldContext = FieldContext()
    ) throws(InvalidFields) -> Self {
        try reading(patch, .patch, context)
    }

    /// Returns this object with the values of a body. Throws all errors at once.
    func reading(
        _ body: JSONView, _ mode: FieldDecoder.Mode, _ context: FieldContext
    ) throws(InvalidFields) -> Self {
        var object = self
        FieldDecoder.decode(body, into: &object, at: "#", mode, context)
        guard context.errors.isEmpty else { throw InvalidFields(context.errors.all) }
        return object
    }
}

// An object that is the value of a field, such as an element of a list: not null, and replaced as a whole.
extension FieldValue where Self: FieldObject, Rule == NoRule {
    public static func decode(_ json: JSONView, _ rule: NoRule, _ place: FieldPlace) -> Self? {
        decodeObject(json, place)
    }

    /// Returns the object, or `nil` after errors have been reported.
    static func decodeObject(_ json: JSONView, _ place: FieldPlace) -> Self? {
        let errors = place.context.errors
        let errorCount = errors.all.count
        var object = FieldDecoder.standard(Self.self, place.context)
        FieldDecoder.decode(json, into: &object, at: place.pointer, .new, place.context)
        return errors.all.count == errorCount ? object : nil
    }
    public static func restore(_ json: JSON) -> Self? {
        // `nil` stands for any damage.
        try? Self(restoring: StoredObject(json))
    }
    public func encode(into writer: inout JSONWriter, isRedacted: Bool) {
        writer.beginObject()
        writeFields(into: &writer, isRedacted: isRedacted)
        writer.endObject()
    }
    public static func schema(_ rule: NoRule) -> [JSON.Member] {
        [JSON.Member("$ref", .string("#/components/schemas/\(schemaName)"))]
    }
}

/// Sets the fields that a job inherits to the values of its session.
struct FieldInheritance: FieldVisitor {
    let context: FieldContext

    mutating func field<Value: FieldValue>(
        _ name: String, _ value: inout Value, _ rule: Value.Rule, _ traits: FieldTraits,
        _ text: @autoclosure () -> String
    ) {
        guard traits.inheritance == .session else { return }
        value = context.inherited(name, as: Value.self) ?? value
    }
}
