package import FerryCore

/// What an attempt's end says about the host that it talked to.
package enum HostSignal: Sendable, Equatable {
    /// It answers, whatever it says: a missing file or wrong credentials are the request's own trouble.
    case answered
    /// It asks to be left alone (RFC 9110 §15.6.4, RFC 6585 §4). `retryAfter`: seconds, if it said so.
    case throttled(status: Int, retryAfter: Double?)
    /// Nobody is reached there: no name, no connection, or no TLS handshake.
    case unreachable(TransferError.Code)
    /// A connection that stood was lost, nothing came in time, or a gateway found nobody behind it.
    case lost
    /// A request was sent, and there has been no answer for seconds.
    case silent
    /// Nothing: another host, a proxy, the disk, or whoever stopped the attempt.
    case none

    package init(_ answer: HostResponse) {
        switch answer.status {
        case 429, 503: self = .throttled(status: answer.status, retryAfter: answer.retryAfter)
        case 408, 502, 504: self = .lost
        default: self = .answered
        }
    }

    /// About `result.scope`.
    package init(_ result: AttemptResult) {
        guard result.answer != nil || !result.endedElsewhere else {
            self = .none
            return
        }
        switch result.outcome {
        case .succeeded:
            // A data job takes any answer.
            self = result.answer.map { HostSignal($0) } ?? .answered
        case .failed(let error, _):
            self = result.attempt.spec.request.causes(error) ? .none : Self.failure(error, result.answer)
        case .asked:
            self = .answered
        case .cancelled, .suspended, .released, .putOff:
            self = .none
        }
    }

    private static func failure(_ error: TransferError, _ answer: HostResponse?) -> HostSignal {
        if isUnreachable(error) { return .unreachable(error.code) }
        if error.isAnswer { return .answered }
        switch error.code {
        case .unacceptableStatus: return answer.map { HostSignal($0) } ?? .none
        case .connectionLost, .timedOut, .incompleteBody: return .lost
        case .certificateInvalid, .clientCertificateRequired, .authenticationRequired,
            .unacceptableContentType, .tooManyRedirects, .redirectInvalid, .responseInvalid,
            .responseTooLarge, .sizeMismatch, .digestMismatch:
            return .answered
        // The disk, the clock, the proxy, or Ferry itself.
        default: return .none
        }
    }

    /// The codes of errors of which `isUnreachable` may be true.
    package static let unreachableCodes: [TransferError.Code] = [
        .hostNotFound, .couldNotConnect, .tlsFailed, .connectionLost, .timedOut,
    ]

    /// Whether an error means that the host could not be reached, and that it may be reached later: not what
    /// certificates, versions of TLS or a proxy's rules forbid, nor what it has refused itself.
    package static func isUnreachable(_ error: TransferError) -> Bool {
        switch error.code {
        case .hostNotFound, .couldNotConnect: return error.isRetryable
        case .tlsFailed: return error.isRetryable && error.phase == .securing && !error.isAnswer
        case .connectionLost, .timedOut:
            return error.isRetryable && [.resolving, .connecting, .securing].contains(error.phase)
        default: return false
        }
    }
}

extension JobSpec.RequestSpec {
    /// Seconds that connecting, and the whole exchange, may take before a timeout says something about the
    /// host.
    static let connectSecondsMin = 10.0
    static let exchangeSecondsMin = 60.0

    /// Whether an error may come from the job's own settings, so that it says nothing to other jobs: its
    /// proxy, its TLS settings, a timeout shorter than the default.
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
