import FerryCore

/// Claimed deliveries and which of them may start: first come first served within a lane, in turn among the
/// lanes of a tenant and among tenants. A slow or dead receiver holds no more than its lane allows, and costs
/// the others nothing; a tenant with very many of them leaves places to the others. No I/O, no clock of its
/// own; one owner.
struct DeliveryBacklog {
    struct Item {
        let delivery: Delivery
        let url: WebURL
        /// Later than this, the lease could end before the try does.
        let startBefore: Timestamp
    }

    /// What a try says about its receiver.
    enum Outcome: Equatable {
        case accepted(duration: Double)
        /// It answers, if not as hoped.
        case refused
        /// It wants nothing more: its endpoint will be disabled.
        case gone
        /// It does not, or asks to be left alone (`retryAfter`, seconds).
        case failed(retryAfter: Double?)
    }

    /// Claimed ahead of what is on its way, in windows.
    private static let windowsAhead = 4
    /// Deliveries of an ordered lane that are claimed together.
    private static let runMax = 16
    /// Seconds after which a lane is forgotten in which nothing happens.
    private static let idleMax = 15.0

    /// Whose lanes take turns. A class as `Lane`.
    private final class Tenant {
        let name: String
        var laneCount = 0
        var waitingWeight = 0
        var inFlightCount = 0
        /// Lanes with something that may start, the next one first.
        var turns = FIFO<Lane>()
        /// In the backlog's `turns`.
        var isReady = false

        init(_ name: String) { self.name = name }
    }

    /// One receiver. A class: its queue must not be copied whenever it changes.
    private final class Lane {
        let tenant: Tenant
        private var items = FIFO<Item>()
        var inFlightCount = 0
        var window = ReceiverWindow()
        var breaker = ReceiverCircuitBreaker()
        var isOrdered = false
        /// The last claim found as much as there was room for.
        var hasMore = false
        /// Since the last claim.
        var claimedCount = 0
        var usedAt: Timestamp
        /// In its tenant's `turns`.
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

        /// For what is handed over as it is made: nothing while older deliveries have to be claimed, and
        /// none to a receiver that is left alone.
        var handRoom: Int {
            if isOrdered || hasMore || breaker.opensAt != nil { return 0 }
            return max(0, window.value * DeliveryBacklog.windowsAhead - heldCount)
        }

        /// Whether what waits was claimed when its endpoint was another one.
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
    /// Tenants with something that may start, the next one first.
    private var turns = FIFO<Tenant>()
    private(set) var waitingCount = 0
    /// Of those, in `Delivery.weight`.
    private(set) var waitingWeight = 0
    private(set) var inFlightCount = 0
    /// Lanes whose `handRoom` may be another one than when it was told last.
    private var changed: Set<ReceiverQueueID> = []
    private var gone: [ReceiverQueueID] = []

    init(concurrency: Int, waitingMax: Int) {
        self.concurrency = concurrency
        self.waitingMax = waitingMax
    }

    // MARK: Claiming

    /// What the next claim may bring; `total`: all lanes together, by their weights.
    func rooms(total: Int, now: Timestamp) -> DeliveryDemand {
        var rooms = DeliveryDemand(
            total: total, lanes: lanes.mapValues { $0.room(now) },
            other: ReceiverWindow.initial * Self.windowsAhead)
        rooms.fullTenants = fullTenants
        return rooms
    }

    /// Of which more waits here than there is room for others.
    private var fullTenants: Set<String> {
        guard waitingWeight * 2 > waitingMax else { return [] }
        return Set(tenants.values.lazy.filter { isFull($0) }.map(\.name))
    }

    private func isFull(_ tenant: Tenant) -> Bool { tenant.waitingWeight > waitingMax - waitingWeight }

    /// Takes in what a claim has brought. `rooms`: what it was allowed to.
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

    /// An item has come (1), or is taken out (-1).
    private mutating func waits(_ item: Item, _ change: Int, _ lane: Lane) {
        waitingCount += change
        waitingWeight += change * item.delivery.weight
        lane.tenant.waitingWeight += change * item.delivery.weight
    }

    /// Takes out everything that waits in a lane.
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

    /// Takes in what was made for this sender. `overflowing`: lanes of which more was made, to be claimed.
    mutating func hand(_ items: [Item], overflowing: Set<ReceiverQueueID>, now: Timestamp) {
        for item in items { _ = append(item, now) }
        for id in overflowing {
            lanes[id]?.hasMore = true
            changed.insert(id)
        }
    }

    /// What can be handed over, of the lanes where that has changed since the last call, and lanes that were
    /// forgotten since then; `total`: all lanes together.
    mutating func takeHandRooms(total: Int) -> (rooms: DeliveryDemand, gone: [ReceiverQueueID]) {
        var rooms = DeliveryDemand(total: total, other: ReceiverWindow.initial * Self.windowsAhead)
        rooms.fullTenants = fullTenants
        for id in changed { if let lane = lanes[id] { rooms.lanes[id] = lane.handRoom } }
        changed = []
        defer { gone = [] }
        return (rooms, gone.filter { lanes[$0] == nil })
    }

    /// The endpoints of lanes that are held, as they are now. Returns what was claimed when they were others:
    /// it has to go back, since its URL or keys may be old ones, or nobody wants it any more.
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

    /// Whether a lane that has more, and may have it, has nearly nothing left here.
    func isHungry(_ id: ReceiverQueueID, _ now: Timestamp) -> Bool {
        guard let lane = lanes[id], lane.hasMore, !isFull(lane.tenant) else { return false }
        return lane.waitingCount < lane.placeCount && lane.room(now) > 0
    }

    /// When the next of the lanes that are left alone may be tried; nil: there is none, or they all may.
    func nextProbe(after now: Timestamp) -> Timestamp? {
        lanes.values.lazy.compactMap { $0.breaker.opensAt }.filter { $0 > now }.min()
    }

    // MARK: Sending

    /// The next delivery to send, already counted as in flight; nil when none may start.
    mutating func next() -> Item? {
        guard inFlightCount < concurrency else { return nil }
        // Once round: whoever has to leave the places to others keeps the turn.
        for _ in 0..<turns.count {
            guard let tenant = turns.popFirst() else { return nil }
            tenant.isReady = false
            let item = mayStart(tenant) ? next(of: tenant) : nil
            makeReady(tenant)
            if let item { return item }
        }
        return nil
    }

    /// The last quarter of the places is for tenants that have less than a quarter of them: whoever comes
    /// finds a place, whatever the others have to wait for.
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

    /// So many more, or fewer, of a lane are in flight.
    private mutating func count(_ change: Int, _ lane: Lane) {
        lane.inFlightCount += change
        lane.tenant.inFlightCount += change
        inFlightCount += change
    }

    /// A delivery that `next` handed out was not sent after all.
    mutating func withdrawn(_ id: ReceiverQueueID) -> [Item] {
        guard let lane = lanes[id] else { return [] }
        changed.insert(id)
        count(-1, lane)
        let returned = lane.isOrdered ? removeAll(lane) : []
        makeReady(lane)
        return returned
    }

    /// The try of a delivery that `next` handed out is over. `endsRun`: it will be tried again, and nothing
    /// of an ordered lane may overtake it. Returns what is not to be sent now, and has to go back.
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

    /// Forgets lanes in which nothing happens.
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

    /// Takes out everything that waits.
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
