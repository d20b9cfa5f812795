/// An object of the API, such as `retry` of a job. Each of its fields is declared once, in `fields`; decoder,
/// merge patch, encoder, stored form, OpenAPI schema and reference tables follow from the declaration.
public protocol FieldObject: Sendable, Equatable {
    /// Creates the object with the default value of each field.
    init()

    /// Description of the object, for OpenAPI and the reference.
    static var summary: String { get }

    /// Name of the object in OpenAPI, such as `Retry`: unique, letters and digits. Declared by each type,
    /// because a release build prints the name of a private type with its context.
    static var schemaName: String { get }

    /// Members of the object's JSON Schema that state rules of several fields. `kind`: that of the job, or
    /// `nil` for objects outside of jobs.
    static func schemaRules(for kind: JobKind?) -> [JSON.Member]

    /// Members of a field's JSON Schema that differ between job kinds, or `nil` if none do.
    static func schema(of field: String, for kind: JobKind) -> [JSON.Member]?

    /// `true` if null is no value of any field in a body, also of optional ones.
    static var rejectsNull: Bool { get }

    /// Prefix of the names of members that `check` reads and `fields` does not declare; `nil` if there are
    /// none.
    static var memberPrefix: String? { get }

    /// The object with its default values as JSON, made once; `nil` for objects that are seldom shown with
    /// them.
    static var standardTexts: StandardTexts? { get }

    /// Declares the fields in the order in which they are shown: calls `visitor` once for each of them. Must
    /// name the same fields whatever their values are.
    mutating func fields(_ visitor: inout some FieldVisitor)

    /// Sets values that depend on the defaults of the context in another way than `FieldTraits.Inheritance`.
    /// Called after the fields were inherited, and only if the context has defaults.
    mutating func inherit(from context: FieldContext)

    /// Called after a body has been read: sets values that follow from others, and reports combinations that
    /// are not allowed.
    mutating func check(_ body: FieldDecoder)
}

extension FieldObject {
    public static func schemaRules(for kind: JobKind?) -> [JSON.Member] { [] }
    public static var rejectsNull: Bool { false }
    public static var memberPrefix: String? { nil }
    public static var standardTexts: StandardTexts? { nil }
    public static func schema(of field: String, for kind: JobKind) -> [JSON.Member]? { nil }
    public mutating func inherit(from context: FieldContext) {}
    public mutating func check(_ body: FieldDecoder) {}
}

/// Operation on the fields of an object: decoding, encoding, describing.
public protocol FieldVisitor {
    /// A field with one value.
    mutating func field<Value: FieldValue>(
        _ name: String, _ value: inout Value, _ rule: Value.Rule, _ traits: FieldTraits,
        _ text: @autoclosure () -> String)

    /// A field whose value is an object.
    mutating func object<Object: FieldObject>(
        _ name: String, _ value: inout Object, _ traits: FieldTraits,
        _ text: @autoclosure () -> String)

    /// A field whose value is an object or null.
    mutating func object<Object: FieldObject>(
        _ name: String, _ value: inout Object?, _ traits: FieldTraits,
        _ text: @autoclosure () -> String)

    /// A field that a later version will have: bodies may give only the value that turns it off. It is
    /// neither stored nor shown nor described.
    mutating func unsupported(_ name: String, off: JSON)
}

/// A visitor passes over what it does not implement.
extension FieldVisitor {
    public mutating func object<Object: FieldObject>(
        _ name: String, _ value: inout Object, _ traits: FieldTraits, _ text: @autoclosure () -> String
    ) {}
    public mutating func object<Object: FieldObject>(
        _ name: String, _ value: inout Object?, _ traits: FieldTraits, _ text: @autoclosure () -> String
    ) {}
    public mutating func unsupported(_ name: String, off: JSON) {}

    /// A field whose type has no rule, such as a boolean.
    public mutating func field<Value: FieldValue>(
        _ name: String, _ value: inout Value, _ traits: FieldTraits,
        _ text: @autoclosure () -> String
    ) where Value.Rule == NoRule {
        field(name, &value, NoRule(), traits, text())
    }

    /// One of the fields of an object of which exactly one is given, or `nil` if it is another. `kinds`:
    /// those of jobs that have it. `isForOthersLater`: as in `FieldTraits`.
    public mutating func alternative<Value: FieldValue>(
        _ name: String, _ value: inout Value?, _ rule: Value.Rule,
        change: FieldTraits.Change = .never, kinds: JobKinds = .all, isForOthersLater: Bool = false,
        isWriteOnly: Bool = false, _ text: @autoclosure () -> String
    ) {
        var alternative = Present(value: value)
        field(
            name, &alternative, rule,
            .of(
                change, kinds: kinds, isForOthersLater: isForOthersLater, isWriteOnly: isWriteOnly,
                isAlternative: true), text())
        value = alternative.value
    }

    /// A field that few objects have: absent if the value is `nil`. Clients cannot change it. `kinds`: of
    /// jobs that have it.
    mutating func addition<Value: FieldValue>(
        _ name: String, _ value: inout Value?, _ rule: Value.Rule, kinds: JobKinds,
        _ text: @autoclosure () -> String
    ) {
        var present = Present(value: value)
        field(name, &present, rule, .of(.never, kinds: kinds, isAddition: true), text())
        value = present.value
    }

    /// A field that clients cannot give, and that is absent if the value is `nil`.
    public mutating func shown<Value: FieldValue>(
        _ name: String, _ value: inout Value?, _ rule: Value.Rule, _ text: @autoclosure () -> String
    ) {
        var present = Present(value: value)
        field(name, &present, rule, .of(.never, isShownOnly: true), text())
        value = present.value
    }

    /// A field of the stored form that no response has; absent if the value is `nil`.
    public mutating func stored<Value: FieldValue>(
        _ name: String, _ value: inout Value?, _ rule: Value.Rule
    ) { field(name, &value, rule, .of(.never, isStoredOnly: true), "") }
}

/// A value that is shown and stored only if it is there, and is never null.
private struct Present<Value: FieldValue>: FieldValue {
    var value: Value?

    static func decode(_ json: JSONView, _ rule: Value.Rule, _ place: FieldPlace) -> Self? {
        Value.decode(json, rule, place).map(Self.init)
    }
    static func restore(_ json: JSON) -> Self? { Value.restore(json).map(Self.init) }
    func encode(into writer: inout JSONWriter, isRedacted: Bool) {
        value.encode(into: &writer, isRedacted: isRedacted)
    }
    var isLeftOut: Bool { value == nil }
    static func schema(_ rule: Value.Rule) -> [JSON.Member] { Value.schema(rule) }
    static func shownSchema(_ rule: Value.Rule) -> [JSON.Member] { Value.shownSchema(rule) }
}

/// Rule of a type that needs none.
public struct NoRule: Sendable {
    public init() {}
}

/// The value of a field.
public protocol FieldValue: Sendable, Equatable {
    /// Bounds of the value, such as a range.
    associatedtype Rule: Sendable = NoRule

    /// `true` if null is a value.
    static var isNullable: Bool { get }

    /// Returns the value, or `nil` after an error has been reported. `json`: null only if `isNullable`.
    static func decode(_ json: JSONView, _ rule: Rule, _ place: FieldPlace) -> Self?

    /// Returns the value after a merge patch (RFC 7396); as `decode`, except for objects with free names.
    func merging(_ json: JSONView, _ rule: Rule, _ place: FieldPlace) -> Self?

    /// Returns a stored value, or `nil` if it is damaged. Bounds are not checked: an earlier version may have
    /// had others.
    static func restore(_ json: JSON) -> Self?

    /// Writes the value. `isRedacted`: `true` to hide what may be secret.
    func encode(into writer: inout JSONWriter, isRedacted: Bool)

    /// `true` if a stored list leaves out elements that this version does not know, because a later one has
    /// stored them.
    static var isOpen: Bool { get }

    /// `true` if the stored form leaves the value out, because a missing member reads the same.
    var isLeftOut: Bool { get }

    /// Returns the JSON Schema of the type without null.
    static func schema(_ rule: Rule) -> [JSON.Member]

    /// Returns the JSON Schema of the value in responses, without null. Responses show what earlier versions
    /// have accepted, so it has types and values, but no bounds.
    static func shownSchema(_ rule: Rule) -> [JSON.Member]
}

extension FieldValue {
    public static var isNullable: Bool { false }
    public static var isOpen: Bool { false }
    public var isLeftOut: Bool { false }
    public func merging(_ json: JSONView, _ rule: Rule, _ place: FieldPlace) -> Self? {
        Self.decode(json, rule, place)
    }
    public static func shownSchema(_ rule: Rule) -> [JSON.Member] {
        schema(rule).filter { ["type", "format", "enum", "$ref", "oneOf"].contains($0.name) }
    }
}

/// Place of a value in a body, with what its decoding needs.
public struct FieldPlace {
    /// JSON Pointer of the object.
    let path: String
    /// Name of the member.
    let name: String
    /// Context in which the body is decoded.
    public let context: FieldContext

    /// JSON Pointer of the value.
    public var pointer: String { "\(path)/\(pointerStep(name))" }

    /// Reports an error.
    public func add(_ code: String, _ detail: String) { context.errors.add(pointer, code, detail) }

    /// Reports an error and returns `nil`.
    public func fail<Value>(_ code: String, _ detail: String) -> Value? {
        add(code, detail)
        return nil
    }

    /// Reports a wrong type and returns `nil`. `expected`: with its article.
    public func failType<Value>(_ expected: String, _ json: JSONView) -> Value? {
        context.errors.addWrongType(pointer, expected, json)
        return nil
    }

    /// Returns the place of an element or a member of the value.
    public func item(_ name: String) -> FieldPlace {
        FieldPlace(path: pointer, name: name, context: context)
    }
}

/// Properties of a field apart from its type.
public struct FieldTraits: Sendable {
    /// When `PATCH` may change a field.
    public enum Change: Sendable {
        case never
        /// Never; but the answer `use_new_request` may replace the field as a whole.
        case answered
        /// Never; but a patch may repeat the current value.
        case repeated
        /// While the job does not run.
        case whileStopped
        /// Until the job is terminal.
        case always
    }

    /// Origin of a field's default value.
    public enum Inheritance: Sendable {
        case none
        /// From the field of the session with the same name and type.
        case session
        /// From the session, by `FieldObject.inherit(from:)`.
        case sessionRule
    }

    /// Header fields of a request.
    public struct Headers: OptionSet, Sendable {
        public let rawValue: Int
        public init(rawValue: Int) { self.rawValue = rawValue }
        public static let acceptEncoding = Self(rawValue: 1)
        public static let authorization = Self(rawValue: 2)
        public static let range = Self(rawValue: 4)
        public static let ifRange = Self(rawValue: 8)
        public static let idempotencyKey = Self(rawValue: 16)

        /// Returns `true` if the field of this name, in lower case, is one of them.
        func contains(_ name: String) -> Bool {
            switch name {
            case "accept-encoding": contains(.acceptEncoding)
            case "authorization": contains(.authorization)
            case "range": contains(.range)
            case "if-range": contains(.ifRange)
            case "idempotency-key": contains(.idempotencyKey)
            default: false
            }
        }
    }

    /// Unit of a number.
    public enum Unit: String, Sendable { case seconds, bytes, bytesPerSecond = "bytes per second" }

    /// When `PATCH` may change the field.
    public var change: Change
    /// `true` if a new object must have the field.
    public var isRequired: Bool
    /// `true` if resume data can replace a required field of a new download.
    public var isInResumeData: Bool
    /// Origin of the default value.
    public var inheritance: Inheritance
    /// Job kinds that have the field.
    public var kinds: JobKinds
    /// `true` if a later version of Ferry has the field for other kinds too.
    public var isForOthersLater: Bool
    /// Unit, or `nil`.
    public var unit: Unit?
    /// Column of the database that has the value as well, because statements need it, or `nil`.
    public var column: String?
    /// `true` if the field is only read, and neither shown nor stored.
    public var isWriteOnly: Bool
    /// `true` if the stored form has the value unencrypted although it may have secrets, because statements
    /// compare it.
    public var isStoredPlain: Bool
    /// `true` if clients cannot give the field; it is shown if it has a value.
    public var isShownOnly: Bool
    /// `true` if the field is only in the stored form, and there only if it has a value.
    public var isStoredOnly: Bool
    /// `true` if bodies give exactly one of the object's fields with this property; the others are not shown.
    public var isAlternative: Bool
    /// `true` if the field is shown only if it has a value.
    public var isAddition: Bool
    /// `true` if requests that differ in the field may get other bytes.
    public var identifiesBytes: Bool
    /// Header fields of the request that the field determines unless it has its default value.
    public var determines: Headers

    /// Creates properties; the default is an optional field of all kinds.
    public static func of(
        _ change: Change = .whileStopped, required: Bool = false, isInResumeData: Bool = false,
        from inheritance: Inheritance = .none,
        kinds: JobKinds = .all, isForOthersLater: Bool = false, unit: Unit? = nil, column: String? = nil,
        isWriteOnly: Bool = false, isStoredPlain: Bool = false, isShownOnly: Bool = false,
        isStoredOnly: Bool = false, isAlternative: Bool = false, isAddition: Bool = false,
        identifiesBytes: Bool = false,
        determines: Headers = []
    ) -> Self {
        Self(
            change: change, isRequired: required, isInResumeData: isInResumeData,
            inheritance: inheritance, kinds: kinds, isForOthersLater: isForOthersLater, unit: unit,
            column: column, isWriteOnly: isWriteOnly,
            isStoredPlain: isStoredPlain,
            isShownOnly: isShownOnly, isStoredOnly: isStoredOnly, isAlternative: isAlternative,
            isAddition: isAddition, identifiesBytes: identifiesBytes, determines: determines)
    }

    /// Properties of most fields.
    public static var plain: Self { .of() }
}

/// A set of job kinds.
public struct JobKinds: OptionSet, Sendable {
    public let rawValue: Int
    public init(rawValue: Int) { self.rawValue = rawValue }
    /// Creates a set of one kind.
    public init(_ kind: JobKind) {
        switch kind {
        case .download: self = .download
        case .upload: self = .upload
        case .data: self = .data
        }
    }
    public static let download = Self(rawValue: 1)
    public static let upload = Self(rawValue: 2)
    public static let data = Self(rawValue: 4)
    public static let all: Self = [.download, .upload, .data]

    /// Names in order, for messages: `upload or data`.
    public var names: String {
        JobKind.allCases.filter { contains(JobKinds($0)) }.map(\.rawValue).joined(separator: " or ")
    }
}
