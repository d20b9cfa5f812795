import FerryCore
import FerryScheduler
import Testing

@Suite("Claim schedule")
struct ClaimScheduleTests {
    private func instant(_ seconds: Double) -> Timestamp { Timestamp(microseconds: 0) + seconds }

    @Test(
        "10,000 claims are shared between sessions by weight, within 5 %", arguments: [1, 7, 50, 200])
    func weights(batch: Int) {
        var table = SimulatedTable()
        for (index, weight) in [1.0, 2, 3, 4].enumerated() {
            table.add(
                ClaimQueue(id: Int64(index + 1), tenant: "a", session: "s\(index)"), 1_000_000, weight: weight
            )
        }
        let served = table.claim(10_000, batch: batch)
        for (index, weight) in [1.0, 2, 3, 4].enumerated() {
            let share = Double(served[Int64(index + 1), default: 0]) / 10_000
            #expect(abs(share - weight / 10) <= 0.05 * weight / 10)
        }
    }

    @Test("the queues of an origin are known while they have jobs, blocked or not")
    func queuesOfOrigins() throws {
        var schedule = ClaimSchedule()
        schedule.add(ClaimQueue(id: 1, tenant: "a", session: "s"), head: instant(1))
        #expect(!schedule.hasQueueOfOrigin)
        let narrow = ClaimQueue(id: 2, tenant: "a", session: "s", origin: "http://a:80")
        schedule.add(narrow, head: instant(0), limit: 6)
        #expect(schedule.hasQueueOfOrigin)
        schedule.block(2, until: instant(1))
        #expect(schedule.hasQueueOfOrigin)
        schedule.unblock(2, unlessBefore: .distantPast)
        let requests = schedule.plan(20)
        for request in requests {
            schedule.settle(request, claimed: 0, request.queue == narrow ? .empty : .more)
        }
        #expect(requests.contains { $0.queue == narrow } && !schedule.hasQueueOfOrigin && schedule.hasReady)
    }

    @Test("tenants get equal shares, whatever the number and weights of their sessions")
    func tenants() {
        var table = SimulatedTable()
        table.add(ClaimQueue(id: 1, tenant: "a", session: "only"), 1_000_000)
        for index in 0..<20 {
            table.add(
                ClaimQueue(id: Int64(10 + index), tenant: "b", session: "s\(index)"), 1_000_000, weight: 100)
        }
        let served = table.claim(10_000, batch: 64)
        #expect(abs(served[1, default: 0] - 5_000) <= 250)
        for index in 0..<20 { #expect(abs(served[Int64(10 + index), default: 0] - 250) <= 13) }
    }

    @Test("a session added beside a million jobs is served by the next claim and has no credit from before")
    func newcomer() {
        var table = SimulatedTable()
        table.add(ClaimQueue(id: 1, tenant: "a", session: "deep"), 1_000_000)
        _ = table.claim(5_000, batch: 100)
        table.add(ClaimQueue(id: 2, tenant: "a", session: "late"), 1_000)
        let first = table.claim(100, batch: 100)
        #expect((44...56).contains(first[2, default: 0]))
        let all = table.claim(2_000, batch: 100)
        #expect(abs(first[2, default: 0] + all[2, default: 0] - 1_000) <= 56)
    }

    @Test("a blocked tenant gets nothing until its block ends, and its new queues are not blocked")
    func blockedTenant() {
        var schedule = ClaimSchedule()
        for id in 1...3 {
            schedule.add(ClaimQueue(id: Int64(id), tenant: "a", session: "s\(id)"), head: instant(0))
        }
        schedule.add(ClaimQueue(id: 9, tenant: "b", session: "s"), head: instant(0))
        #expect(Set(schedule.readyTenants) == ["a", "b"] && schedule.isReady("a"))
        schedule.block(tenant: "a", until: instant(1))
        #expect(schedule.readyTenants == ["b"] && !schedule.isReady("a") && schedule.readyCount == 1)
        #expect(schedule.plan(4).map(\.queue.id) == [9] && schedule.nextWake == instant(1))
        schedule.add(ClaimQueue(id: 4, tenant: "a", session: "s1"), head: instant(0))
        #expect(schedule.isReady("a"))
        schedule.wake(at: instant(1))
        #expect(schedule.readyCount == 5)
    }

    @Test("sessions of equal weight hold slots for the same time, however long their jobs take")
    func slotTime() {
        var slots = SimulatedSlots(count: 12)
        slots.add(ClaimQueue(id: 1, tenant: "a", session: "long"), seconds: 2)
        slots.add(ClaimQueue(id: 2, tenant: "a", session: "short"), seconds: 0.1)
        slots.run(until: 1_000)
        let long = slots.held[1, default: 0] / (slots.held[1, default: 0] + slots.held[2, default: 0])
        #expect(abs(long - 0.5) <= 0.025, "\(long)")
    }

    @Test("slot time is shared by session weights, and equally between tenants")
    func slotTimeByWeight() {
        var slots = SimulatedSlots(count: 20)
        slots.add(ClaimQueue(id: 1, tenant: "a", session: "long"), seconds: 3, weight: 3)
        slots.add(ClaimQueue(id: 2, tenant: "a", session: "short"), seconds: 0.2)
        slots.add(ClaimQueue(id: 3, tenant: "b", session: "only"), seconds: 0.5)
        slots.run(until: 2_000)
        let total = slots.held.values.reduce(0, +)
        for (queue, share) in [(Int64(1), 0.375), (2, 0.125), (3, 0.5)] {
            #expect(
                abs(slots.held[queue, default: 0] / total - share) <= 0.05 * share + 0.01, "\(slots.held)")
        }
    }

    @Test("a tenant with short jobs gets half of the slots as the long jobs of another tenant end")
    func trickling() {
        var slots = SimulatedSlots(count: 20)
        slots.add(ClaimQueue(id: 1, tenant: "slow", session: "s"), seconds: 600)
        slots.run(until: 1_000)
        slots.add(ClaimQueue(id: 2, tenant: "quick", session: "s"), seconds: 1)
        // Every slot has become free once.
        slots.run(until: 1_700)
        slots.held = [:]
        slots.run(until: 12_000)
        let quick = slots.held[2, default: 0] / (slots.held[1, default: 0] + slots.held[2, default: 0])
        #expect(abs(quick - 0.5) <= 0.1, "\(quick)")
    }

    @Test("jobs that end much sooner than charged do not give their session more than its share")
    func overestimate() {
        var slots = SimulatedSlots(count: 10)
        slots.add(ClaimQueue(id: 1, tenant: "a", session: "failing"), seconds: 50)
        slots.run(until: 200)
        slots.change(1, seconds: 0.01)
        slots.add(ClaimQueue(id: 2, tenant: "a", session: "steady"), seconds: 1)
        slots.run(until: 300)
        slots.held = [:]
        slots.run(until: 320)
        let steady = slots.held[2, default: 0] / (slots.held[1, default: 0] + slots.held[2, default: 0])
        #expect(abs(steady - 0.5) <= 0.1, "\(steady)")
    }

    @Test("within a session, the queue with the most urgent first job is claimed first")
    func urgency() {
        var schedule = ClaimSchedule()
        schedule.add(
            ClaimQueue(id: -1, tenant: "a", session: "s", origin: "http://a:80"), head: instant(30), limit: 2)
        schedule.add(
            ClaimQueue(id: -2, tenant: "a", session: "s", origin: "http://b:80"), head: instant(10), limit: 2)
        schedule.add(ClaimQueue(id: 1, tenant: "a", session: "s"), head: instant(20))
        let requests = schedule.plan(5)
        #expect(requests.map(\.queue.id) == [-2, 1])
        #expect(requests.map(\.count) == [2, 3])
    }

    @Test("a blocked queue is not claimed until its block ends or a request of its origin ends")
    func blocking() {
        var schedule = ClaimSchedule()
        let queue = ClaimQueue(id: -1, tenant: "a", session: "s", origin: "http://a:80")
        schedule.add(queue, head: instant(0), limit: 6)
        let request = schedule.plan(10)
        #expect(request.map(\.queue) == [queue] && request.map(\.count) == [6])
        schedule.settle(request[0], claimed: 0, .blocked(until: instant(5)))
        #expect(!schedule.hasReady && schedule.nextWake == instant(5) && schedule.plan(10).isEmpty)
        schedule.wake(at: instant(4))
        #expect(schedule.plan(10).isEmpty)
        schedule.wake(origin: "http://b:80")
        #expect(!schedule.hasReady)
        schedule.wake(origin: "http://a:80")
        #expect(schedule.hasReady && schedule.nextWake == nil)
        schedule.settle(schedule.plan(1)[0], claimed: 0, .blocked(until: instant(9)))
        schedule.wake(at: instant(9))
        #expect(schedule.plan(1).count == 1)
    }

    @Test(
        "a plan has at most one of the queues that the same scope of an origin limits",
        arguments: [true, false])
    func oneQueueAScope(isOneTenant: Bool) {
        var schedule = ClaimSchedule()
        for (id, session) in [(Int64(-1), "s"), (-2, "t")] {
            let tenant = isOneTenant ? "a" : session
            schedule.add(
                ClaimQueue(id: id, tenant: tenant, session: session, origin: "http://a:80"), head: instant(0),
                limit: 4,
                limited: isOneTenant ? HostScope(tenant: "a") : .origin)
        }
        #expect(schedule.plan(10).map(\.count) == [4])
        // The queues take turns.
        #expect(schedule.plan(10).map(\.queue.id) != schedule.plan(10).map(\.queue.id))
    }

    @Test("a scope of one tenant does not keep queues of other tenants out of the same plan")
    func otherTenant() {
        var schedule = ClaimSchedule()
        for (id, tenant) in [(Int64(-1), "a"), (-2, "b")] {
            schedule.add(
                ClaimQueue(id: id, tenant: tenant, session: "s", origin: "http://a:80"), head: instant(0),
                limit: 4,
                limited: HostScope(tenant: tenant))
        }
        #expect(schedule.plan(10).map(\.count) == [4, 4])
        schedule.block(origin: "http://a:80", HostScope(tenant: "a"), until: instant(60))
        #expect(schedule.plan(10).map(\.queue.tenant) == ["b"])
    }

    @Test("an empty queue is removed with its session and tenant")
    func forgetting() {
        var table = SimulatedTable()
        for id in Int64(1)...1_000 { table.add(ClaimQueue(id: id, tenant: "t\(id)", session: "s"), 1) }
        let served = table.claim(2_000, batch: 10)
        #expect(served.count == 1_000 && served.values.allSatisfy { $0 == 1 })
        #expect(table.schedule.isEmpty && !table.schedule.hasReady)
    }

    @Test(
        "no plan claims more of an origin than its limit, and every job is served once",
        arguments: UInt64(1)...20)
    func laws(seed: UInt64) {
        var random = Seeded(seed)
        var table = SimulatedTable()
        let limits = (0..<6).map { _ in Int.random(in: 1...8, using: &random) }
        for session in 0..<4 {
            table.add(
                ClaimQueue(id: Int64(session + 1), tenant: "t\(session % 2)", session: "s\(session)"), 2_000)
            for origin in 0..<6 {
                let queue = ClaimQueue(
                    id: Int64(-1 - session * 6 - origin), tenant: "t\(session % 2)", session: "s\(session)",
                    origin: "http://\(origin):80")
                table.add(queue, Int.random(in: 0...60, using: &random), limit: limits[origin])
            }
        }
        let total = table.left
        var slots = 32
        var served = 0
        while table.left > 0 || !table.running.isEmpty {
            table.now = table.now + 0.1
            // A third of the running jobs ends.
            for job in table.running where Int.random(in: 0..<3, using: &random) == 0 {
                table.end(job); slots += 1
            }
            let wanted = slots
            let count = table.claimOnce(wanted)
            slots -= count
            served += count
            // The table enforces the limits in any case; a plan that exceeds them is wasted.
            #expect(table.asked.allSatisfy { $0.value <= limits[$0.key] }, "\(table.asked)")
            #expect(table.askedCount <= wanted && table.askedTwiceCount == 0)
            guard table.now < instant(20_000) else { break }
        }
        #expect(served == total && slots == 32)
    }
}

/// A random number generator (SplitMix64) with a seed, so that failures are reproducible.
struct Seeded: RandomNumberGenerator {
    private var state: UInt64
    init(_ seed: UInt64) { state = seed &* 0x9E37_79B9_7F4A_7C15 }
    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xBF58_476D_1CE4_E5B9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94D0_49BB_1331_11EB
        return mixed ^ (mixed >> 31)
    }
}

/// A table of jobs: rows by queue, and limits by origin.
struct SimulatedTable {
    struct Running: Hashable {
        let number: Int
        let origin: Int?
    }
    var schedule = ClaimSchedule()
    var now = Timestamp(microseconds: 0)
    private(set) var running: Set<Running> = []
    private(set) var runningOf: [Int: Int] = [:]
    private var rows: [Int64: Int] = [:]
    private var limits: [Int: Int] = [:]
    private var nextNumber = 0
    /// Jobs that the last plan wanted: of each origin with a limit, in total, and of queues that it named
    /// twice.
    private(set) var asked: [Int: Int] = [:]
    private(set) var askedCount = 0
    private(set) var askedTwiceCount = 0

    var left: Int { rows.values.reduce(0, +) }

    mutating func add(_ queue: ClaimQueue, _ count: Int, weight: Double = 1, limit: Int? = nil) {
        rows[queue.id, default: 0] += count
        if let origin = Self.number(of: queue) { limits[origin] = limit }
        schedule.add(queue, head: now, weight: weight, limit: limit, limited: limit == nil ? nil : .origin)
    }

    mutating func end(_ job: Running) {
        running.remove(job)
        guard let origin = job.origin else { return }
        runningOf[origin, default: 0] -= 1
        schedule.wake(origin: "http://\(origin):80")
    }

    /// Claims up to `count` jobs; returns how many were found.
    mutating func claimOnce(_ count: Int) -> Int {
        schedule.wake(at: now)
        let requests = schedule.plan(count)
        note(requests)
        return requests.reduce(0) { $0 + serve($1) }
    }

    private mutating func note(_ requests: [ClaimSchedule.Request]) {
        asked = [:]
        for request in requests {
            if let origin = Self.number(of: request.queue) { asked[origin, default: 0] += request.count }
        }
        askedCount = requests.reduce(0) { $0 + $1.count }
        askedTwiceCount = requests.count - Set(requests.map(\.queue.id)).count
    }

    /// Claims until `total` jobs were found or none is left; returns the number of jobs of each queue.
    mutating func claim(_ total: Int, batch: Int) -> [Int64: Int] {
        var served: [Int64: Int] = [:]
        var sum = 0
        while sum < total {
            let requests = schedule.plan(min(batch, total - sum))
            guard !requests.isEmpty else { break }
            for request in requests {
                let count = serve(request)
                served[request.queue.id, default: 0] += count
                sum += count
            }
        }
        return served
    }

    private mutating func serve(_ request: ClaimSchedule.Request) -> Int {
        let origin = Self.number(of: request.queue)
        let permits = origin.flatMap { limits[$0] }.map { $0 - runningOf[origin ?? 0, default: 0] } ?? .max
        let claimed = min(request.count, rows[request.queue.id, default: 0], permits)
        rows[request.queue.id, default: 0] -= claimed
        if let origin {
            runningOf[origin, default: 0] += claimed
            for _ in 0..<claimed {
                running.insert(Running(number: nextNumber, origin: origin)); nextNumber += 1
            }
        } else if limits.isEmpty == false {
            for _ in 0..<claimed { running.insert(Running(number: nextNumber, origin: nil)); nextNumber += 1 }
        }
        if claimed == request.count {
            schedule.settle(request, claimed: claimed, .more)
        } else if claimed == permits {
            schedule.settle(request, claimed: claimed, .blocked(until: now + 5))
        } else {
            schedule.settle(request, claimed: claimed, .empty)
        }
        return claimed
    }

    private static func number(of queue: ClaimQueue) -> Int? {
        queue.origin.flatMap { Int($0.dropFirst(7).prefix(1)) }
    }
}
