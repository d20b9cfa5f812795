/// Names of the fields that bodies can give an object.
struct KnownFields {
    /// Names of the fields of the object.
    private let names: [String]
    /// Names of the fields of the objects in it, with the names of these objects.
    private let inner: [(object: String, name: String)]

    /// Collects the names of a type.
    init<Object: FieldObject>(of type: Object.Type) {
        var collection = NameCollection()
        var object = Object()
        object.fields(&collection)
        names = collection.names
        inner = collection.inner
    }

    /// Returns the field that was probably meant by an unknown name, or `nil`: one of a similar name, or one
    /// of this name in an object of the object, such as `schedule.priority`.
    func nearest(to name: String) -> String? {
        if let name = nearestName(to: name, in: names) { return name }
        return inner.first { $0.name == name }.map { "\($0.object).\($0.name)" }
    }
}

/// Collects the names of fields. Leaves out those that clients cannot give.
private struct NameCollection: FieldVisitor {
    var names: [String] = []
    var inner: [(object: String, name: String)] = []

    mutating func field<Value: FieldValue>(
        _ name: String, _ value: inout Value, _ rule: Value.Rule, _ traits: FieldTraits,
        _ text: @autoclosure () -> String
    ) {
        if !traits.isShownOnly, !traits.isStoredOnly { names.append(name) }
    }

    mutating func object<Object: FieldObject>(
        _ name: String, _ value: inout Object, _ traits: FieldTraits,
        _ text: @autoclosure () -> String
    ) { append(Object.self, name) }

    mutating func object<Object: FieldObject>(
        _ name: String, _ value: inout Object?, _ traits: FieldTraits,
        _ text: @autoclosure () -> String
    ) { append(Object.self, name) }

    private mutating func append<Object: FieldObject>(_ type: Object.Type, _ name: String) {
        names.append(name)
        var collection = NameCollection()
        var object = Object()
        object.fields(&collection)
        inner += collection.names.map { (object: name, name: $0) }
    }
}
