/// Reads a stored object. A missing member has its default value; a damaged one is an error.
public struct FieldRestorer: FieldVisitor {
    private let stored: StoredObject
    /// The first damaged member, or `nil`.
    private var error: StoredJSONError?
    /// The first of the fields of which one is stored, and whether that one was found.
    private var alternative: (name: String?, isFound: Bool) = (nil, false)

    /// The first damaged or missing member, or `nil`.
    fileprivate var damage: StoredJSONError? {
        error ?? (alternative.isFound ? nil : alternative.name.map { StoredJSONError($0) })
    }

    init(_ stored: StoredObject) { self.stored = stored }

    public mutating func field<Value: FieldValue>(
        _ name: String, _ value: inout Value, _ rule: Value.Rule, _ traits: FieldTraits,
        _ text: @autoclosure () -> String
    ) {
        guard !traits.isWriteOnly else { return }
        if traits.isAlternative { alternative.name = alternative.name ?? name }
        guard let json = stored.json[name], !(json.isNull && !Value.isNullable) else {
            if traits.isRequired { error = error ?? StoredJSONError(name) }
            return
        }
        if let restored = Value.restore(json) {
            value = restored
            alternative.isFound = alternative.isFound || traits.isAlternative
        } else {
            error = error ?? StoredJSONError(name)
        }
    }

    public mutating func object<Object: FieldObject>(
        _ name: String, _ value: inout Object, _ traits: FieldTraits,
        _ text: @autoclosure () -> String
    ) {
        guard let object = stored.object(name) else {
            if traits.isRequired { error = error ?? StoredJSONError(name) }
            return
        }
        restore(&value, object)
    }

    public mutating func object<Object: FieldObject>(
        _ name: String, _ value: inout Object?, _ traits: FieldTraits,
        _ text: @autoclosure () -> String
    ) {
        guard let object = stored.object(name) else { return }
        var restored = Object()
        restore(&restored, object)
        value = restored
    }

    private mutating func restore<Object: FieldObject>(_ value: inout Object, _ object: StoredObject) {
        var restorer = FieldRestorer(object)
        value.fields(&restorer)
        error = error ?? restorer.damage
    }
}

extension FieldObject {
    /// Reads what `writeFields` or `storeFields` wrote. Throws if a member is damaged.
    init(restoring stored: StoredObject) throws(StoredJSONError) {
        self.init()
        var restorer = FieldRestorer(stored)
        fields(&restorer)
        if let error = restorer.damage { throw error }
    }
}
