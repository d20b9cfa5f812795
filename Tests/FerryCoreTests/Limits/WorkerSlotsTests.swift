import FerryCore
import Testing

@Suite("Slots")
struct SlotLedgerTests {
    @Test("a slot that is lent is somebody else's until it is needed again")
    func lent() {
        let slots = WorkerSlots(capacity: 2)
        #expect(slots.reserve(upTo: 5) == 2 && slots.freeCount == 0)
        #expect(slots.lend(for: "https://a") && slots.lend(for: "https://b"))
        #expect(slots.freeCount == 2 && slots.busyCount == 0 && slots.lentCount == 2)
        #expect(slots.leaseCount == 2, "their leases are held all the same")
        #expect(slots.reserve(upTo: 5) == 2)
        // It needs it, and there is none.
        slots.takeBack(for: "https://a")
        #expect(slots.busyCount == 3 && slots.freeCount == 0 && slots.reserve(upTo: 1) == 0)
        slots.end(1)
        #expect(slots.freeCount == 0 && slots.begin(upTo: 1) == 0)
        slots.end(1)
        #expect(slots.busyCount == 1 && slots.begin(upTo: 2) == 1)
        slots.end(1)
        slots.takeBack(for: "https://b")
        slots.end(2)
        slots.settle(4)
        #expect(slots.freeCount == 2 && slots.leaseCount == 0 && slots.lentCount == 0)
    }

    @Test(
        "one origin lends a few, and all together no more than",
        arguments: [(4, 64), (100, 1_024), (2_000, 2_000)])
    func bounds(capacity: Int, most: Int) {
        let slots = WorkerSlots(capacity: capacity)
        for _ in 0..<WorkerSlots.lentOfOriginMax { #expect(slots.lend(for: "https://a")) }
        #expect(!slots.lend(for: "https://a"))
        for number in WorkerSlots.lentOfOriginMax..<most {
            #expect(slots.lend(for: "https://\(number)"))
        }
        #expect(!slots.lend(for: "https://b"))
        slots.takeBack(for: "https://a")
        #expect(slots.lend(for: "https://a") && !slots.lend(for: "https://b"))
    }

    @Test("slots are scarce when as many attempts run as half of them are for, whoever has lent one")
    func scarcity() {
        let slots = WorkerSlots(capacity: 4)
        #expect(!slots.isScarce && slots.reserve(upTo: 1) == 1 && !slots.isScarce)
        #expect(slots.reserve(upTo: 1) == 1 && slots.isScarce)
        #expect(slots.lend(for: "https://a") && slots.isScarce)
        slots.takeBack(for: "https://a")
        slots.release(1)
        #expect(!slots.isScarce)
    }

    @Test("who has no slots lends none")
    func none() {
        #expect(!WorkerSlots(capacity: 0).lend(for: "https://a"))
        let slots = WorkerSlots(capacity: 4, lentMax: 1)
        #expect(slots.lend(for: "https://a") && !slots.lend(for: "https://b"))
    }
}
