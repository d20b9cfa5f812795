package import FerryCore
import Postgres
import Synchronization

/// The other nodes, their addresses and their last heartbeats. Any thread.
package final class PeerDirectory: Sendable {
    private let reads: ReadPool
    private let nodeState: NodeState
    /// Seconds without a heartbeat after which a node has lost its jobs.
    package let leaseSeconds: Double

    init(_ reads: ReadPool, _ nodeState: NodeState, leaseSeconds: Double) {
        self.reads = reads
        self.nodeState = nodeState
        self.leaseSeconds = leaseSeconds
    }

    /// The other nodes as of this node's last heartbeat.
    package var all: [PeerNode] { nodeState.peers.withLock { Array($0.values) } }

    /// Replies with a node: as of this node's last heartbeat, or from the database if the node is newer or
    /// has left. `notFound` if there was no such node for a long time.
    package func peer(_ id: NodeID, reply: @escaping Reply<PeerNode>) {
        if let known = nodeState.peers.withLock({ $0[id] }) { return reply(.success(known)) }
        reads.read("peer", of: .service, reply) { connection throws(PostgresError) in
            let rows = try connection.execute(Statements.readPeer, .identifier(id))
            guard rows.rowCount > 0 else { return .failure(.notFound) }
            return .success(PeerNode(rows, 0, hasLeft: rows.bool(0, 4)))
        }
    }
}

extension ResultSet {
    /// The nodes, from rows of read_heartbeats.sql.
    var peers: [NodeID: PeerNode] {
        var peers: [NodeID: PeerNode] = [:]
        for row in 0..<rowCount {
            let peer = PeerNode(self, row, hasLeft: false)
            peers[peer.id] = peer
        }
        return peers
    }
}

extension PeerNode {
    /// Reads the columns that read_heartbeats.sql and read_peer.sql have in common.
    fileprivate init(_ rows: borrowing ResultSet, _ row: Int, hasLeft: Bool) {
        self.init(
            id: rows.identifier(row, 0), url: rows.textOrNil(row, 2), heartbeatAt: rows.instant(row, 1),
            isWorker: rows.bool(row, 3), hasLeft: hasLeft)
    }
}
