import Curl
import FerryCore
import Logging

/// The sender's state and decisions. Lives on the loop's thread; touched nowhere else.
final class DeliveryDesk {
    typealias Outcome = Result<Exchange.Answer, Exchange.Failure>

    /// What the desk needs from outside. Completions and deferred actions come back on the loop's thread,
    /// later.
    struct Doors: Sendable {
        let queue: any DeliveryQueue
        let clock: any WallClock
        let gauge: MetricsGauge
        let logger: Logger
        let jitter: @Sendable () -> Double
        let post: @Sendable (Exchange, @escaping @Sendable (DeliveryDesk, Outcome) -> Void) -> Void
        let `defer`: @Sendable (@escaping @Sendable (DeliveryDesk) -> Void) -> Void
    }

    private let configuration: WebhookSender.Configuration
    private let doors: Doors
    private var backlog: DeliveryBacklog
    private var isClaiming = false
    /// Woken during a claim: what was added may not be in its answer.
    private var claimsAgain = false
    private var nextClaimAt: Timestamp
    private var finished: [DeliveryTry] = []
    private var stopped: (() -> Void)?

    /// Seconds between the end of a try and the end of its lease, for the report to be stored.
    private static let reportMargin = 10.0

    init(configuration: WebhookSender.Configuration, doors: Doors) {
        self.configuration = configuration
        self.doors = doors
        backlog = DeliveryBacklog(
            concurrency: configuration.concurrency, concurrencyPerOrigin: configuration.concurrencyPerOrigin)
        nextClaimAt = doors.clock.now()
    }

    // MARK: Claiming

    /// Asks the queue for as much as there is room for.
    func claim() {
        guard stopped == nil else { return }
        guard !isClaiming else {
            claimsAgain = true
            return
        }
        let limit = min(configuration.claimMax, configuration.waitingMax - backlog.waitingCount)
        guard limit > 0 else {
            claimsAgain = true
            return
        }
        isClaiming = true
        claimsAgain = false
        let claimedAt = doors.clock.now()
        doors.queue.claim(limit: limit, leaseSeconds: configuration.leaseSeconds) { [doors] due, next in
            doors.defer { $0.claimed(due, next: next, claimedAt: claimedAt, isMore: due.count == limit) }
        }
    }

    private func claimed(_ due: [Delivery], next: Timestamp?, claimedAt: Timestamp, isMore: Bool) {
        isClaiming = false
        guard stopped == nil else { return }
        let poll = doors.clock.now() + configuration.pollSeconds
        nextClaimAt = min(next ?? poll, poll)
        let tryTime = Double(configuration.totalTimeout) / 1_000 + Self.reportMargin
        let startBefore = claimedAt + max(0, configuration.leaseSeconds - tryTime)
        var returnedCount = 0
        for delivery in due {
            guard let url = try? WebURL.parse(delivery.url) else {
                conclude(
                    delivery, startedAt: claimedAt, duration: 0, answer: .failure(.requestInvalid), body: "")
                continue
            }
            if !backlog.add(.init(delivery: delivery, url: url, startBefore: startBefore)) {
                returnedCount += 1
            }
        }
        countReturned(returnedCount)
        startDue()
        if isMore || claimsAgain { claim() }
    }

    /// Once a second: asks again when the next delivery is due, and lets go of what a slow origin cannot
    /// take.
    func secondPassed() {
        guard stopped == nil else { return }
        countReturned(backlog.tick(horizon: 20))
        startDue()
        if claimsAgain || doors.clock.now() >= nextClaimAt { claim() }
    }

    /// Nobody reports on them: their lease gives them back.
    private func countReturned(_ count: Int) {
        let (waiting, inFlight) = (backlog.waitingCount, backlog.inFlightCount)
        doors.gauge.update { metrics in
            metrics.returnedCount += Int64(count)
            metrics.waitingCount = waiting
            metrics.inFlightCount = inFlight
        }
    }

    // MARK: Sending

    private func startDue() {
        let now = doors.clock.now()
        var lateCount = 0
        while stopped == nil, let item = backlog.next() {
            if item.startBefore < now {
                backlog.finished(origin: item.url.origin)
                lateCount += 1
            } else {
                start(item, now)
            }
        }
        countReturned(lateCount)
    }

    private func start(_ item: DeliveryBacklog.Item, _ now: Timestamp) {
        let delivery = item.delivery
        let origin = item.url.origin
        var secrets = configuration.secrets
        if let own = delivery.secret { secrets = WebhookSecret(own).map { [$0] } ?? [] }
        guard !secrets.isEmpty else {
            backlog.finished(origin: origin)
            conclude(delivery, startedAt: now, duration: 0, answer: .failure(.requestInvalid), body: "")
            return
        }
        let message = WebhookMessage(
            delivery, secrets: secrets, sentAt: now, userAgent: "Ferry/\(configuration.version)")
        var exchange = Exchange(url: item.url.string)
        exchange.method = "POST"
        exchange.headers = message.headers
        exchange.body = message.body
        exchange.byteLimit = 1_024
        exchange.deadline = configuration.totalTimeout
        exchange.connectTimeout = configuration.connectTimeout
        exchange.allowsAddress = { [policy = configuration.policy] address in
            let ip =
                address.isIPv6
                ? IPAddress(v6High: address.high, low: address.low)
                : IPAddress(v4: UInt32(truncatingIfNeeded: address.low))
            return policy.allows(ip, port: address.port)
        }
        doors.post(exchange) { $0.answered(delivery, origin: origin, startedAt: now, $1) }
    }

    private func answered(_ delivery: Delivery, origin: String, startedAt: Timestamp, _ outcome: Outcome) {
        backlog.finished(origin: origin)
        let now = doors.clock.now()
        let (answer, body, duration) = Self.read(outcome, now: now)
        conclude(
            delivery, startedAt: startedAt, duration: duration ?? max(0, now - startedAt), answer: answer,
            body: body)
        startDue()
        if claimsAgain, backlog.waitingCount <= configuration.waitingMax / 2 { claim() }
        if stopped != nil, backlog.inFlightCount == 0 { end() }
    }

    /// What libcurl says, in our words; `duration` in seconds. A status line is an answer even when its body
    /// does not end well.
    static func read(_ outcome: Outcome, now: Timestamp) -> (DeliveryAnswer, body: String, duration: Double?)
    {
        switch outcome {
        case .success(let answer):
            let retryAfter = answer.header("Retry-After").flatMap {
                DeliverySchedule.retryAfter($0, now: now)
            }
            return (
                .status(answer.status, retryAfter: retryAfter), WebhookMessage.excerpt(answer.body),
                Double(answer.info.timings.total) / 1_000_000
            )
        case .failure(.blocked): return (.failure(.blockedAddress), "", nil)
        case .failure(.failed(let error, let info)):
            let duration = Double(info.timings.total) / 1_000_000
            if (200..<300).contains(info.status) {
                return (.status(info.status, retryAfter: nil), "", duration)
            }
            return (.failure(DeliveryFailure(error)), "", duration)
        }
    }

    // MARK: Reporting

    private func conclude(
        _ delivery: Delivery, startedAt: Timestamp, duration: Double, answer: DeliveryAnswer, body: String
    ) {
        let verdict = DeliverySchedule.verdict(
            tryNumber: delivery.tryNumber, answer: answer, now: doors.clock.now(), jitter: doors.jitter())
        var status: Int?
        var error: String?
        switch answer {
        case .status(let code, _):
            status = code
            error = verdict == .accepted ? nil : "unacceptable_status"
        case .failure(let failure): error = failure.rawValue
        }
        if verdict == .givenUp {
            doors.logger.notice(
                "a webhook delivery was given up",
                metadata: [
                    "delivery": "\(delivery.id)", "job": "\(delivery.job?.description ?? "none")",
                    "try": "\(delivery.tryNumber)",
                    "error": "\(error ?? "")", "status": "\(status ?? 0)",
                ])
        }
        count(verdict, duration)
        finished.append(
            DeliveryTry(
                delivery: delivery.id, number: delivery.tryNumber, startedAt: startedAt, duration: duration,
                status: status, error: error, answer: body, verdict: verdict))
        // Answers of one turn of the loop come one after another; the report follows the last of them.
        if finished.count == 1 { doors.defer { $0.report() } }
    }

    private func count(_ verdict: DeliveryTry.Verdict, _ duration: Double) {
        let inFlight = backlog.inFlightCount
        doors.gauge.update { metrics in
            metrics.inFlightCount = inFlight
            metrics.add(duration: duration)
            switch verdict {
            case .accepted: metrics.deliveredCount += 1
            case .retry:
                metrics.failedTryCount += 1
                metrics.retryCount += 1
            case .givenUp:
                metrics.failedTryCount += 1
                metrics.givenUpCount += 1
            }
        }
    }

    private func report() {
        guard !finished.isEmpty else { return }
        doors.queue.record(finished)
        finished = []
    }

    // MARK: Ending

    /// Starts nothing more; `whenIdle` is called once everything on its way has been reported.
    func stop(whenIdle: @escaping () -> Void) {
        guard stopped == nil else { return }
        stopped = whenIdle
        backlog.removeWaiting()
        if backlog.inFlightCount == 0 { end() }
    }

    private func end() {
        report()
        stopped?()
        stopped = {}
    }
}

extension DeliveryFailure {
    init(_ error: CurlError) {
        self =
            switch error.code {
            case CurlError.operationTimedOut: .timedOut
            case CurlError.couldNotResolveHost: .hostNotFound
            case CurlError.couldNotConnect: .couldNotConnect
            case CurlError.gotNothing, CurlError.sendError, CurlError.receiveError, CurlError.partialFile,
                CurlError.http2Stream, CurlError.uploadFailed:
                .connectionLost
            case CurlError.peerFailedVerification, CurlError.sslIssuerError, CurlError.pinnedKeyMismatch:
                .certificateInvalid
            case CurlError.sslConnectError, CurlError.sslCertificateProblem, CurlError.sslCipher,
                CurlError.caCertificateBadFile:
                .tlsFailed
            // The URL's scheme has been checked: "unsupported protocol" is an answer that is not HTTP/1 or
            // later.
            case CurlError.weirdServerReply, CurlError.writeError, CurlError.badContentEncoding,
                CurlError.unsupportedProtocol:
                .responseInvalid
            case CurlError.malformedURL, CurlError.badFunctionArgument: .requestInvalid
            default: .internalError
            }
    }
}
