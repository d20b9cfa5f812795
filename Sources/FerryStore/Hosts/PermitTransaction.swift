import FerryCore
import Postgres

/// Transactions that take and return the lease of all permits (`PermitLease`).
enum PermitTransaction {
    /// Takes the lease if this node may begin jobs and no other node is alive; gives it up if one is. Called
    /// after a heartbeat.
    static func settle(_ context: StoreContext, _ database: ReconnectingConnection) throws(PostgresError) {
        let permits = context.connections.permits
        let hasPeers = context.hasPeers.load(ordering: .relaxed)
        if hasPeers, permits.isHeld {
            permits.giveUp()
            context.dispatcherWake.withLock { $0 }(nil)
        }
        guard !hasPeers, permits.isAbsent, context.isLeasing.load(ordering: .relaxed) else { return }
        let configuration = context.configuration
        var parameters = Parameters.identifier(configuration.node)
        parameters.append(float64: configuration.leaseSeconds)
        do {
            let isTaken = try database.withConnection { [parameters] connection throws(PostgresError) in
                try connection.transaction { connection throws(PostgresError) in
                    _ = try connection.execute(
                        Statements.lockRescue, .int64(Heartbeat.rescueLock), timeout: .seconds(5))
                    return try connection.execute(Statements.takePermits, parameters).rowCount == 1
                }
            }
            guard isTaken else { return }
            permits.take()
            // Jobs may begin that running rows did not allow to.
            context.dispatcherWake.withLock { $0 }(nil)
        } catch {
            if error.isOutcomeUnknown { permits.doubt() }
            throw error
        }
    }

    /// Returns the lease in the database.
    static func giveBack(_ context: StoreContext, _ connection: inout Connection) throws(PostgresError) {
        _ = try connection.execute(Statements.returnPermits, .identifier(context.configuration.node))
    }
}
