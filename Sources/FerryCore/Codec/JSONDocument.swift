/// A checked JSON text (RFC 8259) and the places of its values in one flat array: what reads the values
/// (`JSONView`) makes only those that it needs.
final class JSONDocument: Sendable {
    /// A value, or the name of a member, which comes before its value.
    struct Token {
        enum Kind: UInt8 { case null, bool, number, plainString, escapedString, array, object }

        let kind: Kind
        /// First byte; of a string, that after the quote.
        let start: UInt32
        /// Byte after the value; of a string, its closing quote.
        fileprivate(set) var end: UInt32 = 0
        /// Index of the token after the value and all that it contains.
        fileprivate(set) var next: UInt32 = 0
    }

    let text: [UInt8]
    let tokens: [Token]

    fileprivate init(text: [UInt8], tokens: [Token]) {
        self.text = text
        self.tokens = tokens
    }

    /// Bytes of a token; of a string, with its escapes replaced.
    func bytes(of token: Token) -> ArraySlice<UInt8> { stringBytes(token, text) }

    /// The text of a token that is a string, or of a number.
    func string(_ token: Token) -> String { String(decoding: bytes(of: token), as: UTF8.self) }
}

/// Returns the bytes of a token in a text; of a string, with its escapes replaced.
private func stringBytes(_ token: JSONDocument.Token, _ text: [UInt8]) -> ArraySlice<UInt8> {
    let bytes = text[Int(token.start)..<Int(token.end)]
    return token.kind == .escapedString ? unescaped(bytes)[...] : bytes
}

/// One value of a `JSONDocument`.
public struct JSONView: Sendable, Equatable {
    /// Name and value of a member of an object.
    struct Member {
        let name: String
        let value: JSONView
    }

    /// Iterates over the members of an object.
    struct Pairs: Sequence, IteratorProtocol {
        fileprivate let document: JSONDocument
        fileprivate var index: Int
        fileprivate let end: Int

        mutating func next() -> (name: JSONDocument.Token, value: JSONView)? {
            guard index < end else { return nil }
            defer { index = Int(document.tokens[index + 1].next) }
            return (document.tokens[index], JSONView(document, index + 1))
        }
    }

    let document: JSONDocument
    let index: Int

    private init(_ document: JSONDocument, _ index: Int) {
        self.document = document
        self.index = index
    }

    /// Reads one value that fills the whole text, except for white space around it and a byte order mark
    /// before it. Strict: UTF-8 only, no duplicate names, at most `depthMax` levels and `JSON.valueCountMax`
    /// values.
    public init(parsing text: [UInt8], depthMax: Int = 64) throws(JSON.SyntaxError) {
        var valuesLeft = JSON.valueCountMax
        try self.init(parsing: text, depthMax: depthMax, valuesLeft: &valuesLeft)
    }

    /// Reads one of several texts, which may have `valuesLeft` values together.
    public init(
        parsing text: [UInt8], depthMax: Int = 64, valuesLeft: inout Int
    ) throws(JSON.SyntaxError) {
        var parser = JSONParser(text, depthMax: depthMax, valuesLeft: valuesLeft)
        defer { valuesLeft = parser.valuesLeft }
        self.init(JSONDocument(text: text, tokens: try parser.document()), 0)
    }

    /// Creates a view of a value: writes it and reads it again. Throws if an object has two members of the
    /// same name.
    public init(_ json: JSON) throws(JSON.SyntaxError) {
        var writer = JSONWriter()
        writer.value(json)
        var parser = JSONParser(writer.bytes, depthMax: .max, valuesLeft: .max)
        self.init(JSONDocument(text: writer.bytes, tokens: try parser.document()), 0)
    }

    /// Like `init(_:)`, for a part of a request. `pointer`: its place.
    init(_ json: JSON, at pointer: String) throws(InvalidFields) {
        do throws(JSON.SyntaxError) {
            try self.init(json)
        } catch {
            throw InvalidFields(pointer, "invalid_value", "This is no valid JSON: \(error.reason).")
        }
    }

    /// Views are equal if they show the same place of the same text.
    public static func == (a: Self, b: Self) -> Bool { a.document === b.document && a.index == b.index }

    var token: JSONDocument.Token { document.tokens[index] }

    /// The string, or `nil` for other values.
    public var string: String? {
        switch token.kind {
        case .plainString, .escapedString: document.string(token)
        default: nil
        }
    }

    /// The integer, or `nil` for other values.
    public var integer: Int64? { token.kind == .number ? number.integer : nil }

    /// The number, or `nil` for other values.
    public var double: Double? { token.kind == .number ? number.double : nil }

    /// The boolean, or `nil` for other values.
    public var bool: Bool? {
        token.kind == .bool ? document.text[Int(token.start)] == UInt8(ascii: "t") : nil
    }

    /// `true` for null.
    public var isNull: Bool { token.kind == .null }

    /// `true` for an object.
    public var isObject: Bool { token.kind == .object }

    /// The elements, or `nil` for other values.
    var array: [JSONView]? {
        guard token.kind == .array else { return nil }
        return Array(
            sequence(state: index + 1) { index -> JSONView? in
                guard index < token.next else { return nil }
                defer { index = Int(document.tokens[index].next) }
                return JSONView(document, index)
            })
    }

    /// The members of an object with their names, or `nil` for other values.
    var members: [Member]? {
        isObject ? pairs.map { Member(name: document.string($0.name), value: $0.value) } : nil
    }

    /// The members of an object, whose names are not made; empty for other values.
    var pairs: Pairs { Pairs(document: document, index: index + 1, end: isObject ? Int(token.next) : 0) }

    /// Returns the place and the value of the member of an object with this name; `nil` for other values.
    func member(_ name: String) -> (place: Int, value: JSONView)? {
        guard isObject else { return nil }
        let (tokens, text) = (document.tokens, document.text)
        let utf8 = name.utf8
        let wanted = utf8.span
        let end = Int(tokens[index].next)
        var (place, next) = (0, index + 1)
        while next < end {
            let token = tokens[next]
            let isSame =
                token.kind == .plainString
                ? Self.isSame(text, from: Int(token.start), to: Int(token.end), as: wanted)
                : document.bytes(of: token).elementsEqual(utf8)
            if isSame { return (place, JSONView(document, next + 1)) }
            place += 1
            next = Int(tokens[next + 1].next)
        }
        return nil
    }

    private static func isSame(
        _ text: [UInt8], from start: Int, to end: Int, as wanted: Span<UInt8>
    ) -> Bool {
        guard end - start == wanted.count else { return false }
        for offset in wanted.indices where text[start + offset] != wanted[offset] { return false }
        return true
    }

    /// Returns the member of an object with this name; `nil` for other values.
    public subscript(name: String) -> JSONView? { member(name)?.value }

    /// The value as a tree.
    public var json: JSON {
        switch token.kind {
        case .null: .null
        case .bool: .bool(bool == true)
        case .number: number
        case .plainString, .escapedString: .string(document.string(token))
        case .array: .array((array ?? []).map(\.json))
        case .object: .object((members ?? []).map { JSON.Member($0.name, $0.value.json) })
        }
    }

    private var number: JSON {
        let literal = document.string(token)
        if let integer = Int64(literal), literal != "-0" { return .integer(integer) }
        // The parser has checked that this is a finite number.
        let double = Double(literal) ?? 0
        return decimalText(double) == literal ? .number(double) : .literal(literal)
    }

    /// Type of the value with its article, for messages: `a string`, `an object`, and so on.
    public var typeName: String {
        switch token.kind {
        case .null: "null"
        case .bool: "a boolean"
        case .number: "a number"
        case .plainString, .escapedString: "a string"
        case .array: "an array"
        case .object: "an object"
        }
    }
}

extension JSONWriter {
    /// Writes a value of a document without its white space.
    public mutating func value(_ view: JSONView) {
        switch view.token.kind {
        case .null, .bool, .number: raw(view.document.bytes(of: view.token))
        case .plainString, .escapedString: value(view.document.string(view.token))
        case .array:
            beginArray()
            for element in view.array ?? [] { value(element) }
            endArray()
        case .object:
            beginObject()
            for (name, member) in view.pairs {
                self.name(view.document.string(name))
                value(member)
            }
            endObject()
        }
    }
}

extension JSONWriter {
    /// Writes a value with the members of each object sorted by the bytes of their names, without white space
    /// and escapes that are not needed, so that equal values have equal texts. Numbers of at most 15 digits
    /// are equal as in `1` and `1.0`, longer ones if they are written alike.
    public mutating func canonical(_ view: JSONView) {
        switch view.token.kind {
        case .array:
            beginArray()
            for element in view.array ?? [] { canonical(element) }
            endArray()
        case .object:
            let members = view.pairs.map { (name: view.document.bytes(of: $0.name), value: $0.value) }
            beginObject()
            for member in members.sorted(by: { $0.name.lexicographicallyPrecedes($1.name) }) {
                name(String(decoding: member.name, as: UTF8.self))
                canonical(member.value)
            }
            endObject()
        case .number:
            let digits = view.document.bytes(of: view.token)
            // A double has at least 15 decimal digits: no two such numbers have the same one.
            if digits.count <= 15, let number = view.double { value(number) } else { value(view) }
        default: value(view)
        }
    }
}

/// Returns the bytes of a checked string with its escapes replaced.
private func unescaped(_ text: ArraySlice<UInt8>) -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(text.count)
    var index = text.startIndex
    func hex4() -> UInt32 {
        defer { index += 4 }
        return text[index..<(index + 4)].reduce(0) { $0 << 4 | UInt32(hexValue($1) ?? 0) }
    }
    while index < text.endIndex {
        let byte = text[index]
        index += 1
        guard byte == UInt8(ascii: "\\") else {
            bytes.append(byte)
            continue
        }
        index += 1
        switch text[index - 1] {
        case UInt8(ascii: "b"): bytes.append(0x08)
        case UInt8(ascii: "f"): bytes.append(0x0C)
        case UInt8(ascii: "n"): bytes.append(0x0A)
        case UInt8(ascii: "r"): bytes.append(0x0D)
        case UInt8(ascii: "t"): bytes.append(0x09)
        case UInt8(ascii: "u"):
            var code = hex4()
            if (0xD800..<0xDC00).contains(code) {
                index += 2
                code = 0x10000 + (code - 0xD800) << 10 + (hex4() - 0xDC00)
            }
            bytes.append(contentsOf: Unicode.Scalar(code).flatMap(UTF8.encode).map(Array.init) ?? [])
        case let plain: bytes.append(plain)
        }
    }
    return bytes
}

/// Returns the value of a hexadecimal digit.
private func hexValue(_ digit: UInt8) -> UInt8? {
    switch digit {
    case 48...57: digit - 48
    case 65...70: digit - 55
    case 97...102: digit - 87
    default: nil
    }
}

/// Recursive-descent parser over bytes (RFC 8259 §2 to §7).
private struct JSONParser {
    private typealias Kind = JSONDocument.Token.Kind

    private let text: [UInt8]
    private var index = 0
    private let depthMax: Int
    private(set) var valuesLeft: Int
    private var tokens: [JSONDocument.Token] = []

    init(_ text: [UInt8], depthMax: Int, valuesLeft: Int) {
        self.text = text
        self.depthMax = depthMax
        self.valuesLeft = valuesLeft
    }

    mutating func document() throws(JSON.SyntaxError) -> [JSONDocument.Token] {
        guard text.count < UInt32.max else { throw failure("the text is too long") }
        // A token for every 12 bytes is enough for most texts.
        tokens.reserveCapacity(text.count / 12 + 1)
        if text.starts(with: JSON.byteOrderMark) { index = JSON.byteOrderMark.count }
        try value(depth: 0)
        skipSpace()
        guard index == text.count else { throw failure("something follows the value") }
        return tokens
    }

    private func failure(_ reason: String) -> JSON.SyntaxError {
        JSON.SyntaxError(reason: reason, offset: index)
    }

    private func isNext(_ byte: Unicode.Scalar) -> Bool {
        index < text.count && text[index] == UInt8(ascii: byte)
    }

    private mutating func skipSpace() {
        while index < text.count {
            switch text[index] {
            case 0x20, 0x0A, 0x0D, 0x09: index += 1
            default: return
            }
        }
    }

    /// Adds a token that ends at `end`.
    private mutating func add(_ kind: Kind, from start: Int, to end: Int) {
        tokens.append(
            JSONDocument.Token(
                kind: kind, start: UInt32(start), end: UInt32(end), next: UInt32(tokens.count + 1)))
    }

    /// Ends the array or object whose token is at `place`.
    private mutating func end(_ place: Int) {
        tokens[place].end = UInt32(index)
        tokens[place].next = UInt32(tokens.count)
    }

    private mutating func value(depth: Int) throws(JSON.SyntaxError) {
        guard depth <= depthMax else { throw failure("more than \(depthMax) levels") }
        guard valuesLeft > 0 else { throw failure("too many values, more than \(JSON.valueCountMax)") }
        valuesLeft -= 1
        skipSpace()
        guard index < text.count else { throw failure("the text ends too early") }
        switch text[index] {
        case UInt8(ascii: "{"): try object(depth: depth)
        case UInt8(ascii: "["): try array(depth: depth)
        case UInt8(ascii: "\""): try string()
        case UInt8(ascii: "t"): try word("true", .bool)
        case UInt8(ascii: "f"): try word("false", .bool)
        case UInt8(ascii: "n"): try word("null", .null)
        default: try number()
        }
    }

    private mutating func word(_ word: String, _ kind: Kind) throws(JSON.SyntaxError) {
        guard text[index...].starts(with: word.utf8) else { throw failure("not a value") }
        add(kind, from: index, to: index + word.utf8.count)
        index += word.utf8.count
    }

    private mutating func object(depth: Int) throws(JSON.SyntaxError) {
        let place = tokens.count
        add(.object, from: index, to: index)
        index += 1
        skipSpace()
        if isNext("}") {
            index += 1
            return end(place)
        }
        var count = 0
        // With many members, a linear search for duplicates would be quadratic.
        var seen: Set<ArraySlice<UInt8>> = []
        repeat {
            skipSpace()
            guard isNext("\"") else { throw failure("a name in quotes is missing") }
            let name = tokens.count
            try string()
            guard isNew(name, in: place, count: count, &seen) else {
                let text = String(decoding: stringBytes(tokens[name], text), as: UTF8.self)
                throw failure("the name \"\(text)\" occurs twice")
            }
            count += 1
            skipSpace()
            guard isNext(":") else { throw failure("a colon is missing") }
            index += 1
            try value(depth: depth + 1)
        } while try !isEnd(UInt8(ascii: "}"))
        end(place)
    }

    /// Returns `true` if the object at `place`, which has `count` members so far, has no other member of this
    /// name. `seen`: the names, once there are many.
    private func isNew(
        _ name: Int, in place: Int, count: Int, _ seen: inout Set<ArraySlice<UInt8>>
    ) -> Bool {
        let bytes = stringBytes(tokens[name], text)
        guard count < 16 || !seen.isEmpty else {
            seen = Set(names(of: place, before: name))
            return seen.insert(bytes).inserted
        }
        guard seen.isEmpty else { return seen.insert(bytes).inserted }
        return !names(of: place, before: name).contains(bytes)
    }

    /// Names of the members of the object at `place` that were read.
    private func names(of place: Int, before end: Int) -> some Sequence<ArraySlice<UInt8>> {
        sequence(state: place + 1) { name -> ArraySlice<UInt8>? in
            guard name < end else { return nil }
            defer { name = Int(tokens[name + 1].next) }
            return stringBytes(tokens[name], text)
        }
    }

    private mutating func array(depth: Int) throws(JSON.SyntaxError) {
        let place = tokens.count
        add(.array, from: index, to: index)
        index += 1
        skipSpace()
        if isNext("]") {
            index += 1
            return end(place)
        }
        repeat { try value(depth: depth + 1) } while try !isEnd(UInt8(ascii: "]"))
        end(place)
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

    private mutating func string() throws(JSON.SyntaxError) {
        index += 1
        let start = index
        var isASCII = true
        var kind = Kind.plainString
        while index < text.count {
            let byte = text[index]
            switch byte {
            case UInt8(ascii: "\""):
                // Most strings are ASCII.
                if !isASCII, String(validating: text[start..<index], as: UTF8.self) == nil {
                    throw failure("the text is not UTF-8")
                }
                add(kind, from: start, to: index)
                index += 1
                return
            case UInt8(ascii: "\\"):
                kind = .escapedString
                index += 1
                try escape()
            case 0..<0x20: throw failure("a control character in a string")
            default:
                if byte >= 0x80 { isASCII = false }
                index += 1
            }
        }
        throw failure("a string does not end")
    }

    private mutating func escape() throws(JSON.SyntaxError) {
        guard index < text.count else { throw failure("the text ends too early") }
        let byte = text[index]
        index += 1
        switch byte {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"), UInt8(ascii: "b"), UInt8(ascii: "f"),
            UInt8(ascii: "n"), UInt8(ascii: "r"), UInt8(ascii: "t"):
            return
        case UInt8(ascii: "u"): try unicode()
        default: throw failure("an unknown escape")
        }
    }

    private mutating func unicode() throws(JSON.SyntaxError) {
        let code = try hex4()
        guard !(0xDC00..<0xE000).contains(code) else { throw failure("half a surrogate pair") }
        guard (0xD800..<0xDC00).contains(code) else { return }
        guard isNext("\\"), index + 1 < text.count, text[index + 1] == UInt8(ascii: "u") else {
            throw failure("half a surrogate pair")
        }
        index += 2
        guard (0xDC00..<0xE000).contains(try hex4()) else { throw failure("half a surrogate pair") }
    }

    private mutating func hex4() throws(JSON.SyntaxError) -> UInt32 {
        guard index + 4 <= text.count else { throw failure("the text ends too early") }
        var code: UInt32 = 0
        for byte in text[index..<(index + 4)] {
            guard let digit = hexValue(byte) else { throw failure("not a hexadecimal digit") }
            code = code << 4 | UInt32(digit)
        }
        index += 4
        return code
    }

    private mutating func digits() throws(JSON.SyntaxError) {
        let start = index
        while index < text.count, (48...57).contains(text[index]) { index += 1 }
        guard index > start else { throw failure("not a value") }
    }

    private mutating func number() throws(JSON.SyntaxError) {
        let start = index
        if isNext("-") { index += 1 }
        let first = index
        try digits()
        guard index == first + 1 || text[first] != UInt8(ascii: "0") else {
            throw failure("a number begins with 0")
        }
        var hasExponent = false
        if isNext(".") {
            index += 1
            try digits()
        }
        if isNext("e") || isNext("E") {
            hasExponent = true
            index += 1
            if isNext("+") || isNext("-") { index += 1 }
            try digits()
        }
        // Without an exponent, only a number of more than 300 digits can be too large.
        if hasExponent || index - start > 300 {
            let double = Double(String(decoding: text[start..<index], as: UTF8.self))
            guard double?.isFinite == true else { throw failure("a number is too large") }
        }
        add(.number, from: start, to: index)
    }
}
