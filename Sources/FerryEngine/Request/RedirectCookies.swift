import FerryCore

/// Cookies that the redirects of a chain have set (RFC 6265). They are sent within the chain, and forgotten
/// with it. A pure value.
struct RedirectCookies: Sendable, Equatable {
    typealias Cookie = DelayedRedirect.Cookie

    private(set) var cookies: [Cookie] = []

    init() {}

    /// Takes the cookies that an earlier attempt has left.
    init(_ cookies: [Cookie]) { self.cookies = cookies }

    /// Takes the cookies that a redirect sets. Cookies beyond the limits are dropped, the oldest first.
    mutating func take(_ head: ResponseHead, from url: WebURL, now: Timestamp) {
        for field in head.octets("set-cookie") {
            guard let (cookie, isExpired) = Self.read(field.text, from: url, now: now) else { continue }
            cookies.removeAll { $0.isSame(as: cookie) }
            if !isExpired { cookies.append(cookie) }
        }
        while cookies.count > EngineLimits.cookieCountMax || byteCount > EngineLimits.cookieByteCountMax {
            cookies.removeFirst()
        }
    }

    private var byteCount: Int {
        cookies.reduce(0) { $0 + $1.name.unicodeScalars.count + $1.value.unicodeScalars.count }
    }

    /// Returns the value of `Cookie` for a request; `nil` if it has none. `own`: values of the job's own
    /// fields, whose cookies of the same name are replaced.
    func field(for url: WebURL, with own: [String]) -> FieldOctets? {
        let sent = cookies.filter { $0.isFor(url) }.enumerated().sorted {
            ($1.element.path.utf8.count, $0.offset) < ($0.element.path.utf8.count, $1.offset)
        }.map(\.element)
        let kept = own.flatMap { FieldOctets($0).text.split(separator: ";") }.map { String($0.trimmed) }
            .filter { pair in
                let name = pair.prefix { $0 != "=" }
                return !pair.isEmpty && !sent.contains { $0.name == name }
            }
        let pairs = kept + sent.map { "\($0.name)=\($0.value)" }
        return pairs.isEmpty ? nil : FieldOctets(text: pairs.joined(separator: "; "))
    }

    /// Reads one field, each character one octet (RFC 6265 §5.2 and §5.3); `nil` if the cookie is not
    /// accepted.
    private static func read(
        _ field: String, from url: WebURL, now: Timestamp
    ) -> (cookie: Cookie, isExpired: Bool)? {
        let parts = field.split(separator: ";", omittingEmptySubsequences: false)
        guard let pair = parts.first, let sign = pair.firstIndex(of: "=") else { return nil }
        let name = String(pair[..<sign].trimmed)
        let value = String(pair[pair.index(after: sign)...].trimmed)
        guard !name.isEmpty, (name + value).utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7F }) else { return nil }
        var (domain, isHostOnly, path, isSecure) = (url.host, true, defaultPath(url.path), false)
        var (expiry, age): (Timestamp?, Int64?)
        for attribute in parts.dropFirst() {
            let words = attribute.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let text = words.count > 1 ? String(words[1].trimmed) : ""
            switch words[0].trimmed.lowercased() {
            case "domain":
                var asked = String(decoding: FieldOctets(text: text)?.bytes ?? [], as: UTF8.self)
                if asked.hasPrefix(".") { asked.removeFirst() }
                // A name that has no ASCII form is no domain of the URL (RFC 6265 §5.1.2).
                asked = (try? HostName.ascii(asked[...])) ?? asked
                if asked.isEmpty { continue }
                guard asked == url.host || isParent(asked, of: url) else { return nil }
                (domain, isHostOnly) = (asked, url.isAddress)
            case "path": if text.hasPrefix("/") { path = text }
            case "secure": isSecure = true
            case "max-age": age = Int64(text)
            case "expires": expiry = Timestamp(httpDate: text, now: now)
            default: continue
            }
        }
        if isSecure, url.scheme != .https { return nil }
        let isExpired = age.map { $0 <= 0 } ?? expiry.map { $0 <= now } ?? false
        let cookie = Cookie(
            name: name, value: value, domain: domain, isHostOnly: isHostOnly, path: path, isSecure: isSecure)
        return (cookie, isExpired)
    }

    /// Returns `true` if hosts below `domain` may share cookies and the URL's host is one. A name without a
    /// dot, such as `com`, belongs to many.
    private static func isParent(_ domain: String, of url: WebURL) -> Bool {
        domain.contains(".") && !url.isAddress && url.host.hasSuffix("." + domain)
    }

    private static func defaultPath(_ path: String) -> String {
        guard let slash = path.utf8.lastIndex(of: UInt8(ascii: "/")), slash > path.startIndex else {
            return "/"
        }
        return String(path[..<slash])
    }
}

extension RedirectCookies.Cookie {
    fileprivate func isSame(as other: Self) -> Bool {
        name == other.name && domain == other.domain && path == other.path
    }

    fileprivate func isFor(_ url: WebURL) -> Bool {
        guard !isSecure || url.scheme == .https else { return false }
        guard url.host == domain || !isHostOnly && url.host.hasSuffix("." + domain) else { return false }
        return url.path == path || path.hasSuffix("/") && url.path.hasPrefix(path)
            || url.path.hasPrefix(path + "/")
    }
}

extension WebURL {
    fileprivate var isAddress: Bool { address != nil || host.hasPrefix("[") }
}

extension Substring {
    fileprivate var trimmed: Substring { Substring(trim(utf8)) }
}
