import FerryCore
import Logging
import Postgres
import Sys

/// Carries out bulk operations, step by step. Runs on every node; each step locks its operation, so that one
/// node at a time works on it, and the operations of several tenants take turns.
final class BulkOperationRunner: Sendable {
    /// Seconds between checks without a wake-up: the node that works on an operation may have crashed.
    private static let idleSeconds = 2.0
    /// Seconds until an operation is tried again whose step the database has refused.
    private static let repairSeconds = 60.0

    private let insertion: JobInsertion

    init(_ insertion: JobInsertion) {
        self.insertion = insertion
    }

    private var context: StoreContext { insertion.context }
    private var signals: StoreSignals { insertion.signals }

    func close() { signals.bulkWakes.close() }

    /// Body of the thread; returns after `close()`.
    func run() {
        let database = context.connection("bulk", counts: true, adjust: Self.adjust)
        while !signals.bulkWakes.isClosed {
            var pause = 1.0
            do {
                pause = try runDue(database)
            } catch {
                if !error.isConnectionLost {
                    context.logger.error("bulk operations failed", metadata: ["error": "\(error)"])
                }
                pause = max(pause, Double(database.retryIn / .milliseconds(1)) / 1_000)
            }
            _ = signals.bulkWakes.wait(milliseconds: Int32(max(0, pause) * 1_000) + 1)
        }
    }

    /// The settings of the connection: it lists jobs as reads do.
    static func adjust(_ options: inout ConnectionOptions) {
        options.connectTimeout = .seconds(2)
        options.statementTimeout = .seconds(20)
        options.readInOrderOfIndexes()
    }

    /// Carries out the steps that are due. Returns the seconds until the next check.
    private func runDue(_ database: ReconnectingConnection) throws(PostgresError) -> Double {
        while !signals.bulkWakes.isClosed {
            let outcome = try step(database)
            guard outcome.isDone else { break }
            outcome.note(insertion)
        }
        let clock = context.clock
        return try database.withConnection { connection throws(PostgresError) in
            let rows = try connection.execute(Statements.nextBulkOperation)
            guard rows.rowCount == 1 else { return Self.idleSeconds }
            // An operation that is due is locked by another node.
            let seconds = rows.instant(0, 0) - clock.now()
            return seconds <= 0 ? Self.idleSeconds : min(Self.idleSeconds, seconds)
        }
    }

    /// Carries out one step. If the database refuses the change of a job, that job alone counts as failed.
    private func step(_ database: ReconnectingConnection) throws(PostgresError) -> BulkStep.Outcome {
        let admission = insertion.admission
        var step = BulkStep(
            insertion: insertion, changeCountMax: Limits.bulkStepChangeCount, skipsFirst: false)
        while true {
            var claimed: BulkOperationID?
            var admitted = AdmittedJobs()
            do {
                let outcome = try database.withConnection(sendingUpTo: CommandQueue.sendCountMax) {
                    [admission] connection throws(PostgresError) -> BulkStep.Outcome in
                    // Those of a transaction that was undone.
                    admission.settle(&admitted, isCommitted: false)
                    return try connection.transaction { connection throws(PostgresError) in
                        try step.commit(&connection, claimed: &claimed, admitted: &admitted)
                    }
                }
                admission.settle(&admitted, isCommitted: true)
                return outcome
            } catch {
                admission.settle(&admitted, isCommitted: error.isConnectionLost)
                if error.isSessionChange {
                    try insertion.sessionLoader.readSessions(database)
                    continue
                }
                guard !error.isConnectionLost, !error.isRetryable, !error.isShortage, let claimed else {
                    throw error
                }
                context.logger.error(
                    "the database refused a step of a bulk operation",
                    metadata: ["operation.id": "\(claimed)", "error": "\(error)"])
                if step.changeCountMax > 1 {
                    step = BulkStep(insertion: insertion, changeCountMax: 1, skipsFirst: false)
                } else if !step.skipsFirst {
                    step = BulkStep(insertion: insertion, changeCountMax: 1, skipsFirst: true)
                } else {
                    try postpone(claimed, database)
                    return .postponed
                }
            }
        }
    }

    /// Postpones an operation that an operator has to repair.
    private func postpone(
        _ id: BulkOperationID, _ database: ReconnectingConnection
    ) throws(PostgresError) {
        var parameters = Parameters()
        parameters.append(id)
        parameters.append(context.clock.now() + Self.repairSeconds)
        _ = try database.withConnection { connection throws(PostgresError) in
            try connection.execute(Statements.postponeBulkOperation, parameters).rowCount
        }
    }
}
