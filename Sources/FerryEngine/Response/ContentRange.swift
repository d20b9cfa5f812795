/// The field `Content-Range: bytes 5-9/10` of a response to one range (RFC 9110 §14.4).
struct ContentRange: Sendable, Equatable {
    let first: Int64
    /// The last byte, inclusive.
    let last: Int64
    /// Bytes of the whole file; `nil` if the server does not tell (`*`).
    let total: Int64?

    var byteCount: Int64 { last - first + 1 }
    var isWhole: Bool { first == 0 && last + 1 == total }

    /// `nil` if there is none or more than one, or if it is malformed.
    init?(_ head: ResponseHead) {
        let fields = head.all("content-range")
        guard fields.count == 1, head.mimeType != "multipart/byteranges" else { return nil }
        let words = fields[0].split(separator: " ", omittingEmptySubsequences: false)
        guard words.count == 2, words[0].lowercased() == "bytes" else { return nil }
        let parts = words[1].split(separator: "/", omittingEmptySubsequences: false)
        guard parts.count == 2 else { return nil }
        let ends = parts[0].split(separator: "-", omittingEmptySubsequences: false)
        guard ends.count == 2, let first = Self.number(ends[0]), let last = Self.number(ends[1]),
            first <= last, last < Int64.max
        else { return nil }
        total = parts[1] == "*" ? nil : Self.number(parts[1])
        guard parts[1] == "*" || total.map({ last < $0 }) == true else { return nil }
        self.first = first
        self.last = last
    }

    private static func number(_ text: Substring) -> Int64? {
        guard !text.isEmpty, text.utf8.allSatisfy({ (48...57).contains($0) }) else { return nil }
        return Int64(text)
    }
}
