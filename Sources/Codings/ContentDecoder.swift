/// A content coding that can be decoded (RFC 9110 §8.4.1).
public enum ContentCoding: String, Sendable, CaseIterable {
    case gzip, deflate, br
}

/// Reason for which a body cannot be decoded.
public enum DecodingFailure: Error, Sendable {
    /// The bytes are not in this coding.
    case malformed
    /// There is no memory for the decoder.
    case outOfMemory
}

/// Decodes a body as its bytes arrive. One thread at a time.
public protocol ContentDecoder: AnyObject {
    /// Passes the decoded bytes to `take`, in pieces of at most 64 KiB, until `take` returns `false`.
    func decode(
        _ bytes: UnsafeRawBufferPointer, _ take: (UnsafeRawBufferPointer) -> Bool
    ) throws(DecodingFailure)

    /// `true` if the body may end here: no byte has come, or the end marker has.
    var isComplete: Bool { get }
}

extension ContentCoding {
    /// Makes a decoder of one body.
    public func makeDecoder() -> any ContentDecoder {
        switch self {
        case .gzip: ZlibDecoder(.gzip)
        case .deflate: ZlibDecoder(.deflate)
        case .br: BrotliDecoder()
        }
    }
}

let pieceByteCount = 64 << 10
