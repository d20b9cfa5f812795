import FerryCore

/// Whose the lots are that are known. When there are too many, those who have the most give one up for those
/// who have fewer: first tenants, then the sessions of a tenant; of a session the most urgent stay.
struct ClaimQueueShares: Sendable {
    /// The least urgent first.
    private struct Rank: Comparable, Sendable {
        let head: Timestamp
        static func < (a: Self, b: Self) -> Bool { a.head > b.head }
    }

    /// How many lots each has.
    private struct Sizes: Sendable {
        /// Negative, so that the most come first.
        private var counts = RankedHeap<String, Int>()

        var largest: String? { counts.first?.key }

        func count(of name: String) -> Int { -(counts.rank(of: name) ?? 0) }

        mutating func add(_ change: Int, to name: String) {
            let count = count(of: name) + change
            if count == 0 { counts.remove(name) } else { counts.set(name, -count) }
        }

        /// Who gives one up for `name`: who has the most, or itself where that would even nothing out.
        func giver(for name: String) -> String {
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

    /// How many lots of the lot's session are known.
    func sessionCount(of lot: ClaimQueue) -> Int { tenants[lot.tenant]?.sizes.count(of: lot.session) ?? 0 }

    /// One more is known, its first job as urgent as `head`.
    mutating func insert(_ lot: ClaimQueue, head: Timestamp) {
        set(lot, head: head)
        tenants[lot.tenant]?.sizes.add(1, to: lot.session)
        sizes.add(1, to: lot.tenant)
    }

    /// The first job of one that is known is as urgent as `head`.
    mutating func set(_ lot: ClaimQueue, head: Timestamp) {
        tenants[lot.tenant, default: Tenant()].sessions[lot.session, default: RankedHeap()]
            .set(lot.id, Rank(head: head))
    }

    /// It is known no more.
    mutating func remove(_ lot: ClaimQueue) {
        tenants[lot.tenant]?.sessions[lot.session]?.remove(lot.id)
        tenants[lot.tenant]?.sizes.add(-1, to: lot.session)
        sizes.add(-1, to: lot.tenant)
        guard tenants[lot.tenant]?.sessions[lot.session]?.isEmpty == true else { return }
        tenants[lot.tenant]?.sessions[lot.session] = nil
        if tenants[lot.tenant]?.sessions.isEmpty == true { tenants[lot.tenant] = nil }
    }

    /// Which one is to be forgotten for one that is not known; nil: that one has no better right to be.
    func victim(for lot: ClaimQueue, head: Timestamp) -> Int64? {
        let giver = sizes.giver(for: lot.tenant)
        guard let tenant = tenants[giver] else { return nil }
        let session = giver == lot.tenant ? tenant.sizes.giver(for: lot.session) : tenant.sizes.largest
        guard let session, let least = tenant.sessions[session]?.first else { return nil }
        let isOwn = giver == lot.tenant && session == lot.session
        return isOwn && least.rank.head <= head ? nil : least.key
    }
}
