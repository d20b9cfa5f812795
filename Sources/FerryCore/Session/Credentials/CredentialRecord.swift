/// A credential of a session as it is stored. Immutable.
public final class CredentialRecord: Sendable {
    /// Name of the credential in its session.
    public let name: String
    /// Revision; grows with each change.
    public let revision: Int32
    /// Times of creation and of the last change.
    public let createdAt: Timestamp
    public let updatedAt: Timestamp
    /// The credential without its secrets.
    public let credential: SessionCredential
    /// Its password or token, or `nil` if it cannot be decrypted: no job uses it then.
    public let secrets: JobSecrets?

    /// Creates a record.
    public init(
        _ name: String, revision: Int32, createdAt: Timestamp, updatedAt: Timestamp,
        credential: SessionCredential, secrets: JobSecrets?
    ) {
        self.name = name
        self.revision = revision
        self.createdAt = createdAt
        self.updatedAt = updatedAt
        self.credential = credential
        self.secrets = secrets
    }

    /// Returns `true` if a client gives what is stored.
    public func isIdentical(to draft: CredentialDraft) -> Bool {
        secrets?.isIdentical(to: draft.secrets) == true && credential == draft.credential
    }
}

extension CredentialRecord: ShownObject {
    public static let summary = "A credential of a session, without its secrets."
    public static let schemaName = "SessionCredential"

    public static func members(_ list: inout some MemberVisitor<CredentialRecord>) {
        list.member("name", \.name, "Name of the credential in its session.")
        list.member("revision", \.revision, "Grows with each change.", [.minimum(1)])
        list.member("created_at", \.createdAt, "Time of the creation.")
        list.member("updated_at", \.updatedAt, "Time of the last change.")
        list.fields(\.credential)
    }
}

/// A credential as a client gives it.
public struct CredentialDraft: Sendable {
    /// The credential without its secrets, and these.
    public let credential: SessionCredential
    public let secrets: JobSecrets
    /// `secrets`, encrypted.
    public let sealedSecrets: [UInt8]

    /// Creates a draft.
    public init(_ credential: SessionCredential, _ secrets: JobSecrets, sealedSecrets: [UInt8]) {
        self.credential = credential
        self.secrets = secrets
        self.sealedSecrets = sealedSecrets
    }

    /// Reads and validates a credential. Throws all errors at once. `seal`: encrypts secrets.
    public init(
        _ json: JSONView, node: NodeAbilities = NodeAbilities(), seal: ([UInt8]) -> [UInt8]
    ) throws(InvalidFields) {
        var credential = try SessionCredential(body: json, FieldContext(node: node))
        var texts = ConnectionSecrets()
        texts.password = credential.password.take()
        texts.token = credential.token.take()
        var secrets = JobSecrets()
        secrets.connection = texts
        self.init(credential, secrets, sealedSecrets: seal(secrets.encode()))
    }
}

extension SessionCredential {
    /// The stored form, without secrets.
    public var encodedStored: [UInt8] {
        var writer = JSONWriter(reservingCapacity: 256)
        writer.beginObject()
        writeFields(into: &writer, isRedacted: false)
        writer.endObject()
        return writer.bytes
    }

    /// Reads what `encodedStored` returned.
    public init(storedJSON: [UInt8]) throws(StoredJSONError) {
        try self.init(restoring: try StoredObject(storedJSON))
    }
}
