/// Selects cookies of a jar. A condition that is `nil` holds for all of them.
public struct CookieFilter: Sendable {
    /// Name.
    public var name: [UInt8]?
    /// Host that gets the cookies, as `WebURL` spells hosts (RFC 6265bis §5.1.3).
    public var host: String?
    /// Path of the cookies themselves.
    public var path: String?
    /// Earliest creation time.
    public var since: Timestamp?

    /// Creates a filter. `domain`: host that gets the cookies, in any spelling; a dot in front is ignored.
    public init(
        name: [UInt8]? = nil, domain: String? = nil, path: String? = nil, since: Timestamp? = nil
    ) {
        self.name = name
        host = domain.map(Cookie.canonicalDomain)
        self.path = path
        self.since = since
    }

    /// Selects all cookies.
    public static let all = CookieFilter()

    /// Returns `true` if all conditions hold.
    public func matches(_ cookie: Cookie) -> Bool {
        if let name, name != cookie.name { return false }
        if let path, path != cookie.path { return false }
        if let since, cookie.createdAt < since { return false }
        guard let host, host != cookie.domain else { return true }
        return !cookie.isHostOnly && Cookie.domain(host, matches: cookie.domain)
    }
}

extension Cookie {
    /// Returns a domain as `WebURL` spells hosts, without a dot in front. A text that is no host is returned
    /// in lower case.
    static func canonicalDomain(_ text: String) -> String {
        let name = text.utf8.first == UInt8(ascii: ".") ? text.dropFirst() : text[...]
        // The text of an invalid host matches no cookie and is refused by `check`.
        return (try? HostName.parse(name))?.0 ?? name.lowercased()
    }
}
