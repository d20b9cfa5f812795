import FerryScheduler
import Testing

@Suite("Demand for slots")
struct SlotDemandTests {
    @Test("a tenant misses as many slots as it has jobs, up to its share")
    func shares() {
        let few = SlotDemand(queued: ["b": 3], held: ["a": 8], capacity: 8)
        #expect(few.count == 3 && few.tenants == ["b"])
        let many = SlotDemand(queued: ["b": 100, "a": 100], held: ["a": 8], capacity: 8)
        #expect(many.count == 4 && many.tenants == ["b"], "a has more than its share of 4")
        let started = SlotDemand(queued: ["b": 100], held: ["a": 5, "b": 3], capacity: 8)
        #expect(started.count == 1)
        let full = SlotDemand(queued: ["b": 100], held: ["a": 4, "b": 4], capacity: 8)
        #expect(full.count == 0 && full.tenants.isEmpty)
    }

    @Test("nothing is missing if one tenant has all slots and all jobs, or no job waits")
    func alone() {
        #expect(SlotDemand(queued: ["a": 100], held: ["a": 8], capacity: 8).count == 0)
        #expect(SlotDemand(queued: [:], held: ["a": 8], capacity: 8).count == 0)
        let ending = SlotDemand(queued: ["a": 100], held: ["a": 6], capacity: 8)
        #expect(ending.count == 0 && ending.tenants.isEmpty, "no other tenant can lend")
        #expect(SlotDemand(queued: [:], held: [:], capacity: 0).count == 0)
    }

    @Test("with more tenants than slots, the share of each is one slot")
    func crowd() {
        let names = (0..<10).map { "\($0)" }
        let held = Dictionary(uniqueKeysWithValues: names.prefix(4).map { ($0, 1) })
        let queued = Dictionary(uniqueKeysWithValues: names.map { ($0, 5) })
        let demand = SlotDemand(queued: queued, held: held, capacity: 4)
        #expect(demand.tenants == Set(names.dropFirst(4)))
        #expect(demand.count == 4, "no more than the node has")
        #expect(SlotDemand(queued: ["b": 1], held: ["a": 1], capacity: 1).tenants == ["b"])
    }
}
