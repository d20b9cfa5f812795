import FerryCore

/// Decides whether the request of a hop may be sent again, and with it whether the job may be tried again
/// (RFC 9110 §9.2.2). A pure value.
struct RequestRepetition: Sendable {
    private let allowsAll: Bool
    private let hasActed: Bool
    /// Whether this very request may be sent twice: it is idempotent, or the job allows it.
    let maySendTwice: Bool

    init(_ spec: JobSpec, _ hop: Hop) {
        allowsAll = spec.retry.repeatsNonIdempotent
        hasActed = hop.hasActed
        maySendTwice = spec.isRepeatable(hop.method)
    }

    /// Whether the requests of the attempt so far, this one included, may be sent again.
    var maySendAllTwice: Bool { !hasActed && maySendTwice }

    /// Whether the job may be tried again. `mayHaveReached`: whether a server may have got a byte of the
    /// current request.
    func mayTryAgain(mayHaveReached: Bool) -> Bool {
        allowsAll || !hasActed && (maySendTwice || !mayHaveReached)
    }

    /// Whether the job may be tried again after a response with that status. 425 and 429 say that the server
    /// did nothing (RFC 8470 §5.2, RFC 6585 §4); the others leave that open.
    func mayTryAgain(afterStatus status: Int) -> Bool {
        let isPassing = Self.passing.contains(status)
        return allowsAll && isPassing
            || !hasActed && ([425, 429].contains(status) || isPassing && maySendTwice)
    }

    /// Statuses of failures that may pass. 520 to 524 are what large proxies answer if their origin fails.
    private static let passing: Set<Int> = [408, 425, 429, 500, 502, 503, 504, 520, 521, 522, 523, 524]

    /// The outcome that an attempt may report: one that lets the job be tried again only if that is allowed.
    /// `ResponseJudge` has decided that for statuses.
    func permitted(
        _ outcome: AttemptResult.Outcome, mayHaveReached: Bool
    ) -> AttemptResult.Outcome {
        guard !mayTryAgain(mayHaveReached: mayHaveReached) else { return outcome }
        switch outcome {
        case .failed(let error, _) where error.isRetryable && error.code != .unacceptableStatus:
            return .failed(
                TransferError(error.code, error.message, phase: error.phase, isRetryable: false),
                retryAfter: nil)
        case .released, .suspended: return .failed(.outcomeUnknown, retryAfter: nil)
        default: return outcome
        }
    }
}
