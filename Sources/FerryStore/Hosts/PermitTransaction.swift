import FerryCore
import Postgres
import Synchronization
import Sys

/// Takes and returns the lease of all permits (`PermitLease`). Any thread.
struct PermitTransaction: Sendable {
    /// Payload of the notification that a node has started, whose peers give up the lease.
    static let notification = "permits"

    private let context: StoreContext
    private let signals: StoreSignals
    private let nodeState: NodeState
    private let permits: PermitLease

    init(
        _ context: StoreContext, _ signals: StoreSignals, _ nodeState: NodeState, _ permits: PermitLease
    ) {
        self.context = context
        self.signals = signals
        self.nodeState = nodeState
        self.permits = permits
    }

    /// Takes the lease if this node may begin jobs and no other node is alive; gives it up if one is. Called
    /// after a heartbeat. `lock`: the advisory lock that all heartbeats share.
    func settle(_ database: ReconnectingConnection, lock: Int64) throws(PostgresError) {
        let hasPeers = nodeState.hasPeers.load(ordering: .relaxed)
        if hasPeers { giveUp() }
        guard !hasPeers, permits.isAbsent, nodeState.isLeasing.load(ordering: .relaxed) else { return }
        var parameters = Parameters.identifier(context.configuration.node)
        parameters.append(float64: context.configuration.leaseSeconds)
        do {
            let isTaken = try database.withConnection { [parameters] connection throws(PostgresError) in
                try connection.transaction { connection throws(PostgresError) in
                    _ = try connection.execute(
                        Statements.waitForLock, .int64(lock), timeout: .seconds(5))
                    return try connection.execute(Statements.takePermits, parameters).rowCount == 1
                }
            }
            guard isTaken else { return }
            permits.take()
            // Jobs may begin that running rows did not allow to.
            signals.wakeDispatcher()
        } catch {
            if error.isOutcomeUnknown { permits.doubt() }
            throw error
        }
    }

    /// Asks a node that holds the lease to give it up. Called when this node has begun to beat.
    func ask(_ database: ReconnectingConnection) throws(PostgresError) {
        guard nodeState.hasPeers.load(ordering: .relaxed) else { return }
        var parameters = Parameters()
        parameters.append(text: Self.notification)
        _ = try database.withConnection { [parameters] connection throws(PostgresError) in
            try connection.execute(Statements.notify, parameters)
        }
    }

    /// Notes that another node has started. The next heartbeat says whether it is alive.
    func noteStart() {
        guard permits.isHeld else { return }
        nodeState.hasPeers.store(true, ordering: .relaxed)
        giveUp()
    }

    /// Gives the lease up if this node holds it.
    func giveUp() {
        guard permits.isHeld else { return }
        permits.giveUp()
        signals.wakeDispatcher()
    }

    /// Returns the lease in the database.
    static func giveBack(
        _ context: StoreContext, _ connection: inout Connection
    ) throws(PostgresError) {
        _ = try connection.execute(Statements.returnPermits, .identifier(context.configuration.node))
    }
}
