internal import COpenSSL

/// Checks of PEM texts (RFC 7468) as OpenSSL reads them, to know that libcurl will accept them.
public enum PEM {
    /// Reason for which a PEM text is rejected.
    public enum Failure: Error, Sendable, Equatable {
        /// There is no block of the expected kind, or it cannot be read.
        case unreadable
        /// The private key is encrypted.
        case encrypted
        /// The private key does not belong to the certificate.
        case mismatch
        /// The key has more than `keyBitCountMax` bits.
        case tooLarge
    }

    /// Largest size of a key. A signature with 16,384 bits takes half a second, in which the thread serves no
    /// other transfer.
    public static let keyBitCountMax = 8_192

    /// Reads all certificates of the text. Throws if there is none.
    public static func checkCertificates(_ text: String) throws(Failure) {
        let source = try Source(text)
        var count = 0
        while let certificate = PEM_read_bio_X509(source.bio, nil, refusePassword, nil) {
            X509_free(certificate)
            count += 1
        }
        // OpenSSL reports the end of the text as an error as well; only that error is expected.
        guard count > 0, source.endedWithoutStart else { throw .unreadable }
    }

    /// Reads a private key and, if `certificate` is given, compares it with the first certificate of that
    /// text.
    public static func checkKey(_ text: String, of certificate: String?) throws(Failure) {
        let source = try Source(text)
        guard let key = PEM_read_bio_PrivateKey(source.bio, nil, refusePassword, nil) else {
            throw text.contains("ENCRYPTED") ? .encrypted : .unreadable
        }
        defer { EVP_PKEY_free(key) }
        guard EVP_PKEY_get_bits(key) <= Int32(keyBitCountMax) else { throw .tooLarge }
        // `checkCertificates` reports a certificate that cannot be read.
        guard let certificate, let chain = try? Source(certificate),
            let first = PEM_read_bio_X509(chain.bio, nil, refusePassword, nil)
        else { return }
        defer { X509_free(first) }
        guard X509_check_private_key(first, key) == 1 else { throw .mismatch }
    }

    /// Owns a memory BIO over a copy of the text. Clears the thread's OpenSSL error queue before and after.
    private struct Source: ~Copyable {
        let bio: OpaquePointer
        private let bytes: UnsafeMutableBufferPointer<UInt8>

        init(_ text: String) throws(Failure) {
            bytes = .allocate(capacity: max(1, text.utf8.count))
            _ = bytes.initialize(from: text.utf8)
            ERR_clear_error()
            guard let bio = BIO_new_mem_buf(bytes.baseAddress, Int32(clamping: text.utf8.count)) else {
                bytes.deallocate()
                throw .unreadable
            }
            self.bio = bio
        }

        deinit {
            BIO_free(bio)
            bytes.deallocate()
            ERR_clear_error()
        }

        /// `true` if the last read failed because no further block begins, and not because a block is
        /// malformed.
        var endedWithoutStart: Bool { copenssl_is_end_of_pem(ERR_peek_last_error()) == 1 }
    }
}

/// Password callback that returns an error, so that OpenSSL does not ask on the terminal.
private func refusePassword(
    _: UnsafeMutablePointer<CChar>?, _: Int32, _: Int32, _: UnsafeMutableRawPointer?
) -> Int32 { -1 }
