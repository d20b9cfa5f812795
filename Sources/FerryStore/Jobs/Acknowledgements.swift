package import FerryCore
import Postgres
import Synchronization
import Sys

extension JobCommands {
    /// Acknowledges the result of a finished job. Idempotent. Fails with `invalidState` if the job is not
    /// terminal, with `acknowledgementNotRequired` if it asks for no acknowledgement, and with `failed` if
    /// its fields cannot be read.
    package func acknowledge(_ id: JobID, tenant: String, reply: @escaping Reply<JobRecord>) {
        let context = context
        commands.perform("acknowledge", reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<JobRecord, StoreError> in
            guard let stored = try context.job(id, &connection), stored.record.tenant == tenant else {
                return .failure(.notFound)
            }
            let record = stored.record
            guard record.state.isTerminal else { return .failure(.invalidState(of: record)) }
            guard record.acknowledgedAt == nil else { return .success(record) }
            guard let spec = record.spec else { return .failure(.failed) }
            guard spec.acknowledgement != nil else { return .failure(.acknowledgementNotRequired) }
            try context.acknowledge([(id, spec.wantedEvents)], &connection)
            // Another transaction may have acknowledged or deleted the job first.
            guard let stored = try context.job(id, &connection) else { return .failure(.notFound) }
            return .success(stored.record)
        }
    }
}

extension StoreContext {
    /// Acknowledges jobs on `connection`. `wanted`: `JobSpec.wantedEvents`, or `nil` if the job still waits
    /// for its acknowledgement: its row has them.
    func acknowledge(
        _ jobs: [(id: JobID, wanted: Int32?)], _ connection: inout Connection
    ) throws(PostgresError) {
        var parameters = Parameters()
        parameters.appendArray(.uuid, jobs) { $0.append($1.id) }
        parameters.appendArray(.int32, jobs) { $0.append(int32: $1.wanted) }
        parameters.append(clock.now())
        let done = try connection.execute(Statements.acknowledgeJobs, parameters)
        guard done.rowCount > 0 else { return }
        metrics.acknowledgedJobs.add(Int64(done.rowCount), ordering: .relaxed)
        events.written(isWanted: true)
    }
}

/// Writes reminder events for finished jobs that are not acknowledged, and gives up those whose time is over.
/// Runs on every node and skips rows locked by another node.
struct Reminders {
    private static let batchMax: Int32 = 200

    private let context: StoreContext

    init(_ context: StoreContext) { self.context = context }

    /// Sends all reminders that are due. Errors stop it; the rest stays due.
    func send(_ database: ReconnectingConnection) throws(PostgresError) {
        while !context.chores.isClosed {
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
                if !confirmed.isEmpty { try context.acknowledge(confirmed, &connection) }
            }
            context.metrics.reminders.add(Int64(count - confirmed.count), ordering: .relaxed)
            if count > 0 { context.events.written(isWanted: isWanted) }
            if count < Int(Self.batchMax) { return }
        }
    }
}
