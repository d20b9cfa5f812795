internal import CMicrohttpd
internal import Glibc

/// The request line as libmicrohttpd hands it out: pointers into its buffer.
struct RequestLine {
    let method: UnsafePointer<CChar>
    let target: UnsafePointer<CChar>
    let version: UnsafePointer<CChar>
    /// Bytes of the target before libmicrohttpd cut it into path and query.
    let targetByteCount: Int
}

/// Checks that a request's head consists of nothing but its parts and their separators.
///
/// libmicrohttpd parses a head where it lies: it overwrites each separator with zeros and hands out pointers
/// to what is between them. A NUL ends a part for it, a bare LF ends a line, and a line that begins with a
/// NUL or has an empty name ends the head; it skips the bytes that follow. So the head of a well-formed
/// request lies in the buffer without a gap (RFC 9112 §2.1, §3 and §5):
///
///     method 0 target 0 version 0 0 (name 0 spaces value 0 0)… 0 0
///
/// Every other distance between two parts is a fault. Where a NUL or an empty name comes just before a bare
/// LF, both leave the two zeros of a CRLF: such a line end cannot be told apart (docs/threat-model.md).
struct HeadLayout {
    /// Where the next part has to begin.
    private var next: UnsafeRawPointer
    private let start: UnsafeRawPointer
    /// `false` if a part lies elsewhere.
    private(set) var isWhole: Bool

    /// Zeros that stand for CRLF.
    private static let lineEnd = 2

    init(_ line: RequestLine) {
        start = UnsafeRawPointer(line.method)
        let target = UnsafeRawPointer(line.target)
        let version = UnsafeRawPointer(line.version)
        isWhole =
            target == start + strlen(line.method) + 1 && version == target + line.targetByteCount + 1
        next = version + strlen(line.version) + Self.lineEnd
    }

    /// Accounts for the next field. `name` and `value` lie in one line (`isFollowed(by:)`).
    mutating func add(name: UnsafeBufferPointer<UInt8>, value: UnsafeBufferPointer<UInt8>) {
        guard let nameStart = name.baseAddress, let valueStart = value.baseAddress else {
            isWhole = false
            return
        }
        if UnsafeRawPointer(nameStart) != next { isWhole = false }
        next = UnsafeRawPointer(valueStart + value.count) + Self.lineEnd
    }

    /// Accounts for the empty line behind the last field. `byteCount`: of the head as libmicrohttpd read it.
    mutating func end(byteCount: Int) {
        if next + Self.lineEnd != start + byteCount { isWhole = false }
    }
}
