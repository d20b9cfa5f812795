import FerryCore
import Postgres
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("Event log", .onOwnThread)
struct EventTests {
    let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    private func log() throws -> EventLog { try EventLog(database.url) }

    @Test("the events of a job are in order, and each shows the job at its time")
    func life() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let job = newJob(session: "life", attemptCountMax: 2)
        _ = try node.submit(job)
        node.end(try node.attempt(), failure())
        let second = try node.attempt()
        node.store.dispatcher.resumed(second, at: 7)
        node.end(second, success)
        try eventually("the session's events are over") {
            try log().events(of: "life").last?.record.type == .sessionEventsFinished
        }
        let events = try log().events(of: "life")
        #expect(
            events.map(\.record.type) == [
                .jobCreated, .jobStarted, .jobAttemptFailed, .jobResumedAtOffset, .jobSucceeded,
                .sessionEventsFinished,
            ])
        #expect(events.map(\.sequence) == [1, 2, 3, 4, 5, 6])
        #expect(events.dropLast().allSatisfy { $0.record.job == job.id } && events[5].record.job == nil)
        #expect(Set(events.map(\.id)).count == 6 && events.map(\.id) == events.map(\.id).sorted())
        let record = try node.job(job.id).get().record
        let shown = try events.map { event in
            var writer = JSONWriter()
            event.write(into: &writer, job: record)
            return try JSON.parse(writer.bytes)
        }
        let jobs = shown.map { $0["data"]?["job"] ?? .null }
        // The job may have been queued before it began.
        #expect(
            jobs.dropFirst().map { $0["state"]?.string } == [
                "running", "waiting", "running", "succeeded", nil,
            ])
        #expect(jobs[1...4].map { $0["attempt"]?.integer } == [1, 1, 2, 2])
        #expect(
            jobs[2]["error"]?["code"]?.string == "connection_lost"
                && jobs[2]["waiting_for"]?.string == "retry")
        #expect(jobs[1]["result"] == .null && jobs[4]["result"]?["size"]?.integer == 1)
        #expect(shown[3]["data"]?["offset"]?.integer == 7)
        #expect(jobs[5] == .null)
    }

    @Test("the times of a session's events never run backwards, though clocks of transactions differ")
    func times() throws {
        let node = try TestNode(database.url, isWorker: false)
        defer { node.store.stop() }
        let job = newJob(session: "times", webhook: true, webhookEvents: [.jobUnacknowledged])
        _ = try node.submit(job)
        var connection = try Connection(url: database.url)
        // In one pass, and in a pass of its own.
        for seconds in [[-3_600, 20, -5], [-1], [40]] {
            let events = seconds.map { second in
                """
                event_pack(14, \([EventType.jobUnacknowledged].mask), '\(job.id.uuidText)',
                    now() + interval '\(second) seconds', 0, 1, 'succeeded', NULL, NULL)
                """
            }
            let rows = events.map { "('acme', 'times', \($0))" }.joined(separator: ", ")
            try connection.execute(
                script: "INSERT INTO event_inbox (tenant, session, packed) VALUES \(rows)")
            _ = try wait { node.store.events.lastEvent(reply: $0) }.get()
        }
        let events = try log().events(of: "times")
        try #require(events.count == 6)
        let shown = events.map(\.timestamp)
        #expect(shown == shown.sorted())
        #expect(shown[1] == shown[0] && events[1].record.occurredAt < shown[0])
        #expect(shown[2] > shown[0] && shown[3] == shown[2] && shown[4] == shown[2] && shown[5] > shown[4])
        let told = try wait {
            node.store.deliveryQueries.deliveries(
                of: job.id, tenant: "acme", before: nil, limit: 10, reply: $0)
        }
        .get().records
        #expect(told.map(\.occurredAt) == shown.dropFirst().reversed())
        var query = EventQuery(tenant: "acme")
        query.since = shown[2]
        let listed = try wait { node.store.events.events(query, reply: $0) }.get().records
        #expect(listed.map(\.event.id) == events.dropFirst(2).reversed().map(\.id))
        #expect(listed.map(\.event.timestamp) == shown.dropFirst(2).reversed())
    }

    @Test("events of a deleted job stay in the log with its id")
    func deletion() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let job = newJob(session: "gone")
        _ = try node.submit(job)
        node.end(try node.attempt(), success)
        _ = try wait { node.store.jobCommands.delete(job.id, tenant: "acme", reply: $0) }.get()
        let events = try log().events(of: "gone")
        #expect(events.prefix(3).map(\.record.type) == [.jobCreated, .jobStarted, .jobSucceeded])
        var writer = JSONWriter()
        events[0].write(into: &writer, job: nil)
        #expect(try JSON.parse(writer.bytes)["data"]?["job"] == .object([.init("id", .string("\(job.id)"))]))
    }

    @Test("a repeated submission with a key writes job.created once for each job")
    func keyed() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let jobs = [newJob(session: "keyed"), newJob(session: "other")]
        for _ in 0..<2 { _ = try node.submit(jobs, key: key("k")).get() }
        for attempt in try node.attempts(2) { node.store.dispatcher.record(result(attempt, success)) }
        try eventually("both are over") {
            try log().events.count { $0.record.type == .sessionEventsFinished } == 2
        }
        #expect(try log().events.count == 8)
    }

    @Test("a refused inbox row is set aside and its events are numbered; other sessions continue")
    func rejection() throws {
        let credits = DeliveryCredits()
        credits.publish(DeliveryDemand(total: 10, other: 10))
        let node = try TestNode(database.url) { $0.credits = credits }
        defer { node.store.stop() }
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: """
                CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
                    $$ BEGIN RAISE EXCEPTION 'refused'; END $$;
                CREATE TRIGGER refuse BEFORE INSERT ON deliveries
                    FOR EACH ROW WHEN (NEW.session = 'refused') EXECUTE FUNCTION refuse()
                """)
        let sessions = ["a", "refused", "b", "c"]
        _ = try node.submit(sessions.map { newJob(session: $0, webhook: true) }).get()
        for attempt in try node.attempts(4) { node.store.dispatcher.record(result(attempt, success)) }
        try node.waitForDeliveries(3)
        try eventually("all have ended") {
            try log().events.count { $0.record.type == .jobSucceeded } == 4
        }
        try eventually("all sessions are over") {
            try log().events.count { $0.record.type == .sessionEventsFinished } == 1
        }
        #expect(try log().isGapFree)
        let rejected = try connection.execute(
            Statement("read_rejected", "SELECT session, is_numbered, error FROM rejected_events"))
        try #require(rejected.rowCount == 1)
        #expect(rejected.text(0, 0) == "refused" && rejected.bool(0, 1))
        #expect(rejected.text(0, 2).contains("refused") && node.store.metrics.rejectedEvents == 1)
        // Credits of deliveries that were rolled back are free again.
        let reserved = (0..<20 as Range<UInt64>).count {
            credits.reserve(.example($0))
        }
        #expect(reserved == 7)
    }

    @Test("a refused final event of one session delays neither events nor other sessions")
    func refusedEnd() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: """
                CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
                    $$ BEGIN RAISE EXCEPTION 'refused'; END $$;
                CREATE TRIGGER refuse BEFORE UPDATE ON sessions FOR EACH ROW
                    WHEN (OLD.is_drained AND NOT NEW.is_drained AND NEW.name = 'refused')
                    EXECUTE FUNCTION refuse()
                """)
        let sessions = ["a", "refused", "z"]
        _ = try node.submit(sessions.map { newJob(session: $0) }).get()
        for attempt in try node.attempts(3) { node.end(attempt, success) }
        try eventually("the other sessions have their final event") { try finished() == 2 }
        let found = try log()
        #expect(found.isGapFree && found.events.count { $0.record.type == .jobSucceeded } == 3)
        #expect(found.events(of: "refused").last?.record.type == .jobSucceeded)
        try connection.execute(script: "DROP TRIGGER refuse ON sessions")
        try eventually("the refused session has its final event") { try finished() == 3 }
    }

    @Test("a replay from the latest event of any tenant has no gap, and is unknown after its removal")
    func replay() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let store = node.store
        func replay(_ after: EventID) throws -> EventReplay {
            try wait { store.events.replay(tenant: "acme", session: "s", after: after, limit: 10, reply: $0) }
                .get()
        }
        let empty = try wait { store.events.lastEvent(reply: $0) }.get()
        let job = try node.submit(newJob(session: "s"))
        let attempt = try node.attempt()
        _ = try node.submit(newJob(tenant: "other"))
        let last = try wait { store.events.lastEvent(reply: $0) }.get()
        #expect(try log().events.last?.tenant == "other")
        node.end(attempt, success)
        _ = try wait { store.events.lastEvent(reply: $0) }.get()
        let missed = try replay(last)
        #expect(missed.isKnown)
        #expect(missed.entries.first?.event.record.job == job.id)
        #expect(missed.entries.first?.event.record.type == .jobSucceeded)
        let all = try replay(empty)
        #expect(all.isKnown && all.entries.first?.event.record.type == .jobCreated)
        var connection = try Connection(url: database.url)
        try connection.execute(script: "DELETE FROM events WHERE tenant = 'other'")
        #expect(try !replay(last).isKnown)
    }

    @Test("a job's webhook gets its session's final event even after the job was removed")
    func rememberedReceivers() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let wanted: [EventType] = [.sessionEventsFinished]
        let hook = newJob(
            session: "long", webhook: true, webhookEvents: wanted, sealedSecrets: Array("secret".utf8))
        _ = try node.submit(hook)
        _ = try node.submit(newJob(session: "over", webhook: true, webhookEvents: wanted))
        let later = try node.submit(newJob(session: "long"))
        let attempts = try node.attempts(3)
        for attempt in attempts where attempt.job != later.id { node.end(attempt, success) }
        let attempt = try #require(attempts.first { $0.job == later.id })
        _ = try wait { node.store.events.lastEvent(reply: $0) }.get()
        var connection = try Connection(url: database.url)
        let remembered = Statement("remembered", "SELECT session FROM session_receivers ORDER BY session")
        try eventually("the other session is over") { try finished() == 1 }
        try connection.execute(
            script: """
                INSERT INTO session_receivers (tenant, session, url, job, wanted, changed_at)
                VALUES ('acme', 'over', 'http://a/', gen_random_uuid(), 4096, now());
                UPDATE session_receivers SET changed_at = now() - interval '2 hours';
                DELETE FROM finished_jobs WHERE id = '\(hook.id.uuidText)'
                """)
        var parameters = Parameters()
        parameters.append(float64: 3_600)
        parameters.append(int32: 100)
        _ = try connection.execute(Statements.removeOldEvents, parameters)
        let left = try connection.execute(remembered)
        #expect((0..<left.rowCount).map { left.text($0, 0) } == ["long"])
        node.end(attempt, success)
        try eventually("the session's events are over") {
            try log().events(of: "long").last?.record.type == .sessionEventsFinished
        }
        var told: [Delivery] = []
        try eventually("its webhook gets the final event") {
            let due = Mailbox<[Delivery]>()
            node.store.deliveries.claim(DeliveryDemand(total: 10, other: 10), leaseSeconds: 30) {
                due.send($0.due)
            }
            told += try #require(due.wait(milliseconds: 60_000).first).filter { $0.session == "long" }
            return !told.isEmpty
        }
        #expect(told.map(\.type) == [EventType.sessionEventsFinished.rawValue])
        #expect(told.first?.secret == "secret")
    }

    @Test("deliveries to job webhooks are handed to this node's sender while it has credits")
    func handover() throws {
        let credits = DeliveryCredits()
        let handed = Mailbox<LeasedDeliveries>()
        credits.connect { handed.send($0) }
        credits.publish(DeliveryDemand(total: 10, other: 2))
        let node = try TestNode(database.url) { $0.credits = credits }
        defer { node.store.stop() }
        _ = try node.submit((0..<3).map { _ in newJob(session: "s", webhook: true) }).get()
        for attempt in try node.attempts(3) { node.end(attempt, success) }
        try node.waitForDeliveries(3)
        var (deliveries, unreserved): ([Delivery], Set<ReceiverQueueID>) = ([], [])
        eventually("two deliveries are handed over, one exceeds the credits") {
            for message in handed.wait(milliseconds: 100) {
                deliveries += message.deliveries
                unreserved.formUnion(message.unreserved)
            }
            return deliveries.count == 2 && !unreserved.isEmpty
        }
        let claimed = try claim(1, node)[0]
        #expect(unreserved == Set(deliveries.map(\.receiverQueue)) && unreserved == [claimed.receiverQueue])
        #expect(claimed.url == deliveries[0].url && claimed.tryNumber == deliveries[0].tryNumber)
        #expect(Set(deliveries.map(\.id)).count == 2 && !deliveries.map(\.id).contains(claimed.id))
        let events = try log().events(of: "s").filter { $0.record.type == .jobSucceeded }
        #expect(Set(events.map(\.id)) == Set((deliveries + [claimed]).map(\.event)))
        let job = try JSON.parse(deliveries[0].jobJSON)
        #expect(job["state"]?.string == "succeeded" && job["id"]?.string == deliveries[0].job?.description)
        for delivery in deliveries + [claimed] { record(delivery, .accepted, node) }
        try node.waitForDeliveries(0)
    }

    @Test("a pending delivery shows until when the circuit breaker of its receiver is open")
    func pausedReceiver() throws {
        let credits = DeliveryCredits()
        let node = try TestNode(database.url) { $0.credits = credits }
        defer { node.store.stop() }
        let job = newJob(webhook: true)
        _ = try node.submit([job]).get()
        node.end(try node.attempt(), success)
        try node.waitForDeliveries(1)
        let claimed = try claim(1, node)[0]
        func shown() throws -> [Timestamp?] {
            let queries = node.store.deliveryQueries
            let page = try wait { queries.deliveries(of: .job(job.id), tenant: "acme", limit: 5, reply: $0) }
                .get()
            let one = try wait { queries.delivery(claimed.id, tenant: "acme", reply: $0) }.get()
            return page.records.map(\.pausedUntil) + [one.pausedUntil]
        }
        #expect(try shown() == [nil, nil])
        let until = Timestamp(microseconds: Sys.wallMicroseconds()) + 60
        var demand = DeliveryDemand(total: 0, queues: [claimed.receiverQueue: 0], other: 0)
        demand.pauses = [claimed.receiverQueue: until]
        credits.publish(demand)
        #expect(try shown() == [until, until])
        record(claimed, .accepted, node)
        try node.waitForDeliveries(0)
        #expect(try shown() == [nil, nil], "it is not pending any more")
    }

    @Test("a session's final event follows its deliveries, once each time it has drained")
    func drain() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let wanted: [EventType] = [.jobSucceeded, .sessionEventsFinished]
        for round in 1...2 {
            let jobs = (0..<3).map { _ in newJob(session: "s", webhook: true, webhookEvents: wanted) }
            _ = try node.submit(jobs).get()
            for attempt in try node.attempts(3) { node.end(attempt, success) }
            try node.waitForDeliveries(3)
            for (index, delivery) in try claim(3, node).enumerated() {
                #expect(delivery.type == EventType.jobSucceeded.rawValue)
                #expect(try finished() == round - 1, "a delivery is pending")
                let verdict: DeliveryTry.Verdict = index == 1 ? .givenUp : .accepted
                record(delivery, verdict, node)
            }
            try eventually("the session's events are over") { try finished() == round }
            let last = try #require(try claim(1, node).first)
            #expect(
                last.type == EventType.sessionEventsFinished.rawValue && last.job == nil
                    && last.jobJSON == Array("null".utf8))
            #expect(try finished() == round)
            record(last, .accepted, node)
            try node.waitForDeliveries(0)
        }
        #expect(try log().isGapFree && finished() == 2)
    }

    private func finished() throws -> Int {
        try log().events.count { $0.record.type == .sessionEventsFinished }
    }

    private func claim(_ count: Int, _ node: TestNode) throws -> [Delivery] {
        let due = Mailbox<[Delivery]>()
        node.store.deliveries.claim(DeliveryDemand(total: 10, other: 10), leaseSeconds: 30) {
            due.send($0.due)
        }
        let deliveries = try #require(due.wait(milliseconds: 60_000).first)
        #expect(deliveries.count == count)
        return deliveries
    }

    private func record(_ delivery: Delivery, _ verdict: DeliveryTry.Verdict, _ node: TestNode) {
        node.store.deliveries.record([tried(delivery, verdict, status: 200)])
    }

    @Test("sequence numbers have no gap and follow the order of events when one of three nodes dies")
    func cluster() throws {
        // The first node's own lease lasts for the whole test; the others notice its silence soon.
        let dead = try TestNode(database.url, slots: 16, leaseSeconds: 600) { $0.heartbeatSeconds = 0.4 }
        let jobs = (0..<300).map { newJob(session: ["a", "b", "c"][$0 % 3], attemptCountMax: 50) }
        // While it is the only node, it certainly runs these jobs.
        _ = try dead.submit(Array(jobs[..<10])).get()
        _ = try dead.attempts(10)
        let others = try (0..<2).map { _ in
            try TestNode(database.url, slots: 16, leaseSeconds: 2, works: false)
        }
        for node in others {
            node.runner.react { [store = node.store] in store.dispatcher.record(result($0, success)) }
            node.store.beginWork()
        }
        let nodes = [dead] + others
        for start in stride(from: 10, to: 300, by: 10) {
            _ = try nodes[start / 10 % 3].submit(Array(jobs[start..<start + 10])).get()
        }
        // Its attempts never end, and its heartbeat is replaced by that of a silent node.
        var connection = try Connection(url: database.url)
        let grave = try silentNode(&connection)
        dead.store.drain()
        try eventually("all have ended") {
            // Repeated, since a claim may have been in progress.
            let own = dead.id.uuidText
            try connection.execute(script: "UPDATE jobs SET node = '\(grave)' WHERE node = '\(own)'")
            return try countedStates(database.url).isEmpty
        }
        try eventually("all jobs have their end event, and three sessions their final event") {
            let told = try log()
            let last = ["a", "b", "c"].map { told.events(of: $0).last?.record.type }
            return told.events.count { $0.record.type.isTerminal } == 300
                && last.allSatisfy { $0 == .sessionEventsFinished }
        }
        for node in nodes { node.store.stop() }
        let found = try log()
        #expect(found.isGapFree)
        let life = Dictionary(grouping: found.events.filter { $0.record.job != nil }) { $0.record.job }
        #expect(life.count == 300)
        for events in life.values {
            let types = events.sorted { $0.sequence < $1.sequence }.map(\.record.type)
            #expect(types.first == .jobCreated && types[1] == .jobStarted && types.last == .jobSucceeded)
            #expect(types.count { $0 == .jobStarted } == 1 && types.count { $0.isTerminal } == 1)
        }
        for session in ["a", "b", "c"] {
            var unfinished = 0
            for event in found.events(of: session) {
                if event.record.type == .jobCreated { unfinished += 1 }
                if event.record.type.isTerminal { unfinished -= 1 }
                if event.record.type == .sessionEventsFinished { #expect(unfinished == 0) }
            }
            #expect(found.events(of: session).last?.record.type == .sessionEventsFinished)
        }
    }

    @Test("event_pack in SQL and EventRecord.pack give the same bytes")
    func packing() throws {
        var connection = try Connection(url: database.url)
        let job = newJob().id
        let at = Timestamp(microseconds: 1_763_762_400_123_456)
        for (type, state, reason) in [
            (EventType.jobAttemptFailed, JobState.waiting, WaitingFor.retry as WaitingFor?),
            (.jobStarted, .running, nil), (.jobSucceeded, .succeeded, nil),
        ] + WaitingFor.allCases.map({ (.jobCreated, .waiting, $0) })
            + JobState.allCases.map({ (.jobCreated, $0, nil) })
        {
            for wanted in [nil, [type].mask, EventRecord.sessionTypes, -1] as [Int32?] {
                var packed: [UInt8] = []
                EventRecord(
                    type, job: job, at: at, wanted: wanted, attempt: 3, revision: 70_000, state: state,
                    waitingFor: reason, detail: [1, 2]
                ).pack(into: &packed)
                let sql = """
                    SELECT event_pack(\(type.code), \(wanted.map(String.init) ?? "NULL"), '\(job.uuidText)',
                        to_timestamp(1763762400) + '123456 microseconds', 3, 70000,
                        '\(state.rawValue)', \(reason.map { "'\($0.rawValue)'" } ?? "NULL"), '\\x0102')
                    """
                let rows = try connection.execute(Statement("pack", sql, usesCustomPlan: true))
                #expect(rows.bytes(0, 0) == packed, "\(type) \(state) \(String(describing: wanted))")
            }
        }
    }

    @Test("event_detail in SQL and EventDetail give the same bytes")
    func details() throws {
        var connection = try Connection(url: database.url)
        let at = Timestamp(microseconds: 1_763_762_400_123_456)
        for present in 0..<64 {
            func has(_ bit: Int) -> Bool { present >> bit & 1 != 0 }
            var detail = EventDetail(
                node: has(0) ? TestNode.identifiers.make() : nil, nextAttemptAt: has(1) ? at : nil,
                error: has(2) ? Stored(json: Array(#"{"message":"ä"}"#.utf8)) : nil)
            detail.startedAt = has(3) ? at : nil
            detail.questionJSON = has(4) ? Array("{}".utf8) : nil
            detail.keptAttempt = has(5) ? [1, 2, 3] : nil
            let instant = "to_timestamp(1763762400) + interval '123456 microseconds'"
            let sql = """
                SELECT event_detail(\(detail.node.map { "'\($0.uuidText)'" } ?? "NULL"),
                    \(has(3) ? instant : "NULL"), \(has(1) ? instant : "NULL"),
                    \(has(2) ? #"'{"message":"ä"}'"# : "NULL"), \(has(4) ? "'{}'" : "NULL"),
                    \(has(5) ? "'\\x010203'" : "NULL"))
                """
            let rows = try connection.execute(Statement("detail", sql, usesCustomPlan: true))
            #expect(rows.bytes(0, 0) == detail.packed, "\(present)")
        }
    }

    @Test("8,000 events are numbered in passes of limited bytes without a gap")
    func manyEvents() throws {
        let node = try TestNode(database.url, isWorker: false)
        defer { node.store.stop() }
        let jobs = (0..<4_000).map { _ in newJob(session: "many") }
        _ = try node.submit(jobs).get()
        let second = (0..<4_000).map { _ in newJob(session: "many") }
        _ = try node.submit(second).get()
        try eventually("all have numbers") {
            try log().events(of: "many").count == 8_000
        }
        let found = try log()
        #expect(found.isGapFree)
        #expect(Set(found.events(of: "many").compactMap(\.record.job)) == Set((jobs + second).map(\.id)))
    }
}
