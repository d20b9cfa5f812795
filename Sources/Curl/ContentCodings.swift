/// Checks the codings that a response head names. libcurl decodes all transfer codings it knows, several
/// layers of them and unrequested ones too. A few bytes could then keep a loop busy for minutes without a
/// callback, or use 100 MB of memory. Content codings are left to the caller, which decodes one at most.
struct ContentCodings {
    /// The requested content codings; `nil` if the caller does not decode the body.
    private let asked: [String]?
    /// Content codings in the current head so far.
    private var contentCodingCount = 0

    /// `acceptEncoding`: the requested codings, as in `Accept-Encoding`.
    init(asked acceptEncoding: String?) { asked = acceptEncoding.map { members(of: $0.utf8) } }

    /// Returns `true` if all codings up to this line were requested: at most one content coding, and no
    /// transfer coding except `chunked` (RFC 9112 §7). `identity` does not count.
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

/// Returns the value of the field `name`, or `nil` if the line is another field. Like libcurl, accepts no
/// space before the colon.
private func value(of name: [UInt8], in line: UnsafeRawBufferPointer) -> Slice<UnsafeRawBufferPointer>? {
    guard line.count > name.count, line[name.count] == UInt8(ascii: ":"),
        zip(line, name).allSatisfy({ byte, other in byte | 0x20 == other })
    else { return nil }
    return line[(name.count + 1)...]
}

/// Splits a list: `GZIP, chunked` becomes `gzip` and `chunked`.
private func members(of list: some BidirectionalCollection<UInt8>) -> [String] {
    list.split(separator: UInt8(ascii: ",")).map { trimmedText($0).lowercased() }.filter { !$0.isEmpty }
}

/// Returns the text without spaces and tabs at both ends.
func trimmedText(_ bytes: some BidirectionalCollection<UInt8>) -> String {
    let isBlank: (UInt8) -> Bool = { $0 == 0x20 || $0 == 0x09 }
    guard let first = bytes.firstIndex(where: { !isBlank($0) }),
        let last = bytes.lastIndex(where: { !isBlank($0) })
    else { return "" }
    return String(decoding: bytes[first...last], as: UTF8.self)
}
