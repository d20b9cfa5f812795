/// Request line and header fields of a request. `RequestCheck` has accepted them already.
public struct RequestHead: Sendable {
    /// The method as sent. Methods are case-sensitive (RFC 9110 §9.1).
    public var method: String
    /// The request target as sent, not decoded: `/a%2Fb?x=1`, `*` or `http://host/a`.
    public var target: String
    /// The path of the target, not decoded: without the query, and without the authority of an absolute-form
    /// target.
    public var path: String
    /// The part of the target after the first `?`, not decoded; `nil` if there is no `?`.
    public var query: String?
    /// All header fields, without leading spaces in the values. Trailer fields of a chunked body are dropped.
    public var fields: HTTPFields
    /// Address of the peer in text form (inet_ntop(3)), without the port.
    public var remoteAddress: String
    /// Identifier of the request: the field `X-Request-Id` if it has 1 to 128 visible ASCII characters, else
    /// a generated one. Each response repeats it.
    public var requestID: String
    /// Length of the body in bytes from `Content-Length`; `nil` if there is none (a chunked body or no body).
    public var contentLength: Int64?
    /// `true` if a body follows: `Content-Length` is above zero, or the body is chunked.
    public var expectsBody: Bool
    /// Version of the request: `HTTP/1.1` or `HTTP/1.0`.
    public var httpVersion: String

    /// Creates the head that the server would make from these parts. For tests of handlers without a server.
    public init(
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

    /// Returns the `name=value` pairs of the query in order, percent-decoded. A `+` stays a `+`. An item
    /// without `=` has an empty value. Empty items are skipped.
    public func queryItems() throws(PercentDecodingError) -> [(name: String, value: String)] {
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

    /// Returns the segments of the path, each percent-decoded after the split: `/a%2Fb/c` is `["a/b", "c"]`,
    /// and `/` is `[""]`. A slash at the end gives an empty last segment.
    public func pathSegments() throws(PercentDecodingError) -> [String] {
        var path = path.utf8[...]
        if path.first == UInt8(ascii: "/") { path = path.dropFirst() }
        var segments: [String] = []
        for segment in path.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false) {
            segments.append(try percentDecoded(segment))
        }
        return segments
    }
}

/// A text with a `%` that is not followed by two hexadecimal digits, or whose decoded bytes contain NUL or
/// are not UTF-8.
public struct PercentDecodingError: Error, Sendable {
    /// The text that was not decoded.
    public let text: String
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

/// Returns path and query of a target as sent, without the authority of an absolute-form target (RFC 9112
/// §3.2.2).
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

/// Returns the `host[:port]` of an absolute-form target, or `nil` if the target has another form.
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

/// A request with its complete body.
public struct Request: Sendable {
    /// Request line and header fields.
    public var head: RequestHead
    /// The body, at most as long as the limit of `BodyPlan.collect`; empty if there was none.
    public var body: [UInt8]

    /// Keeps the memory of the body reserved for as long as a copy of the request exists.
    private let reservation: (any BodyReservation)?

    /// Creates a request.
    public init(head: RequestHead, body: [UInt8] = [], reservation: (any BodyReservation)? = nil) {
        self.head = head
        self.body = body
        self.reservation = reservation
    }
}
