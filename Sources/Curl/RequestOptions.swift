import CCurl

extension EasyHandle {
    /// Sets all options of `request` on a new or reset handle. No other code sets options of a request.
    ///
    /// Throws `CurlError.badFunctionArgument` for a method or field that could contain a line break, and the
    /// errors of curl_easy_setopt(3).
    func configure(_ request: TransferRequest) throws(CurlError) {
        // A C string ends at NUL: libcurl would fetch another URL than the one that the egress policy has
        // checked.
        guard allBytes(of: request.url, { $0 != 0 }) else { throw CurlError(CURLE_URL_MALFORMAT) }
        try set(CURLOPT_URL, request.url)
        try setSafety(request)
        try setMethod(request)
        try setHeaders(try Self.headerLines(request))
        try setConnection(request)
        try setTrust(request.tls)
        if let credentials = request.credentials { try setCredentials(credentials) }
        // Unset by default, so that downloads are byte-exact.
        if let codings = request.acceptEncoding {
            try set(CURLOPT_ACCEPT_ENCODING, codings)
            try set(CURLOPT_HTTP_CONTENT_DECODING, 0)
        }
    }

    private func setSafety(_ request: TransferRequest) throws(CurlError) {
        // The process ignores SIGPIPE (`CurlRuntime`). libcurl must not use SIGALRM in a process with
        // threads.
        try set(CURLOPT_NOSIGNAL, true)
        // Without it, cancelling a transfer waits for getaddrinfo(3) and blocks the loop.
        try set(CURLOPT_QUICK_EXIT, true)
        try set(CURLOPT_PROTOCOLS_STR, "http,https")
        try set(CURLOPT_REDIR_PROTOCOLS_STR, "http,https")
        try set(CURLOPT_FOLLOWLOCATION, false)
        try set(CURLOPT_HTTP09_ALLOWED, false)
        try set(CURLOPT_DISALLOW_USERNAME_IN_URL, true)
        try setProxy(request.proxy)
    }

    private func setMethod(_ request: TransferRequest) throws(CurlError) {
        guard !request.method.isEmpty, request.method.utf8.allSatisfy(Self.isTokenByte) else {
            throw CurlError(CURLE_BAD_FUNCTION_ARGUMENT, text: "the method is not a token")
        }
        switch request.body {
        case .none where request.method == "HEAD":
            try set(CURLOPT_NOBODY, true)
        case .none where request.method == "GET":
            break
        case .none:
            try set(CURLOPT_CUSTOMREQUEST, request.method)
        case .known, .unknown:
            try set(CURLOPT_UPLOAD, true)
            try set(CURLOPT_CUSTOMREQUEST, request.method)
            try set(CURLOPT_UPLOAD_BUFFERSIZE, request.sendBufferSize)
            try set(CURLOPT_EXPECT_100_TIMEOUT_MS, 1_000)
            if case .known(let size) = request.body { try set(CURLOPT_INFILESIZE_LARGE, offset: size) }
        }
    }

    private func setConnection(_ request: TransferRequest) throws(CurlError) {
        try set(CURLOPT_CONNECTTIMEOUT_MS, request.connectTimeout)
        try set(CURLOPT_TIMEOUT_MS, request.totalTimeout)
        if request.idleTimeout > 0 {
            try set(CURLOPT_LOW_SPEED_LIMIT, 1)
            try set(CURLOPT_LOW_SPEED_TIME, request.idleTimeout)
        }
        try set(CURLOPT_BUFFERSIZE, request.receiveBufferSize)
        try set(CURLOPT_MAXAGE_CONN, request.maxIdleConnectionAge)
        try set(CURLOPT_MAXLIFETIME_CONN, request.maxConnectionAge)
        try set(CURLOPT_TCP_KEEPALIVE, true)
        try set(CURLOPT_TCP_KEEPIDLE, 30)
        try set(CURLOPT_TCP_KEEPINTVL, 15)
        let version =
            switch request.httpVersion {
            case .http1: CURL_HTTP_VERSION_1_1
            case .http2: CURL_HTTP_VERSION_2TLS
            case .http3: CURL_HTTP_VERSION_3
            }
        try set(CURLOPT_HTTP_VERSION, Int(version))
        if request.usesFreshConnection { try set(CURLOPT_FRESH_CONNECT, true) }
        if !request.keepsConnection { try set(CURLOPT_FORBID_REUSE, true) }
        if request.connectsOnly { try set(CURLOPT_CONNECT_ONLY, true) }
        if request.maxReceiveSpeed > 0 {
            try set(CURLOPT_MAX_RECV_SPEED_LARGE, offset: request.maxReceiveSpeed)
        }
        if request.maxSendSpeed > 0 { try set(CURLOPT_MAX_SEND_SPEED_LARGE, offset: request.maxSendSpeed) }
    }

    private func setTrust(_ tls: TransferRequest.TLS?) throws(CurlError) {
        try set(CURLOPT_SSL_VERIFYPEER, true)
        try set(CURLOPT_SSL_VERIFYHOST, 2)
        try setTLSVersions(tls)
        // Setting CAPATH disables libcurl's cache of parsed certificates, which costs 23 ms for each
        // connection.
        try set(CURLOPT_CAPATH, String?.none)
        if let authorities = tls?.authorities {
            try set(CURLOPT_CAINFO_BLOB, blob: Array(authorities.utf8))
        } else if case .success(let runtime) = CurlRuntime.loaded, let file = runtime.certificateFile {
            try set(CURLOPT_CAINFO, file)
        }
        guard let tls else { return }
        if let certificate = tls.clientCertificate {
            try set(CURLOPT_SSLCERTTYPE, "PEM")
            try set(CURLOPT_SSLCERT_BLOB, blob: Array(certificate.utf8))
        }
        if let key = tls.clientKey {
            try set(CURLOPT_SSLKEYTYPE, "PEM")
            try set(CURLOPT_SSLKEY_BLOB, blob: Array(key.utf8))
        }
        if !tls.pins.isEmpty { try set(CURLOPT_PINNEDPUBLICKEY, tls.pins.joined(separator: ";")) }
    }

    private func setTLSVersions(_ tls: TransferRequest.TLS?) throws(CurlError) {
        let minimum = tls?.minimumVersion == "1.3" ? CURL_SSLVERSION_TLSv1_3 : CURL_SSLVERSION_TLSv1_2
        let maximum =
            switch tls?.maximumVersion {
            case "1.2": Int(CURL_SSLVERSION_MAX_TLSv1_2)
            case "1.3": Int(CURL_SSLVERSION_MAX_TLSv1_3)
            default: 0
            }
        try set(CURLOPT_SSLVERSION, Int(minimum) | maximum)
    }

    private func setCredentials(_ credentials: TransferRequest.Credentials) throws(CurlError) {
        try set(CURLOPT_HTTPAUTH, credentials.scheme.option)
        try set(CURLOPT_USERNAME, credentials.user)
        try set(CURLOPT_PASSWORD, credentials.password)
    }

    private func setProxy(_ proxy: TransferRequest.Proxy?) throws(CurlError) {
        // An empty string and not NULL: with NULL, libcurl reads `http_proxy` and others from the
        // environment.
        guard let proxy else { return try set(CURLOPT_PROXY, "") }
        try set(CURLOPT_PROXY, proxy.url)
        // Likewise for `no_proxy`.
        try set(CURLOPT_NOPROXY, "")
        // The proxy's response to CONNECT is not the server's response.
        try set(CURLOPT_SUPPRESS_CONNECT_HEADERS, true)
        if let credentials = proxy.credentials {
            try set(CURLOPT_PROXYAUTH, credentials.scheme.option)
            try set(CURLOPT_SOCKS5_AUTH, CCURL_AUTH_BASIC)
            try set(CURLOPT_PROXYUSERNAME, credentials.user)
            try set(CURLOPT_PROXYPASSWORD, credentials.password)
        }
        try set(CURLOPT_PROXY_SSLVERSION, Int(CURL_SSLVERSION_TLSv1_2))
        try set(CURLOPT_PROXY_CAPATH, String?.none)
        if let authorities = proxy.authorities {
            try set(CURLOPT_PROXY_CAINFO_BLOB, blob: Array(authorities.utf8))
        } else if case .success(let runtime) = CurlRuntime.loaded, let file = runtime.certificateFile {
            try set(CURLOPT_PROXY_CAINFO, file)
        }
    }

    private static func headerLines(_ request: TransferRequest) throws(CurlError) -> [EasyHandle.HeaderLine] {
        var lines: [EasyHandle.HeaderLine] = []
        lines.reserveCapacity(request.headers.count + 1)
        var namesExpect = false
        for header in request.headers {
            guard !header.name.isEmpty, allBytes(of: header.name, isTokenByte),
                allBytes(of: header.value, { $0 >= 0x20 && $0 != 0x7F || $0 == 0x09 })
            else {
                throw CurlError(
                    CURLE_BAD_FUNCTION_ARGUMENT, text: "a header field contains an invalid character")
            }
            // "Name:" removes the field in libcurl; "Name;" sends it with an empty value.
            let isBlank = allBytes(of: header.value) { $0 == 0x20 || $0 == 0x09 }
            var text = ""
            text.reserveCapacity(header.name.utf8.count + header.value.utf8.count + 2)
            text += header.name
            text += isBlank ? ";" : ": "
            if !isBlank { text += header.value }
            lines.append(try header.hasOctets ? .octets(octets(text)) : .text(text))
            namesExpect = namesExpect || header.name.utf8.count == 6 && header.name.lowercased() == "expect"
        }
        // Waiting for "100 Continue" costs a round trip, and one second if the server does not support it.
        var expects = request.expectsContinue
        if case .known(let size) = request.body, size < 1 << 20 { expects = false }
        if request.body != .none, !expects, !namesExpect { lines.append(.text("Expect:")) }
        return lines
    }

    /// Returns the octets that the characters are, and a NUL.
    private static func octets(_ text: String) throws(CurlError) -> [CChar] {
        var octets: [CChar] = []
        for scalar in text.unicodeScalars {
            guard let octet = UInt8(exactly: scalar.value) else {
                throw CurlError(
                    CURLE_BAD_FUNCTION_ARGUMENT, text: "a header field contains more than octets")
            }
            octets.append(CChar(bitPattern: octet))
        }
        return octets + [0]
    }

    /// Returns `true` for `tchar` (RFC 9110 §5.6.2).
    private static func isTokenByte(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "a")...UInt8(ascii: "z"):
            true
        default:
            "!#$%&'*+-.^_`|~".utf8.contains(byte)
        }
    }
}

extension TransferRequest.Credentials.Scheme {
    /// The bit of CURLOPT_HTTPAUTH.
    fileprivate var option: Int {
        switch self {
        case .basic: CCURL_AUTH_BASIC
        case .digest: CCURL_AUTH_DIGEST
        case .ntlm: CCURL_AUTH_NTLM
        }
    }
}

extension Set<TransferRequest.Credentials.Scheme> {
    /// Creates the set from the bits of CURLOPT_HTTPAUTH.
    init(options: Int) {
        self = Set([.basic, .digest, .ntlm].filter { options & $0.option != 0 })
    }
}

/// Returns `true` if the condition holds for each byte of a text. Reads the memory of the text, which costs a
/// fifth of an index for each byte.
private func allBytes(of text: String, _ isAllowed: (UInt8) -> Bool) -> Bool {
    text.utf8.withContiguousStorageIfAvailable { $0.allSatisfy(isAllowed) } ?? text.utf8.allSatisfy(isAllowed)
}
