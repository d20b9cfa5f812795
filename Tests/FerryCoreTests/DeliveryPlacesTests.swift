import FerryCore
import Testing

@Suite("Places for deliveries that are handed over")
struct DeliveryPlacesTests {
    private let a = LaneID(high: 1, low: 1)
    private let b = LaneID(high: 1, low: 2)

    private func count(_ places: DeliveryPlaces, _ lane: LaneID) -> Int {
        var count = 0
        while places.reserve(lane) { count += 1 }
        places.release(Array(repeating: lane, count: count))
        return count
    }

    @Test("nothing is reserved before the sender's word, and no more than it said: of a lane, of all")
    func reserving() {
        let places = DeliveryPlaces()
        #expect(!places.isOpen && !places.reserve(a))
        places.publish(DeliveryRooms(total: 5, lanes: [a: 3], other: 4))
        #expect(places.isOpen && count(places, a) == 3 && count(places, b) == 4)
        for _ in 0..<3 { #expect(places.reserve(a)) }
        #expect(!places.reserve(a) && count(places, b) == 2)
        // What is on its way goes on counting until it has arrived.
        places.publish(DeliveryRooms(total: 5, lanes: [a: 2], other: 4))
        #expect(!places.reserve(a))
        places.publish(DeliveryRooms(total: 2, lanes: [a: 1], other: 4), arrived: [a, a, a])
        #expect(count(places, a) == 1 && count(places, b) == 2)
    }

    @Test("a lane that the sender has forgotten is one like any other; a closed one gets nothing")
    func forgetting() {
        let places = DeliveryPlaces()
        places.publish(DeliveryRooms(total: 9, lanes: [a: 0], other: 4))
        #expect(count(places, a) == 0)
        places.publish(DeliveryRooms(total: 9, other: 4), gone: [a])
        #expect(count(places, a) == 4)
        places.publish(DeliveryRooms(total: 0, other: 4))
        #expect(!places.isOpen && count(places, b) == 0)
    }
}
