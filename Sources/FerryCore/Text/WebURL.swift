/// An absolute `http` or `https` URL (RFC 3986), parsed once and strictly, so that libcurl and the egress
/// policy read it in the same way.
///
/// Normalised as in the URL standard (WHATWG URL §4.4): no spaces at the ends, scheme and host in lower case,
/// the host in ASCII, addresses in one form, no dot segments, no fragment, spaces and bytes beyond ASCII
/// percent-encoded. In a text that a client gives, so are characters that no URL may contain (`isUnwise`).
public struct WebURL: Sendable, Hashable, CustomStringConvertible {
    /// Scheme of a URL.
    public enum Scheme: String, Sendable, CaseIterable {
        case http, https
        /// Port of URLs without one.
        public var defaultPort: UInt16 { self == .http ? 80 : 443 }

        /// Reads a scheme in any case (RFC 3986 §3.1).
        fileprivate init?(_ name: Substring) {
            if name == "https" {
                self = .https
            } else if name == "http" {
                self = .http
            } else {
                self.init(rawValue: name.lowercased())
            }
        }
    }

    /// Reason for which a text is no accepted URL.
    public enum Failure: Error, Sendable, Equatable {
        case tooLong, controlCharacter, notAbsolute, unsupportedScheme, userInformation, emptyHost,
            invalidInternationalHost
        case zoneIdentifier, invalidHost, invalidPort

        /// A sentence for the client.
        public var message: String {
            switch self {
            case .tooLong: "A URL may have at most \(Limits.urlByteCountMax) bytes."
            case .controlCharacter:
                "A URL may not contain control characters, such as tabs and line breaks."
            case .notAbsolute: "The URL must be absolute: https://host/path."
            case .unsupportedScheme: "Only http and https URLs are supported."
            case .userInformation:
                "User name and password may not be part of the URL; send an Authorization header instead."
            case .emptyHost: "The URL names no host."
            case .invalidInternationalHost:
                "The host has characters that no internationalized domain name has (UTS #46)."
            case .zoneIdentifier: "An IPv6 address may not have a zone identifier."
            case .invalidHost: "The host is neither a domain name nor an IP address."
            case .invalidPort: "The port must be a number from 1 to 65535."
            }
        }
    }

    /// Scheme.
    public let scheme: Scheme
    /// Host in lower case and ASCII. An address has one form: `127.0.0.1` for `127.1`, `[::1]` for
    /// `[0:0::1]`.
    public let host: String
    /// Port that is connected, written or default.
    public let port: UInt16
    /// Percent-encoded path with its leading slash.
    public let path: String
    /// Query without its question mark, or `nil` if there is none.
    public let query: String?
    /// The address if the host is one, else `nil`.
    public let address: IPAddress?
    /// `scheme://host:port`, always with the port.
    public let origin: String
    /// The whole URL, without a default port.
    public let string: String

    /// Value of a URL that is not read yet; it has no host.
    public static let unknown = WebURL()

    private init() {
        (scheme, host, port, path, query, address) = (.http, "", 0, "", nil, nil)
        (origin, string) = ("http://:0", "http://:0")
    }

    /// Reads an absolute URL. Drops a fragment.
    public static func parse(_ text: String) throws(Failure) -> WebURL {
        try parse(text, byteCountMax: Limits.urlByteCountMax)
    }

    /// Reads an absolute URL with another limit of its length.
    static func parse(_ text: String, byteCountMax: Int) throws(Failure) -> WebURL {
        guard text.utf8.count <= byteCountMax else { throw .tooLong }
        let parts = Reference(try withoutOuterSpaces(text))
        guard let name = parts.scheme else { throw .notAbsolute }
        guard let scheme = Scheme(name) else { throw .unsupportedScheme }
        guard let authority = parts.authority else { throw .notAbsolute }
        return try WebURL(
            scheme: scheme, authority: authority, path: parts.path, query: parts.query,
            byteCountMax: byteCountMax, encodesUnwise: true)
    }

    /// Returns the URL that a text with control characters probably means: without tabs and line breaks, and
    /// the others percent-encoded, as browsers read it. `nil` if that is no URL either.
    public static func parseIgnoringControls(_ text: String) -> WebURL? {
        var bytes: [UInt8] = []
        for byte in text.utf8 where !"\t\r\n".utf8.contains(byte) {
            if isControl(byte) {
                appendPercentEncoded(byte, to: &bytes)
            } else {
                bytes.append(byte)
            }
        }
        // The caller reports the failure of the text itself.
        return try? parse(String(decoding: bytes, as: UTF8.self))
    }

    private init(
        scheme: Scheme, authority: Substring, path: String, query: String?,
        byteCountMax: Int = Limits.urlByteCountMax, encodesUnwise: Bool = false
    ) throws(Failure) {
        guard !authority.utf8.contains(UInt8(ascii: "@")) else { throw .userInformation }
        let (host, portText) = try Self.split(authority: authority)
        self.scheme = scheme
        (self.host, address) = try HostName.parse(host)
        port = portText.isEmpty ? scheme.defaultPort : try Self.port(portText)
        let slashed = encodesUnwise ? withoutBackslashes(path) : path
        self.path = encoded(removingDotSegments(slashed.isEmpty ? "/" : slashed), unwise: encodesUnwise)
        self.query = query.map { encoded($0, unwise: encodesUnwise) }
        (origin, string) = Self.texts(scheme, self.host, port, self.path, self.query)
        // Encoding may have made the URL longer.
        guard string.utf8.count <= byteCountMax else { throw .tooLong }
    }

    private static func texts(
        _ scheme: Scheme, _ host: String, _ port: UInt16, _ path: String, _ query: String?
    ) -> (origin: String, string: String) {
        let authority = (scheme == .http ? "http://" : "https://") + host
        let origin = authority + ":" + String(port)
        let start = port == scheme.defaultPort ? authority : origin
        guard let query else { return (origin, start + path) }
        return (origin, start + path + "?" + query)
    }

    /// The whole URL.
    public var description: String { string }

    // The text determines all the parts.
    public static func == (a: WebURL, b: WebURL) -> Bool { a.string == b.string }
    public func hash(into hasher: inout Hasher) { hasher.combine(string) }

    /// Returns `true` if scheme, host and port are equal (RFC 6454 §5), so that credentials may be sent to
    /// both.
    public func isSameOrigin(as other: WebURL) -> Bool {
        scheme == other.scheme && host == other.host && port == other.port
    }

    /// A URL that a server names, which may have user information.
    public struct Target: Sendable, Equatable {
        public let url: WebURL
        /// `user` or `user:password`, percent-encoded; `nil` if there is none.
        public let userInformation: String?

        /// Creates a target.
        public init(_ url: WebURL, userInformation: String?) {
            self.url = url
            self.userInformation = userInformation
        }

        /// The whole URL with its user information.
        public var string: String {
            guard let userInformation else { return url.string }
            let scheme = url.scheme.rawValue + "://"
            return scheme + userInformation + "@" + url.string.dropFirst(scheme.utf8.count)
        }
    }

    /// Returns the target of a `Location` field in a response from this URL (RFC 3986 §5.2). Normalises and
    /// validates it like `parse`.
    public func resolving(_ reference: String) throws(Failure) -> Target {
        let limit = Limits.redirectURLByteCountMax
        guard reference.utf8.count <= limit else { throw .tooLong }
        let parts = Reference(try Self.withoutOuterSpaces(reference))
        if parts.scheme != nil || parts.authority != nil {
            let scheme = try parts.scheme.map { (name) throws(Failure) in
                guard let scheme = Scheme(name) else { throw .unsupportedScheme }
                return scheme
            }
            guard let authority = parts.authority else { throw .notAbsolute }
            let (user, server) = try Self.splitUser(authority)
            let url = try WebURL(
                scheme: scheme ?? self.scheme, authority: server, path: parts.path, query: parts.query,
                byteCountMax: limit)
            return Target(url, userInformation: user)
        }
        let isEmpty = parts.path.isEmpty
        var path = parts.path
        if isEmpty {
            path = self.path
        } else if path.utf8.first != UInt8(ascii: "/") {
            // Merge (§5.2.3): the path up to its last slash, then the reference.
            let base = self.path.utf8.lastIndex(of: UInt8(ascii: "/")).map { String(self.path[...$0]) } ?? "/"
            path = base + path
        }
        let url = try WebURL(
            scheme: scheme, authority: Substring("\(host):\(port)"), path: path,
            query: parts.query ?? (isEmpty ? query : nil), byteCountMax: limit)
        return Target(url, userInformation: nil)
    }

    /// Splits an authority at its last `@`. Browsers read a backslash before it as the end of the host, other
    /// programs do not.
    private static func splitUser(
        _ authority: Substring
    ) throws(Failure) -> (user: String?, server: Substring) {
        guard let at = authority.utf8.lastIndex(of: UInt8(ascii: "@")) else { return (nil, authority) }
        let user = authority[..<at]
        guard !user.utf8.contains(UInt8(ascii: "\\")) else { throw .invalidHost }
        let server = authority[authority.utf8.index(after: at)...]
        return (user.isEmpty ? nil : encoded(String(user)), server)
    }
}

// MARK: - Authority

extension WebURL {
    private static func split(authority: Substring) throws(Failure) -> (host: Substring, port: Substring) {
        if authority.utf8.first == UInt8(ascii: "[") {
            guard let end = authority.utf8.firstIndex(of: UInt8(ascii: "]")) else { throw .invalidHost }
            let rest = authority[authority.utf8.index(after: end)...]
            guard rest.isEmpty || rest.utf8.first == UInt8(ascii: ":") else { throw .invalidHost }
            return (authority[...end], rest.dropFirst())
        }
        guard let colon = authority.firstIndex(ofByte: UInt8(ascii: ":")) else { return (authority, "") }
        return (authority[..<colon], authority[authority.utf8.index(after: colon)...])
    }

    private static func port(_ text: Substring) throws(Failure) -> UInt16 {
        guard text.utf8.count <= 5, text.utf8.allSatisfy({ (48...57).contains($0) }), let port = UInt16(text),
            port > 0
        else { throw .invalidPort }
        return port
    }

    /// Returns the text without spaces, tabs and line breaks at its ends. Throws if it has other control
    /// characters, or any inside.
    private static func withoutOuterSpaces(_ text: String) throws(Failure) -> String {
        guard text.containsByte(where: { isControl($0) || $0 == 0x20 }) else { return text }
        let isOuter = { (byte: UInt8) in " \t\r\n\u{C}".utf8.contains(byte) }
        guard let first = text.utf8.firstIndex(where: { !isOuter($0) }),
            let last = text.utf8.lastIndex(where: { !isOuter($0) })
        else { return "" }
        let inner = text[first...last]
        guard !inner.utf8.contains(where: isControl) else { throw .controlCharacter }
        return String(inner)
    }

    private static func isControl(_ byte: UInt8) -> Bool { byte < 0x20 || byte == 0x7F }
}

// MARK: - RFC 3986

/// The components of a URI reference (RFC 3986 appendix B), without the fragment.
private struct Reference {
    var scheme: Substring?
    var authority: Substring?
    var path: String
    var query: String?

    init(_ text: String) {
        var rest = text[...]
        let isEnd = { (byte: UInt8) in byte == UInt8(ascii: "#") || byte == UInt8(ascii: "?") }
        if let end = rest.firstIndex(whereByte: isEnd) {
            if rest.utf8[end] == UInt8(ascii: "?") {
                let after = rest[rest.utf8.index(after: end)...]
                query = String(after[..<(after.firstIndex(ofByte: UInt8(ascii: "#")) ?? after.endIndex)])
            }
            rest = rest[..<end]
        }
        if let colon = rest.firstIndex(ofByte: UInt8(ascii: ":")), Self.isScheme(rest[..<colon]) {
            scheme = rest[..<colon]
            rest = rest[rest.utf8.index(after: colon)...]
        }
        if rest.utf8.starts(with: "//".utf8) {
            let start = rest.utf8.index(rest.startIndex, offsetBy: 2)
            let end = rest[start...].firstIndex(ofByte: UInt8(ascii: "/")) ?? rest.endIndex
            authority = rest[start..<end]
            rest = rest[end...]
        }
        path = String(rest)
    }

    private static func isScheme(_ text: Substring) -> Bool {
        guard let first = text.utf8.first, isLetter(first) else { return false }
        return text.utf8.allSatisfy { isLetter($0) || (48...57).contains($0) || "+-.".utf8.contains($0) }
    }

    private static func isLetter(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20)
    }
}

/// Returns a path that begins with a slash without dot segments (RFC 3986 §5.2.4). `%2e` counts as a dot, as
/// servers read it (WHATWG URL).
private func removingDotSegments(_ path: String) -> String {
    guard mayHoldDotSegment(path) else { return path }
    var segments: [Substring] = []
    let all = path.dropFirst().split(separator: "/", omittingEmptySubsequences: false)
    for (index, segment) in all.enumerated() {
        let isLast = index == all.count - 1
        switch segment.utf8.count <= 6 ? segment.lowercased() : "" {
        case ".", "%2e":
            if isLast { segments.append("") }
        case "..", ".%2e", "%2e.", "%2e%2e":
            if !segments.isEmpty { segments.removeLast() }
            if isLast { segments.append("") }
        default: segments.append(segment)
        }
    }
    return "/" + segments.joined(separator: "/")
}

/// Returns `true` if a segment begins with a dot, literal or percent-encoded.
private func mayHoldDotSegment(_ path: String) -> Bool {
    var isStart = false
    for byte in path.utf8 {
        if isStart, byte == UInt8(ascii: ".") || byte == UInt8(ascii: "%") { return true }
        isStart = byte == UInt8(ascii: "/")
    }
    return false
}

/// Returns `true` for a character that neither a path nor a query may contain (RFC 3986 §3.3 and §3.4).
/// Brackets, which may not either, are no such characters here: they are common, and browsers keep them.
private func isUnwise(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "\""), UInt8(ascii: "<"), UInt8(ascii: ">"), UInt8(ascii: "\\"), UInt8(ascii: "^"),
        UInt8(ascii: "`"), UInt8(ascii: "{"), UInt8(ascii: "|"), UInt8(ascii: "}"):
        true
    default: false
    }
}

/// Returns a path with slashes in place of backslashes, as browsers read it (WHATWG URL §4.4).
private func withoutBackslashes(_ path: String) -> String {
    path.containsByte { $0 == UInt8(ascii: "\\") } ? path.replacing("\\", with: "/") : path
}

/// Percent-encodes bytes that a request line cannot contain: spaces, controls, and bytes beyond ASCII. With
/// `unwise`, also those that no URL may contain.
private func encoded(_ text: String, unwise: Bool = false) -> String {
    let isEncoded = { (byte: UInt8) in byte <= 0x20 || byte >= 0x7F || unwise && isUnwise(byte) }
    guard text.containsByte(where: isEncoded) else { return text }
    var bytes: [UInt8] = []
    for byte in text.utf8 {
        if isEncoded(byte) {
            appendPercentEncoded(byte, to: &bytes)
        } else {
            bytes.append(byte)
        }
    }
    return String(decoding: bytes, as: UTF8.self)
}
