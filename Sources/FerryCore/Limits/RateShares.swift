/// What has a limit in bytes a second that all nodes keep together.
package struct RateKey: Hashable, Sendable {
    /// As nodes tell it to each other.
    package let name: String

    /// What the service receives, and what it sends.
    package static let received = RateKey(name: "received")
    package static let sent = RateKey(name: "sent")

    package static func session(_ key: SessionKey) -> RateKey {
        RateKey(name: "session \(key.tenant) \(key.name)")
    }

    /// A host with a rate of its own: `scheme://host:port`.
    package static func host(_ origin: String) -> RateKey { RateKey(name: "host \(origin)") }
}

/// How many jobs move bytes under each limit.
package struct RateDemand: Sendable, Equatable {
    /// Without those that nobody asks anything of.
    package private(set) var jobCounts: [RateKey: Int] = [:]

    package init() {}

    package subscript(key: RateKey) -> Int {
        get { jobCounts[key] ?? 0 }
        set { jobCounts[key] = newValue > 0 ? newValue : nil }
    }

    /// Of several nodes together.
    package mutating func add(_ other: RateDemand) {
        for (key, count) in other.jobCounts { self[key] += count }
    }

    /// What both ask for.
    package func common(with other: RateDemand) -> RateDemand {
        var common = RateDemand()
        for (key, count) in jobCounts { common[key] = min(count, other[key]) }
        return common
    }

    /// What nodes tell each other.
    package var json: [UInt8] {
        var writer = JSONWriter(reservingCapacity: 16 + 64 * jobCounts.count)
        writer.beginObject()
        for (key, count) in jobCounts { writer.member(key.name, count) }
        writer.endObject()
        return writer.bytes
    }

    /// Reads `json`; nil when it is damaged.
    package init?(json: [UInt8]) {
        guard let members = (try? JSON.parse(json))?.members else { return nil }
        for member in members {
            // No node has more, and sums of them fit.
            guard let count = member.value.integer, (0...1_000_000_000).contains(count) else { return nil }
            self[RateKey(name: member.name)] = Int(count)
        }
    }
}

/// This node's part of each limit that all nodes keep together: as many parts as it has jobs under it.
///
/// The sum over all nodes is no more than the limit as long as each counts with no more of its own jobs than
/// the others know of: one that begins something gets more only when they have heard of it, with a heartbeat
/// of their own, and gives way at once when it has less to do.
package struct RateShares: Sendable, Equatable {
    /// Of each limit one part in so many is not shared by jobs but evenly, so that a node whose first job
    /// begins moves bytes at once; what idle nodes have of it is lost.
    private static let evenPart: Int64 = 20

    /// Nodes that run attempts, this one included.
    private let nodeCount: Int
    /// What the others know of this node.
    private let own: RateDemand
    /// What the other nodes have said lastly, added up; nil: not all say it, and all parts are the same.
    private let others: RateDemand?

    package init(nodeCount: Int = 1, own: RateDemand = RateDemand(), others: RateDemand? = RateDemand()) {
        self.nodeCount = max(1, nodeCount)
        self.own = own
        self.others = others
    }

    /// At least 1.
    package func part(of limit: Int64, for key: RateKey) -> Int64 {
        guard nodeCount > 1, let others, own[key] + others[key] > 0 else {
            return max(1, limit / Int64(nodeCount))
        }
        let even = limit / Self.evenPart
        let (count, all) = (Int64(own[key]), Int64(own[key] + others[key]))
        // In this order nothing overflows.
        let byJobs = (limit - even) / all * count + (limit - even) % all * count / all
        return max(1, even / Int64(nodeCount) + byJobs)
    }
}
