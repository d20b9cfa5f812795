/// A JSON value (RFC 8259). Members keep their order.
package indirect enum JSON: Sendable, Equatable {
    case null
    case bool(Bool)
    /// A number without fraction or exponent that fits.
    case integer(Int64)
    /// A number whose text is the shortest text of the double.
    case number(Double)
    /// Any other number as its text: `18446744073709551615`, `1.0`, `1e2`.
    case literal(String)
    case string(String)
    case array([JSON])
    case object([Member])

    /// Name and value of a member of an object.
    package struct Member: Sendable, Equatable {
        /// Name.
        package let name: String
        /// Value.
        package let value: JSON
        /// Creates a member.
        package init(_ name: String, _ value: JSON) {
            self.name = name
            self.value = value
        }
    }

    /// Returns the member of an object with this name; `nil` for other values.
    package subscript(name: String) -> JSON? {
        guard case .object(let members) = self else { return nil }
        return members.first { $0.name.hasSameBytes(as: name) }?.value
    }

    /// The string, or `nil` for other values.
    package var string: String? { if case .string(let value) = self { value } else { nil } }
    /// The integer, or `nil` for other values.
    package var integer: Int64? { if case .integer(let value) = self { value } else { nil } }
    /// The boolean, or `nil` for other values.
    package var bool: Bool? { if case .bool(let value) = self { value } else { nil } }
    /// The elements, or `nil` for other values.
    package var array: [JSON]? { if case .array(let value) = self { value } else { nil } }
    /// The members, or `nil` for other values.
    package var members: [Member]? { if case .object(let value) = self { value } else { nil } }
    /// The number, or `nil` for other values.
    package var double: Double? {
        switch self {
        case .integer(let value): Double(value)
        case .number(let value): value
        case .literal(let text): Double(text)
        default: nil
        }
    }
    /// `true` for null.
    package var isNull: Bool { self == .null }

    /// Type of the value with its article, for messages: `a string`, `an object`, and so on.
    package var typeName: String {
        switch self {
        case .null: "null"
        case .bool: "a boolean"
        case .integer, .number, .literal: "a number"
        case .string: "a string"
        case .array: "an array"
        case .object: "an object"
        }
    }

    /// Reason why a text is not JSON, and the offset in bytes.
    package struct SyntaxError: Error, Sendable, Equatable {
        /// Reason as a clause.
        package let reason: String
        /// Bytes before the error.
        package let offset: Int
    }

    /// Largest number of values in a text, arrays and objects included: 250 for each job of the largest
    /// batch. A value costs up to a hundred bytes more in memory than in the text, where it may take two.
    package static let valueCountMax = 2_500_000

    /// Reads one value that fills the whole text, except for white space around it. Strict: UTF-8 only, no
    /// duplicate names, at most `depthMax` levels and `valueCountMax` values.
    package static func parse(_ text: [UInt8], depthMax: Int = 64) throws(SyntaxError) -> JSON {
        var valuesLeft = valueCountMax
        return try parse(text, depthMax: depthMax, valuesLeft: &valuesLeft)
    }

    /// Reads one of several texts, which may have `valuesLeft` values together.
    package static func parse(
        _ text: [UInt8], depthMax: Int = 64, valuesLeft: inout Int
    ) throws(SyntaxError) -> JSON {
        var parser = JSONParser(text, depthMax: depthMax, valuesLeft: valuesLeft)
        defer { valuesLeft = parser.valuesLeft }
        return try parser.document()
    }
}

/// Recursive-descent parser over bytes (RFC 8259 §2 to §7).
struct JSONParser {
    private let text: [UInt8]
    private var index = 0
    private let depthMax: Int
    private(set) var valuesLeft: Int

    init(_ text: [UInt8], depthMax: Int, valuesLeft: Int) {
        self.text = text
        self.depthMax = depthMax
        self.valuesLeft = valuesLeft
    }

    mutating func document() throws(JSON.SyntaxError) -> JSON {
        let value = try value(depth: 0)
        skipSpace()
        guard index == text.count else { throw failure("something follows the value") }
        return value
    }

    private func failure(_ reason: String) -> JSON.SyntaxError {
        JSON.SyntaxError(reason: reason, offset: index)
    }

    private mutating func skipSpace() {
        while index < text.count {
            switch text[index] {
            case 0x20, 0x0A, 0x0D, 0x09: index += 1
            default: return
            }
        }
    }

    private mutating func value(depth: Int) throws(JSON.SyntaxError) -> JSON {
        guard depth <= depthMax else { throw failure("more than \(depthMax) levels") }
        guard valuesLeft > 0 else { throw failure("too many values, more than \(JSON.valueCountMax)") }
        valuesLeft -= 1
        skipSpace()
        guard index < text.count else { throw failure("the text ends too early") }
        switch text[index] {
        case UInt8(ascii: "{"): return try object(depth: depth)
        case UInt8(ascii: "["): return try array(depth: depth)
        case UInt8(ascii: "\""): return .string(try string())
        case UInt8(ascii: "t"): return try word("true", .bool(true))
        case UInt8(ascii: "f"): return try word("false", .bool(false))
        case UInt8(ascii: "n"): return try word("null", .null)
        default: return try number()
        }
    }

    private mutating func word(_ word: String, _ value: JSON) throws(JSON.SyntaxError) -> JSON {
        guard text[index...].starts(with: word.utf8) else { throw failure("not a value") }
        index += word.utf8.count
        return value
    }

    private mutating func object(depth: Int) throws(JSON.SyntaxError) -> JSON {
        index += 1
        var members: [JSON.Member] = []
        // With many members, a linear search for duplicates would be quadratic.
        var seen: Set<ByteKey> = []
        skipSpace()
        if index < text.count, text[index] == UInt8(ascii: "}") {
            index += 1
            return .object(members)
        }
        while true {
            skipSpace()
            guard index < text.count, text[index] == UInt8(ascii: "\"") else {
                throw failure("a name in quotes is missing")
            }
            let name = try string()
            if members.count < 8 {
                guard !members.contains(where: { $0.name.hasSameBytes(as: name) }) else {
                    throw failure("the name \"\(name)\" occurs twice")
                }
            } else {
                if seen.isEmpty { seen = Set(members.map { ByteKey($0.name) }) }
                guard seen.insert(ByteKey(name)).inserted else {
                    throw failure("the name \"\(name)\" occurs twice")
                }
            }
            skipSpace()
            guard index < text.count, text[index] == UInt8(ascii: ":") else {
                throw failure("a colon is missing")
            }
            index += 1
            members.append(JSON.Member(name, try value(depth: depth + 1)))
            if try isEnd(UInt8(ascii: "}")) { return .object(members) }
        }
    }

    private mutating func array(depth: Int) throws(JSON.SyntaxError) -> JSON {
        index += 1
        var values: [JSON] = []
        skipSpace()
        if index < text.count, text[index] == UInt8(ascii: "]") {
            index += 1
            return .array(values)
        }
        while true {
            values.append(try value(depth: depth + 1))
            if try isEnd(UInt8(ascii: "]")) { return .array(values) }
        }
    }

    private mutating func isEnd(_ closing: UInt8) throws(JSON.SyntaxError) -> Bool {
        skipSpace()
        guard index < text.count else { throw failure("the text ends too early") }
        switch text[index] {
        case closing:
            index += 1
            return true
        case UInt8(ascii: ","):
            index += 1
            return false
        default: throw failure("a comma or a closing bracket is missing")
        }
    }

    private mutating func string() throws(JSON.SyntaxError) -> String {
        index += 1
        let start = index
        var isASCII = true
        while index < text.count {
            let byte = text[index]
            if byte == UInt8(ascii: "\"") {
                defer { index += 1 }
                // Most strings are ASCII, and the validating initializer is several times slower.
                if isASCII { return String(decoding: text[start..<index], as: UTF8.self) }
                guard let plain = String(validating: text[start..<index], as: UTF8.self) else {
                    throw failure("the text is not UTF-8")
                }
                return plain
            }
            if byte == UInt8(ascii: "\\") { return try escapedString(from: start) }
            guard byte >= 0x20 else { throw failure("a control character in a string") }
            if byte >= 0x80 { isASCII = false }
            index += 1
        }
        throw failure("a string does not end")
    }

    private mutating func escapedString(from start: Int) throws(JSON.SyntaxError) -> String {
        var bytes = Array(text[start..<index])
        while index < text.count {
            let byte = text[index]
            index += 1
            switch byte {
            case UInt8(ascii: "\""):
                guard let string = String(validating: bytes, as: UTF8.self) else {
                    throw failure("the text is not UTF-8")
                }
                return string
            case UInt8(ascii: "\\"): try escape(into: &bytes)
            case 0..<0x20: throw failure("a control character in a string")
            default: bytes.append(byte)
            }
        }
        throw failure("a string does not end")
    }

    private mutating func escape(into bytes: inout [UInt8]) throws(JSON.SyntaxError) {
        guard index < text.count else { throw failure("the text ends too early") }
        let byte = text[index]
        index += 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): bytes.append(byte)
        case UInt8(ascii: "b"): bytes.append(0x08)
        case UInt8(ascii: "f"): bytes.append(0x0C)
        case UInt8(ascii: "n"): bytes.append(0x0A)
        case UInt8(ascii: "r"): bytes.append(0x0D)
        case UInt8(ascii: "t"): bytes.append(0x09)
        case UInt8(ascii: "u"): try unicode(into: &bytes)
        default: throw failure("an unknown escape")
        }
    }

    private mutating func unicode(into bytes: inout [UInt8]) throws(JSON.SyntaxError) {
        var code = try hex4()
        if (0xD800..<0xDC00).contains(code) {
            guard index + 1 < text.count, text[index] == UInt8(ascii: "\\"),
                text[index + 1] == UInt8(ascii: "u")
            else {
                throw failure("half a surrogate pair")
            }
            index += 2
            let low = try hex4()
            guard (0xDC00..<0xE000).contains(low) else { throw failure("half a surrogate pair") }
            code = 0x10000 + (code - 0xD800) << 10 + (low - 0xDC00)
        }
        guard let scalar = Unicode.Scalar(code) else { throw failure("half a surrogate pair") }
        bytes.append(contentsOf: UTF8.encode(scalar).map(Array.init) ?? [])
    }

    private mutating func hex4() throws(JSON.SyntaxError) -> UInt32 {
        guard index + 4 <= text.count else { throw failure("the text ends too early") }
        var code: UInt32 = 0
        for byte in text[index..<(index + 4)] {
            switch byte {
            case 48...57: code = code << 4 | UInt32(byte - 48)
            case 65...70: code = code << 4 | UInt32(byte - 55)
            case 97...102: code = code << 4 | UInt32(byte - 87)
            default: throw failure("not a hexadecimal digit")
            }
        }
        index += 4
        return code
    }

    private mutating func digits() throws(JSON.SyntaxError) {
        let start = index
        while index < text.count, (48...57).contains(text[index]) { index += 1 }
        guard index > start else { throw failure("not a value") }
    }

    private mutating func number() throws(JSON.SyntaxError) -> JSON {
        let start = index
        if text[index] == UInt8(ascii: "-") { index += 1 }
        let first = index
        try digits()
        guard index == first + 1 || text[first] != UInt8(ascii: "0") else {
            throw failure("a number begins with 0")
        }
        var isInteger = true
        if index < text.count, text[index] == UInt8(ascii: ".") {
            isInteger = false
            index += 1
            try digits()
        }
        if index < text.count, text[index] | 32 == UInt8(ascii: "e") {
            isInteger = false
            index += 1
            if index < text.count, text[index] == UInt8(ascii: "+") || text[index] == UInt8(ascii: "-") {
                index += 1
            }
            try digits()
        }
        let literal = String(decoding: text[start..<index], as: UTF8.self)
        if isInteger, let integer = Int64(literal), literal != "-0" { return .integer(integer) }
        guard let double = Double(literal), double.isFinite else { throw failure("a number is too large") }
        return decimalText(double) == literal ? .number(double) : .literal(literal)
    }
}

/// A text as a key that is compared byte by byte.
struct ByteKey: Hashable {
    private let text: String

    init(_ text: String) { self.text = text }

    static func == (a: Self, b: Self) -> Bool { a.text.hasSameBytes(as: b.text) }

    func hash(into hasher: inout Hasher) {
        for byte in text.utf8 { hasher.combine(byte) }
    }
}

extension String {
    /// Compares bytes; `==` considers equivalent Unicode sequences equal (é as one or two code points).
    package func hasSameBytes(as other: String) -> Bool { self == other && utf8.elementsEqual(other.utf8) }
}
