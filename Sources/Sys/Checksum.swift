internal import CSys

/// Checksums of bytes in memory. They detect accidental changes, not deliberate ones.
public enum Checksum {
    /// Returns the CRC-32C (Castagnoli).
    public static func crc32c(_ bytes: [UInt8]) -> UInt32 {
        bytes.withUnsafeBytes { csys_crc32c(0, $0.baseAddress, $0.count) }
    }

    /// Returns the Adler-32 (RFC 1950).
    public static func adler32(_ bytes: [UInt8]) -> UInt32 {
        bytes.withUnsafeBytes { csys_adler32(1, $0.baseAddress, $0.count) }
    }
}
