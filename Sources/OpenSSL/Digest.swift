internal import COpenSSL

/// A message digest that is computed while bytes stream by.
///
/// Owns an EVP_MD_CTX (EVP_DigestInit(3)). Unchecked: it cannot be copied, so one owner has it at a time, on
/// whatever thread.
package struct Digest: ~Copyable, @unchecked Sendable {
    /// Digests that a job may name.
    package enum Algorithm: String, Sendable, CaseIterable {
        case md5, sha1, sha256, sha512

        /// Fetched once: an implicit fetch per digest takes a lock and a search (OpenSSL 3 migration guide).
        fileprivate var method: OpaquePointer? {
            switch self {
            case .md5: Fetched.md5
            case .sha1: Fetched.sha1
            case .sha256: Fetched.sha256
            case .sha512: Fetched.sha512
            }
        }
        /// False for what this libcrypto does not have, or must not compute (a FIPS one: MD5).
        package var isAvailable: Bool { method != nil }

        package var byteCount: Int {
            switch self {
            case .md5: 16
            case .sha1: 20
            case .sha256: 32
            case .sha512: 64
            }
        }
    }

    private enum Fetched {
        nonisolated(unsafe) static let md5 = EVP_MD_fetch(nil, "MD5", nil)
        nonisolated(unsafe) static let sha1 = EVP_MD_fetch(nil, "SHA1", nil)
        nonisolated(unsafe) static let sha256 = EVP_MD_fetch(nil, "SHA256", nil)
        nonisolated(unsafe) static let sha512 = EVP_MD_fetch(nil, "SHA512", nil)
    }

    package let algorithm: Algorithm
    private let context: OpaquePointer

    /// The algorithm has to be available.
    package init(_ algorithm: Algorithm) {
        guard let context = EVP_MD_CTX_new(), EVP_DigestInit_ex2(context, algorithm.method, nil) == 1 else {
            preconditionFailure("libcrypto cannot compute \(algorithm.rawValue): it is built without it")
        }
        self.algorithm = algorithm
        self.context = context
    }

    deinit { EVP_MD_CTX_free(context) }

    package mutating func update(_ bytes: UnsafeRawBufferPointer) {
        EVP_DigestUpdate(context, bytes.baseAddress, bytes.count)
    }

    package mutating func update(_ bytes: [UInt8]) {
        bytes.withUnsafeBytes { update($0) }
    }

    /// The digest of everything so far. The object can be used again from the start afterwards.
    package mutating func finish() -> [UInt8] {
        var digest = [UInt8](repeating: 0, count: algorithm.byteCount)
        EVP_DigestFinal_ex(context, &digest, nil)
        EVP_DigestInit_ex2(context, nil, nil)
        return digest
    }

    /// The digest of a whole message.
    package static func of(_ bytes: [UInt8], _ algorithm: Algorithm = .sha256) -> [UInt8] {
        var digest = Digest(algorithm)
        digest.update(bytes)
        return digest.finish()
    }
}
