/// Decides whether and when a failed attempt is followed by another: a pure function of the job's retry
/// rules, the error and the clock. The only home of this rule.
public struct RetryPolicy: Sendable {
    /// Consequence of a failed attempt.
    public enum Verdict: Sendable, Equatable {
        /// Another attempt at this time.
        case retry(at: Timestamp)
        /// None; the job fails with this error.
        case final(TransferError)
    }

    /// Longest delay before a job that waits for disk space or a disk tries again, in seconds.
    public static let storagePauseMax: Double = 60

    /// Returns `true` if an attempt that failed with `error` counts toward `retry.max_attempts`. A full or
    /// missing disk does not count, except for a job with a single attempt. A lost node does not count
    /// either, whether it died or only lost the database, nor does an attempt that has made progress
    /// (`TransferError.Cost`).
    public static func usesUpAttempt(_ error: TransferError, rules: JobSpec.RetryRules) -> Bool {
        guard error.isRetryable else { return true }
        guard error.cost == .attempt else { return false }
        switch error.code {
        case .nodeLost: return false
        case .storageFull, .storageUnavailable: return rules.attemptCountMax == 1
        default: return true
        }
    }

    /// Returns what follows an attempt that does not count. `attempt`: number of the job's attempt, which
    /// determines the delay, unless the server names one or the attempt has received many bytes.
    public static func verdict(
        rules: JobSpec.RetryRules, uncounted error: TransferError, attempt: Int, retryAfter: Double? = nil,
        now: Timestamp, expiry: Timestamp, jitter: Double, overdue: TransferError.Code
    ) -> Verdict {
        var rules = rules
        rules.attemptCountMax = .max
        if error.cost == .attempt { rules.delayMax = min(rules.delayMax, storagePauseMax) }
        return verdict(
            rules: rules, error: error,
            failedAttemptCount: error.cost == .reset || retryAfter != nil ? 1 : attempt,
            retryAfter: retryAfter, now: now, expiry: expiry, jitter: jitter, overdue: overdue)
    }

    /// Returns the delay after so many failures in a row, in seconds. `jitter`: random number from 0 to 1; it
    /// spreads the delay over ±20 %, so that jobs that failed together do not retry together.
    public static func delay(_ rules: JobSpec.RetryRules, after failureCount: Int, jitter: Double) -> Double {
        var delay = rules.delayInitial
        for _ in 1..<max(failureCount, 1) where delay < rules.delayMax { delay *= rules.multiplier }
        return min(delay, rules.delayMax) * (0.8 + 0.4 * jitter)
    }

    /// Returns what follows a failed attempt. `jitter`: random number from 0 to 1. `Retry-After` is a lower
    /// bound of the delay. `overdue`: error code if `expiry` comes before the next attempt.
    public static func verdict(
        rules: JobSpec.RetryRules, error: TransferError, failedAttemptCount: Int, retryAfter: Double?,
        now: Timestamp,
        expiry: Timestamp, jitter: Double, overdue: TransferError.Code = .resourceTimeout
    ) -> Verdict {
        guard error.isRetryable, failedAttemptCount < rules.attemptCountMax else { return .final(error) }
        var delay = delay(rules, after: failedAttemptCount, jitter: jitter)
        if let retryAfter { delay = max(delay, min(retryAfter, RetryAfter.secondsMax) * (1 + 0.1 * jitter)) }
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
