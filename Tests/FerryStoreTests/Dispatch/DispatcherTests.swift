import FerryCore
import FerryStore
import Postgres
import Synchronization
import Sys
import TestSupport
import TestThreads
import Testing

@Suite("Dispatcher", .onOwnThread)
struct DispatcherTests {
    let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    @Test("a result finishes the job and frees its slot")
    func finish() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let accepted = try node.submit(newJob())
        let attempt = try node.attempt()
        node.end(attempt, success)
        let record = try node.job(accepted.id).get().record
        #expect(record.state == .succeeded && record.revision == attempt.revision + 1)
        #expect(record.finishedAt.map { $0 >= attempt.startedAt } == true)
        let response = try #require(record.storedResponse).read()
        #expect(response.status == 200)
        eventually("the slot is free") { node.slots.freeCount == 4 }
        #expect(try node.status().running == 0)
    }

    @Test("while downloads are not admitted they queue, and other jobs begin")
    func heldDownloads() throws {
        let node = try TestNode(database.url, slots: 1)
        defer { node.store.stop() }
        node.downloads.set(.noSpace)
        let download = try node.submit(newJob(priority: 0.9))
        #expect(download.state == .queued)
        let other = try node.submit(newJob(kind: .data))
        let first = try node.attempt()
        #expect(first.job == other.id)
        // This one finds no slot, and is claimed past the download when there is one.
        let data = try node.submit(newJob(kind: .data, priority: 0.1))
        #expect(data.state == .queued)
        node.end(first, success)
        let second = try node.attempt()
        #expect(second.job == data.id)
        node.end(second, success)
        #expect(try node.status().queued == 1)
        node.downloads.set(nil)
        #expect(try node.attempt().job == download.id)
    }

    @Test("a failed job waits and begins again with the next attempt number, until no attempt is left")
    func retries() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let accepted = try node.submit(newJob(attemptCountMax: 3))
        for number in Int32(1)...3 {
            let attempt = try node.attempt()
            #expect(attempt.number == number && attempt.failedAttemptCount == number - 1)
            node.end(attempt, failure())
        }
        node.waitUntilFinished(accepted.id)
        let record = try node.job(accepted.id).get().record
        #expect(record.state == .failed && record.attempt == 3 && record.failedAttemptCount == 3)
        let error = try #require(record.error)
        #expect(error.code.choice == .connectionLost)
    }

    @Test("a job that waits for a retry shows its last error and its next attempt")
    func waitingRetry() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let accepted = try node.submit(newJob(retryDelay: 600))
        node.end(try node.attempt(), failure())
        try eventually("the job waits") { try node.job(accepted.id).get().record.state == .waiting }
        let record = try node.job(accepted.id).get().record
        #expect(record.waitingFor == .retry && record.error != nil && record.node == nil)
        #expect(record.nextAttemptAt.map { $0 - record.createdAt > 400 } == true)
    }

    @Test("a result that names an older attempt or revision changes nothing")
    func fencing() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let accepted = try node.submit(newJob())
        let attempt = try node.attempt()
        // Somebody else took the job: another node reclaimed it and it runs again.
        var connection = try Connection(url: database.url)
        try connection.execute(script: "UPDATE jobs SET attempt = attempt + 1, revision = revision + 2")
        node.store.dispatcher.record(result(attempt, success))
        eventually("the result is dropped") { node.store.metrics.fencedResults == 1 }
        let record = try node.job(accepted.id).get().record
        #expect(record.state == .running && record.attempt == 2)
        eventually("the slot is free") { node.slots.freeCount >= 3 }
    }

    @Test("an event of a running job is not written again after a commit of unknown outcome")
    func lostAnswer() throws {
        let server = try TestServer()
        defer { server.remove() }
        try Migrator.migrate(url: server.url())
        let node = try TestNode(server.url()) { $0.heartbeatSeconds = 0.2 }
        defer { node.store.stop() }
        _ = try node.submit(newJob())
        let attempt = try node.attempt()
        var connection = try Connection(url: server.url())
        let waits = { (what: String) in
            "FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND \(what)"
        }
        // From now on a commit is done, and then waits for a standby that there is not.
        try connection.execute(script: "ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        try connection.execute(script: "SELECT pg_reload_conf()")
        let commits = Statement("commits", "SELECT count(*) \(waits("true"))")
        try eventually("commits wait") { try connection.execute(commits).int64(0, 0) > 0 }
        node.store.dispatcher.resumed(attempt, at: 7)
        let mine = waits("application_name = 'ferry dispatcher' AND query LIKE '%event_inbox%'")
        let ends = Statement("ends", "SELECT pg_terminate_backend(pid) \(mine)")
        try eventually("its commit is done, and nobody hears of it") {
            try connection.execute(ends).rowCount == 1
        }
        try connection.execute(script: "ALTER SYSTEM RESET synchronous_standby_names")
        try connection.execute(script: "SELECT pg_reload_conf()")
        node.end(attempt, success)
        try eventually("its end is told") {
            try EventLog(server.url()).events.contains { $0.record.type == .jobSucceeded }
        }
        let told = try EventLog(server.url()).events.filter { $0.record.job != nil }.map(\.record.type)
        #expect(told == [.jobCreated, .jobStarted, .jobResumedAtOffset, .jobSucceeded])
    }

    @Test("a released lease is queued again with the same count of failures")
    func release() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        _ = try node.submit(newJob())
        let first = try node.attempt()
        node.end(first, .released)
        let second = try node.attempt()
        #expect(second.job == first.job && second.number == 2 && second.failedAttemptCount == 0)
    }

    @Test("events are numbered without gaps in each session, and committed with the state")
    func events() throws {
        let node = try TestNode(database.url, slots: 64)
        defer { node.store.stop() }
        let jobs = (0..<60).map { newJob(session: $0 % 3 == 0 ? "a" : "b", webhook: $0 % 2 == 0) }
        _ = try node.submit(jobs).get()
        for attempt in try node.attempts(60) { node.store.dispatcher.record(result(attempt, success)) }
        try eventually("all have finished") { try node.status().running == 0 }
        try node.waitForDeliveries(30)
        var connection = try Connection(url: database.url)
        let rows = try connection.execute(
            Statement(
                "sequences",
                """
                SELECT session, array_agg(sequence ORDER BY sequence), count(DISTINCT event)
                FROM deliveries GROUP BY session ORDER BY session
                """))
        // Each job was created, started and has ended.
        #expect(rows.int64Array(0, 1).count == 10 && rows.int64(0, 2) == 10)
        #expect(rows.int64Array(1, 1).count == 20 && rows.int64(1, 2) == 20)
        try eventually("everything has its number") { try EventLog(database.url).events.count >= 180 }
        let log = try EventLog(database.url)
        for (session, jobs) in [("a", 20), ("b", 40)] {
            let events = log.events.filter { $0.session == session }
            #expect(events.map(\.sequence) == (1...Int64(events.count)).map { $0 })
            #expect(events.count { !$0.record.type.isOfSession } == jobs * 3)
        }
        eventually("the sender is told") { node.observer.deliveries.load(ordering: .relaxed) == 30 }
    }

    @Test("an event shows the job as the API returns it afterwards")
    func snapshot() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let accepted = try node.submit(newJob(webhook: true))
        node.end(try node.attempt(), success)
        let stored = try node.job(accepted.id).get().record
        var writer = JSONWriter()
        stored.write(into: &writer, progress: nil)
        try node.waitForDeliveries(1)
        let due = Mailbox<[Delivery]>()
        node.store.deliveries.claim(DeliveryDemand(total: 10, other: 10), leaseSeconds: 30) {
            due.send($0.due)
        }
        let delivery = try #require(due.wait(milliseconds: 60_000).first?.first)
        #expect(delivery.jobJSON == writer.bytes)
        #expect(delivery.job == accepted.id && delivery.sequence == 3 && delivery.tryNumber == 1)
    }

    @Test("a job whose resource timeout has passed fails without another attempt")
    func expiry() throws {
        let node = try TestNode(database.url, slots: 1)
        defer { node.store.stop() }
        _ = try node.submit(newJob())
        let blocking = try node.attempt()
        let late = try node.submit(newJob(timeoutForResource: 0.05))
        eventually("its time passes") {
            Timestamp(microseconds: Sys.wallMicroseconds()) - late.createdAt > 0.1
        }
        node.store.dispatcher.record(result(blocking, success))
        node.waitUntilFinished(late.id)
        let record = try node.job(late.id).get().record
        #expect(record.state == .failed)
        #expect(record.error?.code.choice == .resourceTimeout)
    }

    @Test("a draining node leases nothing, and a stopping one gives back its running jobs")
    func drain() throws {
        let node = try TestNode(database.url)
        _ = try node.submit(newJob())
        _ = try node.attempt()
        node.store.drain()
        let queued = try node.submit(newJob())
        #expect(queued.state == .queued)
        node.store.stop()
        #expect(try countedStates(database.url) == ["queued": 2])
        guard case .failure(.unavailable) = node.submit([newJob()]) else {
            return
        }
    }

    @Test("concurrent changes keep the counts equal to the rows")
    func counts() throws {
        let nodes = [try TestNode(database.url, slots: 16), try TestNode(database.url, slots: 8)]
        for (index, node) in nodes.enumerated() {
            var random = SeededRandom(seed: UInt64(index))
            let choices = Mutex((0..<4096).map { _ in Int.random(in: 0..<10, using: &random) })
            node.runner.react { [store = node.store] attempt in
                let choice = choices.withLock { $0.popLast() ?? 0 }
                switch choice {
                case 0: store.dispatcher.record(result(attempt, .released))
                case 1, 2: store.dispatcher.record(result(attempt, failure()))
                case 3: store.dispatcher.record(result(attempt, .cancelled))
                case 4:
                    store.jobCommands.cancel(attempt.job, tenant: "acme") { _ in
                        store.dispatcher.record(result(attempt, failure()))
                    }
                default: store.dispatcher.record(result(attempt, success))
                }
            }
        }
        for round in 0..<40 {
            let jobs = (0..<10).map { newJob(webhook: $0 == 3) }
            _ = try nodes[round % 2].submit(jobs, key: round % 4 == 0 ? key("k\(round / 8)") : nil).get()
            nodes[(round + 1) % 2].store.jobCommands.cancel(jobs[0].id, tenant: "acme") { _ in }
        }
        try eventually("all have finished") { try countedStates(database.url).isEmpty }
        // Answered when every event has its number, and its delivery.
        _ = try wait { nodes[0].store.events.lastEvent(reply: $0) }.get()
        let status = try nodes[0].status()
        #expect(status.waiting == 0 && status.queued == 0 && status.running == 0 && status.suspended == 0)
        var connection = try Connection(url: database.url)
        let pending = try connection.execute(
            Statement("pending", "SELECT count(*) FROM deliveries WHERE state = 'pending'"))
        #expect(pending.int64(0, 0) == status.deliveriesPending)
        for node in nodes {
            eventually("every slot is free") { node.slots.freeCount == node.slots.capacity }
            node.store.stop()
        }
    }

    /// A node on a database that has been changed so that it refuses something.
    private func node(_ script: String) throws -> TestNode {
        var connection = try Connection(url: database.url)
        try connection.execute(script: script)
        return try TestNode(database.url)
    }

    @Test("while the database is full a result waits unchanged, and no attempt is repeated")
    func fullDatabase() throws {
        var connection = try Connection(url: database.url)
        let node = try node(
            """
            CREATE SEQUENCE refusals;
            CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                PERFORM nextval('refusals');
                RAISE EXCEPTION 'No space left on device' USING ERRCODE = 'disk_full';
            END $$;
            CREATE TRIGGER full_disk BEFORE INSERT ON event_inbox FOR EACH ROW
                WHEN (NEW.session = 'held') EXECUTE FUNCTION refuse();
            ALTER TABLE event_inbox DISABLE TRIGGER full_disk;
            """)
        defer { node.store.stop() }
        let accepted = try node.submit(newJob(session: "held"))
        let attempt = try node.attempt()
        try connection.execute(script: "ALTER TABLE event_inbox ENABLE TRIGGER full_disk")
        node.store.dispatcher.record(result(attempt, success))
        let refused = Statement("refused", "SELECT is_called FROM refusals")
        try eventually("it was tried") { try connection.execute(refused).bool(0, 0) }
        #expect(try node.job(accepted.id).get().record.state == .running)
        try connection.execute(script: "DROP TRIGGER full_disk ON event_inbox")
        node.waitUntilFinished(accepted.id)
        let record = try node.job(accepted.id).get().record
        #expect(record.state == .succeeded && record.attempt == 1 && record.storedError == nil)
        #expect(node.runner.begun.take().isEmpty)
    }

    @Test("if the database refuses a result's values, that job alone fails, without another attempt")
    func refusedResult() throws {
        let node = try node(
            "ALTER TABLE finished_jobs ADD CONSTRAINT no_result CHECK (session <> 'odd' OR result IS NULL)")
        defer { node.store.stop() }
        let accepted = try node.submit([newJob(session: "odd"), newJob()]).get().jobs
        for attempt in try node.attempts(2) { node.store.dispatcher.record(result(attempt, success)) }
        node.waitUntilFinished(accepted[0].id)
        let record = try node.job(accepted[0].id).get().record
        #expect(record.state == .failed && record.attempt == 1)
        #expect(record.error?.code.choice == .internalError)
        try eventually("the other one has succeeded") {
            try node.job(accepted[1].id).get().record.state == .succeeded
        }
        #expect(node.runner.begun.take().isEmpty)
    }
}
