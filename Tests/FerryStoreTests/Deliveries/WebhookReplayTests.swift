import FerryCore
import FerryStore
import Sys
import TestSupport
import TestThreads
import Testing

@Suite("Repeated requests about webhook endpoints", .onOwnThread)
struct WebhookReplayTests {
    private let database: TestDatabase
    private let node: TestNode

    init() throws {
        database = try TestDatabase(template: template)
        node = try TestNode(database.url)
    }

    private func create(
        _ endpoint: WebhookEndpoint, _ key: Submission.Idempotency? = nil
    ) throws -> WebhookCreation {
        let now = Timestamp(microseconds: Sys.wallMicroseconds())
        let record = WebhookRecord(
            id: TestNode.identifiers.make(), tenant: "acme", createdAt: now, updatedAt: now,
            endpoint: endpoint, publicKey: "whpk_x", sealedKeys: [1, 2, 3])
        let new = NewWebhook(record: record, idempotency: key)
        return try wait { node.store.webhooks.createWebhook(new, reply: $0) }.get()
    }

    private func edit(
        _ id: WebhookID, _ change: @escaping @Sendable (inout WebhookRecord) -> Void
    ) throws -> WebhookRecord {
        let edited = wait { reply in
            node.store.webhooks.editWebhook(
                id, tenant: "acme", revision: nil,
                { record throws(InvalidFields) in
                    var record = record
                    change(&record)
                    return record
                }, reply: reply)
        }
        return try edited.get().get()
    }

    private func made(with key: Submission.Idempotency) throws -> CreatedWebhook {
        try wait { node.store.webhooks.webhook(createdWith: key, reply: $0) }.get()
    }

    @Test("a repeated creation finds the first endpoint, changed or deleted; another body is refused")
    func idempotency() throws {
        defer { node.store.stop() }
        let endpoint = WebhookEndpoint(url: "https://hooks.example/in")
        guard case .made(let first) = try create(endpoint, key("k")) else {
            Issue.record("it was not made")
            return
        }
        let expected = CreatedWebhook(id: first.id, createdAt: first.createdAt, sealedKeys: [1, 2, 3])
        func expectFirst() throws {
            guard case .known(let known) = try create(endpoint, key("k")) else {
                Issue.record("the key was not kept")
                return
            }
            #expect(known == expected)
            #expect(try made(with: key("k")) == expected)
        }
        try expectFirst()
        _ = try edit(first.id) { $0.sealedKeys = [4, 5, 6] }
        try expectFirst()
        try wait { node.store.webhooks.deleteWebhook(first.id, tenant: "acme", revision: nil, reply: $0) }
            .get()
        try expectFirst()
        #expect(throws: StoreError.idempotencyKeyReused) {
            try create(endpoint, key("k", fingerprint: 2))
        }
        #expect(throws: StoreError.idempotencyKeyReused) { try made(with: key("k", fingerprint: 2)) }
        #expect(throws: StoreError.notFound) { try made(with: key("other")) }
    }

    @Test("another Unicode form of a text is a change, and repeating it is none")
    func form() throws {
        defer { node.store.stop() }
        var endpoint = WebhookEndpoint(url: "https://hooks.example/in")
        endpoint.description = "\u{E9}"
        endpoint.filter.metadata = [.init("a", "\u{E9}")]
        guard case .made(let first) = try create(endpoint) else {
            Issue.record("it was not made")
            return
        }
        let same = try edit(first.id) { $0.endpoint.description = "\u{E9}" }
        #expect(same.revision == 1)
        let described = try edit(first.id) { $0.endpoint.description = "e\u{301}" }
        #expect(described.revision == 2)
        #expect(described.endpoint.description?.unicodeScalars.count == 2)
        let filtered = try edit(first.id) { $0.endpoint.filter.metadata = [.init("a", "e\u{301}")] }
        #expect(filtered.revision == 3)
        #expect(filtered.endpoint.filter.metadata.first?.value.unicodeScalars.count == 2)
        let again = try edit(first.id) { $0.endpoint.isEnabled = true }
        #expect(again.revision == 3)
    }
}
