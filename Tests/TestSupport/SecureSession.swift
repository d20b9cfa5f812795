import COpenSSL
import Glibc

/// What a server needs to speak TLS: a certificate and its key. Any thread.
package final class SecureServer: Sendable {
    // OpenSSL counts who uses it, and locks it (SSL_CTX_new(3)).
    fileprivate nonisolated(unsafe) let context: OpaquePointer

    package init(_ identity: TestAuthority.Identity) throws {
        // OpenSSL writes without MSG_NOSIGNAL.
        signal(SIGPIPE, SIG_IGN)
        guard let context = SSL_CTX_new(TLS_server_method()) else { throw TestSupportError("SSL_CTX_new") }
        self.context = context
        let (certificate, key) = (BIO(identity.certificate), BIO(identity.key))
        let x509 = PEM_read_bio_X509(certificate.raw, nil, nil, nil)
        let secret = PEM_read_bio_PrivateKey(key.raw, nil, nil, nil)
        defer {
            X509_free(x509)
            EVP_PKEY_free(secret)
        }
        guard SSL_CTX_use_certificate(context, x509) == 1, SSL_CTX_use_PrivateKey(context, secret) == 1
        else { throw TestSupportError("no certificate") }
    }

    deinit { SSL_CTX_free(context) }

    /// A text that OpenSSL reads.
    private final class BIO {
        let raw: OpaquePointer?
        init(_ text: String) {
            raw = BIO_new(BIO_s_mem())
            _ = text.withCString { BIO_write(raw, $0, Int32(text.utf8.count)) }
        }
        deinit { BIO_free(raw) }
    }
}

/// TLS on one connection, the server's side. One thread at a time.
final class SecureSession {
    private let raw: OpaquePointer

    /// Shakes hands; nil when the other end does not want to.
    init?(_ server: SecureServer, _ descriptor: Int32) {
        guard let raw = SSL_new(server.context) else { return nil }
        self.raw = raw
        guard SSL_set_fd(raw, descriptor) == 1, SSL_accept(raw) == 1 else { return nil }
    }

    deinit { SSL_free(raw) }

    func receive(_ bytes: UnsafeMutableRawBufferPointer) -> Int {
        Int(SSL_read(raw, bytes.baseAddress, Int32(bytes.count)))
    }

    func send(_ bytes: UnsafeRawBufferPointer) -> Int {
        bytes.isEmpty ? 0 : Int(SSL_write(raw, bytes.baseAddress, Int32(bytes.count)))
    }

    /// Says that nothing more comes; without it, the end of the connection may be an attack (RFC 8446 §6.1).
    func sayGoodbye() { SSL_shutdown(raw) }
}
