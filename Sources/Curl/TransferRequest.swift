/// All settings of a transfer. Set before it starts.
public struct TransferRequest: Sendable {
    /// A header field of the request. A field with an empty value is sent.
    public struct Header: Sendable, Hashable {
        /// Name of the field, a token (RFC 9110 §5.6.2).
        public var name: String
        /// Value of the field.
        public var value: String
        /// `true` if each character of `value` is one octet (ISO 8859-1), `false` to send UTF-8.
        public var hasOctets: Bool
        /// Creates a field. `EasyHandle.configure` checks it.
        public init(_ name: String, _ value: String, hasOctets: Bool = false) {
            self.name = name
            self.value = value
            self.hasOctets = hasOctets
        }
    }

    /// Body of the request. `EasyDelegate.provideBody` supplies the bytes.
    public enum Body: Sendable, Hashable {
        case none
        /// A body of this many bytes.
        case known(Int64)
        /// A body of unknown length, sent chunked (HTTP/1.1) or until the end of the stream (HTTP/2).
        case unknown
    }

    /// Highest version of HTTP to use.
    public enum HTTPVersion: Sendable, Hashable {
        case http1
        /// HTTP/2 if the server offers it over TLS, else HTTP/1.1.
        case http2
        /// HTTP/3 if the server responds to it, else as `http2`. Needs a libcurl with HTTP/3.
        case http3
    }

    /// User name and password.
    public struct Credentials: Sendable, Hashable {
        /// Authentication scheme. Basic (RFC 7617) is sent with the first request. Digest (RFC 7616) and NTLM
        /// (MS-NTHT) respond to a challenge. NTLM authenticates a connection and needs HTTP/1.1.
        public enum Scheme: Sendable, Hashable { case basic, digest, ntlm }
        /// The authentication scheme.
        public var scheme: Scheme
        /// The user name.
        public var user: String
        /// The password.
        public var password: String
        /// Creates credentials.
        public init(_ scheme: Scheme = .basic, user: String, password: String) {
            self.scheme = scheme
            self.user = user
            self.password = password
        }
    }

    /// A proxy and how to authenticate with it.
    public struct Proxy: Sendable, Hashable {
        /// URL of the proxy: `http://host:port`, `https://…` or `socks5h://…` (the proxy resolves names).
        public var url: String
        /// Credentials, or `nil` for none. A SOCKS5 proxy gets them as in RFC 1929, whatever the scheme.
        public var credentials: Credentials?
        /// Certificates in PEM that replace the system's for an `https` proxy; `nil` uses the system's.
        public var authorities: String?
        /// Creates a proxy without credentials.
        public init(url: String) { self.url = url }
    }

    /// TLS settings that differ from the default: the system's certificates and TLS 1.2 or later.
    public struct TLS: Sendable, Hashable {
        /// Certificates of authorities in PEM, instead of the system's.
        public var authorities: String?
        /// Certificate of the client in PEM.
        public var clientCertificate: String?
        /// Private key of the client in PEM.
        public var clientKey: String?
        /// Public keys as `sha256//base64`; one match is enough (CURLOPT_PINNEDPUBLICKEY).
        public var pins: [String] = []
        /// `1.2` or `1.3`; `nil` means `1.2`.
        public var minimumVersion: String?
        /// `1.2` or `1.3`; `nil` sets no maximum.
        public var maximumVersion: String?
        /// Creates the default settings.
        public init() {}
    }

    /// URL of the request, `http` or `https`.
    public var url: String
    /// Method, a token (RFC 9110 §5.6.2).
    public var method = "GET"
    /// Header fields in the order in which they are sent.
    public var headers: [Header] = []
    /// Body of the request.
    public var body = Body.none
    /// `true` to announce a body of 1 MiB or more, or of unknown length, with `Expect: 100-continue`.
    public var expectsContinue = true
    /// Highest version of HTTP to use.
    public var httpVersion = HTTPVersion.http1
    /// Credentials for the server, or `nil`. With Digest and NTLM, the first request is sent without the
    /// body.
    public var credentials: Credentials?
    /// TLS settings, or `nil` for the default.
    public var tls: TLS?
    /// Proxy, or `nil` to connect directly. The environment's proxy variables are never used.
    public var proxy: Proxy?
    /// Content codings to request and decode, as in `Accept-Encoding`; `nil` leaves bodies encoded. A
    /// response may have one of them or none.
    public var acceptEncoding: String?
    /// Milliseconds for name resolution, connection and TLS handshake together.
    public var connectTimeout = 30_000
    /// Milliseconds for the whole transfer; 0: no limit.
    public var totalTimeout = 0
    /// Seconds without a byte in either direction after which the transfer fails with a timeout; 0: no limit
    /// (CURLOPT_LOW_SPEED_TIME).
    public var idleTimeout = 0
    /// Receive buffer in bytes. libcurl's default is 16 KiB; a larger one is faster for bodies above 1 MiB.
    public var receiveBufferSize = 16_384
    /// Send buffer in bytes, from 16 KiB to 2 MiB.
    public var sendBufferSize = 65_536
    /// Bytes received per second; 0: no limit.
    public var maxReceiveSpeed: Int64 = 0
    /// Bytes sent per second; 0: no limit.
    public var maxSendSpeed: Int64 = 0
    /// Seconds after which an idle connection is not used again.
    public var maxIdleConnectionAge = 60
    /// Seconds after which a connection is not used again, even if it is never idle: its name may have
    /// another address by then.
    public var maxConnectionAge = 300
    /// `true` to open a new connection instead of using an idle one.
    public var usesFreshConnection = false
    /// `true` to connect, with TLS for `https`, and end without a request.
    public var connectsOnly = false
    /// `true` to keep the connection for later transfers.
    public var keepsConnection = true

    /// Creates a GET request with default settings.
    public init(url: String) { self.url = url }
}
