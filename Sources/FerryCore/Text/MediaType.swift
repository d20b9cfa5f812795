/// Parser of media types and their parameters (RFC 9110 §8.3.1).
enum MediaType {
    /// Returns the parameters of a `Content-Type` as sent, from the first semicolon. Empty if the value has
    /// another type than `type` (lower case), is too long, or cannot be sent in a field again.
    static func parameters(of value: String, type: String) -> Substring {
        guard value.utf8.count <= Limits.contentTypeByteCountMax,
            let start = value.utf8.firstIndex(of: UInt8(ascii: ";")),
            value[..<start].trimmed.lowercased() == type,
            areParameters(value.utf8[start...])
        else { return "" }
        return value[start...]
    }

    /// Returns `true` for `parameters` (RFC 9110 §5.6.6) in visible ASCII.
    private static func areParameters(_ bytes: Substring.UTF8View) -> Bool {
        var rest = bytes[...]
        while true {
            skipSpace(&rest)
            guard let first = rest.popFirst() else { return true }
            guard first == UInt8(ascii: ";") else { return false }
            skipSpace(&rest)
            if rest.isEmpty || rest.first == UInt8(ascii: ";") { continue }
            guard skipToken(&rest), rest.popFirst() == UInt8(ascii: "=") else { return false }
            guard rest.first == UInt8(ascii: "\"") ? skipQuoted(&rest) : skipToken(&rest) else {
                return false
            }
        }
    }

    private static func skipSpace(_ rest: inout Substring.UTF8View) {
        rest = rest.drop { $0 == 0x20 || $0 == 0x09 }
    }

    private static func skipToken(_ rest: inout Substring.UTF8View) -> Bool {
        let length = rest.count
        rest = rest.drop(while: isTokenByte)
        return rest.count < length
    }

    private static func skipQuoted(_ rest: inout Substring.UTF8View) -> Bool {
        rest.removeFirst()
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "\""): return true
            case UInt8(ascii: "\\"):
                guard let escaped = rest.popFirst(), (0x20...0x7E).contains(escaped) else { return false }
            case 0x20...0x7E: continue
            default: return false
            }
        }
        return false
    }
}

extension Substring {
    /// The text without optional white space (RFC 9110 §5.6.3) at its ends.
    var trimmed: Substring {
        let isSpace = { (byte: UInt8) in byte == 0x20 || byte == 0x09 }
        guard let first = utf8.firstIndex(where: { !isSpace($0) }),
            let last = utf8.lastIndex(where: { !isSpace($0) })
        else { return "" }
        return self[first...last]
    }
}
