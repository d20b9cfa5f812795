package import FerryCore

/// Signal of an attempt's end about the host that it talked to.
package enum HostSignal: Sendable, Equatable {
    /// The host responded. The status does not matter: a missing file or wrong credentials concern the
    /// request alone.
    case answered
    /// The host responded with 429 or 503 (RFC 6585 §4, RFC 9110 §15.6.4). `retryAfter`: seconds, or `nil` if
    /// there was no `Retry-After`.
    case throttled(status: Int, retryAfter: Double?)
    /// No connection: the name did not resolve, or the TCP connection or the TLS handshake failed.
    case unreachable(TransferError.Code)
    /// The connection was lost after it was established, a timeout passed, or a gateway reported a failure
    /// behind it (408, 502, 504).
    case lost
    /// A request was sent and has had no response for some seconds.
    case unanswered
    /// Nothing: the cause was another host, a proxy, the disk, or a stop of the attempt.
    case none

    /// Classifies a response by its status.
    package init(_ response: HostResponse) {
        switch response.status {
        case 429, 503: self = .throttled(status: response.status, retryAfter: response.retryAfter)
        case 408, 502, 504: self = .lost
        default: self = .answered
        }
    }

    /// Classifies the end of an attempt; the signal is about `result.scope`.
    package init(_ result: AttemptResult) {
        guard result.hostResponse != nil || !result.endedAtOtherHost else {
            self = .none
            return
        }
        switch result.outcome {
        case .succeeded:
            // A data job accepts every response, so its status decides.
            self = result.hostResponse.map { HostSignal($0) } ?? .answered
        case .failed(let error, _):
            self = result.attempt.spec.request.causes(error) ? .none : Self.signal(error, result.hostResponse)
        case .asked:
            self = .answered
        case .cancelled, .suspended, .released, .putOff:
            self = .none
        }
    }

    /// Classifies an error that the job's own settings did not cause.
    private static func signal(_ error: TransferError, _ response: HostResponse?) -> HostSignal {
        if isUnreachable(error) { return .unreachable(error.code) }
        if error.isRefusal { return .answered }
        switch error.code {
        case .unacceptableStatus: return response.map { HostSignal($0) } ?? .none
        case .connectionLost, .timedOut, .incompleteBody: return .lost
        case .certificateInvalid, .clientCertificateRequired, .authenticationRequired,
            .unacceptableContentType, .tooManyRedirects, .redirectInvalid, .responseInvalid,
            .responseTooLarge, .sizeMismatch, .digestMismatch:
            return .answered
        // The disk, the clock, the proxy, or Ferry itself.
        default: return .none
        }
    }

    /// The error codes for which `isUnreachable` can be `true`.
    package static let unreachableCodes: [TransferError.Code] = [
        .hostNotFound, .couldNotConnect, .tlsFailed, .connectionLost, .timedOut,
    ]

    /// Returns `true` if the error means that the host could not be reached and may be reachable later.
    /// Excluded: what certificates, TLS versions or a proxy's rules forbid, and refusals by the host itself.
    package static func isUnreachable(_ error: TransferError) -> Bool {
        switch error.code {
        case .hostNotFound, .couldNotConnect: return error.isRetryable
        case .tlsFailed: return error.isRetryable && error.phase == .securing && !error.isRefusal
        case .connectionLost, .timedOut:
            return error.isRetryable && [.resolving, .connecting, .securing].contains(error.phase)
        default: return false
        }
    }
}

extension JobSpec.RequestSpec {
    /// Shortest timeouts, in seconds, whose expiry tells something about the host: while connecting, and for
    /// the whole exchange.
    static let connectSecondsMin = 10.0
    static let exchangeSecondsMin = 60.0

    /// Returns `true` if the job's own settings may have caused the error, so that it tells nothing about
    /// other jobs: its proxy, its TLS settings, or a short timeout.
    func causes(_ error: TransferError) -> Bool {
        let isConnecting = [.resolving, .connecting, .securing].contains(error.phase)
        switch error.code {
        case .timedOut where isConnecting: return timeoutForRequest < Self.connectSecondsMin
        case .timedOut: return timeoutForRequest < Self.exchangeSecondsMin
        default: break
        }
        return error.phase == .securing && connection?.tls != nil || connection?.proxy != nil && isConnecting
    }
}
