/// URL of a proxy: `http://host:port`, `https://…` or `socks5://…`. The port is required, because curl and
/// the web use different defaults.
public struct ProxyURL: Sendable, Hashable {
    /// Protocol between the client and the proxy.
    public enum Scheme: String, Sendable, CaseIterable {
        case http, https, socks5

        /// The scheme among those of all addresses.
        public var endpoint: EndpointAddress.Scheme {
            switch self {
            case .http: .http
            case .https: .https
            case .socks5: .socks5
            }
        }
    }

    /// Reason for which a text is no proxy URL.
    public enum Failure: Error, Sendable, Equatable {
        case unsupportedScheme, userInformation, credentials, missingPort, path
        case invalid(WebURL.Failure)

        /// A sentence for the client.
        public var message: String {
            switch self {
            case .unsupportedScheme: "A proxy's URL begins with http://, https:// or socks5://."
            case .userInformation:
                "User name and password may not be part of the URL; give them as user and password."
            case .credentials: "Its user name and password must be percent-encoded UTF-8."
            case .missingPort: "A proxy's URL names its port, such as http://proxy.example:3128."
            case .path: "A proxy's URL ends with its port."
            case .invalid(let failure): failure.message
            }
        }
    }

    /// Protocol of the proxy.
    public let scheme: Scheme
    /// The proxy's server.
    public let endpoint: EndpointAddress

    /// Reads a URL without user information. `socks5h` is read as `socks5`, since the proxy resolves names in
    /// both cases.
    public init(_ text: String) throws(Failure) {
        let parts = try Self.parts(text)
        guard parts.user == nil else { throw .userInformation }
        self = parts.url
    }

    /// Reads a URL with percent-encoded `user:password@` before the host (RFC 3986 §3.2.1).
    public static func withCredentials(
        _ text: String
    ) throws(Failure) -> (url: ProxyURL, user: String?, password: String?) {
        let parts = try parts(text)
        guard let information = parts.user else { return (parts.url, nil, nil) }
        let words = information.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        guard let user = decodedCredential(words[0]), !user.isEmpty,
            let password = decodedCredential(words.count > 1 ? words[1] : "")
        else { throw .credentials }
        return (parts.url, user, password)
    }

    private static func parts(_ text: String) throws(Failure) -> (url: ProxyURL, user: Substring?) {
        guard let mark = text.firstRange(of: "://") else { throw .unsupportedScheme }
        let name = text[..<mark.lowerBound].lowercased()
        guard let scheme = name == "socks5h" ? .socks5 : Scheme(rawValue: name) else {
            throw .unsupportedScheme
        }
        let rest = text[mark.upperBound...]
        var authority = rest.prefix { !"/?#".contains($0) }
        let path = rest[authority.endIndex...]
        guard path.isEmpty || path == "/" else { throw .path }
        var user: Substring?
        if let at = authority.lastIndex(of: "@") {
            user = authority[..<at]
            authority = authority[authority.index(after: at)...]
        }
        guard let colon = authority.lastIndex(of: ":"), !authority[colon...].contains("]") else {
            throw .missingPort
        }
        return (try ProxyURL(scheme, authority), user)
    }

    /// Value of a proxy whose URL is not read yet.
    static let unknown = ProxyURL()

    private init() { (scheme, endpoint) = (.http, WebURL.unknown.endpoint) }

    private init(_ scheme: Scheme, _ authority: Substring) throws(Failure) {
        self.scheme = scheme
        do throws(WebURL.Failure) {
            let place = try WebURL.parse("http://\(authority)/")
            endpoint = EndpointAddress(
                scheme: scheme.endpoint, host: place.host, port: place.port, address: place.address)
        } catch {
            throw .invalid(error)
        }
    }

    /// The normalised URL with its port.
    public var string: String { "\(scheme.rawValue)://\(endpoint.host):\(endpoint.port)" }
}

private func decodedCredential(_ text: Substring) -> String? {
    percentDecoded(text).flatMap { String(validating: $0, as: UTF8.self) }
}

/// Hosts that are connected without the proxy (`no_proxy`).
public struct ProxyBypass: Sendable, Equatable {
    /// Entries as written: `*`, a name with all names below it, an address, or a network.
    public let entries: [String]
    /// The host of each entry as `WebURL.host` spells it; `nil` for an entry that is no name.
    private let names: [String?]

    /// Creates a list of entries, which must be valid.
    public init(_ entries: [String] = []) {
        self.entries = entries
        names = entries.map(Self.name)
    }

    /// Returns `true` if the entry is valid.
    public static func isEntry(_ text: String) -> Bool {
        text == "*" || IPNetwork(cidr: text) != nil || name(text) != nil
    }

    /// Returns the name of an entry without the dot before it; `nil` if it is no name.
    private static func name(_ entry: String) -> String? {
        let name = entry.hasPrefix(".") ? entry.dropFirst() : entry[...]
        guard let host = HostReference(String(name)), host.scheme == nil, host.port == nil,
            name.utf8.last != UInt8(ascii: "/")
        else { return nil }
        return host.host
    }

    /// Returns `true` if an entry contains the URL's host.
    public func contains(_ url: WebURL) -> Bool {
        zip(entries, names).contains { entry, name in
            if entry == "*" { return true }
            if let address = url.address {
                return IPNetwork(cidr: entry)?.contains(address.canonical) ?? false
            }
            guard let name else { return false }
            let host = url.host.hasSuffix(".") ? String(url.host.dropLast()) : url.host
            return host == name || host.hasSuffix("." + name)
        }
    }
}
