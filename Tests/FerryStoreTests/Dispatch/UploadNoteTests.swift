import FerryCore
import Postgres
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

/// The address of an upload, from the attempt that has learnt it to those that continue the upload.
@Suite(.onOwnThread) struct UploadNoteTests {
    static let upload = ResumableUpload(
        dialect: .ietf, target: "https://example.org/a", url: "https://example.org/u/1",
        keepsCredentials: true, byteCount: 5, body: "5:x")

    private let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    private func note(_ upload: ResumableUpload?, of attempt: Attempt, on node: TestNode) throws {
        node.store.dispatcher.note(upload, of: attempt)
        // Notes are committed in their order.
        let marked = Signal<Bool>()
        node.store.dispatcher.mark(attempt) { marked.fire($0) }
        #expect(marked.wait() == [true])
    }

    @Test("later attempts continue a noted upload, also after a restart, until the server keeps it no longer")
    func attempts() throws {
        let first = try TestNode(database.url)
        let id = try first.submit(newJob(kind: .upload, method: "PUT")).id
        let attempt = try first.attempt()
        #expect(attempt.upload == nil)
        try note(Self.upload, of: attempt, on: first)
        first.end(attempt, failure())
        let again = try first.attempt()
        #expect(again.number == 2 && again.upload == Self.upload)
        first.store.stop()
        // The process has died; another node takes over as in `ClusterTests.unsentRequest`.
        let second = try TestNode(database.url, id: first.id)
        defer { second.store.stop() }
        let third = try second.attempt()
        #expect(third.job == id && third.upload == Self.upload)
        try note(nil, of: third, on: second)
        second.end(third, failure())
        let fourth = try second.attempt()
        #expect(fourth.upload == nil)
        second.end(fourth, success)
        #expect(try RowCheck.brokenRules(url: database.url).isEmpty)
    }

    @Test("an upload goes on with another query of its URL, and begins again at another URL")
    func edits() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let id = try node.submit(newJob(kind: .upload, method: "PUT", attemptCountMax: 9)).id
        for (url, isKept) in [("https://example.org/a?signature=2", true), ("https://example.org/b", false)] {
            let attempt = try node.attempt()
            try note(Self.upload, of: attempt, on: node)
            _ = try wait { reply in
                node.store.jobCommands.edit(
                    id, tenant: "acme",
                    { draft throws(InvalidFields) in
                        var draft = draft
                        draft.spec.request = .init(url: url, method: "PUT")
                        return draft
                    }, reply: reply)
            }.get().get()
            node.end(attempt, failure())
            let next = try node.attempt()
            #expect(next.spec.request.url == url && next.upload == (isKept ? Self.upload : nil))
            node.end(next, failure())
        }
    }

    @Test("a note that the server keeps the upload takes the note back that a request must not be sent twice")
    func marks() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        _ = try node.submit(newJob(kind: .upload, method: "POST"))
        let attempt = try node.attempt()
        var connection = try Connection(url: database.url)
        let sent = Statement("read_sent", "SELECT coalesce(sent_attempt, 0) FROM jobs")
        try note(nil, of: attempt, on: node)
        #expect(try connection.execute(sent).int32(0, 0) == 1)
        node.store.dispatcher.note(Self.upload, of: attempt)
        try eventually("it is noted") { try connection.execute(sent).int32(0, 0) == 0 }
    }

    @Test("an upload that ends unfinished has resume data with its address; one without has none")
    func resumeData() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let expected = { (job: NewJob) in "sealed \(job.id) https://example.org/u/1" }
        for isKept in [true, false] {
            let failed = newJob(kind: .upload, method: "PUT")
            _ = try node.submit(failed)
            node.store.dispatcher.record(
                result(try node.attempt(), failure(isRetryable: false), upload: isKept ? Self.upload : nil))
            node.waitUntilFinished(failed.id)
            #expect(try node.job(failed.id).get().record.resumeData == (isKept ? expected(failed) : nil))

            let suspended = newJob(kind: .upload, method: "PUT")
            _ = try node.submit(suspended)
            let attempt = try node.attempt()
            if isKept { try note(Self.upload, of: attempt, on: node) }
            _ = try wait { node.store.jobCommands.suspend(suspended.id, tenant: "acme", reply: $0) }.get()
            node.store.dispatcher.record(
                result(attempt, .suspended, upload: isKept ? Self.upload : nil))
            try eventually("it is suspended") { try node.job(suspended.id).get().record.state == .suspended }
            let record = try wait {
                node.store.jobCommands.cancel(suspended.id, tenant: "acme", keepsBytes: true, reply: $0)
            }.get()
            #expect(record.resumeData == (isKept ? expected(suspended) : nil))
        }
    }
}
