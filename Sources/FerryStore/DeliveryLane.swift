package import FerryCore
import Logging
import Postgres
import Sys

/// The outbox, as the webhook sender sees it.
package final class DeliveryLane: DeliveryQueue {
    private enum Message: Sendable {
        case claim(limit: Int, leaseSeconds: Double, reply: @Sendable ([Delivery], Timestamp?) -> Void)
        case record([DeliveryTry])
    }

    private let context: StoreContext
    private let mailbox = Mailbox<Message>()

    init(_ context: StoreContext) { self.context = context }

    package func claim(
        limit: Int, leaseSeconds: Double, reply: @escaping @Sendable ([Delivery], Timestamp?) -> Void
    ) {
        if !mailbox.send(.claim(limit: limit, leaseSeconds: leaseSeconds, reply: reply)) { reply([], nil) }
    }

    package func record(_ tries: [DeliveryTry]) { mailbox.send(.record(tries)) }

    func close() { mailbox.close() }

    /// The thread's body. Tries are kept until they are committed; claims are answered at once.
    func run() {
        let lane = context.connection(
            "deliveries",
            adjust: { options in
                options.pinsPlans = true
                options.connectTimeout = .seconds(2)
            })
        var tries: [DeliveryTry] = []
        while true {
            let wait = tries.isEmpty ? -1 : Int32(lane.retryIn / .milliseconds(1)) + 1
            let messages = mailbox.wait(milliseconds: wait)
            for case .record(let added) in messages { tries.append(contentsOf: added) }
            // What came of tries first: a claim must not see them as unfinished.
            if !tries.isEmpty, keep(tries, lane) {
                tries = []
                context.events.deliveriesEnded()
            }
            for case .claim(let limit, let seconds, let reply) in messages {
                let (due, next) = claim(limit, seconds, lane)
                reply(due, next)
            }
            if mailbox.isClosed && messages.isEmpty {
                if !tries.isEmpty {
                    context.logger.error(
                        "tries of deliveries were not stored", metadata: ["count": "\(tries.count)"])
                }
                return
            }
        }
    }

    /// False: the database is away.
    private func keep(_ tries: [DeliveryTry], _ lane: LaneConnection) -> Bool {
        do {
            try lane.withConnection { connection throws(PostgresError) in
                _ = try connection.execute(Statements.recordTries, .tries(tries))
            }
            return true
        } catch {
            guard !error.isConnectionLost && !error.isRetryable else { return false }
            context.logger.error("tries of deliveries were refused", metadata: ["error": "\(error)"])
            // One bad try is lost alone.
            if tries.count > 1 { return tries.allSatisfy { keep([$0], lane) } }
            return true
        }
    }

    private func claim(_ limit: Int, _ seconds: Double, _ lane: LaneConnection) -> ([Delivery], Timestamp?) {
        var parameters = Parameters()
        parameters.append(int32: Int32(clamping: limit))
        parameters.append(float64: seconds)
        do {
            var results = try lane.withConnection { connection throws(PostgresError) in
                try connection.pipeline { pipeline in
                    pipeline.send(Statements.claimDeliveries, parameters)
                    pipeline.send(Statements.nextDelivery)
                }
            }
            let rows = results.take(0)
            let next = results.take(1)
            let due = (0..<rows.rowCount).compactMap { Delivery(rows, $0, context) }
            return (due, next.rowCount > 0 ? next.instant(0, 0) : nil)
        } catch {
            return ([], nil)
        }
    }
}

extension Delivery {
    /// Reads a row of claim_deliveries.sql; nil when its secret cannot be opened or its type is not known.
    fileprivate init?(_ rows: borrowing ResultSet, _ row: Int, _ context: StoreContext) {
        var secret: String?
        if let sealed = rows.bytesOrNil(row, 9) {
            guard let opened = context.configuration.openSecrets(sealed) else {
                context.logger.error(
                    "a delivery's secret cannot be opened",
                    metadata: ["delivery.id": "\(rows.identifier(row, 0) as DeliveryID)"])
                return nil
            }
            secret = opened.webhookSecret
        }
        guard let type = EventType(rawValue: rows.text(row, 2)) else { return nil }
        self.init(
            id: rows.identifier(row, 0), event: rows.identifier(row, 1), type: type,
            tenant: rows.text(row, 3),
            session: rows.text(row, 4), job: rows.identifierOrNil(row, 5), sequence: rows.int64(row, 6),
            occurredAt: rows.instant(row, 7), url: rows.text(row, 8), secret: secret,
            jobJSON: rows.bytes(row, 10),
            traceparent: rows.textOrNil(row, 11), tryNumber: rows.int32(row, 12))
    }
}

extension Parameters {
    /// The parameters of record_tries.sql.
    fileprivate static func tries(_ tries: [DeliveryTry]) -> Parameters {
        var parameters = Parameters()
        parameters.appendArray(.uuid, tries) { $0.append($1.delivery) }
        parameters.appendArray(.int32, tries) { $0.append(int32: $1.number) }
        parameters.appendArray(.timestamp, tries) { $0.append($1.startedAt) }
        parameters.appendArray(.float64, tries) { $0.append(float64: $1.duration) }
        parameters.appendArray(.int32, tries) { $0.append(int32: $1.status.map { Int32(clamping: $0) }) }
        parameters.appendArray(.text, tries) { $0.append(text: $1.error) }
        // The server refuses U+0000 in a text.
        parameters.appendArray(.text, tries) {
            $0.append(text: String($1.answer.map { $0 == "\0" ? "\u{FFFD}" : $0 }))
        }
        parameters.appendArray(.text, tries) { parameters, next in
            switch next.verdict {
            case .accepted: parameters.append(text: "accepted")
            case .retry: parameters.append(text: "pending")
            case .givenUp: parameters.append(text: "given_up")
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
