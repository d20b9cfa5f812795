/// The file names of a `Content-Disposition` field, in the forms that RFC 6266 allows and that browsers
/// accept.
public struct ContentDisposition {
    private let parameters: [FieldParameter]

    /// Reads the value of the field.
    public init(_ value: String) {
        // Some servers leave out the type: `filename="a.txt"`.
        let first = value.utf8.prefix { $0 != UInt8(ascii: ";") && $0 != UInt8(ascii: "\"") }
        let hasType = !first.contains(UInt8(ascii: "="))
        parameters = FieldParameter.all(in: hasType ? value : ";" + value)
    }

    /// The names, the best one first: `filename*` (RFC 8187), its continuations (RFC 2231), `filename`.
    public var names: [String] {
        [
            first("filename*").flatMap { Self.extended($0.utf8[...]) }, continued,
            first("filename").flatMap(Self.plain),
        ]
        .compactMap(\.self)
    }

    private func first(_ name: String) -> String? { parameters.first { $0.name == name }?.value }

    /// Decodes `charset'language'value`. `nil` for a charset that RFC 8187 does not name, and for bytes that
    /// are no text in it.
    private static func extended(_ value: Substring.UTF8View) -> String? {
        let parts = value.split(separator: UInt8(ascii: "'"), maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count == 3 else { return nil }
        return text(percentDecoded(parts[2]), charset: String(Substring(parts[0])))
    }

    /// Joins `filename*0`, `filename*1*`, …; values with a final `*` are percent-encoded.
    private var continued: String? {
        var bytes: [UInt8] = []
        var charset = "utf-8"
        var number = 0
        while true {
            if let value = first("filename*\(number)*") {
                var value = value.utf8[...]
                if number == 0 {
                    let parts = value.split(
                        separator: UInt8(ascii: "'"), maxSplits: 2, omittingEmptySubsequences: false)
                    guard parts.count == 3 else { return nil }
                    (charset, value) = (String(Substring(parts[0])), parts[2])
                }
                bytes += Self.percentDecoded(value)
            } else if let value = first("filename*\(number)") {
                bytes += value.utf8
            } else {
                return number == 0 ? nil : Self.text(bytes, charset: charset)
            }
            number += 1
        }
    }

    /// Decodes what browsers decode in `filename`: words of RFC 2047, else `%XX` if all of it is UTF-8.
    private static func plain(_ value: String) -> String? {
        if let words = EncodedWords.decoded(value) { return words }
        let utf8 = value.utf8
        for place in utf8.indices where utf8[place] == UInt8(ascii: "%") {
            let digits = utf8[place...].dropFirst().prefix(2)
            guard digits.count == 2, digits.allSatisfy(isHexadecimal) else { return value }
        }
        return String(validating: percentDecoded(utf8[...]), as: UTF8.self) ?? value
    }

    /// Returns bytes as text, or `nil` if the charset is not known, or the bytes are none of its texts.
    fileprivate static func text(_ bytes: [UInt8], charset: String) -> String? {
        guard !bytes.isEmpty else { return nil }
        switch charset.lowercased() {
        case "utf-8", "utf8", "us-ascii": return String(validating: bytes, as: UTF8.self)
        case "iso-8859-1", "latin1": return String(String.UnicodeScalarView(bytes.map { Unicode.Scalar($0) }))
        default: return nil
        }
    }

    /// Decodes each `%XX`; other bytes stay.
    public static func percentDecoded(_ text: Substring.UTF8View) -> [UInt8] {
        var bytes: [UInt8] = []
        var rest = text
        while let byte = rest.popFirst() {
            let digits = rest.prefix(2)
            if byte == UInt8(ascii: "%"), digits.count == 2, digits.allSatisfy(isHexadecimal),
                let value = UInt8(Substring(digits), radix: 16)
            {
                bytes.append(value)
                rest = rest.dropFirst(2)
            } else {
                bytes.append(byte)
            }
        }
        return bytes
    }
}

private func isHexadecimal(_ byte: UInt8) -> Bool {
    (48...57).contains(byte) || (0x41...0x46).contains(byte & 0xDF)
}

/// A parameter of a field such as `Content-Type` (RFC 9110 §5.6.6).
public struct FieldParameter {
    /// Name in lower case.
    public let name: String
    /// Value; a quoted string is unquoted.
    public let value: String

    /// Returns the parameters after the first semicolon. Accepts white space around `=`, values without
    /// quotes that have spaces, and a quoted string without its end.
    public static func all(in value: String) -> [FieldParameter] {
        var found: [FieldParameter] = []
        var rest = value.utf8.drop { $0 != UInt8(ascii: ";") }
        while !rest.isEmpty {
            rest = rest.drop { $0 == UInt8(ascii: ";") || isSpace($0) }
            let name = rest.prefix { $0 != UInt8(ascii: "=") && $0 != UInt8(ascii: ";") }
            rest = rest.dropFirst(name.count)
            guard rest.first == UInt8(ascii: "=") else { continue }
            rest = rest.dropFirst().drop(while: isSpace)
            let text: [UInt8]
            if rest.first == UInt8(ascii: "\"") {
                rest = rest.dropFirst()
                text = quoted(&rest)
                rest = rest.drop { $0 != UInt8(ascii: ";") }
            } else {
                let raw = rest.prefix { $0 != UInt8(ascii: ";") }
                rest = rest.dropFirst(raw.count)
                text = Array(trimmed(raw))
            }
            // A missing semicolon leaves the type before the name: `attachment filename=a`.
            let word = trimmed(name).split(whereSeparator: isSpace).last ?? name
            found.append(
                FieldParameter(
                    name: Substring(word).lowercased(), value: String(decoding: text, as: UTF8.self)))
        }
        return found
    }

    /// Reads to the closing quote. A backslash quotes the next byte, except in a Windows path.
    private static func quoted(_ rest: inout Substring.UTF8View) -> [UInt8] {
        let start = rest.prefix(3)
        let isWindowsPath = start.count == 3 && start.dropFirst().elementsEqual(":\\".utf8)
        var text: [UInt8] = []
        while let byte = rest.popFirst(), byte != UInt8(ascii: "\"") {
            let isEscape = byte == UInt8(ascii: "\\") && (!isWindowsPath || rest.first == byte)
            text.append(isEscape ? rest.popFirst() ?? byte : byte)
        }
        return text
    }

    private static func trimmed(_ text: Substring.UTF8View) -> Substring.UTF8View {
        var text = text.drop(while: isSpace)
        while let last = text.last, isSpace(last) { text.removeLast() }
        return text
    }

    private static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }
}

/// Encoded words (RFC 2047 §2): `=?utf-8?B?…?=`.
private enum EncodedWords {
    /// Returns the text with its words decoded, or `nil` if it has none that can be decoded. White space
    /// between two words is dropped, and a character may be spread over words.
    static func decoded(_ text: String) -> String? {
        var result = ""
        var pending: (charset: String, bytes: [UInt8])?
        var hasWord = false
        var rest = text[...]
        func flush() -> Bool {
            guard let word = pending else { return true }
            pending = nil
            guard let decoded = ContentDisposition.text(word.bytes, charset: word.charset) else {
                return false
            }
            result += decoded
            return true
        }
        while let start = rest.firstRange(of: "=?") {
            let between = rest[..<start.lowerBound]
            guard let (word, end) = word(rest[start.upperBound...]) else { return nil }
            let isJoined = hasWord && between.allSatisfy { $0 == " " || $0 == "\t" }
            if let last = pending, isJoined, last.charset == word.charset {
                pending = (last.charset, last.bytes + word.bytes)
            } else {
                guard flush() else { return nil }
                if !isJoined { result += between }
                pending = word
            }
            hasWord = true
            rest = rest[end...]
        }
        guard hasWord, flush() else { return nil }
        return result + rest
    }

    /// Reads `charset?B?text?=`, and the end of it.
    private static func word(_ text: Substring) -> ((charset: String, bytes: [UInt8]), Substring.Index)? {
        let parts = text.split(separator: "?", maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count == 3, let end = parts[2].firstRange(of: "?=") else { return nil }
        let content = parts[2][..<end.lowerBound]
        // RFC 2231 §5: a language may follow the charset.
        let charset = parts[0].prefix { $0 != "*" }.lowercased()
        switch parts[1].lowercased() {
        case "b":
            let padding = String(repeating: "=", count: (4 - content.utf8.count % 4) % 4)
            return Base64.decode(content + padding).map { ((charset, $0), end.upperBound) }
        case "q":
            let text = content.replacing("_", with: " ").replacing("%", with: "%25").replacing("=", with: "%")
            return ((charset, ContentDisposition.percentDecoded(text.utf8[...])), end.upperBound)
        default: return nil
        }
    }
}
