/// A host as a client names it: a name or address, optionally with a port, or an origin. At most one slash
/// may follow.
public struct HostReference: Sendable, Equatable {
    /// `http` or `https`, or `nil` if the text has no scheme.
    public let scheme: WebURL.Scheme?
    /// Host as in `WebURL.host`.
    public let host: String
    /// Port, or `nil` if the text has neither port nor scheme.
    public let port: UInt16?

    /// Reads a text; `nil` if it is no reference.
    public init?(_ text: String) {
        let hasScheme = text.contains("://")
        let authority = hasScheme ? text.utf8.drop { $0 != UInt8(ascii: "/") }.dropFirst(2) : text.utf8[...]
        // No path, query or fragment, not even one that `WebURL` would drop.
        let rest = authority.drop { !"/?#".utf8.contains($0) }
        // The failure has no details that matter here: the text is no reference.
        guard rest.isEmpty || rest.elementsEqual("/".utf8), !text.utf8.contains(UInt8(ascii: "%")),
            !text.utf8.contains(where: { $0 <= 0x20 }),
            let url = try? WebURL.parse(hasScheme ? text : "https://\(text)")
        else { return nil }
        scheme = hasScheme ? url.scheme : nil
        host = url.host
        // A colon after the brackets of an IPv6 address.
        let port = authority.dropLast(rest.count).reversed().prefix { $0 != UInt8(ascii: "]") }
        let isWritten = port.contains(UInt8(ascii: ":"))
        self.port = hasScheme || isWritten ? url.port : nil
    }

    /// Origin of the reference; without a scheme it is https.
    public var origin: String {
        let scheme = scheme ?? .https
        return "\(scheme.rawValue)://\(host):\(port ?? scheme.defaultPort)"
    }
}

extension HostReference {
    /// Largest number of characters: a scheme, a name, a port and a slash.
    public static let characterCountMax = "https://".count + 253 + ":65535/".count

    /// Regular expression of a reference (ECMA-262). A name with characters beyond ASCII must also be one of
    /// UTS #46.
    public static let pattern: String = {
        let ascii = hostPattern(letters: "A-Za-z", hexadecimal: "[0-9a-fA-F]", v4End: "\\.?")
        let other = "[A-Za-z0-9._-]*[^\\x00-\\x7F][^\\x00-\\x20\\x7F%/:?#@\\[\\]]*"
        let host = "(\(ascii)|\(other))"
        let shortPorts = "0{0,4}[1-9]|0{0,3}[1-9][0-9]|0{0,2}[1-9][0-9]{2}|0?[1-9][0-9]{3}"
        return "^([hH][tT][tT][pP][sS]?://)?\(host)(:(\(shortPorts)|\(longPort))?)?/?$"
    }()

    /// Regular expression of an origin in responses: in lower case, with its port.
    public static let originPattern: String = {
        let host = hostPattern(letters: "a-z", hexadecimal: "[0-9a-f]", v4End: "")
        return "^https?://\(host):([1-9][0-9]{0,3}|\(longPort))$"
    }()

    private static let longPort =
        "[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]"

    /// Regular expression of texts that match `pattern` or `originPattern`, but have a label of more than 63
    /// characters or a name of more than 253.
    public static let exclusion = "[A-Za-z0-9_-]{64}|[A-Za-z0-9._-]{254}"

    /// Bounds of a reference, for OpenAPI.
    public static let textRule = TextRule(1...characterCountMax, pattern: pattern, except: exclusion)
    /// Bounds of an origin in responses, for OpenAPI.
    public static let originRule = TextRule(1...characterCountMax, pattern: originPattern, except: exclusion)

    /// Returns the expression of a label that is no number: digits and a character that is none, but not `0x`
    /// and hexadecimal digits alone.
    private static func lastLabel(letters: String) -> String {
        let (noX, noHex) = letters == "a-z" ? ("a-wyz", "g-z") : ("A-WYZa-wyz", "G-Zg-z")
        let x = letters == "a-z" ? "x" : "[xX]"
        let start =
            "([1-9][0-9]*|0[0-9]+)?[\(letters)_-]|0[\(noX)_-]|0\(x)[\(letters)0-9]*[\(noHex)_-]"
        return "(\(start))[\(letters)0-9_-]*"
    }

    /// Returns the expression of a name whose last label is no number, of an IPv4 address as inet_aton(3)
    /// reads it (followed by `v4End`), or of an IPv6 address.
    private static func hostPattern(letters: String, hexadecimal: String, v4End: String) -> String {
        let label = "[\(letters)0-9_-]{1,63}"
        let x = letters.contains("A") ? "[xX]" : "x"
        let name = "(\(label)\\.)*\(lastLabel(letters: letters))\\.?"
        let part = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9]|0[0-3]?[0-7]{1,2}|0\(x)\(hexadecimal){0,2})"
        let hex = { (count: String) in "0\(x)\(hexadecimal){0,\(count)}" }
        // The last of fewer than four parts stands for the remaining bytes.
        let last2 = "(0[0-7]{1,5}|0|[1-9][0-9]{0,3}|\(hex("4")))"
        let last3 = "(0[0-7]{1,8}|0|[1-9][0-9]{0,6}|\(hex("6")))"
        let last4 = "0[0-7]{1,10}|0|[1-9][0-9]{0,8}|\(hex("8"))"
        let dot = "\\."
        let v4 =
            "(\(part)\(dot)\(part)\(dot)\(part)\(dot)\(part)|\(part)\(dot)\(part)\(dot)\(last2)"
            + "|\(part)\(dot)\(last3)|\(last4))"
        let group = "\(hexadecimal){1,4}"
        let v6 =
            (1...6).map { "(\(group):){1,\($0)}(:\(group)){1,\(7 - $0)}" }
            + ["(\(group):){7}\(group)", "(\(group):){1,7}:", ":((:\(group)){1,7}|:)"]
        return "(\(name)|\(v4)\(v4End)|\\[(\(v6.joined(separator: "|")))\\])"
    }
}

extension HostReference: FieldValue {
    /// Rule for the text of a reference, as a sentence without its subject.
    public static let rule =
        "must be a name, host:port or an origin without a path (https://example.org:8443)."

    public static func decode(_ json: JSONView, _ rule: NoRule, _ place: FieldPlace) -> Self? {
        guard let text = json.string else { return place.failType("a string", json) }
        return Self(text) ?? place.fail("invalid_value", "This \(Self.rule)")
    }
    public static func restore(_ json: JSON) -> Self? { json.string.flatMap { Self($0) } }
    public func encode(into writer: inout JSONWriter, isRedacted: Bool) {
        writer.value("\(scheme.map { "\($0.rawValue)://" } ?? "")\(host)\(port.map { ":\($0)" } ?? "")")
    }
    public static func schema(_ rule: NoRule) -> [JSON.Member] {
        String.schema(textRule)
    }
}
