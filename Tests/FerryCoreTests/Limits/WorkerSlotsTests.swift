import FerryCore
import Testing

@Suite("Worker slots")
struct WorkerSlotsTests {
    @Test("a lent slot can be used by another attempt until it is taken back")
    func lent() {
        let slots = WorkerSlots(capacity: 2)
        #expect(slots.reserve(upTo: 5) == 2 && slots.freeCount == 0)
        #expect(slots.lend(for: "https://a") && slots.lend(for: "https://b"))
        #expect(slots.freeCount == 2 && slots.busyCount == 0 && slots.lentCount == 2)
        #expect(slots.leaseCount == 2, "their leases stay in use")
        #expect(slots.reserve(upTo: 5) == 2)
        // The attempt takes its slot back although none is free.
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
        "the number of lent slots is limited per origin and in total",
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

    @Test("slots are scarce if attempts run for at least half of them, lent ones included")
    func scarcity() {
        let slots = WorkerSlots(capacity: 4)
        #expect(!slots.isScarce && slots.reserve(upTo: 1) == 1 && !slots.isScarce)
        #expect(slots.reserve(upTo: 1) == 1 && slots.isScarce)
        #expect(slots.lend(for: "https://a") && slots.isScarce)
        slots.takeBack(for: "https://a")
        slots.release(1)
        #expect(!slots.isScarce)
    }

    @Test("a node without slots lends none")
    func none() {
        #expect(!WorkerSlots(capacity: 0).lend(for: "https://a"))
        let slots = WorkerSlots(capacity: 4, lentMax: 1)
        #expect(slots.lend(for: "https://a") && !slots.lend(for: "https://b"))
    }
}
