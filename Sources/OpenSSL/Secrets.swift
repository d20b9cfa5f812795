internal import COpenSSL

/// Returns the HMAC-SHA256 (RFC 2104), 32 bytes.
public func hmacSHA256(key: [UInt8], message: [UInt8]) -> [UInt8] {
    var code = [UInt8](repeating: 0, count: 32)
    var length: UInt32 = 32
    HMAC(EVP_sha256(), key, Int32(key.count), message, message.count, &code, &length)
    return code
}

/// Returns `true` if two codes are equal. Its duration tells nothing about the place of a difference
/// (CRYPTO_memcmp(3)).
public func isEqualCode(_ a: [UInt8], _ b: [UInt8]) -> Bool {
    a.count == b.count && CRYPTO_memcmp(a, b, a.count) == 0
}

/// Returns random bytes from libcrypto that are fit for keys (RAND_bytes(3)). Ends the process if there is no
/// entropy.
public func randomBytes(_ count: Int) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: count)
    precondition(
        RAND_bytes(&bytes, Int32(count)) == 1, "libcrypto has no entropy: refusing to make a weak key")
    return bytes
}

/// Encryption of secrets in the database with AES-256-GCM (NIST SP 800-38D) and a random nonce for each
/// message.
///
/// Sealed form: one version byte (1), 12 bytes of nonce, the ciphertext, 16 bytes of tag.
public struct SecretBox: Sendable {
    /// The text was sealed with another key, or has been changed.
    public struct OpenFailure: Error, Sendable {}
    private let key: [UInt8]

    /// Creates a box. `key` must have 16 bytes or more; its SHA-256 is the AES key.
    public init(key: [UInt8]) {
        // No input reaches this: the configuration and derived keys have more.
        precondition(key.count >= 16, "a key of less than 128 bits protects nothing")
        self.key = Digest.of(key)
    }

    /// Returns the first 32 bits of the HMAC-SHA256 under this key, in hexadecimal. It tells secrets apart in
    /// the database without showing them; equal hashes do not prove equal secrets.
    public func shortHash(_ plain: [UInt8]) -> String {
        let digits = Array("0123456789abcdef")
        return String(
            hmacSHA256(key: key, message: plain).prefix(4)
                .flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] })
    }

    /// Returns a key for another purpose: the HMAC-SHA256 of its name under this key.
    public func key(for purpose: String) -> [UInt8] { hmacSHA256(key: key, message: Array(purpose.utf8)) }

    /// Returns `plain` in its sealed form.
    public func seal(_ plain: [UInt8]) -> [UInt8] {
        let nonce = randomBytes(12)
        // No input reaches this: 200 bytes of memory.
        guard let context = EVP_CIPHER_CTX_new() else { preconditionFailure("libcrypto is out of memory") }
        defer { EVP_CIPHER_CTX_free(context) }
        var cipher = [UInt8](repeating: 0, count: plain.count)
        var tag = [UInt8](repeating: 0, count: 16)
        var length: Int32 = 0
        let ok =
            EVP_EncryptInit_ex(context, EVP_aes_256_gcm(), nil, key, nonce) == 1
            && EVP_EncryptUpdate(context, &cipher, &length, plain, Int32(plain.count)) == 1
            && EVP_EncryptFinal_ex(context, &tag, &length) == 1
            && copenssl_gcm_get_tag(context, 16, &tag) == 1
        // No input reaches this: every text of less than 2 GiB can be encrypted.
        precondition(ok, "AES-256-GCM failed: libcrypto is built without it")
        return [1] + nonce + cipher + tag
    }

    /// Returns the plain text. Throws if it was sealed with another key or has been changed.
    public func open(_ sealed: [UInt8]) throws(OpenFailure) -> [UInt8] {
        guard sealed.count >= 29, sealed[0] == 1, let context = EVP_CIPHER_CTX_new() else {
            throw OpenFailure()
        }
        defer { EVP_CIPHER_CTX_free(context) }
        let nonce = Array(sealed[1..<13])
        let cipher = Array(sealed[13..<(sealed.count - 16)])
        var tag = Array(sealed[(sealed.count - 16)...])
        var plain = [UInt8](repeating: 0, count: cipher.count)
        var unused = [UInt8](repeating: 0, count: 16)
        var length: Int32 = 0
        let ok =
            EVP_DecryptInit_ex(context, EVP_aes_256_gcm(), nil, key, nonce) == 1
            && EVP_DecryptUpdate(context, &plain, &length, cipher, Int32(cipher.count)) == 1
            && copenssl_gcm_set_tag(context, 16, &tag) == 1
            && EVP_DecryptFinal_ex(context, &unused, &length) == 1
        guard ok else { throw OpenFailure() }
        return plain
    }
}
