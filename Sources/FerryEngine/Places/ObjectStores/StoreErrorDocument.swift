/// The XML document with which an S3-compatible store explains a refusal.
struct StoreErrorDocument: Sendable, Equatable {
    static let codeByteCountMax = 64
    static let messageCharacterCountMax = 200

    /// Code of the store, such as `NoSuchBucket`: letters, digits, dots, dashes and underscores.
    let code: String
    /// The store's own explanation on one line, without control characters; `nil` if there is none.
    let message: String?
    /// The region in which the bucket is; `nil` if the document does not name it.
    let region: String?

    /// Reads a response body or its beginning. `nil` if no complete element `Error/Code` is in it. `token`:
    /// session token of the request's key, or `nil`; a message that repeats it is left out.
    init?(_ body: [UInt8], token: String? = nil) {
        var scanner = XMLScanner(body)
        var texts: [String: String] = [:]
        while let element = scanner.next() {
            guard element.parent == "Error", texts[element.name] == nil else { continue }
            // Other elements are only about the request.
            guard ["Code", "Message", "Region"].contains(element.name) else { continue }
            texts[element.name] = Self.line(element.text)
        }
        guard let code = texts["Code"], Self.isName(code) else { return nil }
        self.code = code
        message = texts["Message"].flatMap { text in
            text.isEmpty || token.map(text.contains) ?? false ? nil : Self.shortened(text)
        }
        region = texts["Region"].flatMap { Self.isName($0) ? $0 : nil }
    }

    private static func isName(_ text: String) -> Bool {
        (1...codeByteCountMax).contains(text.utf8.count)
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"):
                    true
                default: "._-".utf8.contains(byte)
                }
            }
    }

    /// Returns the words of a text with one space between them, without invisible characters.
    private static func line(_ text: String) -> String {
        var visible = String.UnicodeScalarView()
        for scalar in text.unicodeScalars {
            switch scalar.properties.generalCategory {
            case .control, .lineSeparator, .paragraphSeparator, .spaceSeparator: visible.append(" ")
            case .format, .unassigned, .privateUse, .surrogate: break
            default: visible.append(scalar)
            }
        }
        return String(visible).split(separator: " ").joined(separator: " ")
    }

    /// Counts scalars, because a character may have any number of them.
    private static func shortened(_ text: String) -> String {
        let scalars = text.unicodeScalars
        guard scalars.count > messageCharacterCountMax else { return text }
        return String(scalars.prefix(messageCharacterCountMax - 1)) + "…"
    }
}
