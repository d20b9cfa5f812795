/// What a key may do; each role may do what the ones before it may.
package enum Role: String, Sendable, CaseIterable, Comparable {
    case viewer, client, admin

    private var rank: Int {
        switch self {
        case .viewer: 0
        case .client: 1
        case .admin: 2
        }
    }
    package static func < (a: Role, b: Role) -> Bool { a.rank < b.rank }
}

/// An API key without the key itself.
package struct APIKey: Sendable, Equatable {
    /// The tenant of keys that name none.
    package static let defaultTenant = "default"

    /// Whether a tenant may have this name: tenants are directories in the storage root.
    package static func isTenant(_ name: String) -> Bool {
        (1...Limits.nameByteCountMax).contains(name.utf8.count)
            && name.utf8.allSatisfy {
                (97...122).contains($0) || (48...57).contains($0) || $0 == UInt8(ascii: "-")
                    || $0 == UInt8(ascii: "_")
            }
    }

    package let id: KeyID
    package let tenant: String
    package let role: Role
    package let name: String
    /// SHA-256 of the key.
    package let hash: [UInt8]
    package let createdAt: Timestamp
    package let revokedAt: Timestamp?

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

/// A key that is to be kept.
package struct NewKey: Sendable {
    package let key: APIKey
    package let idempotency: Submission.Idempotency?
    /// The key itself, sealed, for the answers to the same request again; nil without an idempotency key.
    package let sealedText: [UInt8]?

    package init(_ key: APIKey, idempotency: Submission.Idempotency? = nil, sealedText: [UInt8]? = nil) {
        self.key = key
        self.idempotency = idempotency
        self.sealedText = sealedText
    }
}

/// What became of a new key.
package enum KeyCreation: Sendable {
    case made
    /// The first request with the same idempotency key made this one.
    case known(APIKey, sealedText: [UInt8])
}
