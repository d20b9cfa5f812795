/// Decides which header fields a job may set, and which of them are secret. The only home of both rules.
public enum HeaderRules {
    /// Fields of the connection or the framing, with which a request could smuggle another one.
    private static let forbidden: Set<String> = [
        "content-length", "transfer-encoding", "connection", "expect", "te", "upgrade", "trailer",
        "keep-alive",
    ]

    /// Returns `true` for a `field-name` (RFC 9110 §5.1): a token.
    public static func isName(_ name: String) -> Bool {
        !name.isEmpty && name.utf8.allSatisfy(isTokenByte)
    }

    /// Returns `true` if both are the same name: case is ignored (RFC 9110 §5.1).
    static func isSame(_ a: String, _ b: String) -> Bool {
        let (a, b) = (a.utf8, b.utf8)
        guard a.count == b.count else { return false }
        for (one, other) in zip(a, b) where one != other {
            guard one ^ other == 0x20, (97...122).contains(one | 0x20) else { return false }
        }
        return true
    }

    /// Returns `true` for a `field-value` (RFC 9110 §5.5): no control character but the tab.
    public static func isValue(_ value: String) -> Bool {
        value.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F || $0 == 0x09 }
    }

    /// Returns `true` for `Host` (RFC 9110 §7.2), which names another server at the address of the URL.
    public static func isHost(_ name: String) -> Bool { name.lowercased() == "host" }

    /// Returns why a job cannot have this value of `Host`, as a sentence, or `nil`.
    ///
    /// The egress policy checks addresses. Behind an allowed address, such as that of a proxy or a load
    /// balancer, `Host` could choose servers that the operator has not allowed, so only admins may set it.
    public static func refusal(ofHost value: String, mayNameHost: Bool) -> String? {
        guard mayNameHost else { return "Host can only be set when an admin key submits a job." }
        guard let host = HostReference(value), host.scheme == nil, value.utf8.last != UInt8(ascii: "/"),
            value.utf8.allSatisfy({ $0 < 0x80 })
        else { return "Host is a name or an address in ASCII, and a port: example.org:8443." }
        return nil
    }

    /// Returns `true` if no job can set the field.
    public static func isForbidden(_ name: String) -> Bool {
        let lower = name.lowercased()
        return forbidden.contains(lower) || lower.hasPrefix("proxy-")
    }

    /// Returns `true` if the value is a credential, which is stored encrypted and never shown.
    public static func isSecret(_ name: String) -> Bool {
        let utf8 = name.utf8
        return SecretName.isSecret(utf8.span)
    }
}
