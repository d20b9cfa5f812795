import FerryCore
import Postgres
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("Staged uploads in the store", .onOwnThread)
struct UploadTests {
    let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    private static let past = Timestamp(microseconds: 1)
    private static let digest = [UInt8](repeating: 7, count: 32)

    private func upload(
        on node: TestNode, name: String? = nil, tenant: String = "acme", expiresIn seconds: Double = 3_600
    ) -> StagedUpload {
        let now = Timestamp(microseconds: Sys.wallMicroseconds())
        return StagedUpload(
            id: TestNode.identifiers.make(), tenant: tenant, node: node.id, name: name,
            fields: UploadFields(), size: nil, createdAt: now, expiresAt: now + seconds)
    }

    private func create(_ upload: StagedUpload, on node: TestNode) throws -> Created<StagedUpload> {
        try wait { node.store.uploads.createUpload(upload, reply: $0) }.get()
    }

    private func complete(_ id: UploadID, on node: TestNode) -> Result<StagedUpload, StoreError> {
        wait {
            node.store.uploads.completeUpload(
                id, byteCount: 5, sha256: Self.digest,
                expiresAt: Timestamp(microseconds: Sys.wallMicroseconds()) + 3_600, reply: $0)
        }
    }

    private func delete(
        _ id: UploadID, on node: TestNode, isForced: Bool = false
    ) -> Result<Void, StoreError> {
        wait { node.store.uploads.deleteUpload(id, tenant: "acme", isForced: isForced, reply: $0) }.map { _ in
        }
    }

    private func expired(on node: TestNode) throws -> [UploadID] {
        try wait { node.store.uploads.removeExpiredUploads(reply: $0) }.get().map(\.upload)
    }

    /// Returns a job that sends the upload, as the API makes it.
    private func job(
        _ id: UploadID, on node: TestNode, tenant: String = "acme"
    ) throws -> NewJob {
        let named = try wait {
            node.store.uploads.prepareUploads([.id(id)], tenant: tenant, reply: $0)
        }.get()
        var spec = newJob(tenant: tenant, kind: .upload, method: "PUT").spec
        spec.source = .upload(.id(id))
        #expect(named.map(\.id) == [id])
        try spec.nameUploads(NamedUploads(named), at: "#")
        return NewJob(
            id: TestNode.identifiers.make(), tenant: tenant, JobRequest(spec),
            specJSON: spec.encodeStored(), sealedSecrets: nil, traceparent: nil, retryOf: nil)
    }

    private func check() throws {
        var connection = try Connection(url: database.url)
        #expect(try RowCheck.brokenRules(&connection) == [])
    }

    @Test("a complete upload is moved to an object once, and its row tells the object when it is removed")
    func moved() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let (whole, begun) = (upload(on: node), upload(on: node))
        var part = upload(on: node)
        part.fields.concatenation = "partial"
        for one in [whole, begun, part] { _ = try create(one, on: node) }
        for one in [whole, part] { _ = try complete(one.id, on: node).get() }
        let local = { try wait { node.store.uploads.localUploads(after: nil, reply: $0) }.get().map(\.id) }
        let move = { (id: UploadID) in
            wait { node.store.uploads.moveUpload(id, to: "uploads/a", reply: $0) }
        }
        #expect(try local() == [whole.id])
        #expect(move(begun.id).refusal == .notFound, "it is incomplete")
        _ = try move(whole.id).get()
        #expect(move(whole.id).refusal == .notFound, "it was moved before")
        #expect(try local().isEmpty)
        let read = try wait {
            node.store.uploads.upload(.id(whole.id), tenant: "acme", reply: $0)
        }.get()
        #expect(read.object == "uploads/a" && read.home == nil && read.node == whole.node)
        let known = try wait { node.store.uploads.known([whole.id, part.id], reply: $0) }.get()
        #expect(known == [part.id], "the file of the moved one may go")
        try check()
        let bytes = try wait {
            node.store.uploads.deleteUpload(whole.id, tenant: "acme", isForced: false, reply: $0)
        }.get()
        #expect(bytes == UploadBytes(upload: whole.id, object: "uploads/a"))
    }

    @Test("an upload is created, advanced and completed, and shown by its identifier and its name")
    func life() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let draft = upload(on: node, name: "report")
        #expect(try create(draft, on: node).isNew)
        let again = try create(upload(on: node, name: "report"), on: node)
        #expect(!again.isNew && again.record.id == draft.id)
        _ = try wait {
            node.store.uploads.advanceUpload(
                draft.id, to: 3, size: 5, expiresAt: draft.expiresAt, reply: $0)
        }.get()
        let read = try wait {
            node.store.uploads.upload(.name("report"), tenant: "acme", reply: $0)
        }.get()
        #expect(read.offset == 3 && read.size == 5 && !read.isComplete && read.sha256 == nil)
        #expect(try complete(draft.id, on: node).get().sha256 == Self.digest)
        #expect(complete(draft.id, on: node).refusal == .notFound, "it is complete already")
        let late = wait {
            node.store.uploads.advanceUpload(
                draft.id, to: 1, size: nil, expiresAt: draft.expiresAt, reply: $0)
        }
        #expect(late.refusal == .notFound)
        let other = wait { node.store.uploads.upload(.id(draft.id), tenant: "other", reply: $0) }
        #expect(other.refusal == .notFound)
        try check()
    }

    /// Returns `true` if all conditions hold for the upload.
    private func matches(_ upload: StagedUpload, _ query: UploadQuery) -> Bool {
        upload.tenant == query.tenant && query.isComplete.map { $0 == upload.isComplete } ?? true
            && query.name.map { $0 == upload.name } ?? true
            && query.createdAfter.map { upload.createdAt > $0 } ?? true
            && query.createdBefore.map { upload.createdAt < $0 } ?? true
    }

    @Test("lists have the uploads that match all conditions, newest first, in pages")
    func lists() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let made = try (0..<6).map { number in
            try create(upload(on: node, name: number == 4 ? "four" : nil), on: node).record
        }
        _ = try create(upload(on: node, name: "four", tenant: "other"), on: node)
        for number in [1, 4] { _ = try complete(made[number].id, on: node).get() }
        let all = try wait { node.store.uploads.uploads(UploadQuery(tenant: "acme"), reply: $0) }.get()
        #expect(all.map(\.id) == made.map(\.id).reversed())
        let times: [Timestamp?] = [nil, made[1].createdAt, made[3].createdAt]
        for isComplete in [nil, true, false] {
            for name in [nil, "four", "none"] {
                for (after, before) in times.flatMap({ after in times.map { (after, $0) } }) {
                    var query = UploadQuery(tenant: "acme", limit: 2)
                    (query.isComplete, query.name) = (isComplete, name)
                    (query.createdAfter, query.createdBefore) = (after, before)
                    let expected = all.filter { matches($0, query) }.map(\.id)
                    var found: [UploadID] = []
                    repeat {
                        query.before = found.last
                        found += try wait { node.store.uploads.uploads(query, reply: $0) }.get().map(\.id)
                    } while found.count.isMultiple(of: 2) && found.last != query.before
                    #expect(found == expected, "\(query)")
                }
            }
        }
    }

    @Test("a job of an incomplete upload waits for it, names it, and begins when it is complete")
    func waiting() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let draft = upload(on: node)
        _ = try create(draft, on: node)
        let waits = try job(draft.id, on: node)
        #expect(waits.spec.schedule.uploadsOfDependencies == [draft.id])
        _ = try node.submit([waits]).get()
        let record = try node.job(waits.id).get().record
        #expect(record.waitingFor == .dependency && record.pendingUploads == [draft.id])
        #expect(record.pendingDependencies.isEmpty && record.pendingGroups.isEmpty)
        try check()
        #expect(delete(draft.id, on: node).refusal == .uploadInUse)
        _ = try complete(draft.id, on: node).get()
        #expect(try node.attempt().job == waits.id)
        #expect(delete(draft.id, on: node).refusal == .uploadInUse, "the job runs")
        try check()
    }

    @Test("a job that was prepared before the end of its upload, and submitted after it, begins")
    func completedMeanwhile() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let draft = upload(on: node)
        _ = try create(draft, on: node)
        let late = try job(draft.id, on: node)
        _ = try complete(draft.id, on: node).get()
        _ = try node.submit([late]).get()
        #expect(try node.attempt().job == late.id)
        try check()
    }

    @Test("jobs of an upload that is deleted or expires before its end fail with dependency_failed")
    func failing() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let deleted = upload(on: node)
        let expiring = upload(on: node)
        for draft in [deleted, expiring] { _ = try create(draft, on: node) }
        let jobs = try [deleted, expiring].map { try job($0.id, on: node) }
        _ = try node.submit(jobs).get()
        #expect(throws: Never.self) { try delete(deleted.id, on: node, isForced: true).get() }
        _ = try wait {
            node.store.uploads.advanceUpload(
                expiring.id, to: 0, size: nil, expiresAt: Self.past, reply: $0)
        }.get()
        #expect(try expired(on: node) == [expiring.id])
        for job in jobs {
            eventually("\(job.id) fails") { (try? node.job(job.id).get().record.state) == .failed }
            let error = try #require(try node.job(job.id).get().record.error)
            #expect(error.code.choice == .dependencyFailed && error.message.contains("upl_"))
        }
        try check()
    }

    @Test("a complete upload that an unfinished job needs does not expire; afterwards it does")
    func needed() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let draft = upload(on: node)
        _ = try create(draft, on: node)
        _ = try complete(draft.id, on: node).get()
        let user = try job(draft.id, on: node)
        #expect(user.spec.schedule.dependencies.isEmpty)
        _ = try node.submit([user]).get()
        let attempt = try node.attempt()
        var connection = try Connection(url: database.url)
        _ = try connection.execute(
            Statement("expire", "UPDATE uploads SET expires_at = now() - interval '1 minute'"))
        #expect(try expired(on: node).isEmpty)
        node.end(attempt, success)
        node.waitUntilFinished(user.id)
        #expect(try expired(on: node) == [draft.id])
        #expect(
            try connection.execute(Statement("count", "SELECT count(*) FROM upload_jobs")).int64(0, 0) == 0)
    }

    @Test("expired uploads of another node are left to it for a day")
    func otherNode() throws {
        let (first, second) = (try TestNode(database.url), try TestNode(database.url))
        defer {
            first.store.stop()
            second.store.stop()
        }
        let draft = upload(on: first, expiresIn: -60)
        _ = try create(draft, on: first)
        #expect(try expired(on: second).isEmpty)
        #expect(try expired(on: first) == [draft.id])
        let forgotten = upload(on: first, expiresIn: -100_000)
        _ = try create(forgotten, on: first)
        #expect(try expired(on: second).isEmpty, "its file is on the other node")
        let known = try wait { first.store.uploads.known([forgotten.id], reply: $0) }.get()
        #expect(known.isEmpty, "but the row is gone")
    }
}

extension Result where Failure == StoreError {
    fileprivate var refusal: StoreError? { if case .failure(let error) = self { error } else { nil } }
}
