package import FerryCore
import Logging
import Postgres
import Synchronization
import Sys

/// The outbox (table `deliveries`) as the webhook sender uses it: claims due deliveries and records tries
/// (step 8 of `EventRelay`). Has its own thread and connection.
///
/// Its commits do not wait for the disk. A crash of the database may lose claims and tries, which are then
/// made again: delivery is at least once anyway.
package final class DeliveryOutbox: DeliveryStore {
    enum Message: Sendable {
        case claim(DeliveryDemand, leaseSeconds: Double, reply: @Sendable (ClaimedDeliveries) -> Void)
        case record([DeliveryTry])
    }

    private let context: StoreContext
    private let signals: StoreSignals
    private let nodeState: NodeState
    private let keepInFile: @Sendable ([DeliveryTry]) -> Bool
    private let mailbox = Mailbox<Message>()

    init(
        _ context: StoreContext, _ signals: StoreSignals, _ nodeState: NodeState,
        keepInFile: @escaping @Sendable ([DeliveryTry]) -> Bool
    ) {
        self.context = context
        self.signals = signals
        self.nodeState = nodeState
        self.keepInFile = keepInFile
    }

    /// Leases due deliveries for `leaseSeconds`. May be called from any thread. The reply comes on the
    /// outbox's thread, and is empty if the database is unreachable, operators hold deliveries, or the outbox
    /// is closed.
    package func claim(
        _ demand: DeliveryDemand, leaseSeconds: Double, reply: @escaping @Sendable (ClaimedDeliveries) -> Void
    ) {
        if !mailbox.send(.claim(demand, leaseSeconds: leaseSeconds, reply: reply)) {
            reply(ClaimedDeliveries())
        }
    }

    /// Records tries. May be called from any thread.
    package func record(_ tries: [DeliveryTry]) { mailbox.send(.record(tries)) }

    func close() { mailbox.close() }

    /// Body of the thread; returns after `close()`. Keeps tries until they are committed, and replies to
    /// claims at once.
    func run() {
        let database = context.connection(
            "deliveries", counts: true,
            adjust: { options in
                options.pinsPlans = true
                options.connectTimeout = .seconds(2)
                options.settings.append(.init("synchronous_commit", "off"))
            })
        var state = OutboxState(context, signals, keepInFile: keepInFile)
        var tries: [DeliveryTry] = []
        while true {
            let wait = tries.isEmpty ? -1 : Int32(max(database.retryIn, state.rest) / .milliseconds(1)) + 1
            let messages = mailbox.wait(milliseconds: wait)
            for case .record(let added) in messages { tries.append(contentsOf: added) }
            // Tries before claims, since a claim must not see finished deliveries as pending.
            if !tries.isEmpty, state.rest == .zero {
                let count = tries.count
                state.keep(&tries, database)
                if tries.count < count { signals.events.deliveriesEnded() }
            }
            for case .claim(let demand, let seconds, let reply) in messages {
                let isHeld = nodeState.isHeld.load(ordering: .relaxed)
                reply(isHeld ? ClaimedDeliveries() : state.claim(demand, seconds, database))
            }
            state.sweep(database)
            if mailbox.isClosed && messages.isEmpty {
                if !tries.isEmpty { state.save(tries) }
                return
            }
        }
    }
}

/// State and statements of the thread.
private struct OutboxState {
    /// Maximum number of receiver queues that one statement reads, and of such statements of one claim.
    private static let lookMax: Int32 = 1_000
    private static let lookCountMax = 10
    /// Maximum number of deliveries that one sweep removes.
    private static let sweepMax: Int32 = 2_000
    /// Maximum of `endpointByteCount`.
    private static let endpointByteCountMax = 16 << 20
    /// Nanoseconds until tries are sent again after a shortage of the database.
    private static let pauseAfterShortage: Int64 = 1_000_000_000

    private let context: StoreContext
    private let signals: StoreSignals
    private let keepInFile: @Sendable ([DeliveryTry]) -> Bool
    private static let first = ReceiverQueueID(high: 0, low: 0)
    /// The receiver queue after which the next claim begins. While one claim cannot take everything, this is
    /// the one served last, so that all have their turn.
    private var position = Self.first
    /// An unfinished scan of all receiver queues: where it began, and whether it has passed the last one.
    private var scan: (begin: ReceiverQueueID, hasWrapped: Bool)?
    private var endpoints: [WebhookID: Delivery.Endpoint] = [:]
    /// Bytes of the header fields and TLS settings that `endpoints` were read from.
    private var endpointByteCount = 0
    private var sweepAt = Sys.monotonicNanoseconds() + 10_000_000_000
    private var restsUntil: Int64 = 0

    init(
        _ context: StoreContext, _ signals: StoreSignals,
        keepInFile: @escaping @Sendable ([DeliveryTry]) -> Bool
    ) {
        self.context = context
        self.signals = signals
        self.keepInFile = keepInFile
    }

    /// Time until tries may be sent; zero if they may be sent now.
    var rest: Duration { .nanoseconds(max(0, restsUntil - Sys.monotonicNanoseconds())) }

    /// Writes tries. Leaves those in `tries` that the database cannot take now.
    mutating func keep(_ tries: inout [DeliveryTry], _ database: ReconnectingConnection) {
        do {
            try store(tries, database)
            tries = []
        } catch {
            guard !error.isConnectionLost && !error.isRetryable else { return }
            context.logger.error("the database refused delivery tries", metadata: ["error": "\(error)"])
            if error.isShortage {
                restsUntil = Sys.monotonicNanoseconds() + Self.pauseAfterShortage
            } else if tries.count == 1 {
                tries = []
            } else {
                // Each try alone, so that only the refused one is lost.
                tries = tries.flatMap { next in
                    var alone = [next]
                    if rest == .zero { keep(&alone, database) }
                    return alone
                }
            }
        }
    }

    /// Saves tries in a file for the next start of this node.
    func save(_ tries: [DeliveryTry]) {
        let count: Logger.Metadata = ["count": "\(tries.count)"]
        if keepInFile(tries) {
            context.logger.warning(
                "delivery tries were saved to a file: the next start writes them to the database",
                metadata: count)
        } else {
            context.logger.error(
                "delivery tries were lost: the database and the file could not be written", metadata: count)
        }
    }

    private func store(_ tries: [DeliveryTry], _ database: ReconnectingConnection) throws(PostgresError) {
        let disabled = try database.withConnection { connection throws(PostgresError) in
            let rows = try connection.execute(Statements.recordTries, .tries(tries))
            var disabled: [(WebhookID, String, String)] = []
            var acknowledged: Set<JobID> = []
            for row in 0..<rows.rowCount {
                if rows.isNull(row, 0) {
                    acknowledged.insert(rows.identifier(row, 3))
                } else {
                    disabled.append((rows.identifier(row, 0), rows.text(row, 1), rows.text(row, 2)))
                }
            }
            // If a crash prevents this, the next check of these jobs does it (remind_jobs.sql).
            if !acknowledged.isEmpty {
                try Acknowledgements(context, signals).add(acknowledged.map { ($0, nil) }, &connection)
            }
            return disabled
        }
        if !disabled.isEmpty { signals.events.written(isWanted: true) }
        for (id, tenant, reason) in disabled {
            context.logger.warning(
                "a webhook endpoint was disabled",
                metadata: ["webhook.id": "\(id)", "tenant": "\(tenant)", "reason": "\(reason)"])
        }
    }

    mutating func claim(
        _ demand: DeliveryDemand, _ seconds: Double, _ database: ReconnectingConnection
    ) -> ClaimedDeliveries {
        var found = ClaimedDeliveries()
        do {
            let (chosen, end) = try look(demand, database, &found)
            position = end
            guard !chosen.isEmpty else { return found }
            var parameters = Parameters()
            parameters.append(int32: Int32(clamping: demand.total))
            parameters.append(float64: seconds)
            parameters.appendArray(.uuid, chosen) { $0.append($1.queue) }
            parameters.appendArray(.int32, chosen) { $0.append(int32: $1.capacity) }
            parameters.appendArray(.bool, chosen) { $0.append(bool: $1.isOrdered) }
            parameters.append(context.configuration.node)
            parameters.append(int32: Int32(Limits.deliveryWeightByteCount))
            try database.withConnection { connection throws(PostgresError) in
                let rows = try connection.execute(Statements.claimDeliveries, parameters)
                for row in 0..<rows.rowCount {
                    found.due.append(delivery(rows, row))
                }
            }
            if found.due.weight >= demand.total { found.isMore = true }
            if let last = Self.lastServed(chosen, found.due, total: demand.total) { position = last }
        } catch {
            context.logger.debug("claiming deliveries failed", metadata: ["error": "\(error)"])
        }
        return found
    }

    private typealias ChosenQueue = (queue: ReceiverQueueID, capacity: Int32, isOrdered: Bool)

    /// Returns the receiver queues with due deliveries and capacity, in the order of service, and where the
    /// next claim begins.
    private mutating func look(
        _ demand: DeliveryDemand, _ database: ReconnectingConnection, _ found: inout ClaimedDeliveries
    ) throws(PostgresError) -> (chosen: [ChosenQueue], end: ReceiverQueueID) {
        var chosen: [ChosenQueue] = []
        var from = position
        let begin = scan?.begin ?? position
        var hasWrapped = scan?.hasWrapped ?? (position == Self.first)
        scan = nil
        for _ in 0..<Self.lookCountMax {
            var parameters = Parameters()
            parameters.append(from)
            parameters.append(int32: Self.lookMax)
            let rows = try database.withConnection { [parameters] connection throws(PostgresError) in
                try connection.execute(Statements.readReceiverQueues, parameters)
            }
            for row in 0..<rows.rowCount {
                let id: ReceiverQueueID = rows.identifier(row, 0)
                // All queues were read.
                if hasWrapped, begin != Self.first, id > begin { return (chosen, Self.first) }
                if let capacity = Self.capacity(rows, row, id, demand, &found) {
                    chosen.append((id, Int32(clamping: capacity), rows.bool(row, 3)))
                }
                from = id
            }
            if rows.rowCount < Int(Self.lookMax) {
                if hasWrapped { return (chosen, Self.first) }
                hasWrapped = true
                from = Self.first
            } else if chosen.reduce(0, { $0 + Int($1.capacity) }) >= demand.total {
                found.isMore = true
                return (chosen, from)
            }
        }
        scan = (begin, hasWrapped)
        found.isMore = true
        return (chosen, from)
    }

    /// Returns how many deliveries of a receiver queue to claim; `nil` for none. Reads a row of
    /// read_receiver_queues.sql.
    private static func capacity(
        _ rows: borrowing ResultSet, _ row: Int, _ id: ReceiverQueueID, _ demand: DeliveryDemand,
        _ found: inout ClaimedDeliveries
    ) -> Int? {
        let capacity = demand.queues[id]
        if capacity != nil { found.revisions[id] = rows.int32(row, 4) }
        guard rows.bool(row, 2), let dueAt = rows.instantOrNil(row, 1) else { return nil }
        guard dueAt <= rows.instant(row, 5) else {
            found.next = min(found.next ?? dueAt, dueAt)
            return nil
        }
        let free = capacity ?? demand.other
        guard free > 0 else { return nil }
        if !demand.fullTenants.isEmpty, demand.fullTenants.contains(rows.text(row, 6)) {
            found.isHeldBack = true
            return nil
        }
        return free
    }

    /// Returns the receiver queue that was served last if the claim could not take everything; `nil`
    /// otherwise. Ordered and unordered queues are limited separately (claim_deliveries.sql): of two ends the
    /// earlier one.
    private static func lastServed(_ chosen: [ChosenQueue], _ due: [Delivery], total: Int) -> ReceiverQueueID?
    {
        guard due.weight >= total else { return nil }
        var places: [ReceiverQueueID: Int] = [:]
        for (place, next) in chosen.enumerated() { places[next.queue] = place }
        let cuts = [false, true].compactMap { isOrdered -> Int? in
            let served = due.filter { places[$0.receiverQueue].map { chosen[$0].isOrdered } == isOrdered }
            return served.weight >= total ? served.compactMap { places[$0.receiverQueue] }.max() : nil
        }
        return cuts.min().map { chosen[$0].queue }
    }

    /// Returns the delivery of a row of claim_deliveries.sql.
    private mutating func delivery(_ rows: borrowing ResultSet, _ row: Int) -> Delivery {
        let id: DeliveryID = rows.identifier(row, 0)
        var secrets = JobSecrets()
        var secretByteCount = 0
        var endpoint: Delivery.Endpoint?
        var obstacle: Delivery.Obstacle?
        if !rows.isNull(row, 14) {
            endpoint = self.endpoint(rows, row)
            if endpoint == nil { obstacle = rows.isNull(row, 18) ? .endpointGone : .secretUnreadable }
        } else if let sealed = rows.bytesOrNil(row, 10) {
            secretByteCount = sealed.count
            let opened = context.configuration.openSecrets(sealed)
            if let opened { secrets = opened } else { obstacle = .secretUnreadable }
        }
        if case .secretUnreadable? = obstacle {
            context.logger.error("a delivery's secret cannot be opened", metadata: ["delivery.id": "\(id)"])
        }
        var delivery = Delivery(
            id: id, receiverQueue: rows.identifier(row, 1), event: rows.identifier(row, 2),
            type: rows.text(row, 3), tenant: rows.text(row, 4), session: rows.text(row, 5),
            job: rows.identifierOrNil(row, 6), sequence: rows.int64(row, 7), occurredAt: rows.instant(row, 8),
            url: rows.text(row, 9), secret: secrets.webhookSecret, headers: secrets.webhookHeaders,
            payload: rows.bool(row, 21) ? .thin : .full, tls: secrets.webhookTLS, endpoint: endpoint,
            jobJSON: rows.bytes(row, 11), traceparent: rows.textOrNil(row, 12), tryNumber: rows.int32(row, 13)
        )
        delivery.secretByteCount = secretByteCount
        delivery.lostTryCount = rows.int32(row, 20)
        delivery.obstacle = obstacle
        return delivery
    }

    /// Returns the endpoint of a row; its secrets are opened once for each revision. `nil` if the endpoint is
    /// gone or its secrets cannot be opened.
    private mutating func endpoint(_ rows: borrowing ResultSet, _ row: Int) -> Delivery.Endpoint? {
        guard !rows.isNull(row, 18) else { return nil }
        let id: WebhookID = rows.identifier(row, 14)
        let revision = rows.int32(row, 18)
        if let known = endpoints[id], known.revision == revision { return known }
        guard let keys = context.configuration.openWebhookKeys(rows.bytes(row, 19)) else { return nil }
        var headers: [JobSpec.Pair] = []
        if let stored = rows.bytesOrNil(row, 22) {
            guard let opened = WebhookHeaders.opened(stored, context.configuration.seal) else { return nil }
            headers = opened
        }
        var tls: WebhookTLS?
        if let stored = rows.bytesOrNil(row, 23) {
            // The only errors: damage, or encryption with another key.
            guard let opened = try? WebhookTLS(storedJSON: stored, opening: context.configuration.seal)
            else { return nil }
            tls = opened
        }
        let endpoint = Delivery.Endpoint(
            id: id, revision: revision, keys: keys,
            format: WebhookEndpoint.Format(rawValue: rows.text(row, 16)) ?? .standard, headers: headers,
            payload: rows.bool(row, 21) ? .thin : .full, tls: tls, isOrdered: rows.bool(row, 15),
            retryDelays: rows.float64Array(row, 17).compactMap { $0 })
        let byteCount = (rows.bytesOrNil(row, 22)?.count ?? 0) + (rows.bytesOrNil(row, 23)?.count ?? 0)
        // Many times the number in use at once.
        if endpoints.count >= 10_000 || endpointByteCount + byteCount > Self.endpointByteCountMax {
            endpoints = [:]
            endpointByteCount = 0
        }
        endpoints[id] = endpoint
        endpointByteCount += byteCount
        return endpoint
    }

    /// Removes deliveries whose retention is over, and those of deleted endpoints, if a sweep is due.
    mutating func sweep(_ database: ReconnectingConnection) {
        let now = Sys.monotonicNanoseconds()
        guard now >= sweepAt, database.isConnected else { return }
        let oldest = context.clock.now() + -Limits.deliverySeconds
        var parameters = Parameters()
        parameters.append(DeliveryID(high: UInt64(max(0, oldest.microseconds / 1_000)) << 16, low: 0))
        parameters.append(int32: Self.sweepMax)
        var removed: Int64 = 0
        do {
            removed = try database.withConnection { [parameters] connection throws(PostgresError) in
                try connection.execute(Statements.removeOldDeliveries, parameters).int64(0, 0)
            }
        } catch {
            if !error.isConnectionLost, !error.isRetryable {
                context.logger.error("removing old deliveries failed", metadata: ["error": "\(error)"])
            }
        }
        // If there is more, small steps between the claims.
        let pause: Int64 = removed >= Int64(Self.sweepMax) ? 250_000_000 : 30_000_000_000
        sweepAt = now + pause
    }
}

extension [Delivery] {
    fileprivate var weight: Int { reduce(0) { $0 + $1.weight } }
}

extension Parameters {
    /// The parameters of record_tries.sql.
    static func tries(_ tries: [DeliveryTry]) -> Parameters {
        var parameters = Parameters()
        parameters.appendArray(.uuid, tries) { $0.append($1.delivery) }
        parameters.appendArray(.int32, tries) { $0.append(int32: $1.number) }
        parameters.appendArray(.timestamp, tries) { $0.append($1.startedAt) }
        parameters.appendArray(.float64, tries) { $0.append(float64: $1.duration) }
        parameters.appendArray(.int32, tries) { $0.append(int32: $1.status.map { Int32(clamping: $0) }) }
        parameters.appendArray(.text, tries) { $0.append(text: $1.error) }
        // PostgreSQL refuses U+0000 in a text.
        parameters.appendArray(.text, tries) {
            $0.append(text: String($1.responseExcerpt.map { $0 == "\0" ? "\u{FFFD}" : $0 }))
        }
        parameters.appendArray(.text, tries) { parameters, next in
            switch next.verdict {
            case .accepted: parameters.append(text: "accepted")
            case .retry: parameters.append(text: "pending")
            case .givenUp: parameters.append(text: "given_up")
            case .returned: parameters.append(text: "returned")
            }
        }
        parameters.appendArray(.timestamp, tries) { parameters, next in
            if case .retry(let instant) = next.verdict {
                parameters.append(instant)
            } else {
                parameters.appendNull()
            }
        }
        return parameters
    }
}
