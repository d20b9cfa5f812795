package import FerryCore

/// The order in which the held jobs of a node begin: by urgency, from the pools that have a free connection.
/// A pool without one is set aside, and does not delay the others. A pure value.
package struct HeldOrder: Sendable {
    /// Place of a job in the order, the most urgent first.
    package struct Rank: Comparable, Sendable {
        package let urgency: Timestamp
        package let job: JobID

        /// Creates a rank.
        package init(urgency: Timestamp, job: JobID) {
            self.urgency = urgency
            self.job = job
        }

        package static func < (a: Rank, b: Rank) -> Bool { (a.urgency, a.job) < (b.urgency, b.job) }
    }

    /// The jobs of each pool; the next one is the last one.
    private var queues: [ConnectionPool: [Rank]] = [:]
    /// Pools that are not set aside, by their next job.
    private var ready = RankedHeap<ConnectionPool, Rank>()
    private var aside: Set<ConnectionPool> = []

    /// Creates an empty order.
    package init() {}

    /// The next job with its pool; `nil` if all pools are set aside.
    package var next: (pool: ConnectionPool, job: JobID)? {
        ready.first.map { ($0.key, $0.rank.job) }
    }

    /// Returns `true` if a job of the pool is held.
    package func contains(_ pool: ConnectionPool) -> Bool { queues[pool] != nil }

    /// Returns the rank of the least urgent job of the pool; `nil` if none is held.
    package func last(of pool: ConnectionPool) -> Rank? { queues[pool]?.first }

    /// `true` if a pool is set aside.
    package var hasAside: Bool { !aside.isEmpty }

    /// Number of jobs by tenant, without those of pools that are set aside.
    package var readyCounts: [String: Int] {
        var counts: [String: Int] = [:]
        for (pool, ranks) in queues where !aside.contains(pool) {
            counts[pool.tenant, default: 0] += ranks.count
        }
        return counts
    }

    /// Adds jobs, which need not be in order.
    package mutating func insert(_ added: [Rank], in pool: ConnectionPool) {
        guard !added.isEmpty else { return }
        let added = added.sorted(by: >)
        var ranks = queues.removeValue(forKey: pool) ?? []
        if let first = ranks.first, let least = added.last {
            if least > first {
                ranks.insert(contentsOf: added, at: 0)
            } else {
                ranks = (ranks + added).sorted(by: >)
            }
        } else {
            ranks = added
        }
        if let next = ranks.last, !aside.contains(pool) { ready.set(pool, next) }
        queues[pool] = ranks
    }

    /// Removes a job.
    package mutating func remove(_ rank: Rank, in pool: ConnectionPool) {
        guard var ranks = queues.removeValue(forKey: pool) else { return }
        if ranks.last == rank {
            ranks.removeLast()
        } else if let index = Self.index(of: rank, in: ranks) {
            ranks.remove(at: index)
        }
        guard let next = ranks.last else {
            aside.remove(pool)
            ready.remove(pool)
            return
        }
        if !aside.contains(pool) { ready.set(pool, next) }
        queues[pool] = ranks
    }

    private static func index(of rank: Rank, in ranks: [Rank]) -> Int? {
        var (low, high) = (0, ranks.count)
        while low < high {
            let middle = (low + high) / 2
            if ranks[middle] > rank { low = middle + 1 } else { high = middle }
        }
        return low < ranks.count && ranks[low] == rank ? low : nil
    }

    /// Sets a pool aside that has no free connection.
    package mutating func setAside(_ pool: ConnectionPool) {
        guard queues[pool] != nil else { return }
        aside.insert(pool)
        ready.remove(pool)
    }

    /// Takes a pool that was set aside in again. Returns `false` if none of its jobs is held.
    @discardableResult
    package mutating func takeIn(_ pool: ConnectionPool) -> Bool {
        guard let next = queues[pool]?.last else { return false }
        if aside.remove(pool) != nil { ready.set(pool, next) }
        return true
    }

    /// Takes all pools in again.
    package mutating func takeInAll() {
        for pool in aside { if let next = queues[pool]?.last { ready.set(pool, next) } }
        aside = []
    }
}
