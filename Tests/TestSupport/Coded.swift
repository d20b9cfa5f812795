import CSys

/// Bodies with content codings, made without compression. All decoders accept such streams.
package enum Coded {
    /// Returns a gzip stream of stored blocks (RFC 1952).
    package static func gzip(_ bytes: [UInt8]) -> [UInt8] {
        [0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 0xFF] + stored(bytes)
            + littleEndian(csys_crc32(0, bytes, bytes.count))
            + littleEndian(UInt32(bytes.count))
    }

    /// Returns a zlib stream of stored blocks (RFC 1950), which HTTP calls deflate.
    package static func deflate(_ bytes: [UInt8]) -> [UInt8] {
        [0x78, 0x01] + stored(bytes) + littleEndian(csys_adler32(1, bytes, bytes.count).byteSwapped)
    }

    /// Returns a Brotli stream of uncompressed meta-blocks (RFC 7932).
    package static func brotli(_ bytes: [UInt8]) -> [UInt8] {
        var stream: [UInt8] = []
        var rest = bytes[...]
        // The first block begins with the bit for a window of 64 KiB.
        var shift: UInt32 = 1
        while !rest.isEmpty {
            let block = rest.prefix(60_000)
            rest = rest.dropFirst(block.count)
            let head = UInt32(block.count - 1) << (3 + shift) | 1 << (19 + shift)
            stream += littleEndian(head).prefix(3) + block
            shift = 0
        }
        return stream + [shift == 0 ? 0x03 : 0x06]
    }

    /// Stored blocks (RFC 1951 §3.2.4).
    private static func stored(_ bytes: [UInt8]) -> [UInt8] {
        var stream: [UInt8] = []
        var rest = bytes[...]
        repeat {
            let block = rest.prefix(60_000)
            rest = rest.dropFirst(block.count)
            let length = UInt32(block.count)
            stream += [rest.isEmpty ? 1 : 0] + littleEndian(length | (~length & 0xFFFF) << 16) + block
        } while !rest.isEmpty
        return stream
    }

    private static func littleEndian(_ word: UInt32) -> [UInt8] {
        (0..<4).map { UInt8(truncatingIfNeeded: word >> (8 * $0)) }
    }
}
