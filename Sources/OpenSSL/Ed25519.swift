internal import COpenSSL

/// A private key of Ed25519 (RFC 8032), ready to sign.
///
/// Owns an EVP_PKEY. Unchecked: it is not changed after it was made, and OpenSSL counts references safely
/// from any thread.
package final class Ed25519PrivateKey: @unchecked Sendable {
    package static let seedByteCount = 32
    package static let signatureByteCount = 64
    private let key: OpaquePointer

    /// Nil when the seed has another length than 32 bytes.
    package init?(seed: [UInt8]) {
        guard seed.count == Self.seedByteCount,
            let key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nil, seed, seed.count)
        else { return nil }
        self.key = key
    }

    deinit { EVP_PKEY_free(key) }

    /// 32 bytes.
    package var publicKey: [UInt8] {
        var bytes = [UInt8](repeating: 0, count: 32)
        var length = bytes.count
        precondition(
            EVP_PKEY_get_raw_public_key(key, &bytes, &length) == 1 && length == 32,
            "libcrypto cannot tell the public half of a key that it made")
        return bytes
    }

    /// 64 bytes; the same message has the same signature.
    package func signature(of message: [UInt8]) -> [UInt8] {
        var signature = [UInt8](repeating: 0, count: Self.signatureByteCount)
        var length = signature.count
        guard let context = EVP_MD_CTX_new() else { preconditionFailure("libcrypto is out of memory") }
        defer { EVP_MD_CTX_free(context) }
        let isSigned =
            EVP_DigestSignInit(context, nil, nil, nil, key) == 1
            && EVP_DigestSign(context, &signature, &length, message, message.count) == 1
        precondition(isSigned && length == signature.count, "Ed25519 failed: libcrypto is built without it")
        return signature
    }
}
