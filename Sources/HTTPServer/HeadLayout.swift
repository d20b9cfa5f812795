internal import CMicrohttpd
internal import Glibc

/// The request line as libmicrohttpd passes it: pointers into the buffer of the connection.
struct RequestLine {
    let method: UnsafePointer<CChar>
    let target: UnsafePointer<CChar>
    let version: UnsafePointer<CChar>
    /// Bytes of the target, counted before libmicrohttpd split it into path and query.
    let targetByteCount: Int
}

/// Checks that a request head consists only of its parts and their separators.
///
/// libmicrohttpd parses the head in place: it overwrites separators with zeros and returns pointers to the
/// parts between them. It treats a NUL as the end of a part and a bare LF as the end of a line. It takes a
/// line that begins with a NUL, or that has an empty name, for the end of the head, and skips the bytes after
/// it. So the head of a well-formed request fills the buffer without a gap (RFC 9112 §2.1, §3 and §5):
///
///     method 0 target 0 version 0 0 (name 0 spaces value 0 0)… 0 0
///
/// Any other distance between two parts is an error. If a NUL or an empty name comes just before a bare LF,
/// the two leave the same two zeros as a CRLF: this check cannot detect such a line end
/// (docs/threat-model.md).
struct HeadLayout {
    /// Address at which the next part must begin.
    private var next: UnsafeRawPointer
    private let start: UnsafeRawPointer
    /// `false` if a part begins at another address.
    private(set) var isWhole: Bool

    /// Zeros that libmicrohttpd writes in the place of a CRLF.
    private static let lineEnd = 2

    init(_ line: RequestLine) {
        start = UnsafeRawPointer(line.method)
        let target = UnsafeRawPointer(line.target)
        let version = UnsafeRawPointer(line.version)
        isWhole =
            target == start + strlen(line.method) + 1 && version == target + line.targetByteCount + 1
        next = version + strlen(line.version) + Self.lineEnd
    }

    /// Accounts for the next field. `name` and `value` must be in one line (`isFollowed(by:)`).
    mutating func add(name: UnsafeBufferPointer<UInt8>, value: UnsafeBufferPointer<UInt8>) {
        guard let nameStart = name.baseAddress, let valueStart = value.baseAddress else {
            isWhole = false
            return
        }
        if UnsafeRawPointer(nameStart) != next { isWhole = false }
        next = UnsafeRawPointer(valueStart + value.count) + Self.lineEnd
    }

    /// Accounts for the empty line after the last field. `byteCount`: size of the head that libmicrohttpd has
    /// read.
    mutating func end(byteCount: Int) {
        if next + Self.lineEnd != start + byteCount { isWhole = false }
    }
}
