// What is done with the fields of an object that have a trait.

/// Copies fields of one object to another one of the same type.
struct FieldCopy: FieldVisitor {
    private let isChosen: (FieldTraits) -> Bool
    /// The values of the first object, each a `Copied`, in the order of the declaration.
    private var values: [any Sendable] = []
    /// Place of the next value to be set in the second object; `nil` while the first one is read.
    private var next: Int?

    /// Copies the chosen fields, also those of objects within `source`. An object that may be null is one
    /// value.
    static func copy<Object: FieldObject>(
        from source: Object, to target: inout Object, where isChosen: @escaping (FieldTraits) -> Bool
    ) {
        var source = source
        var copy = FieldCopy(isChosen: isChosen)
        source.fields(&copy)
        copy.next = 0
        target.fields(&copy)
    }

    private init(isChosen: @escaping (FieldTraits) -> Bool) { self.isChosen = isChosen }

    mutating func field<Value: FieldValue>(
        _ name: String, _ value: inout Value, _ rule: Value.Rule, _ traits: FieldTraits,
        _ text: @autoclosure () -> String
    ) {
        if isChosen(traits) { pass(&value) }
    }

    mutating func object<Object: FieldObject>(
        _ name: String, _ value: inout Object, _ traits: FieldTraits, _ text: @autoclosure () -> String
    ) { value.fields(&self) }

    mutating func object<Object: FieldObject>(
        _ name: String, _ value: inout Object?, _ traits: FieldTraits, _ text: @autoclosure () -> String
    ) {
        if isChosen(traits) { pass(&value) }
    }

    private mutating func pass<Value: Sendable>(_ value: inout Value) {
        guard let place = next else { return values.append(Copied(value: value)) }
        next = place + 1
        // Objects of one type declare the same fields, whatever their values are.
        if let copied = values[place] as? Copied<Value> { value = copied.value }
    }
}

/// A value in a list of values of several types.
private struct Copied<Value: Sendable>: Sendable { let value: Value }

/// Collects the header fields of a request that the fields of a job determine.
struct DeterminedHeaders: FieldVisitor {
    private var headers: FieldTraits.Headers = []
    /// The default values by name.
    private let defaults: [String: any FieldValue]

    /// Returns the header fields that those fields determine whose value is not the default.
    static func of<Object: FieldObject>(_ object: Object) -> FieldTraits.Headers {
        var object = object
        var collector = DeterminedHeaders(defaults: FieldCapture.values(of: Object()))
        object.fields(&collector)
        return collector.headers
    }

    mutating func field<Value: FieldValue>(
        _ name: String, _ value: inout Value, _ rule: Value.Rule, _ traits: FieldTraits,
        _ text: @autoclosure () -> String
    ) {
        guard !traits.determines.isEmpty, defaults[name] as? Value != value else { return }
        headers.formUnion(traits.determines)
    }

    mutating func object<Object: FieldObject>(
        _ name: String, _ value: inout Object, _ traits: FieldTraits, _ text: @autoclosure () -> String
    ) { headers.formUnion(Self.of(value)) }

    mutating func object<Object: FieldObject>(
        _ name: String, _ value: inout Object?, _ traits: FieldTraits, _ text: @autoclosure () -> String
    ) {
        if value != nil { headers.formUnion(traits.determines) }
    }
}

/// Writes the fields of an object that identify the bytes of the response.
struct IdentityWriter: FieldVisitor {
    private var writer = JSONWriter()

    /// Returns the fields as JSON.
    static func text(of object: some FieldObject) -> [UInt8] {
        var object = object
        var identity = IdentityWriter()
        identity.writer.beginObject()
        object.fields(&identity)
        identity.writer.endObject()
        return identity.writer.bytes
    }

    mutating func field<Value: FieldValue>(
        _ name: String, _ value: inout Value, _ rule: Value.Rule, _ traits: FieldTraits,
        _ text: @autoclosure () -> String
    ) {
        guard traits.identifiesBytes else { return }
        writer.name(name)
        value.encode(into: &writer, isRedacted: false)
    }
}
