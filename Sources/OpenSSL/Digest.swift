internal import COpenSSL

/// A message digest, computed as bytes arrive.
///
/// Owns an EVP_MD_CTX (EVP_DigestInit(3)). Unchecked: the type is not copyable, so one owner uses it at a
/// time, on any thread.
public struct Digest: ~Copyable, @unchecked Sendable {
    /// Digest algorithms.
    public enum Algorithm: String, Sendable {
        case md5, sha1, sha256, sha512
        /// SHA-512/256 (FIPS 180-4 §6.7).
        case sha512by256 = "sha512-256"

        /// Algorithms that a job may name.
        public static let ofContents: [Self] = [.md5, .sha1, .sha256, .sha512]

        /// Fetched once: an implicit fetch for each digest takes a lock and a search (OpenSSL 3 migration
        /// guide).
        fileprivate var method: OpaquePointer? {
            switch self {
            case .md5: Fetched.md5
            case .sha1: Fetched.sha1
            case .sha256: Fetched.sha256
            case .sha512: Fetched.sha512
            case .sha512by256: Fetched.sha512by256
            }
        }
        /// `false` if this libcrypto does not have the algorithm or may not compute it (FIPS: MD5).
        public var isAvailable: Bool { method != nil }

        /// Length of the digest in bytes.
        public var byteCount: Int {
            switch self {
            case .md5: 16
            case .sha1: 20
            case .sha256, .sha512by256: 32
            case .sha512: 64
            }
        }
    }

    private enum Fetched {
        nonisolated(unsafe) static let md5 = EVP_MD_fetch(nil, "MD5", nil)
        nonisolated(unsafe) static let sha1 = EVP_MD_fetch(nil, "SHA1", nil)
        nonisolated(unsafe) static let sha256 = EVP_MD_fetch(nil, "SHA256", nil)
        nonisolated(unsafe) static let sha512 = EVP_MD_fetch(nil, "SHA512", nil)
        nonisolated(unsafe) static let sha512by256 = EVP_MD_fetch(nil, "SHA512-256", nil)
    }

    /// The algorithm of this digest.
    public let algorithm: Algorithm
    private let context: OpaquePointer

    /// Begins a digest. Ends the process if the algorithm is not available.
    public init(_ algorithm: Algorithm) {
        // No input reaches this: callers ask `isAvailable` first for what outside data names.
        guard let context = EVP_MD_CTX_new(), EVP_DigestInit_ex2(context, algorithm.method, nil) == 1 else {
            preconditionFailure("libcrypto cannot compute \(algorithm.rawValue): it is built without it")
        }
        self.algorithm = algorithm
        self.context = context
    }

    deinit { EVP_MD_CTX_free(context) }

    /// Adds bytes to the message.
    public mutating func update(_ bytes: UnsafeRawBufferPointer) {
        EVP_DigestUpdate(context, bytes.baseAddress, bytes.count)
    }

    /// Adds bytes to the message.
    public mutating func update(_ bytes: [UInt8]) {
        bytes.withUnsafeBytes { update($0) }
    }

    /// Returns the digest of all bytes so far and begins a new message.
    public mutating func finish() -> [UInt8] {
        var digest = [UInt8](repeating: 0, count: algorithm.byteCount)
        EVP_DigestFinal_ex(context, &digest, nil)
        EVP_DigestInit_ex2(context, nil, nil)
        return digest
    }

    /// Returns the digest of a complete message.
    public static func of(_ bytes: [UInt8], _ algorithm: Algorithm = .sha256) -> [UInt8] {
        var digest = Digest(algorithm)
        digest.update(bytes)
        return digest.finish()
    }
}
