internal import COpenSSL

/// PEM texts (RFC 7468) as OpenSSL reads them: whether libcurl will be able to use them.
package enum PEM {
    package enum Failure: Error, Sendable, Equatable {
        /// There is no block of the kind, or one that cannot be read.
        case unreadable
        /// The key is encrypted.
        case encrypted
        /// The key belongs to another certificate.
        case mismatch
        /// More than `keyBitCountMax`.
        case tooLarge
    }

    /// Signing with 16,384 bits takes half a second, in which a thread serves nobody else.
    package static let keyBitCountMax = 8_192

    /// Reads every certificate of the text; throws when there is none.
    package static func checkCertificates(_ text: String) throws(Failure) {
        let source = try Source(text)
        var count = 0
        while let certificate = PEM_read_bio_X509(source.bio, nil, refusePassword, nil) {
            X509_free(certificate)
            count += 1
        }
        // The end of the text is an error to OpenSSL like any other; only it is expected.
        guard count > 0, source.endedWithoutStart else { throw .unreadable }
    }

    /// Reads a private key, and compares it with the first certificate of `certificate`.
    package static func checkKey(_ text: String, of certificate: String?) throws(Failure) {
        let source = try Source(text)
        guard let key = PEM_read_bio_PrivateKey(source.bio, nil, refusePassword, nil) else {
            throw text.contains("ENCRYPTED") ? .encrypted : .unreadable
        }
        defer { EVP_PKEY_free(key) }
        guard EVP_PKEY_get_bits(key) <= Int32(keyBitCountMax) else { throw .tooLarge }
        guard let certificate, let chain = try? Source(certificate),
            let first = PEM_read_bio_X509(chain.bio, nil, refusePassword, nil)
        else { return }
        defer { X509_free(first) }
        guard X509_check_private_key(first, key) == 1 else { throw .mismatch }
    }

    /// A text as OpenSSL reads it. The thread's queue of errors is left as empty as it was.
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

        /// Whether the last reading found no further block, rather than a broken one.
        var endedWithoutStart: Bool { copenssl_is_end_of_pem(ERR_peek_last_error()) == 1 }
    }
}

/// Never asks a terminal for a password.
private func refusePassword(
    _: UnsafeMutablePointer<CChar>?, _: Int32, _: Int32, _: UnsafeMutableRawPointer?
) -> Int32 { -1 }
