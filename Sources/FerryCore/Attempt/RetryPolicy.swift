/// When a failed attempt is followed by another: a pure function of the rules, the error and the clock.
package struct RetryPolicy: Sendable {
    package enum Verdict: Sendable, Equatable {
        /// Try again at this instant.
        case retry(at: Timestamp)
        /// The error is final.
        case final(TransferError)
    }

    /// A server may ask for at most a day.
    package static let retryAfterMax: Double = 86_400

    /// Seconds after which a job that finds no room for its file, or no disk, looks again at the latest.
    package static let storagePauseMax: Double = 60

    /// Whether an attempt that ended like this counts. A disk that is full or away is nobody's failure, and
    /// stays so for as long as it likes; but a job that is to be tried once is tried once. A node that was
    /// lost costs nobody anything, whether it has died or only lost touch with the database.
    package static func usesUpAttempt(_ error: TransferError, rules: JobSpec.RetryRules) -> Bool {
        guard error.isRetryable else { return true }
        switch error.code {
        case .nodeLost: return false
        case .storageFull, .storageUnavailable: return rules.attemptCountMax == 1
        default: return true
        }
    }

    /// The verdict on an attempt that uses up none; it was the job's `attempt`-th.
    package static func verdict(
        rules: JobSpec.RetryRules, uncounted error: TransferError, attempt: Int, now: Timestamp,
        expiry: Timestamp, jitter: Double, overdue: TransferError.Code
    ) -> Verdict {
        var rules = rules
        rules.attemptCountMax = .max
        rules.delayMax = min(rules.delayMax, storagePauseMax)
        return verdict(
            rules: rules, error: error, failedAttemptCount: attempt, retryAfter: nil, now: now,
            expiry: expiry, jitter: jitter, overdue: overdue)
    }

    /// `jitter`: from 0 to 1, drawn by the caller. The delay is spread over ±20 % (as Svix and River do), so
    /// that jobs that failed together do not return together. `Retry-After` is a lower bound, never
    /// shortened. `overdue`: what a job ends as that has no time left before `expiry`.
    package static func verdict(
        rules: JobSpec.RetryRules, error: TransferError, failedAttemptCount: Int, retryAfter: Double?,
        now: Timestamp,
        expiry: Timestamp, jitter: Double, overdue: TransferError.Code = .resourceTimeout
    ) -> Verdict {
        guard error.isRetryable, failedAttemptCount < rules.attemptCountMax else { return .final(error) }
        var delay = rules.delayInitial
        for _ in 1..<max(failedAttemptCount, 1) where delay < rules.delayMax { delay *= rules.multiplier }
        delay = min(delay, rules.delayMax) * (0.8 + 0.4 * jitter)
        if let retryAfter { delay = max(delay, min(retryAfter, retryAfterMax) * (1 + 0.1 * jitter)) }
        let next = now + delay
        guard next < expiry else {
            return .final(
                TransferError(
                    overdue,
                    "The \(overdue == .resourceTimeout ? "resource timeout" : "deadline") comes before the "
                        + "next attempt. The last one: \(error.message)",
                    phase: error.phase, isRetryable: false))
        }
        return .retry(at: next)
    }
}
