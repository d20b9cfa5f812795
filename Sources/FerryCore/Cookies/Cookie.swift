/// A cookie in a jar (RFC 6265bis §5.7). Its name and value are secrets: descriptions leave them out.
public struct Cookie: Sendable, Equatable {
    /// Requests of other sites that carry the cookie (RFC 6265bis §5.6.7).
    public enum SameSite: String, FieldChoice {
        /// All requests: `SameSite=None`.
        case unrestricted = "none"
        /// None but navigations, which jobs are not.
        case lax
        /// None.
        case strict
    }

    /// Name as the server sent its octets. Empty for a cookie without a name.
    public var name: [UInt8]
    /// Value as the server sent its octets.
    public var value: [UInt8]
    /// Host that gets the cookie, or the parent domain of all hosts that do; as `WebURL` spells hosts.
    public var domain: String
    /// `true` if only the host `domain` gets the cookie, and not the hosts below it.
    public var isHostOnly: Bool
    /// Path, in ASCII, below which requests carry the cookie. Begins with a slash.
    public var path: String
    /// Time from which the cookie is gone; `nil` for a session cookie.
    public var expiresAt: Timestamp?
    /// `true` if only secure requests carry the cookie.
    public var isSecure: Bool
    /// `true` if the cookie is for HTTP alone, and not for scripts in browsers.
    public var isHTTPOnly: Bool
    /// Requests of other sites that carry the cookie; `nil` if the server named none, which means `lax`.
    public var sameSite: SameSite?
    /// Time when the cookie was first set. Kept when a later answer sets the cookie again.
    public var createdAt: Timestamp
    /// Time of the last request that carried the cookie, or of the answer that set it.
    public var lastAccessAt: Timestamp

    /// Creates a cookie. The jar checks it.
    public init(
        name: [UInt8], value: [UInt8], domain: String, isHostOnly: Bool, path: String = "/",
        expiresAt: Timestamp? = nil, isSecure: Bool = false, isHTTPOnly: Bool = false,
        sameSite: SameSite? = nil, createdAt: Timestamp, lastAccessAt: Timestamp
    ) {
        self.name = name
        self.value = value
        self.domain = domain
        self.isHostOnly = isHostOnly
        self.path = path
        self.expiresAt = expiresAt
        self.isSecure = isSecure
        self.isHTTPOnly = isHTTPOnly
        self.sameSite = sameSite
        self.createdAt = createdAt
        self.lastAccessAt = lastAccessAt
    }

    /// Identity of a cookie in its jar (RFC 6265bis §5.7, step 23).
    public struct Key: Hashable, Sendable {
        /// Host or parent domain.
        public let domain: String
        /// Path.
        public let path: String
        /// Name.
        public let name: [UInt8]
        /// `true` if hosts below the domain do not get the cookie.
        public let isHostOnly: Bool

        /// Creates a key.
        public init(name: [UInt8], domain: String, isHostOnly: Bool, path: String) {
            self.name = name
            self.domain = domain
            self.isHostOnly = isHostOnly
            self.path = path
        }
    }

    /// Identity of the cookie.
    public var key: Key { Key(name: name, domain: domain, isHostOnly: isHostOnly, path: path) }

    /// Estimate of the memory that the cookie uses in a jar, in bytes.
    public var byteCount: Int {
        256 + name.count + value.count + domain.utf8.count + path.utf8.count
    }

    /// Returns `true` if the cookie's time is over.
    public func isExpired(at now: Timestamp) -> Bool { expiresAt.map { $0 <= now } ?? false }
}

extension Cookie: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The domain and path alone.
    public var description: String { "a cookie of \(domain)\(path)" }
    public var debugDescription: String { description }
    public var customMirror: Mirror { Mirror(self, children: []) }
}

extension Cookie.Key: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The domain and path alone.
    public var description: String { "a cookie of \(domain)\(path)" }
    public var debugDescription: String { description }
    public var customMirror: Mirror { Mirror(self, children: []) }
}

extension Cookie.Key: Comparable {
    /// Orders keys by domain, path, name, and the flag.
    public static func < (a: Self, b: Self) -> Bool {
        if a.domain != b.domain { return a.domain < b.domain }
        if a.path != b.path { return a.path < b.path }
        if a.name != b.name { return a.name.lexicographicallyPrecedes(b.name) }
        return !a.isHostOnly && b.isHostOnly
    }
}
