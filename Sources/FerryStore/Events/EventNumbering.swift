import FerryCore
import Postgres
import Synchronization

/// Gives events their numbers: what all passes of the relay use, whichever thread runs them. Any thread.
final class EventNumbering: Sendable {
    /// Maximum number of passes that the deletion of a job runs.
    private static let passMax = 5

    let context: StoreContext
    let signals: StoreSignals
    let nodeState: NodeState
    let sessionLoader: SessionLoader

    init(
        _ context: StoreContext, _ signals: StoreSignals, _ nodeState: NodeState,
        _ sessionLoader: SessionLoader
    ) {
        self.context = context
        self.signals = signals
        self.nodeState = nodeState
        self.sessionLoader = sessionLoader
    }

    /// Tells readers of the log and the sender about a committed pass. `handedCount`: deliveries that the
    /// sender got with the commit.
    func note(_ outcome: RelayTransaction.Outcome, handedCount: Int) {
        context.metrics.numberedEvents.add(Int64(outcome.eventCount), ordering: .relaxed)
        context.metrics.relayLagMicroseconds.store(outcome.lagMicroseconds, ordering: .relaxed)
        signals.events.numbered()
        if outcome.hasDependencyWork { signals.noteDependencies() }
        let waitingCount = outcome.deliveryCount - handedCount
        if waitingCount > 0 { signals.commitObserver?.deliveriesAdded(waitingCount) }
    }

    /// Numbers the events of a job before its row is deleted: the relay needs the row. Returns `false` if too
    /// many events of its tenant come before.
    func number(
        eventsOf job: JobRecord, _ connection: inout Connection
    ) throws(PostgresError) -> Bool {
        var passCount = 0
        while try Self.isMissingNumbers(of: job, &connection) {
            guard passCount < Self.passMax else { return false }
            passCount += 1
            let outcome = try RelayTransaction.commit(
                &connection, self, InboxSelection(tenant: job.tenant))
            signals.events.numbered()
            if outcome.deliveryCount > 0 { signals.commitObserver?.deliveriesAdded(outcome.deliveryCount) }
        }
        return true
    }

    /// Returns whether events of the job have no number yet.
    static func isMissingNumbers(
        of job: JobRecord, _ connection: inout Connection
    ) throws(PostgresError) -> Bool {
        var parameters = Parameters()
        parameters.append(text: job.tenant)
        parameters.append(job.id)
        return try connection.execute(Statements.hasUnnumberedEvents, parameters).bool(0, 0)
    }
}
