/// Decides which header fields a job may set, and which of them are secret. The only home of both rules.
package enum HeaderRules {
    /// Fields of the connection or the framing, with which a request could smuggle another one.
    private static let forbidden: Set<String> = [
        "content-length", "transfer-encoding", "connection", "expect", "te", "upgrade", "trailer",
        "keep-alive",
    ]
    // Names in the form of `words`.
    private static let secret = Set(
        ["authorization", "proxy-authorization", "cookie", "cookie2", "x-jfrog-art-api"].map {
            Array($0.utf8)
        })
    private static let secretParts = [
        "token", "secret", "password", "passwd", "passphrase", "credential", "signature", "api-key", "apikey",
    ].map { Array($0.utf8) }
    private static let secretLastWords = ["key", "auth", "authorization", "session"].map { Array($0.utf8) }
    /// Keys that name something and open nothing.
    private static let plainKeys = ["idempotency-key", "surrogate-key", "partition-key"].map {
        Array($0.utf8)
    }

    /// Returns `true` for a `field-name` (RFC 9110 §5.1): a token.
    package static func isName(_ name: String) -> Bool {
        !name.isEmpty && name.utf8.allSatisfy(isTokenByte)
    }

    /// Returns `true` for a `field-value` (RFC 9110 §5.5): no control character but the tab.
    package static func isValue(_ value: String) -> Bool {
        value.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F || $0 == 0x09 }
    }

    /// Returns `true` for `Host` (RFC 9110 §7.2), which names another server at the address of the URL.
    package static func isHost(_ name: String) -> Bool { name.lowercased() == "host" }

    /// Returns why a job cannot have this value of `Host`, as a sentence, or `nil`.
    ///
    /// The egress policy checks addresses. Behind an allowed address, such as that of a proxy or a load
    /// balancer, `Host` could choose servers that the operator has not allowed, so only admins may set it.
    package static func refusal(ofHost value: String, mayNameHost: Bool) -> String? {
        guard mayNameHost else { return "Host can only be set when an admin key submits a job." }
        guard let host = HostReference(value), host.scheme == nil, value.utf8.last != UInt8(ascii: "/"),
            value.utf8.allSatisfy({ $0 < 0x80 })
        else { return "Host is a name or an address in ASCII, and a port: example.org:8443." }
        return nil
    }

    /// Returns `true` if no job can set the field.
    package static func isForbidden(_ name: String) -> Bool {
        let lower = name.lowercased()
        return forbidden.contains(lower) || lower.hasPrefix("proxy-")
    }

    /// Returns `true` if the value is a credential, which is stored encrypted and never shown.
    package static func isSecret(_ name: String) -> Bool {
        let words = words(of: name)
        if secret.contains(words) || secretParts.contains(where: { holds(words, $0) }) { return true }
        let last = words[((words.lastIndex(of: separator) ?? -1) + 1)...]
        return secretLastWords.contains { last.elementsEqual($0) } && !plainKeys.contains(words)
    }

    private static let separator = UInt8(ascii: "-")

    /// Returns the words of a name in lower case with one `-` between them. Every character but letters and
    /// digits separates words; separators and numbers at the end do not count (`X_Key.2-`: `x-key`).
    private static func words(of name: String) -> [UInt8] {
        var words: [UInt8] = []
        words.reserveCapacity(name.utf8.count)
        // Bytes up to the last word that has a letter.
        var count = 0
        var isSeparated = false
        for byte in name.utf8 {
            let lower = (65...90).contains(byte) ? byte | 0x20 : byte
            let isLetter = (97...122).contains(lower)
            let isDigit = (48...57).contains(lower)
            guard isLetter || isDigit else {
                isSeparated = true
                continue
            }
            if isSeparated, !words.isEmpty { words.append(separator) }
            isSeparated = false
            words.append(lower)
            let continuesWord = count == words.count - 1
            if isLetter || continuesWord { count = words.count }
        }
        words.removeLast(words.count - count)
        return words
    }

    private static func holds(_ text: [UInt8], _ part: [UInt8]) -> Bool {
        guard text.count >= part.count else { return false }
        return (0...(text.count - part.count)).contains { text[$0...].starts(with: part) }
    }

    /// Returns `true` for a `tchar` (RFC 9110 §5.6.2).
    package static func isTokenByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
        }
    }
}
