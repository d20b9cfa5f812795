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

    /// A wait for the first connection of an owner.
    private func first(_ number: Int) -> PermitLedger.Wait {
        PermitLedger.Wait(attempt(number), isFirst: true)
    }

    /// A wait for a further connection of an owner.
    private func further(_ number: Int) -> PermitLedger.Wait {
        PermitLedger.Wait(attempt(number), isFirst: false)
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
        func ask(_ owner: Int) -> PermitLedger.Answer {
            ledger.ask(first(owner), in: pool, limit: 2, keepsAnother: false)
        }
        for owner in 1...2 { expect(ledger.beginFirst(attempt(owner), in: pool, limit: 2)) }
        expect(ask(3) == .waits && ask(4) == .waits)
        expect(ask(3) == .waits, "it waits already")
        expect(ask(5) == .refused)
        expect(ledger.nextWaiting(pool, limit: 2) == nil, "no connection is free")
        ledger.end(first(3))
        expect(ledger.endFirst(attempt(3)) == nil, "it had none")
        expect(ledger.endFirst(attempt(1)) == pool)
        expect(ledger.nextWaiting(pool, limit: 2) == first(4))
        expect(ledger.nextWaiting(pool, limit: 2) == nil)
        expect(ledger.count(of: pool) == 2 && ledger.waitingPools.isEmpty)
        expect(ledger.endFirst(attempt(4)) == pool && ledger.endFirst(attempt(2)) == pool && ledger.isEmpty)
    }

    @Test("half as many owners as the limit wait while they keep another connection")
    func keepers() {
        var ledger = PermitLedger()
        let pool = Self.pools[0]
        func ask(_ wait: PermitLedger.Wait, limit: Int = 4) -> PermitLedger.Answer {
            ledger.ask(wait, in: pool, limit: limit, keepsAnother: true)
        }
        for owner in 1...4 { expect(ledger.beginFirst(attempt(owner), in: pool, limit: 4)) }
        expect(ask(further(1)) == .waits && ask(further(2)) == .waits)
        expect(ask(further(1)) == .waits, "it waits already")
        expect(ask(further(3)) == .refused && ask(further(3), limit: 1) == .refused)
        expect(ledger.nextWaiting(pool, limit: 4) == nil, "no connection is free")
        expect(ledger.endFirst(attempt(3)) == pool)
        expect(ledger.nextWaiting(pool, limit: 4) == further(1))
        expect(ledger.count(of: pool) == 4 && ledger.isUsingFirst(attempt(1)))
        // An owner that returns its first connection waits on for the further one, and may wait for both.
        expect(ledger.endFirst(attempt(2)) == pool)
        ledger.free(pool)
        expect(ledger.take(pool, limit: 4) && ledger.take(pool, limit: 4))
        expect(ledger.ask(first(2), in: pool, limit: 4, keepsAnother: false) == .waits)
        ledger.free(pool)
        expect(ledger.nextWaiting(pool, limit: 4) == further(2) && !ledger.isUsingFirst(attempt(2)))
        ledger.free(pool)
        expect(ledger.nextWaiting(pool, limit: 4) == first(2) && ledger.isUsingFirst(attempt(2)))
        expect(ledger.nextWaiting(pool, limit: nil) == nil && ledger.waitingPools.isEmpty)
    }

    /// Compares the ledger with a model that keeps sets, over random histories with limits that change.
    @Test("it counts each connection once in any order of events", arguments: 0..<40 as Range<UInt64>)
    func histories(seed: UInt64) {
        var random = Seeded(seed)
        var ledger = PermitLedger()
        var firsts: [Int: ConnectionPool] = [:]
        var waiting: [(owner: Int, isFirst: Bool, pool: ConnectionPool)] = []
        var others: [ConnectionPool: Int] = [:]
        func used(_ pool: ConnectionPool) -> Int {
            firsts.values.count { $0 == pool } + others[pool, default: 0]
        }
        func wait(_ owner: Int, _ isFirst: Bool) -> PermitLedger.Wait {
            isFirst ? first(owner) : further(owner)
        }
        func take(_ owner: Int, _ isFirst: Bool, _ pool: ConnectionPool) {
            if isFirst { firsts[owner] = pool } else { others[pool, default: 0] += 1 }
        }
        var limit = 3
        for step in 0..<400 {
            let pool = Self.pools[Int.random(in: 0..<3, using: &random)]
            let owner = Int.random(in: 0..<12, using: &random)
            let isFirst = Bool.random(using: &random)
            switch Int.random(in: 0..<11, using: &random) {
            case 0, 1:
                guard !waiting.contains(where: { $0.owner == owner && $0.isFirst }) else { continue }
                let fits = firsts[owner] != nil || used(pool) < limit
                expect(ledger.beginFirst(attempt(owner), in: pool, limit: limit) == fits)
                if fits, firsts[owner] == nil { take(owner, true, pool) }
            case 2, 3:
                expect(ledger.endFirst(attempt(owner)) == firsts.removeValue(forKey: owner))
            case 4:
                waiting.removeAll { $0.owner == owner && $0.isFirst == isFirst }
                ledger.end(wait(owner, isFirst))
            case 5, 6, 7:
                guard !isFirst || firsts[owner] == nil else { continue }
                let keepsAnother = Bool.random(using: &random)
                let answer = ledger.ask(
                    wait(owner, isFirst), in: pool, limit: limit, keepsAnother: keepsAnother)
                if waiting.contains(where: { $0.owner == owner && $0.isFirst == isFirst }) {
                    expect(answer == .waits)
                } else if used(pool) < limit {
                    expect(answer == .granted)
                    take(owner, isFirst, pool)
                } else if waiting.count(where: { $0.pool == pool }) < (keepsAnother ? limit / 2 : limit) {
                    expect(answer == .waits)
                    waiting.append((owner, isFirst, pool))
                } else {
                    expect(answer == .refused)
                }
            case 8:
                let index = waiting.firstIndex { $0.pool == pool }
                let next = used(pool) < limit ? index.map { waiting.remove(at: $0) } : nil
                expect(ledger.nextWaiting(pool, limit: limit) == next.map { wait($0.owner, $0.isFirst) })
                if let next { take(next.owner, next.isFirst, pool) }
            case 9:
                if others[pool, default: 0] > 0, Bool.random(using: &random) {
                    ledger.free(pool)
                    others[pool, default: 0] -= 1
                } else {
                    let fits = used(pool) < limit
                    expect(ledger.take(pool, limit: limit) == fits)
                    if fits { take(owner, false, pool) }
                }
            default: limit = Int.random(in: 1...4, using: &random)
            }
            expect(Self.pools.allSatisfy { ledger.count(of: $0) == used($0) }, "step \(step)")
        }
        for one in waiting { ledger.end(wait(one.owner, one.isFirst)) }
        for owner in 0..<12 { _ = ledger.endFirst(attempt(owner)) }
        for (pool, count) in others { for _ in 0..<count { ledger.free(pool) } }
        expect(ledger.isEmpty)
    }
}

/// Like `#expect`, for conditions that change what they look at.
private func expect(
    _ isTrue: Bool, _ comment: Comment? = nil, sourceLocation: SourceLocation = #_sourceLocation
) {
    #expect(isTrue, comment, sourceLocation: sourceLocation)
}
