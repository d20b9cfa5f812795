import FerryCore

/// Claimed deliveries and which of them may start: first come first served within one origin, in turn among
/// origins. A slow origin holds no more than it can take, and costs the others nothing. No I/O, no clock; one
/// owner.
struct DeliveryBacklog {
    struct Item {
        let delivery: Delivery
        let url: WebURL
        /// Later than this, the lease could end before the try does.
        let startBefore: Timestamp
    }

    /// One origin. A class: its queue must not be copied whenever it changes.
    private final class Lane {
        private var items: [Item] = []
        private var head = 0
        var inFlightCount = 0
        /// Tries that ended since the last tick.
        var finishedCount = 0
        /// All its places were taken at the last tick.
        var wasFull = false
        /// At most this many may wait; grows back when the lane is no longer full.
        var waitingMax = Int.max
        /// In `turns`.
        var isReady = false

        var waitingCount: Int { items.count - head }

        func append(_ item: Item) { items.append(item) }

        func popFirst() -> Item? {
            guard head < items.count else { return nil }
            defer {
                head += 1
                if head * 2 >= items.count {
                    items.removeFirst(head)
                    head = 0
                }
            }
            return items[head]
        }

        func removeLast(_ count: Int) { items.removeLast(count) }

        func removeAll() {
            items = []
            head = 0
        }
    }

    private let concurrency: Int
    private let concurrencyPerOrigin: Int
    private var lanes: [String: Lane] = [:]
    /// Origins with something that may start, the next one first.
    private var turns: [String] = []
    private(set) var waitingCount = 0
    private(set) var inFlightCount = 0

    init(concurrency: Int, concurrencyPerOrigin: Int) {
        self.concurrency = concurrency
        self.concurrencyPerOrigin = concurrencyPerOrigin
    }

    /// Takes a delivery in; false when its origin has more than it can take already.
    mutating func add(_ item: Item) -> Bool {
        let origin = item.url.origin
        let lane = lanes[origin] ?? Lane()
        guard lane.waitingCount < lane.waitingMax else { return false }
        lanes[origin] = lane
        lane.append(item)
        waitingCount += 1
        makeReady(lane, origin)
        return true
    }

    /// The next delivery to send, already counted as in flight; nil when none may start.
    mutating func next() -> Item? {
        guard inFlightCount < concurrency, !turns.isEmpty else { return nil }
        let origin = turns.removeFirst()
        guard let lane = lanes[origin], let item = lane.popFirst() else { return nil }
        lane.isReady = false
        lane.inFlightCount += 1
        waitingCount -= 1
        inFlightCount += 1
        makeReady(lane, origin)
        return item
    }

    /// The try of a delivery that `next` handed out is over.
    mutating func finished(origin: String) {
        guard let lane = lanes[origin] else { return }
        lane.inFlightCount -= 1
        lane.finishedCount += 1
        inFlightCount -= 1
        makeReady(lane, origin)
        if lane.inFlightCount == 0, lane.waitingCount == 0 { lanes[origin] = nil }
    }

    /// Once a second. An origin whose places stay taken and that finishes little keeps only what it can take
    /// in `horizon` seconds at its pace. Returns how many deliveries were dropped, the last come first.
    mutating func tick(horizon: Int) -> Int {
        var droppedCount = 0
        for lane in lanes.values {
            let isFull = lane.inFlightCount >= concurrencyPerOrigin
            // A lane that has just filled up has had no second to show its pace.
            lane.waitingMax =
                isFull && lane.wasFull ? max(concurrencyPerOrigin, lane.finishedCount * horizon) : Int.max
            lane.wasFull = isFull
            lane.finishedCount = 0
            let excess = max(0, lane.waitingCount - lane.waitingMax)
            lane.removeLast(excess)
            droppedCount += excess
        }
        waitingCount -= droppedCount
        return droppedCount
    }

    /// Drops everything that waits.
    mutating func removeWaiting() {
        for lane in lanes.values {
            lane.removeAll()
            lane.isReady = false
        }
        lanes = lanes.filter { $0.value.inFlightCount > 0 }
        turns = []
        waitingCount = 0
    }

    private mutating func makeReady(_ lane: Lane, _ origin: String) {
        guard !lane.isReady, lane.waitingCount > 0, lane.inFlightCount < concurrencyPerOrigin else { return }
        lane.isReady = true
        turns.append(origin)
    }
}
