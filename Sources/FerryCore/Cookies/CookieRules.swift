extension Cookie {
    /// Reason for which a cookie is not stored.
    public enum Failure: Error, Sendable, Equatable {
        case empty, tooLong, invalidCharacter, invalidDomain, publicSuffix, invalidPath, restrictedPrefix
        case unrestrictedWithoutSecure

        /// A sentence for the client.
        public var message: String {
            switch self {
            case .empty: "A cookie has a name or a value."
            case .tooLong:
                "Name and value of a cookie may have at most \(Limits.cookieByteCountMax) bytes together."
            case .invalidCharacter:
                "Names and values may have no control characters and no semicolon, names no equals sign, and "
                    + "neither may begin or end with a space or a tab."
            case .invalidDomain: "The domain must be a host name or an IP address."
            case .publicSuffix:
                "Different organizations share this domain (publicsuffix.org); only a host-only cookie may "
                    + "have it."
            case .invalidPath:
                "The path must begin with a slash and have at most \(Limits.cookieAttributeByteCountMax) "
                    + "ASCII characters, without control characters and semicolons."
            case .restrictedPrefix:
                "A name that begins with __Secure- needs Secure; __Http- needs HttpOnly as well; __Host- "
                    + "needs Secure, the path / and no other hosts than its own. A value without a name may "
                    + "not begin like this."
            case .unrestrictedWithoutSecure: "SameSite=None needs Secure."
            }
        }
    }

    /// Throws if no answer could have set the cookie (RFC 6265bis §5.6 and §5.7).
    func check(_ suffixes: any PublicSuffixes) throws(Failure) {
        if name.isEmpty, value.isEmpty { throw .empty }
        guard name.count + value.count <= Limits.cookieByteCountMax else { throw .tooLong }
        guard Self.isText(name), Self.isText(value), !name.contains(UInt8(ascii: "=")) else {
            throw .invalidCharacter
        }
        // An error of the parser means that the domain is no host.
        guard let (host, address) = try? HostName.parse(domain[...]), host == domain else {
            throw .invalidDomain
        }
        if !isHostOnly, address == nil, suffixes.isPublicSuffix(domain) { throw .publicSuffix }
        guard path.utf8.first == UInt8(ascii: "/"), path.utf8.count <= Limits.cookieAttributeByteCountMax,
            path.utf8.allSatisfy({ $0 < 0x80 && $0 != UInt8(ascii: ";") && !Self.isControl($0) })
        else { throw .invalidPath }
        guard hasRightsOfPrefix else { throw .restrictedPrefix }
        if sameSite == .unrestricted, !isSecure { throw .unrestrictedWithoutSecure }
    }

    private static func isText(_ text: [UInt8]) -> Bool {
        let isSpace = { (byte: UInt8?) in byte == 0x20 || byte == 0x09 }
        return !isSpace(text.first) && !isSpace(text.last)
            && !text.contains { isControl($0) || $0 == UInt8(ascii: ";") }
    }

    /// `true` if the cookie has the properties that the prefix of its name promises (RFC 6265bis §5.4;
    /// `__Http-` and `__Host-Http-` of draft-ietf-httpbis-layered-cookies §5.6.3). Without a name, the value
    /// must not look like a name with a prefix.
    private var hasRightsOfPrefix: Bool {
        let start = (name.isEmpty ? value : name).prefix(12).map(lowerCased)
        let begins = { (prefix: String) in start.starts(with: prefix.utf8) }
        let isOfHost = begins("__host-")
        let isOfHTTP = begins("__http-") || begins("__host-http-")
        guard isOfHost || isOfHTTP || begins("__secure-") else { return true }
        return !name.isEmpty && isSecure && (!isOfHTTP || isHTTPOnly)
            && (!isOfHost || isHostOnly && path == "/")
    }

    /// Returns `true` if the name begins with `__Host-`, in any case.
    fileprivate var isOfHost: Bool { name.prefix(7).map(lowerCased).elementsEqual("__host-".utf8) }
}

extension SetCookie {
    /// Returns the cookie that an answer to a request sets, or `nil` if it is ignored (RFC 6265bis §5.7,
    /// steps 5 to 22 without 16, which depends on the jar).
    func cookie(_ context: CookieContext, _ suffixes: any PublicSuffixes, now: Timestamp) -> Cookie? {
        let url = context.url
        var cookie = Cookie(
            name: name, value: value, domain: url.host, isHostOnly: true,
            path: Cookie.defaultPath(url.path), expiresAt: expiresAt, isSecure: isSecure,
            isHTTPOnly: isHTTPOnly, sameSite: sameSite, createdAt: now, lastAccessAt: now)
        if let domain, !domain.isEmpty {
            guard let domain = String(validating: domain, as: UTF8.self),
                let isHostOnly = Self.isHostOnly(domain, url, suffixes)
            else { return nil }
            (cookie.domain, cookie.isHostOnly) = (domain, isHostOnly)
        }
        if let path {
            // Paths of requests are in ASCII, so no request carries a cookie with any other path.
            guard path.allSatisfy({ $0 < 0x80 }) else { return nil }
            cookie.path = String(decoding: path, as: UTF8.self)
        } else if cookie.isOfHost {
            return nil
        }
        if isSecure, !context.isSecure { return nil }
        if sameSite != .unrestricted, !context.isSameSite(suffixes) { return nil }
        do throws(Cookie.Failure) {
            try cookie.check(suffixes)
        } catch {
            return nil
        }
        return cookie
    }

    /// Returns whether a cookie of a domain is for the request's host alone; `nil` if the host may not set
    /// it.
    private static func isHostOnly(
        _ domain: String, _ url: WebURL, _ suffixes: any PublicSuffixes
    ) -> Bool? {
        if domain == url.host { return url.address == nil && suffixes.isPublicSuffix(domain) }
        guard url.address == nil, Cookie.domain(url.host, matches: domain), !suffixes.isPublicSuffix(domain)
        else { return nil }
        return false
    }
}
