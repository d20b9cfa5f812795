import FerryCore
import FerryScheduler
import Testing

@Suite("Limit on the number of known claim queues")
struct QueueLimitTests {
    private func instant(_ seconds: Double) -> Timestamp { Timestamp(microseconds: 0) + seconds }

    /// Returns a queue with an origin of its own.
    private func narrow(_ id: Int, tenant: String, session: String) -> ClaimQueue {
        ClaimQueue(id: Int64(id), tenant: tenant, session: session, origin: "http://\(id).example:80")
    }

    @Test(
        "a tenant with 60,000 queues does not keep out a queue of another tenant, blocked or not",
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
        #expect(schedule.count == 50_000 && schedule.plan(16).contains { $0.queue == newcomer })
    }

    @Test("beyond the limit, tenants get equal shares and each job is served once", arguments: [true, false])
    func shares(isOneSession: Bool) {
        var table = CrowdedTable(queueCountMax: 500)
        for id in 1...600 {
            table.add(narrow(-id, tenant: "a", session: isOneSession ? "s" : "s\(id)"), 1)
        }
        for id in 1...40 { table.add(narrow(-1_000 - id, tenant: "b", session: "s\(id % 2)"), 5) }
        table.add(ClaimQueue(id: 1, tenant: "c", session: "s"), 100)
        for number in 0..<2_000 where table.left > 0 {
            if number % 10 == 0 { table.search() }
            table.claim(16)
        }
        #expect(table.left == 0 && table.served.count == 900)
        for count in [150, 240] {
            for tenant in ["a", "b", "c"] {
                let share = table.served.prefix(count).count { $0.tenant == tenant } * 3
                #expect(abs(share - count) <= count / 5, "\(tenant) has \(share) thirds of \(count)")
            }
        }
    }

    @Test("the session or tenant with the most queues loses one to a session or tenant with fewer")
    func sessions() {
        var schedule = ClaimSchedule(queueCountMax: 10)
        for id in 1...10 { schedule.add(narrow(-id, tenant: "a", session: "wide"), head: instant(0)) }
        for id in 11...19 { schedule.add(narrow(-id, tenant: "a", session: "other"), head: instant(9)) }
        #expect((1...10).count { schedule.knows(Int64(-$0)) } == 5)
        #expect((11...19).count { schedule.knows(Int64(-$0)) } == 5)
        for id in 21...29 { schedule.add(narrow(-id, tenant: "b", session: "s\(id)"), head: instant(9)) }
        #expect((21...29).count { schedule.knows(Int64(-$0)) } == 5)
        // Tenants with equally many queues lose none to each other.
        schedule.add(narrow(-31, tenant: "b", session: "new"), head: instant(0))
        #expect(!schedule.knows(-31) && schedule.count == 10)
        let before = (1...19).filter { schedule.knows(Int64(-$0)) }
        schedule.add(narrow(-32, tenant: "c", session: "s"), head: instant(9))
        #expect(schedule.knows(-32) && schedule.count == 10)
        #expect((1...29).count { schedule.knows(Int64(-$0)) } == 9 && before.count == 5)
    }

    @Test("of one session, the most urgent queues are known")
    func urgency() {
        var schedule = ClaimSchedule(queueCountMax: 3)
        func add(_ id: Int, _ head: Double) {
            schedule.add(narrow(id, tenant: "a", session: "s"), head: instant(head), limit: 1)
        }
        for (id, head) in [(1, 10.0), (2, 30), (3, 20)] { add(id, head) }
        add(4, 40)
        add(5, 30)
        #expect(!schedule.knows(4) && !schedule.knows(5))
        add(6, 25)
        #expect(!schedule.knows(2) && schedule.plan(3).map(\.queue.id) == [1, 3, 6])
        // After a claim its first job is less urgent.
        let requests = schedule.plan(3)
        schedule.settle(requests[0], claimed: 1, .more, head: instant(50))
        for request in requests.dropFirst() { schedule.settle(request, claimed: 0, .more) }
        add(7, 45)
        #expect(!schedule.knows(1) && schedule.plan(3).map(\.queue.id) == [3, 6, 7])
    }
}

/// A table of jobs: rows by queue, and the search that finds dropped queues again.
private struct CrowdedTable {
    private var schedule: ClaimSchedule
    private var rows: [Int64: Int] = [:]
    private var queues: [ClaimQueue] = []
    /// The queue of each served job, in order.
    private(set) var served: [ClaimQueue] = []

    init(queueCountMax: Int) { schedule = ClaimSchedule(queueCountMax: queueCountMax) }

    var left: Int { rows.values.reduce(0, +) }

    mutating func add(_ queue: ClaimQueue, _ count: Int) {
        queues.append(queue)
        rows[queue.id] = count
        offer(queue)
    }

    mutating func search() {
        for queue in queues where rows[queue.id, default: 0] > 0 { offer(queue) }
    }

    private mutating func offer(_ queue: ClaimQueue) {
        schedule.add(queue, head: Timestamp(microseconds: 0), limit: queue.origin == nil ? nil : 6)
    }

    mutating func claim(_ count: Int) {
        for request in schedule.plan(count) {
            let claimed = min(request.count, rows[request.queue.id, default: 0])
            rows[request.queue.id, default: 0] -= claimed
            served += Array(repeating: request.queue, count: claimed)
            schedule.settle(request, claimed: claimed, claimed == request.count ? .more : .empty)
        }
    }
}
