import Curl
import FerryCore

// Conversions of TLS settings, responses and libcurl errors.

extension TransferRequest.TLS {
    /// Creates the settings of a receiver. libcurl shares no connection between different settings.
    init(_ tls: WebhookTLS) {
        self.init()
        authorities = tls.authorities.text
        pins = tls.pins
    }
}

extension DeliveryBacklog.Outcome {
    init(_ response: DeliveryResponse, of delivery: Delivery, duration: Double) {
        switch response {
        case .status(410, _): self = delivery.endpoint == nil || delivery.isPing ? .refused : .gone
        case .status(200..<300, _): self = .accepted(duration: duration)
        case .status(429, let retryAfter), .status(503, let retryAfter):
            self = .failed(retryAfter: retryAfter)
        case .status(500..., _): self = .failed(retryAfter: nil)
        case .status, .failure(.requestInvalid), .failure(.internalError), .failure(.secretUnreadable),
            .failure(.endpointGone):
            self = .refused
        // Other jobs may have other TLS settings for the same receiver.
        case .failure(.certificateInvalid) where delivery.endpoint == nil && delivery.tls != nil:
            self = .refused
        case .failure: self = .failed(retryAfter: nil)
        }
    }
}

extension DeliveryFailure {
    init(_ error: CurlError) {
        self =
            switch error.code {
            case CurlError.operationTimedOut: .timedOut
            case CurlError.couldNotResolveHost: .hostNotFound
            case CurlError.couldNotConnect: .couldNotConnect
            case CurlError.gotNothing, CurlError.sendError, CurlError.receiveError, CurlError.partialFile,
                CurlError.http2Stream, CurlError.uploadFailed:
                .connectionLost
            case CurlError.peerFailedVerification, CurlError.sslIssuerError, CurlError.pinnedKeyMismatch:
                .certificateInvalid
            case CurlError.sslConnectError, CurlError.sslCertificateProblem, CurlError.sslCipher,
                CurlError.caCertificateBadFile:
                .tlsFailed
            // The scheme of the URL has been checked before: "unsupported protocol" is a response that is not
            // HTTP/1 or later.
            case CurlError.weirdServerReply, CurlError.writeError, CurlError.badContentEncoding,
                CurlError.unsupportedProtocol:
                .responseInvalid
            case CurlError.tooLarge: .responseTooLarge
            case CurlError.malformedURL, CurlError.badFunctionArgument: .requestInvalid
            default: .internalError
            }
    }
}

extension DeliveryDispatcher {
    /// Returns the response of a delivery attempt, an excerpt of its body, and its duration in seconds. A
    /// complete head counts as a response even if the body is incomplete, except for a question, whose answer
    /// is in the body.
    static func read(
        _ outcome: Outcome, of delivery: Delivery, now: Timestamp
    ) -> (DeliveryResponse, body: String, duration: Double?) {
        switch outcome {
        case .success(let reply):
            let retryAfter = RetryAfter.seconds(reply.values(of: "Retry-After"), now: now)
            return (
                .status(reply.status, retryAfter: retryAfter), textExcerpt(reply.body, byteCountMax: 1_024),
                Double(reply.info.timings.total) / 1_000_000
            )
        case .failure(.blocked): return (.failure(.blockedAddress), "", nil)
        case .failure(.failed(let error, let info)):
            let duration = Double(info.timings.total) / 1_000_000
            if (200..<300).contains(info.status), info.hasWholeHead, delivery.question == nil {
                return (.status(info.status, retryAfter: nil), "", duration)
            }
            return (.failure(DeliveryFailure(error)), "", duration)
        }
    }
}
