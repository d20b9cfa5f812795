package import FerryCore

/// Queued jobs that are claimed together: those of a session, or those of one origin in a session when
/// something limits them, or those of one path there when the path is limited by itself. Jobs that one node
/// alone can do have lots of their own.
package struct ClaimQueue: Sendable, Hashable {
    package let id: Int64
    package let tenant: String
    package let session: String
    /// `scheme://host:port`; nil: every origin that nothing limits.
    package let origin: String?
    /// `RequestScope.path` of its jobs. Empty: every path that is not limited by itself.
    package let path: String
    /// The only node that can do them; nil: any.
    package let home: NodeID?

    package init(
        id: Int64, tenant: String, session: String, origin: String? = nil, path: String = "",
        home: NodeID? = nil
    ) {
        self.path = path
        self.home = home
        self.id = id
        self.tenant = tenant
        self.session = session
        self.origin = origin
    }
}

/// From which lots the next jobs are claimed: tenants get equal shares, the sessions of a tenant shares by
/// their weights, and within a session the lot goes first whose first job is the most urgent. Shares are of
/// slots' time: each job is charged for as long as its session's took lately, and set right when it ends.
///
/// A value without a clock: knows what may queue, not what queues.
package struct ClaimSchedule: Sendable {
    package struct Ask: Sendable, Equatable {
        package let lot: ClaimQueue
        package let count: Int
        /// Seconds of a slot that each was charged for.
        package let cost: Double
    }

    /// What a claim has found out about a lot.
    package enum Depth: Sendable, Equatable {
        /// There may be more.
        case more
        case empty
        /// Nothing of it can be claimed before.
        case blocked(until: Timestamp)
    }

    /// Into how many steps a plan is cut, at least.
    private static let stepCount = 16

    private struct Known {
        let lot: ClaimQueue
        var head: Timestamp
        /// The most that it can give at once.
        var limit: Int?
        /// The widest scope that limits its requests.
        var limited: HostScope?
    }
    private struct Session {
        var weight = 1.0
        /// By the urgency of their first job.
        var ready = RankedHeap<Int64, Timestamp>()
    }
    private struct Tenant {
        var shares = FairShares<String>()
        var sessions: [String: Session] = [:]
    }

    private let lotCountMax: Int
    private var costs = SlotCosts()
    private var known: [Int64: Known] = [:]
    private var crowd = ClaimQueueShares()
    private var tenants: [String: Tenant] = [:]
    private var shares = FairShares<String>()
    /// Blocked lots, by the time at which they are tried again.
    private var blocked = RankedHeap<Int64, Timestamp>()
    /// Those that belong to one origin, blocked or not.
    private var lotsOf: [String: Set<Int64>] = [:]

    /// `lotCountMax`: lots that are known at once, about 30 MB. Who has the most of them gives the others up;
    /// a look finds them again.
    package init(lotCountMax: Int = 50_000) { self.lotCountMax = lotCountMax }

    package var isEmpty: Bool { known.isEmpty }
    package var count: Int { known.count }
    /// Whether anything may be claimed, blocked lots aside.
    package var hasReady: Bool { !shares.isEmpty }
    /// Lots that are not blocked.
    package var readyCount: Int { known.count - blocked.count }
    /// When the next blocked lot is tried again.
    package var nextWake: Timestamp? { blocked.first?.rank }
    package func knows(_ lot: Int64) -> Bool { known[lot] != nil }

    // MARK: What queues

    /// The lot may have queued jobs, the first of them as urgent as `head`. `weight`: of its session.
    /// `limit`: what it can give at once. `limited`: the widest scope that limits its requests, or `nil` if
    /// only its session does. A blocked lot stays blocked. When too many are known, another one is forgotten
    /// for it, which is returned, or it is not taken in.
    @discardableResult
    package mutating func add(
        _ lot: ClaimQueue, head: Timestamp, weight: Double = 1, limit: Int? = nil, limited: HostScope? = nil
    ) -> Int64? {
        var victim: Int64?
        if let before = known[lot.id] {
            known[lot.id]?.limit = limit
            known[lot.id]?.limited = limited
            if head < before.head { setHead(of: lot, head) }
        } else {
            if known.count >= lotCountMax {
                victim = crowd.victim(for: lot, head: head)
                guard let victim else { return nil }
                remove(victim)
            }
            known[lot.id] = Known(lot: lot, head: head, limit: limit, limited: limited)
            crowd.insert(lot, head: head)
            if let origin = lot.origin { lotsOf[origin, default: []].insert(lot.id) }
        }
        tenants[lot.tenant, default: Tenant()].sessions[lot.session, default: Session()].weight = weight
        if !blocked.contains(lot.id) { makeReady(lot.id) }
        return victim
    }

    /// Nothing of the lot can be claimed before.
    package mutating func block(_ id: Int64, until instant: Timestamp) {
        guard let entry = known[id] else { return }
        setAside(entry.lot)
        blocked.set(id, instant)
    }

    /// Nothing of a scope of the origin can be claimed before, whatever the lot.
    package mutating func block(origin: String, _ scope: HostScope, until instant: Timestamp) {
        for id in lotsOf[origin] ?? [] where !blocked.contains(id) {
            guard let lot = known[id]?.lot, scope.contains(tenant: lot.tenant, path: lot.path) else {
                continue
            }
            block(id, until: instant)
        }
    }

    /// Nothing of the lot can be claimed here, or it is given up for another one.
    package mutating func remove(_ id: Int64) {
        guard let entry = known[id] else { return }
        _ = blocked.remove(id)
        forget(entry.lot)
    }

    /// Nothing blocks the lot any more. `instant`: one that is tried again before that stays blocked.
    package mutating func unblock(_ id: Int64, unlessBefore instant: Timestamp) {
        guard let until = blocked.rank(of: id), until >= instant else { return }
        unblock(id)
    }

    /// Blocked lots of an origin are tried again: one of its requests has ended. `isHeld`: whether nothing of
    /// a lot may begin all the same.
    package mutating func wake(origin: String, unless isHeld: (ClaimQueue) -> Bool = { _ in false }) {
        guard !blocked.isEmpty, let lots = lotsOf[origin] else { return }
        for id in lots {
            if let lot = known[id]?.lot, isHeld(lot) { continue }
            unblock(id)
        }
    }

    /// Blocked lots whose time has come are tried again.
    package mutating func wake(at now: Timestamp) {
        while let (lot, instant) = blocked.first, instant <= now { unblock(lot) }
    }

    // MARK: Claims

    /// From where up to `count` jobs are to be claimed, each lot once, and at most one of those that a scope
    /// of an origin limits together, or of a tenant's there. Everything that is returned has to be settled.
    package mutating func plan(_ count: Int) -> [Ask] {
        if known.count == 1, let only = known.values.first {
            return planAlone(only, count)
        }
        var counts: [Int64: Int] = [:]
        var prices: [Int64: Double] = [:]
        var order: [Int64] = []
        var limited: Set<OriginScope> = []
        // Out of the way until the plan is made.
        var aside: [Int64] = []
        var left = count
        while left > 0, let tenant = shares.next, let session = tenants[tenant]?.shares.next,
            let id = tenants[tenant]?.sessions[session]?.ready.first?.key, let next = known[id]
        {
            let before = counts[id] ?? 0
            if before == 0, let origin = next.lot.origin,
                !limited.insert(
                    OriginScope(origin: origin, scope: next.limited ?? HostScope(tenant: next.lot.tenant))
                ).inserted
            {
                setAside(next.lot)
                aside.append(id)
                continue
            }
            if before == 0 {
                order.append(id)
                prices[id] = costs.cost(of: next.lot)
            }
            // Several at a time, so that a large claim is not decided job by job.
            let taken = max(1, min(left / Self.stepCount, (next.limit ?? .max) - before))
            counts[id] = before + taken
            left -= taken
            charge(next.lot, Double(taken) * (prices[id] ?? 0))
            if let limit = next.limit, before + taken >= limit {
                setAside(next.lot)
                aside.append(id)
            }
        }
        for id in aside { makeReady(id) }
        return order.compactMap { id in
            known[id].map { Ask(lot: $0.lot, count: counts[id] ?? 0, cost: prices[id] ?? 0) }
        }
    }

    private mutating func planAlone(_ only: Known, _ count: Int) -> [Ask] {
        guard hasReady, count > 0 else { return [] }
        let cost = costs.cost(of: only.lot)
        let ask = Ask(lot: only.lot, count: max(1, min(count, only.limit ?? count)), cost: cost)
        // In two steps, so that who comes now starts where this one will be, and not before all of it.
        charge(only.lot, Double(ask.count - 1) * cost)
        charge(only.lot, cost)
        return [ask]
    }

    /// What became of an ask. `head`: how urgent its next job is at most.
    package mutating func settle(_ ask: Ask, claimed: Int, _ depth: Depth, head: Timestamp? = nil) {
        if claimed < ask.count { charge(ask.lot, Double(claimed - ask.count) * ask.cost) }
        let id = ask.lot.id
        guard known[id] != nil else { return }
        if let head { setHead(of: ask.lot, head) }
        switch depth {
        case .more: makeReady(id)
        case .empty: forget(ask.lot)
        case .blocked(let instant): block(id, until: instant)
        }
    }

    /// A job of the session has held a slot for so many seconds. `charged`: its ask's `cost`; nil: it was
    /// leased without an ask, when nothing else wanted its slot.
    package mutating func ended(tenant: String, session: String, seconds: Double, charged: Double?) {
        costs.note(tenant: tenant, session: session, seconds: seconds)
        guard let charged else { return }
        let more = SlotCosts.bounded(seconds) - charged
        shares.correct(tenant, more, most: SlotCosts.correctionMax)
        let weight = tenants[tenant]?.sessions[session]?.weight ?? 1
        tenants[tenant]?.shares.correct(session, more / weight, most: SlotCosts.correctionMax / weight)
    }

    // MARK: Pieces

    private mutating func setHead(of lot: ClaimQueue, _ head: Timestamp) {
        known[lot.id]?.head = head
        crowd.set(lot, head: head)
    }

    private mutating func charge(_ lot: ClaimQueue, _ seconds: Double) {
        let weight = tenants[lot.tenant]?.sessions[lot.session]?.weight ?? 1
        shares.charge(lot.tenant, seconds)
        tenants[lot.tenant]?.shares.charge(lot.session, seconds / weight)
    }

    private mutating func makeReady(_ id: Int64) {
        guard let entry = known[id] else { return }
        let lot = entry.lot
        tenants[lot.tenant, default: Tenant()].sessions[lot.session, default: Session()].ready
            .set(id, entry.head)
        tenants[lot.tenant]?.shares.insert(lot.session)
        shares.insert(lot.tenant)
    }

    private mutating func unblock(_ id: Int64) {
        if blocked.remove(id) != nil { makeReady(id) }
    }

    /// Takes a lot out of those that are ready, and its session and tenant with the last one.
    private mutating func setAside(_ lot: ClaimQueue) {
        tenants[lot.tenant]?.sessions[lot.session]?.ready.remove(lot.id)
        guard tenants[lot.tenant]?.sessions[lot.session]?.ready.isEmpty == true else { return }
        tenants[lot.tenant]?.shares.remove(lot.session)
        if tenants[lot.tenant]?.shares.isEmpty == true { shares.remove(lot.tenant) }
    }

    private mutating func forget(_ lot: ClaimQueue) {
        setAside(lot)
        known[lot.id] = nil
        crowd.remove(lot)
        if let origin = lot.origin {
            lotsOf[origin]?.remove(lot.id)
            if lotsOf[origin]?.isEmpty == true { lotsOf[origin] = nil }
        }
        guard crowd.sessionCount(of: lot) == 0 else { return }
        tenants[lot.tenant]?.sessions[lot.session] = nil
        if tenants[lot.tenant]?.sessions.isEmpty == true { tenants[lot.tenant] = nil }
    }
}
