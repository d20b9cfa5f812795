import FerryCore
import Postgres
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("Relay transactions", .onOwnThread)
struct RelayTransactionTests {
    let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    private func log() throws -> EventLog { try EventLog(database.url) }

    /// Endpoints that want every event of a tenant.
    private func addEndpoints(_ count: Int, to tenant: String) throws {
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: """
                INSERT INTO webhooks (id, created_at, updated_at, disable_after, is_enabled, is_ordered,
                    format, tenant, url, retry_delays, public_key, keys)
                SELECT gen_random_uuid(), now(), now(), 3600, true, false, 'standard', '\(tenant)',
                    'https://' || i || '.example/', '{}', '', ''
                FROM generate_series(1, \(count)) i
                """)
    }

    private func large(_ pairCount: Int) -> [JobSpec.Pair] {
        let text = String(repeating: "x", count: 2_000)
        return (0..<pairCount).map { JobSpec.Pair("\($0)", text) }
    }

    @Test("the locks of a node that is frozen in a transaction are free before others stop waiting for them")
    func frozenTransaction() throws {
        let node = try TestNode(database.url, isWorker: false)
        defer { node.store.stop() }
        var frozen = try Connection(url: database.url)
        let timeout = try node.store.context.connection("frozen").withConnection {
            (connection: inout Connection) throws(PostgresError) in
            try connection.execute(
                Statement("timeout", "SELECT current_setting('idle_in_transaction_session_timeout')")
            ).text(0, 0)
        }
        // A pass of a node that is frozen after it has taken the relay's lock "ferryeve".
        try frozen.execute(
            script: """
                SET idle_in_transaction_session_timeout = '\(timeout)'; BEGIN;
                SELECT pg_advisory_xact_lock(\(0x6665_7272_7965_7665))
                """)
        let job = try node.submit(newJob(session: "s"))
        // The relay stops waiting after 20 s.
        #expect(
            eventually(seconds: 18) { (try? log().events.first?.record.job) == job.id },
            "the event has a number")
    }

    @Test("a tenant with more deliveries than a pass holds gets several, between those of others")
    func busyTenant() throws {
        let (jobCount, endpointCount) = (40, 40)
        try addEndpoints(endpointCount, to: "busy")
        let node = try TestNode(database.url, isWorker: false)
        defer { node.store.stop() }
        var holder = try Connection(url: database.url)
        // Holds the relay's lock "ferryeve", like a pass of another node.
        let lock = 0x6665_7272_7965_7665
        try holder.execute(script: "SELECT pg_advisory_lock(\(lock))")
        let jobs = (0..<jobCount).map { _ in newJob(tenant: "busy", session: "s", metadata: large(10)) }
        _ = try node.submit(jobs).get()
        let other = try node.submit(newJob(tenant: "quiet", session: "s"))
        try holder.execute(script: "SELECT pg_advisory_unlock(\(lock))")
        try eventually("all have numbers") { try log().events.count == jobCount + 1 }
        let found = try log()
        #expect(found.isGapFree)
        let place = try #require(found.events.firstIndex { $0.record.job == other.id })
        #expect(place > 0 && place < jobCount, "it waits for one pass of the busy tenant")
        let told = found.events.filter { $0.tenant == "busy" }.compactMap(\.record.job)
        #expect(told.count == jobCount && Set(told) == Set(jobs.map(\.id)))
        // Deliveries of each transaction.
        let rows = try holder.execute(
            Statement(
                "passes",
                """
                SELECT count(*), sum(octet_length(job_json))::bigint, count(DISTINCT (event, endpoint))
                FROM deliveries GROUP BY xmin::text
                """))
        let passes = (0..<rows.rowCount).map { (rows.int64($0, 0), rows.int64($0, 1), rows.int64($0, 2)) }
        let deliveryCount = Int64(jobCount * endpointCount)
        #expect(passes.map(\.0).reduce(0, +) == deliveryCount)
        #expect(passes.map(\.2).reduce(0, +) == deliveryCount)
        let byteCountMax = Int64(EventRouter.passByteCountMax)
        #expect(passes.count > 2 && passes.allSatisfy { $0.1 <= byteCountMax })
    }

    @Test("an event with more deliveries than a pass holds gets all of them")
    func largeEvent() throws {
        try addEndpoints(200, to: "acme")
        let node = try TestNode(database.url, isWorker: false)
        defer { node.store.stop() }
        let jobs = (0..<2).map { _ in newJob(session: "s", metadata: large(50)) }
        _ = try node.submit(jobs).get()
        try node.waitForDeliveries(400)
        #expect(try log().isGapFree && log().events.count == 2)
    }

    @Test(
        "a pass that fails for lack of time or memory is repeated with fewer events",
        arguments: ["57014", "53200"])
    func shortage(_ state: String) throws {
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: """
                CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    IF (SELECT count(*) FROM added) > 60 THEN
                        RAISE EXCEPTION 'too much' USING ERRCODE = '\(state)';
                    END IF;
                    RETURN NULL;
                END $$;
                CREATE TRIGGER refuse AFTER INSERT ON deliveries REFERENCING NEW TABLE AS added
                    FOR EACH STATEMENT EXECUTE FUNCTION refuse()
                """)
        let node = try TestNode(database.url, isWorker: false)
        defer { node.store.stop() }
        // Each job has a row in the inbox.
        let jobs = (0..<150).map { newJob(session: "\($0)", webhook: true, webhookEvents: [.jobCreated]) }
        _ = try node.submit(jobs).get()
        try node.waitForDeliveries(150)
        #expect(node.store.metrics.rejectedEvents == 0)
    }

    /// `true` if the result of the job and its delivery were committed together.
    private func isToldWithResult(_ job: JobID) throws -> Bool {
        var connection = try Connection(url: database.url)
        var parameters = Parameters()
        parameters.append(job)
        let rows = try connection.execute(
            Statement(
                "together",
                """
                SELECT d.xmin = f.xmin FROM finished_jobs f JOIN deliveries d ON d.job = f.id
                WHERE f.id = $1::uuid
                """, parameters: 1), parameters)
        return rows.rowCount == 1 && rows.bool(0, 0)
    }

    @Test("the result of a job on an idle node and its webhook delivery are one transaction")
    func withResult() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        // A job that ends while the relay numbers an earlier event, or while the node has other work, is told
        // in a later transaction.
        try eventually("a job on an idle node") {
            let job = try node.submit(newJob(webhook: true, webhookEvents: [.jobSucceeded]))
            node.end(try node.attempt(), success)
            return try isToldWithResult(job.id)
        }
        // No webhook waits for this one: the relay numbers it later.
        let silent = try node.submit(newJob())
        node.end(try node.attempt(), success)
        try eventually("its events have numbers") {
            try log().events.contains { $0.record.job == silent.id && $0.record.type == .jobSucceeded }
        }
        #expect(try log().isGapFree)
    }

    @Test("the delivery that is committed with a result has the job, secrets and trace of the row")
    func jobInHand() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        var connection = try Connection(url: database.url)
        try eventually("a job on an idle node") {
            let job = try node.submit(
                newJob(
                    path: "a?key=hush", webhook: true, webhookEvents: [.jobSucceeded],
                    sealedSecrets: Array("secret".utf8), traceparent: "00-1-2-01"))
            node.end(try node.attempt(), success)
            guard try isToldWithResult(job.id) else { return false }
            let record = try node.job(job.id).get().record
            let event = try #require(try log().events.last { $0.record.job == job.id }).record
            var parameters = Parameters()
            parameters.append(job.id)
            let delivery = try connection.execute(
                Statement(
                    "delivery", "SELECT job_json, secrets, traceparent FROM deliveries WHERE job = $1::uuid",
                    parameters: 1), parameters)
            #expect(delivery.bytes(0, 0) == event.jobJSON(record))
            #expect(delivery.bytes(0, 1) == Array("secret".utf8) && delivery.text(0, 2) == "00-1-2-01")
            return true
        }
    }

    @Test("a result does not wait for a pass that is under way")
    func besidePass() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        var holder = try Connection(url: database.url)
        // Holds the relay's lock "ferryeve", like a pass of another node.
        try holder.execute(script: "SELECT pg_advisory_lock(\(0x6665_7272_7965_7665))")
        let job = try node.submit(newJob(webhook: true, webhookEvents: [.jobSucceeded]))
        node.end(try node.attempt(), success)
        #expect(try node.job(job.id).get().record.state == .succeeded)
        try holder.execute(script: "SELECT pg_advisory_unlock(\(0x6665_7272_7965_7665))")
        try node.waitForDeliveries(1)
        #expect(try !isToldWithResult(job.id))
    }

    @Test("a result is committed although the database refuses its delivery")
    func refusedDelivery() throws {
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: """
                CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                    RAISE EXCEPTION 'not now' USING ERRCODE = '53200';
                END $$;
                CREATE TRIGGER refuse BEFORE INSERT ON deliveries FOR EACH ROW EXECUTE FUNCTION refuse()
                """)
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let job = try node.submit(newJob(webhook: true, webhookEvents: [.jobSucceeded]))
        node.end(try node.attempt(), success)
        #expect(try node.job(job.id).get().record.state == .succeeded)
        try connection.execute(script: "DROP TRIGGER refuse ON deliveries")
        try node.waitForDeliveries(1)
        #expect(try log().isGapFree)
    }

    @Test("a session's final event goes once to each of 2,500 job webhook URLs")
    func manyReceivers() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        _ = try node.submit(["s", "t"].map { newJob(session: $0) }).get()
        let attempts = try node.attempts(2)
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: """
                INSERT INTO session_receivers (tenant, session, url, job, wanted, changed_at)
                SELECT 'acme', s, 'https://' || i || '.' || s || '.example/', gen_random_uuid(),
                    \([EventType.sessionEventsFinished].mask), now()
                FROM generate_series(1, 2500) i, unnest('{s,t}'::text[]) s
                """)
        // Holds the relay's lock "ferryeve", like a pass of another node.
        let lock = 0x6665_7272_7965_7665
        try connection.execute(script: "SELECT pg_advisory_lock(\(lock))")
        for attempt in attempts { node.end(attempt, success) }
        try connection.execute(script: "SELECT pg_advisory_unlock(\(lock))")
        try node.waitForDeliveries(5_000)
        let rows = try connection.execute(
            Statement(
                "urls",
                """
                SELECT count(DISTINCT url), count(DISTINCT event),
                    count(*) FILTER (WHERE url LIKE '%.' || session || '.example/')
                FROM deliveries
                """))
        #expect(rows.int64(0, 0) == 5_000 && rows.int64(0, 1) == 2 && rows.int64(0, 2) == 5_000)
        // Each receiver is read and deleted once: deleted ones are not read again.
        let visits = Statement(
            "visits",
            "SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'session_receivers_pkey'")
        var count: Int64 = 0
        try eventually("the visits are counted") {
            count = try connection.execute(visits).int64(0, 0)
            return count >= 10_000
        }
        #expect(count < 15_000)
        let left = try connection.execute(Statement("left_over", "SELECT url FROM session_receivers"))
        #expect(left.rowCount == 0)
    }

    @Test("the final events of 60 sessions go to all their job webhooks")
    func manySessions() throws {
        let node = try TestNode(database.url, slots: 70)
        defer { node.store.stop() }
        _ = try node.submit((0..<60).map { newJob(session: "s\($0)") }).get()
        let attempts = try node.attempts(60)
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: """
                INSERT INTO session_receivers (tenant, session, url, job, wanted, changed_at)
                SELECT 'acme', 's' || s, 'https://' || i || '.' || s || '.example/', gen_random_uuid(),
                    \([EventType.sessionEventsFinished].mask), now()
                FROM generate_series(1, 30) i, generate_series(0, 59) s
                """)
        for attempt in attempts { node.end(attempt, success) }
        try node.waitForDeliveries(1_800)
        let rows = try connection.execute(
            Statement("urls", "SELECT count(DISTINCT url), count(DISTINCT event) FROM deliveries"))
        #expect(rows.int64(0, 0) == 1_800 && rows.int64(0, 1) == 60)
        let left = try connection.execute(Statement("left_over", "SELECT url FROM session_receivers"))
        #expect(left.rowCount == 0)
    }

    @Test("inbox rows are split between events, and unreadable bytes stay at the end of the last part")
    func split() {
        func row(_ position: Int64, _ eventCount: Int, damage: [UInt8] = []) -> InboxRow {
            var packed: [UInt8] = []
            for index in 0..<eventCount {
                let at = Timestamp(microseconds: Int64(index))
                EventRecord(.jobCreated, job: newJob().id, at: at, detail: Array(repeating: 7, count: index))
                    .pack(into: &packed)
            }
            packed += damage
            return InboxRow(
                position: position, tenant: "a", session: "s", group: nil, packed: packed,
                entries: EventRecord.unpack(packed))
        }
        let rows = [row(1, 3), row(2, 1), row(3, 4, damage: [1, 2, 3])]
        let all = rows.flatMap(\.packed)
        for count in 0...8 {
            let (first, rest) = rows.split(after: count)
            #expect(first.reduce(0) { $0 + $1.entries.count } == count)
            #expect((first + rest).flatMap(\.packed) == all)
            for part in first + rest {
                #expect(part.entries == EventRecord.unpack(part.packed))
                #expect(rows.contains { $0.position == part.position })
            }
        }
    }

    @Test("an event is known to readers until a later row is removed, also for the events of a job")
    func known() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let store = node.store
        let empty = try wait { store.events.lastEvent(reply: $0) }.get()
        let job = try node.submit(newJob(session: "s"))
        let begun = try wait { store.events.lastEvent(reply: $0) }.get()
        node.end(try node.attempt(), success)
        let last = try wait { store.events.lastEvent(reply: $0) }.get()
        func ofJob(_ after: EventID) throws -> EventReplay {
            try wait { store.events.events(of: job.id, tenant: "acme", after: after, limit: 1, reply: $0) }
                .get()
        }
        func isKnown(_ after: EventID) throws -> Bool {
            try wait { store.events.replay(tenant: "acme", session: nil, after: after, limit: 1, reply: $0) }
                .get()
                .isKnown
        }
        #expect(empty == EventID(high: 0, low: 0))
        for id in [empty, begun, last] {
            let replay = try ofJob(id)
            #expect(try replay.isKnown && isKnown(id))
            #expect(replay.isOver == (id == last) && replay.entries.count == (id == last ? 0 : 1))
        }
        #expect(try ofJob(empty).hasMore && !ofJob(begun).isOver)
        let unknown = EventID(high: .max, low: 0)
        #expect(try !ofJob(unknown).isKnown && !isKnown(unknown))
        var connection = try Connection(url: database.url)
        try eventually("its session is over") {
            try log().events.last?.record.type == .sessionEventsFinished
        }
        func removeOld(_ countMax: Int32) throws -> Int64 {
            var parameters = Parameters()
            parameters.append(float64: 0)
            parameters.append(int32: countMax)
            return try connection.execute(Statements.removeOldEvents, parameters).int64(0, 0)
        }
        #expect(try removeOld(1) == 1)
        #expect(try !ofJob(empty).isKnown && !isKnown(empty), "the first row is gone")
        #expect(try ofJob(last).isKnown && isKnown(last))
        _ = try removeOld(100)
        #expect(try log().rows.count == 1 && removeOld(100) == 0, "the latest one stays")
        let latest = try wait { store.events.lastEvent(reply: $0) }.get()
        #expect(try latest >= last && isKnown(latest) && !isKnown(empty) && !isKnown(begun))
        let replay = try ofJob(latest)
        #expect(replay.isKnown && replay.isOver)
    }

    @Test("the events of a job are not complete before the last one has its number and was returned")
    func lateNumber() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let store = node.store
        let job = try node.submit(newJob(session: "s"))
        let begun = try wait { store.events.lastEvent(reply: $0) }.get()
        node.end(try node.attempt(), success)
        try eventually("its session is over") {
            try log().events.last?.record.type == .sessionEventsFinished
        }
        // The later events are numbered again by this test: passes ignore negative positions.
        var inbox = try Connection(url: database.url)
        try inbox.execute(
            script: """
                CREATE TEMPORARY TABLE taken AS SELECT * FROM events WHERE id > '\(begun.uuidText)';
                DELETE FROM events WHERE id > '\(begun.uuidText)';
                INSERT INTO event_inbox (position, tenant, session, packed) OVERRIDING SYSTEM VALUE
                SELECT -row_number() OVER (), tenant, session, packed FROM taken
                """)
        var jobs = try Connection(url: database.url)
        try jobs.execute(script: "BEGIN; LOCK TABLE finished_jobs")
        let answer = Mailbox<Result<EventReplay, StoreError>>()
        store.events.events(of: job.id, tenant: "acme", after: begun, limit: 10) { answer.send($0) }
        try eventually("the job is being read") {
            try isBlocked("reads", at: "finished_jobs", database.url)
        }
        try inbox.execute(script: "BEGIN; LOCK TABLE event_inbox")
        try jobs.execute(script: "COMMIT")
        try eventually("the inbox is being read") {
            try isBlocked("reads", at: "event_inbox", database.url)
        }
        try inbox.execute(
            script: "DELETE FROM event_inbox; INSERT INTO events SELECT * FROM taken; COMMIT")
        let replay = try #require(answer.wait(milliseconds: 60_000).first).get()
        #expect(!replay.isOver && replay.entries.contains { $0.event.record.type == .jobSucceeded })
    }
}
