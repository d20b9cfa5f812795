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
        // As many loans as there are slots are left to early ones.
        let slots = WorkerSlots(capacity: 4, lentMax: 1_028)
        for (tenant, most) in [("a", 512), ("b", 256), ("c", 128), ("d", 64)] {
            for _ in 0..<most { #expect(slots.lend(for: tenant)) }
            #expect(!slots.lend(for: tenant))
        }
        #expect(slots.lentCount == 960)
        slots.takeBack(for: "a")
        #expect(!slots.lend(for: "b"), "it has more than the rest")
        #expect(slots.lend(for: "d") && !slots.lend(for: "d"))
    }

    @Test("slow attempts of other tenants lend as many slots as the waiting tenants miss")
    func missing() {
        let slots = WorkerSlots(capacity: 4)
        #expect(slots.reserve(upTo: 4) == 4 && !slots.areMissing)
        #expect(!slots.lendEarly(for: "a"), "no tenant waits")
        slots.expect(2, for: ["b"])
        #expect(slots.areMissing && !slots.lendEarly(for: "b"), "b waits itself")
        #expect(slots.lendEarly(for: "a") && slots.lendEarly(for: "a") && !slots.lendEarly(for: "a"))
        #expect(slots.freeCount == 2 && slots.lentByTenant == ["a": 2])
        #expect(slots.reserve(upTo: 1) == 1 && slots.areMissing)
        #expect(slots.reserve(upTo: 1) == 1 && !slots.areMissing && !slots.lendEarly(for: "a"))
        // Slots that were taken back are missing as well.
        slots.takeBack(for: "a")
        slots.takeBack(for: "a")
        slots.expect(1, for: ["b"])
        #expect((0..<3).allSatisfy { _ in slots.lendEarly(for: "a") } && !slots.lendEarly(for: "a"))
        #expect(slots.freeCount == 1)
        slots.expect(0, for: [])
        #expect(!slots.areMissing)
    }

    @Test("a tenant that has lent its part begins nothing more, and its other slots can be lent early")
    func used() {
        let slots = WorkerSlots(capacity: 2, lentMax: 10)
        #expect(slots.reserve(upTo: 2) == 2)
        for _ in 0..<4 {
            #expect(slots.tenantsWithoutLoans.isEmpty)
            #expect(slots.lend(for: "a") && slots.reserve(upTo: 1) == 1)
        }
        #expect(!slots.lend(for: "a") && slots.tenantsWithoutLoans == ["a"])
        slots.expect(2, for: ["b"])
        #expect(slots.lendEarly(for: "a") && slots.lendEarly(for: "a") && slots.reserve(upTo: 2) == 2)
        #expect(slots.tenantsWithoutLoans == ["a"])
        // All loans, also those that no part has.
        for _ in 0..<4 {
            slots.expect(1, for: ["c"])
            #expect(slots.lendEarly(for: "b") && slots.reserve(upTo: 1) == 1)
        }
        slots.expect(1, for: ["c"])
        #expect(!slots.lendEarly(for: "b") && slots.lentCount == 10)
        for index in 0..<5 { slots.takeBack(for: "a", isEarly: index < 2) }
        #expect(slots.tenantsWithoutLoans == ["b"])
    }

    @Test("a tenant with as many early loans as slots begins nothing until one ends or its attempt stalls")
    func early() {
        let slots = WorkerSlots(capacity: 2)
        #expect(slots.reserve(upTo: 2) == 2)
        let lend = {
            slots.expect(1, for: ["b"])
            return slots.lendEarly(for: "a") && slots.reserve(upTo: 1) == 1
        }
        #expect(lend() && slots.tenantsWithoutLoans.isEmpty)
        #expect(lend() && slots.tenantsWithoutLoans == ["a"])
        slots.settleEarlyLoan(of: "a")
        #expect(slots.tenantsWithoutLoans.isEmpty)
        #expect(lend() && slots.tenantsWithoutLoans == ["a"])
        slots.takeBack(for: "a", isEarly: true)
        #expect(slots.tenantsWithoutLoans.isEmpty)
        slots.takeBack(for: "a", isEarly: true)
        slots.takeBack(for: "a")
        #expect(slots.lentByTenant.isEmpty)
    }

    @Test("a tenant that has lent fewer slots than the node has may begin attempts")
    func few() {
        let slots = WorkerSlots(capacity: 4, lentMax: 8)
        #expect(slots.reserve(upTo: 4) == 4 && slots.lend(for: "a") && slots.lend(for: "a"))
        #expect(!slots.lend(for: "a") && slots.tenantsWithoutLoans.isEmpty)
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
