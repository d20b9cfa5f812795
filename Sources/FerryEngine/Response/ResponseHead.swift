package import FerryCore

/// The head of one response: status and fields in order, duplicates included.
package struct ResponseHead: Sendable, Equatable {
    /// The status code.
    package var status: Int
    /// The fields; values are trimmed. Bytes that are not UTF-8 are read as ISO 8859-1, as HTTP/1.1 once
    /// specified; those of `Location` are percent-encoded, because the next request has the same bytes.
    package private(set) var headers: [JobSpec.Pair] = []
    /// Whether it is HTTP/1.x, where a body without a length or chunks ends with the connection.
    package var isHTTP1: Bool

    /// `nil` if the announced lengths differ or are no numbers; `.some(nil)` if none is announced.
    private var announcedLength: Int64?? = .some(nil)
    /// The first `Content-Type`: `type/subtype` in lower case, without parameters.
    package private(set) var mimeType: String?
    private var hasType = false
    /// Values as received, by their position in `headers`: those that are not its UTF-8 form.
    private var received: [Int: [UInt8]] = [:]

    /// Makes a head without fields.
    package init(status: Int, isHTTP1: Bool) {
        self.status = status
        self.isHTTP1 = isHTTP1
        headers.reserveCapacity(16)
    }

    /// Appends a field. Length and media type, which are asked for often, are parsed here once.
    /// `octets`: the value as received, if that is not the UTF-8 form of `value`.
    package mutating func append(_ name: String, _ value: String, octets: [UInt8]? = nil) {
        if let octets { received[headers.count] = octets }
        headers.append(JobSpec.Pair(name, value))
        if equalIgnoringCase(name, "content-length") {
            noteLength(value)
        } else if !hasType, equalIgnoringCase(name, "content-type") {
            hasType = true
            let type = trim(value.utf8.prefix { $0 != UInt8(ascii: ";") })
            if !type.isEmpty { mimeType = Substring(type).lowercased() }
        }
    }

    /// Appends a folded line to the last field (RFC 9112 §5.2).
    fileprivate mutating func unfold(_ text: String, octets line: [UInt8]) {
        guard let last = headers.popLast() else { return }
        let before = received.removeValue(forKey: headers.count) ?? Array(last.value.utf8)
        let whole = before.isEmpty ? line : before + [0x20] + line
        if equalIgnoringCase(last.name, "content-type"), first("content-type") == nil {
            (hasType, mimeType) = (false, nil)
        }
        let value = last.value.isEmpty ? text : "\(last.value) \(text)"
        append(last.name, value, octets: whole.elementsEqual(value.utf8) ? nil : whole)
    }

    private mutating func noteLength(_ value: String) {
        var rest = value.utf8[...]
        while true {
            let comma = rest.firstIndex(of: UInt8(ascii: ","))
            let digits = trim(rest[..<(comma ?? rest.endIndex)])
            guard case .some(let length) = announcedLength, !digits.isEmpty,
                digits.allSatisfy({ (48...57).contains($0) }),
                let number = Int64(Substring(digits)), length == nil || length == number
            else {
                announcedLength = nil
                return
            }
            announcedLength = number
            guard let comma else { return }
            rest = rest[rest.index(after: comma)...]
        }
    }

    /// The first field of that name, ignoring case.
    package func first(_ name: String) -> String? {
        headers.first { equalIgnoringCase($0.name, name) }?.value
    }

    /// The values of all fields of that name, ignoring case.
    package func all(_ name: String) -> [String] {
        headers.compactMap { equalIgnoringCase($0.name, name) ? $0.value : nil }
    }

    /// The values of all fields of that name as received, ignoring the case of the name.
    package func octets(_ name: String) -> [FieldOctets] {
        headers.indices.compactMap { index in
            guard equalIgnoringCase(headers[index].name, name) else { return nil }
            return received[index].map { FieldOctets($0) } ?? FieldOctets(headers[index].value)
        }
    }

    /// `Content-Length`, when it is one number, equal duplicates counted as one (RFC 9110 §8.6), and no
    /// transfer coding overrides it (RFC 9112 §6.3).
    package var contentLength: Int64? {
        guard case .some(.some(let length)) = announcedLength, first("transfer-encoding") == nil else {
            return nil
        }
        return length
    }

    /// Whether the end of the body is unambiguous; libcurl uses the first of several lengths. Chunks win over
    /// all lengths (RFC 9112 §6.3).
    package var hasClearLength: Bool { announcedLength != nil || isHTTP1 && isChunked }

    /// Whether it has chunks and a length: another program may have read another end of the body.
    package var isAmbiguouslyFramed: Bool { isHTTP1 && isChunked && first("content-length") != nil }

    private var isChunked: Bool {
        first("transfer-encoding")?.lowercased().hasSuffix("chunked") ?? false
    }

    /// Whether a response to `method` has a body at all (RFC 9112 §6.3).
    package func hasBody(_ method: String) -> Bool { method != "HEAD" && status != 204 && status != 304 }

    /// Whether the end of the body is marked by anything but the end of the connection.
    package func isDelimited(_ method: String) -> Bool {
        if !isHTTP1 || contentLength != nil || !hasBody(method) { return true }
        return isChunked
    }

    /// The body's content codings in lower case, in the order in which they were applied; empty for identity.
    package var contentCodings: [String] {
        let lists = headers.filter { equalIgnoringCase($0.name, "content-encoding") }
        return lists.flatMap { $0.value.lowercased().split(separator: ",") }.map {
            let name = String(Substring(trim($0.utf8)))
            return name == "x-gzip" ? "gzip" : name
        }.filter { !$0.isEmpty && $0 != "identity" }
    }

    /// Whether the media type says that the body is text.
    package var isText: Bool {
        guard let type = mimeType else { return false }
        return type.hasPrefix("text/") || type.hasSuffix("/json") || type.hasSuffix("+json")
            || type.hasSuffix("/xml") || type.hasSuffix("+xml")
    }

    /// Returns the response as clients see it. `url`: where it came from.
    func response(from url: WebURL) -> TransferResponse {
        TransferResponse(
            status: status, url: url.string, headers: headers, mimeType: mimeType,
            suggestedFilename: suggestedFilename(self, url: url), expectedContentLength: contentLength)
    }

    /// Seconds that `Retry-After` asks for; `nil` if the response has no such field, or none that says so.
    package func retryAfter(now: Timestamp) -> Double? {
        RetryAfter.seconds(all("retry-after"), now: now)
    }
}

/// Rules of a head that libcurl may find broken before `ResponseHeadParser` gets the line. Sentences that
/// follow "The server's answer is not HTTP."
enum HeadRule {
    static let statusLine = "It does not begin with a status line (RFC 9112 §4)."
    static let colon = "A line of its head has no colon (RFC 9112 §5)."
    static let foldedFirst = "Its head begins with a folded line (RFC 9112 §2.2)."
    static let nul = "A line of its head has a NUL (RFC 9110 §5.5)."
    static let length = "The field Content-Length is no number (RFC 9112 §6.3)."
}

/// Parses the lines of a head as they arrive and returns the final head. Bounded; refuses ambiguous heads.
///
/// Deviations that libcurl and browsers accept are accepted, except in fields that say where the body ends or
/// how it is coded: there libcurl might read something else.
package struct ResponseHeadParser: Sendable {
    /// Result of a line of the head.
    package enum Step: Sendable, Equatable {
        case more
        /// The head of an interim response (104) that is about the upload; the head of the final response
        /// follows.
        case interim(ResponseHead)
        /// The head of the final response (not 1xx) is complete.
        case complete(ResponseHead)
        /// The rule that the line breaks, as a sentence.
        case invalid(String)
        case tooLarge
    }

    private var head: ResponseHead?
    private var byteCount = 0
    private var lineCount = 0
    private var isComplete = false
    /// Whether the last line was dropped, and its folded lines are as well.
    private var isDropping = false

    /// Begins before the status line.
    package init() {}

    /// Takes one line without its line end. After `complete`, lines are trailers: they are counted and
    /// dropped.
    package mutating func take(_ line: some BidirectionalCollection<UInt8>) -> Step {
        if let step = line.withContiguousStorageIfAvailable({ take(bytes: $0) }) { return step }
        return Array(line).withUnsafeBufferPointer { take(bytes: $0) }
    }

    private mutating func take(bytes line: UnsafeBufferPointer<UInt8>) -> Step {
        byteCount += line.count + 2
        lineCount += 1
        guard byteCount <= Limits.responseHeaderByteCountMax, lineCount <= Limits.responseHeaderLineCountMax
        else { return .tooLarge }
        if isComplete {
            // After a 417, libcurl sends the request again without `Expect`, and another head follows. No
            // trailer begins like a status line: a slash is not part of a field name.
            guard line.starts(with: "HTTP/".utf8) else { return .more }
            (head, isComplete, isDropping) = (nil, false, false)
        }
        guard var current = head else { return takeStatusLine(line) }
        // Moved out while it grows: a shared value would be copied for each line.
        head = nil
        if line.isEmpty {
            guard current.status >= 200 || current.status == 101 else { return interim(current) }
            isComplete = true
            head = current
            return .complete(current)
        }
        let step = takeField(line, of: &current)
        head = current
        return step
    }

    /// An upload may take long and have many of them: each counts alone.
    private mutating func interim(_ head: ResponseHead) -> Step {
        guard head.status == 104 else { return .more }
        (byteCount, lineCount) = (0, 0)
        return .interim(head)
    }

    private mutating func takeField(
        _ line: UnsafeBufferPointer<UInt8>, of head: inout ResponseHead
    ) -> Step {
        if line.first == 0x20 || line.first == 0x09 { return unfold(line, in: &head) }
        guard let colon = line.firstIndex(of: UInt8(ascii: ":")) else {
            return .invalid(HeadRule.colon)
        }
        let before = UnsafeBufferPointer(rebasing: line[..<colon])
        let bytes = UnsafeBufferPointer(rebasing: trim(before))
        guard !bytes.isEmpty else { return .invalid("A field of its head has no name (RFC 9112 §5).") }
        // Such a line is no field of any name that has a meaning.
        isDropping = bytes.contains { $0 <= 0x20 || $0 >= 0x7F }
        if isDropping { return .more }
        let name = String(decoding: bytes, as: UTF8.self)
        if bytes.count < before.count, Self.isFraming(name) {
            return .invalid("The field \(name) has a space before its colon (RFC 9112 §5.1).")
        }
        let octets = UnsafeBufferPointer(
            rebasing: trim(UnsafeBufferPointer(rebasing: line[(colon + 1)...])))
        if octets.allSatisfy({ $0 >= 0x20 && $0 < 0x7F || $0 == 0x09 }) {
            head.append(name, String(decoding: octets, as: UTF8.self))
            return .more
        }
        var value = text(octets, encodes: equalIgnoringCase(name, "location"))
        if value.utf8.contains(where: Self.isControl) {
            guard !Self.isUsed(name) else {
                return .invalid("The field \(name) has a control character (RFC 9110 §5.5).")
            }
            value = Self.withoutControls(value)
        }
        head.append(name, value, octets: octets.elementsEqual(value.utf8) ? nil : Array(octets))
        return .more
    }

    private func unfold(_ line: UnsafeBufferPointer<UInt8>, in head: inout ResponseHead) -> Step {
        guard !isDropping else { return .more }
        guard let name = head.headers.last?.name else {
            return .invalid(HeadRule.foldedFirst)
        }
        guard !Self.isFraming(name) else {
            return .invalid("The field \(name) is folded over several lines (RFC 9112 §5.2).")
        }
        let value = text(trim(line), encodes: equalIgnoringCase(name, "location"))
        guard !Self.isUsed(name) || !value.utf8.contains(where: Self.isControl) else {
            return .invalid("The field \(name) has a control character (RFC 9110 §5.5).")
        }
        head.unfold(Self.withoutControls(value), octets: Array(trim(line)))
        return .more
    }

    /// Whether the field says where the body ends or how it is coded.
    private static func isFraming(_ name: String) -> Bool {
        ["content-length", "transfer-encoding", "content-encoding"].contains(name.lowercased())
    }

    /// Whether a decision of Ferry depends on the field.
    private static func isUsed(_ name: String) -> Bool {
        let name = name.lowercased()
        return isFraming(name) || used.contains(name) || name.hasSuffix("-authenticate")
    }

    private static let used: Set<String> = [
        "accept-ranges", "content-disposition", "content-digest", "content-md5", "content-range",
        "content-type", "date", "digest", "etag", "last-modified", "location", "repr-digest", "retry-after",
        "x-goog-hash",
    ]

    private static func isControl(_ byte: UInt8) -> Bool { byte < 0x20 && byte != 0x09 || byte == 0x7F }

    /// Returns the text with a space in place of each control character (RFC 9110 §5.5).
    private static func withoutControls(_ text: String) -> String {
        String(decoding: text.utf8.map { isControl($0) ? 0x20 : $0 }, as: UTF8.self)
    }

    /// `HTTP/1.1 200 OK` or `HTTP/2 200`.
    private mutating func takeStatusLine(_ line: UnsafeBufferPointer<UInt8>) -> Step {
        guard let space = line.firstIndex(of: 0x20) else { return .invalid(HeadRule.statusLine) }
        let version = line[..<space]
        let digits = line[(space + 1)...].prefix { $0 != 0x20 }
        guard version.starts(with: "HTTP/".utf8), digits.count == 3,
            digits.allSatisfy({ (48...57).contains($0) })
        else { return .invalid(HeadRule.statusLine) }
        let status = digits.reduce(0) { $0 * 10 + Int($1 - 48) }
        guard status >= 100 else { return .invalid(HeadRule.statusLine) }
        head = ResponseHead(status: status, isHTTP1: version.dropFirst(5).first == UInt8(ascii: "1"))
        return .more
    }
}

func trim<Bytes: BidirectionalCollection<UInt8>>(_ bytes: Bytes) -> Bytes.SubSequence {
    guard let first = bytes.firstIndex(where: { $0 != 0x20 && $0 != 0x09 }),
        let last = bytes.lastIndex(where: { $0 != 0x20 && $0 != 0x09 })
    else { return bytes[bytes.endIndex...] }
    return bytes[first...last]
}

/// `encodes`: whether bytes beyond ASCII are percent-encoded if they are not UTF-8.
private func text(_ bytes: some Collection<UInt8>, encodes: Bool = false) -> String {
    // Nearly all texts are ASCII; the validating initializer is several times slower.
    if bytes.allSatisfy({ $0 < 0x80 }) { return String(decoding: bytes, as: UTF8.self) }
    if let text = String(validating: bytes, as: UTF8.self) { return text }
    guard encodes else { return FieldOctets(bytes).text }
    var encoded: [UInt8] = []
    for byte in bytes {
        if byte < 0x80 { encoded.append(byte) } else { appendPercentEncoded(byte, to: &encoded) }
    }
    return String(decoding: encoded, as: UTF8.self)
}

/// RFC 9110 §5.6.2.
func isTokenByte(_ byte: UInt8) -> Bool {
    switch byte {
    case 0x30...0x39, 0x41...0x5A, 0x61...0x7A: true
    case 0x21, 0x23...0x27, 0x2A, 0x2B, 0x2D, 0x2E, 0x5E, 0x5F, 0x60, 0x7C, 0x7E: true
    default: false
    }
}
