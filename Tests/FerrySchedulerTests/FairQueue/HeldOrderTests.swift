import FerryCore
import Testing

@testable import FerryScheduler

@Suite("Order of held jobs")
struct HeldOrderTests {
    private static let pools = (0..<3).map {
        ConnectionPool(tenant: "t\($0 % 2)", session: "default", origin: "https://h\($0).example:443")
    }

    private func rank(_ number: Int) -> HeldOrder.Rank {
        HeldOrder.Rank(
            urgency: Timestamp(microseconds: Int64(number)), job: JobID(high: 1, low: UInt64(number)))
    }

    @Test("a pool that is set aside does not delay the others, and is next when it is taken in")
    func aside() {
        var order = HeldOrder()
        order.insert([rank(3), rank(1)], in: Self.pools[0])
        order.insert([rank(2)], in: Self.pools[1])
        #expect(order.next?.job == rank(1).job)
        order.setAside(Self.pools[0])
        #expect(order.next?.job == rank(2).job && order.hasAside)
        order.insert([rank(0)], in: Self.pools[0])
        #expect(order.next?.job == rank(2).job, "its pool is still set aside")
        #expect(order.readyCounts == ["t1": 1])
        #expect(order.takeIn(Self.pools[0]) && !order.takeIn(Self.pools[2]))
        #expect(order.next?.job == rank(0).job && order.last(of: Self.pools[0]) == rank(3))
        order.setAside(Self.pools[0])
        order.setAside(Self.pools[1])
        #expect(order.next == nil)
        order.takeInAll()
        #expect(order.next?.job == rank(0).job)
    }

    @Test("jobs begin by urgency in any order of events", arguments: 0..<20 as Range<UInt64>)
    func histories(seed: UInt64) {
        var random = Seeded(seed)
        var order = HeldOrder()
        var (held, aside): ([ConnectionPool: Set<Int>], Set<ConnectionPool>) = ([:], [])
        var last = 0
        for _ in 0..<300 {
            let pool = Self.pools[Int.random(in: 0..<3, using: &random)]
            switch Int.random(in: 0..<5, using: &random) {
            case 0, 1:
                let added = (0..<Int.random(in: 1...4, using: &random)).map { _ in
                    last += 1
                    return last * 7919 % 10_007
                }
                order.insert(added.map(rank), in: pool)
                held[pool, default: []].formUnion(added)
            case 2:
                guard let number = held[pool]?.randomElement(using: &random) else { continue }
                order.remove(rank(number), in: pool)
                held[pool]?.remove(number)
                if held[pool]?.isEmpty == true { aside.remove(pool) }
            case 3:
                order.setAside(pool)
                if held[pool]?.isEmpty == false { aside.insert(pool) }
            default:
                #expect(order.takeIn(pool) == (held[pool]?.isEmpty == false))
                aside.remove(pool)
            }
            let ready = held.filter { !aside.contains($0.key) }.values.joined()
            #expect(order.next?.job == ready.min().map { rank($0).job })
            #expect(Self.pools.allSatisfy { order.contains($0) == (held[$0]?.isEmpty == false) })
        }
    }
}
