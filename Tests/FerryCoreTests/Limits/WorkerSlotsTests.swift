import FerryCore
import Testing

@Suite("Worker slots")
struct WorkerSlotsTests {
    @Test("a lent slot can be used by another attempt until it is taken back")
    func lent() {
        let slots = WorkerSlots(capacity: 2)
        #expect(slots.reserve(upTo: 5) == 2 && slots.freeCount == 0)
        #expect(slots.lend(for: "a") && slots.lend(for: "b"))
        #expect(slots.freeCount == 2 && slots.busyCount == 0 && slots.lentCount == 2)
        #expect(slots.leaseCount == 2, "their leases stay in use")
        #expect(slots.reserve(upTo: 5) == 2)
        // The attempt takes its slot back although none is free.
        slots.takeBack(for: "a")
        #expect(slots.busyCount == 3 && slots.freeCount == 0 && slots.reserve(upTo: 1) == 0)
        slots.end(1)
        #expect(slots.freeCount == 0 && slots.begin(upTo: 1) == 0)
        slots.end(1)
        #expect(slots.busyCount == 1 && slots.begin(upTo: 2) == 1)
        slots.end(1)
        slots.takeBack(for: "b")
        slots.end(2)
        slots.settle(4)
        #expect(slots.freeCount == 2 && slots.leaseCount == 0 && slots.lentCount == 0)
    }

    @Test("a tenant lends half of what other tenants have not lent, so that each further one can lend")
    func shares() {
        let slots = WorkerSlots(capacity: 4, lentMax: 1_024)
        for (tenant, most) in [("a", 512), ("b", 256), ("c", 128), ("d", 64)] {
            for _ in 0..<most { #expect(slots.lend(for: tenant)) }
            #expect(!slots.lend(for: tenant))
        }
        #expect(slots.lentCount == 960)
        slots.takeBack(for: "a")
        #expect(!slots.lend(for: "b"), "it has more than the rest")
        #expect(slots.lend(for: "d") && !slots.lend(for: "d"))
    }

    @Test("slots are scarce if attempts run for at least half of them, lent ones included")
    func scarcity() {
        let slots = WorkerSlots(capacity: 4)
        #expect(!slots.isScarce && slots.reserve(upTo: 1) == 1 && !slots.isScarce)
        #expect(slots.reserve(upTo: 1) == 1 && slots.isScarce)
        #expect(slots.lend(for: "a") && slots.isScarce)
        slots.takeBack(for: "a")
        slots.release(1)
        #expect(!slots.isScarce)
    }

    @Test("a node without slots lends none")
    func none() {
        #expect(!WorkerSlots(capacity: 0).lend(for: "a"))
        let slots = WorkerSlots(capacity: 4, lentMax: 1)
        #expect(slots.lend(for: "a") && !slots.lend(for: "b"))
    }
}
