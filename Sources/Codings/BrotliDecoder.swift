internal import CBrotli

/// Decodes `br` (RFC 7932). Bytes behind the end are ignored.
final class BrotliDecoder: ContentDecoder {
    /// `nil` until the first byte.
    private var state: OpaquePointer?
    private var isEnded = false
    private let piece = UnsafeMutableRawBufferPointer.allocate(byteCount: pieceByteCount, alignment: 16)

    deinit {
        if let state { BrotliDecoderDestroyInstance(state) }
        piece.deallocate()
    }

    var isComplete: Bool { state == nil || isEnded }

    func decode(
        _ bytes: UnsafeRawBufferPointer, _ take: (UnsafeRawBufferPointer) -> Bool
    ) throws(DecodingFailure) {
        guard !bytes.isEmpty, !isEnded else { return }
        guard let state = state ?? BrotliDecoderCreateInstance(nil, nil, nil) else { throw .outOfMemory }
        self.state = state
        var input = bytes.baseAddress?.assumingMemoryBound(to: UInt8.self)
        var inputCount = bytes.count
        while true {
            var output = piece.baseAddress?.assumingMemoryBound(to: UInt8.self)
            var outputCount = piece.count
            let result = BrotliDecoderDecompressStream(
                state, &inputCount, &input, &outputCount, &output, nil)
            let count = piece.count - outputCount
            if count > 0, !take(UnsafeRawBufferPointer(rebasing: piece[..<count])) { return }
            switch result {
            case BROTLI_DECODER_RESULT_SUCCESS:
                isEnded = true
                return
            case BROTLI_DECODER_RESULT_NEEDS_MORE_OUTPUT: continue
            case BROTLI_DECODER_RESULT_NEEDS_MORE_INPUT: return
            default: throw .malformed
            }
        }
    }
}
