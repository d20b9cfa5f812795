/// The value of a `Set-Cookie` field, parsed (RFC 6265bis §5.6). Of an attribute that occurs several times,
/// the last one counts.
struct SetCookie {
    private(set) var name: [UInt8] = []
    private(set) var value: [UInt8] = []
    /// Value of `Domain` without a dot in front, in lower case; `nil` without the attribute.
    private(set) var domain: [UInt8]?
    /// Value of `Path`; `nil` without the attribute, or if the value does not begin with a slash.
    private(set) var path: [UInt8]?
    private(set) var isSecure = false
    private(set) var isHTTPOnly = false
    private(set) var sameSite: Cookie.SameSite?
    /// Time of `Max-Age`, or else of `Expires`; `nil` for a session cookie. At most 400 days ahead.
    var expiresAt: Timestamp? { maxAge ?? expires }
    private var maxAge: Timestamp?
    private var expires: Timestamp?

    /// Reads a field. `nil` if it is ignored: it has control characters, or no or too long a name and value.
    init?(_ field: [UInt8], now: Timestamp) {
        guard !field.contains(where: Cookie.isControl) else { return nil }
        var parts = field.split(separator: UInt8(ascii: ";"), omittingEmptySubsequences: false)[...]
        let pair = parts.removeFirst()
        if let (name, value) = Self.halves(of: pair) {
            (self.name, self.value) = (Array(name), Array(value))
        } else {
            value = Array(trimmed(pair))
        }
        guard (1...Limits.cookieByteCountMax).contains(name.count + value.count) else { return nil }
        for part in parts {
            let (name, value) = Self.halves(of: part) ?? (trimmed(part), [])
            guard value.count <= Limits.cookieAttributeByteCountMax else { continue }
            take(attribute: name, value, now: now)
        }
    }

    private mutating func take(attribute name: ArraySlice<UInt8>, _ value: ArraySlice<UInt8>, now: Timestamp)
    {
        switch name.count {
        case 4 where isSame(name, "path"):
            path = value.first == UInt8(ascii: "/") ? Array(value) : nil
        // An empty value is ignored as in browsers and RFC 6265 §5.2.3: an earlier one still counts.
        case 6 where isSame(name, "domain") && !value.isEmpty:
            domain = (value.first == UInt8(ascii: ".") ? value.dropFirst() : value).map(lowerCased)
        case 6 where isSame(name, "secure"): isSecure = true
        case 7 where isSame(name, "max-age"): maxAge = Self.time(maxAge: value, now: now) ?? maxAge
        case 7 where isSame(name, "expires"):
            expires = Timestamp(cookieDate: value).map { min($0, Cookie.latestExpiry(now)) } ?? expires
        case 8 where isSame(name, "httponly"): isHTTPOnly = true
        case 8 where isSame(name, "samesite"):
            sameSite = Cookie.SameSite.allCases.first { isSame(value, $0.rawValue) }
        default: break
        }
    }

    /// Reads the seconds of `Max-Age` (§5.6.2). `nil` if the value is no number.
    private static func time(maxAge value: ArraySlice<UInt8>, now: Timestamp) -> Timestamp? {
        let isNegative = value.first == UInt8(ascii: "-")
        let digits = isNegative ? value.dropFirst() : value
        guard !digits.isEmpty, digits.allSatisfy({ (0x30...0x39).contains($0) }) else { return nil }
        // Ten digits are more than 400 days.
        let significant = digits.drop { $0 == 0x30 }.prefix(10)
        let seconds = significant.reduce(0.0) { $0 * 10 + Double($1 - 0x30) }
        if isNegative || seconds == 0 { return .distantPast }
        return min(now + seconds, Cookie.latestExpiry(now))
    }

    /// Returns the trimmed texts before and after the first `=`; `nil` if there is none.
    private static func halves(
        of text: ArraySlice<UInt8>
    ) -> (name: ArraySlice<UInt8>, value: ArraySlice<UInt8>)? {
        guard let sign = text.firstIndex(of: UInt8(ascii: "=")) else { return nil }
        return (trimmed(text[..<sign]), trimmed(text[(sign + 1)...]))
    }
}

extension Cookie {
    /// Returns `true` for a character that no cookie has: a control character other than a tab.
    static func isControl(_ byte: UInt8) -> Bool { byte < 0x20 && byte != 0x09 || byte == 0x7F }

    /// The latest time at which a cookie that is set now may expire (RFC 6265bis §5.5).
    static func latestExpiry(_ now: Timestamp) -> Timestamp { now + Limits.cookieSecondsMax }
}

/// Returns the text without spaces and tabs at its ends.
private func trimmed(_ text: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
    let isSpace = { (byte: UInt8) in byte == 0x20 || byte == 0x09 }
    guard let first = text.firstIndex(where: { !isSpace($0) }),
        let last = text.lastIndex(where: { !isSpace($0) })
    else { return [] }
    return text[first...last]
}

private func isSame(_ text: ArraySlice<UInt8>, _ name: String) -> Bool {
    text.count == name.utf8.count && zip(text, name.utf8).allSatisfy { lowerCased($0) == $1 }
}

/// Returns an ASCII letter in lower case, and any other byte as it is.
func lowerCased(_ byte: UInt8) -> UInt8 { (0x41...0x5A).contains(byte) ? byte | 0x20 : byte }
