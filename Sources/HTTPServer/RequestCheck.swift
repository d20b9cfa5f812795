internal import CMicrohttpd
internal import Glibc

/// Reason to refuse a request before its handler sees it.
struct Fault {
    let code: RefusalCode
    let detail: String
}

/// Reads the head of a request from libmicrohttpd and rejects what libmicrohttpd accepts: two framings at
/// once, several lengths or hosts, names that are not tokens, NUL bytes and bare line feeds (RFC 9112 §2.2,
/// §3.2, §5.1, §6.1 and §6.3). Any head that a proxy could read differently is refused.
struct RequestCheck {
    var fields = HTTPFields()
    private var hosts = 0
    private var host: UnsafeBufferPointer<UInt8>?
    private var lengths = 0
    private var length: Int64?
    private var encodings = 0
    private var isChunked = false
    private var expectations = 0
    /// Bytes of the fields as sent: each has a colon, a space and CRLF as well.
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
        if !isText { reject(.invalidTarget, "The request target is not UTF-8.") }
        layout.end(byteCount: Int(size ?? 0))
        if !layout.isWhole {
            reject(.malformedRequest, "The head has a NUL, a line without CR, or an empty name.")
        }
    }

    /// `true` if the client waits for `100 Continue` before it sends its body.
    var expectsContinue: Bool { expectations > 0 }

    mutating func add(name: UnsafeBufferPointer<UInt8>, value: UnsafeBufferPointer<UInt8>) {
        fields.append(name: name, value: value)
        fieldBytes += name.count + value.count + 4
        layout.add(name: name, value: value)
        guard !name.isEmpty, name.allSatisfy(isTokenByte) else {
            return reject(.invalidHeaderName, "A header field's name contains an invalid character.")
        }
        guard name.isFollowed(by: value) else {
            return reject(.foldedHeader, "A header field is folded over several lines.")
        }
        for byte in value where byte < 32 && byte != 9 || byte == 127 {
            return reject(.invalidHeaderValue, "A header field's value contains a control character.")
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
            if length == nil { reject(.invalidContentLength, "Content-Length is not one number.") }
        case 17 where name.equals("transfer-encoding"):
            encodings += 1
            isChunked = value.equals("chunked")
        default: break
        }
    }

    private mutating func reject(_ code: RefusalCode, _ detail: String) {
        if fault == nil { fault = Fault(code: code, detail: detail) }
    }

    /// Completes `head` and returns the first fault, or `nil` if there is none. The buffers passed to `add`
    /// must still be valid.
    mutating func finish(_ head: inout RequestHead, _ limits: ServerLimits) -> Fault? {
        head.contentLength = encodings > 0 ? nil : length
        head.expectsBody = encodings > 0 || (length ?? 0) > 0
        checkSize(head, limits)
        checkFraming(head)
        if !head.method.utf8.allSatisfy(isTokenByte) {
            reject(.invalidMethod, "The method contains an invalid character.")
        }
        checkTarget(head)
        head.fields = fields
        return fault
    }

    private mutating func checkSize(_ head: RequestHead, _ limits: ServerLimits) {
        let targetBytes = head.target.utf8.count
        if targetBytes > limits.headBytes {
            reject(.uriTooLong, "The target has more than \(limits.headBytes) bytes.")
        } else if targetBytes + fieldBytes > limits.headBytes {
            reject(.headersTooLarge, "The head has more than \(limits.headBytes) bytes.")
        }
        if fields.count > limits.fields {
            reject(.tooManyHeaders, "The request has more than \(limits.fields) header fields.")
        }
    }

    private mutating func checkFraming(_ head: RequestHead) {
        let isOld = head.httpVersion == "HTTP/1.0"
        if hosts > 1 || (hosts == 0 && !isOld) {
            reject(.invalidHost, "The request needs exactly one Host header.")
        } else if let host, !host.allSatisfy(isHostByte) {
            reject(.invalidHost, "The Host header contains an invalid character.")
        }
        if lengths > 1 {
            reject(.invalidContentLength, "The request has more than one Content-Length header.")
        }
        guard encodings > 0 else { return }
        if lengths > 0 {
            reject(.ambiguousLength, "The request has both Transfer-Encoding and Content-Length.")
        } else if isOld {
            reject(.invalidTransferEncoding, "HTTP/1.0 has no Transfer-Encoding.")
        } else if encodings > 1 || !isChunked {
            reject(.unknownTransferEncoding, "The only supported Transfer-Encoding is chunked.")
        }
    }

    private mutating func checkTarget(_ head: RequestHead) {
        let target = head.target.utf8
        if target.contains(where: { $0 < 33 || $0 == 127 }) {
            reject(.invalidTarget, "The request target contains a space or control character.")
        }
        if target.first == UInt8(ascii: "/") { return }
        if head.target == "*" && head.method == "OPTIONS" { return }
        guard let authority = authority(ofAbsolute: head.target) else {
            return reject(.invalidTarget, "The request target must start with a slash.")
        }
        if !(host.map { $0.equals(caseless: authority.utf8) } ?? false) {
            reject(.hostMismatch, "The host of the target differs from the Host header.")
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
    /// Returns `true` if only one byte (the colon) and spaces lie between name and value, as in one line.
    /// libmicrohttpd appends a folded line to the *name* of the field, in a copy: `Content-Leng: 5` and ` th`
    /// become a Content-Length that no proxy has seen.
    fileprivate func isFollowed(by value: UnsafeBufferPointer<UInt8>) -> Bool {
        guard let start = baseAddress, let valueStart = value.baseAddress else { return false }
        let colon = start + count
        guard valueStart > colon else { return false }
        return UnsafeBufferPointer(start: colon + 1, count: valueStart - colon - 1)
            .allSatisfy { $0 == 32 || $0 == 9 }
    }

    /// Compares without regard to ASCII case. `text` must be in lower case.
    fileprivate func equals(_ text: StaticString) -> Bool {
        guard count == text.utf8CodeUnitCount else { return false }
        for index in 0..<count where lowercased(self[index]) != text.utf8Start[index] { return false }
        return true
    }

    fileprivate func equals(caseless text: Substring.UTF8View) -> Bool {
        count == text.count && zip(self, text).allSatisfy { lowercased($0) == lowercased($1) }
    }
}

/// Returns the number, or `nil` if the text is not 1 to 18 digits.
private func decimal(_ text: UnsafeBufferPointer<UInt8>) -> Int64? {
    guard !text.isEmpty, text.count <= 18 else { return nil }
    var number: Int64 = 0
    for byte in text {
        guard byte &- 48 < 10 else { return nil }
        number = number * 10 + Int64(byte &- 48)
    }
    return number
}

/// Returns `true` for `tchar` (RFC 9110 §5.6.2). Each word has one bit for each of 64 bytes.
private func isTokenByte(_ byte: UInt8) -> Bool {
    let low: UInt64 = 0x03FF_6CFA_0000_0000
    let high: UInt64 = 0x57FF_FFFF_C7FF_FFFE
    return byte < 64 ? low >> UInt64(byte) & 1 == 1 : byte < 128 && high >> UInt64(byte - 64) & 1 == 1
}

/// Returns `true` for the bytes that `uri-host [":" port]` may contain (RFC 3986 §3.2.2).
private func isHostByte(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "/"), UInt8(ascii: "?"), UInt8(ascii: "#"), UInt8(ascii: "@"), UInt8(ascii: ","),
        UInt8(ascii: "\\"), UInt8(ascii: "<"), UInt8(ascii: ">"), UInt8(ascii: "\""):
        false
    default: byte > 32 && byte < 127
    }
}

/// Returns the client's `X-Request-Id` if it has 1 to 128 visible ASCII characters, else `nil`.
func acceptedRequestID(_ fields: HTTPFields) -> String? {
    guard let id = fields["X-Request-Id"], !id.isEmpty, id.utf8.count <= 128,
        id.utf8.allSatisfy({ $0 > 32 && $0 < 127 })
    else { return nil }
    return id
}
