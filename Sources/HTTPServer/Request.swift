/// What a client sent before the body. Checked already: see `RequestCheck` for what never gets this far.
package struct RequestHead: Sendable {
    /// As sent; methods are case-sensitive (RFC 9110 §9.1).
    package var method: String
    /// As sent, never decoded: `/a%2Fb?x=1`, `*` or `http://host/a`.
    package var target: String
    /// The target's path, not decoded, without query and without the authority of an absolute-form target.
    package var path: String
    /// What follows the first `?`, not decoded; nil without one.
    package var query: String?
    /// Every header field, values trimmed of leading spaces. Trailers of a chunked body are dropped.
    package var fields: HTTPFields
    /// The peer's address in text form (inet_ntop(3)), without port.
    package var remoteAddress: String
    /// `X-Request-Id` when it is 1 to 128 visible ASCII characters, else generated. Sent back in every
    /// answer.
    package var requestID: String
    /// Announced length of the body in bytes; nil without one (chunked, or no body).
    package var contentLength: Int64?
    /// A body follows: announced with a length above zero, or chunked.
    package var expectsBody: Bool
    /// `HTTP/1.1` or `HTTP/1.0`.
    package var httpVersion: String

    /// A head as the server would make it from these parts: for handlers that run without one.
    package init(
        method: String, target: String, fields: HTTPFields = HTTPFields(), remoteAddress: String = "",
        requestID: String = ""
    ) {
        self.method = method
        self.target = target
        self.fields = fields
        self.remoteAddress = remoteAddress
        self.requestID = requestID
        (path, query) = splitTarget(target)
        contentLength = nil
        expectsBody = false
        httpVersion = "HTTP/1.1"
    }

    /// The query's `name=value` pairs in order, percent-decoded. A `+` stays a `+`; an item without `=` has
    /// an empty value; empty items are skipped.
    package func queryItems() throws(PercentDecodingError) -> [(name: String, value: String)] {
        guard let query else { return [] }
        var items: [(name: String, value: String)] = []
        for item in query.utf8.split(separator: UInt8(ascii: "&")) {
            let parts = item.split(
                separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            let value = parts.count > 1 ? try percentDecoded(parts[1]) : ""
            items.append((try percentDecoded(parts[0]), value))
        }
        return items
    }

    /// The path between its slashes, each segment percent-decoded after the split: `/a%2Fb/c` is `["a/b",
    /// "c"]`, `/` is `[""]`, and a slash at the end gives an empty last segment.
    package func pathSegments() throws(PercentDecodingError) -> [String] {
        var path = path.utf8[...]
        if path.first == UInt8(ascii: "/") { path = path.dropFirst() }
        var segments: [String] = []
        for segment in path.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false) {
            segments.append(try percentDecoded(segment))
        }
        return segments
    }
}

/// A `%` that two hexadecimal digits do not follow, or bytes that are no UTF-8 or hold a NUL.
package struct PercentDecodingError: Error, Sendable {
    /// The text that could not be decoded.
    package let text: String
}

func percentDecoded(_ text: Substring.UTF8View) throws(PercentDecodingError) -> String {
    guard text.contains(where: { $0 == UInt8(ascii: "%") || $0 == 0 }) else { return String(Substring(text)) }
    var bytes: [UInt8] = []
    bytes.reserveCapacity(text.count)
    var index = text.startIndex
    while index != text.endIndex {
        var byte = text[index]
        index = text.index(after: index)
        if byte == UInt8(ascii: "%") {
            guard let high = hexDigit(in: text, at: &index), let low = hexDigit(in: text, at: &index) else {
                throw PercentDecodingError(text: String(Substring(text)))
            }
            byte = high << 4 | low
        }
        guard byte != 0 else { throw PercentDecodingError(text: String(Substring(text))) }
        bytes.append(byte)
    }
    guard let decoded = String(validating: bytes, as: UTF8.self) else {
        throw PercentDecodingError(text: String(Substring(text)))
    }
    return decoded
}

private func hexDigit(in text: Substring.UTF8View, at index: inout Substring.UTF8View.Index) -> UInt8? {
    guard index != text.endIndex else { return nil }
    let byte = text[index]
    index = text.index(after: index)
    switch byte {
    case UInt8(ascii: "0")...UInt8(ascii: "9"): return byte - UInt8(ascii: "0")
    case UInt8(ascii: "a")...UInt8(ascii: "f"): return byte - UInt8(ascii: "a") + 10
    case UInt8(ascii: "A")...UInt8(ascii: "F"): return byte - UInt8(ascii: "A") + 10
    default: return nil
    }
}

/// Path and query of a raw target; the authority of an absolute-form target (RFC 9112 §3.2.2) is cut off.
func splitTarget(_ target: String) -> (path: String, query: String?) {
    let rest: Substring.UTF8View
    if target.utf8.first != UInt8(ascii: "/"), let authority = authority(ofAbsolute: target) {
        let path = target.utf8[authority.endIndex...]
        rest = path.first == UInt8(ascii: "/") ? path : "/\(Substring(path))".utf8[...]
    } else {
        rest = target.utf8[...]
    }
    guard let mark = rest.firstIndex(of: UInt8(ascii: "?")) else {
        return (rest.count == target.utf8.count ? target : String(Substring(rest)), nil)
    }
    return (String(Substring(rest[..<mark])), String(Substring(rest[rest.index(after: mark)...])))
}

/// The `host[:port]` between `://` and the path of an absolute-form target; nil for every other form.
func authority(ofAbsolute target: String) -> Substring? {
    for scheme in ["http://", "https://"] where target.utf8.count > scheme.utf8.count {
        let prefix = target.utf8.prefix(scheme.utf8.count)
        guard zip(prefix, scheme.utf8).allSatisfy({ lowercased($0) == $1 }) else { continue }
        let rest = target.utf8[prefix.endIndex...]
        let end = rest.firstIndex { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "?") } ?? rest.endIndex
        return Substring(rest[..<end])
    }
    return nil
}

/// A request with the whole of its body.
package struct Request: Sendable {
    /// What came before the body.
    package var head: RequestHead
    /// Empty when there was none; at most as long as the plan's limit.
    package var body: [UInt8]

    /// Keeps the memory counted while somebody has the body.
    private let room: (any BodyRoom)?

    /// Puts the two together.
    package init(head: RequestHead, body: [UInt8] = [], room: (any BodyRoom)? = nil) {
        self.head = head
        self.body = body
        self.room = room
    }
}
