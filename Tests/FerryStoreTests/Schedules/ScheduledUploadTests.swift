import FerryCore
import Postgres
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("Uploads that schedules send", .onOwnThread)
final class ScheduledUploadTests {
    let database: TestDatabase
    let node: TestNode

    init() throws {
        database = try TestDatabase(template: template)
        node = try TestNode(database.url, slots: 16)
    }

    deinit { node.store.stop() }

    private func create(
        _ upload: String, _ change: (inout JobSpec) -> Void = { _ in }
    ) throws -> ScheduleID {
        var spec = newJob(kind: .upload, method: "PUT").spec
        spec.source = .upload(try #require(UploadReference(upload)))
        change(&spec)
        let json =
            #"{"time_zone":"UTC","missed":"run_once","overlap":"allow","enabled":true,"#
            + #""interval":3600}"#
        let schedule = NewSchedule(
            id: TestNode.identifiers.make(), tenant: "acme",
            spec: try ScheduleSpec(storedJSON: Array(json.utf8)),
            jobs: ScheduleJobs(newJob().with(spec).request))
        return try wait { reply in
            node.store.scheduleCommands.createSchedule(schedule, nil) { reply($0.map(\.record.id)) }
        }.get()
    }

    /// Creates an upload, complete or not.
    private func stage(_ name: String? = nil, isComplete: Bool = true) throws -> UploadID {
        let now = Timestamp(microseconds: Sys.wallMicroseconds())
        let upload = StagedUpload(
            id: TestNode.identifiers.make(), tenant: "acme", node: node.id, name: name,
            fields: UploadFields(), size: nil, createdAt: now, expiresAt: now + 3_600)
        _ = try wait { node.store.uploads.createUpload(upload, reply: $0) }.get()
        if isComplete { try complete(upload.id) }
        return upload.id
    }

    private func complete(_ id: UploadID) throws {
        let end = Timestamp(microseconds: Sys.wallMicroseconds()) + 3_600
        _ = try wait {
            node.store.uploads.completeUpload(
                id, byteCount: 5, sha256: Array(repeating: 7, count: 32), expiresAt: end, reply: $0)
        }.get()
    }

    private func run(_ id: ScheduleID) -> Result<JobRecord, StoreError> {
        wait {
            node.store.scheduleCommands.runSchedule(id, tenant: "acme", nil, traceparent: "t", reply: $0)
        }.single.map(\.record)
    }

    private func read(_ id: ScheduleID) throws -> ScheduleRecord {
        try wait { node.store.scheduleCommands.schedule(id, tenant: "acme", reply: $0) }.get()
    }

    /// Makes all schedules due.
    private func makeDue() throws {
        try change("UPDATE schedules SET next_scheduled_at = now(), next_run_at = now()")
        node.store.schedules.wake()
    }

    private func change(_ sql: String) throws {
        var connection = try Connection(url: database.url)
        try connection.execute(script: sql)
    }

    private func delete(_ upload: UploadID) throws {
        _ = try wait {
            node.store.uploads.deleteUpload(upload, tenant: "acme", isForced: true, reply: $0)
        }.get()
    }

    private func expired() throws -> [UploadID] {
        try wait { node.store.uploads.removeExpiredUploads(reply: $0) }.get().map(\.upload)
    }

    @Test("each occurrence sends the upload that has the name at that time; without one it is skipped, alone")
    func names() throws {
        let named = try create("report")
        let other = try create("other")
        _ = try stage("other")
        try makeDue()
        try eventually("one is skipped, and the other runs") {
            let (skipped, ran) = (try read(named), try read(other))
            return skipped.counts.skipped == 1 && ran.counts.runs == 1
        }
        #expect(try read(named).lastSkip?.reason == .uploadMissing && read(named).counts.runs == 0)
        #expect(run(named).failure == .uploadMissing)
        _ = try node.attempt()
        for _ in 0..<2 {
            let upload = try stage("report")
            try makeDue()
            let attempt = try node.attempt()
            let sent = try [attempt, node.attempt()].compactMap(\.spec.source)
            #expect(sent.contains(.upload(.id(upload))), "\(sent)")
            #expect(try run(named).get().spec?.source == .upload(.id(upload)))
            _ = try node.attempt()
            try delete(upload)
        }
        #expect(try read(named).counts.runs == 4)
    }

    @Test("the job of an occurrence waits for an incomplete upload, and begins when it is complete")
    func incomplete() throws {
        let schedule = try create("late")
        let upload = try stage("late", isComplete: false)
        try makeDue()
        try eventually("it has run") { try read(schedule).counts.runs == 1 }
        let job = try #require(try read(schedule).lastJob)
        let record = try node.job(job).get().record
        #expect(record.waitingFor == .dependency && record.pendingUploads == [upload])
        try complete(upload)
        #expect(try node.attempt().job == job)
    }

    @Test("an occurrence whose job cannot wait for its upload is skipped until the upload is complete")
    func cannotWait() throws {
        let schedule = try create("late") { $0.schedule.onDependencyFailure = .ignore }
        let upload = try stage("late", isComplete: false)
        try makeDue()
        try eventually("it is skipped") { try read(schedule).counts.skipped == 1 }
        #expect(try read(schedule).lastSkip?.reason == .uploadIncomplete)
        #expect(run(schedule).failure == .uploadIncomplete)
        try complete(upload)
        #expect(try run(schedule).get().spec?.source == .upload(.id(upload)))
    }

    @Test("complete uploads that an enabled schedule names do not expire; others do, and incomplete ones")
    func kept() throws {
        let byID = try stage()
        let byName = try stage("kept")
        let (unnamed, incomplete) = (try stage("loose"), try stage("open", isComplete: false))
        let schedules = try [create("\(byID)"), create("kept"), create("open")]
        // Another tenant's upload of that name.
        let foreign = try stage("foreign")
        try change("UPDATE uploads SET tenant = 'other', name = 'kept' WHERE name = 'foreign'")
        try change("UPDATE uploads SET expires_at = now() - interval '1 minute'")
        #expect(try Set(expired()) == [unnamed, incomplete, foreign])
        #expect(try expired() == [])
        for id in schedules {
            _ = try wait { reply in
                node.store.scheduleCommands.changeSchedule(
                    id, tenant: "acme", revision: nil, jobs: nil,
                    { spec in
                        var spec = spec
                        spec.isEnabled = false
                        return spec
                    }, reply: reply)
            }.get()
        }
        #expect(try Set(expired()) == [byID, byName])
    }

    @Test("a schedule that is replaced keeps the uploads of its new jobs only")
    func replaced() throws {
        let (first, second) = (try stage("first"), try stage("second"))
        let schedule = try create("first")
        var spec = newJob(kind: .upload, method: "PUT").spec
        spec.source = .upload(.name("second"))
        let jobs = ScheduleJobs(newJob().with(spec).request)
        _ = try wait {
            node.store.scheduleCommands.changeSchedule(
                schedule, tenant: "acme", revision: nil, jobs: jobs, { $0 }, reply: $0)
        }.get()
        try change("UPDATE uploads SET expires_at = now() - interval '1 minute'")
        #expect(try expired() == [first])
        try wait {
            node.store.scheduleCommands.deleteSchedule(schedule, tenant: "acme", revision: nil, reply: $0)
        }.get()
        #expect(try expired() == [second])
    }
}

extension Result where Failure == StoreError {
    fileprivate var failure: Failure? { if case .failure(let error) = self { error } else { nil } }
}
