import FerryCore
import Testing

@Suite("Shares of tenants")
struct TenantPoolTests {
    /// Takes one after the other until the pool refuses. Returns their number.
    private func takeAll(_ pool: inout TenantPool, for tenant: String) -> Int {
        var count = 0
        while pool.take(for: tenant) { count += 1 }
        return count
    }

    @Test("a tenant takes at most what it leaves free, and gives it back")
    func alone() {
        var pool = TenantPool(capacity: 100)
        #expect(takeAll(&pool, for: "a") == 50)
        #expect(pool.shareMax == 50 && pool.taken == 50)
        pool.release(of: "a")
        #expect(takeAll(&pool, for: "a") == 1)
        #expect(takeAll(&pool, for: "b") == 25)
        pool.release(50, of: "a")
        #expect(pool.taken == 25)
        #expect(takeAll(&pool, for: "b") == 25)
    }

    @Test("after eight greedy tenants, the ninth one still gets something")
    func greedy() {
        var pool = TenantPool(capacity: 500)
        for number in 0..<8 { #expect(takeAll(&pool, for: "\(number)") > 0, "tenant \(number)") }
        #expect(pool.taken < 500)
    }

    @Test("after two greedy tenants, each of 25 others gets one of 100, and a second one after an end")
    func reserve() {
        var pool = TenantPool(itemCount: 100)
        #expect(takeAll(&pool, for: "a") == 50 && takeAll(&pool, for: "b") == 25)
        for number in 0..<25 { #expect(takeAll(&pool, for: "\(number)") == 1, "tenant \(number)") }
        #expect(takeAll(&pool, for: "late") == 0)
        pool.release(of: "a")
        #expect(takeAll(&pool, for: "a") == 0, "the reserve is for others")
        #expect(takeAll(&pool, for: "late") == 1)
        pool.release(49, of: "a")
        #expect(takeAll(&pool, for: "late") == 24)
    }

    @Test("a large amount of a tenant that has nothing leaves half of the rest")
    func large() {
        var pool = TenantPool(itemCount: 100)
        #expect(takeAll(&pool, for: "a") == 50 && takeAll(&pool, for: "b") == 25)
        let isTaken = pool.take(14, for: "c")
        #expect(!isTaken)
        let isHalfTaken = pool.take(13, for: "c")
        #expect(isHalfTaken && takeAll(&pool, for: "d") == 1)
    }

    @Test("an amount that does not fit changes nothing")
    func tooLarge() {
        var pool = TenantPool(capacity: 10)
        let isTaken = pool.take(6, for: "a")
        #expect(!isTaken && pool.taken == 0)
        #expect(takeAll(&pool, for: "a") == 5)
    }
}
