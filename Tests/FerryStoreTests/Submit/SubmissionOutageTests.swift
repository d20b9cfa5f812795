import FerryCore
import Postgres
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("Submissions while the database fails", .onOwnThread)
struct SubmissionOutageTests {
    @Test("without a database a submission that is refused at once gets one reply")
    func answeredOnce() throws {
        let server = try TestServer()
        defer { server.remove() }
        try Migrator.migrate(url: server.url())
        let node = try TestNode(server.url())
        defer { node.store.stop() }
        let draft = SessionDraft(
            configuration: SessionConfiguration(), secrets: JobSecrets(), sealedSecrets: nil)
        let key = SessionKey(tenant: "acme", name: "changed")
        _ = try wait { node.store.sessions.putSession(key, draft, if: .none, reply: $0) }.get()
        server.stop()
        let answers = Mailbox<String>()
        // The first one waits for the database, and the second one is tried together with it.
        for (session, epoch) in [("patient", nil), ("changed", 0)] as [(String, Int64?)] {
            node.store.submissions.submit(
                Submission(jobs: [newJob(session: session)], idempotency: nil, sessionEpoch: epoch) { _ in
                    answers.send(session)
                })
        }
        var answered: [String] = []
        while Set(answered).count < 2 {
            let next = answers.wait(milliseconds: 60_000)
            try #require(!next.isEmpty)
            answered += next
        }
        #expect(answered.sorted() == ["changed", "patient"])
        #expect(node.store.submissions.waitingCount == 0)
    }

    @Test("a committed submission is accepted even if the replies to repeated ones cannot be read")
    func replays() throws {
        let database = try TestDatabase(template: template)
        let node = try TestNode(database.url, isWorker: false)
        defer { node.store.stop() }
        _ = try node.submit([newJob()], key: key("known")).get()
        var options = ConnectionOptions()
        options.settings = [.init("ferry.shard", "test")]
        var connection = try Connection(url: database.url, options: options)
        // Its name is taken, so that it cannot be prepared.
        try connection.execute(script: "PREPARE \(Statements.readKeys.name) AS SELECT 1")
        let insertion = node.store.submissions.insertion
        let submissions = [nil, key("new"), key("known")].map { key in
            Submission(jobs: [newJob()], idempotency: key) { _ in }
        }
        let batch = SubmissionBatch(submissions, insertion)
        let outcome = try batch.commit(&connection, epoch: insertion.context.sessions.current.epoch)
        let accepted = outcome.results.map { (try? $0.get().jobs.map(\.id)) ?? [] }
        #expect(accepted == [[submissions[0].jobs[0].id], [submissions[1].jobs[0].id], []])
        guard case .failure(.unavailable) = outcome.results[2] else {
            Issue.record("an answer that could not be read was \(outcome.results[2])")
            return
        }
        #expect(outcome.jobCount == 2)
        #expect(try countedStates(database.url) == ["queued": 3])
    }
}
