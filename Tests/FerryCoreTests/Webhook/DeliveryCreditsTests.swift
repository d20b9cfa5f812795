import FerryCore
import Testing

@Suite("Delivery credits")
struct DeliveryCreditsTests {
    private let a = ReceiverQueueID(high: 1, low: 1)
    private let b = ReceiverQueueID(high: 1, low: 2)

    /// Returns a delivery to a receiver of its own tenant.
    private func delivery(_ queue: ReceiverQueueID, weight: Int = 1) -> Delivery {
        Delivery(
            id: DeliveryID(high: 1, low: 1), receiverQueue: queue, event: EventID(high: 1, low: 1),
            type: "job.succeeded", tenant: "\(queue)", session: "s", job: nil, sequence: 1,
            occurredAt: Timestamp(microseconds: 0), url: "http://a/", secret: nil,
            jobJSON: Array(repeating: 0, count: (weight - 1) * Limits.deliveryWeightByteCount),
            traceparent: nil, tryNumber: 1)
    }

    private func deliveries(_ queue: ReceiverQueueID, _ count: Int) -> [Delivery] {
        Array(repeating: delivery(queue), count: count)
    }

    private func count(_ credits: DeliveryCredits, _ queue: ReceiverQueueID) -> Int {
        var count = 0
        while credits.reserve(delivery(queue)) { count += 1 }
        credits.release(deliveries(queue, count))
        return count
    }

    @Test("nothing is reserved before the sender publishes its demand, and no more than the demand")
    func reserving() {
        let credits = DeliveryCredits()
        #expect(!credits.isOpen && !credits.reserve(delivery(a)))
        credits.publish(DeliveryDemand(total: 7, queues: [a: 3], other: 4))
        #expect(credits.isOpen && count(credits, a) == 3 && count(credits, b) == 4)
        for _ in 0..<3 { #expect(credits.reserve(delivery(a))) }
        #expect(!credits.reserve(delivery(a)) && count(credits, b) == 3)
        // A delivery on its way counts until it has arrived.
        credits.publish(DeliveryDemand(total: 7, queues: [a: 2], other: 4))
        #expect(!credits.reserve(delivery(a)))
        credits.publish(DeliveryDemand(total: 3, queues: [a: 1], other: 4), arrived: deliveries(a, 3))
        #expect(count(credits, a) == 1 && count(credits, b) == 2)
    }

    @Test("a receiver is paused until its circuit breaker closes, or the sender forgets it")
    func pauses() {
        let (credits, until) = (DeliveryCredits(), Timestamp(microseconds: 5))
        var demand = DeliveryDemand(total: 7, queues: [a: 0], other: 4)
        demand.pauses = [a: until]
        credits.publish(demand)
        #expect(credits.pausedUntil(a) == until && credits.pausedUntil(b) == nil)
        // A demand without the receiver changes nothing.
        credits.publish(DeliveryDemand(total: 7, queues: [b: 1], other: 4))
        #expect(credits.pausedUntil(a) == until)
        credits.publish(DeliveryDemand(total: 7, queues: [a: 3], other: 4))
        #expect(credits.pausedUntil(a) == nil)
        credits.publish(demand)
        credits.publish(DeliveryDemand(total: 7, other: 4), gone: [a])
        #expect(credits.pausedUntil(a) == nil)
    }

    @Test("no tenant gets more than it leaves for others; a full tenant gets nothing")
    func tenants() {
        let credits = DeliveryCredits()
        credits.publish(DeliveryDemand(total: 12, other: 100))
        let first = (0..<20).count { _ in credits.reserve(delivery(a)) }
        let second = (0..<20).count { _ in credits.reserve(delivery(b)) }
        #expect(first == 7 && second == 3)
        credits.release(deliveries(a, first) + deliveries(b, second))
        var demand = DeliveryDemand(total: 12, other: 100)
        demand.fullTenants = ["\(a)"]
        credits.publish(demand)
        #expect(!credits.reserve(delivery(a)) && credits.reserve(delivery(b)))
    }

    @Test("a reservation counts one for its receiver and its weight in total, until arrival or release")
    func weights() {
        let credits = DeliveryCredits()
        let heavy = delivery(a, weight: 7)
        credits.publish(DeliveryDemand(total: 20, queues: [a: 2], other: 100))
        #expect(credits.reserve(heavy) && credits.reserve(heavy) && !credits.reserve(heavy))
        #expect(!credits.reserve(delivery(b, weight: 7)), "six are left")
        #expect(credits.reserve(delivery(b, weight: 6)) && !credits.isOpen)
        credits.release([delivery(b, weight: 6)])
        #expect(count(credits, b) == 4, "no more than it leaves for others")
        credits.publish(DeliveryDemand(total: 20, queues: [a: 2], other: 100), arrived: [heavy, heavy])
        #expect(credits.reserve(delivery(b, weight: 20)) && !credits.isOpen)
    }

    @Test("a receiver that the sender no longer knows counts as any other; a closed one gets nothing")
    func forgetting() {
        let credits = DeliveryCredits()
        credits.publish(DeliveryDemand(total: 9, queues: [a: 0], other: 4))
        #expect(count(credits, a) == 0)
        credits.publish(DeliveryDemand(total: 9, other: 4), gone: [a])
        #expect(count(credits, a) == 4)
        credits.publish(DeliveryDemand(total: 0, other: 4))
        #expect(!credits.isOpen && count(credits, b) == 0)
    }
}
