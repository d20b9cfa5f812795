/// The code of a Swift file without comments and texts, as far as the rules of folders need it.
struct SwiftSource {
    /// Names and signs of the code, in their order. A name follows `.` if it is a member.
    private let tokens: [Substring]
    /// Names that the file declares at its top level for other files.
    private(set) var declared: Set<String> = []
    /// Names that it uses otherwise than as members, and the statements that it names (`Statements.name`).
    private(set) var used: Set<String> = []

    private static let kinds: Set<Substring> = [
        "struct", "class", "enum", "protocol", "actor", "typealias", "func", "let", "var",
    ]

    init(_ text: String) {
        tokens = Self.tokens(Array(text.utf8))
        var depth = 0
        var isHidden = false
        var isStatements = false
        for (index, token) in tokens.enumerated() {
            let before = index > 0 ? tokens[index - 1] : ""
            switch token {
            case "{":
                // An extension declares no name.
                if depth == 0 { isHidden = false }
                depth += 1
            case "}": depth -= 1
            case "private", "fileprivate": if depth == 0 { isHidden = true }
            case "extension": if depth == 0 { isStatements = tokens[index + 1] == "Statements" }
            default: break
            }
            if Self.kinds.contains(before), index < 2 || tokens[index - 2] != "import" {
                if depth == 0 {
                    if !isHidden { declared.insert(String(token)) }
                    (isHidden, isStatements) = (false, false)
                } else if depth == 1, isStatements {
                    declared.insert("Statements." + token)
                }
            } else if before != "." {
                used.insert(String(token))
            } else if index > 1, tokens[index - 2] == "Statements" {
                used.insert("Statements." + token)
            }
        }
    }

    /// Returns the names and signs of a file. Code in texts, `\(…)`, belongs to them.
    private static func tokens(_ bytes: [UInt8]) -> [Substring] {
        var tokens: [Substring] = []
        var index = 0
        /// Open parentheses at each text that the code is nested in, and whether the text has several lines.
        var texts: [(depth: Int, isLong: Bool)] = []
        var depth = 0
        func matches(_ sign: StaticString) -> Bool {
            index + sign.utf8CodeUnitCount <= bytes.count
                && sign.withUTF8Buffer { bytes[index...].starts(with: $0) }
        }
        /// Skips a text up to its end or the next code in it.
        func skip(isLong: Bool) {
            while index < bytes.count {
                if matches("\\(") {
                    texts.append((depth, isLong))
                    depth += 1
                    index += 2
                    return
                }
                if bytes[index] == UInt8(ascii: "\\") {
                    index += 2
                } else if isLong ? matches("\"\"\"") : bytes[index] == UInt8(ascii: "\"") {
                    index += isLong ? 3 : 1
                    return
                } else {
                    index += 1
                }
            }
        }
        while index < bytes.count {
            let byte = bytes[index]
            if matches("//") {
                while index < bytes.count, bytes[index] != UInt8(ascii: "\n") { index += 1 }
            } else if matches("/*") {
                while index < bytes.count, !matches("*/") { index += 1 }
                index += 2
            } else if matches("\"\"\"") {
                index += 3
                skip(isLong: true)
            } else if byte == UInt8(ascii: "\"") {
                index += 1
                skip(isLong: false)
            } else if isNamePart(byte) {
                let start = index
                while index < bytes.count, isNamePart(bytes[index]) { index += 1 }
                tokens.append(Substring(decoding: bytes[start..<index], as: UTF8.self))
            } else {
                if byte == UInt8(ascii: "(") { depth += 1 }
                if byte == UInt8(ascii: ")") { depth -= 1 }
                if byte > UInt8(ascii: " ") { tokens.append(Substring(decoding: [byte], as: UTF8.self)) }
                index += 1
                if let text = texts.last, text.depth == depth {
                    texts.removeLast()
                    skip(isLong: text.isLong)
                }
            }
        }
        return tokens
    }

    private static func isNamePart(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: "_") || byte > 127
            || UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte
            || UInt8(ascii: "a")...UInt8(ascii: "z") ~= byte | 32
    }
}
