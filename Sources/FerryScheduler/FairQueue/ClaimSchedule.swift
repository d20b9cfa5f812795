package import FerryCore

/// Queued jobs that are claimed together: those of a session; those of one origin in a session if something
/// limits the origin; those of one path of that origin if the path has a limit of its own. Jobs that only one
/// node can do have queues of their own.
package struct ClaimQueue: Sendable, Hashable {
    /// Row number of the queue in the database.
    package let id: Int64
    package let tenant: String
    package let session: String
    /// `scheme://host:port`, or `nil` for all origins without a limit.
    package let origin: String?
    /// `RequestScope.path` of the jobs; empty for all paths without a limit of their own.
    package let path: String
    /// The only node that can do the jobs, or `nil` if every node can.
    package let home: NodeID?

    /// Creates a queue.
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

/// Decides which queues the next jobs are claimed from. Tenants get equal shares, the sessions of a tenant
/// get shares by weight, and within a session the queue with the most urgent first job is next. Shares are of
/// slot time: each job is charged the mean duration of its session's recent jobs, and the charge is corrected
/// when the job ends.
///
/// A value without clock or I/O: it knows which queues may have jobs, not the jobs.
package struct ClaimSchedule: Sendable {
    /// A number of jobs to claim from one queue.
    package struct Request: Sendable, Equatable {
        /// The queue.
        package let queue: ClaimQueue
        /// Number of jobs to claim.
        package let count: Int
        /// Seconds of slot time charged for each job.
        package let cost: Double
    }

    /// Jobs that a claim has found in a queue.
    package enum Depth: Sendable, Equatable {
        /// The queue may have more jobs.
        case more
        /// The queue has no more jobs.
        case empty
        /// No job of the queue can be claimed before this time.
        case blocked(until: Timestamp)
    }

    /// Minimum number of steps in which a plan distributes its jobs.
    private static let stepCount = 16

    private struct Known {
        let queue: ClaimQueue
        var head: Timestamp
        /// Largest number of jobs that can be claimed at once, or `nil` if there is no limit.
        var limit: Int?
        /// The widest scope that limits the queue's requests, or `nil` if none does.
        var limited: HostScope?
    }
    private struct Session {
        var weight = 1.0
        /// Queues by the urgency of their first job.
        var ready = RankedHeap<Int64, Timestamp>()
    }
    private struct Tenant {
        var shares = FairShares<String>()
        var sessions: [String: Session] = [:]
    }

    private let queueCountMax: Int
    private var costs = SlotCosts()
    private var known: [Int64: Known] = [:]
    private var owners = ClaimQueueShares()
    private var tenants: [String: Tenant] = [:]
    private var shares = FairShares<String>()
    /// Blocked queues by the time at which they become ready.
    private var blocked = RankedHeap<Int64, Timestamp>()
    /// The queues of each origin, blocked or not.
    private var queuesOfOrigin: [String: Set<Int64>] = [:]

    /// `queueCountMax`: largest number of known queues; 50,000 take about 30 MB. If there are more, tenants
    /// and sessions with the most lose some; a later search finds those again.
    package init(queueCountMax: Int = 50_000) { self.queueCountMax = queueCountMax }

    /// `true` if no queue is known.
    package var isEmpty: Bool { known.isEmpty }
    /// Number of known queues.
    package var count: Int { known.count }
    /// `true` if a queue is not blocked.
    package var hasReady: Bool { !shares.isEmpty }
    /// `true` if a queue of an origin is known, blocked or not: its jobs wait for the origin's limits.
    package var hasQueueOfOrigin: Bool { !queuesOfOrigin.isEmpty }
    /// Number of queues that are not blocked.
    package var readyCount: Int { known.count - blocked.count }
    /// Time at which the next blocked queue becomes ready, or `nil` if none is blocked.
    package var nextWake: Timestamp? { blocked.first?.rank }
    /// Tenants with a queue that is not blocked.
    package var readyTenants: [String] { tenants.filter { !$0.value.shares.isEmpty }.map(\.key) }
    /// Returns `true` if the tenant has a queue that is not blocked.
    package func isReady(_ tenant: String) -> Bool { tenants[tenant].map { !$0.shares.isEmpty } ?? false }
    /// Returns `true` if a queue of the session and origin is known, blocked or not.
    package func hasQueue(tenant: String, session: String, origin: String) -> Bool {
        queuesOfOrigin[origin]?.contains {
            known[$0].map { $0.queue.tenant == tenant && $0.queue.session == session } ?? false
        } ?? false
    }
    /// Returns `true` if the queue is known.
    package func knows(_ queue: Int64) -> Bool { known[queue] != nil }

    // MARK: Queues

    /// Adds a queue that may have jobs, or updates it. `head`: urgency of its first job; `weight`: of its
    /// session; `limit`: largest number of jobs that can be claimed at once; `limited`: the widest scope that
    /// limits its requests, or `nil` if only the session does. A blocked queue stays blocked. If too many
    /// queues are known, another one is dropped and returned, or the new one is not added.
    @discardableResult
    package mutating func add(
        _ queue: ClaimQueue, head: Timestamp, weight: Double = 1, limit: Int? = nil, limited: HostScope? = nil
    ) -> Int64? {
        var victim: Int64?
        if let before = known[queue.id] {
            known[queue.id]?.limit = limit
            known[queue.id]?.limited = limited
            if head < before.head { setHead(of: queue, head) }
        } else {
            if known.count >= queueCountMax {
                victim = owners.victim(for: queue, head: head)
                guard let victim else { return nil }
                remove(victim)
            }
            known[queue.id] = Known(queue: queue, head: head, limit: limit, limited: limited)
            owners.insert(queue, head: head)
            if let origin = queue.origin { queuesOfOrigin[origin, default: []].insert(queue.id) }
        }
        tenants[queue.tenant, default: Tenant()].sessions[queue.session, default: Session()].weight = weight
        if !blocked.contains(queue.id) { makeReady(queue.id) }
        return victim
    }

    /// Blocks a queue until `instant`.
    package mutating func block(_ id: Int64, until instant: Timestamp) {
        guard let entry = known[id] else { return }
        setAside(entry.queue)
        blocked.set(id, instant)
    }

    /// Blocks all queues of a tenant until `instant`.
    package mutating func block(tenant: String, until instant: Timestamp) {
        guard isReady(tenant) else { return }
        for (id, entry) in known where entry.queue.tenant == tenant && !blocked.contains(id) {
            block(id, until: instant)
        }
    }

    /// Blocks all queues of a scope of the origin until `instant`.
    package mutating func block(origin: String, _ scope: HostScope, until instant: Timestamp) {
        for id in queuesOfOrigin[origin] ?? [] where !blocked.contains(id) {
            guard let queue = known[id]?.queue, scope.contains(tenant: queue.tenant, path: queue.path) else {
                continue
            }
            block(id, until: instant)
        }
    }

    /// Removes a queue: this node can claim nothing from it, or it was dropped for another one.
    package mutating func remove(_ id: Int64) {
        guard let entry = known[id] else { return }
        _ = blocked.remove(id)
        forget(entry.queue)
    }

    /// Makes a blocked queue ready, unless its block ends before `instant`.
    package mutating func unblock(_ id: Int64, unlessBefore instant: Timestamp) {
        guard let until = blocked.rank(of: id), until >= instant else { return }
        unblock(id)
    }

    /// Makes the blocked queues of an origin ready after one of its requests has ended, except those for
    /// which `isHeld` returns `true`.
    package mutating func wake(origin: String, unless isHeld: (ClaimQueue) -> Bool = { _ in false }) {
        guard !blocked.isEmpty, let queues = queuesOfOrigin[origin] else { return }
        for id in queues {
            if let queue = known[id]?.queue, isHeld(queue) { continue }
            unblock(id)
        }
    }

    /// Makes the blocked queues ready whose block has ended.
    package mutating func wake(at now: Timestamp) {
        while let (queue, instant) = blocked.first, instant <= now { unblock(queue) }
    }

    // MARK: Claims

    /// Plans the claim of up to `count` jobs: each queue appears once, and of the queues that one scope of an
    /// origin limits together, or one tenant's requests to the origin, at most one. Every returned request
    /// must be settled.
    package mutating func plan(_ count: Int) -> [Request] {
        if known.count == 1, let only = known.values.first {
            return planAlone(only, count)
        }
        var counts: [Int64: Int] = [:]
        var prices: [Int64: Double] = [:]
        var order: [Int64] = []
        var limited: Set<OriginScope> = []
        // Set aside until the plan is made.
        var aside: [Int64] = []
        var left = count
        while left > 0, let tenant = shares.next, let session = tenants[tenant]?.shares.next,
            let id = tenants[tenant]?.sessions[session]?.ready.first?.key, let next = known[id]
        {
            let before = counts[id] ?? 0
            if before == 0, let origin = next.queue.origin,
                !limited.insert(
                    OriginScope(origin: origin, scope: next.limited ?? HostScope(tenant: next.queue.tenant))
                ).inserted
            {
                setAside(next.queue)
                aside.append(id)
                continue
            }
            if before == 0 {
                order.append(id)
                prices[id] = costs.cost(of: next.queue)
            }
            // Several jobs a step, so that a large claim is not decided job by job.
            let taken = max(1, min(left / Self.stepCount, (next.limit ?? .max) - before))
            counts[id] = before + taken
            left -= taken
            charge(next.queue, Double(taken) * (prices[id] ?? 0))
            if let limit = next.limit, before + taken >= limit {
                setAside(next.queue)
                aside.append(id)
            }
        }
        for id in aside { makeReady(id) }
        return order.compactMap { id in
            known[id].map { Request(queue: $0.queue, count: counts[id] ?? 0, cost: prices[id] ?? 0) }
        }
    }

    private mutating func planAlone(_ only: Known, _ count: Int) -> [Request] {
        guard hasReady, count > 0 else { return [] }
        let cost = costs.cost(of: only.queue)
        let request = Request(queue: only.queue, count: max(1, min(count, only.limit ?? count)), cost: cost)
        // In two steps: a queue added now starts at the virtual time of this queue's last job, not before all
        // of its jobs.
        charge(only.queue, Double(request.count - 1) * cost)
        charge(only.queue, cost)
        return [request]
    }

    /// Records the result of a request. `head`: lower bound of the urgency of the next job, or `nil` if not
    /// known.
    package mutating func settle(_ request: Request, claimed: Int, _ depth: Depth, head: Timestamp? = nil) {
        if claimed < request.count { charge(request.queue, Double(claimed - request.count) * request.cost) }
        let id = request.queue.id
        guard known[id] != nil else { return }
        if let head { setHead(of: request.queue, head) }
        switch depth {
        case .more: makeReady(id)
        case .empty: forget(request.queue)
        case .blocked(let instant): block(id, until: instant)
        }
    }

    /// Corrects the charge of a job that held a slot for `seconds`. `charged`: the `cost` of its request, or
    /// `nil` if the job was leased without one because nothing else wanted the slot.
    package mutating func ended(tenant: String, session: String, seconds: Double, charged: Double?) {
        costs.note(tenant: tenant, session: session, seconds: seconds)
        guard let charged else { return }
        let more = SlotCosts.bounded(seconds) - charged
        shares.correct(tenant, more, most: SlotCosts.correctionMax)
        let weight = tenants[tenant]?.sessions[session]?.weight ?? 1
        tenants[tenant]?.shares.correct(session, more / weight, most: SlotCosts.correctionMax / weight)
    }

    // MARK: Private

    private mutating func setHead(of queue: ClaimQueue, _ head: Timestamp) {
        known[queue.id]?.head = head
        owners.set(queue, head: head)
    }

    private mutating func charge(_ queue: ClaimQueue, _ seconds: Double) {
        let weight = tenants[queue.tenant]?.sessions[queue.session]?.weight ?? 1
        shares.charge(queue.tenant, seconds)
        tenants[queue.tenant]?.shares.charge(queue.session, seconds / weight)
    }

    private mutating func makeReady(_ id: Int64) {
        guard let entry = known[id] else { return }
        let queue = entry.queue
        tenants[queue.tenant, default: Tenant()].sessions[queue.session, default: Session()].ready
            .set(id, entry.head)
        tenants[queue.tenant]?.shares.insert(queue.session)
        shares.insert(queue.tenant)
    }

    private mutating func unblock(_ id: Int64) {
        if blocked.remove(id) != nil { makeReady(id) }
    }

    /// Removes a queue from the ready ones, and its session and tenant with their last ready queue.
    private mutating func setAside(_ queue: ClaimQueue) {
        tenants[queue.tenant]?.sessions[queue.session]?.ready.remove(queue.id)
        guard tenants[queue.tenant]?.sessions[queue.session]?.ready.isEmpty == true else { return }
        tenants[queue.tenant]?.shares.remove(queue.session)
        if tenants[queue.tenant]?.shares.isEmpty == true { shares.remove(queue.tenant) }
    }

    private mutating func forget(_ queue: ClaimQueue) {
        setAside(queue)
        known[queue.id] = nil
        owners.remove(queue)
        if let origin = queue.origin {
            queuesOfOrigin[origin]?.remove(queue.id)
            if queuesOfOrigin[origin]?.isEmpty == true { queuesOfOrigin[origin] = nil }
        }
        guard owners.sessionCount(of: queue) == 0 else { return }
        tenants[queue.tenant]?.sessions[queue.session] = nil
        if tenants[queue.tenant]?.sessions.isEmpty == true { tenants[queue.tenant] = nil }
    }
}
