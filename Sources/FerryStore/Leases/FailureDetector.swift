import FerryCore

/// Which other nodes are dead, as far as this one can tell.
///
/// A node is dead when its heartbeat has stayed the same for a lease during which this one heard what the
/// others say: by this node's monotonic clock, for the database's may be set at any time, and one server may
/// take over from another. So who has just started counts nobody dead yet. And who was away itself, or whose
/// database was, hears of everybody at once, and of some a moment later: it has heard no more than one late
/// heartbeat meanwhile, and has forgotten what it heard before when that took a lease.
///
/// Fencing rests on this: by the time that a node is dead here it no longer relies on its lease itself, which
/// began when its last heartbeat was sent (`NodeLease`).
struct FailureDetector {
    private struct Node {
        let heartbeat: Timestamp
        /// For how long it has stayed the same.
        var heard: Int64 = 0
    }

    // Nanoseconds.
    private let lease: Int64
    /// Five heartbeats are rarely a lease to the millisecond; their sender has given up long before that.
    private let patience: Int64
    private var lastLook: Int64?
    private var nodes: [NodeID: Node] = [:]

    init(leaseSeconds: Double) {
        lease = Int64(leaseSeconds * 1e9)
        patience = lease - Int64(NodeLease.margin(of: leaseSeconds) / 4 * 1e9)
    }

    /// After each heartbeat that the database has confirmed. `heartbeats`: the last ones of the other nodes,
    /// as they were read before `now`, an instant of the monotonic clock. Returns the dead ones of them.
    mutating func dead(_ heartbeats: [NodeID: Timestamp], at now: Int64) -> [NodeID: Timestamp] {
        let gap = now - (lastLook ?? now)
        lastLook = now
        if gap > lease { nodes = [:] }
        var seen: [NodeID: Node] = [:]
        for (id, heartbeat) in heartbeats {
            var node = Node(heartbeat: heartbeat)
            if let before = nodes[id], before.heartbeat == heartbeat {
                node.heard = before.heard + min(gap, lease / 4)
            }
            seen[id] = node
        }
        nodes = seen
        return heartbeats.filter { (seen[$0.key]?.heard ?? 0) >= patience }
    }
}
