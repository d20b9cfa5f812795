import FerryCore
import Postgres
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

/// Uploads at stores that jobs leave when they end, from the note of an attempt to their removal.
@Suite(.onOwnThread) struct AbandonedUploadTests {
    /// Keeps what it is asked to remove; the test replies.
    private final class Remover: UploadRemover {
        struct Request: Sendable {
            let attempt: Attempt
            let reply: @Sendable (TransferError?) -> Void
        }
        let asked = Mailbox<Request>()

        func removeUpload(of attempt: Attempt, reply: @escaping @Sendable (TransferError?) -> Void) {
            asked.send(Request(attempt: attempt, reply: reply))
        }

        func next() throws -> Request { try #require(asked.wait(milliseconds: 60_000).first) }
    }

    private static let upload = ResumableUpload(
        dialect: .s3, target: "https://example.org/a", url: "https://example.org/a", keepsCredentials: true,
        byteCount: 5, body: "5:x", parts: .init(upload: "u", byteCount: 5, haveDigestTags: true))
    private static let away = TransferError(
        .couldNotConnect, "The store is away.", phase: .connecting, isRetryable: true)

    private let database: TestDatabase
    private let remover = Remover()

    init() throws { database = try TestDatabase(template: template) }

    private func makeNode(adjust: (inout StoreConfiguration) -> Void = { _ in }) throws -> TestNode {
        try TestNode(database.url, remover: remover, adjust: adjust)
    }

    private func note(_ upload: ResumableUpload?, of attempt: Attempt, on node: TestNode) {
        node.store.dispatcher.note(upload, of: attempt)
        // Notes are committed in their order.
        let marked = Signal<Bool>()
        node.store.dispatcher.mark(attempt) { marked.fire($0) }
        #expect(marked.wait() == [true])
    }

    /// Submits an upload whose attempt notes `upload`, and suspends it.
    private func suspended(
        _ node: TestNode, _ upload: ResumableUpload = upload,
        _ job: NewJob = newJob(kind: .upload, method: "PUT")
    ) throws -> JobID {
        _ = try node.submit(job)
        let attempt = try node.attempt()
        note(upload, of: attempt, on: node)
        _ = try wait { node.store.jobCommands.suspend(job.id, tenant: "acme", reply: $0) }.get()
        node.store.dispatcher.record(result(attempt, .suspended, leavesBytes: true, upload: upload))
        try eventually("it is suspended") { try node.job(job.id).get().record.state == .suspended }
        return job.id
    }

    private func cancel(_ job: JobID, _ node: TestNode, keepsBytes: Bool = false) throws -> JobRecord {
        try wait {
            node.store.jobCommands.cancel(job, tenant: "acme", keepsBytes: keepsBytes, reply: $0)
        }.get()
    }

    /// The jobs whose uploads are abandoned, with the seconds until the next try of each.
    private func rows() throws -> [JobID: Double] {
        var connection = try Connection(url: database.url)
        let rows = try connection.execute(
            Statement(
                "read_abandoned",
                "SELECT job, extract(epoch FROM due_at - now())::double precision FROM abandoned_uploads"))
        return Dictionary(
            uniqueKeysWithValues: (0..<rows.rowCount).map { (rows.identifier($0, 0), rows.float64($0, 1)) })
    }

    private func change(_ set: String) throws {
        var connection = try Connection(url: database.url)
        let notice = "NOTIFY ferry, '\(StoreSignals.uploadsNotification)'"
        try connection.execute(script: "UPDATE abandoned_uploads SET \(set); \(notice)")
    }

    @Test("the upload of a job that is cancelled while it is suspended is removed with the job's secrets")
    func cancelled() throws {
        let node = try makeNode()
        defer { node.store.stop() }
        let id = try suspended(
            node, Self.upload, newJob(kind: .upload, method: "PUT", sealedSecrets: Array("secret".utf8)))
        #expect(try rows().isEmpty && remover.asked.take().isEmpty)
        #expect(try cancel(id, node).state == .cancelled)
        let request = try remover.next()
        #expect(request.attempt.job == id && request.attempt.upload == Self.upload)
        #expect(request.attempt.secrets.webhookSecret == "secret" && request.attempt.tenant == "acme")
        #expect(try RowCheck.brokenRules(url: database.url).isEmpty)
        request.reply(nil)
        try eventually("it is forgotten") { try rows().isEmpty }
        #expect(node.store.metrics.removedUploads == 1 && node.store.metrics.givenUpUploads == 0)
    }

    @Test("the upload of a job whose time ends while it is suspended is kept for its resume data")
    func overdue() throws {
        let node = try makeNode()
        defer { node.store.stop() }
        let id = try suspended(node)
        var connection = try Connection(url: database.url)
        try connection.execute(script: "UPDATE jobs SET expires_at = now()")
        node.waitUntilFinished(id)
        #expect(try node.job(id).get().record.resumeData != nil)
        let seconds = try #require(try rows()[id])
        #expect(abs(seconds - Limits.resumeDataSeconds) < 600)
        #expect(remover.asked.take().isEmpty)
    }

    @Test("the upload of a job with resume data is removed when the job is deleted")
    func deleted() throws {
        let node = try makeNode()
        defer { node.store.stop() }
        let id = try suspended(node)
        #expect(try cancel(id, node, keepsBytes: true).resumeData != nil)
        #expect(try rows()[id] != nil && remover.asked.take().isEmpty)
        eventually("it is deleted") {
            (try? wait { node.store.jobCommands.delete(id, tenant: "acme", reply: $0) }.get()) != nil
        }
        let request = try remover.next()
        #expect(request.attempt.job == id && request.attempt.upload == Self.upload)
    }

    @Test("a job that continues the upload of another one takes it over")
    func takenOver() throws {
        let formerJob = newJob(kind: .upload, method: "PUT")
        var secrets = JobSecrets()
        secrets.resumePoint = ResumePoint(
            tenant: "acme", job: formerJob.id, url: Self.upload.url, location: .managedFile,
            upload: Self.upload)
        let node = try makeNode { [secrets] in $0.openSecrets = { _ in secrets } }
        defer { node.store.stop() }
        let former = try suspended(node, Self.upload, formerJob)
        _ = try cancel(former, node, keepsBytes: true)
        #expect(try Set(rows().keys) == [former])
        let later = NewJob(
            id: TestNode.identifiers.make(), tenant: "acme", JobRequest(formerJob.spec, secrets),
            specJSON: formerJob.spec.encode(), sealedSecrets: [1], traceparent: nil, retryOf: nil)
        _ = try node.submit(later)
        let attempt = try node.attempt()
        #expect(attempt.upload == Self.upload && attempt.formerJob(of: Self.upload) == former)
        note(Self.upload, of: attempt, on: node)
        #expect(try rows().isEmpty)
        node.end(attempt, failure(isRetryable: false))
        let request = try remover.next()
        #expect(request.attempt.job == later.id && request.attempt.upload == Self.upload)
    }

    @Test("a job that has succeeded, or whose attempt has removed its upload, leaves none")
    func none() throws {
        let node = try makeNode()
        defer { node.store.stop() }
        for isRemoved in [true, false] {
            let job = newJob(kind: .upload, method: "PUT")
            _ = try node.submit(job)
            let attempt = try node.attempt()
            note(Self.upload, of: attempt, on: node)
            if isRemoved { note(nil, of: attempt, on: node) }
            node.end(attempt, isRemoved ? failure(isRetryable: false) : success)
            node.waitUntilFinished(job.id)
            #expect(try rows().isEmpty)
        }
    }

    @Test("the upload of another protocol is forgotten without a request")
    func otherProtocol() throws {
        let node = try makeNode()
        defer { node.store.stop() }
        let id = try suspended(node, UploadNoteTests.upload)
        _ = try cancel(id, node)
        try eventually("it is forgotten") { try rows().isEmpty }
        #expect(remover.asked.take().isEmpty && node.store.metrics.removedUploads == 0)
    }

    @Test("a try that fails is repeated, ever later and by any node, until a day is over")
    func repeated() throws {
        let first = try makeNode()
        let id = try suspended(first)
        _ = try cancel(id, first)
        var waits: [Double] = []
        for _ in 0..<3 {
            let request = try remover.next()
            waits.append(try #require(try rows()[id]))
            request.reply(Self.away)
            try change("due_at = now()")
        }
        #expect(waits[0] <= 15 && waits[1] > 15 && waits[1] <= 30 && waits[2] > 30 && waits[2] <= 60)
        // The node ends without a reply.
        _ = try remover.next()
        first.store.stop()
        let second = try makeNode()
        defer { second.store.stop() }
        #expect(try Set(rows().keys) == [id])
        try change("due_at = now(), ends_at = now()")
        try remover.next().reply(Self.away)
        try eventually("it is given up") { try rows().isEmpty }
        #expect(second.store.metrics.givenUpUploads == 1 && second.store.metrics.removedUploads == 0)
    }

    @Test("more uploads than one node removes at once are removed one after the other")
    func many() throws {
        let node = try makeNode()
        defer { node.store.stop() }
        let id = try suspended(node)
        _ = try cancel(id, node)
        try remover.next().reply(nil)
        try eventually("it is forgotten") { try rows().isEmpty }
        var connection = try Connection(url: database.url)
        // Rows that cannot be read fail at once, and have their last try.
        try connection.execute(
            script: """
                INSERT INTO abandoned_uploads (job, created_at, due_at, ends_at, tries, tenant, origin, spec,
                    next_request)
                SELECT gen_random_uuid(), now(), now(), now(), 0, 'acme', 'http://a:80', '{}', ''
                FROM generate_series(1, 50);
                NOTIFY ferry, '\(StoreSignals.uploadsNotification)'
                """)
        try eventually("all are given up") { try rows().isEmpty }
        #expect(node.store.metrics.givenUpUploads == 50)
    }
}
