/// Returns the lower-case hexadecimal digit of a value below 16.
public func hexDigit(_ value: UInt8) -> UInt8 { value < 10 ? UInt8(ascii: "0") + value : 87 + value }

/// Returns `true` for a lower-case hexadecimal digit.
public func isLowerHexDigit(_ byte: UInt8) -> Bool {
    (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
        || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(byte)
}

/// Appends a byte as `%XX` in upper case (RFC 3986 §2.1).
public func appendPercentEncoded(_ byte: UInt8, to text: inout [UInt8]) {
    text.append(UInt8(ascii: "%"))
    for value in [byte >> 4, byte & 15] {
        text.append(value < 10 ? UInt8(ascii: "0") + value : 55 + value)
    }
}

/// Returns the text with all characters as `%XX` except the unreserved ones (RFC 3986 §2.3) and those of
/// `kept`.
public func percentEncoded(_ text: String, keeping kept: String = "") -> String {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(text.utf8.count)
    for byte in text.utf8 {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
            UInt8(ascii: "~"):
            bytes.append(byte)
        case _ where kept.utf8.contains(byte): bytes.append(byte)
        default: appendPercentEncoded(byte, to: &bytes)
        }
    }
    return String(decoding: bytes, as: UTF8.self)
}

/// Returns the bytes of a percent-encoded text (RFC 3986 §2.1), or `nil` if a `%` has no two digits.
func percentDecoded(_ text: Substring) -> [UInt8]? {
    var bytes: [UInt8] = []
    var rest = text.utf8[...]
    while let byte = rest.popFirst() {
        guard byte == UInt8(ascii: "%") else {
            bytes.append(byte)
            continue
        }
        guard let value = hexDecoded(String(Substring(rest.prefix(2)))), value.count == 1 else { return nil }
        bytes += value
        rest = rest.dropFirst(2)
    }
    return bytes
}

/// Returns the bytes in lower-case hexadecimal.
public func hexEncoded(_ bytes: [UInt8]) -> String {
    var text: [UInt8] = []
    text.reserveCapacity(bytes.count * 2)
    for byte in bytes {
        text.append(hexDigit(byte >> 4))
        text.append(hexDigit(byte & 15))
    }
    return String(decoding: text, as: UTF8.self)
}

/// Reads pairs of hexadecimal digits in either case; `nil` for anything else.
public func hexDecoded(_ text: some StringProtocol) -> [UInt8]? {
    var bytes: [UInt8] = []
    var high: UInt8?
    for byte in text.utf8 {
        let digit: UInt8
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): digit = byte - 48
        case UInt8(ascii: "a")...UInt8(ascii: "f"): digit = byte - 87
        case UInt8(ascii: "A")...UInt8(ascii: "F"): digit = byte - 55
        default: return nil
        }
        if let first = high {
            bytes.append(first << 4 | digit)
            high = nil
        } else {
            high = digit
        }
    }
    return high == nil ? bytes : nil
}

/// Returns the beginning of a response body for people: valid UTF-8 without NUL, which PostgreSQL cannot
/// store, in at most `byteCountMax` bytes.
public func textExcerpt(_ bytes: [UInt8], byteCountMax: Int) -> String {
    var text = ""
    var byteCount = 0
    for scalar in String(decoding: bytes, as: UTF8.self).unicodeScalars where scalar != "\0" {
        byteCount += UTF8.width(scalar)
        guard byteCount <= byteCountMax else { break }
        text.unicodeScalars.append(scalar)
    }
    return text
}

/// Returns `true` for a `tchar` (RFC 9110 §5.6.2).
public func isTokenByte(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"):
        true
    default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
    }
}
