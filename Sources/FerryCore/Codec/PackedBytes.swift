// Compact encoding for rows: integers in base 128, lowest digits first, with the top bit set for each digit
// but the last; texts after their length in bytes.

extension [UInt8] {
    /// Appends an unsigned integer.
    public mutating func appendPacked(_ value: UInt64) {
        var rest = value
        while rest >= 0x80 {
            append(UInt8(truncatingIfNeeded: rest) | 0x80)
            rest >>= 7
        }
        append(UInt8(truncatingIfNeeded: rest))
    }

    /// Appends a signed integer; short for values near zero of either sign.
    mutating func appendPacked(signed value: Int64) {
        appendPacked(UInt64(bitPattern: value << 1 ^ value >> 63))
    }

    /// Appends a text.
    public mutating func appendPacked(_ text: String) {
        appendPacked(UInt64(text.utf8.count))
        append(contentsOf: text.utf8)
    }

    /// Appends bytes after their number.
    public mutating func appendPacked(bytes: [UInt8]) {
        appendPacked(UInt64(bytes.count))
        append(contentsOf: bytes)
    }
}

/// Reads what `appendPacked` wrote. Throws `Damage` instead of reading beyond the end.
public struct PackedReader {
    /// The bytes are not what `appendPacked` wrote.
    public struct Damage: Error { public init() {} }
    private let bytes: [UInt8]
    private var index = 0

    /// Creates a reader.
    public init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// `true` if all bytes are read.
    public var isAtEnd: Bool { index == bytes.count }

    mutating func byte() throws(Damage) -> UInt8 {
        guard index < bytes.count else { throw Damage() }
        defer { index += 1 }
        return bytes[index]
    }

    mutating func number() throws(Damage) -> UInt64 {
        var value: UInt64 = 0
        for shift in stride(from: UInt64(0), to: 64, by: 7) {
            let digit = try byte()
            value |= UInt64(digit & 0x7F) << shift
            if digit < 0x80 { return value }
        }
        throw Damage()
    }

    mutating func signed() throws(Damage) -> Int64 {
        let value = try number()
        return Int64(bitPattern: value >> 1) ^ -Int64(bitPattern: value & 1)
    }

    /// Reads a number; throws if the type cannot hold it.
    public mutating func number<Value: FixedWidthInteger>(_ type: Value.Type) throws(Damage) -> Value {
        guard let value = Value(exactly: try number()) else { throw Damage() }
        return value
    }

    /// Reads `count` bytes.
    public mutating func bytes(_ count: Int) throws(Damage) -> [UInt8] { Array(try slice(count)) }

    private mutating func slice(_ count: Int) throws(Damage) -> ArraySlice<UInt8> {
        guard count >= 0, count <= bytes.count - index else { throw Damage() }
        defer { index += count }
        return bytes[index..<(index + count)]
    }

    /// Reads bytes after their number.
    public mutating func blob() throws(Damage) -> [UInt8] { try bytes(try number(Int.self)) }

    /// Reads a text.
    public mutating func text() throws(Damage) -> String {
        String(decoding: try slice(try number(Int.self)), as: UTF8.self)
    }

    /// Reads eight bytes in network byte order, which PostgreSQL uses.
    mutating func bigEndian() throws(Damage) -> UInt64 {
        guard bytes.count - index >= 8 else { throw Damage() }
        var value: UInt64 = 0
        for byte in bytes[index..<(index + 8)] { value = value << 8 | UInt64(byte) }
        index += 8
        return value
    }
}
