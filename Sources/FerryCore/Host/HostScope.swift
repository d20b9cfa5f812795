/// The requests to one origin that share a decision of host control, from wide to narrow: all of them; those
/// of one tenant; those of one tenant below one first path segment with the same credentials.
public struct HostScope: Hashable, Codable, Sendable {
    /// Tenant; empty for all tenants.
    public let tenant: String
    /// First path segment and a hash of the credentials (`RequestScope.path`); empty for all paths.
    public let path: String

    /// All requests to the origin.
    public static let origin = HostScope(tenant: "", path: "")

    /// Creates the scope of a path.
    public init(tenant: String, path: String) {
        self.tenant = tenant
        self.path = path
    }

    /// Creates the scope of a tenant.
    public init(tenant: String) { self.init(tenant: tenant, path: "") }

    /// The next wider scope, or `nil` for the whole origin.
    public var wider: HostScope? {
        if !path.isEmpty { return HostScope(tenant: tenant) }
        return tenant.isEmpty ? nil : .origin
    }

    /// `true` for the whole origin.
    public var isOrigin: Bool { tenant.isEmpty }

    /// Returns `true` if the scope contains requests of the tenant below the path.
    public func contains(tenant: String, path: String) -> Bool {
        isOrigin || self.tenant == tenant && (self.path.isEmpty || self.path == path)
    }
}

/// A scope with its origin.
public struct OriginScope: Hashable, Sendable {
    /// `scheme://host:port`.
    public let origin: String
    /// The scope.
    public let scope: HostScope

    /// Creates a scope with its origin.
    public init(origin: String, scope: HostScope) {
        self.origin = origin
        self.scope = scope
    }
}

/// The narrowest scope of a request: one tenant, one origin, one first path segment, the same credentials.
public struct RequestScope: Hashable, Sendable {
    /// Tenant.
    public let tenant: String
    /// `scheme://host:port`.
    public let origin: String
    /// First path segment of at most `pathByteCountMax` bytes, and after `#` a hash of the credentials if
    /// there are any.
    public let path: String

    /// Bytes of a segment; longer ones are cut, and what they begin with counts as the path.
    public static let pathByteCountMax = 64

    /// Creates a scope.
    public init(tenant: String, origin: String, path: String) {
        self.tenant = tenant
        self.origin = origin
        self.path = path
    }

    /// Returns the path of a request to `url`, a URL as `WebURL.string` spells it. `credentials`: hash of the
    /// request's credentials, or `nil` if it sends none.
    public static func path(ofURL url: String, credentials: String?) -> String {
        // After `scheme://authority`.
        var slashCount = 0
        let start = url.utf8.firstIndex { byte in
            if byte == UInt8(ascii: "/") { slashCount += 1 }
            return slashCount == 3
        }
        let segment = start.map { firstSegment(url.utf8[url.utf8.index(after: $0)...]) } ?? "/"
        return credentials.map { "\(segment)#\($0)" } ?? segment
    }

    /// Returns the path of a request to `url`. `credentials`: as above.
    public static func path(of url: WebURL, credentials: String?) -> String {
        let segment = firstSegment(url.path.utf8.dropFirst())
        return credentials.map { "\(segment)#\($0)" } ?? segment
    }

    /// Returns the first path segment. `path`: what follows the first slash.
    private static func firstSegment(_ path: Substring.UTF8View) -> String {
        let end = path.firstIndex {
            $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "?") || $0 == UInt8(ascii: "#")
        }
        let segment = path[..<(end ?? path.endIndex)].prefix(pathByteCountMax)
        return "/" + String(Substring(segment))
    }

    /// Returns the hash of the credentials in `path`, or `nil` if there are none.
    public static func credentials(in path: String) -> String? {
        path.utf8.firstIndex(of: UInt8(ascii: "#")).map { String(path[path.utf8.index(after: $0)...]) }
    }

    /// The scope among those of its origin.
    public var scope: HostScope { HostScope(tenant: tenant, path: path) }

    /// The scopes whose limits apply to its requests, the widest first.
    public var scopes: [HostScope] { [.origin, HostScope(tenant: tenant), scope] }
}
