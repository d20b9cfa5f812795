internal import COpenSSL

/// A private key for Ed25519 signatures (RFC 8032).
///
/// Owns an EVP_PKEY. Unchecked: the key is never changed after `init`, and OpenSSL's reference counts are
/// atomic.
public final class Ed25519PrivateKey: @unchecked Sendable {
    /// Bytes of a seed.
    public static let seedByteCount = 32
    /// Bytes of a signature.
    public static let signatureByteCount = 64
    private let key: OpaquePointer

    /// Creates a key, or `nil` if the seed does not have 32 bytes.
    public init?(seed: [UInt8]) {
        guard seed.count == Self.seedByteCount,
            let key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nil, seed, seed.count)
        else { return nil }
        self.key = key
    }

    deinit { EVP_PKEY_free(key) }

    /// The public key, 32 bytes.
    public var publicKey: [UInt8] {
        var bytes = [UInt8](repeating: 0, count: 32)
        var length = bytes.count
        // No input reaches this: every key has a public half.
        precondition(
            EVP_PKEY_get_raw_public_key(key, &bytes, &length) == 1 && length == 32,
            "libcrypto cannot tell the public half of a key that it made")
        return bytes
    }

    /// Returns the signature of `message`, 64 bytes. The same message always has the same signature.
    public func signature(of message: [UInt8]) -> [UInt8] {
        var signature = [UInt8](repeating: 0, count: Self.signatureByteCount)
        var length = signature.count
        // No input reaches this: 48 bytes of memory.
        guard let context = EVP_MD_CTX_new() else { preconditionFailure("libcrypto is out of memory") }
        defer { EVP_MD_CTX_free(context) }
        let isSigned =
            EVP_DigestSignInit(context, nil, nil, nil, key) == 1
            && EVP_DigestSign(context, &signature, &length, message, message.count) == 1
        // No input reaches this: every message can be signed.
        precondition(isSigned && length == signature.count, "Ed25519 failed: libcrypto is built without it")
        return signature
    }
}
