import FerryCore
import Postgres
import Synchronization
import Sys

/// Transactions that take and return the lease of all permits (`PermitLease`).
enum PermitTransaction {
    /// Takes the lease if this node may begin jobs and no other node is alive; gives it up if one is. Called
    /// after a heartbeat.
    static func settle(_ context: StoreContext, _ database: ReconnectingConnection) throws(PostgresError) {
        let permits = context.connections.permits
        let hasPeers = context.hasPeers.load(ordering: .relaxed)
        if hasPeers { giveUp(context) }
        guard !hasPeers, permits.isAbsent, context.isLeasing.load(ordering: .relaxed) else { return }
        let configuration = context.configuration
        var parameters = Parameters.identifier(configuration.node)
        parameters.append(float64: configuration.leaseSeconds)
        do {
            let isTaken = try database.withConnection { [parameters] connection throws(PostgresError) in
                try connection.transaction { connection throws(PostgresError) in
                    _ = try connection.execute(
                        Statements.waitForLock, .int64(Heartbeat.reclaimLock), timeout: .seconds(5))
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

    /// Payload of the notification that a node has started, whose peers give up the lease.
    static let notification = "permits"

    /// Asks a node that holds the lease to give it up. Called when this node has begun to beat.
    static func ask(_ context: StoreContext, _ connection: inout Connection) throws(PostgresError) {
        guard context.hasPeers.load(ordering: .relaxed) else { return }
        var parameters = Parameters()
        parameters.append(text: notification)
        _ = try connection.execute(Statements.notify, parameters)
    }

    /// Notes that another node has started. The next heartbeat says whether it is alive.
    static func noteStart(_ context: StoreContext) {
        guard context.connections.permits.isHeld else { return }
        context.hasPeers.store(true, ordering: .relaxed)
        giveUp(context)
    }

    private static func giveUp(_ context: StoreContext) {
        let permits = context.connections.permits
        guard permits.isHeld else { return }
        permits.giveUp()
        context.dispatcherWake.withLock { $0 }(nil)
    }

    /// Returns the lease in the database.
    static func giveBack(_ context: StoreContext, _ connection: inout Connection) throws(PostgresError) {
        _ = try connection.execute(Statements.returnPermits, .identifier(context.configuration.node))
    }
}
