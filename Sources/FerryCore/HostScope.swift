/// The requests to one origin about which Ferry decides together, from wide to narrow: all of them, those of one
/// tenant, or those of one tenant below one first path segment with the same credentials.
package struct HostScope: Hashable, Codable, Sendable {
    /// Empty: every tenant.
    package let tenant: String
    /// The first path segment and a hash of the credentials (`RequestScope.path`). Empty: every path.
    package let path: String

    /// Every request to the origin.
    package static let origin = HostScope(tenant: "", path: "")

    package init(tenant: String, path: String) {
        self.tenant = tenant
        self.path = path
    }

    package init(tenant: String) { self.init(tenant: tenant, path: "") }

    /// The next wider scope, or `nil` for the whole origin.
    package var wider: HostScope? {
        if !path.isEmpty { return HostScope(tenant: tenant) }
        return tenant.isEmpty ? nil : .origin
    }

    package var isOrigin: Bool { tenant.isEmpty }
}

/// The narrowest scope that requests share: one tenant, one origin, one first path segment, the same credentials.
package struct RequestScope: Hashable, Sendable {
    package let tenant: String
    /// `scheme://host:port`.
    package let origin: String
    /// The first path segment, and after `#` a hash of the credentials if there are any; at most
    /// `pathByteCountMax` bytes of the segment.
    package let path: String

    /// A longer segment is cut: what follows counts as the same path.
    package static let pathByteCountMax = 64

    package init(tenant: String, origin: String, path: String) {
        self.tenant = tenant
        self.origin = origin
        self.path = path
    }

    /// Its place among the scopes of its origin.
    package var scope: HostScope { HostScope(tenant: tenant, path: path) }

    /// The scopes that hold for its requests, the widest first.
    package var scopes: [HostScope] { [.origin, HostScope(tenant: tenant), scope] }
}
