import CCurl

/// Why libcurl gave up: its code, its words, and the operating system's errno when there was one.
package struct CurlError: Error, Sendable, Equatable, CustomStringConvertible {
    /// A CURLcode (libcurl-errors(3)); never 0.
    package let code: Int
    /// libcurl's sentence about this failure. May name addresses and hosts; never a header or a body.
    package let text: String
    /// `CURLINFO_OS_ERRNO`, or 0.
    package let osError: Int32
    /// What a proxy answered to CONNECT; 0 when none did.
    package var proxyStatus = 0
    /// What a proxy that answered 407 can be authenticated with.
    package var proxySchemes: Set<TransferRequest.Credentials.Scheme> = []
    /// Why a SOCKS proxy failed (CURLproxycode in curl.h); 0 otherwise.
    package var proxyReason = 0
    /// Why a certificate was not accepted (X509_V_ERR_…, openssl-verification-options(1)); 0 otherwise.
    package var verifyResult = 0

    package init(code: Int, text: String, osError: Int32 = 0) {
        self.code = code
        self.text = text
        self.osError = osError
    }

    init(_ code: CURLcode, text: String? = nil, osError: Int32 = 0) {
        self.init(
            code: Int(code.rawValue), text: text ?? String(cString: curl_easy_strerror(code)),
            osError: osError)
    }

    package var description: String { "curl \(code): \(text)" }

    /// As libcurl 8 with OpenSSL 3.2 says it.
    package static let withoutFarewell = CurlError(
        code: receiveError, text: "the connection ended without close_notify")

    package static let withoutWholeHead = CurlError(
        code: receiveError, text: "the connection ended within the head of the response")

    /// libcurl would undo it all the same.
    package static let unaskedCoding = CurlError(
        code: badContentEncoding, text: "the answer has a coding that was not asked for")

    package static let unsupportedProtocol = 1
    package static let malformedURL = 3
    package static let couldNotResolveProxy = 5
    package static let couldNotResolveHost = 6
    package static let couldNotConnect = 7
    package static let weirdServerReply = 8
    package static let partialFile = 18
    package static let writeError = 23
    package static let uploadFailed = 25
    package static let readError = 26
    package static let outOfMemory = 27
    package static let operationTimedOut = 28
    package static let sslConnectError = 35
    package static let abortedByCallback = 42
    package static let badFunctionArgument = 43
    package static let gotNothing = 52
    package static let sendError = 55
    package static let receiveError = 56
    package static let sslCertificateProblem = 58
    package static let sslCipher = 59
    package static let peerFailedVerification = 60
    package static let badContentEncoding = 61
    package static let sendFailedRewind = 65
    package static let caCertificateBadFile = 77
    package static let sslIssuerError = 83
    package static let pinnedKeyMismatch = 90
    package static let http2Stream = 92
    package static let proxyHandshake = 97
    /// A head, a line of it or a trailer is larger than libcurl takes: what `HeadBounds` reads from the codes
    /// and words of older versions. CURLE_TOO_LARGE (since 8.6.0).
    package static let tooLarge = 100

    /// Values of `proxyReason`: the proxy wants credentials, or others; or it forbids the destination.
    package static let proxyWantsCredentials: Set<Int> = [
        Int(CURLPX_NO_AUTH.rawValue), Int(CURLPX_USER_REJECTED.rawValue),
    ]
    package static let proxyForbids = Int(CURLPX_REPLY_NOT_ALLOWED.rawValue)
}

/// When the parts of a transfer happened, in microseconds after its start; 0 for what did not happen.
package struct TransferTimings: Sendable, Equatable {
    package var nameLookup: Int64 = 0
    package var connect: Int64 = 0
    /// The end of the TLS handshake.
    package var appConnect: Int64 = 0
    /// Just before the first byte of the request.
    package var preTransfer: Int64 = 0
    /// The first byte of the answer.
    package var startTransfer: Int64 = 0
    package var total: Int64 = 0
}

/// What libcurl measured about one transfer.
package struct TransferInfo: Sendable, Equatable {
    /// The last status line's code; 0 when no answer came.
    package var status = 0
    /// Whether the head that has this status came to its end, an empty line.
    package var hasWholeHead = false
    /// `1.0`, `1.1`, `2` or `3`; empty when no answer came.
    package var httpVersion = ""
    package var timings = TransferTimings()
    /// When the connection stood and its handshake, or the request, began: monotonic nanoseconds; 0: not
    /// seen. libcurl 7.88 tells nothing of a connection whose handshake has failed.
    package var connectedAt: Int64 = 0
    /// The numeric address of the other end (a proxy's, when there is one), and ours; empty without
    /// connection.
    package var remoteAddress = ""
    package var remotePort = 0
    package var localAddress = ""
    package var localPort = 0
    /// As OpenSSL names them: `TLSv1.3`, `TLS_AES_256_GCM_SHA384`; empty without TLS.
    package var tlsProtocolVersion = ""
    package var tlsCipherSuite = ""
    /// How many connections were opened; 0 means that a kept one was used again.
    package var newConnections = 0
    package var bodyBytesReceived: Int64 = 0
    package var bodyBytesSent: Int64 = 0
    package var headerBytesReceived: Int64 = 0
    package var headerBytesSent: Int64 = 0

    package init() {}
}

/// How a transfer ended.
package struct TransferOutcome: Sendable {
    /// nil when libcurl is content. The status is the caller's to judge.
    package var error: CurlError?
    package let info: TransferInfo
    /// The address that the delegate refused, when the transfer failed because of that, and not at another
    /// address.
    package let blockedAddress: SocketAddress?
    /// What had come and was not read when a connection that was being sent a body had to be closed, at most
    /// 16 KiB; as it is on the wire, or inside of TLS.
    package var unread: [UInt8] = []
    /// Whether the connection ended over TLS without the other end's farewell; `Transfer.awaitFarewell()`.
    package var lacksFarewell = false
}
