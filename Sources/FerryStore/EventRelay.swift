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
        var nextLook = Sys.monotonicNanoseconds()
        while true {
            let pause = max(Int64(lane.retryIn / .nanoseconds(1)), nextLook - Sys.monotonicNanoseconds())
            let messages = mailbox.wait(milliseconds: Int32(max(0, pause + 999_999) / 1_000_000))
            let isClosed = mailbox.isClosed
            let now = Sys.monotonicNanoseconds()
            if !isClosed, !messages.isEmpty || now >= nextLook {
                relay(lane, isWoken: !messages.isEmpty)
                nextLook = Sys.monotonicNanoseconds() + Self.writtenInterval
            }
            for case .pass(let done) in messages { done() }
            if isClosed { return }
        }
    }

    private func relay(_ lane: LaneConnection, isWoken: Bool) {
        guard lane.retryIn == .zero else { return }
        let wasWritten = context.events.takePending()
        do {
            try lane.withConnection { connection throws(PostgresError) in
                if !isWoken && !wasWritten {
                    guard try isDue(&connection) else { return }
                }
                while try pass(&connection).isFull {}
            }
        } catch {
            // What was written is still there.
            context.events.written(isWanted: false)
            guard !error.isConnectionLost, !error.isRetryable else { return }
            context.logger.error("events could not be numbered", metadata: ["error": "\(error)"])
        }
    }

    /// Whether there is anything that other nodes, or an earlier process, have left.
    private func isDue(_ connection: inout Connection) throws(PostgresError) -> Bool {
        let found = try connection.execute(Statements.hasEvents)
        if !found.bool(0, 0) { context.metrics.relayLagMicroseconds.store(0, ordering: .relaxed) }
        return found.bool(0, 0) || found.bool(0, 1)
    }

    private func pass(_ connection: inout Connection) throws(PostgresError) -> EventPass.Outcome {
        let outcome = try EventPass.commit(&connection, context)
        context.metrics.numberedEvents.add(Int64(outcome.eventCount), ordering: .relaxed)
        context.metrics.relayLagMicroseconds.store(outcome.lagMicroseconds, ordering: .relaxed)
        context.events.awaitsDeliveries.store(outcome.awaitsDeliveries, ordering: .relaxed)
        if outcome.deliveryCount > 0 { context.commitObserver?.deliveriesAdded(outcome.deliveryCount) }
        return outcome
    }
}
