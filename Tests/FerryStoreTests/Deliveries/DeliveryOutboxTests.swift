import FerryCore
import Postgres
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryStore

@Suite("Delivery outbox", .onOwnThread)
struct DeliveryOutboxTests {
    private let database: TestDatabase
    private let node: TestNode

    init() throws {
        database = try TestDatabase(template: template)
        node = try TestNode(database.url)
    }

    private func claim(_ demand: DeliveryDemand) throws -> ClaimedDeliveries {
        let found = Mailbox<ClaimedDeliveries>()
        node.store.deliveries.claim(demand, leaseSeconds: 600) { found.send($0) }
        return try #require(found.wait(milliseconds: 60_000).first)
    }

    @Test(
        "claims that cannot take everything serve the receiver queues in turn",
        arguments: [5, 1_100])
    func turns(queueCount: Int) throws {
        defer { node.store.stop() }
        try addDeliveries(queueCount * 8, receiverCount: queueCount, database.url)
        let total = queueCount / 5 * 2
        var served: Set<ReceiverQueueID> = []
        for _ in 0..<5 {
            let found = try claim(DeliveryDemand(total: total, other: 2)).due
            #expect(found.count == total)
            served.formUnion(found.map(\.receiverQueue))
        }
        #expect(served.count == queueCount)
    }

    @Test("a try of a deleted delivery is not recorded")
    func deleted() throws {
        defer { node.store.stop() }
        try addDeliveries(2, database.url)
        let due = try claim(DeliveryDemand(total: 2, other: 2)).due
        try #require(due.count == 2)
        var connection = try Connection(url: database.url)
        let statement = Statement("delete_one", "DELETE FROM deliveries WHERE id = $1::uuid", parameters: 1)
        var parameters = Parameters()
        parameters.append(due[0].id)
        _ = try connection.execute(statement, parameters)
        try connection.execute(script: countRows("deliveries_pending", -1))
        node.store.deliveries.record(due.map { tried($0, .accepted, status: 204) })
        let kept = Statement("kept", "SELECT delivery FROM delivery_tries")
        try eventually("the other try is recorded") { try connection.execute(kept).rowCount > 0 }
        let rows = try connection.execute(kept)
        #expect(rows.rowCount == 1 && rows.identifier(0, 0) == due[1].id)
    }

    @Test("a try of a delivery that is being deleted waits for the deletion and is not recorded")
    func beingDeleted() throws {
        defer { node.store.stop() }
        try addDeliveries(2, database.url)
        let due = try claim(DeliveryDemand(total: 2, other: 2)).due
        try #require(due.count == 2)
        var other = try Connection(url: database.url)
        try other.execute(
            script: """
                BEGIN; DELETE FROM deliveries WHERE id = '\(due[0].id.uuidText)';
                \(countRows("deliveries_pending", -1))
                """)
        node.store.deliveries.record(due.map { tried($0, .accepted, status: 204) })
        try eventually("it waits") { try isBlocked("deliveries", database.url) }
        try other.execute(script: "COMMIT")
        var connection = try Connection(url: database.url)
        let kept = Statement("kept", "SELECT delivery FROM delivery_tries")
        try eventually("the other try is recorded") { try connection.execute(kept).rowCount > 0 }
        let rows = try connection.execute(kept)
        #expect(rows.rowCount == 1 && rows.identifier(0, 0) == due[1].id)
    }

    @Test("a page of deliveries is complete although rows are deleted while it is read")
    func wholePages() throws {
        defer { node.store.stop() }
        var connection = try Connection(url: database.url)
        let job: JobID = TestNode.identifiers.make()
        try connection.execute(
            script: """
                INSERT INTO deliveries (id, event, job, sequence, occurred_at, next_try_at, type, tenant,
                    session, url, job_json)
                SELECT ('ffffffff-0000-0000-0000-00000000000' || i)::uuid, gen_random_uuid(),
                    '\(job.uuidText)', i, now(), now(), 'job.succeeded', 'acme', 'default',
                    'https://a.example/', '{}'
                FROM generate_series(1, 5) i;
                \(countRows("deliveries_pending", 5))
                """)
        // Statements that read tries wait here.
        try connection.execute(script: "BEGIN; LOCK TABLE delivery_tries")
        let page = Mailbox<Result<ListPage<DeliveryRecord, DeliveryKindTag>, StoreError>>()
        node.store.deliveryQueries.deliveries(of: .job(job), tenant: "acme", limit: 3) { page.send($0) }
        try eventually("the page is being read") {
            try isBlocked("reads", at: "delivery_tries", database.url)
        }
        try connection.execute(
            script: """
                DELETE FROM deliveries WHERE id IN (SELECT id FROM deliveries ORDER BY id DESC LIMIT 2);
                \(countRows("deliveries_pending", -2))
                """)
        try connection.execute(script: "COMMIT")
        let shown = try #require(page.wait(milliseconds: 60_000).first).get().records
        #expect(shown.count == 3 && shown.map(\.id) == shown.map(\.id).sorted(by: >))
    }

    @Test("a claim ends with the delivery that exceeds its weight, and later claims take the rest")
    func weights() throws {
        defer { node.store.stop() }
        try addDeliveries(60, receiverCount: 3, database.url)
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: "UPDATE deliveries SET job_json = repeat('x', 100000) WHERE sequence % 4 = 0")
        let heavy = 1 + 100_000 / Limits.deliveryWeightByteCount
        var claimed: [DeliveryID] = []
        while true {
            let found = try claim(DeliveryDemand(total: 20, other: 100))
            let weight = found.due.reduce(0) { $0 + $1.weight }
            claimed += found.due.map(\.id)
            #expect(weight < 20 + heavy && found.isMore == (weight >= 20))
            if !found.isMore { break }
        }
        #expect(claimed.count == 60 && Set(claimed).count == 60)
    }

    @Test("a claim of an ordered queue takes its first deliveries without a gap up to the weight")
    func orderedWeights() throws {
        defer { node.store.stop() }
        let endpoint = try addEndpoint(isOrdered: true)
        try addDeliveriesInOrder(8, to: endpoint)
        var connection = try Connection(url: database.url)
        try connection.execute(script: "UPDATE deliveries SET job_json = repeat('x', 100000)")
        let found = try claim(DeliveryDemand(total: 20, other: 100))
        #expect(found.due.map(\.sequence) == [1, 2, 3] && found.isMore)
    }

    @Test("a claim reports the revision of an endpoint with claimed deliveries, also after its deletion")
    func revisions() throws {
        defer { node.store.stop() }
        let endpoint = try addEndpoint(isOrdered: false)
        try addDeliveriesInOrder(3, to: endpoint)
        let due = try claim(DeliveryDemand(total: 2, other: 2)).due
        #expect(due.count == 2 && due.allSatisfy { $0.endpoint?.revision == 1 })
        let queue = try #require(due.first).receiverQueue
        let none = DeliveryDemand(total: 1, queues: [queue: 0], other: 0)
        #expect(try claim(none).revisions == [queue: 1])
        _ = try wait {
            node.store.webhooks.deleteWebhook(endpoint, tenant: "acme", revision: nil, reply: $0)
        }.get()
        #expect(try claim(none).revisions == [queue: 2])
        // Claimed deliveries stay until they are returned, so that their sender notices the deletion.
        var connection = try Connection(url: database.url)
        try connection.execute(script: "SET ferry.shard = 'sweep'")
        let left = Statement("left_over", "SELECT count(*) FROM deliveries")
        try sweep(&connection)
        #expect(try connection.execute(left).int64(0, 0) == 2 && claim(none).revisions == [queue: 2])
        node.store.deliveries.record(due.map { tried($0, .returned) })
        try eventually("the returned deliveries are removed") {
            try sweep(&connection)
            return try connection.execute(left).int64(0, 0) == 0
        }
    }

    private func sweep(_ connection: inout Connection) throws {
        var parameters = Parameters()
        parameters.append(DeliveryID(high: 0, low: 0))
        parameters.append(int32: 100)
        _ = try connection.execute(Statements.removeOldDeliveries, parameters)
    }

    private func addEndpoint(isOrdered: Bool) throws -> WebhookID {
        var endpoint = WebhookEndpoint(url: "https://hooks.example/in")
        endpoint.isOrdered = isOrdered
        let now = Timestamp(microseconds: Sys.wallMicroseconds())
        let record = WebhookRecord(
            id: TestNode.identifiers.make(), tenant: "acme", createdAt: now, updatedAt: now,
            endpoint: endpoint, publicKey: "whpk_x", sealedKeys: TestNode.webhookKeys.encode())
        let new = NewWebhook(record: record, idempotency: nil)
        _ = try wait { node.store.webhooks.createWebhook(new, reply: $0) }.get()
        return record.id
    }

    private func addDeliveriesInOrder(_ count: Int, to endpoint: WebhookID) throws {
        var connection = try Connection(url: database.url)
        var parameters = Parameters()
        parameters.append(endpoint)
        parameters.append(int32: Int32(count))
        _ = try connection.execute(
            Statement(
                "add_some",
                """
                INSERT INTO deliveries (id, event, job, sequence, occurred_at, next_try_at, type, tenant,
                    session, url, job_json, endpoint)
                SELECT \(lateDeliveryID), gen_random_uuid(), gen_random_uuid(), i, now(), now(),
                    'job.succeeded', 'acme', 'default', 'https://old.example/', '{}', $1::uuid
                FROM generate_series(1, $2::integer) i
                """, parameters: 2), parameters)
        try connection.execute(script: countRows("deliveries_pending", count))
    }

    @Test("a scan of 12,000 receiver queues ends after several claims, wherever it began")
    func manyQueues() throws {
        defer { node.store.stop() }
        let queueCount = 12_000
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: """
                INSERT INTO deliveries (id, event, job, sequence, occurred_at, next_try_at, type, tenant,
                    session, url, job_json)
                SELECT \(lateDeliveryID), gen_random_uuid(), gen_random_uuid(), i, now(),
                    now() + CASE WHEN i % 3 = 0 THEN '0 s' ELSE '1 hour' END::interval,
                    'job.succeeded', 'acme', 'default', 'https://' || i || '.example/', '{}'
                FROM generate_series(1, \(queueCount)) i;
                \(countRows("deliveries_pending", queueCount))
                """)
        // Not all were taken, so the next claim begins in the middle.
        #expect(try claim(DeliveryDemand(total: 1_000, other: 1)).due.count == 1_000)
        var (count, rounds) = (0, 0)
        while rounds < 10 {
            let found = try claim(DeliveryDemand(total: 2_000, other: 1))
            (count, rounds) = (count + found.due.count, rounds + 1)
            if !found.isMore { break }
        }
        #expect(count == 3_000 && rounds < 10)
        #expect(try claim(DeliveryDemand(total: 2_000, other: 1)).isMore)
        #expect(try !claim(DeliveryDemand(total: 2_000, other: 1)).isMore, "no delivery is due")
    }
}
