import FerryCore
import Postgres
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("Connections beyond an attempt's first", .onOwnThread)
struct ConnectionTests {
    let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    private static let limited = "https://limited.example.org:443"

    /// Asks for a connection and waits for the grant.
    private func ask(_ node: TestNode, _ attempt: Attempt, _ origin: String) throws -> ConnectionGrant {
        let answers = Mailbox<ConnectionGrant>()
        let scope = attempt.scope(at: origin)
        if let answer = node.store.connections.ask(attempt, for: scope, reply: { answers.send($0) }) {
            return answer
        }
        return try #require(answers.wait(milliseconds: 60_000).first)
    }

    /// Asks again until the connection is granted: a transaction that held the claim queue may have refused
    /// it.
    private func isGranted(_ node: TestNode, _ attempt: Attempt, _ origin: String) throws {
        try eventually("a connection is granted") { try ask(node, attempt, origin) == .granted }
    }

    private func rows() throws -> Int64 {
        var connection = try Connection(url: database.url)
        return try connection.execute(Statement("extra", "SELECT count(*) FROM connections")).int64(0, 0)
    }

    @Test("two nodes together stay within a host's connection limit, parts included")
    func limit() throws {
        let nodes = try (0..<2).map { _ in try TestNode(database.url, slots: 1) }
        defer { nodes.forEach { $0.store.stop() } }
        try nodes[0].changeHost(Self.limited, #"{"maximum_connections":4}"#, known: nodes)
        // Each node has one slot and runs one job: two of four connections.
        _ = try nodes[0].submit((0..<2).map { _ in newJob(host: "limited.example.org") }).get()
        let attempts = try nodes.map { try $0.attempt() }
        try isGranted(nodes[0], attempts[0], Self.limited)
        try isGranted(nodes[1], attempts[1], Self.limited)
        let hold = HostHold(origin: Self.limited, reason: .hostLimit(4, of: .origin))
        for (node, attempt) in zip(nodes, attempts) {
            #expect(try ask(node, attempt, Self.limited) == .refused(hold))
        }
        // The other node gets the connection that is given back.
        nodes[0].store.connections.giveBack(attempts[0], attempts[0].scope(at: Self.limited))
        try isGranted(nodes[1], attempts[1], Self.limited)
        #expect(try ask(nodes[0], attempts[0], Self.limited) == .refused(hold))
        // An attempt that has ended holds no connection, whatever its node has written.
        nodes[1].end(attempts[1], success)
        try isGranted(nodes[0], attempts[0], Self.limited)
        try isGranted(nodes[0], attempts[0], Self.limited)
        nodes[0].end(attempts[0], success)
        try eventually("nothing is left of them") { try rows() == 0 }
    }

    @Test("a queued job waits while parts of other jobs use the host's connections, and goes before them")
    func claims() throws {
        let node = try TestNode(database.url, slots: 4) { $0.heldSeconds = 300 }
        defer { node.store.stop() }
        try node.changeHost(Self.limited, #"{"maximum_connections":3}"#, known: [node])
        _ = try node.submit(newJob(host: "limited.example.org"))
        let running = try node.attempt()
        try isGranted(node, running, Self.limited)
        try isGranted(node, running, Self.limited)
        let second = try node.submit(newJob(host: "limited.example.org"))
        let free = try node.submit(newJob(host: "free.example.org"))
        #expect(try node.attempt().job == free.id)
        #expect(try node.job(second.id).get().record.state == .queued)
        node.store.connections.giveBack(running, running.scope(at: Self.limited))
        #expect(try node.attempt().job == second.id)
        // No attempt gets a further connection while jobs of the host are queued.
        let third = try node.submit(newJob(host: "limited.example.org"))
        node.store.connections.giveBack(running, running.scope(at: Self.limited))
        #expect(try node.attempt().job == third.id)
    }

    @Test("connections opened before the limit count, and those of a lost attempt do not")
    func recount() throws {
        let node = try TestNode(database.url, slots: 4)
        defer { node.store.stop() }
        let accepted = try node.submit(newJob(host: "free.example.org"))
        let attempt = try node.attempt()
        for _ in 0..<2 { #expect(try ask(node, attempt, Self.limited) == .granted) }
        #expect(try rows() == 0, "no limit applies")
        try node.changeHost(Self.limited, #"{"maximum_connections":2}"#, known: [node])
        try eventually("they are counted") { try rows() == 1 }
        let late = try node.submit(newJob(host: "limited.example.org"))
        #expect(try ask(node, attempt, Self.limited) != .granted)
        #expect(try node.job(late.id).get().record.state == .queued)
        // Another node has taken the job over.
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: "UPDATE jobs SET attempt = attempt + 1 WHERE id = '\(accepted.id.uuidText)'")
        #expect(try node.attempt().job == late.id)
    }

    @Test("connections to a paused host are refused, and the job waits without using an attempt")
    func paused() throws {
        let node = try TestNode(database.url, slots: 4)
        defer { node.store.stop() }
        let accepted = try node.submit(newJob(host: "free.example.org", attemptCountMax: 1))
        let attempt = try node.attempt()
        try node.changeHost(Self.limited, #"{"paused":true}"#, known: [node])
        let hold = HostHold(origin: Self.limited, reason: .hostPaused)
        #expect(node.store.connections.hold(on: attempt.scope(at: Self.limited)) == hold)
        #expect(try ask(node, attempt, Self.limited) == .refused(hold))
        node.store.dispatcher.record(result(attempt, .putOff(hold)))
        // The job is tried again after a second.
        let next = try node.attempt()
        #expect(next.job == accepted.id && next.number == 2 && next.failedAttemptCount == 0)
        node.store.dispatcher.record(result(next, .putOff(hold)))
        var record = try node.job(accepted.id).get().record
        try eventually("it waits") {
            // After more than a second the job may have begun again.
            for again in node.runner.begun.take() {
                node.store.dispatcher.record(result(again, .putOff(hold)))
            }
            record = try node.job(accepted.id).get().record
            return record.waitingFor == .retry
        }
        let error = try #require(record.error)
        #expect(error.code.choice == .hostHeld && record.failedAttemptCount == 0)
        #expect(error.hold?.choice == .hostPaused)
    }
}

extension Attempt {
    /// Returns the scope of a request to the root of another origin.
    func scope(at origin: String) -> RequestScope {
        RequestScope(tenant: tenant, origin: origin, path: "/")
    }
}
