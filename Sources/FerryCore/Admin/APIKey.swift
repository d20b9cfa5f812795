/// Permissions of a key; each role includes the ones before it.
public enum Role: String, FieldChoice, Comparable {
    case viewer, client, admin

    private var rank: Int {
        switch self {
        case .viewer: 0
        case .client: 1
        case .admin: 2
        }
    }
    /// Orders roles by their rights.
    public static func < (a: Role, b: Role) -> Bool { a.rank < b.rank }
}

/// An API key without its secret text.
public struct APIKey: Sendable, Equatable {
    /// Tenant of keys that name none.
    public static let defaultTenant = "default"

    /// Returns `true` if a tenant may have this name; tenants are directories of the storage root.
    public static func isTenant(_ name: String) -> Bool {
        (1...Limits.nameByteCountMax).contains(name.utf8.count)
            && name.utf8.allSatisfy {
                (97...122).contains($0) || (48...57).contains($0) || $0 == UInt8(ascii: "-")
                    || $0 == UInt8(ascii: "_")
            }
    }

    /// Identifier of the key.
    public let id: KeyID
    /// Its tenant.
    public let tenant: String
    /// Its role.
    public let role: Role
    /// Name for people.
    public let name: String
    /// SHA-256 of the key's text.
    public let hash: [UInt8]
    /// Time of its creation.
    public let createdAt: Timestamp
    /// Time of its revocation, or `nil` if it is valid.
    public let revokedAt: Timestamp?

    /// Creates a key.
    public init(
        id: KeyID, tenant: String = APIKey.defaultTenant, role: Role, name: String, hash: [UInt8],
        createdAt: Timestamp, revokedAt: Timestamp? = nil
    ) {
        self.id = id
        self.tenant = tenant
        self.role = role
        self.name = name
        self.hash = hash
        self.createdAt = createdAt
        self.revokedAt = revokedAt
    }
}

/// A key to be stored.
public struct NewKey: Sendable {
    /// The key.
    public let key: APIKey
    /// `Idempotency-Key` of the request, or `nil`.
    public let idempotency: Submission.Idempotency?
    /// The key's text, encrypted, for the response to a repeated request; `nil` without an idempotency key.
    public let sealedText: [UInt8]?

    /// Creates a new key.
    public init(_ key: APIKey, idempotency: Submission.Idempotency? = nil, sealedText: [UInt8]? = nil) {
        self.key = key
        self.idempotency = idempotency
        self.sealedText = sealedText
    }
}

/// Result of the creation of a key.
public enum KeyCreation: Sendable {
    /// The key was stored.
    case made
    /// A request with the same idempotency key had created this one.
    case known(APIKey, sealedText: [UInt8])
}

extension Role: ShownValue {}
