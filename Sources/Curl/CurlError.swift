import CCurl

/// Failure of a transfer: libcurl's code and text, and the operating system's errno.
public struct CurlError: Error, Sendable, Equatable, CustomStringConvertible {
    /// A CURLcode (libcurl-errors(3)); never 0.
    public let code: Int
    /// libcurl's text about this failure. May name addresses and hosts; never contains header fields or
    /// bodies.
    public let text: String
    /// CURLINFO_OS_ERRNO; 0 if there is none.
    public let osError: Int32
    /// Status of a proxy's response to CONNECT; 0 if there was none.
    public var proxyStatus = 0
    /// Schemes that a proxy offered with 407.
    public var proxySchemes: Set<TransferRequest.Credentials.Scheme> = []
    /// Failure of a SOCKS proxy (CURLproxycode in curl.h); 0 if none failed.
    public var proxyReason = 0
    /// Reason for which a certificate was rejected (X509_V_ERR_…, openssl-verification-options(1)); 0 if none
    /// was.
    public var verifyResult = 0

    /// The rule that the head of the response breaks; `nil` if libcurl rejects something else.
    public var headFault: HeadFault?

    /// Creates an error.
    public init(code: Int, text: String, osError: Int32 = 0) {
        self.code = code
        self.text = text
        self.osError = osError
    }

    init(_ code: CURLcode, text: String? = nil, osError: Int32 = 0) {
        self.init(
            code: Int(code.rawValue), text: text ?? String(cString: curl_easy_strerror(code)),
            osError: osError)
    }

    /// Code and text for logs.
    public var description: String { "curl \(code): \(text)" }

    /// The connection ended without close_notify; the code and text of libcurl 8 with OpenSSL 3.2.
    public static let missingCloseNotify = CurlError(
        code: receiveError, text: "the connection ended without close_notify")

    /// The connection ended within the head of the response.
    public static let withoutWholeHead = CurlError(
        code: receiveError, text: "the connection ended within the head of the response")

    /// The response has a coding that was not requested. libcurl would decode it anyway.
    public static let unrequestedCoding = CurlError(
        code: badContentEncoding, text: "the response has a content coding that was not requested")

    /// CURLE_UNSUPPORTED_PROTOCOL.
    public static let unsupportedProtocol = 1
    /// CURLE_URL_MALFORMAT.
    public static let malformedURL = 3
    /// CURLE_COULDNT_RESOLVE_PROXY.
    public static let couldNotResolveProxy = 5
    /// CURLE_COULDNT_RESOLVE_HOST.
    public static let couldNotResolveHost = 6
    /// CURLE_COULDNT_CONNECT.
    public static let couldNotConnect = 7
    /// CURLE_WEIRD_SERVER_REPLY.
    public static let weirdServerReply = 8
    /// CURLE_PARTIAL_FILE.
    public static let partialFile = 18
    /// CURLE_WRITE_ERROR.
    public static let writeError = 23
    /// CURLE_UPLOAD_FAILED.
    public static let uploadFailed = 25
    /// CURLE_OUT_OF_MEMORY.
    public static let outOfMemory = 27
    /// CURLE_OPERATION_TIMEDOUT.
    public static let operationTimedOut = 28
    /// CURLE_SSL_CONNECT_ERROR.
    public static let sslConnectError = 35
    /// CURLE_ABORTED_BY_CALLBACK.
    public static let abortedByCallback = 42
    /// CURLE_BAD_FUNCTION_ARGUMENT.
    public static let badFunctionArgument = 43
    /// CURLE_GOT_NOTHING.
    public static let gotNothing = 52
    /// CURLE_SEND_ERROR.
    public static let sendError = 55
    /// CURLE_RECV_ERROR.
    public static let receiveError = 56
    /// CURLE_SSL_CERTPROBLEM.
    public static let sslCertificateProblem = 58
    /// CURLE_SSL_CIPHER.
    public static let sslCipher = 59
    /// CURLE_PEER_FAILED_VERIFICATION.
    public static let peerFailedVerification = 60
    /// CURLE_BAD_CONTENT_ENCODING.
    public static let badContentEncoding = 61
    /// CURLE_SEND_FAIL_REWIND.
    public static let sendFailedRewind = 65
    /// CURLE_SSL_CACERT_BADFILE.
    public static let caCertificateBadFile = 77
    /// CURLE_SSL_ISSUER_ERROR.
    public static let sslIssuerError = 83
    /// CURLE_SSL_PINNEDPUBKEYNOTMATCH.
    public static let pinnedKeyMismatch = 90
    /// CURLE_HTTP2_STREAM.
    public static let http2Stream = 92
    /// CURLE_PROXY.
    public static let proxyHandshake = 97
    /// CURLE_TOO_LARGE (since 8.6.0): a head, one of its lines or a trailer is larger than libcurl accepts.
    /// `HeadBounds` derives it from the codes and texts of older versions.
    public static let tooLarge = 100

    /// Values of `proxyReason`: the proxy requires credentials, or rejects those that were sent.
    public static let proxyWantsCredentials: Set<Int> = [
        Int(CURLPX_NO_AUTH.rawValue), Int(CURLPX_USER_REJECTED.rawValue),
    ]
    /// Value of `proxyReason`: the proxy forbids the destination.
    public static let proxyForbids = Int(CURLPX_REPLY_NOT_ALLOWED.rawValue)
}

/// Times of a transfer in microseconds after its start; 0 for what did not happen.
public struct TransferTimings: Sendable, Equatable {
    /// The end of name resolution.
    public var nameLookup: Int64 = 0
    /// The end of the TCP handshake.
    public var connect: Int64 = 0
    /// The end of the TLS handshake.
    public var appConnect: Int64 = 0
    /// Just before the first byte of the request.
    public var preTransfer: Int64 = 0
    /// The first byte of the response.
    public var startTransfer: Int64 = 0
    /// The end of the transfer.
    public var total: Int64 = 0
}

/// Measurements of a transfer.
public struct TransferInfo: Sendable, Equatable {
    /// Status code of the last status line; 0 if there was no response.
    public var status = 0
    /// `true` if the head with this status was received completely, with its empty line.
    public var hasWholeHead = false
    /// `1.0`, `1.1`, `2` or `3`; empty if there was no response.
    public var httpVersion = ""
    /// Times of the transfer.
    public var timings = TransferTimings()
    /// When the TCP connection was established and its TLS handshake, or the request, began, in monotonic
    /// nanoseconds; 0 if not seen. libcurl 7.88 has no times of a connection whose handshake failed.
    public var connectedAt: Int64 = 0
    /// Numeric address of the server, or of the proxy if there is one; empty without a connection.
    public var remoteAddress = ""
    /// Port of the server or proxy.
    public var remotePort = 0
    /// Numeric address of this end; empty without a connection.
    public var localAddress = ""
    /// Port of this end.
    public var localPort = 0
    /// Version as named by OpenSSL, such as `TLSv1.3`; empty without TLS.
    public var tlsProtocolVersion = ""
    /// Cipher suite as named by OpenSSL, such as `TLS_AES_256_GCM_SHA384`; empty without TLS.
    public var tlsCipherSuite = ""
    /// Number of connections opened; 0 if a kept connection was used.
    public var newConnections = 0
    /// Bytes of the response body (CURLINFO_SIZE_DOWNLOAD_T).
    public var bodyBytesReceived: Int64 = 0
    /// Bytes of the request body that were sent (CURLINFO_SIZE_UPLOAD_T).
    public var bodyBytesSent: Int64 = 0
    /// Bytes of all response heads.
    public var headerBytesReceived: Int64 = 0
    /// Bytes of all requests without their bodies.
    public var headerBytesSent: Int64 = 0

    /// Creates measurements of a transfer that has not begun.
    public init() {}
}

/// Outcome of a transfer.
public struct TransferOutcome: Sendable {
    /// `nil` if libcurl reports no error. The caller has to check the status.
    public var error: CurlError?
    /// Measurements of the transfer.
    public let info: TransferInfo
    /// Address that the delegate refused, if the transfer failed because of that; else `nil`.
    public let blockedAddress: SocketAddress?
    /// Bytes that the server had sent and libcurl had not read when a connection was closed while a body was
    /// being sent. At most 16 KiB, as on the wire or as decrypted by TLS.
    public var unread: [UInt8] = []
    /// `true` if a TLS connection ended without close_notify. Set only after `Transfer.requireCloseNotify()`.
    public var lacksCloseNotify = false
}
