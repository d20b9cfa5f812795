import FerryCore
import Testing

@Suite("Retry policy")
struct RetryPolicyTests {
    private let now = Timestamp(microseconds: 1_000_000_000)
    private let error = TransferError(.timedOut, "It took too long.", phase: .receiving, isRetryable: true)

    private func verdict(
        _ failed: Int, retryAfter: Double? = nil, jitter: Double = 0.5, deadline: Double = 1e6,
        error: TransferError? = nil
    ) -> RetryPolicy.Verdict {
        RetryPolicy.verdict(
            rules: JobSpec.RetryRules(), error: error ?? self.error, failedAttemptCount: failed,
            retryAfter: retryAfter,
            now: now,
            expiry: now + deadline, jitter: jitter)
    }

    @Test("the delay doubles up to its maximum", arguments: zip([1, 2, 3, 7], [1.0, 2, 4, 64]))
    func backoff(_ failed: Int, _ seconds: Double) {
        #expect(verdict(failed) == .retry(at: now + seconds))
    }

    @Test("jitter spreads the delay over ±20 %")
    func jitter() {
        #expect(verdict(1, jitter: 0) == .retry(at: now + 0.8))
        #expect(verdict(1, jitter: 1) == .retry(at: now + 1.2))
    }

    @Test("Retry-After is never shortened and is limited to a day")
    func retryAfter() {
        #expect(verdict(1, retryAfter: 30, jitter: 0) == .retry(at: now + 30))
        #expect(verdict(1, retryAfter: 1e9, jitter: 0) == .retry(at: now + 86_400))
    }

    @Test("the job ends after the last attempt, a final error, or the resource timeout")
    func end() {
        #expect(verdict(8) == .final(error))
        let final = TransferError(.unacceptableStatus, "404", phase: .waiting, isRetryable: false)
        #expect(verdict(1, error: final) == .final(final))
        guard case .final(let timeout) = verdict(1, deadline: 0.5) else {
            Issue.record("the job would go on after its timeout")
            return
        }
        #expect(timeout.code == .resourceTimeout)
    }

    @Test("an attempt with progress, and a server that is not ready, use no attempt")
    func cost() {
        let rules = JobSpec.RetryRules()
        func verdict(_ cost: TransferError.Cost, _ attempt: Int, retryAfter: Double? = nil)
            -> RetryPolicy.Verdict
        {
            var error = error
            error.cost = cost
            #expect(!RetryPolicy.usesUpAttempt(error, rules: rules))
            return RetryPolicy.verdict(
                rules: rules, uncounted: error, attempt: attempt, retryAfter: retryAfter, now: now,
                expiry: now + 1e6, jitter: 0.5, overdue: .resourceTimeout)
        }
        // Many new bytes begin the delays anew; few do not.
        #expect(verdict(.reset, 100) == .retry(at: now + 1))
        #expect(verdict(.none, 3) == .retry(at: now + 4) && verdict(.none, 100) == .retry(at: now + 300))
        // What the server says counts instead of the delay.
        #expect(verdict(.none, 100, retryAfter: 20) == .retry(at: now + 21))
    }

    @Test("a full or missing disk uses no attempt and is retried each minute until the job's timeout")
    func storageFull() {
        let full = TransferError(.storageFull, "Full.", phase: .receiving, isRetryable: true)
        let verdict = { [now] (attempt: Int, expiry: Double) in
            RetryPolicy.verdict(
                rules: JobSpec.RetryRules(), uncounted: full, attempt: attempt, now: now,
                expiry: now + expiry,
                jitter: 0.5, overdue: .resourceTimeout)
        }
        #expect(verdict(2, 1e6) == .retry(at: now + 2))
        #expect(verdict(100_000, 1e6) == .retry(at: now + RetryPolicy.storagePauseMax))
        guard case .final(let timeout) = verdict(9, 1) else {
            Issue.record("the job would go on after its timeout")
            return
        }
        #expect(timeout.code == .resourceTimeout)
        var rules = JobSpec.RetryRules()
        #expect(!RetryPolicy.usesUpAttempt(full, rules: rules))
        #expect(RetryPolicy.usesUpAttempt(error, rules: rules))
        let away = TransferError(.storageUnavailable, "Read-only.", phase: .finishing, isRetryable: true)
        #expect(!RetryPolicy.usesUpAttempt(away, rules: rules))
        let hopeless = TransferError(.storageFull, "Too long.", phase: .receiving, isRetryable: false)
        #expect(RetryPolicy.usesUpAttempt(hopeless, rules: rules))
        let lost = TransferError(.nodeLost, "Away.", phase: .finishing, isRetryable: true)
        #expect(!RetryPolicy.usesUpAttempt(lost, rules: rules))
        rules.attemptCountMax = 1
        #expect(RetryPolicy.usesUpAttempt(full, rules: rules), "the job has a single attempt")
        #expect(!RetryPolicy.usesUpAttempt(lost, rules: rules), "like a lost node")
        let unrepeatable = TransferError(.nodeLost, "Away.", phase: .finishing, isRetryable: false)
        #expect(RetryPolicy.usesUpAttempt(unrepeatable, rules: rules))
    }
}
