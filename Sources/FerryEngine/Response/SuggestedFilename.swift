package import FerryCore

/// Returns the file name that a response suggests, made safe for any directory: one path component without
/// the characters that `NameCharacters` forbids, not hidden, at most 255 bytes. `nil` if no usable name is
/// left.
package func suggestedFilename(_ head: ResponseHead, url: WebURL) -> String? {
    for value in head.all("content-disposition") {
        if let name = ContentDisposition(value).names.lazy.compactMap(safeFilename).first { return name }
    }
    let path = url.path
    let start =
        path.utf8.lastIndex(of: UInt8(ascii: "/")).map { path.utf8.index(after: $0) } ?? path.startIndex
    // `a/` is named after its last part.
    let last = start == path.endIndex ? path.split(separator: "/").last ?? "" : path[start...]
    if last.isEmpty { return nil }
    return safeFilename(String(decoding: ContentDisposition.percentDecoded(last.utf8), as: UTF8.self))
}

/// Returns one parameter of a field such as `Content-Type`; `nil` if it has none of that name (in lower
/// case).
func parameter(_ name: String, of value: String) -> String? {
    FieldParameter.all(in: value).first { $0.name == name }?.value
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
package func fittedName(_ name: String, insert: String) -> String {
    var stem = name[...]
    var isWrapped = true
    while isWrapped, let dot = stem.lastIndex(of: "."), dot != stem.startIndex, name[dot...].utf8.count <= 64
    {
        let suffix = stem[stem.index(after: dot)...]
        // Within `.gz` and the like, an extension such as `.tar` belongs to it; a number as in `v1.2.gz` does
        // not.
        if stem.endIndex != name.endIndex, !isInnerExtension(suffix) { break }
        isWrapped = wrappers.contains(suffix.lowercased())
        stem = stem[..<dot]
    }
    let suffix = name[stem.endIndex...]
    let byteCountMax = 255 - insert.utf8.count - suffix.utf8.count
    while stem.utf8.count > byteCountMax {
        let shorter = stem.dropLast()
        stem = shorter.isEmpty ? Substring(stem.unicodeScalars.dropLast()) : shorter
    }
    return "\(stem)\(insert)\(suffix)"
}

/// Extensions of compressed, encrypted or signed files, before which the extension of the file itself stands.
private let wrappers: Set = [
    "gz", "bz2", "xz", "zst", "lz", "lz4", "lzma", "lzo", "z", "br", "sz", "asc", "sig", "gpg", "pgp", "age",
    "enc",
]

private func isInnerExtension(_ text: Substring) -> Bool {
    (1...8).contains(text.utf8.count) && text.first?.isLetter == true
        && text.allSatisfy { $0.isLetter || $0.isNumber }
}

/// Whether the name is safe as it is, as most are: visible ASCII without slashes, backslashes and spaces, no
/// dot first or last.
private func isPlain(_ name: String) -> Bool {
    let utf8 = name.utf8
    let dot = UInt8(ascii: ".")
    guard (1...255).contains(utf8.count), utf8.first != dot, utf8.last != dot else { return false }
    return utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: "\\") }
}
