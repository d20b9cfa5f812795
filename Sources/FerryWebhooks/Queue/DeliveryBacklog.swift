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

    /// What a delivery attempt shows about its receiver.
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
        var laneCount = 0
        var waitingWeight = 0
        var inFlightCount = 0
        /// Receiver queues with a delivery that may start, the next one first.
        var turns = FIFO<Lane>()
        /// `true` while the tenant is in `turns` of the backlog.
        var isReady = false

        init(_ name: String) { self.name = name }
    }

    /// The deliveries to one receiver. A class, so that changing it does not copy its items.
    private final class Lane {
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
            tenant.laneCount += 1
        }

        var waitingCount: Int { items.count }
        var heldCount: Int { waitingCount + inFlightCount }
        var placeCount: Int { isOrdered ? 1 : window.value }

        func room(_ now: Timestamp) -> Int {
            if let roomMax = breaker.roomMax(now) { return max(0, roomMax - heldCount) }
            if isOrdered { return heldCount == 0 ? DeliveryBacklog.runMax : 0 }
            return max(0, window.value * DeliveryBacklog.windowsAhead - heldCount)
        }

        /// Number of new deliveries that may be leased to this sender when they are created. 0 while older
        /// deliveries have to be claimed first, and while the circuit breaker is open.
        var handRoom: Int {
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
    private var lanes: [ReceiverQueueID: Lane] = [:]
    private var tenants: [String: Tenant] = [:]
    /// Tenants with a delivery that may start, the next one first.
    private var turns = FIFO<Tenant>()
    private(set) var waitingCount = 0
    /// Sum of `Delivery.weight` of the waiting deliveries.
    private(set) var waitingWeight = 0
    private(set) var inFlightCount = 0
    /// Receiver queues whose `handRoom` may have changed since it was last published.
    private var changed: Set<ReceiverQueueID> = []
    private var gone: [ReceiverQueueID] = []

    init(concurrency: Int, waitingMax: Int) {
        self.concurrency = concurrency
        self.waitingMax = waitingMax
    }

    // MARK: Claiming

    /// Returns how many deliveries the next claim may return. `total`: the limit for all receivers together,
    /// by weight.
    func rooms(total: Int, now: Timestamp) -> DeliveryDemand {
        var rooms = DeliveryDemand(
            total: total, lanes: lanes.mapValues { $0.room(now) },
            other: ReceiverWindow.initial * Self.windowsAhead)
        rooms.fullTenants = fullTenants
        return rooms
    }

    /// Tenants that have more weight waiting than remains for all others.
    private var fullTenants: Set<String> {
        guard waitingWeight * 2 > waitingMax else { return [] }
        return Set(tenants.values.lazy.filter { isFull($0) }.map(\.name))
    }

    private func isFull(_ tenant: Tenant) -> Bool { tenant.waitingWeight > waitingMax - waitingWeight }

    /// Adds the deliveries of a claim. `rooms`: what the claim was allowed to return.
    mutating func add(_ items: [Item], rooms: DeliveryDemand, now: Timestamp) {
        for (id, room) in rooms.lanes where room > 0 {
            lanes[id]?.hasMore = false
            changed.insert(id)
        }
        for item in items { append(item, now).claimedCount += 1 }
        for item in items {
            guard let lane = lanes[item.delivery.lane], lane.claimedCount > 0 else { continue }
            lane.hasMore =
                lane.claimedCount >= rooms.lanes[item.delivery.lane] ?? rooms.other || lane.isOrdered
            lane.claimedCount = 0
        }
    }

    private mutating func append(_ item: Item, _ now: Timestamp) -> Lane {
        let id = item.delivery.lane
        let lane = lanes[id] ?? Lane(tenant(item.delivery.tenant), now)
        lanes[id] = lane
        lane.usedAt = now
        lane.isOrdered = item.delivery.isOrdered
        lane.append(item)
        waits(item, 1, lane)
        changed.insert(id)
        makeReady(lane)
        return lane
    }

    /// Counts an item that was added (1) or removed (−1).
    private mutating func waits(_ item: Item, _ change: Int, _ lane: Lane) {
        waitingCount += change
        waitingWeight += change * item.delivery.weight
        lane.tenant.waitingWeight += change * item.delivery.weight
    }

    /// Removes and returns all waiting deliveries of a receiver.
    private mutating func removeAll(_ lane: Lane) -> [Item] {
        let removed = lane.removeAll()
        for item in removed { waits(item, -1, lane) }
        return removed
    }

    private mutating func tenant(_ name: String) -> Tenant {
        let tenant = tenants[name] ?? Tenant(name)
        tenants[name] = tenant
        return tenant
    }

    /// Adds deliveries that were leased to this sender when they were created. `overflowing`: receivers with
    /// further new deliveries, which have to be claimed.
    mutating func hand(_ items: [Item], overflowing: Set<ReceiverQueueID>, now: Timestamp) {
        for item in items { _ = append(item, now) }
        for id in overflowing {
            lanes[id]?.hasMore = true
            changed.insert(id)
        }
    }

    /// Returns how many new deliveries may be leased to this sender, for receivers where that has changed
    /// since the last call, and the receiver queues that were removed since then. `total`: the limit for all
    /// receivers together.
    mutating func takeHandRooms(total: Int) -> (rooms: DeliveryDemand, gone: [ReceiverQueueID]) {
        var rooms = DeliveryDemand(total: total, other: ReceiverWindow.initial * Self.windowsAhead)
        rooms.fullTenants = fullTenants
        for id in changed { if let lane = lanes[id] { rooms.lanes[id] = lane.handRoom } }
        changed = []
        defer { gone = [] }
        return (rooms, gone.filter { lanes[$0] == nil })
    }

    /// Takes the current revisions of endpoints. Returns deliveries that were claimed under another revision:
    /// their URL or keys may be outdated, or the endpoint may be disabled.
    mutating func note(_ revisions: [ReceiverQueueID: Int32]) -> [Item] {
        var returned: [Item] = []
        for (id, revision) in revisions {
            changed.insert(id)
            guard let lane = lanes[id] else { continue }
            lane.breaker.note(revision: revision)
            if lane.isOutdated(revision) { returned += removeAll(lane) }
        }
        return returned
    }

    /// Returns `true` if the receiver has more deliveries to claim and its queue is nearly empty.
    func isHungry(_ id: ReceiverQueueID, _ now: Timestamp) -> Bool {
        guard let lane = lanes[id], lane.hasMore, !isFull(lane.tenant) else { return false }
        return lane.waitingCount < lane.placeCount && lane.room(now) > 0
    }

    /// Returns when the next open circuit breaker allows a request, or `nil` if none is open after `now`.
    func nextProbe(after now: Timestamp) -> Timestamp? {
        lanes.values.lazy.compactMap { $0.breaker.opensAt }.filter { $0 > now }.min()
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
            makeReady(tenant)
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
        while let lane = tenant.turns.popFirst() {
            lane.isReady = false
            guard let item = lane.popFirst() else { continue }
            waits(item, -1, lane)
            count(1, lane)
            makeReady(lane)
            return item
        }
        return nil
    }

    /// Changes the number of requests in flight.
    private mutating func count(_ change: Int, _ lane: Lane) {
        lane.inFlightCount += change
        lane.tenant.inFlightCount += change
        inFlightCount += change
    }

    /// A delivery that `next` returned was not sent. Returns the waiting deliveries of an ordered queue,
    /// which must not overtake it.
    mutating func withdrawn(_ id: ReceiverQueueID) -> [Item] {
        guard let lane = lanes[id] else { return [] }
        changed.insert(id)
        count(-1, lane)
        let returned = lane.isOrdered ? removeAll(lane) : []
        makeReady(lane)
        return returned
    }

    /// The attempt of a delivery that `next` returned has ended. `endsRun`: it will be retried, and in an
    /// ordered queue no delivery may overtake it. Returns the deliveries that must not be sent now.
    mutating func finished(
        _ id: ReceiverQueueID, _ outcome: Outcome, endsRun: Bool, now: Timestamp, jitter: Double
    ) -> [Item] {
        guard let lane = lanes[id] else { return [] }
        changed.insert(id)
        let wasFull = lane.inFlightCount >= lane.placeCount
        count(-1, lane)
        lane.usedAt = now
        var hasOpened = false
        switch outcome {
        case .accepted(let duration):
            lane.window.accepted(duration: duration, wasFull: wasFull)
            lane.breaker.answered()
        case .refused, .gone: lane.breaker.answered()
        case .failed(let retryAfter):
            lane.window.failed()
            hasOpened = lane.breaker.failed(retryAfter: retryAfter, now: now, jitter: jitter)
        }
        var returned: [Item] = []
        if hasOpened || outcome == .gone || (lane.isOrdered && endsRun) {
            returned = removeAll(lane)
        }
        makeReady(lane)
        return returned
    }

    /// Removes receiver queues that are no longer used.
    mutating func tidy(_ now: Timestamp) {
        var (forgotten, left) = ([ReceiverQueueID](), [String]())
        lanes = lanes.filter { id, lane in
            if lane.heldCount > 0 { return true }
            if let opensAt = lane.breaker.opensAt, now - opensAt < ReceiverCircuitBreaker.pauseMax {
                return true
            }
            if lane.breaker.opensAt == nil, abs(now - lane.usedAt) < Self.idleMax { return true }
            forgotten.append(id)
            lane.tenant.laneCount -= 1
            if lane.tenant.laneCount == 0 { left.append(lane.tenant.name) }
            return false
        }
        gone += forgotten
        for name in left { tenants[name] = nil }
    }

    /// Removes and returns all waiting deliveries.
    mutating func removeWaiting() -> [Item] {
        var removed: [Item] = []
        for lane in lanes.values { removed += removeAll(lane) }
        return removed
    }

    private mutating func makeReady(_ lane: Lane) {
        guard !lane.isReady, lane.waitingCount > 0, lane.inFlightCount < lane.placeCount else { return }
        lane.isReady = true
        lane.tenant.turns.append(lane)
        makeReady(lane.tenant)
    }

    private mutating func makeReady(_ tenant: Tenant) {
        guard !tenant.isReady, tenant.turns.count > 0 else { return }
        tenant.isReady = true
        turns.append(tenant)
    }
}
