import FerryCore
import Testing

@testable import FerryScheduler

@Suite("Ledger of permits")
struct PermitLedgerTests {
    private static let pools = (0..<3).map {
        ConnectionPool(tenant: "acme", session: "s\($0)", origin: "https://a.example:443")
    }

    private func attempt(_ number: Int) -> PermitLedger.Owner {
        PermitLedger.Owner(job: JobID(high: 0, low: UInt64(number / 2)), attempt: Int32(number % 2))
    }

    @Test("an owner counts its first connection once, and returns it once")
    func firsts() {
        var ledger = PermitLedger()
        let pool = Self.pools[0]
        expect(ledger.beginFirst(attempt(1), in: pool, limit: 1))
        expect(ledger.beginFirst(attempt(1), in: pool, limit: 1), "it has it already")
        expect(!ledger.beginFirst(attempt(2), in: pool, limit: 1))
        expect(ledger.count(of: pool) == 1)
        expect(ledger.isUsingFirst(attempt(1)) && !ledger.isUsingFirst(attempt(2)))
        expect(ledger.endFirst(attempt(1)) == pool && ledger.endFirst(attempt(1)) == nil)
        expect(ledger.isEmpty)
    }

    @Test("owners that ask again wait in their order, as many as the limit, and not after their end")
    func waiting() {
        var ledger = PermitLedger()
        let pool = Self.pools[0]
        for owner in 1...2 { expect(ledger.beginFirst(attempt(owner), in: pool, limit: 2)) }
        expect(ledger.askAgain(attempt(3), in: pool, limit: 2) == .waits)
        expect(ledger.askAgain(attempt(4), in: pool, limit: 2) == .waits)
        expect(ledger.askAgain(attempt(3), in: pool, limit: 2) == .waits, "it waits already")
        expect(ledger.askAgain(attempt(5), in: pool, limit: 2) == .refused)
        expect(ledger.nextWaiting(pool, limit: 2) == nil, "no connection is free")
        expect(ledger.endFirst(attempt(3)) == nil, "it had none")
        expect(ledger.endFirst(attempt(1)) == pool)
        expect(ledger.nextWaiting(pool, limit: 2) == attempt(4))
        expect(ledger.nextWaiting(pool, limit: 2) == nil)
        expect(ledger.count(of: pool) == 2 && ledger.waitingPools.isEmpty)
        expect(ledger.endFirst(attempt(4)) == pool && ledger.endFirst(attempt(2)) == pool && ledger.isEmpty)
    }

    /// Compares the ledger with a model that keeps sets, over random histories with limits that change.
    @Test("it counts each connection once in any order of events", arguments: 0..<40 as Range<UInt64>)
    func histories(seed: UInt64) {
        var random = Seeded(seed)
        var ledger = PermitLedger()
        var (firsts, waiting): ([Int: ConnectionPool], [(owner: Int, pool: ConnectionPool)]) = ([:], [])
        var further: [ConnectionPool: Int] = [:]
        func used(_ pool: ConnectionPool) -> Int {
            firsts.values.count { $0 == pool } + further[pool, default: 0]
        }
        var limit = 3
        for step in 0..<400 {
            let pool = Self.pools[Int.random(in: 0..<3, using: &random)]
            let owner = Int.random(in: 0..<12, using: &random)
            switch Int.random(in: 0..<8, using: &random) {
            case 0, 1:
                guard !waiting.contains(where: { $0.owner == owner }) else { continue }
                let fits = firsts[owner] != nil || used(pool) < limit
                expect(ledger.beginFirst(attempt(owner), in: pool, limit: limit) == fits)
                if fits, firsts[owner] == nil { firsts[owner] = pool }
            case 2, 3:
                waiting.removeAll { $0.owner == owner }
                expect(ledger.endFirst(attempt(owner)) == firsts.removeValue(forKey: owner))
            case 4:
                guard firsts[owner] == nil, !waiting.contains(where: { $0.owner == owner }) else { continue }
                let answer = ledger.askAgain(attempt(owner), in: pool, limit: limit)
                if used(pool) < limit {
                    expect(answer == .granted)
                    firsts[owner] = pool
                } else if waiting.count(where: { $0.pool == pool }) < limit {
                    expect(answer == .waits)
                    waiting.append((owner, pool))
                } else {
                    expect(answer == .refused)
                }
            case 5:
                let index = waiting.firstIndex { $0.pool == pool }
                let next = used(pool) < limit ? index.map { waiting.remove(at: $0).owner } : nil
                expect(ledger.nextWaiting(pool, limit: limit) == next.map(attempt))
                if let next { firsts[next] = pool }
            case 6:
                if further[pool, default: 0] > 0, Bool.random(using: &random) {
                    ledger.free(pool)
                    further[pool, default: 0] -= 1
                } else {
                    let fits = used(pool) < limit
                    expect(ledger.take(pool, limit: limit) == fits)
                    if fits { further[pool, default: 0] += 1 }
                }
            default: limit = Int.random(in: 1...4, using: &random)
            }
            expect(Self.pools.allSatisfy { ledger.count(of: $0) == used($0) }, "step \(step)")
        }
        for owner in 0..<12 { _ = ledger.endFirst(attempt(owner)) }
        for (pool, count) in further { for _ in 0..<count { ledger.free(pool) } }
        expect(ledger.isEmpty)
    }
}

/// Like `#expect`, for conditions that change what they look at.
private func expect(
    _ isTrue: Bool, _ comment: Comment? = nil, sourceLocation: SourceLocation = #_sourceLocation
) {
    #expect(isTrue, comment, sourceLocation: sourceLocation)
}
