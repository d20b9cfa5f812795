import FerryCore
import Logging
import Postgres
import Synchronization

/// Makes deliveries due again that the senders of dead nodes had claimed.
final class DeliveryReclaimer: Sendable {
    private let context: StoreContext
    private let signals: StoreSignals
    /// Nodes whose deliveries were reclaimed, with their last heartbeats.
    private let done = Mutex<[NodeID: Timestamp]>([:])

    init(_ context: StoreContext, _ signals: StoreSignals) {
        self.context = context
        self.signals = signals
    }

    /// Reclaims deliveries of an earlier process of this node, which did not record their tries. No other
    /// process has this node's identity.
    func reclaimOwn(_ connection: inout Connection) throws(PostgresError) {
        try reclaim(context.configuration.node, &connection)
    }

    /// Reclaims deliveries of dead nodes, once for each last heartbeat. A node's own sender stops earlier
    /// (`Heartbeat.lease`).
    func reclaim(
        of dead: [NodeID: Timestamp], _ database: ReconnectingConnection, lock: Int64
    ) throws(PostgresError) {
        let known = done.withLock { done in
            done = done.filter { dead[$0.key] != nil }
            return done
        }
        for (node, heartbeatAt) in dead where known[node] != heartbeatAt {
            // Not repeated after an error: the deliveries are due again when their lease is over.
            done.withLock { $0[node] = heartbeatAt }
            try database.withConnection { connection throws(PostgresError) in
                try connection.transaction { connection throws(PostgresError) in
                    // Under the lock, so that a node that comes back finds either its heartbeat counted or
                    // its deliveries reclaimed.
                    _ = try connection.execute(Statements.waitForLock, .int64(lock), timeout: .seconds(5))
                    let heartbeats = try connection.execute(
                        Statements.readHeartbeats, .identifier(context.configuration.node),
                        timeout: .seconds(5)
                    ).heartbeats
                    guard heartbeats[node] == heartbeatAt else { return }
                    try reclaim(node, &connection)
                }
            }
        }
    }

    private func reclaim(_ node: NodeID, _ connection: inout Connection) throws(PostgresError) {
        var parameters = Parameters()
        parameters.append(node)
        parameters.append(float64: Limits.deliveryLeaseSeconds)
        let count = try connection.execute(
            Statements.takeBackDeliveries, parameters, timeout: .seconds(5)
        ).int64(0, 0)
        guard count > 0 else { return }
        context.logger.notice(
            "deliveries of a dead node are due again",
            metadata: ["count": "\(count)", "node.id": "\(node)"])
        signals.commitObserver?.deliveriesAdded(Int(count))
    }
}

extension ResultSet {
    /// Heartbeats by node, from rows of read_heartbeats.sql.
    var heartbeats: [NodeID: Timestamp] {
        var all: [NodeID: Timestamp] = [:]
        for row in 0..<rowCount { all[identifier(row, 0)] = instant(row, 1) }
        return all
    }
}
