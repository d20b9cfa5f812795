import FerryCore
import Postgres
import Synchronization
import Sys

/// Writes reminder events for finished jobs that are not acknowledged, and gives up those whose time is over.
/// Runs on every node and skips rows locked by another node.
struct Reminders {
    private static let batchMax: Int32 = 200

    private let context: StoreContext
    private let signals: StoreSignals

    init(_ context: StoreContext, _ signals: StoreSignals) {
        self.context = context
        self.signals = signals
    }

    /// Sends all reminders that are due. Errors stop it; the rest stays due.
    func send(_ database: ReconnectingConnection) throws(PostgresError) {
        while !signals.chores.isClosed {
            var parameters = Parameters()
            parameters.append(context.clock.now())
            parameters.append(int32: Self.batchMax)
            var (count, confirmed, isWanted) = (0, [(id: JobID, wanted: Int32?)](), false)
            try database.withConnection { connection throws(PostgresError) in
                let rows = try connection.execute(Statements.remindJobs, parameters)
                count = rows.rowCount
                for row in 0..<rows.rowCount {
                    if rows.bool(row, 2) { confirmed.append((rows.identifier(row, 0), nil)) }
                    if rows.bool(row, 1) { isWanted = true }
                }
                // A sender crashed after the receiver had accepted the delivery.
                if !confirmed.isEmpty { try Acknowledgements(context, signals).add(confirmed, &connection) }
            }
            context.metrics.reminders.add(Int64(count - confirmed.count), ordering: .relaxed)
            if count > 0 { signals.events.written(isWanted: isWanted) }
            if count < Int(Self.batchMax) { return }
        }
    }
}
