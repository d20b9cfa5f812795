/// Everything that is decided about a transfer before it begins. A plain value.
package struct TransferRequest: Sendable {
    /// A header line of the request. An empty value is sent as such.
    package struct Header: Sendable, Hashable {
        package var name: String
        package var value: String
        package init(_ name: String, _ value: String) {
            self.name = name
            self.value = value
        }
    }

    /// What is sent after the head; the bytes come from `EasyDelegate.provideBody`.
    package enum Body: Sendable, Hashable {
        case none
        case known(Int64)
        /// Sent chunked (HTTP/1.1) or until the end of the stream (HTTP/2).
        case unknown
    }

    package enum HTTPVersion: Sendable, Hashable {
        case http1
        /// HTTP/2 when the other end offers it over TLS; else HTTP/1.1.
        case http2
        /// HTTP/3 when the other end answers to it, else as `http2`. Needs a libcurl that has it.
        case http3
    }

    package struct Credentials: Sendable, Hashable {
        /// Basic (RFC 7617) is sent at once, the others answer a challenge: Digest (RFC 7616), and NTLM
        /// (MS-NTHT), which is about a connection and needs HTTP/1.1.
        package enum Scheme: Sendable, Hashable { case basic, digest, ntlm }
        package var scheme: Scheme
        package var user: String
        package var password: String
        package init(_ scheme: Scheme = .basic, user: String, password: String) {
            self.scheme = scheme
            self.user = user
            self.password = password
        }
    }

    package struct Proxy: Sendable, Hashable {
        /// `http://host:port`, `https://…` or `socks5h://…` (the proxy resolves names).
        package var url: String
        /// To a SOCKS5 proxy by the method of RFC 1929, whatever the scheme.
        package var credentials: Credentials?
        /// PEM texts that replace the system's for an `https` proxy.
        package var authorities: String?
        package init(url: String) { self.url = url }
    }

    /// What differs from verification against the system's certificates with TLS 1.2 or later.
    package struct TLS: Sendable, Hashable {
        /// PEM texts. Own authorities replace the system's.
        package var authorities: String?
        package var clientCertificate: String?
        package var clientKey: String?
        /// `sha256//base64` of public keys; any match is enough (CURLOPT_PINNEDPUBLICKEY).
        package var pins: [String] = []
        /// `1.2` or `1.3`.
        package var minimumVersion: String?
        package var maximumVersion: String?
        package init() {}
    }

    package var url: String
    package var method = "GET"
    package var headers: [Header] = []
    package var body = Body.none
    /// Whether a body of a megabyte or more, or of unknown length, is announced with `Expect: 100-continue`.
    package var expectsContinue = true
    package var httpVersion = HTTPVersion.http1
    /// Those that answer a challenge: the first request goes out without the body's bytes.
    package var credentials: Credentials?
    package var tls: TLS?
    /// nil connects directly: the environment's proxies are never used.
    package var proxy: Proxy?
    /// Content codings to ask for and undo, as in Accept-Encoding; nil leaves bodies as they come. An answer
    /// has one of them or none.
    package var acceptEncoding: String?
    /// Milliseconds for name resolution, connection and TLS handshake together.
    package var connectTimeout = 30_000
    /// Milliseconds for everything; 0 is no limit.
    package var totalTimeout = 0
    /// Bytes; libcurl's default is 16 KiB, more pays above a megabyte of body.
    package var receiveBufferSize = 16_384
    /// Bytes; 16 KiB to 2 MiB.
    package var sendBufferSize = 65_536
    /// Bytes a second, 0 is no limit; can be changed while the transfer runs.
    package var maxReceiveSpeed: Int64 = 0
    package var maxSendSpeed: Int64 = 0
    /// Seconds after which an idle kept connection is not used again.
    package var maxIdleConnectionAge = 60
    /// Seconds after which a connection is not used again, however busy: a name may lead somewhere else by
    /// then.
    package var maxConnectionAge = 300
    /// Opens a connection of its own instead of using a kept one.
    package var usesFreshConnection = false
    /// Connects, with TLS where the URL says so, and ends there.
    package var connectsOnly = false
    /// Whether the connection may be used again afterwards.
    package var keepsConnection = true

    package init(url: String) { self.url = url }
}
