import FerryCore

/// The known claim queues by owner. If there are too many, the tenant with the most loses one to a tenant
/// with fewer; within a tenant, the session with the most loses one. Of a session, the least urgent queue is
/// dropped.
struct ClaimQueueShares: Sendable {
    /// Urgency of a queue's first job; the least urgent sorts first.
    private struct Rank: Comparable, Sendable {
        let head: Timestamp
        static func < (a: Self, b: Self) -> Bool { a.head > b.head }
    }

    /// Number of queues of each tenant, or of each session of a tenant.
    private struct Sizes: Sendable {
        /// Negated counts, so that the largest is first.
        private var counts = RankedHeap<String, Int>()

        var largest: String? { counts.first?.key }

        func count(of name: String) -> Int { -(counts.rank(of: name) ?? 0) }

        mutating func add(_ change: Int, to name: String) {
            let count = count(of: name) + change
            if count == 0 { counts.remove(name) } else { counts.set(name, -count) }
        }

        /// Returns the name that loses a queue to `name`: the one with the most, or `name` itself if the
        /// difference is at most 1.
        func donor(for name: String) -> String {
            guard let largest, count(of: largest) > count(of: name) + 1 else { return name }
            return largest
        }
    }

    private struct Tenant: Sendable {
        var sessions: [String: RankedHeap<Int64, Rank>] = [:]
        var sizes = Sizes()
    }

    private var tenants: [String: Tenant] = [:]
    private var sizes = Sizes()

    /// Returns the number of known queues of the queue's session.
    func sessionCount(of queue: ClaimQueue) -> Int {
        tenants[queue.tenant]?.sizes.count(of: queue.session) ?? 0
    }

    /// Adds a queue. `head`: urgency of its first job.
    mutating func insert(_ queue: ClaimQueue, head: Timestamp) {
        set(queue, head: head)
        tenants[queue.tenant]?.sizes.add(1, to: queue.session)
        sizes.add(1, to: queue.tenant)
    }

    /// Updates the urgency of the first job of a known queue.
    mutating func set(_ queue: ClaimQueue, head: Timestamp) {
        tenants[queue.tenant, default: Tenant()].sessions[queue.session, default: RankedHeap()]
            .set(queue.id, Rank(head: head))
    }

    /// Removes a known queue.
    mutating func remove(_ queue: ClaimQueue) {
        tenants[queue.tenant]?.sessions[queue.session]?.remove(queue.id)
        tenants[queue.tenant]?.sizes.add(-1, to: queue.session)
        sizes.add(-1, to: queue.tenant)
        guard tenants[queue.tenant]?.sessions[queue.session]?.isEmpty == true else { return }
        tenants[queue.tenant]?.sessions[queue.session] = nil
        if tenants[queue.tenant]?.sessions.isEmpty == true { tenants[queue.tenant] = nil }
    }

    /// Returns the queue to drop for a new one, or `nil` if the new one has no better claim to be known.
    func victim(for queue: ClaimQueue, head: Timestamp) -> Int64? {
        let donor = sizes.donor(for: queue.tenant)
        guard let tenant = tenants[donor] else { return nil }
        let session = donor == queue.tenant ? tenant.sizes.donor(for: queue.session) : tenant.sizes.largest
        guard let session, let least = tenant.sessions[session]?.first else { return nil }
        let isOwn = donor == queue.tenant && session == queue.session
        return isOwn && least.rank.head <= head ? nil : least.key
    }
}
