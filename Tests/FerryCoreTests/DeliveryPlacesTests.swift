import FerryCore
import Testing

@Suite("Places for deliveries that are handed over")
struct DeliveryPlacesTests {
    private let a = LaneID(high: 1, low: 1)
    private let b = LaneID(high: 1, low: 2)

    /// Of a lane that is a tenant of its own.
    private func count(_ places: DeliveryPlaces, _ lane: LaneID) -> Int {
        var count = 0
        while places.reserve(lane, of: "\(lane)") { count += 1 }
        places.release(Array(repeating: lane, count: count))
        return count
    }

    @Test("nothing is reserved before the sender's word, and no more than it said: of a lane, of all")
    func reserving() {
        let places = DeliveryPlaces()
        #expect(!places.isOpen && !places.reserve(a, of: "a"))
        places.publish(DeliveryRooms(total: 7, lanes: [a: 3], other: 4))
        #expect(places.isOpen && count(places, a) == 3 && count(places, b) == 4)
        for _ in 0..<3 { #expect(places.reserve(a, of: "a")) }
        #expect(!places.reserve(a, of: "a") && count(places, b) == 3)
        // What is on its way goes on counting until it has arrived.
        places.publish(DeliveryRooms(total: 7, lanes: [a: 2], other: 4))
        #expect(!places.reserve(a, of: "a"))
        places.publish(DeliveryRooms(total: 3, lanes: [a: 1], other: 4), arrived: [a, a, a])
        #expect(count(places, a) == 1 && count(places, b) == 2)
    }

    @Test("no tenant gets more than it leaves to others; one that is full gets nothing")
    func tenants() {
        let places = DeliveryPlaces()
        places.publish(DeliveryRooms(total: 12, other: 100))
        let first = (0..<20).count { _ in places.reserve(a, of: "a") }
        let second = (0..<20).count { _ in places.reserve(b, of: "b") }
        #expect(first == 7 && second == 3)
        places.release(Array(repeating: a, count: first) + Array(repeating: b, count: second))
        var rooms = DeliveryRooms(total: 12, other: 100)
        rooms.fullTenants = ["a"]
        places.publish(rooms)
        #expect(!places.reserve(a, of: "a") && places.reserve(b, of: "b"))
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
