/// The requests to one origin about which Ferry decides together, from wide to narrow: all of them, those of
/// one tenant, or those of one tenant below one first path segment with the same credentials.
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

    /// Whether requests of the tenant below the path are in the scope.
    package func contains(tenant: String, path: String) -> Bool {
        isOrigin || self.tenant == tenant && (self.path.isEmpty || self.path == path)
    }
}

/// A scope with its origin.
package struct OriginScope: Hashable, Sendable {
    /// `scheme://host:port`.
    package let origin: String
    package let scope: HostScope

    package init(origin: String, scope: HostScope) {
        self.origin = origin
        self.scope = scope
    }
}

/// The narrowest scope that requests share: one tenant, one origin, one first path segment, the same
/// credentials.
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

    /// The path of a request to `url`, a URL as `WebURL.string` spells it. `credentials`: a hash of what the
    /// request authenticates with, or `nil` if it sends no credentials.
    package static func path(ofURL url: String, credentials: String?) -> String {
        let bytes = url.utf8
        // After `scheme://authority`.
        var index = bytes.startIndex
        var slashCount = 0
        while index < bytes.endIndex, slashCount < 3 {
            if bytes[index] == UInt8(ascii: "/") { slashCount += 1 }
            bytes.formIndex(after: &index)
        }
        var path: [UInt8] = [UInt8(ascii: "/")]
        while index < bytes.endIndex, path.count <= pathByteCountMax {
            let byte = bytes[index]
            if byte == UInt8(ascii: "/") || byte == UInt8(ascii: "?") || byte == UInt8(ascii: "#") { break }
            path.append(byte)
            bytes.formIndex(after: &index)
        }
        let segment = String(decoding: path, as: UTF8.self)
        return credentials.map { "\(segment)#\($0)" } ?? segment
    }

    /// The hash of the credentials that `path` names, or `nil` if it names none.
    package static func credentials(in path: String) -> String? {
        path.firstIndex(of: "#").map { String(path[path.index(after: $0)...]) }
    }

    /// Its place among the scopes of its origin.
    package var scope: HostScope { HostScope(tenant: tenant, path: path) }

    /// The scopes that hold for its requests, the widest first.
    package var scopes: [HostScope] { [.origin, HostScope(tenant: tenant), scope] }
}

extension JobSecrets {
    /// What a request authenticates with, for a hash: secret header fields, password, token and client key.
    /// `nil` if it sends no credentials.
    package var credentialBytes: [UInt8]? {
        let connection = connection
        let others = [connection?.password, connection?.token, connection?.clientKey]
        guard !headers.isEmpty || others.contains(where: { $0 != nil }) else { return nil }
        var bytes: [UInt8] = []
        for part in headers.flatMap({ [$0.name.lowercased(), $0.value] }) + others.map({ $0 ?? "" }) {
            bytes.append(contentsOf: part.utf8)
            bytes.append(0)
        }
        return bytes
    }
}
