/// Writes an object as JSON: every field with its effective value, as responses and webhooks show it.
public struct FieldEncoder: FieldVisitor {
    /// The JSON so far.
    public var writer: JSONWriter
    private let isRedacted: Bool
    /// `true` to leave out objects whose fields all have their default value.
    private let leavesOutDefaults: Bool

    init(_ writer: consuming JSONWriter, isRedacted: Bool, leavesOutDefaults: Bool) {
        self.writer = writer
        self.isRedacted = isRedacted
        self.leavesOutDefaults = leavesOutDefaults
    }

    public mutating func field<Value: FieldValue>(
        _ name: String, _ value: inout Value, _ rule: Value.Rule, _ traits: FieldTraits,
        _ text: @autoclosure () -> String
    ) {
        if traits.isWriteOnly || traits.isStoredOnly && !leavesOutDefaults { return }
        let isOptional =
            leavesOutDefaults || traits.isShownOnly || traits.isAlternative || traits.isAddition
        if isOptional && value.isLeftOut { return }
        writer.name(name)
        let isPlain = leavesOutDefaults && traits.isStoredPlain
        value.encode(into: &writer, isRedacted: isRedacted && !isPlain)
    }

    public mutating func object<Object: FieldObject>(
        _ name: String, _ value: inout Object, _ traits: FieldTraits,
        _ text: @autoclosure () -> String
    ) {
        if leavesOutDefaults, value == Object() { return }
        writer.name(name)
        if !leavesOutDefaults, let standard = Object.standardTexts, value == Object() {
            return writer.raw(standard.text(isRedacted: isRedacted))
        }
        writer.beginObject()
        value.fields(&self)
        writer.endObject()
    }

    public mutating func object<Object: FieldObject>(
        _ name: String, _ value: inout Object?, _ traits: FieldTraits,
        _ text: @autoclosure () -> String
    ) {
        guard var object = value else {
            if !leavesOutDefaults, !traits.isAddition { writer.member(name, .null) }
            return
        }
        writer.name(name)
        writer.beginObject()
        object.fields(&self)
        writer.endObject()
    }
}

/// An object with the default value of each field, as responses show it: most jobs name few fields, and are
/// shown with all of them.
public struct StandardTexts: Sendable {
    private let full: [UInt8]
    private let redacted: [UInt8]

    init(_ type: (some FieldObject).Type) {
        (full, redacted) = (Self.text(of: type, isRedacted: false), Self.text(of: type, isRedacted: true))
    }

    private static func text<Object: FieldObject>(of type: Object.Type, isRedacted: Bool) -> [UInt8] {
        var writer = JSONWriter()
        writer.beginObject()
        Object().writeFields(into: &writer, isRedacted: isRedacted)
        writer.endObject()
        return writer.bytes
    }

    /// `isRedacted`: `true` to hide what may be secret.
    func text(isRedacted: Bool) -> [UInt8] { isRedacted ? redacted : full }
}

extension FieldObject {
    /// Writes all fields into an open object. `isRedacted`: `true` to hide what may be secret.
    public func writeFields(into writer: inout JSONWriter, isRedacted: Bool) {
        write(into: &writer, isRedacted: isRedacted, leavesOutDefaults: false)
    }

    /// Writes into an open object what `restore` needs: without null, and without objects whose fields all
    /// have their default value. A change of a default value needs a version of the stored form, so that
    /// stored objects keep their values.
    public func storeFields(into writer: inout JSONWriter, isRedacted: Bool) {
        write(into: &writer, isRedacted: isRedacted, leavesOutDefaults: true)
    }

    /// Returns all fields as a JSON object, with what may be secret.
    public func encodeFields() -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: 320)
        writer.beginObject()
        writeFields(into: &writer, isRedacted: false)
        writer.endObject()
        return writer.bytes
    }

    private func write(into writer: inout JSONWriter, isRedacted: Bool, leavesOutDefaults: Bool) {
        var object = self
        var encoder = FieldEncoder(
            JSONWriter(reservingCapacity: 0), isRedacted: isRedacted, leavesOutDefaults: leavesOutDefaults)
        // Moved, since the text of a shared writer is copied by the next write.
        swap(&writer, &encoder.writer)
        object.fields(&encoder)
        swap(&writer, &encoder.writer)
    }
}
