import FerryCore

/// A dictionary of structured fields (RFC 9651 §3.2). Keeps the members that are byte sequences; the others
/// are only checked.
struct StructuredDictionary: Sendable {
    private(set) var byteSequences: [(key: String, value: [UInt8])] = []

    /// `nil` if any part of the text is malformed: the whole field has to be ignored then (§4.2).
    init?(_ text: String) {
        var scanner = Scanner(text)
        scanner.skipSpaces()
        while !scanner.isAtEnd {
            guard let key = scanner.key(), let value = scanner.memberValue(), scanner.parameters() else {
                return nil
            }
            // The last one of a key counts (§4.2.2).
            byteSequences.removeAll { $0.key == key }
            if case .bytes(let bytes) = value { byteSequences.append((key, bytes)) }
            scanner.skipBlanks()
            if scanner.isAtEnd { return }
            guard scanner.take(",") else { return nil }
            scanner.skipBlanks()
            if scanner.isAtEnd { return nil }
        }
    }
}

private struct Scanner {
    enum Value {
        case bytes([UInt8])
        case other
    }

    private let bytes: [UInt8]
    private var index = 0

    init(_ text: String) { bytes = Array(text.utf8) }

    var isAtEnd: Bool { index == bytes.count }
    private var next: UInt8? { index < bytes.count ? bytes[index] : nil }

    mutating func skipSpaces() { skip { $0 == 0x20 } }
    mutating func skipBlanks() { skip { $0 == 0x20 || $0 == 0x09 } }

    private mutating func skip(_ isSkipped: (UInt8) -> Bool) {
        while let byte = next, isSkipped(byte) { index += 1 }
    }

    mutating func take(_ scalar: Unicode.Scalar) -> Bool {
        guard next == UInt8(ascii: scalar) else { return false }
        index += 1
        return true
    }

    /// §4.2.3.3.
    mutating func key() -> String? {
        let start = index
        guard let first = next, Self.isLower(first) || first == UInt8(ascii: "*") else { return nil }
        skip { Self.isLower($0) || Self.isDigit($0) || "_-.*".utf8.contains($0) }
        return String(decoding: bytes[start..<index], as: UTF8.self)
    }

    /// Reads what follows a member's key. Without a value the member is the boolean true.
    mutating func memberValue() -> Value? {
        guard take("=") else { return .other }
        return take("(") ? innerList() : item()
    }

    /// §4.2.3.2.
    mutating func parameters() -> Bool {
        while take(";") {
            skipSpaces()
            guard key() != nil else { return false }
            if take("="), item() == nil { return false }
        }
        return true
    }

    /// §4.2.1.2, after the opening parenthesis.
    private mutating func innerList() -> Value? {
        while !isAtEnd {
            skipSpaces()
            if take(")") { return .other }
            guard item() != nil, parameters() else { return nil }
            guard next == 0x20 || next == UInt8(ascii: ")") else { return nil }
        }
        return nil
    }

    /// §4.2.3.1. Numbers and tokens are recognized by their first character only.
    private mutating func item() -> Value? {
        switch next {
        case UInt8(ascii: ":"): return byteSequence()
        case UInt8(ascii: "\""): return string()
        case UInt8(ascii: "%"):
            index += 1
            return string()
        case UInt8(ascii: "?"), UInt8(ascii: "@"), UInt8(ascii: "-"), UInt8(ascii: "*"):
            index += 1
            skip(Self.isWordByte)
            return .other
        case let byte? where isTokenByte(byte):
            skip(Self.isWordByte)
            return .other
        default: return nil
        }
    }

    /// §4.2.7.
    private mutating func byteSequence() -> Value? {
        index += 1
        let start = index
        skip { $0 != UInt8(ascii: ":") }
        let text = String(decoding: bytes[start..<index], as: UTF8.self)
        guard take(":"), let decoded = Base64.decode(text) else { return nil }
        return .bytes(decoded)
    }

    /// §4.2.5; also reads display strings.
    private mutating func string() -> Value? {
        guard take("\"") else { return nil }
        while let byte = next {
            index += 1
            if byte == UInt8(ascii: "\"") { return .other }
            if byte == UInt8(ascii: "\\") {
                guard take("\"") || take("\\") else { return nil }
            }
        }
        return nil
    }

    private static func isLower(_ byte: UInt8) -> Bool { (0x61...0x7A).contains(byte) }
    private static func isDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) }
    private static func isWordByte(_ byte: UInt8) -> Bool { isTokenByte(byte) || ":/".utf8.contains(byte) }
}
