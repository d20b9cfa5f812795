/// An object that a column of a job's row has: its response, result or error.
public protocol StoredFields: FieldObject {}

/// A stored object of which values may be secret.
public protocol SealedFields: StoredFields {
    /// The values that may be secret, as members of a merge patch of the stored form; empty if there are
    /// none.
    var secretMembers: [JSON.Member] { get }
}

/// An object and its stored form. The form is made once, and shared by all that write it; the object of a row
/// is decoded where it is used. Any thread.
public final class Stored<Object: StoredFields>: Sendable {
    /// The stored form.
    public let json: [UInt8]
    /// The object with its secret values, or `nil` if it comes from a row.
    private let object: Object?

    /// Creates the object of a row.
    public init(json: [UInt8]) {
        self.json = json
        object = nil
    }

    /// Makes the stored form of an object without secrets.
    public convenience init(_ object: Object) { self.init(object, sealing: [], nil) }

    private init(_ object: Object, sealing secrets: [JSON.Member], _ seal: SecretSeal?) {
        self.object = object
        var writer = JSONWriter(reservingCapacity: 1_024)
        writer.beginObject()
        if let seal, !secrets.isEmpty { SealedDocument.write(.object(secrets), seal, into: &writer) }
        object.storeFields(into: &writer, isRedacted: !secrets.isEmpty)
        writer.endObject()
        json = writer.bytes
    }

    /// Returns the object. Values that may be secret may be redacted. Throws if the stored form is damaged.
    public func read() throws(StoredJSONError) -> Object {
        if let object { return object }
        return try Object(restoring: StoredObject(json))
    }
}

extension Stored where Object: SealedFields {
    /// Makes the stored form of an object: a `SealedDocument` if values may be secret. `seal` encrypts them.
    public convenience init(_ object: Object, _ seal: SecretSeal) {
        self.init(object, sealing: object.secretMembers, seal)
    }

    /// Returns the object with its secret values. Throws if the stored form is damaged or cannot be
    /// decrypted.
    public func read(opening seal: SecretSeal) throws(StoredJSONError) -> Object {
        if let object { return object }
        return try Object(restoring: StoredObject(json, opening: seal))
    }
}

extension Stored: Equatable {
    /// Stored forms are compared.
    public static func == (a: Stored, b: Stored) -> Bool { a.json == b.json }
}
