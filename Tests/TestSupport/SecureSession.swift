import COpenSSL
import Glibc

/// Certificate and key of a TLS server. Usable on any thread.
package final class SecureServer: Sendable {
    // OpenSSL counts references atomically and locks the context (SSL_CTX_new(3)).
    fileprivate nonisolated(unsafe) let context: OpaquePointer

    package init(_ identity: TestAuthority.Identity) throws {
        // OpenSSL writes to sockets without MSG_NOSIGNAL.
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

    /// Passes a text to OpenSSL as a memory BIO.
    private final class BIO {
        let raw: OpaquePointer?
        init(_ text: String) {
            raw = BIO_new(BIO_s_mem())
            _ = text.withCString { BIO_write(raw, $0, Int32(text.utf8.count)) }
        }
        deinit { BIO_free(raw) }
    }
}

/// Server side of one TLS connection. Used by one thread at a time.
final class SecureSession {
    private let raw: OpaquePointer

    /// Performs the handshake. `nil` if the client refuses it.
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

    /// Sends close_notify. Without it, the end of the connection may be an attack (RFC 8446 §6.1).
    func sayGoodbye() { SSL_shutdown(raw) }
}
