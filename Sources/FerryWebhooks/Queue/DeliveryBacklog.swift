import FerryCore

/// Claimed deliveries, and which of them is sent next: first in, first out within the queue of a receiver; in
/// turn among the receivers of a tenant and among tenants. A slow or unreachable receiver uses no more than
/// its own window. A tenant with very many deliveries leaves requests to others. Does no I/O and reads no
/// clock. Not thread-safe.
struct DeliveryBacklog {
    struct Item {
        let delivery: Delivery
        let url: WebURL
        /// Latest time to start: later, the lease could end before the delivery attempt does.
        let startBefore: Timestamp
    }

    /// Result of a delivery attempt, as it concerns the receiver.
    enum Outcome: Equatable {
        case accepted(duration: Double)
        /// The receiver responds, but did not accept the delivery.
        case refused
        /// The receiver wants no more deliveries (410); its endpoint will be disabled.
        case gone
        /// The receiver does not respond or is overloaded. `retryAfter`: seconds of its `Retry-After`, or
        /// `nil`.
        case failed(retryAfter: Double?)
    }

    /// Deliveries to claim for a receiver, in multiples of its window.
    private static let windowsAhead = 4
    /// Deliveries of an ordered receiver queue that are claimed together.
    private static let runMax = 16
    /// Seconds after which an unused receiver queue is removed.
    private static let idleMax = 15.0

    /// A tenant, whose receiver queues take turns. A class, because its queues refer to it.
    private final class Tenant {
        let name: String
        var queueCount = 0
        var waitingWeight = 0
        var inFlightCount = 0
        /// Receiver queues with a delivery that may start, the next one first.
        var turns = FIFO<ReceiverQueue>()
        /// `true` while the tenant is in `turns` of the backlog.
        var isReady = false

        init(_ name: String) { self.name = name }
    }

    /// The deliveries to one receiver. A class, so that changing it does not copy its items.
    private final class ReceiverQueue {
        let tenant: Tenant
        private var items = FIFO<Item>()
        var inFlightCount = 0
        var window = ReceiverWindow()
        var breaker = ReceiverCircuitBreaker()
        var isOrdered = false
        /// `true` if the last claim returned as many deliveries as it was allowed to.
        var hasMore = false
        /// Deliveries that the current claim has added.
        var claimedCount = 0
        var usedAt: Timestamp
        /// `true` while the queue is in `turns` of its tenant.
        var isReady = false

        init(_ tenant: Tenant, _ now: Timestamp) {
            self.tenant = tenant
            usedAt = now
            tenant.queueCount += 1
        }

        var waitingCount: Int { items.count }
        var heldCount: Int { waitingCount + inFlightCount }
        var requestMax: Int { isOrdered ? 1 : window.value }

        func capacity(_ now: Timestamp) -> Int {
            if let heldMax = breaker.heldMax(now) { return max(0, heldMax - heldCount) }
            if isOrdered { return heldCount == 0 ? DeliveryBacklog.runMax : 0 }
            return max(0, window.value * DeliveryBacklog.windowsAhead - heldCount)
        }

        /// Number of new deliveries that may be leased to this sender when they are created. 0 while older
        /// deliveries have to be claimed first, and while the circuit breaker is open.
        var leaseCapacity: Int {
            if isOrdered || hasMore || breaker.opensAt != nil { return 0 }
            return max(0, window.value * DeliveryBacklog.windowsAhead - heldCount)
        }

        /// `true` if the waiting deliveries were claimed under another revision of their endpoint.
        func isOutdated(_ revision: Int32) -> Bool {
            items.first?.delivery.endpoint.map { $0.revision != revision } ?? false
        }

        func append(_ item: Item) { items.append(item) }
        func popFirst() -> Item? { items.popFirst() }
        func removeAll() -> [Item] { items.removeAll() }
    }

    private let concurrency: Int
    private let waitingMax: Int
    private var queues: [ReceiverQueueID: ReceiverQueue] = [:]
    private var tenants: [String: Tenant] = [:]
    /// Tenants with a delivery that may start, the next one first.
    private var turns = FIFO<Tenant>()
    private(set) var waitingCount = 0
    /// Sum of `Delivery.weight` of the waiting deliveries.
    private(set) var waitingWeight = 0
    private(set) var inFlightCount = 0
    /// Receiver queues whose `leaseCapacity` may have changed since it was last published.
    private var changed: Set<ReceiverQueueID> = []
    private var gone: [ReceiverQueueID] = []

    init(concurrency: Int, waitingMax: Int) {
        self.concurrency = concurrency
        self.waitingMax = waitingMax
    }

    // MARK: Claiming

    /// Returns how many deliveries the next claim may return. `total`: the limit for all receivers together,
    /// by weight.
    func demand(total: Int, now: Timestamp) -> DeliveryDemand {
        var demand = DeliveryDemand(
            total: total, queues: queues.mapValues { $0.capacity(now) },
            other: ReceiverWindow.initial * Self.windowsAhead)
        demand.fullTenants = fullTenants
        return demand
    }

    /// Tenants that have more weight waiting than remains for all others.
    private var fullTenants: Set<String> {
        guard waitingWeight * 2 > waitingMax else { return [] }
        return Set(tenants.values.lazy.filter { isFull($0) }.map(\.name))
    }

    private func isFull(_ tenant: Tenant) -> Bool { tenant.waitingWeight > waitingMax - waitingWeight }

    /// Adds the deliveries of a claim. `demand`: what the claim was allowed to return.
    mutating func add(_ items: [Item], demand: DeliveryDemand, now: Timestamp) {
        for (id, capacity) in demand.queues where capacity > 0 {
            queues[id]?.hasMore = false
            changed.insert(id)
        }
        for item in items { append(item, now).claimedCount += 1 }
        for item in items {
            let id = item.delivery.receiverQueue
            guard let queue = queues[id], queue.claimedCount > 0 else { continue }
            queue.hasMore = queue.claimedCount >= demand.queues[id] ?? demand.other || queue.isOrdered
            queue.claimedCount = 0
        }
    }

    private mutating func append(_ item: Item, _ now: Timestamp) -> ReceiverQueue {
        let id = item.delivery.receiverQueue
        let queue = queues[id] ?? ReceiverQueue(tenant(item.delivery.tenant), now)
        queues[id] = queue
        queue.usedAt = now
        queue.isOrdered = item.delivery.isOrdered
        queue.append(item)
        countWaiting(item, 1, queue)
        changed.insert(id)
        enqueueIfReady(queue)
        return queue
    }

    /// Counts an item that was added (1) or removed (−1).
    private mutating func countWaiting(_ item: Item, _ change: Int, _ queue: ReceiverQueue) {
        waitingCount += change
        waitingWeight += change * item.delivery.weight
        queue.tenant.waitingWeight += change * item.delivery.weight
    }

    /// Removes and returns all waiting deliveries of a receiver.
    private mutating func removeAll(_ queue: ReceiverQueue) -> [Item] {
        let removed = queue.removeAll()
        for item in removed { countWaiting(item, -1, queue) }
        return removed
    }

    private mutating func tenant(_ name: String) -> Tenant {
        let tenant = tenants[name] ?? Tenant(name)
        tenants[name] = tenant
        return tenant
    }

    /// Adds deliveries that were leased to this sender when they were created. `unreserved`: receivers with
    /// further new deliveries, which have to be claimed.
    mutating func addLeased(_ items: [Item], unreserved: Set<ReceiverQueueID>, now: Timestamp) {
        for item in items { _ = append(item, now) }
        for id in unreserved {
            queues[id]?.hasMore = true
            changed.insert(id)
        }
    }

    /// Returns how many new deliveries may be leased to this sender, for receivers where that has changed
    /// since the last call, and the receiver queues that were removed since then. `total`: the limit for all
    /// receivers together.
    mutating func takeChangedDemand(total: Int) -> (demand: DeliveryDemand, gone: [ReceiverQueueID]) {
        var demand = DeliveryDemand(total: total, other: ReceiverWindow.initial * Self.windowsAhead)
        demand.fullTenants = fullTenants
        for id in changed {
            guard let queue = queues[id] else { continue }
            demand.queues[id] = queue.leaseCapacity
            demand.pauses[id] = queue.breaker.opensAt
        }
        changed = []
        defer { gone = [] }
        return (demand, gone.filter { queues[$0] == nil })
    }

    /// Takes the current revisions of endpoints. Returns deliveries that were claimed under another revision:
    /// their URL or keys may be outdated, or the endpoint may be disabled.
    mutating func update(revisions: [ReceiverQueueID: Int32]) -> [Item] {
        var returned: [Item] = []
        for (id, revision) in revisions {
            changed.insert(id)
            guard let queue = queues[id] else { continue }
            queue.breaker.update(revision: revision)
            if queue.isOutdated(revision) { returned += removeAll(queue) }
        }
        return returned
    }

    /// Returns `true` if the receiver has more deliveries to claim and its queue is nearly empty.
    func needsMore(_ id: ReceiverQueueID, _ now: Timestamp) -> Bool {
        guard let queue = queues[id], queue.hasMore, !isFull(queue.tenant) else { return false }
        return queue.waitingCount < queue.requestMax && queue.capacity(now) > 0
    }

    /// Returns when the next open circuit breaker allows a request, or `nil` if none is open after `now`.
    func nextProbe(after now: Timestamp) -> Timestamp? {
        queues.values.lazy.compactMap { $0.breaker.opensAt }.filter { $0 > now }.min()
    }

    // MARK: Sending

    /// Returns the next delivery to send and counts it as in flight, or `nil` if none may start.
    mutating func next() -> Item? {
        guard inFlightCount < concurrency else { return nil }
        // At most one round: a tenant that must leave requests to others keeps its turn.
        for _ in 0..<turns.count {
            guard let tenant = turns.popFirst() else { return nil }
            tenant.isReady = false
            let item = mayStart(tenant) ? next(of: tenant) : nil
            enqueueIfReady(tenant)
            if let item { return item }
        }
        return nil
    }

    /// The last quarter of `concurrency` is for tenants that use less than a quarter, so that a new tenant
    /// never waits for the requests of others.
    private func mayStart(_ tenant: Tenant) -> Bool {
        let share = concurrency / 4
        return tenant.inFlightCount < share || inFlightCount < concurrency - share
    }

    private mutating func next(of tenant: Tenant) -> Item? {
        while let queue = tenant.turns.popFirst() {
            queue.isReady = false
            guard let item = queue.popFirst() else { continue }
            countWaiting(item, -1, queue)
            countInFlight(1, queue)
            enqueueIfReady(queue)
            return item
        }
        return nil
    }

    /// Changes the number of requests in flight.
    private mutating func countInFlight(_ change: Int, _ queue: ReceiverQueue) {
        queue.inFlightCount += change
        queue.tenant.inFlightCount += change
        inFlightCount += change
    }

    /// A delivery that `next` returned was not sent. Returns the waiting deliveries of an ordered queue,
    /// which must not overtake it.
    mutating func withdrawn(_ id: ReceiverQueueID) -> [Item] {
        guard let queue = queues[id] else { return [] }
        changed.insert(id)
        countInFlight(-1, queue)
        let returned = queue.isOrdered ? removeAll(queue) : []
        enqueueIfReady(queue)
        return returned
    }

    /// The attempt of a delivery that `next` returned has ended. `endsRun`: it will be retried, and in an
    /// ordered queue no delivery may overtake it. Returns the deliveries that must not be sent now.
    mutating func finished(
        _ id: ReceiverQueueID, _ outcome: Outcome, endsRun: Bool, now: Timestamp, jitter: Double
    ) -> [Item] {
        guard let queue = queues[id] else { return [] }
        changed.insert(id)
        let wasFull = queue.inFlightCount >= queue.requestMax
        countInFlight(-1, queue)
        queue.usedAt = now
        var hasOpened = false
        switch outcome {
        case .accepted(let duration):
            queue.window.accepted(duration: duration, wasFull: wasFull)
            queue.breaker.succeeded()
        case .refused, .gone: queue.breaker.succeeded()
        case .failed(let retryAfter):
            queue.window.failed()
            hasOpened = queue.breaker.failed(retryAfter: retryAfter, now: now, jitter: jitter)
        }
        var returned: [Item] = []
        if hasOpened || outcome == .gone || (queue.isOrdered && endsRun) {
            returned = removeAll(queue)
        }
        enqueueIfReady(queue)
        return returned
    }

    /// Removes receiver queues that are no longer used.
    mutating func removeIdleQueues(_ now: Timestamp) {
        var (forgotten, left) = ([ReceiverQueueID](), [String]())
        queues = queues.filter { id, queue in
            if queue.heldCount > 0 { return true }
            if let opensAt = queue.breaker.opensAt, now - opensAt < ReceiverCircuitBreaker.pauseMax {
                return true
            }
            if queue.breaker.opensAt == nil, abs(now - queue.usedAt) < Self.idleMax { return true }
            forgotten.append(id)
            queue.tenant.queueCount -= 1
            if queue.tenant.queueCount == 0 { left.append(queue.tenant.name) }
            return false
        }
        gone += forgotten
        for name in left { tenants[name] = nil }
    }

    /// Removes and returns all waiting deliveries.
    mutating func removeWaiting() -> [Item] {
        var removed: [Item] = []
        for queue in queues.values { removed += removeAll(queue) }
        return removed
    }

    private mutating func enqueueIfReady(_ queue: ReceiverQueue) {
        guard !queue.isReady, queue.waitingCount > 0, queue.inFlightCount < queue.requestMax else { return }
        queue.isReady = true
        queue.tenant.turns.append(queue)
        enqueueIfReady(queue.tenant)
    }

    private mutating func enqueueIfReady(_ tenant: Tenant) {
        guard !tenant.isReady, tenant.turns.count > 0 else { return }
        tenant.isReady = true
        turns.append(tenant)
    }
}
