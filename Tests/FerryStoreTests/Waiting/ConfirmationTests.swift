import FerryCore
import Postgres
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

/// Jobs with `confirm_before_begin`, on a node whose dispatcher asks about none: the transaction in which a
/// job becomes due asks, or the answer.
@Suite("Confirmation of due jobs", .onOwnThread)
struct ConfirmationTests {
    private let database: TestDatabase
    private let node: TestNode

    init() throws {
        database = try TestDatabase(template: template)
        node = try TestNode(database.url, isWorker: false)
    }

    private func confirmed(_ change: (inout JobSpec) -> Void = { _ in }) -> NewJob {
        let plain = newJob()
        var spec = plain.spec
        spec.schedule.confirmsBeforeBegin = true
        spec.questions.timeout = 600
        change(&spec)
        return plain.with(spec)
    }

    private var inAnHour: Timestamp { Timestamp(microseconds: Sys.wallMicroseconds()) + 3_600 }

    private func answer(
        _ id: JobID, revision: Int32? = nil
    ) -> Result<Result<JobRecord, InvalidFields>, StoreError> {
        wait { reply in
            node.store.questions.answer(
                id, tenant: "acme", revision: revision, kind: .begin,
                { draft, question, attempt throws(InvalidFields) in
                    try draft.answered(
                        question, JobAnswer(.continueLoading), from: AnswerSource(.api, name: "key_1"),
                        at: question.askedAt, attempt: attempt, refusal: { _ in nil })
                }, reply: reply)
        }
    }

    private func eventTypes(of id: JobID, _ count: Int) throws -> [EventType] {
        var found: [EventType] = []
        try eventually("\(count) events are in the log") {
            found = try EventLog(database.url).events.map(\.record).filter { $0.job == id }.map(\.type)
            return found.count >= count
        }
        return found
    }

    @Test("a due job is asked about as it is accepted, and accepts the answer", arguments: [nil, "a"])
    func accepted(_ name: String?) throws {
        defer { node.store.stop() }
        let job = confirmed()
        let accepted = try #require(try node.submit([job], key: name.map { key($0) }).get().jobs.first)
        let shown = JobRecord(accepted, of: job)
        let stored = try node.job(job.id).get().record
        for record in [shown, stored] {
            #expect(record.state == .waiting && record.waitingFor == .confirmation && record.revision == 1)
            let question = try #require(record.question(opening: nil))
            #expect(question.kind == .begin && question.askedAt == shown.createdAt)
            #expect(question.expiresAt == shown.createdAt + 600)
            #expect(record.nextAttemptAt == question.expiresAt)
        }
        #expect(shown.questionJSON == stored.questionJSON)
        #expect(try node.status().waiting == 1)
        #expect(try answer(job.id, revision: 1).get().get().state == .queued)
        #expect(try eventTypes(of: job.id, 2) == [.jobCreated, .jobWillBegin])
        #expect(try RowCheck.brokenRules(url: database.url).isEmpty)
        guard let name else { return }
        let replay = try node.submit([job], key: key(name)).get()
        let repeated = JobRecord(try #require(replay.jobs.first), of: job)
        #expect(replay.isReplay && repeated.waitingFor == .confirmation)
        #expect(repeated.questionJSON == shown.questionJSON)
        #expect(repeated.nextAttemptAt == shown.nextAttemptAt)
    }

    @Test("before its begin date a job rejects the answer; after it the answer asks first, once")
    func beginDate() throws {
        defer { node.store.stop() }
        let job = confirmed { $0.schedule.earliestBeginAt = inAnHour }
        let accepted = try node.submit(job)
        #expect(accepted.waitingFor == .beginDate)
        #expect(JobRecord(accepted, of: job).questionJSON == nil)
        guard case .failure(.invalidState(.waiting, waitingFor: .beginDate)) = answer(job.id) else {
            Issue.record("an early answer was accepted")
            return
        }
        var connection = try Connection(url: database.url)
        try connection.execute(script: "UPDATE jobs SET next_attempt_at = now() - interval '1 s'")
        guard case .failure(.stale) = answer(job.id, revision: 7) else {
            Issue.record("a stale revision was accepted")
            return
        }
        let asked = try node.job(job.id).get().record
        #expect(asked.waitingFor == .confirmation && asked.revision == 2)
        #expect(try answer(job.id, revision: 2).get().get().state == .queued)
        #expect(try eventTypes(of: job.id, 2) == [.jobCreated, .jobWillBegin])
    }

    @Test("an answer with the revision from before the begin date is accepted after it")
    func earlierRevision() throws {
        defer { node.store.stop() }
        let job = confirmed { $0.schedule.earliestBeginAt = inAnHour }
        _ = try node.submit(job)
        var connection = try Connection(url: database.url)
        try connection.execute(script: "UPDATE jobs SET next_attempt_at = now() - interval '1 s'")
        #expect(try answer(job.id, revision: 1).get().get().state == .queued)
    }

    @Test("a due job is asked about as it is resumed")
    func resumed() throws {
        defer { node.store.stop() }
        let job = confirmed { $0.startsSuspended = true }
        #expect(try node.submit(job).state == .suspended)
        let store = node.store
        let resumed = try wait { store.jobCommands.resume(job.id, tenant: "acme", reply: $0) }.get()
        #expect(resumed.waitingFor == .confirmation && resumed.revision == 2 && resumed.questionJSON != nil)
        #expect(try answer(job.id).get().get().state == .queued)
        #expect(try eventTypes(of: job.id, 2) == [.jobCreated, .jobWillBegin])
    }

    @Test("an edit that makes a job due, or that demands a confirmation of a queued job, asks at once")
    func edited() throws {
        defer { node.store.stop() }
        let dated = confirmed { $0.schedule.earliestBeginAt = inAnHour }
        let plain = newJob()
        _ = try node.submit([dated, plain]).get()
        let edit = { (id: JobID, change: @escaping @Sendable (inout JobSpec) -> Void) throws -> JobRecord in
            try wait { reply in
                node.store.jobCommands.edit(
                    id, tenant: "acme",
                    { draft throws(InvalidFields) in
                        var draft = draft
                        change(&draft.spec)
                        return draft
                    }, reply: reply)
            }.get().get()
        }
        let due = try edit(dated.id) { $0.schedule.earliestBeginAt = nil }
        let demanding = try edit(plain.id) { $0.schedule.confirmsBeforeBegin = true }
        for record in [due, demanding] {
            #expect(record.waitingFor == .confirmation && record.questionJSON != nil)
            #expect(record.revision == 2)
            #expect(try answer(record.id).get().get().state == .queued)
            #expect(try eventTypes(of: record.id, 2) == [.jobCreated, .jobWillBegin])
        }
    }

    @Test("a dependent job is asked about in the transaction that releases it")
    func dependent() throws {
        defer { node.store.stop() }
        let first = newJob()
        _ = try node.submit(first)
        let store = node.store
        let missing = try wait {
            store.dependencies.prepareDependencies([first.id], tenant: "acme", reply: $0)
        }.get()
        #expect(missing.isEmpty)
        let job = confirmed {
            $0.schedule.dependencies = [.job(first.id)]
            $0.schedule.onDependencyFailure = .ignore
        }
        #expect(try node.submit(job).waitingFor == .dependency)
        _ = try wait { store.jobCommands.cancel(first.id, tenant: "acme", reply: $0) }.get()
        try eventually("it is released") { try node.job(job.id).get().record.waitingFor != .dependency }
        let released = try node.job(job.id).get().record
        #expect(released.waitingFor == .confirmation && released.revision == 2)
        #expect(try answer(job.id, revision: 2).get().get().state == .queued)
        #expect(try eventTypes(of: job.id, 2) == [.jobCreated, .jobWillBegin])
    }
}
