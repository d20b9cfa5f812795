import CCurl

/// Owns an easy handle, its error buffer and its header list. Used by one thread at a time.
final class EasyHandle {
    let raw: UnsafeMutableRawPointer
    private let errorText = UnsafeMutablePointer<CChar>.allocate(capacity: Int(CURL_ERROR_SIZE))
    private var headers: UnsafeMutablePointer<curl_slist>?

    init() throws(CurlError) {
        guard let raw = curl_easy_init() else { throw CurlError(CURLE_OUT_OF_MEMORY) }
        self.raw = raw
        prepare()
    }

    deinit {
        curl_easy_cleanup(raw)
        curl_slist_free_all(headers)
        errorText.deallocate()
    }

    /// Resets all options, so that the handle can be used for another transfer (curl_easy_reset(3)). The
    /// handle must not be in a multi handle.
    func reset() {
        curl_easy_reset(raw)
        curl_slist_free_all(headers)
        headers = nil
        prepare()
    }

    private func prepare() {
        errorText[0] = 0
        ccurl_set_pointer(raw, CURLOPT_ERRORBUFFER, errorText)
    }

    func set(_ option: CURLoption, _ value: Int) throws(CurlError) {
        try check(ccurl_set_long(raw, option, value))
    }

    func set(_ option: CURLoption, _ value: Bool) throws(CurlError) {
        try check(ccurl_set_long(raw, option, value ? 1 : 0))
    }

    /// Sets an option whose name ends in LARGE.
    func set(_ option: CURLoption, offset: Int64) throws(CurlError) {
        try check(ccurl_set_offset(raw, option, curl_off_t(offset)))
    }

    /// Sets a string, which libcurl copies; `nil` clears the option.
    func set(_ option: CURLoption, _ value: String?) throws(CurlError) {
        guard let value else { return try check(ccurl_set_string(raw, option, nil)) }
        // An implicit conversion to a C string would allocate a copy; `withCString` does not.
        try check(value.withCString { ccurl_set_string(raw, option, $0) })
    }

    func set(_ option: CURLoption, blob: [UInt8]) throws(CurlError) {
        try check(blob.withUnsafeBytes { ccurl_set_blob(raw, option, $0.baseAddress, $0.count) })
    }

    /// A header line: `Name: value`, `Name;` (empty value) or `Name:` (do not send this field).
    enum HeaderLine {
        case text(String)
        /// Bytes with a NUL at their end.
        case octets([CChar])
    }

    /// Replaces the header lines.
    func setHeaders(_ lines: [HeaderLine]) throws(CurlError) {
        var list: UnsafeMutablePointer<curl_slist>?
        for line in lines {
            let longer =
                switch line {
                case .text(let text): text.withCString { curl_slist_append(list, $0) }
                case .octets(let bytes): curl_slist_append(list, bytes)
                }
            guard let longer else {
                curl_slist_free_all(list)
                throw CurlError(CURLE_OUT_OF_MEMORY)
            }
            list = longer
        }
        try check(ccurl_set_pointer(raw, CURLOPT_HTTPHEADER, list))
        curl_slist_free_all(headers)
        headers = list
    }

    private func check(_ code: CURLcode) throws(CurlError) {
        guard code == CURLE_OK else { throw CurlError(code) }
    }

    func long(_ info: CURLINFO) -> Int {
        var value = 0
        ccurl_get_long(raw, info, &value)
        return value
    }

    func offset(_ info: CURLINFO) -> Int64 {
        var value: curl_off_t = 0
        ccurl_get_offset(raw, info, &value)
        return Int64(value)
    }

    func string(_ info: CURLINFO) -> String {
        var value: UnsafeMutablePointer<CChar>?
        ccurl_get_string(raw, info, &value)
        return value.map { String(cString: $0) } ?? ""
    }

    /// Returns the error with libcurl's most precise text, or `nil` for CURLE_OK. Call it before `reset()`.
    func error(_ code: CURLcode, _ context: EasyContext) -> CurlError? {
        guard code != CURLE_OK else { return nil }
        if context.hasUnaskedCoding { return .unrequestedCoding }
        var osError = Int32(truncatingIfNeeded: long(CURLINFO_OS_ERRNO))
        if osError == 0, code == CURLE_COULDNT_CONNECT { osError = context.socketError }
        let text = errorText[0] == 0 ? nil : String(cString: errorText)
        let isHeadAwaited = context.hasBegunRequest && !context.hasWholeHead
        var error =
            HeadBounds.isExceeded(code, text, isHeadAwaited: isHeadAwaited)
            ? CurlError(code: CurlError.tooLarge, text: HeadBounds.text(code, text), osError: osError)
            : CurlError(code, text: text, osError: osError)
        if isHeadAwaited { error.headFault = HeadFault(code, text) }
        error.proxyStatus = long(CURLINFO_HTTP_CONNECTCODE)
        if error.proxyStatus == 407 { error.proxySchemes = Set(options: long(CURLINFO_PROXYAUTH_AVAIL)) }
        error.proxyReason = long(CURLINFO_PROXY_ERROR)
        error.verifyResult = long(CURLINFO_SSL_VERIFYRESULT)
        return error
    }

    func info(_ context: EasyContext) -> TransferInfo {
        var info = TransferInfo()
        info.status = long(CURLINFO_RESPONSE_CODE)
        info.hasWholeHead = context.hasWholeHead
        info.httpVersion = Self.versionName(long(CURLINFO_HTTP_VERSION))
        info.timings = TransferTimings(
            nameLookup: offset(CURLINFO_NAMELOOKUP_TIME_T), connect: offset(CURLINFO_CONNECT_TIME_T),
            appConnect: offset(CURLINFO_APPCONNECT_TIME_T), preTransfer: offset(CURLINFO_PRETRANSFER_TIME_T),
            startTransfer: offset(CURLINFO_STARTTRANSFER_TIME_T), total: offset(CURLINFO_TOTAL_TIME_T))
        if !context.hasBegunRequest { (info.timings.preTransfer, info.timings.startTransfer) = (0, 0) }
        info.connectedAt = context.connectedAt
        info.remoteAddress = string(CURLINFO_PRIMARY_IP)
        info.remotePort = long(CURLINFO_PRIMARY_PORT)
        info.localAddress = string(CURLINFO_LOCAL_IP)
        info.localPort = long(CURLINFO_LOCAL_PORT)
        info.newConnections = long(CURLINFO_NUM_CONNECTS)
        info.bodyBytesReceived = offset(CURLINFO_SIZE_DOWNLOAD_T)
        info.bodyBytesSent = offset(CURLINFO_SIZE_UPLOAD_T)
        info.headerBytesReceived = Int64(long(CURLINFO_HEADER_SIZE))
        info.headerBytesSent = Int64(long(CURLINFO_REQUEST_SIZE))
        if let tls = context.tls {
            info.tlsProtocolVersion = String(cString: tls.protocolVersion)
            info.tlsCipherSuite = String(cString: tls.cipherSuite)
        }
        return info
    }

    /// Errors that occur after the TCP connection is established.
    private static let handshakeErrors: Set = [
        CurlError.sslConnectError, CurlError.sslCipher, CurlError.peerFailedVerification,
        CurlError.sslIssuerError, CurlError.pinnedKeyMismatch,
    ]

    private static func versionName(_ version: Int) -> String {
        switch version {
        case 1: "1.0"
        case 2: "1.1"
        case 3, 4, 5: "2"
        case 30, 31: "3"
        default: ""
        }
    }

    /// Returns the outcome of the transfer. `blockedAddress` is set only if the transfer failed because the
    /// delegate refused an address: libcurl may have used another one.
    func outcome(_ code: CURLcode, _ context: EasyContext) -> TransferOutcome {
        let mayBeBlocked = code == CURLE_COULDNT_CONNECT || code == CURLE_ABORTED_BY_CALLBACK
        var info = info(context)
        // A connection that fails at once never waits to read; it was established within this turn of the
        // loop.
        if info.connectedAt == 0, Self.handshakeErrors.contains(Int(code.rawValue)) {
            info.connectedAt = context.openedAt
        }
        return TransferOutcome(
            error: error(code, context), info: info, blockedAddress: mayBeBlocked ? context.blocked : nil,
            unread: code == CURLE_OK ? [] : context.unread, lacksCloseNotify: context.lacksCloseNotify)
    }
}
