/// The codings that the head of an answer names. libcurl undoes whatever it can, in several layers and
/// whether it was asked for or not: a few bytes of answer can then keep a loop busy for minutes without a
/// word to the delegate, or take a hundred megabytes.
struct ContentCodings {
    /// Nil: content codings stay.
    private let asked: [String]?
    /// In the head so far.
    private var contentCodingCount = 0

    /// `acceptEncoding`: what was asked for, as in `Accept-Encoding`.
    init(asked acceptEncoding: String?) { asked = acceptEncoding.map { members(of: $0.utf8) } }

    /// Whether all that libcurl will undo after this line was asked for: one content coding at most, and no
    /// transfer coding but `chunked` (RFC 9112 §7); `identity` is none.
    mutating func allow(_ line: UnsafeRawBufferPointer) -> Bool {
        if line.isEmpty { contentCodingCount = 0 }
        if let list = value(of: transferEncoding, in: line) {
            return members(of: list).allSatisfy { $0 == "chunked" || $0 == "identity" }
        }
        guard let asked, let list = value(of: contentEncoding, in: line) else { return true }
        let used = members(of: list).filter { $0 != "identity" }
        contentCodingCount += used.count
        return contentCodingCount <= 1 && used.allSatisfy { asked.contains($0 == "x-gzip" ? "gzip" : $0) }
    }
}

private let transferEncoding = Array("transfer-encoding".utf8)
private let contentEncoding = Array("content-encoding".utf8)

/// What follows the colon; nil: it is another field. libcurl takes no blank before the colon either.
private func value(of name: [UInt8], in line: UnsafeRawBufferPointer) -> Slice<UnsafeRawBufferPointer>? {
    guard line.count > name.count, line[name.count] == UInt8(ascii: ":"),
        zip(line, name).allSatisfy({ byte, other in byte | 0x20 == other })
    else { return nil }
    return line[(name.count + 1)...]
}

/// `GZIP, chunked` → `gzip`, `chunked`.
private func members(of list: some BidirectionalCollection<UInt8>) -> [String] {
    list.split(separator: UInt8(ascii: ",")).map { trimmedText($0).lowercased() }.filter { !$0.isEmpty }
}

/// Without the blanks at both ends.
func trimmedText(_ bytes: some BidirectionalCollection<UInt8>) -> String {
    let isBlank: (UInt8) -> Bool = { $0 == 0x20 || $0 == 0x09 }
    guard let first = bytes.firstIndex(where: { !isBlank($0) }),
        let last = bytes.lastIndex(where: { !isBlank($0) })
    else { return "" }
    return String(decoding: bytes[first...last], as: UTF8.self)
}
