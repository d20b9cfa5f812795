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

    package init(_ answer: HostAnswer) {
        switch answer.status {
        case 429, 503: self = .throttled(status: answer.status, retryAfter: answer.retryAfter)
        case 408, 502, 504: self = .lost
        default: self = .answered
        }
    }

    /// About `result.host`.
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
            self = Self.failure(error, result.answer)
        case .asked:
            self = .answered
        case .cancelled, .suspended, .released, .putOff:
            self = .none
        }
    }

    private static func failure(_ error: TransferError, _ answer: HostAnswer?) -> HostSignal {
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

/// What a node has seen of a host since it last told the others.
package struct HostReport: Sendable, Equatable {
    package var answered = 0
    /// Of the attempts that ended, both directions together.
    package var bytes: Int64 = 0
    /// Durations of the answered ones, together.
    package var seconds = 0.0
    package var throttled = 0
    package var throttleStatus: Int?
    /// How long the host wants to be left alone, in seconds: the longest of all.
    package var retryAfter: Double?
    /// It said 429 and not for how long.
    package var asksForPause = false
    package var lost = 0
    /// Since the last answer.
    package var silent = 0
    package var unreachable = 0
    package var unreachableCode: TransferError.Code?
    /// Connections that were made, and how long that took together.
    package var connections = 0
    package var connectSeconds = 0.0

    package init() {}

    package var isEmpty: Bool { self == HostReport() }

    /// Whether anything was refused, lost, silent or not reached.
    package var isTrouble: Bool { throttled + lost + silent + unreachable > 0 }

    package mutating func add(_ signal: HostSignal) {
        switch signal {
        case .answered:
            answered += 1
            silent = 0
        case .throttled(let status, let seconds):
            throttled += 1
            throttleStatus = status
            if let seconds { retryAfter = max(retryAfter ?? 0, seconds) }
            if status == 429, seconds == nil { asksForPause = true }
        case .lost: lost += 1
        case .silent: silent += 1
        case .unreachable(let code):
            unreachable += 1
            unreachableCode = code
        case .none: break
        }
    }

    package mutating func add(_ other: HostReport) {
        answered += other.answered
        bytes += other.bytes
        seconds += other.seconds
        throttled += other.throttled
        throttleStatus = other.throttleStatus ?? throttleStatus
        retryAfter = [retryAfter, other.retryAfter].compactMap(\.self).max()
        asksForPause = asksForPause || other.asksForPause
        lost += other.lost
        silent += other.silent
        unreachable += other.unreachable
        unreachableCode = other.unreachableCode ?? unreachableCode
        connections += other.connections
        connectSeconds += other.connectSeconds
    }
}
