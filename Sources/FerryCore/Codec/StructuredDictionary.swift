/// A dictionary of structured fields (RFC 9651 §3.2). Keeps the values of byte sequences and integers; the
/// others are only checked.
public struct StructuredDictionary: Sendable {
    /// The value of a member.
    public enum Value: Sendable, Equatable {
        case bytes([UInt8])
        case integer(Int64)
        case other
    }

    /// The members, each key once.
    public private(set) var members: [(key: String, value: Value)] = []

    /// The members that are byte sequences.
    public var byteSequences: [(key: String, value: [UInt8])] {
        members.compactMap { if case .bytes(let bytes) = $0.value { ($0.key, bytes) } else { nil } }
    }

    /// Reads a field; `nil` if any part of the text is malformed: the whole field has to be ignored then
    /// (§4.2).
    public init?(_ text: String) {
        var scanner = Scanner(text)
        scanner.skipSpaces()
        while !scanner.isAtEnd {
            guard let key = scanner.key(), let value = scanner.memberValue(), scanner.parameters() else {
                return nil
            }
            // The last one of a key counts (§4.2.2).
            members.removeAll { $0.key == key }
            members.append((key, value))
            scanner.skipBlanks()
            if scanner.isAtEnd { return }
            guard scanner.take(",") else { return nil }
            scanner.skipBlanks()
            if scanner.isAtEnd { return nil }
        }
    }
}

private struct Scanner {
    typealias Value = StructuredDictionary.Value

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

    /// §4.2.3.1. Decimals and tokens are recognized by their first character only.
    private mutating func item() -> Value? {
        switch next {
        case UInt8(ascii: ":"): return byteSequence()
        case UInt8(ascii: "\""): return string()
        case UInt8(ascii: "%"):
            index += 1
            return string()
        case UInt8(ascii: "?"), UInt8(ascii: "@"), UInt8(ascii: "*"):
            index += 1
            skip(Self.isWordByte)
            return .other
        case let byte? where isTokenByte(byte):
            let start = index
            skip(Self.isWordByte)
            return StructuredInteger.read(bytes[start..<index]).map { .integer($0) } ?? .other
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

/// An integer of structured fields (RFC 9651 §3.3.1).
enum StructuredInteger {
    /// Returns the number; `nil` if the bytes are something else, or have more than 15 digits.
    static func read(_ bytes: some Collection<UInt8>) -> Int64? {
        let digits = bytes.first == UInt8(ascii: "-") ? bytes.dropFirst() : bytes[...]
        guard (1...15).contains(digits.count), digits.allSatisfy({ (0x30...0x39).contains($0) }) else {
            return nil
        }
        return Int64(String(decoding: bytes, as: UTF8.self))
    }
}
