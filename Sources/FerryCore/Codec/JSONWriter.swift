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
        quote(name, isName: true)
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
        quote(value, isName: false)
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

    /// Appends a name with its colon, or a text.
    private mutating func quote(_ text: String, isName: Bool) {
        let utf8 = text.utf8.span
        guard Self.needsNoEscape(utf8) else {
            separate()
            bytes.append(UInt8(ascii: "\""))
            for index in utf8.indices { escape(utf8[index]) }
            bytes.append(contentsOf: isName ? "\":".utf8 : "\"".utf8)
            needsComma = !isName
            return
        }
        append(unescaped: utf8, isName: isName)
    }

    /// As `quote`, for text that needs no escape. This runs for each name and text of a job: the capacity is
    /// checked once, and the text is copied as a whole, for which `OutputSpan` has no safe function yet.
    private mutating func append(unescaped text: borrowing Span<UInt8>, isName: Bool) {
        let (needsComma, length) = (needsComma, text.count)
        bytes.append(addingCapacity: length + 4) { output in
            unsafe output.withUnsafeMutableBufferPointer { buffer, count in
                if needsComma { unsafe buffer[0] = UInt8(ascii: ",") }
                let start = needsComma ? 1 : 0
                unsafe buffer[start] = UInt8(ascii: "\"")
                unsafe text.withUnsafeBufferPointer { text in
                    let place = unsafe UnsafeMutableBufferPointer(rebasing: buffer[(start + 1)...])
                    _ = unsafe place.update(fromContentsOf: text)
                }
                unsafe buffer[start + length + 1] = UInt8(ascii: "\"")
                if isName { unsafe buffer[start + length + 2] = UInt8(ascii: ":") }
                count = start + length + (isName ? 3 : 2)
            }
        }
        self.needsComma = !isName
    }

    /// Returns `true` if `hasEscape` is false for all bytes, eight of which it compares at once. The last
    /// eight may overlap those before.
    private static func needsNoEscape(_ text: Span<UInt8>) -> Bool {
        let bytes = unsafe text.bytes
        let last = bytes.byteCount - 8
        guard last >= 0 else {
            var word = UInt64(repeatedByte: UInt8(ascii: " "))
            for offset in 0..<bytes.byteCount { word = word << 8 | UInt64(text[offset]) }
            return !hasEscape(word)
        }
        var offset = 0
        while offset < last {
            if hasEscape(unsafe bytes.unsafeLoadUnaligned(fromByteOffset: offset, as: UInt64.self)) {
                return false
            }
            offset += 8
        }
        return !hasEscape(unsafe bytes.unsafeLoadUnaligned(fromByteOffset: last, as: UInt64.self))
    }

    /// Returns `true` if one of the eight bytes is a control character, `"` or `\`: subtracting a limit
    /// borrows into the highest bit of a byte below it (Warren, Hacker's Delight, 2nd edition, §6-1).
    private static func hasEscape(_ word: UInt64) -> Bool {
        let ones = UInt64(repeatedByte: 1)
        let quote = word ^ UInt64(repeatedByte: UInt8(ascii: "\""))
        let backslash = word ^ UInt64(repeatedByte: UInt8(ascii: "\\"))
        let found =
            (word &- UInt64(repeatedByte: 0x20)) & ~word | (quote &- ones) & ~quote
            | (backslash &- ones) & ~backslash
        return found & UInt64(repeatedByte: 0x80) != 0
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

extension UInt64 {
    /// Creates a word of eight equal bytes.
    fileprivate init(repeatedByte byte: UInt8) { self = UInt64(byte) * 0x0101_0101_0101_0101 }
}

/// Returns a finite number as JSON and people write it: whole numbers without a fraction.
public func decimalText(_ value: Double) -> String {
    value == value.rounded() && abs(value) < 1e15 ? String(Int64(value)) : value.description
}
