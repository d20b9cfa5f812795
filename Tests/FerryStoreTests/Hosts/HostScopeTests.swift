import FerryCore
import FerryScheduler
import Postgres
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("Limits of scopes", .onOwnThread)
struct HostScopeTests {
    private static let origin = "https://shared.example:443"

    let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    private func job(
        _ path: String, tenant: String = "acme", session: String = "default"
    ) -> NewJob {
        newJob(tenant: tenant, session: session, host: "shared.example", path: path)
    }

    /// Fails two jobs of a path with `Retry-After: 600`, and waits until the path is held.
    private func hold(_ path: String, on node: TestNode, session: String = "default") throws {
        _ = try node.submit((0..<2).map { _ in job(path, session: session) }).get()
        for attempt in try node.attempts(2) {
            node.store.dispatcher.record(throttled(attempt, retryAfter: 600))
        }
        let scope = RequestScope(tenant: "acme", origin: Self.origin, path: "/" + path.prefix { $0 != "/" })
        eventually("the path is held") { node.hosts.limit(of: scope)?.blockedUntil != nil }
    }

    private func reason(_ job: JobID, _ node: TestNode) throws -> WaitingReason? {
        WaitingReason(try node.job(job).get().record, queue: node.store.queueConditions)
    }

    @Test("a hold of a path affects neither other paths nor other tenants queued behind it")
    func path() throws {
        let node = try TestNode(database.url, slots: 8)
        defer { node.store.stop() }
        try hold("busy/1", on: node)
        // More jobs than one claim reads.
        let held = try node.submit((0..<600).map { job("busy/\($0)") }).get().jobs
        let other = try node.submit(job("calm/1"))
        let stranger = try node.submit(job("busy/1", tenant: "other"))
        let begun = try node.attempts(2)
        #expect(Set(begun.map(\.job)) == [other.id, stranger.id])
        let why = try #require(try reason(held[0].id, node))
        #expect(why.code == .hostBackoff && why.detail.contains("below /busy"), "\(why)")
        #expect(node.runner.begun.take().isEmpty)
    }

    @Test("jobs of a held path are skipped also in a session with a connection limit")
    func narrow() throws {
        let node = try TestNode(database.url, slots: 8)
        defer { node.store.stop() }
        var configuration = SessionConfiguration()
        configuration.connectionsPerHostMax = 2
        let draft = SessionDraft(configuration: configuration, secrets: JobSecrets(), sealedSecrets: nil)
        let key = SessionKey(tenant: "acme", name: "few")
        _ = try wait { node.store.sessions.putSession(key, draft, if: .none, reply: $0) }.get()
        eventually("the limit is known") {
            node.store.context.sessions.current.share(tenant: "acme", session: "few")
                .connectionLimit == 2
        }
        try hold("busy/1", on: node, session: "few")
        _ = try node.submit((0..<600).map { job("busy/\($0)", session: "few") }).get()
        let calm = try node.submit((0..<5).map { job("calm/\($0)", session: "few") }).get().jobs.map(\.id)
        var done: Set<JobID> = []
        for _ in calm {
            let attempt = try node.attempt()
            node.end(attempt, success)
            done.insert(attempt.job)
        }
        #expect(done == Set(calm))
    }

    @Test("when the hold of a path ends, its jobs run from the claim queues they were moved to")
    func released() throws {
        let node = try TestNode(database.url, slots: 8)
        defer { node.store.stop() }
        try hold("busy/1", on: node)
        let held = try node.submit((0..<20).map { job("busy/\($0)") }).get().jobs.map(\.id)
        // Claims move the jobs when they meet them.
        let calm = try node.submit(job("calm/1"))
        #expect(try node.attempt().job == calm.id)
        let patch = try HostPatch(body: JSONView(parsing: Array(#"{"backoff_until":null}"#.utf8)))
        _ = try wait {
            node.store.hostCommands.changeHost(Self.origin, patch, if: { _ in true }, reply: $0)
        }.get().get()
        var done: Set<JobID> = []
        while done.count < held.count {
            let attempt = try node.attempt()
            node.end(attempt, success)
            done.insert(attempt.job)
        }
        #expect(done == Set(held))
    }

    @Test("other credentials make another scope, and the database has no readable credential")
    func credentials() throws {
        let node = try TestNode(database.url, slots: 8)
        defer { node.store.stop() }
        func scope(_ secrets: JobSecrets) -> RequestScope {
            node.store.queueState.scope(
                tenant: "acme", url: "https://shared.example/api/1?x", origin: Self.origin, secrets)
        }
        let plain = scope(JobSecrets())
        let first = scope(JobSecrets(headers: [.init("Authorization", "Bearer one")]))
        let second = scope(JobSecrets(headers: [.init("Authorization", "Bearer twofold")]))
        #expect(plain.path == "/api" && Set([plain, first, second]).count == 3)
        #expect(!first.path.contains("one") && first.scope.segment == "/api")
        #expect(scope(JobSecrets(webhookSecret: "whsec_x")) == plain, "that is none of the host's")
    }
}
