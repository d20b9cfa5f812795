package import FerryCore

/// Returns the file name that a response suggests, made safe for any directory: one path component without
/// the characters that `NameCharacters` forbids, not hidden, at most 255 bytes. `nil` if no usable name is
/// left.
package func suggestedFilename(_ head: ResponseHead, url: WebURL) -> String? {
    if let value = head.first("content-disposition"),
        let name = dispositionFilename(value).flatMap(safeFilename)
    {
        return name
    }
    let path = url.path
    let start =
        path.utf8.lastIndex(of: UInt8(ascii: "/")).map { path.utf8.index(after: $0) } ?? path.startIndex
    // `a/` is named after its last part.
    let last = start == path.endIndex ? path.split(separator: "/").last ?? "" : path[start...]
    return last.isEmpty ? nil : safeFilename(percentDecoded(String(last), isLatin1: false))
}

/// `filename*` before `filename` (RFC 6266 §4.3).
private func dispositionFilename(_ value: String) -> String? {
    let parameters = parameters(of: value)
    if let extended = parameters.first(where: { $0.name == "filename*" })?.value {
        // RFC 8187 §3.2.1: charset'language'value.
        let parts = extended.split(separator: "'", maxSplits: 2, omittingEmptySubsequences: false)
        if parts.count == 3, ["utf-8", "iso-8859-1"].contains(parts[0].lowercased()) {
            return percentDecoded(String(parts[2]), isLatin1: parts[0].lowercased() != "utf-8")
        }
    }
    return parameters.first { $0.name == "filename" }?.value
}

/// Returns one parameter of a field such as `Content-Type`; `nil` if it has none of that name (in lower
/// case).
func parameter(_ name: String, of value: String) -> String? {
    parameters(of: value).first { $0.name == name }?.value
}

/// Returns the parameters after the first semicolon: names in lower case, quoted strings unquoted (RFC 9110
/// §5.6.6).
private func parameters(of value: String) -> [(name: String, value: String)] {
    var found: [(name: String, value: String)] = []
    var rest = value.drop { $0 != ";" }
    while !rest.isEmpty {
        rest = rest.drop { $0 == ";" || $0 == " " || $0 == "\t" }
        let name = rest.prefix { $0 != "=" && $0 != ";" }
        rest = rest.dropFirst(name.count)
        guard rest.first == "=" else { continue }
        rest = rest.dropFirst()
        var text = ""
        if rest.first == "\"" {
            rest = rest.dropFirst()
            while let character = rest.popFirst(), character != "\"" {
                text.append(character == "\\" ? rest.popFirst() ?? "\\" : character)
            }
            rest = rest.drop { $0 != ";" }
        } else {
            text = String(rest.prefix { $0 != ";" && $0 != " " })
            rest = rest.drop { $0 != ";" }
        }
        found.append((name.filter { $0 != " " }.lowercased(), text))
    }
    return found
}

private func percentDecoded(_ text: String, isLatin1: Bool) -> String {
    guard text.utf8.contains(UInt8(ascii: "%")) else { return text }
    var bytes: [UInt8] = []
    var rest = text.utf8[...]
    while let byte = rest.popFirst() {
        let hexadecimal = String(decoding: rest.prefix(2), as: UTF8.self)
        if byte == UInt8(ascii: "%"), hexadecimal.utf8.count == 2, let value = UInt8(hexadecimal, radix: 16) {
            bytes.append(value)
            rest = rest.dropFirst(2)
        } else {
            bytes.append(byte)
        }
    }
    return isLatin1
        ? String(String.UnicodeScalarView(bytes.map { Unicode.Scalar($0) }))
        : String(decoding: bytes, as: UTF8.self)
}

private func safeFilename(_ name: String) -> String? {
    if isPlain(name) { return name }
    // Splits by scalars, as file systems do: for Swift, a slash and a combining mark are one character.
    let last = name.unicodeScalars.split(whereSeparator: { $0 == "/" || $0 == "\\" }).last ?? [][...]
    var safe = last.filter { !NameCharacters.isForbidden($0) }[...]
    safe = safe.drop { $0 == "." || $0 == " " }
    while safe.last == " " || safe.last == "." { safe.removeLast() }
    return safe.isEmpty ? nil : fittedName(String(String.UnicodeScalarView(safe)), insert: "")
}

/// Returns the name with `insert` before its extension. The stem is cut if the name would be longer than 255
/// bytes, the limit of file systems.
func fittedName(_ name: String, insert: String) -> String {
    var (stem, suffix) = (name[...], name[name.endIndex...])
    if let dot = name.lastIndex(of: "."), dot != name.startIndex, name[dot...].utf8.count <= 64 {
        (stem, suffix) = (name[..<dot], name[dot...])
    }
    let byteCountMax = 255 - insert.utf8.count - suffix.utf8.count
    while stem.utf8.count > byteCountMax {
        let shorter = stem.dropLast()
        stem = shorter.isEmpty ? Substring(stem.unicodeScalars.dropLast()) : shorter
    }
    return "\(stem)\(insert)\(suffix)"
}

/// Whether the name is safe as it is, as most are: visible ASCII without slashes, backslashes and spaces, no
/// dot first or last.
private func isPlain(_ name: String) -> Bool {
    let utf8 = name.utf8
    let dot = UInt8(ascii: ".")
    guard (1...255).contains(utf8.count), utf8.first != dot, utf8.last != dot else { return false }
    return utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: "\\") }
}
