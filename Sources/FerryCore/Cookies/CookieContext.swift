/// When answers may set cookies (`HTTPCookie.AcceptPolicy`).
public enum CookieAcceptPolicy: String, FieldChoice {
    /// Always.
    case always
    /// Never. Cookies that are in the jar are still sent.
    case never
    /// Only if the request's host has the registrable domain of the main document. Always for requests
    /// without a main document.
    case onlyFromMainDocumentDomain = "only_from_main_document_domain"
}

/// A request, as far as cookies depend on it.
public struct CookieContext: Sendable {
    /// URL of the request.
    public let url: WebURL
    /// URL of the document for which the request is made (`main_document_url`); `nil` for a request of its
    /// own, which is same-site.
    public let mainDocument: WebURL?
    /// When the answer may set cookies.
    public let acceptPolicy: CookieAcceptPolicy
    /// Current time.
    public let now: Timestamp

    /// Creates a context.
    public init(
        url: WebURL, mainDocument: WebURL? = nil, acceptPolicy: CookieAcceptPolicy = .always, now: Timestamp
    ) {
        self.url = url
        self.mainDocument = mainDocument
        self.acceptPolicy = acceptPolicy
        self.now = now
    }

    /// `true` if the connection protects cookies (RFC 6265bis §5.8.3): https, and http to this machine.
    var isSecure: Bool {
        url.scheme == .https || (url.address?.isLoopback ?? HostName.isLocal(url.host))
    }

    /// Returns `true` if the request belongs to the site of its main document (RFC 6265bis §5.2).
    func isSameSite(_ suffixes: any PublicSuffixes) -> Bool {
        mainDocument.map { suffixes.areSameSite($0, url) } ?? true
    }

    /// Returns `true` if the policy lets the answer set cookies.
    func acceptsCookies(_ suffixes: any PublicSuffixes) -> Bool {
        switch acceptPolicy {
        case .always: true
        case .never: false
        case .onlyFromMainDocumentDomain: mainDocument.map { suffixes.haveSameDomain($0, url) } ?? true
        }
    }
}

extension WebURL {
    /// The host, and for a domain name each domain above it: the domains of cookies that requests of the URL
    /// may carry (RFC 6265bis §5.1.3).
    var cookieDomains: some Sequence<String> {
        sequence(first: host[...]) { [isName = address == nil] domain in
            guard isName, let dot = domain.firstIndex(ofByte: UInt8(ascii: ".")) else { return nil }
            let parent = domain[domain.utf8.index(after: dot)...]
            return parent.isEmpty ? nil : parent
        }.lazy.map(String.init)
    }
}

extension Cookie {
    /// Returns `true` if hosts of `string` are hosts of `domain` too (RFC 6265bis §5.1.3). `string`: a
    /// domain name in lower case, or an address if it equals `domain`.
    static func domain(_ string: String, matches domain: String) -> Bool {
        let text = string.utf8
        guard let dot = text.index(text.endIndex, offsetBy: ~domain.utf8.count, limitedBy: text.startIndex)
        else { return string == domain }
        return text[dot] == UInt8(ascii: ".") && text[dot...].dropFirst().elementsEqual(domain.utf8)
    }

    /// Returns `true` if the path of a request is the cookie's path or lies below it (RFC 6265bis §5.1.4).
    static func path(_ request: String, matches path: String) -> Bool {
        // Nearly all cookies have this path.
        if path.utf8.count == 1 { return request.utf8.first == path.utf8.first }
        // Both are in ASCII.
        guard request.hasPrefix(path) else { return false }
        let rest = request.utf8.dropFirst(path.utf8.count)
        return rest.isEmpty || path.utf8.last == UInt8(ascii: "/") || rest.first == UInt8(ascii: "/")
    }

    /// Returns the path of a cookie that names none (RFC 6265bis §5.1.4): that of the request without its
    /// last segment.
    static func defaultPath(_ request: String) -> String {
        guard let slash = request.utf8.lastIndex(of: UInt8(ascii: "/")), slash > request.startIndex else {
            return "/"
        }
        return String(request[..<slash])
    }
}
