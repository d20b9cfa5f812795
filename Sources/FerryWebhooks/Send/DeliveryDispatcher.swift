import Curl
import FerryCore
import Logging

/// State and decisions of a sender. Used only on the loop's thread.
final class DeliveryDispatcher {
    typealias Outcome = Result<BufferedRequest.Response, BufferedRequest.Failure>

    /// Dependencies of a dispatcher. Completions and deferred actions are called later, on the loop's thread.
    struct Dependencies: Sendable {
        let store: any DeliveryStore
        let clock: any WallClock
        let gauge: MetricsGauge
        let logger: Logger
        let jitter: @Sendable () -> Double
        let post:
            @Sendable (BufferedRequest, @escaping @Sendable (DeliveryDispatcher, Outcome) -> Void) ->
                RunningBufferedRequest
        let `defer`: @Sendable (@escaping @Sendable (DeliveryDispatcher) -> Void) -> Void
    }

    private let configuration: WebhookSender.Configuration
    private let dependencies: Dependencies
    private let signers = SignerCache()
    private var backlog: DeliveryBacklog
    private var isClaiming = false
    /// `true` if a wake-up came during a claim, which may not have seen the new deliveries.
    private var claimsAgain = false
    /// `true` if a claim has left due deliveries of tenants that have too many waiting here.
    private var isHeldBack = false
    private var nextClaimAt: Timestamp
    /// Time of the first retry that was scheduled here. A claim that began earlier may not have seen it.
    private var nextRetryAt: Timestamp?
    private var finished: [DeliveryTry] = []
    private var running = RunningDeliveries()
    /// Number of the node's lease under which all deliveries here were claimed.
    private var lease: Int?
    private var stopped: (() -> Void)?
    private var isPublishing = false

    /// Seconds between the end of an attempt and the end of its lease, in which the result is stored.
    private static let reportMargin = 10.0

    init(configuration: WebhookSender.Configuration, dependencies: Dependencies) {
        self.configuration = configuration
        self.dependencies = dependencies
        backlog = DeliveryBacklog(
            concurrency: configuration.concurrency, waitingMax: configuration.waitingMax)
        nextClaimAt = dependencies.clock.now()
        publish()
    }

    // MARK: Claiming

    /// Claims as many deliveries as fit.
    func claim() {
        guard stopped == nil else { return }
        guard !isClaiming else {
            claimsAgain = true
            return
        }
        let free = configuration.waitingMax - backlog.waitingWeight
        guard free > 0, hasLease() else {
            claimsAgain = true
            return
        }
        // At most half of the free weight, because all deliveries of a claim may be of one tenant.
        let total = min(configuration.claimMax, max(1, free / 2))
        isClaiming = true
        claimsAgain = false
        isHeldBack = false
        let claimedAt = dependencies.clock.now()
        let demand = backlog.demand(total: total, now: claimedAt)
        dependencies.store.claim(demand, leaseSeconds: configuration.leaseSeconds) {
            [dependencies, lease] found in
            dependencies.defer { dispatcher in
                // If the lease has changed since the claim began, other nodes may have the deliveries.
                if !dispatcher.hasLease() || dispatcher.lease != lease { dispatcher.lease = nil }
                dispatcher.claimed(found, demand: demand, claimedAt: claimedAt)
            }
        }
    }

    private func claimed(_ found: ClaimedDeliveries, demand: DeliveryDemand, claimedAt: Timestamp) {
        isClaiming = false
        guard stopped == nil else { return }
        let now = dependencies.clock.now()
        let poll = now + configuration.pollSeconds
        let outdated = backlog.update(revisions: found.revisions)
        if !outdated.isEmpty {
            returnUnsent(outdated, now)
            // Reported first, since the next claim may return some of them to this sender.
            report()
            claimsAgain = true
        }
        nextClaimAt = min(found.next ?? poll, backlog.nextProbe(after: now) ?? poll, poll)
        if let at = nextRetryAt, at <= claimedAt { nextRetryAt = nil }
        let leasedUntil = claimedAt + configuration.leaseSeconds
        backlog.add(items(of: found.due, leasedUntil: leasedUntil, now), demand: demand, now: now)
        startDue()
        publishLater()
        isHeldBack = found.isHeldBack
        if found.isMore || claimsAgain { claim() }
    }

    private func items(
        of deliveries: [Delivery], leasedUntil: Timestamp, _ now: Timestamp
    ) -> [DeliveryBacklog.Item] {
        let startBefore =
            leasedUntil + -min(
                configuration.leaseSeconds, Double(configuration.totalTimeout) / 1_000 + Self.reportMargin)
        var items: [DeliveryBacklog.Item] = []
        items.reserveCapacity(deliveries.count)
        for delivery in deliveries {
            // The API has checked the URL; an invalid one ends the delivery.
            guard let url = try? WebURL.parse(delivery.url) else {
                conclude(delivery, startedAt: now, duration: 0, response: .failure(.requestInvalid), body: "")
                continue
            }
            items.append(.init(delivery: delivery, url: url, startBefore: startBefore))
        }
        return items
    }

    // MARK: Handing over

    /// Takes new deliveries that were leased to this sender.
    func take(_ handed: LeasedDeliveries) {
        let now = dependencies.clock.now()
        let items = items(of: handed.deliveries, leasedUntil: handed.leasedUntil, now)
        if stopped == nil {
            backlog.addLeased(items, unreserved: handed.unreserved, now: now)
        } else {
            // The loop may end before its next turn.
            returnUnsent(items, now)
            report()
        }
        publish(arrived: handed.deliveries)
        startDue()
    }

    /// Publishes how many new deliveries may be leased to this sender from now on.
    private func publish(arrived: [Delivery] = []) {
        isPublishing = false
        let total = stopped == nil ? max(0, configuration.waitingMax - backlog.waitingWeight) : 0
        let (demand, gone) = backlog.takeChangedDemand(total: total)
        configuration.credits.publish(demand, gone: gone, arrived: arrived)
    }

    /// Once for all changes in one turn of the loop.
    private func publishLater() {
        guard !isPublishing else { return }
        isPublishing = true
        dependencies.defer { $0.publish() }
    }

    /// Called once per second: ends requests without a response and claims when the next delivery is due.
    func secondPassed() {
        _ = hasLease()
        running.expireWithoutResponse(after: configuration.responseTimeout)
        guard stopped == nil else { return }
        let now = dependencies.clock.now()
        backlog.removeIdleQueues(now)
        startDue()
        publishLater()
        // A clock that was set back must not make the wait longer.
        let next = min(nextClaimAt, nextRetryAt ?? nextClaimAt)
        if claimsAgain || isHeldBack || now >= next || next - now > configuration.pollSeconds {
            claim()
        }
    }

    /// Returns `true` while this node has a lease. If it has expired or changed, other nodes may have claimed
    /// the deliveries of this sender.
    private func hasLease() -> Bool {
        let current = configuration.lease()
        if current == nil || current != lease { releaseAll() }
        lease = current
        return current != nil
    }

    /// Drops all claimed deliveries, so that no two senders have the same one. The results of cancelled
    /// requests are unknown; those deliveries are sent again.
    private func releaseAll() {
        guard backlog.waitingCount + running.count > 0 else { return }
        dependencies.logger.warning(
            "This node's lease expired. Other nodes may send the webhook deliveries that it had claimed.",
            metadata: ["waiting": "\(backlog.waitingCount)", "sending": "\(running.count)"])
        let now = dependencies.clock.now()
        returnUnsent(backlog.removeWaiting(), now)
        for queue in running.cancelAll() { _ = backlog.withdrawn(queue) }
        // Reported first, since the next claim may return some of them to this sender.
        report()
        claimsAgain = true
        updateGauge(returned: 0)
        if stopped != nil, backlog.inFlightCount == 0 { end() }
    }

    /// Returns deliveries without an attempt; they are due at once.
    private func returnUnsent(_ items: [DeliveryBacklog.Item], _ now: Timestamp) {
        for item in items { report(.returned(item.delivery, at: now)) }
        updateGauge(returned: items.count)
    }

    private func updateGauge(returned: Int) {
        let (waiting, inFlight) = (backlog.waitingCount, backlog.inFlightCount)
        dependencies.gauge.update { metrics in
            metrics.returnedCount += Int64(returned)
            metrics.waitingCount = waiting
            metrics.inFlightCount = inFlight
        }
    }

    // MARK: Sending

    private func startDue() {
        let now = dependencies.clock.now()
        guard hasLease() else { return }
        while stopped == nil, let item = backlog.next() {
            if item.startBefore < now {
                returnUnsent([item] + backlog.withdrawn(item.delivery.receiverQueue), now)
            } else {
                start(item, now)
            }
        }
        updateGauge(returned: 0)
    }

    private func start(_ item: DeliveryBacklog.Item, _ now: Timestamp) {
        let delivery = item.delivery
        let signers = signers.signers(of: delivery, service: configuration.secrets, now: now)
        let failure: DeliveryFailure? =
            switch delivery.obstacle {
            case .secretUnreadable?: .secretUnreadable
            case .endpointGone?: .endpointGone
            case nil: signers.isEmpty ? .requestInvalid : nil
            }
        if let failure {
            returnUnsent(backlog.withdrawn(delivery.receiverQueue), now)
            conclude(delivery, startedAt: now, duration: 0, response: .failure(failure), body: "")
            return
        }
        let message = WebhookMessage(
            delivery, signers: signers, sentAt: now, userAgent: "Ferry/\(configuration.version)")
        var request = BufferedRequest(url: item.url.string)
        request.method = "POST"
        request.headers = message.headers
        request.body = message.body
        request.byteLimit = delivery.question == nil ? 1_024 : Limits.answerByteCountMax
        request.deadline = configuration.totalTimeout
        request.connectTimeout = configuration.connectTimeout
        request.tls = delivery.receiverTLS.map { TransferRequest.TLS($0) }
        request.allowsAddress = {
            [policy = configuration.policy, scheme = item.url.scheme.endpoint] address in
            let ip =
                address.isIPv6
                ? IPAddress(v6High: address.high, low: address.low)
                : IPAddress(v4: UInt32(truncatingIfNeeded: address.low))
            return policy.allows(ip, port: address.port, for: scheme)
        }
        let key = RunningDeliveries.Key(delivery)
        let started = dependencies.post(request) { dispatcher, outcome in
            // Otherwise the delivery was left to other nodes in the meantime.
            guard dispatcher.running.remove(key) else { return }
            dispatcher.responded(delivery, startedAt: now, outcome)
        }
        running.add(delivery, started)
    }

    private func responded(_ delivery: Delivery, startedAt: Timestamp, _ outcome: Outcome) {
        guard delivery.question != nil, case .success(let response) = outcome,
            (200..<300).contains(response.status)
        else { return settled(delivery, startedAt: startedAt, outcome, isStored: true) }
        configuration.takeAnswer(delivery, response.body) { [dependencies] isStored in
            dependencies.defer { $0.settled(delivery, startedAt: startedAt, outcome, isStored: isStored) }
        }
    }

    /// `isStored`: `false` if an answer arrived that could not be stored; the question is sent again.
    private func settled(_ delivery: Delivery, startedAt: Timestamp, _ outcome: Outcome, isStored: Bool) {
        let now = dependencies.clock.now()
        var (response, body, measured) = Self.read(outcome, of: delivery, now: now)
        if !isStored { response = .failure(.internalError) }
        // The answer to a question may be a credential, so it is not recorded.
        if delivery.question != nil { body = "" }
        let duration = measured ?? max(0, now - startedAt)
        let verdict = conclude(
            delivery, startedAt: startedAt, duration: duration, response: response, body: body)
        var isRetried = false
        if case .retry(let at) = verdict {
            isRetried = true
            nextRetryAt = min(nextRetryAt ?? at, at)
        }
        let returned = backlog.finished(
            delivery.receiverQueue, .init(response, of: delivery, duration: duration), endsRun: isRetried,
            now: now, jitter: dependencies.jitter())
        if !returned.isEmpty {
            dependencies.logger.notice(
                "A webhook receiver fails repeatedly. No requests are sent to it for a while.",
                metadata: ["receiver": "\(delivery.receiverQueue)", "returned": "\(returned.count)"])
            returnUnsent(returned, now)
        }
        startDue()
        publishLater()
        claimIfWorthwhile(delivery.receiverQueue, now)
        if stopped != nil, backlog.inFlightCount == 0 { end() }
    }

    /// After an attempt: claims again, if a claim of some size is possible.
    private func claimIfWorthwhile(_ queue: ReceiverQueueID, _ now: Timestamp) {
        let free = configuration.waitingMax - backlog.waitingWeight
        let isHalfEmpty = free * 2 >= configuration.waitingMax
        guard isHalfEmpty || free * 8 >= configuration.claimMax else { return }
        if (isHalfEmpty && (claimsAgain || isHeldBack)) || backlog.needsMore(queue, now) { claim() }
    }

    // MARK: Reporting

    @discardableResult
    private func conclude(
        _ delivery: Delivery, startedAt: Timestamp, duration: Double, response: DeliveryResponse, body: String
    ) -> DeliveryTry.Verdict {
        let delays = delivery.isPing ? [] : delivery.endpoint?.retryDelays ?? DeliverySchedule.delays
        let verdict = DeliverySchedule.verdict(
            tryNumber: delivery.tryNumber - delivery.lostTryCount, response: response, delays: delays,
            now: dependencies.clock.now(), jitter: dependencies.jitter())
        var status: Int?
        var error: String?
        switch response {
        case .status(let code, _):
            status = code
            error = verdict == .accepted ? nil : "unacceptable_status"
        case .failure(let failure): error = failure.rawValue
        }
        if verdict == .givenUp, !delivery.isPing {
            dependencies.logger.notice(
                "A webhook delivery was given up.",
                metadata: [
                    "delivery": "\(delivery.id)", "job": "\(delivery.job?.description ?? "none")",
                    "try": "\(delivery.tryNumber)",
                    "error": "\(error ?? "")", "status": "\(status ?? 0)",
                ])
        }
        count(verdict, duration)
        report(
            DeliveryTry(
                delivery: delivery.id, number: delivery.tryNumber, startedAt: startedAt, duration: duration,
                status: status, error: error, responseExcerpt: body, verdict: verdict))
        return verdict
    }

    private func report(_ one: DeliveryTry) {
        finished.append(one)
        // Results of one turn of the loop arrive one after another. The report follows the last one.
        if finished.count == 1 { dependencies.defer { $0.report() } }
    }

    private func count(_ verdict: DeliveryTry.Verdict, _ duration: Double) {
        let inFlight = backlog.inFlightCount
        dependencies.gauge.update { metrics in
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
            case .returned: break
            }
        }
    }

    private func report() {
        guard !finished.isEmpty else { return }
        dependencies.store.record(finished)
        finished = []
    }

    // MARK: Ending

    /// Starts no more requests. Calls `whenIdle` after all requests in flight have been reported.
    func stop(whenIdle: @escaping () -> Void) {
        guard stopped == nil else { return }
        stopped = whenIdle
        publish()
        // Another sender can have them at once.
        returnUnsent(backlog.removeWaiting(), dependencies.clock.now())
        if backlog.inFlightCount == 0 { end() }
    }

    private func end() {
        report()
        stopped?()
        stopped = {}
    }
}
