import Curl
import FerryCore

func atProxy(_ code: TransferError.Code, _ message: String, retry: Bool) -> TransferError {
    TransferError(code, message, phase: .connecting, isRetryable: retry)
}

private func securing(
    _ code: TransferError.Code, _ message: String, retry: Bool, isAnswer: Bool = false
) -> TransferError {
    TransferError(code, message, phase: .securing, isRetryable: retry, isAnswer: isAnswer)
}

/// What went wrong between us and the proxy; nil when it was not there.
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
        // Until the proxy has answered CONNECT, the only handshake is the proxy's.
        guard proxy == .https, !(context.isSecure && error.proxyStatus / 100 == 2) else { return nil }
        return error.code == CurlError.sslConnectError
            ? atProxy(.tlsFailed, "The TLS handshake with the proxy failed.", retry: true)
            : atProxy(.certificateInvalid, "The proxy's certificate is not valid.", retry: false)
    default:
        return nil
    }
}

/// What a proxy's answer to CONNECT means; nil when it was none, or granted.
private func connectRefusal(_ status: Int) -> TransferError? {
    switch status {
    case 0, 200..<300:
        return nil
    case 401, 407:
        // Some proxies say 401 to wrong credentials.
        return atProxy(
            .authenticationRequired, "The proxy asks for other credentials (status \(status)).",
            retry: false)
    default:
        // The proxy tried and failed (502 to 504), or it has too much to do.
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

/// What a failed handshake or certificate means; nil for other failures.
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
                .tlsFailed, "The server does not speak TLS on this port.", retry: true, isAnswer: true)
        }
        // Of OpenSSL's texts for the alerts of RFC 8446 §6.2 one lacks the word.
        let isAlert = says(["alert", "unrecognized name"])
        return isAlert
            ? securing(.tlsFailed, "The server refused the TLS handshake.", retry: true, isAnswer: true)
            : securing(.tlsFailed, "The TLS handshake failed.", retry: true)
    case CurlError.receiveError, CurlError.sendError:
        // With TLS 1.3 the server's verdict comes after our side of the handshake (RFC 8446 §4.4.2.4).
        return phase == .receiving ? nil : clientCertificateRefusal(error.text)
    default: return nil
    }
}

/// X509_V_ERR_… of x509_vfy.h.
private func verificationMessage(_ result: Int) -> String {
    switch result {
    // The name is compared by libcurl, after OpenSSL was content: it says nothing, or "unspecified".
    case 0, 1, 62: "The server's certificate is for another host."
    case 9: "The server's certificate is not valid yet."
    case 10: "The server's certificate has expired."
    case 2, 18, 19, 20, 21, 24: "The server's certificate comes from an authority that is not trusted."
    default: "The server's certificate is not valid."
    }
}

/// The alerts of RFC 8446 §6.2 that are about our certificate, in OpenSSL's words.
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
