import FerryCore

/// Decides whether the request of a hop may be sent again, and with it whether the job may be tried again
/// (RFC 9110 §9.2.2). A pure value.
struct RequestRepetition: Sendable {
    /// Whether the job allows to repeat requests that are not idempotent.
    let allowsAll: Bool
    private let hasActed: Bool
    /// Whether this very request may be sent twice: it is idempotent, or the job allows it, or the server of
    /// a resumable upload or of a multipart upload tells what has arrived.
    let maySendTwice: Bool

    // Inlined: a hop that is a property of a class would be copied for the call.
    @inline(__always) init(_ spec: JobSpec, _ hop: Hop) {
        allowsAll = spec.allowsAnyRepetition
        hasActed = hop.hasActed
        maySendTwice =
            hop.upload?.maySendTwice ?? false || spec.isRepeatable(hop.method)
            || hop.store?.value.request != nil
    }

    /// Whether the requests of the attempt so far, this one included, may be sent again.
    var maySendAllTwice: Bool { !hasActed && maySendTwice }

    /// Whether the job may be tried again. `mayHaveReached`: whether a server may have got a byte of the
    /// current request.
    func mayTryAgain(mayHaveReached: Bool) -> Bool {
        allowsAll || !hasActed && (maySendTwice || !mayHaveReached)
    }

    /// The outcome that an attempt may report: one that lets the job be tried again only if that is allowed.
    /// `ResponseTable` has decided that for statuses.
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
