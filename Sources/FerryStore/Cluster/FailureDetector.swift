import FerryCore

/// Decides which other nodes are dead.
///
/// A node is dead if its heartbeat stays the same for a lease during which this node reads heartbeats. This
/// node's monotonic clock measures the time: the database's clock may be set at any time, and another server
/// may take over. So a node that has just started finds no other node dead yet. Each read counts for at most
/// a quarter of a lease: after an outage of this node or its database, the other nodes have time to beat
/// again. After a gap of more than a lease the count starts anew.
///
/// Fencing rests on this: a node that is found dead no longer relies on its own lease, which began when its
/// last heartbeat was sent (`NodeLease`).
struct FailureDetector {
    private struct Node {
        let heartbeat: Timestamp
        /// Nanoseconds for which the heartbeat has stayed the same.
        var unchangedFor: Int64 = 0
    }

    // Nanoseconds.
    private let lease: Int64
    /// A little less than a lease: five heartbeats rarely take a lease to the millisecond. The dead node has
    /// stopped relying on its lease well before.
    private let deadAfter: Int64
    private var lastRead: Int64?
    private var nodes: [NodeID: Node] = [:]

    init(leaseSeconds: Double) {
        lease = Int64(leaseSeconds * 1e9)
        deadAfter = lease - Int64(NodeLease.margin(of: leaseSeconds) / 4 * 1e9)
    }

    /// Returns the dead nodes with their last heartbeats. Call after each confirmed heartbeat of this node.
    /// `heartbeats` are the last ones of the other nodes, read before the monotonic instant `now`.
    mutating func dead(_ heartbeats: [NodeID: Timestamp], at now: Int64) -> [NodeID: Timestamp] {
        let gap = now - (lastRead ?? now)
        lastRead = now
        if gap > lease { nodes = [:] }
        var seen: [NodeID: Node] = [:]
        for (id, heartbeat) in heartbeats {
            var node = Node(heartbeat: heartbeat)
            if let before = nodes[id], before.heartbeat == heartbeat {
                node.unchangedFor = before.unchangedFor + min(gap, lease / 4)
            }
            seen[id] = node
        }
        nodes = seen
        return heartbeats.filter { (seen[$0.key]?.unchangedFor ?? 0) >= deadAfter }
    }
}
