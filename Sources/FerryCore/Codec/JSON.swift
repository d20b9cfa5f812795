/// A JSON value (RFC 8259). Members keep their order.
public indirect enum JSON: Sendable, Equatable {
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
    public struct Member: Sendable, Equatable {
        /// Name.
        public let name: String
        /// Value.
        public let value: JSON
        /// Creates a member.
        public init(_ name: String, _ value: JSON) {
            self.name = name
            self.value = value
        }
    }

    /// Returns the member of an object with this name; `nil` for other values.
    public subscript(name: String) -> JSON? {
        guard case .object(let members) = self else { return nil }
        return members.first { $0.name.hasSameBytes(as: name) }?.value
    }

    /// The string, or `nil` for other values.
    public var string: String? { if case .string(let value) = self { value } else { nil } }
    /// The integer, or `nil` for other values.
    public var integer: Int64? { if case .integer(let value) = self { value } else { nil } }
    /// The boolean, or `nil` for other values.
    public var bool: Bool? { if case .bool(let value) = self { value } else { nil } }
    /// The elements, or `nil` for other values.
    public var array: [JSON]? { if case .array(let value) = self { value } else { nil } }
    /// The members, or `nil` for other values.
    public var members: [Member]? { if case .object(let value) = self { value } else { nil } }
    /// The number, or `nil` for other values.
    public var double: Double? {
        switch self {
        case .integer(let value): Double(value)
        case .number(let value): value
        case .literal(let text): Double(text)
        default: nil
        }
    }
    /// `true` for null.
    public var isNull: Bool { self == .null }

    /// Type of the value with its article, for messages: `a string`, `an object`, and so on.
    public var typeName: String {
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
    public struct SyntaxError: Error, Sendable, Equatable {
        /// Reason as a clause.
        public let reason: String
        /// Bytes before the error.
        public let offset: Int
    }

    /// U+FEFF in UTF-8, which some programs write before a text. Not part of the JSON (RFC 8259 §8.1).
    public static let byteOrderMark: [UInt8] = [0xEF, 0xBB, 0xBF]

    /// Largest number of values in a text, arrays and objects included: 250 for each job of the largest
    /// batch. A value and its name cost 32 bytes more in memory than in the text, where a value may take two.
    public static let valueCountMax = 2_500_000

    /// Reads one value that fills the whole text, as `JSONDocument` does.
    public static func parse(_ text: [UInt8], depthMax: Int = 64) throws(SyntaxError) -> JSON {
        try JSONView(parsing: text, depthMax: depthMax).json
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
    public func hasSameBytes(as other: String) -> Bool { self == other && utf8.elementsEqual(other.utf8) }
}
