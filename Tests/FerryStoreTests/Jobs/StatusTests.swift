import FerryCore
import FerryStore
import Postgres
import TestSupport
import TestThreads
import Testing

@Suite("The oldest queued job", .onOwnThread)
struct StatusTests {
    let database: TestDatabase
    let node: TestNode

    init() throws {
        database = try TestDatabase(template: template)
        // No job begins on this node.
        node = try TestNode(database.url, isWorker: false)
    }

    private static let day = 86_400.0

    private func change(_ sql: String) throws {
        var connection = try Connection(url: database.url)
        try connection.execute(script: sql)
    }

    private func age() throws -> Double? { try node.status().oldestQueuedSeconds }

    @Test("the age of a queued job begins when it is queued, not when it was created")
    func waited() throws {
        defer { node.store.stop() }
        let id = try node.submit(newJob(timeoutForResource: 864_000)).id
        try change("UPDATE jobs SET created_at = now() - interval '3 days'")
        #expect(try #require(try age()) >= 3 * Self.day)
        _ = try wait { node.store.jobCommands.suspend(id, tenant: "acme", reply: $0) }.get()
        #expect(try age() == nil)
        _ = try wait { node.store.jobCommands.resume(id, tenant: "acme", reply: $0) }.get()
        #expect(try #require(try age()) < Self.day)
    }

    @Test("with 450 claim queues the oldest job is found in the third call and kept while queued")
    func queues() throws {
        defer { node.store.stop() }
        _ = try node.submit((0..<450).map { newJob(session: "s\($0)") }).get()
        try change(
            """
            UPDATE jobs SET created_at = now() - interval '2 days'
            WHERE queue = (SELECT max(queue) FROM jobs)
            """
        )
        var seen: [Bool] = []
        for _ in 0..<5 { seen.append(try #require(try age()) > Self.day) }
        #expect(seen == [false, false, true, true, true])
        try change(
            """
            UPDATE jobs SET state = 'suspended' WHERE created_at < now() - interval '1 day';
            \(countRows("queued", -1)) \(countRows("suspended", 1))
            """)
        #expect(try #require(try age()) < Self.day)
    }
}
