import FerryCore
import Postgres
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("Events of the past", .onOwnThread)
struct PastEventTests {
    private let database: TestDatabase
    private let node: TestNode

    init() throws {
        database = try TestDatabase(template: template)
        node = try TestNode(database.url)
    }

    /// A job whose client is asked before it begins, with a secret in its URL.
    private func makeJob() -> NewJob {
        let plain = newJob(
            session: "past", beginAt: Timestamp(microseconds: Sys.wallMicroseconds()) + 3_600,
            attemptCountMax: 5, retryDelay: 600)
        var spec = plain.spec
        spec.request = .init(url: "https://example.org/a?token=hush", method: "GET")
        spec.schedule.confirmsBeforeBegin = true
        spec.questions.timeout = 600
        spec.acknowledgement = AcknowledgementRules()
        return NewJob(
            id: plain.id, tenant: plain.tenant, JobRequest(spec), specJSON: spec.encodeStored(.inverted),
            sealedSecrets: nil, traceparent: nil, retryOf: nil)
    }

    private func edit(_ id: JobID, _ change: @escaping @Sendable (inout JobSpec) -> Void) throws {
        let edited = wait { reply in
            node.store.jobCommands.edit(
                id, tenant: "acme",
                { draft throws(InvalidFields) in
                    var draft = draft
                    change(&draft.spec)
                    return draft
                }, reply: reply)
        }
        _ = try edited.get().get()
    }

    private func answer(_ id: JobID, _ kind: JobQuestion.Kind, _ disposition: JobAnswer.Disposition) throws {
        let answered = wait { reply in
            node.store.questions.answer(
                id, tenant: "acme", kind: kind,
                { draft, question, attempt throws(InvalidFields) in
                    try draft.answered(
                        question, JobAnswer(disposition), from: AnswerSource(.api, name: "key_1"),
                        at: question.askedAt + 1, attempt: attempt, refusal: { _ in nil })
                }, reply: reply)
        }
        _ = try answered.get().get()
    }

    /// The job as `GET` shows it now, without its body.
    private func shown(_ id: JobID) throws -> JSON {
        var record = try node.job(id).get().record
        record.body = nil
        var writer = JSONWriter()
        record.write(into: &writer, progress: nil)
        return try JSON.parse(writer.bytes)
    }

    /// Types of the events written so far, with a number or without.
    private func written() throws -> [EventType] {
        var connection = try Connection(url: database.url)
        let rows = try connection.execute(
            Statement("written", "SELECT packed FROM events UNION ALL SELECT packed FROM event_inbox"))
        return (0..<rows.rowCount).flatMap { EventRecord.unpack(rows.bytes($0, 0)) }
            .compactMap(\.record?.type)
    }

    private func challenge(at instant: Timestamp) -> JobQuestion {
        let spaces = [.digest, .basic].map { (method: ConnectionRules.Authentication.Scheme) in
            JobQuestion.ProtectionSpace(url: "https://example.org:443", realm: "r", method: method)
        }
        return JobQuestion(.challenge(spaces, previousFailureCount: 0), askedAt: instant, timeout: 600)
    }

    private func makeEndpoint() throws -> WebhookID {
        let now = Timestamp(microseconds: Sys.wallMicroseconds())
        var endpoint = WebhookEndpoint(url: "https://hooks.example/in")
        let types = EventType.ofJobs.filter { !$0.isOfSession }.map(\.rawValue)
        endpoint.filter = WebhookFilter(types: types, session: "past", metadata: [])
        let record = WebhookRecord(
            id: TestNode.identifiers.make(), tenant: "acme", createdAt: now, updatedAt: now,
            endpoint: endpoint, publicKey: "whpk_x", sealedKeys: TestNode.webhookKeys.encode())
        _ = try wait {
            node.store.webhooks.createWebhook(NewWebhook(record: record, idempotency: nil), reply: $0)
        }
        .get()
        return record.id
    }

    private func claim() throws -> [Delivery] {
        let due = Mailbox<[Delivery]>()
        node.store.deliveries.claim(DeliveryDemand(total: 100, other: 100), leaseSeconds: 600) {
            due.send($0.due)
        }
        return try #require(due.wait(milliseconds: 60_000).first)
    }

    /// Takes a job through all that a client can do to it. Returns the types of its events with the job as
    /// `GET` showed it after each of them; of a job that waits for connectivity nothing, as it goes on by
    /// itself.
    private func live(_ job: NewJob) throws -> [(type: EventType, job: JSON?)] {
        let (id, store, dispatcher) = (job.id, node.store, node.store.dispatcher)
        var life: [(type: EventType, job: JSON?)] = []
        func note(_ step: String) throws { try edit(id) { $0.metadata = [.init("step", step)] } }
        func expect(_ type: EventType) throws { life.append((type, try shown(id))) }
        func waits(for reason: WaitingFor) throws {
            try eventually("it waits for \(reason)") {
                try node.job(id).get().record.waitingFor == reason
            }
        }

        _ = try node.submit(job)
        try expect(.jobCreated)
        try note("1")
        try edit(id) { $0.schedule.earliestBeginAt = nil }
        try waits(for: .confirmation)
        try expect(.jobWillBegin)
        try note("2")
        try answer(id, .begin, .continueLoading)
        let first = try node.attempt()
        try expect(.jobStarted)
        try note("3")
        dispatcher.resumed(first, at: 7)
        try eventually("it is told") { try written().contains(.jobResumedAtOffset) }
        try expect(.jobResumedAtOffset)
        dispatcher.record(
            result(
                first, failure(), leavesBytes: true, partial: PartialDownload(byteCount: 5, total: 10)))
        try waits(for: .retry)
        try expect(.jobAttemptFailed)
        try note("4")
        _ = try wait { store.jobCommands.suspend(id, tenant: "acme", reply: $0) }.get()
        _ = try wait { store.jobCommands.resume(id, tenant: "acme", reply: $0) }.get()
        let away = TransferError(.couldNotConnect, "Away.", phase: .connecting, isRetryable: true)
        dispatcher.record(result(try node.attempt(), .failed(away, retryAfter: nil)))
        life.append((.jobWaitingForConnectivity, nil))
        let third = try node.attempt()
        dispatcher.record(result(third, .asked(challenge(at: third.startedAt))))
        try waits(for: .challenge)
        try expect(.jobChallenge)
        try note("5")
        try answer(id, .challenge, .rejectProtectionSpace)
        try expect(.jobChallenge)
        try note("6")
        try answer(id, .challenge, .performDefaultHandling)
        node.end(try node.attempt(), success)
        try expect(.jobSucceeded)
        _ = try wait { store.jobCommands.acknowledge(id, tenant: "acme", reply: $0) }.get()
        try expect(.jobAcknowledged)
        return life
    }

    /// Compares jobs of events with what `GET` showed at their time.
    private func expect(_ jobs: [JSON], _ life: [(type: EventType, job: JSON?)], _ where: Comment) {
        #expect(jobs.count == life.count, `where`)
        for (job, step) in zip(jobs, life) {
            guard let then = step.job else {
                #expect(job["state"]?.string == "waiting" && job["waiting_for"]?.string == "connectivity")
                #expect(job["error"]?["code"]?.string == "could_not_connect" && job["node"] == .null)
                #expect(job["next_attempt_at"]?.string != nil && job["attempt"]?.integer == 2)
                #expect(job["metadata"]?["step"]?.string == "4")
                #expect(job["progress"]?["bytes_received"]?.integer == 5)
                continue
            }
            for member in then.members ?? [] {
                if step.type == .jobResumedAtOffset, member.name == "progress" {
                    #expect(job["progress"]?["resumed_at_offset"]?.integer == 7)
                } else {
                    #expect(job[member.name] == member.value, "\(`where`) \(step.type) \(member.name)")
                }
            }
        }
    }

    @Test(
        "events in lists, in streams, at endpoints and after a replay show the job of their time",
        arguments: [false, true])
    func life(areNumberedLate: Bool) throws {
        defer { node.store.stop() }
        let store = node.store
        var holder = try Connection(url: database.url)
        // Holds the relay's lock "ferryeve", like a pass of another node: no event gets a number or a
        // delivery before the job is over and its endpoint is created.
        let lock = 0x6665_7272_7965_7665
        if areNumberedLate { try holder.execute(script: "SELECT pg_advisory_lock(\(lock))") }
        let early = areNumberedLate ? nil : try makeEndpoint()
        let job = makeJob()
        let life = try live(job)
        let endpoint = try early ?? makeEndpoint()
        if areNumberedLate {
            try holder.execute(script: "SELECT pg_advisory_unlock(\(lock))")
        }
        try node.waitForDeliveries(Int64(life.count))

        func jobs(_ entries: [EventEntry]) throws -> [JSON] {
            try entries.map { entry in
                var writer = JSONWriter()
                entry.write(into: &writer)
                return try #require(try JSON.parse(writer.bytes)["data"]?["job"])
            }
        }
        var query = EventQuery(tenant: "acme")
        query.session = "past"
        let listed = try wait { store.events.events(query, reply: $0) }.get().records
            .filter { $0.event.record.job != nil }
        #expect(listed.reversed().map(\.event.record.type) == life.map(\.type))
        expect(try jobs(listed.reversed()), life, "list")
        let ofJob = try wait {
            store.events.events(of: job.id, tenant: "acme", before: nil, limit: 100, reply: $0)
        }
        .get()
        expect(try jobs(ofJob.reversed()), life, "list of the job")
        var stream: [EventEntry] = []
        var hasMore = true
        while hasMore {
            let last = stream.last?.event.id ?? EventID(high: 0, low: 0)
            let page = try wait {
                store.events.replay(tenant: "acme", session: "past", after: last, limit: 100, reply: $0)
            }
            .get()
            stream += page.entries
            hasMore = page.hasMore
        }
        expect(try jobs(stream.filter { $0.event.record.job != nil }), life, "stream")

        for round in ["first time", "replay"] {
            let deliveries = try claim().sorted { $0.sequence < $1.sequence }
            #expect(deliveries.map(\.type) == life.map(\.type.rawValue))
            expect(try deliveries.map { try JSON.parse($0.jobJSON) }, life, "\(round)")
            node.store.deliveries.record(deliveries.map { tried($0, .accepted, status: 200) })
            try node.waitForDeliveries(0)
            let replayed = try wait {
                store.webhooks.replay(
                    endpoint, tenant: "acme", since: Timestamp(microseconds: 0), until: nil,
                    onlyFailed: false, reply: $0)
            }
            .get()
            #expect(replayed == Int64(life.count))
        }

        let secrets = try holder.execute(
            Statement(
                "secrets",
                """
                SELECT (SELECT count(*) FROM events WHERE position('hush'::bytea IN packed) > 0)
                    + (SELECT count(*) FROM earlier_specs WHERE spec LIKE '%hush%'),
                    (SELECT count(*) FROM earlier_specs)
                """))
        #expect(secrets.int64(0, 0) == 0 && secrets.int64(0, 1) > 0)
    }

    @Test("the events of a usual job have 40 bytes each, and 17 more while it runs, for its node")
    func size() throws {
        defer { node.store.stop() }
        _ = try node.submit(newJob(session: "usual"))
        node.end(try node.attempt(), success)
        try eventually("the session is over") { try written().contains(.sessionEventsFinished) }
        let log = try EventLog(database.url)
        let runningCount = log.events.count { $0.record.state == .running }
        #expect(log.events.count == 4 && runningCount >= 1)
        #expect(log.rows.reduce(0) { $0 + $1.packed.count } == 4 * 40 + runningCount * 17)
        var connection = try Connection(url: database.url)
        #expect(try earlierSpecs(&connection) == 0)
    }

    @Test("a failed and a cancelled job leave the events before as they were")
    func ends() throws {
        defer { node.store.stop() }
        let store = node.store
        let (failing, cancelled) = (newJob(session: "ends"), newJob(session: "ends"))
        for (job, end) in [(failing, EventType.jobFailed), (cancelled, .jobCancelled)] {
            _ = try node.submit(job)
            let attempt = try node.attempt()
            let started = try shown(job.id)
            if end == .jobFailed {
                node.store.dispatcher.record(result(attempt, failure(isRetryable: false)))
            } else {
                _ = try wait { store.jobCommands.cancel(job.id, tenant: "acme", reply: $0) }.get()
                node.store.dispatcher.record(result(attempt, .cancelled))
            }
            node.waitUntilFinished(job.id)
            let events = try wait {
                store.events.events(of: job.id, tenant: "acme", before: nil, limit: 10, reply: $0)
            }
            .get()
            let jobs = try events.map { try JSON.parse($0.event.record.jobJSON($0.job)) }
            #expect(events.first?.event.record.type == end)
            for member in try #require(try shown(job.id).members) {
                #expect(jobs.first?[member.name] == member.value, "\(end) \(member.name)")
            }
            let begin = try #require(events.firstIndex { $0.event.record.type == .jobStarted })
            for member in try #require(started.members) {
                #expect(jobs[begin][member.name] == member.value, "\(end) \(member.name)")
            }
            if end == .jobFailed {
                #expect(events[1].event.record.type == .jobAttemptFailed)
                #expect(jobs[1]["error"]?["code"]?.string == "connection_lost")
            }
        }
    }

    @Test("an event without its earlier fields or with a damaged detail shows no later values")
    func damage() throws {
        defer { node.store.stop() }
        let job = makeJob()
        _ = try node.submit(job)
        try edit(job.id) { $0.metadata = [.init("step", "1")] }
        var connection = try Connection(url: database.url)
        func created() throws -> JSON {
            let events = try wait {
                node.store.events.events(of: job.id, tenant: "acme", before: nil, limit: 1, reply: $0)
            }
            .get()
            let entry = try #require(events.first)
            return try JSON.parse(entry.event.record.jobJSON(entry.job))
        }
        #expect(try created()["request"] != nil && created()["metadata"]?["step"] == nil)
        try connection.execute(script: "DELETE FROM earlier_specs")
        let unknown = try created()
        #expect(unknown["state"]?.string == "waiting" && unknown["metadata"] == nil)
        // The first byte of the detail, which names a field.
        try connection.execute(script: "UPDATE events SET packed = set_byte(packed, 40, 9)")
        #expect(try created() == .object([.init("id", .string("\(job.id)"))]))
    }

    private func earlierSpecs(_ connection: inout Connection) throws -> Int64 {
        try connection.execute(Statement("earlier", "SELECT count(*) FROM earlier_specs")).int64(0, 0)
    }

    /// Runs a job to its end that was edited once.
    private func finishEdited() throws -> JobID {
        let job = newJob(session: "edited", beginAt: Timestamp(microseconds: Sys.wallMicroseconds()) + 3_600)
        _ = try node.submit(job)
        try edit(job.id) { $0.schedule.earliestBeginAt = nil }
        node.end(try node.attempt(), success)
        return job.id
    }

    @Test("earlier fields go with the job, by a deletion or at the end of its retention")
    func deletion() throws {
        defer { node.store.stop() }
        var connection = try Connection(url: database.url)
        let deleted = try finishEdited()
        #expect(try earlierSpecs(&connection) == 1)
        _ = try wait { node.store.jobCommands.delete(deleted, tenant: "acme", reply: $0) }.get()
        #expect(try earlierSpecs(&connection) == 0)
        var parameters = Parameters()
        parameters.appendArray(.uuid, [try finishEdited()]) { $0.append($1) }
        parameters.append(Timestamp(microseconds: Sys.wallMicroseconds()) + 60)
        #expect(try earlierSpecs(&connection) == 1)
        #expect(try connection.execute(Statements.removeJobs, parameters).rowCount == 1)
        #expect(try earlierSpecs(&connection) == 0)
        _ = try finishEdited()
        #expect(try earlierSpecs(&connection) == 1)
        let partition = try connection.execute(
            Statement(
                "partition", "SELECT tableoid::regclass::text FROM finished_jobs")
        ).text(0, 0)
        try connection.execute(
            script: """
                SELECT detach_finished_jobs('\(partition)', '{}');
                SELECT drop_finished_jobs('\(partition)', now() + interval '1 hour')
                """)
        #expect(try earlierSpecs(&connection) == 0)
    }

    @Test("earlier fields go after the events that are about them")
    func retention() throws {
        defer { node.store.stop() }
        var connection = try Connection(url: database.url)
        _ = try finishEdited()
        _ = try wait { node.store.events.lastEvent(reply: $0) }.get()
        try eventually("the session is over") { try written().contains(.sessionEventsFinished) }
        try connection.execute(
            script: """
                UPDATE earlier_specs SET replaced_at = now() - interval '5 hours';
                UPDATE events SET first_at = now() - interval '6 hours', last_at = now() - interval '6 hours',
                    not_before = NULL
                """)
        func sweep() throws {
            var parameters = Parameters()
            parameters.append(float64: 3_600)
            parameters.append(int32: 100)
            _ = try connection.execute(Statements.removeOldEvents, parameters)
        }
        // The latest event stays, and with it the fields.
        for _ in 0..<2 { try sweep() }
        #expect(try written().count >= 1 && earlierSpecs(&connection) == 1)
        _ = try node.submit(newJob(session: "later"))
        _ = try wait { node.store.events.lastEvent(reply: $0) }.get()
        for _ in 0..<2 { try sweep() }
        #expect(try earlierSpecs(&connection) == 0)
    }
}
