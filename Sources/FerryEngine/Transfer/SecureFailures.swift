import Curl
import FerryCore

func atProxy(_ code: TransferError.Code, _ message: String, retry: Bool) -> TransferError {
    TransferError(code, message, phase: .connecting, isRetryable: retry)
}

private func securing(
    _ code: TransferError.Code, _ message: String, retry: Bool, isRefusal: Bool = false
) -> TransferError {
    TransferError(code, message, phase: .securing, isRetryable: retry, isRefusal: isRefusal)
}

/// Returns the error of the connection to the proxy; `nil` if the failure was elsewhere.
func proxyFailure(_ error: CurlError, _ context: TransportContext) -> TransferError? {
    guard let proxy = context.proxy else { return nil }
    if let refusal = connectRefusal(error.proxyStatus) { return refusal }
    switch error.code {
    case CurlError.couldNotResolveProxy:
        return atProxy(.hostNotFound, "The proxy's name could not be resolved.", retry: true)
    case CurlError.couldNotConnect:
        return atProxy(.couldNotConnect, "The proxy could not be connected.", retry: true)
    case CurlError.proxyHandshake:
        return socksFailure(error.proxyReason)
    case CurlError.peerFailedVerification, CurlError.sslIssuerError, CurlError.sslConnectError:
        // Until the proxy has answered CONNECT, the only TLS handshake is that with the proxy.
        guard proxy == .https, !(context.isSecure && error.proxyStatus / 100 == 2) else { return nil }
        return error.code == CurlError.sslConnectError
            ? atProxy(.tlsFailed, "The TLS handshake with the proxy failed.", retry: true)
            : atProxy(.certificateInvalid, "The proxy's certificate is not valid.", retry: false)
    default:
        return nil
    }
}

/// Returns the error that a proxy's response to CONNECT means; `nil` if there was none or it was successful.
private func connectRefusal(_ status: Int) -> TransferError? {
    switch status {
    case 0, 200..<300:
        return nil
    case 401, 407:
        // Some proxies answer wrong credentials with 401.
        return atProxy(
            .authenticationRequired, "The proxy asks for other credentials (status \(status)).",
            retry: false)
    default:
        // The proxy tried to connect and failed (502 to 504), or is overloaded.
        return atProxy(
            .couldNotConnect, "The proxy did not connect the server (status \(status)).",
            retry: status >= 500 || status == 429)
    }
}

private func socksFailure(_ reason: Int) -> TransferError {
    if CurlError.proxyWantsCredentials.contains(reason) {
        return atProxy(.authenticationRequired, "The proxy asks for other credentials.", retry: false)
    }
    return reason == CurlError.proxyForbids
        ? atProxy(.couldNotConnect, "The proxy does not allow a connection to the server.", retry: false)
        : atProxy(.couldNotConnect, "The proxy did not connect the server.", retry: true)
}

/// Returns the error that a failed handshake or certificate means; `nil` for other failures.
func tlsFailure(_ error: CurlError, _ phase: TransferError.Phase) -> TransferError? {
    switch error.code {
    case CurlError.pinnedKeyMismatch:
        return securing(.certificateInvalid, "The server's key is none of the pinned ones.", retry: false)
    case CurlError.peerFailedVerification, CurlError.sslIssuerError:
        return securing(.certificateInvalid, verificationMessage(error.verifyResult), retry: false)
    case CurlError.sslCertificateProblem, CurlError.caCertificateBadFile:
        return securing(.tlsFailed, "The TLS credentials could not be used.", retry: false)
    case CurlError.sslConnectError, CurlError.sslCipher:
        if let refusal = clientCertificateRefusal(error.text) { return refusal }
        let says = { (words: [String]) in words.contains { error.text.contains($0) } }
        if says(["protocol version", "unsupported protocol", "no protocols available"]) {
            return securing(.tlsFailed, "The server has no TLS version that the job allows.", retry: false)
        }
        if says(["wrong version number", "packet length too long"]) {
            return securing(
                .tlsFailed, "The server does not speak TLS on this port.", retry: true, isRefusal: true)
        }
        // One of OpenSSL's texts for the alerts of RFC 8446 §6.2 lacks the word "alert".
        let isAlert = says(["alert", "unrecognized name"])
        return isAlert
            ? securing(.tlsFailed, "The server refused the TLS handshake.", retry: true, isRefusal: true)
            : securing(.tlsFailed, "The TLS handshake failed.", retry: true)
    case CurlError.receiveError, CurlError.sendError:
        // With TLS 1.3 the server judges the client certificate after the client has finished its handshake
        // (RFC 8446 §4.4.2.4).
        return phase == .receiving ? nil : clientCertificateRefusal(error.text)
    default: return nil
    }
}

/// X509_V_ERR_… of x509_vfy.h.
private func verificationMessage(_ result: Int) -> String {
    switch result {
    // libcurl compares the name after OpenSSL has accepted the certificate: OpenSSL reports no error or
    // "unspecified".
    case 0, 1, 62: "The server's certificate is for another host."
    case 9: "The server's certificate is not valid yet."
    case 10: "The server's certificate has expired."
    case 2, 18, 19, 20, 21, 24: "The server's certificate comes from an authority that is not trusted."
    default: "The server's certificate is not valid."
    }
}

/// Returns the error of an alert about the client certificate (RFC 8446 §6.2), recognized by OpenSSL's texts.
private func clientCertificateRefusal(_ text: String) -> TransferError? {
    if text.contains("alert certificate required") {
        return securing(
            .clientCertificateRequired, "The server asks for a client certificate.", retry: false)
    }
    let alerts = [
        "alert bad certificate", "alert unsupported certificate", "alert certificate revoked",
        "alert certificate expired", "alert certificate unknown", "alert unknown ca", "alert access denied",
    ]
    guard alerts.contains(where: { text.contains($0) }) else { return nil }
    return securing(
        .clientCertificateRequired, "The server does not accept the client certificate.", retry: false)
}
