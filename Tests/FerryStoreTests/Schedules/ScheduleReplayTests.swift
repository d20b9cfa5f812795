import FerryCore
import FerryStore
import TestSupport
import TestThreads
import Testing

@Suite("Repeated requests about schedules", .onOwnThread)
struct ScheduleReplayTests {
    let database: TestDatabase
    let node: TestNode

    init() throws {
        database = try TestDatabase(template: template)
        // No job begins on this node.
        node = try TestNode(database.url, slots: 0)
    }

    private func key(_ route: String, _ key: String = "k", _ body: UInt8 = 1) -> Submission.Idempotency {
        Submission.Idempotency(tenant: "acme", route: route, key: key, fingerprint: [body])
    }

    private func create(_ key: Submission.Idempotency) throws -> Created<ScheduleRecord> {
        let json = #"{"time_zone":"UTC","missed":"run_once","overlap":"allow","enabled":true,"interval":100}"#
        let schedule = NewSchedule(
            id: TestNode.identifiers.make(), tenant: "acme",
            spec: try ScheduleSpec(storedJSON: Array(json.utf8)),
            jobs: ScheduleJobs(newJob().request))
        return try wait { node.store.scheduleCommands.createSchedule(schedule, key, reply: $0) }.get()
    }

    private func created(with key: Submission.Idempotency) -> Result<ScheduleRecord, StoreError> {
        wait { node.store.scheduleCommands.schedule(createdWith: key, reply: $0) }
    }

    private func run(
        _ id: ScheduleID, _ key: Submission.Idempotency
    ) -> Result<Created<JobRecord>, StoreError> {
        wait {
            node.store.scheduleCommands.runSchedule(id, tenant: "acme", key, traceparent: "t", reply: $0)
        }.single
    }

    private func delete(_ id: ScheduleID) throws {
        let removed: Result<Void, StoreError> = wait {
            node.store.scheduleCommands.deleteSchedule(id, tenant: "acme", revision: nil, reply: $0)
        }
        try removed.get()
    }

    private func deleteJob(_ id: JobID) throws {
        _ = try wait { node.store.jobCommands.cancel(id, tenant: "acme", reply: $0) }.get()
        _ = try wait { node.store.jobCommands.delete(id, tenant: "acme", reply: $0) }.get()
    }

    @Test("a repeated creation gets the first reply, also after the schedule was deleted")
    func creation() throws {
        defer { node.store.stop() }
        let first = try create(key("POST /v1/schedules")).record
        let again = try create(key("POST /v1/schedules"))
        #expect(again.isReplay && again.record.id == first.id)
        #expect(try created(with: key("POST /v1/schedules")).get().id == first.id)
        #expect(created(with: key("POST /v1/schedules", "other")).failure == .notFound)
        #expect(created(with: key("POST /v1/schedules", "k", 2)).failure == .idempotencyKeyReused)
        try delete(first.id)
        #expect(created(with: key("POST /v1/schedules")).failure == .notFound)
        let late = try create(key("POST /v1/schedules"))
        #expect(late.isReplay && late.record.id == first.id && late.record.createdAt == first.createdAt)
        #expect(late.record.nextScheduledAt == first.nextScheduledAt && late.record.revision == 1)
        let gone: Result<ScheduleRecord, StoreError> = wait {
            node.store.scheduleCommands.schedule(first.id, tenant: "acme", reply: $0)
        }
        #expect(gone.failure == .notFound)
    }

    @Test("a key that was used for another request is refused, whatever its route")
    func otherRoute() throws {
        defer { node.store.stop() }
        let schedule = try create(key("POST /v1/schedules")).record
        let route = "POST /v1/schedules/\(schedule.id)/run"
        #expect(run(schedule.id, key(route, "k", 2)).failure == .idempotencyKeyReused)
        let submission = wait { (reply: @escaping Reply<Submission.Accepted>) in
            node.store.submissions.submit(
                Submission(jobs: [newJob()], idempotency: key("POST /v1/jobs", "k", 3), reply: reply))
        }
        #expect(submission.failure == .idempotencyKeyReused)
        #expect(try countedStates(database.url).values.reduce(0, +) == 0)
    }

    @Test("a repeated run by hand gets the first reply, also after the schedule or job was deleted")
    func runs() throws {
        defer { node.store.stop() }
        let schedule = try create(key("POST /v1/schedules")).record
        let route = "POST /v1/schedules/\(schedule.id)/run"
        let first = try run(schedule.id, key(route, "m")).get().record
        let other = try run(schedule.id, key(route, "l")).get().record
        try deleteJob(other.id)
        let again = try run(schedule.id, key(route, "l")).get()
        #expect(again.isReplay && again.record.id == other.id && again.record.state == .queued)
        try delete(schedule.id)
        let late = try run(schedule.id, key(route, "m")).get()
        #expect(late.isReplay && late.record.id == first.id)
        #expect(run(schedule.id, key(route, "l")).failure == .notFound)
        #expect(run(schedule.id, key(route, "new")).failure == .notFound)
    }
}

extension Result {
    fileprivate var failure: Failure? { if case .failure(let error) = self { error } else { nil } }
}
