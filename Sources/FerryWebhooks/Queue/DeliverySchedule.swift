package import FerryCore

/// Result of one delivery attempt.
package enum DeliveryResponse: Sendable, Equatable {
    /// The receiver responded. `retryAfter`: seconds of `Retry-After`, or `nil` if there is none.
    case status(Int, retryAfter: Double?)
    /// There was no response.
    case failure(DeliveryFailure)
}

/// Reason for which a delivery attempt got no response. The raw values are stored and shown in the API: do
/// not change them.
package enum DeliveryFailure: String, Sendable, CaseIterable {
    case timedOut = "timed_out"
    case hostNotFound = "host_not_found"
    case couldNotConnect = "could_not_connect"
    case connectionLost = "connection_lost"
    case tlsFailed = "tls_failed"
    case certificateInvalid = "certificate_invalid"
    case responseInvalid = "response_invalid"
    case responseTooLarge = "response_too_large"
    case blockedAddress = "blocked_address"
    case requestInvalid = "request_invalid"
    case secretUnreadable = "secret_unreadable"
    case endpointGone = "endpoint_gone"
    case internalError = "internal_error"
}

/// Retry schedule of deliveries. Computed from the number of the attempt, its response and the clock only.
package enum DeliverySchedule {
    /// Seconds until the next attempt after the first, second, … one, for deliveries without a schedule of
    /// their own.
    package static let delays = WebhookEndpoint.standardRetryDelays
    /// Shortest delay in seconds after "429 Too Many Requests".
    package static let tooManyRequestsDelayMin = 60.0

    /// Returns whether the delivery is accepted, retried or given up. `jitter`: from 0 to 1, which spreads
    /// the delay by ±20 %. `Retry-After` is a lower bound of the delay.
    package static func verdict(
        tryNumber: Int32, response: DeliveryResponse, delays: [Double] = delays, now: Timestamp,
        jitter: Double
    ) -> DeliveryTry.Verdict {
        var delayMin = 0.0
        if case .status(let status, let retryAfter) = response {
            if (200..<300).contains(status) { return .accepted }
            // 410 Gone: the receiver wants no more deliveries.
            if status == 410 { return .givenUp }
            delayMin = min(max(retryAfter ?? 0, 0), RetryAfter.secondsMax)
            if status == 429 { delayMin = max(delayMin, tooManyRequestsDelayMin) }
        }
        // A delivery that cannot be sent now cannot be sent later either.
        if response == .failure(.requestInvalid) || response == .failure(.endpointGone) { return .givenUp }
        let index = Int(max(tryNumber, 1)) - 1
        guard index < delays.count else { return .givenUp }
        return .retry(at: now + max(delays[index] * (0.8 + 0.4 * jitter), delayMin))
    }
}
