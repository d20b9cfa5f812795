/// A limit in bytes per second that all nodes share.
public struct RateKey: Hashable, Sendable {
    /// Name under which nodes report their demand.
    public let name: String

    /// The bytes that all nodes receive, and send.
    public static let received = RateKey(name: "received")
    public static let sent = RateKey(name: "sent")

    /// The bytes of a session.
    public static func session(_ key: SessionKey) -> RateKey {
        RateKey(name: "session \(key.tenant) \(key.name)")
    }

    /// The bytes of a host with a rate of its own; `origin` is `scheme://host:port`.
    public static func host(_ origin: String) -> RateKey { RateKey(name: "host \(origin)") }
}

/// Number of jobs that move bytes under each limit.
public struct RateDemand: Sendable, Equatable {
    /// The numbers; limits without jobs are left out.
    public private(set) var jobCounts: [RateKey: Int] = [:]

    /// Creates an empty demand.
    public init() {}

    /// The number of jobs under a limit.
    public subscript(key: RateKey) -> Int {
        get { jobCounts[key] ?? 0 }
        set { jobCounts[key] = newValue > 0 ? newValue : nil }
    }

    /// Adds the demand of another node.
    public mutating func add(_ other: RateDemand) {
        for (key, count) in other.jobCounts { self[key] += count }
    }

    /// Returns the smaller of both numbers for each limit.
    public func common(with other: RateDemand) -> RateDemand {
        var common = RateDemand()
        for (key, count) in jobCounts { common[key] = min(count, other[key]) }
        return common
    }

    /// The demand as nodes report it.
    public var json: [UInt8] {
        var writer = JSONWriter(reservingCapacity: 16 + 64 * jobCounts.count)
        writer.beginObject()
        for (key, count) in jobCounts { writer.member(key.name, count) }
        writer.endObject()
        return writer.bytes
    }

    /// Reads `json`; `nil` if it is damaged.
    public init?(json: [UInt8]) {
        // Written by a node; unreadable JSON counts as damaged, like a number out of range.
        guard let members = (try? JSON.parse(json))?.members else { return nil }
        for member in members {
            // No node has more jobs, and sums of such numbers do not overflow.
            guard let count = member.value.integer, (0...1_000_000_000).contains(count) else { return nil }
            self[RateKey(name: member.name)] = Int(count)
        }
    }
}

/// This node's share of each limit that all nodes keep together, in proportion to its jobs.
///
/// The shares add up to at most the limit as long as each node counts no more jobs of its own than the others
/// know of. A node with more jobs gets more only after its heartbeat has reported them; a node with fewer
/// jobs gives up its share at once.
public struct RateShares: Sendable, Equatable {
    /// One part in `evenPart` of each limit is divided evenly, so that a node's first job moves bytes at
    /// once. The share of idle nodes stays unused.
    private static let evenPart: Int64 = 20

    /// Nodes that run attempts, this one included.
    private let nodeCount: Int
    /// Demand of this node as the others know it.
    private let own: RateDemand
    /// Sum of the last demands of the other nodes, or `nil` if not all report it, which makes all shares
    /// equal.
    private let others: RateDemand?

    /// Creates shares; the default is a single node.
    public init(nodeCount: Int = 1, own: RateDemand = RateDemand(), others: RateDemand? = RateDemand()) {
        self.nodeCount = max(1, nodeCount)
        self.own = own
        self.others = others
    }

    /// Returns this node's share of `limit` in bytes per second, at least 1.
    public func part(of limit: Int64, for key: RateKey) -> Int64 {
        guard nodeCount > 1, let others, own[key] + others[key] > 0 else {
            return max(1, limit / Int64(nodeCount))
        }
        let even = limit / Self.evenPart
        let (count, all) = (Int64(own[key]), Int64(own[key] + others[key]))
        // This order avoids overflow.
        let byJobs = (limit - even) / all * count + (limit - even) % all * count / all
        return max(1, even / Int64(nodeCount) + byJobs)
    }
}
