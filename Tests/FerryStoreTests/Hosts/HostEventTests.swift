import FerryCore
import Postgres
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("Events of hosts", .onOwnThread)
struct HostEventTests {
    let database: TestDatabase

    init() throws { database = try TestDatabase(template: template) }

    private let error = TransferError(
        .couldNotConnect, "It was refused.", phase: .connecting, isRetryable: true)

    private func events() throws -> [Event] {
        try EventLog(database.url).events.filter { $0.record.type.isOfHost }
    }

    private func endpoint(
        _ node: TestNode, tenant: String, isOfOperator: Bool, types: [String]?
    ) throws -> WebhookID {
        let now = Timestamp(microseconds: Sys.wallMicroseconds())
        let record = WebhookRecord(
            id: TestNode.identifiers.make(), tenant: tenant, createdAt: now, updatedAt: now,
            endpoint: WebhookEndpoint(url: "https://hooks.example/in", filter: WebhookFilter(types: types)),
            publicKey: "whpk_x", sealedKeys: TestNode.webhookKeys.encode())
        let new = NewWebhook(record: record, idempotency: nil, isOfOperator: isOfOperator)
        _ = try wait { node.store.webhooks.createWebhook(new, reply: $0) }.get()
        return record.id
    }

    private func deliveries(of webhook: WebhookID, tenant: String, _ node: TestNode) throws -> [String] {
        try wait {
            node.store.webhooks.deliveries(
                of: webhook, tenant: tenant, state: nil, type: nil, before: nil, limit: 9, reply: $0)
        }.get().records.map(\.type).reversed()
    }

    @Test("each tenant with jobs at a host, and operators, are told once of its outage and of its return")
    func outage() throws {
        let prober = ScriptedProber()
        let node = try TestNode(database.url, slots: 8, prober: prober)
        defer { node.store.stop() }
        let other = try TestNode(database.url, slots: 0)
        defer { other.store.stop() }
        let types = ["host.unreachable", "host.recovered"]
        let asking = try endpoint(node, tenant: "ops", isOfOperator: true, types: types)
        let all = try endpoint(node, tenant: "ops", isOfOperator: true, types: nil)
        let client = try endpoint(node, tenant: "ops", isOfOperator: false, types: types)
        let own = try endpoint(node, tenant: "acme", isOfOperator: false, types: types)
        _ = try node.submit((0..<3).map { _ in newJob(host: "away.example", attemptCountMax: 1) }).get()
        _ = try node.submit([newJob(tenant: "blue", host: "away.example", attemptCountMax: 1)]).get()
        let failed = AttemptResult.Outcome.failed(error, retryAfter: nil)
        for attempt in try node.attempts(4) { node.end(attempt, failed) }
        try eventually("all are told") {
            for attempt in node.runner.begun.take() { node.end(attempt, failed) }
            return try events().count >= 3
        }
        let first = try #require(prober.asked.wait(milliseconds: 60_000).first)
        first.reply(error)
        let second = try #require(prober.asked.wait(milliseconds: 60_000).first)
        second.reply(nil)
        try eventually("all are told of its return") { try events().count >= 6 }
        for attempt in try node.attempts(4) { node.end(attempt, success) }
        let found = try events()
        #expect(found.count == 6)
        for tenant in ["acme", "blue", "ops"] {
            let own = found.filter { $0.tenant == tenant }
            #expect(own.map(\.record.type) == [.hostUnreachable, .hostRecovered])
            #expect(own.map(\.sequence) == [1, 2] && own.allSatisfy { $0.session.isEmpty })
            #expect(own.allSatisfy { $0.record.isForOperators == (tenant == "ops") })
            let counts = own.compactMap { $0.record.hostChange?.waitingJobCount }
            #expect(counts == Array(repeating: ["acme": 3, "blue": 1][tenant] ?? 0, count: 2))
            #expect(own.allSatisfy { $0.record.hostChange?.host == "https://away.example:443" })
        }
        for (webhook, tenant, expected) in [
            (asking, "ops", types), (all, "ops", []), (client, "ops", []), (own, "acme", types),
        ] {
            #expect(try deliveries(of: webhook, tenant: tenant, node) == expected)
        }
    }
}
