import FerryCore
import Logging
import Postgres
import Synchronization
import Sys

/// Numbers events and makes their deliveries: one pass at a time in the whole cluster. Woken when somebody is
/// to be told at once; what nobody waits for is taken in large steps.
final class EventRelay: Sendable {
    /// Between looks at what this node has written, and at what others have left.
    private static let writtenInterval: Int64 = 500_000_000
    private static let lookInterval: Int64 = 1_000_000_000
    /// Between passes for those who only listen.
    private static let soonInterval: Int64 = 20_000_000

    private let context: StoreContext

    init(_ context: StoreContext) { self.context = context }

    func close() { context.events.mailbox.close() }

    /// The thread's body. Whatever is left without a number is there for the next process, or another node.
    func run() {
        let lane = context.connection(
            "events",
            adjust: { options in
                options.pinsPlans = true
                options.connectTimeout = .seconds(2)
                options.statementTimeout = .seconds(20)
            })
        let mailbox = context.events.mailbox
        var nextPass: Int64 = 0
        var nextForOthers: Int64 = 0
        var lastPass: Int64 = 0
        while true {
            let pause = max(Int64(lane.retryIn / .nanoseconds(1)), nextPass - Sys.monotonicNanoseconds())
            let messages = mailbox.wait(milliseconds: Int32(max(0, pause + 999_999) / 1_000_000))
            let isClosed = mailbox.isClosed
            let isUrgent = messages.contains { if case .soon = $0 { false } else { true } }
            if !messages.isEmpty, !isUrgent { nextPass = min(nextPass, lastPass + Self.soonInterval) }
            let now = Sys.monotonicNanoseconds()
            if !isClosed, isUrgent || now >= nextPass {
                let wasWritten = context.events.takePending()
                if isUrgent || wasWritten || now >= nextForOthers {
                    relay(lane, isDue: isUrgent || wasWritten)
                    nextForOthers = now + Self.lookInterval
                }
                lastPass = Sys.monotonicNanoseconds()
                nextPass = lastPass + Self.writtenInterval
            }
            for case .pass(let done) in messages { done() }
            if isClosed { return }
        }
    }

    /// `isDue`: something is known to be there.
    private func relay(_ lane: LaneConnection, isDue: Bool) {
        do {
            try lane.withConnection { connection throws(PostgresError) in
                if !isDue {
                    guard try hasEvents(&connection) else { return }
                }
                while try pass(&connection).isFull {}
            }
        } catch {
            // What was written is still there, and is looked for when others are.
            guard !error.isConnectionLost, !error.isRetryable else { return }
            context.logger.error("events could not be numbered", metadata: ["error": "\(error)"])
        }
    }

    /// Whether there is anything that other nodes, or an earlier process, have left.
    private func hasEvents(_ connection: inout Connection) throws(PostgresError) -> Bool {
        let found = try connection.execute(Statements.hasEvents)
        if !found.bool(0, 0) { context.metrics.relayLagMicroseconds.store(0, ordering: .relaxed) }
        return found.bool(0, 0) || found.bool(0, 1)
    }

    private func pass(_ connection: inout Connection) throws(PostgresError) -> EventPass.Outcome {
        let outcome = try EventPass.commit(&connection, context)
        context.metrics.numberedEvents.add(Int64(outcome.eventCount), ordering: .relaxed)
        context.metrics.relayLagMicroseconds.store(outcome.lagMicroseconds, ordering: .relaxed)
        context.events.awaitsDeliveries.store(outcome.awaitsDeliveries, ordering: .relaxed)
        context.events.numbered()
        if outcome.deliveryCount > 0 { context.commitObserver?.deliveriesAdded(outcome.deliveryCount) }
        return outcome
    }
}
