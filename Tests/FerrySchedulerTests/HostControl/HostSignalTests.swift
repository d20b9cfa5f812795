import FerryCore
import FerryScheduler
import Testing

@Suite("Host signals")
struct HostSignalTests {
    private static let other = "https://other.example:443"
    private static let job =
        IdentifierGenerator { Timestamp(microseconds: 1_790_000_000_000_000) }.make() as JobID

    private static func attempt(
        timeout: Double = 60, _ change: (inout JobSpec.RequestSpec) -> Void = { _ in }
    ) -> Attempt {
        let now = Timestamp(microseconds: 1_790_000_000_000_000)
        var spec = JobSpec()
        spec.request = .init(url: "https://own.example/", method: "GET")
        spec.request.timeoutForRequest = timeout
        spec.schedule.timeoutForResource = 600
        change(&spec.request)
        return Attempt(
            job: job, number: 1, failedAttemptCount: 0, revision: 1,
            tenant: "tenant", createdAt: now, startedAt: now, spec: spec,
            storedSpec: StoredSpec(spec, json: []),
            secrets: JobSecrets(), payload: nil, origin: "https://own.example:443", scopePath: "/",
            traceparent: nil, retryOf: nil, isCancelRequested: false)
    }

    private static func result(
        _ outcome: AttemptResult.Outcome, _ hostResponse: HostResponse? = nil, elsewhere: Bool = false
    ) -> AttemptResult {
        AttemptResult(
            attempt: attempt(), outcome: outcome, response: nil, bytesReceived: 0, bytesSent: 0,
            endedAtOtherHost: elsewhere, hostResponse: hostResponse)
    }

    private static func failed(
        _ code: TransferError.Code, _ phase: TransferError.Phase, isRetryable: Bool = true
    ) -> AttemptResult.Outcome {
        .failed(TransferError(code, "It failed.", phase: phase, isRetryable: isRetryable), retryAfter: nil)
    }

    private static func own(_ status: Int, _ retryAfter: Double? = nil) -> HostResponse {
        HostResponse(job: job, scope: attempt().scope, status: status, retryAfter: retryAfter)
    }

    private static let success = AttemptResult.Outcome.succeeded(
        TransferResult(size: 1, sha256: "", verified: .length))

    @Test("a status leads to the same signal for failed and successful attempts")
    func statuses() {
        let statuses: [(Int, HostSignal)] = [
            (200, .answered), (301, .answered), (400, .answered), (401, .answered), (403, .answered),
            (404, .answered), (410, .answered), (416, .answered), (425, .answered), (500, .answered),
            (501, .answered), (408, .lost), (502, .lost), (504, .lost),
            (429, .throttled(status: 429, retryAfter: nil)), (503, .throttled(status: 503, retryAfter: nil)),
        ]
        for (status, signal) in statuses {
            let refused = Self.failed(.unacceptableStatus, .waiting, isRetryable: status >= 429)
            #expect(HostSignal(Self.result(refused, Self.own(status))) == signal, "\(status)")
            // A data job accepts every status.
            #expect(HostSignal(Self.result(Self.success, Self.own(status))) == signal, "\(status)")
        }
    }

    @Test("Retry-After counts whether or not the job can be retried", arguments: [true, false])
    func retryAfter(isRetryable: Bool) {
        let outcome = Self.failed(.unacceptableStatus, .waiting, isRetryable: isRetryable)
        let told = HostSignal(Self.result(outcome, Self.own(503, 60)))
        #expect(told == .throttled(status: 503, retryAfter: 60))
    }

    /// Failures, and the signals about the job's own host.
    private static let failures: [(TransferError.Code, TransferError.Phase, Bool, HostSignal)] = [
        (.hostNotFound, .resolving, true, .unreachable(.hostNotFound)),
        (.couldNotConnect, .connecting, true, .unreachable(.couldNotConnect)),
        (.tlsFailed, .securing, true, .unreachable(.tlsFailed)),
        (.connectionLost, .securing, true, .unreachable(.connectionLost)),
        (.timedOut, .connecting, true, .unreachable(.timedOut)),
        (.connectionLost, .receiving, true, .lost), (.timedOut, .waiting, true, .lost),
        (.incompleteBody, .receiving, true, .lost),
        // Permanent errors give no signal, or show that the host responds.
        (.hostNotFound, .resolving, false, .none), (.couldNotConnect, .connecting, false, .none),
        (.tlsFailed, .securing, false, .none), (.certificateInvalid, .securing, false, .answered),
        (.authenticationRequired, .waiting, false, .answered),
        (.unacceptableContentType, .waiting, false, .answered),
        (.tooManyRedirects, .waiting, false, .answered), (.digestMismatch, .receiving, true, .answered),
        // The response with this status was reported already.
        (.unacceptableStatus, .waiting, true, .none),
        (.blockedAddress, .connecting, false, .none), (.storageFull, .receiving, true, .none),
        (.storageFailed, .finishing, true, .none), (.resourceTimeout, .receiving, false, .none),
        (.internalError, .connecting, true, .none),
    ]

    @Test("a failure without a response leads to one signal, and to none if it happened at another host")
    func codes() {
        for (code, phase, isRetryable, signal) in Self.failures {
            let outcome = Self.failed(code, phase, isRetryable: isRetryable)
            #expect(HostSignal(Self.result(outcome)) == signal, "\(code) \(phase) \(isRetryable)")
            #expect(HostSignal(Self.result(outcome, elsewhere: true)) == .none, "\(code)")
        }
        #expect(HostSignal(Self.result(Self.success)) == .answered)
        for outcome in [AttemptResult.Outcome.cancelled, .suspended, .released] {
            #expect(HostSignal(Self.result(outcome, Self.own(429))) == .none)
        }
    }

    @Test("a TLS handshake that the host refuses counts as answered, whether or not it is retried")
    func refusal() {
        for isRetryable in [true, false] {
            let error = TransferError(
                .tlsFailed, "It refused.", phase: .securing, isRetryable: isRetryable, isRefusal: true)
            #expect(!HostSignal.isUnreachable(error))
            #expect(HostSignal(Self.result(.failed(error, retryAfter: nil))) == .answered)
            let elsewhere = Self.result(.failed(error, retryAfter: nil), elsewhere: true)
            #expect(HostSignal(elsewhere) == .none)
        }
    }

    @Test("a response after a redirect is about the host that sent it")
    func elsewhere() {
        let scope = RequestScope(tenant: "tenant", origin: Self.other, path: "/")
        let answer = HostResponse(job: Self.job, scope: scope, status: 429, retryAfter: 30)
        let result = Self.result(Self.failed(.unacceptableStatus, .waiting), answer, elsewhere: true)
        #expect(result.scope == scope)
        #expect(HostSignal(result) == .throttled(status: 429, retryAfter: 30))
        #expect(Self.result(Self.success).scope == Self.attempt().scope)
    }

    @Test("a failure that the job's own settings may have caused gives no signal")
    func ownCauses() throws {
        func signal(
            _ code: TransferError.Code, _ phase: TransferError.Phase, timeout: Double = 60,
            _ change: (inout JobSpec.RequestSpec) -> Void = { _ in }
        ) -> HostSignal {
            HostSignal(
                AttemptResult(
                    attempt: Self.attempt(timeout: timeout, change), outcome: Self.failed(code, phase),
                    response: nil, bytesReceived: 0, bytesSent: 0))
        }
        #expect(signal(.timedOut, .connecting, timeout: 2) == .none)
        #expect(signal(.timedOut, .connecting, timeout: 10) == .unreachable(.timedOut))
        #expect(signal(.timedOut, .waiting, timeout: 59) == .none)
        #expect(signal(.timedOut, .waiting, timeout: 60) == .lost)
        #expect(signal(.couldNotConnect, .connecting, timeout: 1) == .unreachable(.couldNotConnect))
        func ownTLS(_ request: inout JobSpec.RequestSpec) {
            var rules = ConnectionRules.standard
            rules.tls = .init()
            rules.tls?.versionMin = .v13
            request.connection = rules
        }
        #expect(signal(.tlsFailed, .securing, ownTLS) == .none)
        #expect(signal(.couldNotConnect, .connecting, ownTLS) == .unreachable(.couldNotConnect))
        #expect(signal(.tlsFailed, .securing) == .unreachable(.tlsFailed))
    }
}
