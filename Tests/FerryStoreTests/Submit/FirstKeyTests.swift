import FerryCore
import Postgres
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("The service's first key", .onOwnThread)
struct FirstKeyTests {
    let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    private func key(_ number: UInt8) -> APIKey {
        APIKey(
            id: TestNode.identifiers.make(), role: .admin, name: "first",
            hash: Array(repeating: number, count: 32),
            createdAt: Timestamp(microseconds: Sys.wallMicroseconds()))
    }

    private func hashes(_ node: TestNode) throws -> [[UInt8]] {
        let keys: Result<[APIKey], StoreError> = wait { node.store.keys.keys(reply: $0) }
        return try keys.get().map(\.hash)
    }

    @Test("if the first key was shown but not committed, the next start makes and shows another one")
    func interrupted() throws {
        let node = try TestNode(database.url)
        defer { node.store.stop() }
        let url = database.url
        let lost: Result<Void, StoreError> = wait { reply in
            node.store.keys.createFirstKey(
                key(1),
                show: {
                    // As a process that is killed here: its session ends before the commit.
                    var other = try? Connection(url: url)
                    try? other?.execute(
                        script: """
                            SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
                            WHERE datname = current_database() AND state = 'idle in transaction'
                            """)
                }, reply: reply)
        }
        #expect(throws: StoreError.self) { try lost.get() }
        #expect(try hashes(node).isEmpty)
        let shown = Signal<Void>()
        let again: Result<Void, StoreError> = wait { reply in
            node.store.keys.createFirstKey(key(2), show: { shown.fire(()) }, reply: reply)
        }
        try again.get()
        #expect(shown.wait().count == 1)
        #expect(try hashes(node) == [key(2).hash])
    }

    @Test("of nodes that start at once one shows a key, and that key is valid")
    func together() throws {
        let nodes = try (0..<3).map { _ in try TestNode(database.url) }
        defer { for node in nodes { node.store.stop() } }
        let shown = Signal<UInt8>()
        let ended = Signal<Bool>()
        for (number, node) in nodes.enumerated() {
            node.store.keys.createFirstKey(
                key(UInt8(number)), show: { shown.fire(UInt8(number)) },
                reply: { ended.fire((try? $0.get()) != nil) })
        }
        #expect(ended.wait(for: 3) == [true, true, true])
        let numbers = shown.wait()
        #expect(numbers.count == 1)
        #expect(try hashes(nodes[0]) == numbers.map { key($0).hash })
    }
}
