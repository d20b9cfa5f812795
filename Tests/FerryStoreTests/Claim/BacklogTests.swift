import FerryCore
import FerryScheduler
import Postgres
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("Backlog and throughput rates", .onOwnThread)
struct BacklogTests {
    let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    private func addition(_ number: Int) -> [ClaimQueue: Backlog.Addition] {
        let queue = ClaimQueue(id: Int64(number), tenant: "acme", session: "s\(number)")
        return [queue: Backlog.Addition(head: Timestamp(microseconds: Int64(number)), count: 1)]
    }

    @Test("additions beyond the limit are forgotten, and a scan is requested")
    func additions() throws {
        let backlog = Backlog()
        for number in 1...Backlog.additionCountMax { backlog.add(addition(number)) }
        #expect(backlog.wantedScan == nil && backlog.count == Backlog.additionCountMax)
        for _ in 0..<3 { backlog.add(addition(1)) }
        #expect(backlog.wantedScan == nil)
        backlog.add(addition(0))
        let wanted = try #require(backlog.wantedScan)
        #expect(backlog.count == nil && backlog.takeAdditions().isEmpty)
        let mark = backlog.mark
        backlog.scanned(wanted)
        backlog.claimed(since: mark, isDeep: false)
        #expect(backlog.isEmpty)
    }

    @Test("a node that is no worker remembers no queued jobs")
    func elsewhere() throws {
        let api = try TestNode(database.url, isWorker: false)
        defer { api.store.stop() }
        _ = try api.submit((0..<5).map { newJob(session: "s\($0)") }).get()
        let json =
            #"{"time_zone":"UTC","missed":"skip","overlap":"allow","enabled":true,"interval":100.0}"#
        let schedule = NewSchedule(
            id: TestNode.identifiers.make(), tenant: "acme",
            spec: try ScheduleSpec(storedJSON: Array(json.utf8)),
            jobs: ScheduleJobs(newJob().request))
        let store = api.store
        _ = try wait { reply in
            store.scheduleCommands.createSchedule(schedule, nil) { reply($0.map(\.record)) }
        }.get()
        _ = try wait {
            store.scheduleCommands.runSchedule(
                schedule.id, tenant: "acme", nil, traceparent: newTraceparent(), reply: $0)
        }.get()
        #expect(try countedStates(database.url) == ["queued": 6])
        #expect(store.queueState.backlog.mark == 0 && store.queueState.backlog.takeAdditions().isEmpty)
    }

    @Test("full throughput rates still take measurements, and keep the latest of all nodes")
    func throughputs() throws {
        var connection = try Connection(url: database.url)
        let most = ThroughputEstimates.originCountMax
        try connection.execute(
            script: """
                INSERT INTO host_throughputs (origin, bytes_per_second, measured_at)
                SELECT 'https://h' || n, 1000000, now() - n * interval '1 s'
                FROM generate_series(1, \(most + 10)) n
                """)
        let rates = ThroughputEstimates()
        let now = Timestamp(microseconds: Sys.wallMicroseconds())
        try rates.exchange(&connection, now: now)
        #expect(rates.bytesPerSecond("https://h\(most)") == 1e6)
        #expect(rates.bytesPerSecond("https://h\(most + 1)") == nil)
        for _ in 0..<2 { rates.note("https://h1", byteCount: 2_000_000, seconds: 1) }
        rates.note("https://new", byteCount: 3_000_000, seconds: 1)
        let known = try #require(rates.bytesPerSecond("https://h1"))
        #expect(abs(known - 1.51e6) < 1 && rates.bytesPerSecond("https://new") == 3e6)
        #expect(rates.bytesPerSecond("https://h2") == 1e6, "others are not forgotten for it")
        try rates.exchange(&connection, now: now + 1)
        let shared = try #require(rates.bytesPerSecond("https://h1"))
        #expect(abs(shared - 1.255e6) < 1 && rates.bytesPerSecond("https://new") == 3e6)
        #expect(rates.bytesPerSecond("https://h\(most)") == nil, "no more than there may be")
    }

    @Test("measurements that wait to be written are bounded, and each origin's are continued")
    func unshared() throws {
        let rates = ThroughputEstimates()
        let most = ThroughputEstimates.originCountMax
        for number in 1...most { rates.note("https://h\(number)", byteCount: 2_000_000, seconds: 2) }
        rates.note("https://new", byteCount: 2_000_000, seconds: 1)
        #expect(rates.bytesPerSecond("https://new") == nil)
        rates.note("https://h1", byteCount: 2_000_000, seconds: 1)
        let known = try #require(rates.bytesPerSecond("https://h1"))
        #expect(abs(known - 1.3e6) < 1)
        var connection = try Connection(url: database.url)
        try rates.exchange(&connection, now: Timestamp(microseconds: Sys.wallMicroseconds()))
        rates.note("https://new", byteCount: 2_000_000, seconds: 1)
        #expect(rates.bytesPerSecond("https://new") == 2e6 && rates.bytesPerSecond("https://h2") == 1e6)
    }
}
