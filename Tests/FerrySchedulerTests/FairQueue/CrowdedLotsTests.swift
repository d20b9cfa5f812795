import FerryCore
import FerryScheduler
import Testing

@Suite("More lots than are known at once")
struct CrowdedLotsTests {
    private func instant(_ seconds: Double) -> Timestamp { Timestamp(microseconds: 0) + seconds }

    /// One of many, of an origin of its own.
    private func narrow(_ id: Int, tenant: String, session: String) -> ClaimQueue {
        ClaimQueue(id: Int64(id), tenant: tenant, session: session, origin: "http://\(id).example:80")
    }

    @Test(
        "a tenant with 60,000 of them keeps nobody out, whatever they are and whether anything blocks them",
        arguments: [true, false], [true, false])
    func newcomer(isOneSession: Bool, isBlocked: Bool) {
        var schedule = ClaimSchedule()
        for id in 1...60_000 {
            schedule.add(
                narrow(-id, tenant: "many", session: isOneSession ? "s" : "s\(id)"), head: instant(0))
            if isBlocked { schedule.block(Int64(-id), until: instant(600)) }
        }
        #expect(schedule.count == 50_000)
        let newcomer = ClaimQueue(id: 1, tenant: "few", session: "s")
        schedule.add(newcomer, head: instant(1))
        #expect(schedule.count == 50_000 && schedule.plan(16).contains { $0.lot == newcomer })
    }

    @Test("tenants get their shares, and everything is served once", arguments: [true, false])
    func shares(isOneSession: Bool) {
        var queue = CrowdedQueue(lotCountMax: 500)
        for id in 1...600 {
            queue.add(narrow(-id, tenant: "a", session: isOneSession ? "s" : "s\(id)"), 1)
        }
        for id in 1...40 { queue.add(narrow(-1_000 - id, tenant: "b", session: "s\(id % 2)"), 5) }
        queue.add(ClaimQueue(id: 1, tenant: "c", session: "s"), 100)
        for number in 0..<2_000 where queue.left > 0 {
            if number % 10 == 0 { queue.look() }
            queue.round(16)
        }
        #expect(queue.left == 0 && queue.served.count == 900)
        for count in [150, 240] {
            for tenant in ["a", "b", "c"] {
                let share = queue.served.prefix(count).count { $0.tenant == tenant } * 3
                #expect(abs(share - count) <= count / 5, "\(tenant) has \(share) thirds of \(count)")
            }
        }
    }

    @Test("a session with most of its tenant's lots keeps the others' out no more than another tenant's")
    func sessions() {
        var schedule = ClaimSchedule(lotCountMax: 10)
        for id in 1...10 { schedule.add(narrow(-id, tenant: "a", session: "wide"), head: instant(0)) }
        for id in 11...19 { schedule.add(narrow(-id, tenant: "a", session: "other"), head: instant(9)) }
        #expect((1...10).count { schedule.knows(Int64(-$0)) } == 5)
        #expect((11...19).count { schedule.knows(Int64(-$0)) } == 5)
        for id in 21...29 { schedule.add(narrow(-id, tenant: "b", session: "s\(id)"), head: instant(9)) }
        #expect((21...29).count { schedule.knows(Int64(-$0)) } == 5)
        // Nobody gives up what would have to be given back.
        schedule.add(narrow(-31, tenant: "b", session: "new"), head: instant(0))
        #expect(!schedule.knows(-31) && schedule.count == 10)
        let before = (1...19).filter { schedule.knows(Int64(-$0)) }
        schedule.add(narrow(-32, tenant: "c", session: "s"), head: instant(9))
        #expect(schedule.knows(-32) && schedule.count == 10)
        #expect((1...29).count { schedule.knows(Int64(-$0)) } == 9 && before.count == 5)
    }

    @Test("of one session the most urgent are known")
    func urgency() {
        var schedule = ClaimSchedule(lotCountMax: 3)
        func add(_ id: Int, _ head: Double) {
            schedule.add(narrow(id, tenant: "a", session: "s"), head: instant(head), limit: 1)
        }
        for (id, head) in [(1, 10.0), (2, 30), (3, 20)] { add(id, head) }
        add(4, 40)
        add(5, 30)
        #expect(!schedule.knows(4) && !schedule.knows(5))
        add(6, 25)
        #expect(!schedule.knows(2) && schedule.plan(3).map(\.lot.id) == [1, 3, 6])
        // Its first job is another one by now.
        let asks = schedule.plan(3)
        schedule.settle(asks[0], claimed: 1, .more, head: instant(50))
        for ask in asks.dropFirst() { schedule.settle(ask, claimed: 0, .more) }
        add(7, 45)
        #expect(!schedule.knows(1) && schedule.plan(3).map(\.lot.id) == [3, 6, 7])
    }
}

/// Stands for the table: rows by lot, and the looks that find lots again.
private struct CrowdedQueue {
    private var schedule: ClaimSchedule
    private var rows: [Int64: Int] = [:]
    private var lots: [ClaimQueue] = []
    /// One for each job, in their order.
    private(set) var served: [ClaimQueue] = []

    init(lotCountMax: Int) { schedule = ClaimSchedule(lotCountMax: lotCountMax) }

    var left: Int { rows.values.reduce(0, +) }

    mutating func add(_ lot: ClaimQueue, _ count: Int) {
        lots.append(lot)
        rows[lot.id] = count
        offer(lot)
    }

    mutating func look() {
        for lot in lots where rows[lot.id, default: 0] > 0 { offer(lot) }
    }

    private mutating func offer(_ lot: ClaimQueue) {
        schedule.add(lot, head: Timestamp(microseconds: 0), limit: lot.origin == nil ? nil : 6)
    }

    mutating func round(_ count: Int) {
        for ask in schedule.plan(count) {
            let claimed = min(ask.count, rows[ask.lot.id, default: 0])
            rows[ask.lot.id, default: 0] -= claimed
            served += Array(repeating: ask.lot, count: claimed)
            schedule.settle(ask, claimed: claimed, claimed == ask.count ? .more : .empty)
        }
    }
}
