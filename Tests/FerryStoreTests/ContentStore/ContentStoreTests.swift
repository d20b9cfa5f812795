import FerryCore
import Postgres
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("Content store in the database", .onOwnThread)
struct ContentStoreTests {
    let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    private func claim(
        _ node: TestNode, store generation: Int64, every seconds: Double = 3_600
    ) throws -> ContentStoreCommands.Claim {
        try wait {
            node.store.contentStore.claimSweep(storeGeneration: generation, every: seconds, reply: $0)
        }.get()
    }

    private func accept(_ node: TestNode, _ generation: Int64) throws -> ContentStoreCommands.State? {
        try wait { node.store.contentStore.accept(storeGeneration: generation, reply: $0) }.get()
    }

    private func state(_ node: TestNode) throws -> ContentStoreCommands.State {
        try wait { node.store.contentStore.state(reply: $0) }.get()
    }

    @Test("one node in the interval begins a sweep, which raises the generation")
    func interval() throws {
        let first = try TestNode(database.url)
        defer { first.store.stop() }
        let second = try TestNode(database.url)
        defer { second.store.stop() }
        #expect(try state(first) == .init(generation: 0, sweptAt: nil))
        let begun = try claim(first, store: 0)
        #expect(begun.begins && begun.generation == 1 && begun.nextSeconds == 3_600)
        let refused = try claim(second, store: 1)
        #expect(!refused.begins && refused.generation == 1)
        #expect((3_000...3_600).contains(refused.nextSeconds))
        let now = try state(second)
        #expect(now.generation == 1 && now.sweptAt != nil)
        #expect(try claim(second, store: 1, every: 0).generation == 2)
    }

    @Test("a time of the last sweep in the future delays the next one by an interval at most")
    func future() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: "UPDATE content_store SET swept_at = now() + interval '2 hours'")
        #expect(try claim(node, store: 0).begins)
    }

    @Test("a higher generation of the store stops sweeps until it is accepted")
    func restored() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        #expect(try accept(node, 0) == nil)
        let refused = try claim(node, store: 7)
        #expect(!refused.begins && refused.generation == 0)
        #expect(try accept(node, 7)?.generation == 7)
        #expect(try accept(node, 7) == nil && accept(node, 6) == nil)
        let begun = try claim(node, store: 7)
        #expect(begun.begins && begun.generation == 8)
    }

    private func unused(
        _ node: TestNode, _ contents: [(content: ContentStoreCommands.Content, isUnused: Bool)]
    ) throws {
        let unused = try wait {
            node.store.contentStore.unused(contents.map(\.content), reply: $0)
        }.get()
        #expect(unused == Set(contents.indices.filter { contents[$0].isUnused }))
    }

    @Test("contents of unknown jobs, and those that their ended job does not name, are not needed")
    func unused() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let ended = try node.submit(newJob()).id
        let attempt = try node.attempt()
        let kept = "jobs/\(ended)/1-00112233"
        node.end(
            attempt,
            .succeeded(
                TransferResult(location: .object(key: kept), size: 1, sha256: "ab", verified: .length)))
        let rejected = try node.submit(newJob()).id
        node.end(try node.attempt(), failure(isRetryable: false))
        node.waitUntilFinished(rejected)
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: """
                UPDATE finished_jobs
                SET response = '{"status":500,"content_location":{"object":"jobs/\(rejected)/1-00"}}'
                WHERE state = 'failed'
                """)
        let unfinished = try node.submit(newJob()).id
        let unknown: JobID = TestNode.identifiers.make()
        try unused(
            node,
            [
                (.init(of: unknown, key: "jobs/\(unknown)/1-00112233"), true),
                (.init(of: unknown, key: nil), true),
                (.init(of: unfinished, key: "jobs/\(unfinished)/1-00112233"), false),
                (.init(of: unfinished, key: nil), false),
                (.init(of: ended, key: kept), false),
                (.init(of: ended, key: "jobs/\(ended)/2-00112233"), true),
                (.init(of: ended, key: "jobs/\(ended)/1-0011223"), true),
                (.init(of: ended, key: nil), true),
                (.init(of: rejected, key: "jobs/\(rejected)/1-00"), false),
                (.init(of: rejected, key: "jobs/\(rejected)/1-01"), true),
                (.init(of: rejected, key: nil), true),
            ])
        try unused(node, [])
    }

    @Test("an upload needs the object with its bytes, and until there is one all of its own")
    func uploads() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let now = Timestamp(microseconds: Sys.wallMicroseconds())
        let upload = StagedUpload(
            id: TestNode.identifiers.make(), tenant: "acme", node: node.id, name: nil,
            fields: UploadFields(), size: nil, createdAt: now, expiresAt: now + 3_600)
        _ = try wait { node.store.uploads.createUpload(upload, reply: $0) }.get()
        let (key, other) = ("uploads/\(upload.id)/0011", "uploads/\(upload.id)/2233")
        let unknown: UploadID = TestNode.identifiers.make()
        let all: [ContentStoreCommands.Content] = [
            .init(of: upload.id, key: key), .init(of: upload.id, key: other),
            .init(of: upload.id, key: nil), .init(of: unknown, key: key), .init(of: unknown, key: nil),
        ]
        func expect(_ areUnused: [Bool]) throws { try unused(node, Array(zip(all, areUnused))) }
        try expect([false, false, false, true, true])
        _ = try wait {
            node.store.uploads.completeUpload(
                upload.id, byteCount: 5, sha256: [UInt8](repeating: 7, count: 32), expiresAt: now + 3_600,
                reply: $0)
        }.get()
        // Its bytes may be on their way.
        try expect([false, false, false, true, true])
        try wait { node.store.uploads.moveUpload(upload.id, to: key, reply: $0) }.get()
        try expect([false, true, true, true, true])
    }
}
