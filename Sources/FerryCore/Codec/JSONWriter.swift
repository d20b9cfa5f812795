/// Writes JSON (RFC 8259) into a byte array. Adds commas itself; needs no intermediate values.
public struct JSONWriter: Sendable {
    /// The JSON so far.
    public private(set) var bytes: [UInt8] = []
    private var needsComma = false

    /// Creates a writer.
    public init(reservingCapacity capacity: Int = 512) {
        bytes.reserveCapacity(capacity)
    }

    private mutating func separate() {
        if needsComma { bytes.append(UInt8(ascii: ",")) }
        needsComma = true
    }

    /// Opens an object.
    public mutating func beginObject() {
        separate()
        bytes.append(UInt8(ascii: "{"))
        needsComma = false
    }
    /// Closes the object.
    public mutating func endObject() {
        bytes.append(UInt8(ascii: "}"))
        needsComma = true
    }
    /// Opens an array.
    public mutating func beginArray() {
        separate()
        bytes.append(UInt8(ascii: "["))
        needsComma = false
    }
    /// Closes the array.
    public mutating func endArray() {
        bytes.append(UInt8(ascii: "]"))
        needsComma = true
    }

    /// Writes the name of a member; the next call must write its value.
    public mutating func name(_ name: String) {
        separate()
        quote(name)
        bytes.append(UInt8(ascii: ":"))
        needsComma = false
    }

    /// Writes null.
    public mutating func null() {
        separate()
        bytes.append(contentsOf: "null".utf8)
    }
    /// Writes a boolean.
    public mutating func value(_ value: Bool) {
        separate()
        bytes.append(contentsOf: value ? "true".utf8 : "false".utf8)
    }
    /// Writes an integer.
    public mutating func value(_ value: some BinaryInteger) {
        separate()
        bytes.append(contentsOf: String(value).utf8)
    }
    /// Writes a number, or null if it is not finite.
    public mutating func value(_ value: Double) {
        guard value.isFinite else { return null() }
        separate()
        bytes.append(contentsOf: decimalText(value).utf8)
    }
    /// Writes a string.
    public mutating func value(_ value: String) {
        separate()
        quote(value)
    }
    /// Writes a time (RFC 3339).
    public mutating func value(_ value: Timestamp) { quoted(value.utf8) }
    /// Writes an identifier.
    public mutating func value<Kind>(_ value: Identifier<Kind>) { quoted(value.utf8) }
    /// Writes a value.
    public mutating func value(_ value: JSON) {
        switch value {
        case .null: null()
        case .bool(let value): self.value(value)
        case .integer(let value): self.value(value)
        case .number(let value): self.value(value)
        case .literal(let text):
            separate()
            bytes.append(contentsOf: text.utf8)
        case .string(let value): self.value(value)
        case .array(let values):
            beginArray()
            for value in values { self.value(value) }
            endArray()
        case .object(let members):
            beginObject()
            for member in members {
                name(member.name)
                self.value(member.value)
            }
            endObject()
        }
    }
    /// Writes a value that is JSON already.
    public mutating func raw(_ json: some Collection<UInt8>) {
        separate()
        bytes.append(contentsOf: json)
    }
    /// Writes the members of an object that is JSON already into the open object.
    public mutating func rawMembers(of object: [UInt8]) {
        guard object.count > 2 else { return }
        separate()
        bytes.append(contentsOf: object[1..<(object.count - 1)])
    }

    /// Writes a member. The same for the other types.
    public mutating func member(_ name: String, _ value: Bool) { self.name(name); self.value(value) }
    public mutating func member(_ name: String, _ value: some BinaryInteger) {
        self.name(name); self.value(value)
    }
    public mutating func member(_ name: String, _ value: Double) { self.name(name); self.value(value) }
    public mutating func member(_ name: String, _ value: String) { self.name(name); self.value(value) }
    public mutating func member(_ name: String, _ value: Timestamp) { self.name(name); self.value(value) }
    public mutating func member<Kind>(_ name: String, _ value: Identifier<Kind>) {
        self.name(name); self.value(value)
    }
    public mutating func member(_ name: String, _ value: JSON) { self.name(name); self.value(value) }
    /// Writes a member, or null for `nil`. The same for the other types.
    public mutating func memberOrNull(_ name: String, _ value: (some BinaryInteger)?) {
        self.name(name)
        if let value { self.value(value) } else { null() }
    }
    public mutating func memberOrNull(_ name: String, _ value: Double?) {
        self.name(name)
        if let value { self.value(value) } else { null() }
    }
    public mutating func memberOrNull(_ name: String, _ value: String?) {
        self.name(name)
        if let value { self.value(value) } else { null() }
    }
    public mutating func memberOrNull(_ name: String, _ value: Timestamp?) {
        self.name(name)
        if let value { self.value(value) } else { null() }
    }

    /// Writes ASCII that needs no escape, in quotes.
    private mutating func quoted(_ ascii: [UInt8]) {
        separate()
        bytes.append(UInt8(ascii: "\""))
        bytes.append(contentsOf: ascii)
        bytes.append(UInt8(ascii: "\""))
    }

    private mutating func quote(_ text: String) {
        bytes.append(UInt8(ascii: "\""))
        let utf8 = text.utf8
        if Self.needsNoEscape(utf8.span) {
            bytes.append(contentsOf: utf8)
        } else {
            for byte in utf8 { escape(byte) }
        }
        bytes.append(UInt8(ascii: "\""))
    }

    /// Without an early return, so that several bytes are compared at once.
    private static func needsNoEscape(_ text: Span<UInt8>) -> Bool {
        var count = 0
        for index in text.indices {
            let byte = text[index]
            if byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") { count += 1 }
        }
        return count == 0
    }

    private mutating func escape(_ byte: UInt8) {
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"):
            bytes.append(UInt8(ascii: "\\"))
            bytes.append(byte)
        case 0x0A: bytes.append(contentsOf: "\\n".utf8)
        case 0x0D: bytes.append(contentsOf: "\\r".utf8)
        case 0x09: bytes.append(contentsOf: "\\t".utf8)
        case 0..<0x20:
            let digits = Array("0123456789abcdef".utf8)
            bytes.append(contentsOf: "\\u00".utf8)
            bytes.append(digits[Int(byte >> 4)])
            bytes.append(digits[Int(byte & 15)])
        default: bytes.append(byte)
        }
    }
}

/// Returns a finite number as JSON and people write it: whole numbers without a fraction.
public func decimalText(_ value: Double) -> String {
    value == value.rounded() && abs(value) < 1e15 ? String(Int64(value)) : value.description
}
