/// What a key may do; each role includes the ones before it.
package enum Role: String, FieldChoice, Comparable {
    case viewer, client, admin

    private var rank: Int {
        switch self {
        case .viewer: 0
        case .client: 1
        case .admin: 2
        }
    }
    /// Orders roles by their rights.
    package static func < (a: Role, b: Role) -> Bool { a.rank < b.rank }
}

/// An API key without its secret text.
package struct APIKey: Sendable, Equatable {
    /// Tenant of keys that name none.
    package static let defaultTenant = "default"

    /// Returns `true` if a tenant may have this name; tenants are directories of the storage root.
    package static func isTenant(_ name: String) -> Bool {
        (1...Limits.nameByteCountMax).contains(name.utf8.count)
            && name.utf8.allSatisfy {
                (97...122).contains($0) || (48...57).contains($0) || $0 == UInt8(ascii: "-")
                    || $0 == UInt8(ascii: "_")
            }
    }

    /// Identifier of the key.
    package let id: KeyID
    /// Its tenant.
    package let tenant: String
    /// Its role.
    package let role: Role
    /// Name for people.
    package let name: String
    /// SHA-256 of the key's text.
    package let hash: [UInt8]
    /// Time of its creation.
    package let createdAt: Timestamp
    /// Time of its revocation, or `nil` if it is valid.
    package let revokedAt: Timestamp?

    /// Creates a key.
    package init(
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
package struct NewKey: Sendable {
    /// The key.
    package let key: APIKey
    /// `Idempotency-Key` of the request, or `nil`.
    package let idempotency: Submission.Idempotency?
    /// The key's text, encrypted, for the response to a repeated request; `nil` without an idempotency key.
    package let sealedText: [UInt8]?

    /// Creates a new key.
    package init(_ key: APIKey, idempotency: Submission.Idempotency? = nil, sealedText: [UInt8]? = nil) {
        self.key = key
        self.idempotency = idempotency
        self.sealedText = sealedText
    }
}

/// Result of the creation of a key.
package enum KeyCreation: Sendable {
    /// The key was stored.
    case made
    /// A request with the same idempotency key had created this one.
    case known(APIKey, sealedText: [UInt8])
}
