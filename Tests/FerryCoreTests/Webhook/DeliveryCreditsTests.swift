import FerryCore
import Testing

@Suite("Delivery credits")
struct DeliveryCreditsTests {
    private let a = ReceiverQueueID(high: 1, low: 1)
    private let b = ReceiverQueueID(high: 1, low: 2)

    /// Returns a delivery to a receiver of its own tenant.
    private func delivery(_ lane: ReceiverQueueID, weight: Int = 1) -> Delivery {
        Delivery(
            id: DeliveryID(high: 1, low: 1), lane: lane, event: EventID(high: 1, low: 1),
            type: "job.succeeded", tenant: "\(lane)", session: "s", job: nil, sequence: 1,
            occurredAt: Timestamp(microseconds: 0), url: "http://a/", secret: nil,
            jobJSON: Array(repeating: 0, count: (weight - 1) * Limits.deliveryWeightByteCount),
            traceparent: nil, tryNumber: 1)
    }

    private func deliveries(_ lane: ReceiverQueueID, _ count: Int) -> [Delivery] {
        Array(repeating: delivery(lane), count: count)
    }

    private func count(_ places: DeliveryCredits, _ lane: ReceiverQueueID) -> Int {
        var count = 0
        while places.reserve(delivery(lane)) { count += 1 }
        places.release(deliveries(lane, count))
        return count
    }

    @Test("nothing is reserved before the sender publishes its demand, and no more than the demand")
    func reserving() {
        let places = DeliveryCredits()
        #expect(!places.isOpen && !places.reserve(delivery(a)))
        places.publish(DeliveryDemand(total: 7, lanes: [a: 3], other: 4))
        #expect(places.isOpen && count(places, a) == 3 && count(places, b) == 4)
        for _ in 0..<3 { #expect(places.reserve(delivery(a))) }
        #expect(!places.reserve(delivery(a)) && count(places, b) == 3)
        // A delivery on its way counts until it has arrived.
        places.publish(DeliveryDemand(total: 7, lanes: [a: 2], other: 4))
        #expect(!places.reserve(delivery(a)))
        places.publish(DeliveryDemand(total: 3, lanes: [a: 1], other: 4), arrived: deliveries(a, 3))
        #expect(count(places, a) == 1 && count(places, b) == 2)
    }

    @Test("no tenant gets more than it leaves for others; a full tenant gets nothing")
    func tenants() {
        let places = DeliveryCredits()
        places.publish(DeliveryDemand(total: 12, other: 100))
        let first = (0..<20).count { _ in places.reserve(delivery(a)) }
        let second = (0..<20).count { _ in places.reserve(delivery(b)) }
        #expect(first == 7 && second == 3)
        places.release(deliveries(a, first) + deliveries(b, second))
        var rooms = DeliveryDemand(total: 12, other: 100)
        rooms.fullTenants = ["\(a)"]
        places.publish(rooms)
        #expect(!places.reserve(delivery(a)) && places.reserve(delivery(b)))
    }

    @Test("a reservation counts one for its receiver and its weight in total, until arrival or release")
    func weights() {
        let places = DeliveryCredits()
        let heavy = delivery(a, weight: 7)
        places.publish(DeliveryDemand(total: 20, lanes: [a: 2], other: 100))
        #expect(places.reserve(heavy) && places.reserve(heavy) && !places.reserve(heavy))
        #expect(!places.reserve(delivery(b, weight: 7)), "six are left")
        #expect(places.reserve(delivery(b, weight: 6)) && !places.isOpen)
        places.release([delivery(b, weight: 6)])
        #expect(count(places, b) == 4, "no more than it leaves for others")
        places.publish(DeliveryDemand(total: 20, lanes: [a: 2], other: 100), arrived: [heavy, heavy])
        #expect(places.reserve(delivery(b, weight: 20)) && !places.isOpen)
    }

    @Test("a receiver that the sender no longer knows counts as any other; a closed one gets nothing")
    func forgetting() {
        let places = DeliveryCredits()
        places.publish(DeliveryDemand(total: 9, lanes: [a: 0], other: 4))
        #expect(count(places, a) == 0)
        places.publish(DeliveryDemand(total: 9, other: 4), gone: [a])
        #expect(count(places, a) == 4)
        places.publish(DeliveryDemand(total: 0, other: 4))
        #expect(!places.isOpen && count(places, b) == 0)
    }
}
