internal import CMicrohttpd
internal import Glibc

/// A request that is turned down before anyone sees it.
struct Fault {
    let code: RefusalCode
    let detail: String
}

/// Reads a request's head out of libmicrohttpd and makes up for what that lets through: two framings at once,
/// several lengths or hosts, names that are no tokens, NUL bytes and bare line feeds (RFC 9112 §2.2, §3.2,
/// §5.1, §6.1 and §6.3). Whatever could be read differently by a proxy in front of us is a fault.
struct RequestCheck {
    var fields = HTTPFields()
    private var hosts = 0
    private var host: UnsafeBufferPointer<UInt8>?
    private var lengths = 0
    private var length: Int64?
    private var encodings = 0
    private var isChunked = false
    private var expectations = 0
    /// As sent: with a colon, a space and the end of the line each.
    private var fieldBytes = 0
    private var layout: HeadLayout
    private var fault: Fault?

    /// `isText`: `false` if the target is not UTF-8.
    init(_ connection: OpaquePointer, _ line: RequestLine, isText: Bool) {
        layout = HeadLayout(line)
        let count = Int(MHD_get_connection_values_n(connection, .HEADER_KIND, nil, nil))
        let size = cmhd_connection_info(connection, .CONNECTION_INFO_REQUEST_HEADER_SIZE)?.pointee.header_size
        fields.reserve(fields: count, bytes: Int(size ?? 0) + count * 2)
        withUnsafeMutablePointer(to: &self) { check in
            _ = MHD_get_connection_values_n(connection, .HEADER_KIND, readField, check)
        }
        if !isText { blame(.invalidTarget, "The request target is not UTF-8.") }
        layout.end(byteCount: Int(size ?? 0))
        if !layout.isWhole {
            blame(.malformedRequest, "The head holds a NUL, a line that ends without CR, or an empty name.")
        }
    }

    /// A client that waits for `100 Continue` before it sends its body.
    var expectsContinue: Bool { expectations > 0 }

    mutating func add(name: UnsafeBufferPointer<UInt8>, value: UnsafeBufferPointer<UInt8>) {
        fields.append(name: name, value: value)
        fieldBytes += name.count + value.count + 4
        layout.add(name: name, value: value)
        guard !name.isEmpty, name.allSatisfy(isTokenByte) else {
            return blame(.invalidHeaderName, "A header's name holds a character that is not allowed.")
        }
        guard name.isFollowed(by: value) else {
            return blame(.foldedHeader, "A header runs over several lines, which is obsolete.")
        }
        for byte in value where byte < 32 && byte != 9 || byte == 127 {
            return blame(.invalidHeaderValue, "A header's value holds a control character.")
        }
        switch name.count {
        case 4 where name.equals("host"):
            hosts += 1
            host = value
        case 6 where name.equals("expect"):
            if value.equals("100-continue") { expectations += 1 }
        case 14 where name.equals("content-length"):
            lengths += 1
            length = decimal(value)
            if length == nil { blame(.invalidContentLength, "Content-Length is not one number.") }
        case 17 where name.equals("transfer-encoding"):
            encodings += 1
            isChunked = value.equals("chunked")
        default: break
        }
    }

    private mutating func blame(_ code: RefusalCode, _ detail: String) {
        if fault == nil { fault = Fault(code: code, detail: detail) }
    }

    /// What is wrong, or nil. Fills in what depends on the fields. The buffers of `add` must still be valid.
    mutating func finish(_ head: inout RequestHead, _ limits: ServerLimits) -> Fault? {
        head.contentLength = encodings > 0 ? nil : length
        head.expectsBody = encodings > 0 || (length ?? 0) > 0
        checkSize(head, limits)
        checkFraming(head)
        if !head.method.utf8.allSatisfy(isTokenByte) {
            blame(.invalidMethod, "The method holds a character that is not allowed.")
        }
        checkTarget(head)
        head.fields = fields
        return fault
    }

    private mutating func checkSize(_ head: RequestHead, _ limits: ServerLimits) {
        let targetBytes = head.target.utf8.count
        if targetBytes > limits.headBytes {
            blame(.uriTooLong, "The target has more than \(limits.headBytes) bytes.")
        } else if targetBytes + fieldBytes > limits.headBytes {
            blame(.headersTooLarge, "The head has more than \(limits.headBytes) bytes.")
        }
        if fields.count > limits.fields {
            blame(.tooManyHeaders, "The request has more than \(limits.fields) header fields.")
        }
    }

    private mutating func checkFraming(_ head: RequestHead) {
        let isOld = head.httpVersion == "HTTP/1.0"
        if hosts > 1 || (hosts == 0 && !isOld) {
            blame(.invalidHost, "The request needs exactly one Host header.")
        } else if let host, !host.allSatisfy(isHostByte) {
            blame(.invalidHost, "The Host header holds a character that is not allowed.")
        }
        if lengths > 1 {
            blame(.invalidContentLength, "The request has more than one Content-Length header.")
        }
        guard encodings > 0 else { return }
        if lengths > 0 {
            blame(.ambiguousLength, "The request has both Transfer-Encoding and Content-Length.")
        } else if isOld {
            blame(.invalidTransferEncoding, "HTTP/1.0 knows no Transfer-Encoding.")
        } else if encodings > 1 || !isChunked {
            blame(.unknownTransferEncoding, "The only Transfer-Encoding understood here is chunked.")
        }
    }

    private mutating func checkTarget(_ head: RequestHead) {
        let target = head.target.utf8
        if target.contains(where: { $0 < 33 || $0 == 127 }) {
            blame(.invalidTarget, "The request target holds a space or control character.")
        }
        if target.first == UInt8(ascii: "/") { return }
        if head.target == "*" && head.method == "OPTIONS" { return }
        guard let authority = authority(ofAbsolute: head.target) else {
            return blame(.invalidTarget, "The request target must start with a slash.")
        }
        if !(host.map { $0.equals(caseless: authority.utf8) } ?? false) {
            blame(.hostMismatch, "The target's host is not the Host header's.")
        }
    }
}

private func readField(
    _ context: UnsafeMutableRawPointer?, _ kind: MHD_ValueKind, _ name: UnsafePointer<CChar>?,
    _ nameSize: Int,
    _ value: UnsafePointer<CChar>?, _ valueSize: Int
) -> MHD_Result {
    guard let context else { return .NO }
    context.assumingMemoryBound(to: RequestCheck.self).pointee.add(
        name: UnsafeBufferPointer(
            start: UnsafeRawPointer(name)?.assumingMemoryBound(to: UInt8.self), count: nameSize),
        value: UnsafeBufferPointer(
            start: UnsafeRawPointer(value)?.assumingMemoryBound(to: UInt8.self), count: valueSize))
    return .YES
}

extension UnsafeBufferPointer<UInt8> {
    /// Whether name and value stand in one line as they came: one byte (the colon) and spaces between them.
    /// libmicrohttpd appends a folded line to the field's *name*, in a copy of it: `Content-Leng: 5` and `
    /// th` become a Content-Length that no proxy has seen.
    fileprivate func isFollowed(by value: UnsafeBufferPointer<UInt8>) -> Bool {
        guard let start = baseAddress, let valueStart = value.baseAddress else { return false }
        let colon = start + count
        guard valueStart > colon else { return false }
        return UnsafeBufferPointer(start: colon + 1, count: valueStart - colon - 1)
            .allSatisfy { $0 == 32 || $0 == 9 }
    }

    /// Compares without regard to ASCII case; `text` is in lower case.
    fileprivate func equals(_ text: StaticString) -> Bool {
        guard count == text.utf8CodeUnitCount else { return false }
        for index in 0..<count where lowercased(self[index]) != text.utf8Start[index] { return false }
        return true
    }

    fileprivate func equals(caseless text: Substring.UTF8View) -> Bool {
        count == text.count && zip(self, text).allSatisfy { lowercased($0) == lowercased($1) }
    }
}

/// A non-negative number of at most 18 digits and nothing else.
private func decimal(_ text: UnsafeBufferPointer<UInt8>) -> Int64? {
    guard !text.isEmpty, text.count <= 18 else { return nil }
    var number: Int64 = 0
    for byte in text {
        guard byte &- 48 < 10 else { return nil }
        number = number * 10 + Int64(byte &- 48)
    }
    return number
}

/// `tchar` of RFC 9110 §5.6.2, as two words of bits.
private func isTokenByte(_ byte: UInt8) -> Bool {
    let low: UInt64 = 0x03FF_6CFA_0000_0000
    let high: UInt64 = 0x57FF_FFFF_C7FF_FFFE
    return byte < 64 ? low >> UInt64(byte) & 1 == 1 : byte < 128 && high >> UInt64(byte - 64) & 1 == 1
}

/// What `uri-host [":" port]` may hold (RFC 3986 §3.2.2).
private func isHostByte(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "/"), UInt8(ascii: "?"), UInt8(ascii: "#"), UInt8(ascii: "@"), UInt8(ascii: ","),
        UInt8(ascii: "\\"), UInt8(ascii: "<"), UInt8(ascii: ">"), UInt8(ascii: "\""):
        false
    default: byte > 32 && byte < 127
    }
}

/// The client's request id when it is fit to be repeated: 1 to 128 visible ASCII characters.
func acceptedRequestID(_ fields: HTTPFields) -> String? {
    guard let id = fields["X-Request-Id"], !id.isEmpty, id.utf8.count <= 128,
        id.utf8.allSatisfy({ $0 > 32 && $0 < 127 })
    else { return nil }
    return id
}
