/// Reads the elements of an XML document that a store sends, in the order of their end tags.
///
/// Made for the flat documents of S3-compatible stores. Reads any bytes in one pass without recursion, and
/// keeps at most `nameByteCountMax` bytes of a name, `textByteCountMax` of a text, and `depthMax` open
/// elements. Attributes, namespaces, comments and processing instructions are skipped. The scanner ends at
/// the first markup that is malformed, not complete, or a document type declaration, so that elements before
/// it are found in a truncated document too.
struct XMLScanner {
    /// An element whose end tag was read.
    struct Element: Equatable {
        /// Name without a namespace prefix.
        let name: String
        /// Name of the element that contains it; empty for the outermost one.
        let parent: String
        /// Text and CDATA with references replaced, spaces included; empty if the element has elements.
        let text: String
    }

    static let nameByteCountMax = 128
    static let textByteCountMax = 8_192
    static let depthMax = 32

    private struct Open {
        let name: String
        var text: [UInt8] = []
        var hasElements = false
    }

    private let bytes: [UInt8]
    private var index = 0
    private var open: [Open] = []
    private var isEnded = false

    init(_ bytes: [UInt8]) { self.bytes = bytes }

    /// Returns the next element, or `nil` at the end.
    mutating func next() -> Element? {
        while !isEnded, index < bytes.count {
            if bytes[index] != UInt8(ascii: "<") {
                readText()
            } else if let element = readMarkup() {
                return element
            }
        }
        return nil
    }

    /// Reads up to the next `<`.
    private mutating func readText() {
        let start = index
        index = bytes[start...].firstIndex(of: UInt8(ascii: "<")) ?? bytes.count
        guard !open.isEmpty else { return }
        var place = start
        while place < index {
            if bytes[place] == UInt8(ascii: "&"), let (reference, end) = reference(at: place, before: index) {
                keep(Array(reference.utf8)[...])
                place = end
            } else {
                let rest = bytes[(place + 1)..<index]
                let end = rest.firstIndex(of: UInt8(ascii: "&")) ?? index
                keep(bytes[place..<end])
                place = end
            }
        }
    }

    private mutating func keep(_ text: ArraySlice<UInt8>) {
        let last = open.count - 1
        open[last].text += text.prefix(Self.textByteCountMax - open[last].text.count)
    }

    /// Reads a reference (XML 1.0 §4.1): `&amp;`, `&#38;` or `&#x26;`. `nil` for other names, which stay as
    /// they are. A number that is no character becomes U+FFFD.
    private func reference(at place: Int, before limit: Int) -> (Character, end: Int)? {
        let longest = bytes[(place + 1)..<min(limit, place + 12)]
        guard let end = longest.firstIndex(of: UInt8(ascii: ";")) else { return nil }
        let name = String(decoding: bytes[(place + 1)..<end], as: UTF8.self)
        switch name {
        case "amp": return ("&", end + 1)
        case "lt": return ("<", end + 1)
        case "gt": return (">", end + 1)
        case "quot": return ("\"", end + 1)
        case "apos": return ("'", end + 1)
        default: break
        }
        let isHexadecimal = name.hasPrefix("#x")
        guard name.hasPrefix("#") else { return nil }
        let digits = name.dropFirst(isHexadecimal ? 2 : 1)
        guard digits.first?.isHexDigit == true,
            let number = UInt32(digits, radix: isHexadecimal ? 16 : 10)
        else { return nil }
        let scalar = number == 0 ? nil : Unicode.Scalar(number)
        return (Character(scalar ?? "\u{FFFD}"), end + 1)
    }

    /// Reads the markup that begins at `index`. Returns an element if it ends one.
    private mutating func readMarkup() -> Element? {
        if skip("<!--", to: "-->") || skip("<?", to: "?>") { return nil }
        if let text = between("<![CDATA[", "]]>") {
            if !open.isEmpty { keep(text) }
            return nil
        }
        let isEndTag = bytes.dropFirst(index + 1).first == UInt8(ascii: "/")
        index += isEndTag ? 2 : 1
        guard let name = readName(), let isEmpty = readRestOfTag() else {
            isEnded = true
            return nil
        }
        if !isEndTag {
            guard open.count < Self.depthMax else {
                isEnded = true
                return nil
            }
            if !open.isEmpty { open[open.count - 1].hasElements = true }
            open.append(Open(name: name))
            return isEmpty ? close() : nil
        }
        guard open.last?.name == name, !isEmpty else {
            isEnded = true
            return nil
        }
        return close()
    }

    private mutating func close() -> Element {
        let ended = open.removeLast()
        return Element(
            name: ended.name, parent: open.last?.name ?? "",
            text: ended.hasElements ? "" : String(decoding: ended.text, as: UTF8.self))
    }

    /// Reads a name and drops its prefix. `nil` if there is none, or if it is too long.
    private mutating func readName() -> String? {
        let rest = bytes[index...].prefix(Self.nameByteCountMax + 1)
        let name = rest.prefix { !Self.isSpace($0) && !"/><=&\"'!?".utf8.contains($0) }
        guard !name.isEmpty, name.count <= Self.nameByteCountMax else { return nil }
        index += name.count
        let local = name.split(separator: UInt8(ascii: ":"), omittingEmptySubsequences: false).last ?? name
        return String(decoding: local, as: UTF8.self)
    }

    /// Skips attributes up to the end of the tag. Returns whether the tag ends with `/>`, or `nil` if it has
    /// no end.
    private mutating func readRestOfTag() -> Bool? {
        var quote: UInt8?
        while index < bytes.count {
            let byte = bytes[index]
            index += 1
            if let open = quote {
                if byte == open { quote = nil }
                continue
            }
            switch byte {
            case UInt8(ascii: "\""), UInt8(ascii: "'"): quote = byte
            case UInt8(ascii: "<"): return nil
            case UInt8(ascii: ">"): return bytes[index - 2] == UInt8(ascii: "/")
            default: break
            }
        }
        return nil
    }

    /// Skips a piece of markup. Returns `false` if no such piece begins here.
    private mutating func skip(_ start: String, to end: String) -> Bool { between(start, end) != nil }

    /// Returns the bytes between two marks and moves behind them; `nil` if the first one is not here. Ends
    /// the document if the second one is missing.
    private mutating func between(_ start: String, _ end: String) -> ArraySlice<UInt8>? {
        guard bytes[index...].starts(with: start.utf8) else { return nil }
        let content = index + start.utf8.count
        let (first, count) = (end.utf8.first, end.utf8.count)
        var place = content
        while place + count <= bytes.count {
            if bytes[place] == first, bytes[place...].starts(with: end.utf8) {
                index = place + count
                return bytes[content..<place]
            }
            place += 1
        }
        isEnded = true
        return []
    }

    private static func isSpace(_ byte: UInt8) -> Bool { [0x20, 0x09, 0x0A, 0x0D].contains(byte) }
}
