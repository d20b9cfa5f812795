internal import CZlib

/// Decodes `gzip` (RFC 1952) and `deflate` (RFC 1950).
///
/// A gzip body may have several members and zeros behind them (RFC 1952 §2.2). Other bytes behind a member
/// are ignored, as gzip(1) does. Some servers send `deflate` without the header of RFC 1950.
final class ZlibDecoder: ContentDecoder {
    enum Format { case gzip, deflate }

    private enum State {
        /// Before the first byte of the first member, or of a later one.
        case waiting
        case inMember
        case betweenMembers
        /// Bytes that follow the end of the coded body are not part of it.
        case ended
    }

    private let format: Format
    private var state = State.waiting
    /// Bytes of the header of RFC 1950, until there are two.
    private let header = UnsafeMutableRawBufferPointer.allocate(byteCount: 2, alignment: 1)
    private var headerByteCount = 0
    private var hasOutput = false
    private var isFirst = true
    /// zlib keeps the address of the stream. `nil` until the first byte.
    private var stream: UnsafeMutablePointer<z_stream>?
    private let piece = UnsafeMutableRawBufferPointer.allocate(byteCount: pieceByteCount, alignment: 16)

    init(_ format: Format) { self.format = format }

    deinit {
        if let stream {
            inflateEnd(stream)
            stream.deallocate()
        }
        header.deallocate()
        piece.deallocate()
    }

    var isComplete: Bool {
        switch state {
        case .waiting: headerByteCount == 0
        case .inMember: false
        case .betweenMembers, .ended: true
        }
    }

    func decode(
        _ bytes: UnsafeRawBufferPointer, _ take: (UnsafeRawBufferPointer) -> Bool
    ) throws(DecodingFailure) {
        var rest = bytes[...]
        while let byte = rest.first {
            switch state {
            case .waiting where format == .deflate:
                header[headerByteCount] = byte
                headerByteCount += 1
                rest = rest.dropFirst()
                guard headerByteCount == header.count else { continue }
                try begin(windowBits: hasHeader ? 15 : -15)
                guard try inflate(UnsafeRawBufferPointer(header)[...], take) != nil else { return }
            case .waiting: try begin(windowBits: 31)
            case .inMember:
                guard let left = try inflate(rest, take) else { return }
                rest = left
            case .betweenMembers:
                if format == .gzip, byte == 0 {
                    rest = rest.dropFirst()
                } else if format == .gzip, byte == 0x1F {
                    inflateReset(stream)
                    (state, isFirst, hasOutput) = (.inMember, false, false)
                } else {
                    state = .ended
                }
            case .ended: return
            }
        }
    }

    /// `true` if the first two bytes begin a stream of RFC 1950.
    private var hasHeader: Bool {
        header[0] & 0x0F == 8 && header[0] >> 4 <= 7 && (Int(header[0]) << 8 | Int(header[1])) % 31 == 0
    }

    private func begin(windowBits: Int32) throws(DecodingFailure) {
        let stream = UnsafeMutablePointer<z_stream>.allocate(capacity: 1)
        stream.initialize(to: z_stream())
        guard czlib_inflate_init(stream, windowBits) == Z_OK else {
            stream.deallocate()
            throw .outOfMemory
        }
        self.stream = stream
        state = .inMember
    }

    /// Decodes bytes of the current member. Returns those behind it, or `nil` if `take` wants no more.
    private func inflate(
        _ bytes: Slice<UnsafeRawBufferPointer>, _ take: (UnsafeRawBufferPointer) -> Bool
    ) throws(DecodingFailure) -> Slice<UnsafeRawBufferPointer>? {
        guard let stream else { return nil }
        let input = UnsafeRawBufferPointer(rebasing: bytes)
        stream.pointee.next_in = UnsafeMutablePointer(
            mutating: input.baseAddress?.assumingMemoryBound(to: UInt8.self))
        stream.pointee.avail_in = UInt32(input.count)
        while true {
            stream.pointee.next_out = piece.baseAddress?.assumingMemoryBound(to: UInt8.self)
            stream.pointee.avail_out = UInt32(piece.count)
            let code = CZlib.inflate(stream, Z_NO_FLUSH)
            let count = piece.count - Int(stream.pointee.avail_out)
            if count > 0 {
                hasOutput = true
                guard take(UnsafeRawBufferPointer(rebasing: piece[..<count])) else { return nil }
            }
            switch code {
            case Z_STREAM_END:
                state = .betweenMembers
                return bytes.suffix(Int(stream.pointee.avail_in))
            case Z_OK where stream.pointee.avail_in > 0 || stream.pointee.avail_out == 0: continue
            case Z_OK, Z_BUF_ERROR: return bytes.suffix(0)
            case Z_MEM_ERROR: throw .outOfMemory
            default:
                guard !isFirst, !hasOutput else { throw .malformed }
                state = .ended
                return bytes.suffix(0)
            }
        }
    }
}
