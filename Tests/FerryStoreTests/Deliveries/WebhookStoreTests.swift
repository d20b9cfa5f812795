import FerryCore
import FerryStore
import Postgres
import Sys
import TestSupport
import TestThreads
import Testing

@Suite("Webhook endpoints in the store", .onOwnThread)
struct WebhookStoreTests {
    private let database: TestDatabase
    private let node: TestNode

    init() throws {
        database = try TestDatabase(template: template)
        node = try TestNode(database.url)
    }

    private static let tls = WebhookTLS(authorities: "authorities", pins: ["sha256//pin"])

    private func record(_ change: (inout WebhookEndpoint) -> Void = { _ in }) -> WebhookRecord {
        var endpoint = WebhookEndpoint(url: "https://hooks.example/in")
        change(&endpoint)
        let now = Timestamp(microseconds: Sys.wallMicroseconds())
        let values = endpoint.headers.enumerated().map { JobSpec.Pair($1.name, "value \($0)") }
        let tls = endpoint.takeTLS()
        return WebhookRecord(
            id: TestNode.identifiers.make(), tenant: "acme", createdAt: now, updatedAt: now,
            endpoint: endpoint, publicKey: "whpk_x", sealedKeys: TestNode.webhookKeys.encode(),
            sealedHeaders: WebhookHeaders.stored(values, .inverted), sealedTLS: tls?.stored(.inverted))
    }

    private func create(_ change: (inout WebhookEndpoint) -> Void = { _ in }) throws -> WebhookRecord {
        let new = NewWebhook(record: record(change), idempotency: nil)
        guard case .made(let made) = try wait({ node.store.webhooks.createWebhook(new, reply: $0) }).get()
        else {
            throw StoreError.failed
        }
        return made
    }

    private func read(_ id: WebhookID) -> Result<WebhookRecord, StoreError> {
        wait { node.store.webhooks.webhook(id, tenant: "acme", reply: $0) }
    }

    /// Adds `count` deliveries to an endpoint like the relay, due now. No id is older than its event.
    private func add(_ count: Int, to webhook: WebhookRecord, type: String = "job.succeeded") throws {
        var connection = try Connection(url: database.url)
        try connection.execute(
            script: """
                INSERT INTO deliveries (id, event, job, sequence, occurred_at, next_try_at, type, tenant,
                    session, url, job_json, endpoint)
                SELECT overlay(gen_random_uuid()::text PLACING 'ff' FROM 1)::uuid, gen_random_uuid(),
                    gen_random_uuid(), i, now(), now(), '\(type)',
                    'acme', 'default', 'https://old.example/', '{}', '\(uuid(webhook.id))'
                FROM generate_series(1, \(count)) i
                """)
        // The relay counts deliveries when it creates them.
        try connection.execute(script: countRows("deliveries_pending", count))
    }

    private func uuid<Kind>(_ id: Identifier<Kind>) -> String {
        let text = hexEncoded(
            (0..<16).map { index in
                UInt8(truncatingIfNeeded: (index < 8 ? id.high : id.low) >> UInt64(56 - 8 * (index % 8)))
            })
        return text
    }

    private func claim(_ demand: DeliveryDemand = DeliveryDemand(total: 100, other: 100)) throws
        -> ClaimedDeliveries
    {
        let found = Mailbox<ClaimedDeliveries>()
        node.store.deliveries.claim(demand, leaseSeconds: 600) { found.send($0) }
        return try #require(found.wait(milliseconds: 60_000).first)
    }

    @Test("every field of an endpoint is stored, and a change checks the revision")
    func life() throws {
        defer { node.store.stop() }
        let made = try create { endpoint in
            endpoint.filter = WebhookFilter(
                types: ["job.failed"], session: "s", metadata: [.init("a", "1"), .init("ö", "\"")])
            endpoint.description = "d"
            endpoint.isOrdered = true
            endpoint.format = .cloudevents
            endpoint.headers = [.init("X-Note", ""), .init("x-note", "")]
            endpoint.payload = .thin
            endpoint.tls = Self.tls
            endpoint.retryDelays = [1, 2.5]
            endpoint.disableAfter = 7200
        }
        #expect(try read(made.id).get() == made)
        #expect(read(TestNode.identifiers.make()) == .failure(.notFound))
        let other = wait { node.store.webhooks.webhook(made.id, tenant: "x", reply: $0) }
        #expect(other == .failure(.notFound))
        let edit = { (revision: Int32?) in
            wait { reply in
                node.store.webhooks.editWebhook(
                    made.id, tenant: "acme", revision: revision,
                    { record throws(InvalidFields) in
                        var record = record
                        record.endpoint.isEnabled = false
                        record.endpoint.filter = WebhookFilter()
                        record.endpoint.tls = nil
                        record.sealedTLS = nil
                        return record
                    }, reply: reply)
            }
        }
        guard case .failure(.stale(revision: 1)) = edit(2) else {
            Issue.record("a change with a stale revision was accepted")
            return
        }
        let edited = try edit(1).get().get()
        #expect(edited.revision == 2 && !edited.endpoint.isEnabled && edited.disabledReason == .requested)
        #expect(edited.disabledAt != nil && edited.endpoint.filter == WebhookFilter())
        #expect(made.endpoint.tls?.pins == ["sha256//pin"] && edited.endpoint.tls == nil)
        #expect(try read(made.id).get() == edited)
        let second = try create()
        let page = try wait {
            node.store.webhooks.webhooks(tenant: "acme", before: nil, limit: 1, reply: $0)
        }.get()
        #expect(page == [second])
        let rest = try wait {
            node.store.webhooks.webhooks(tenant: "acme", before: second.id, limit: 5, reply: $0)
        }.get()
        #expect(rest == [edited])
    }

    @Test(
        "deliveries are claimed with their endpoint's URL, keys and format, up to the demand")
    func claims() throws {
        defer { node.store.stop() }
        let a = try create { endpoint in
            endpoint.format = .cloudevents
            endpoint.headers = [.init("X-Note", "")]
            endpoint.payload = .thin
            endpoint.tls = Self.tls
        }
        let b = try create()
        try add(10, to: a)
        try add(10, to: b)
        let queue = ReceiverQueueID(high: b.id.high, low: b.id.low)
        let found = try claim(DeliveryDemand(total: 100, queues: [queue: 0], other: 3))
        #expect(found.due.count == 3 && found.revisions == [queue: 1])
        for delivery in found.due {
            #expect(delivery.endpoint?.id == a.id && delivery.endpoint?.format == .cloudevents)
            #expect(delivery.url == "https://hooks.example/in")
            #expect(delivery.endpoint?.headers == [.init("X-Note", "value 0")])
            #expect(delivery.endpoint?.payload == .thin && delivery.receiverTLS == Self.tls)
            #expect(delivery.endpoint?.keys == TestNode.webhookKeys && delivery.tryNumber == 1)
        }
        #expect(try claim(DeliveryDemand(total: 4, other: 100)).isMore)
        let others = try claim().due
        #expect(others.count == 13)
        #expect(others.last?.endpoint?.headers.isEmpty == true && others.last?.endpoint?.payload == .full)
        #expect(others.last?.endpoint != nil && others.last?.receiverTLS == nil)
        #expect(try claim().due.isEmpty)
        // A returned delivery is due at once, and its try does not count.
        node.store.deliveries.record(found.due.map { tried($0, .returned) })
        let again = try claim()
        #expect(Set(again.due.map(\.id)) == Set(found.due.map(\.id)))
        #expect(again.due.allSatisfy { $0.tryNumber == 1 })
    }

    @Test("no delivery of a full tenant is claimed, and the claim reports that some are held back")
    func fullTenants() throws {
        defer { node.store.stop() }
        try add(3, to: try create())
        var demand = DeliveryDemand(total: 10, other: 10)
        demand.fullTenants = ["acme"]
        let held = try claim(demand)
        #expect(held.due.isEmpty && held.isHeldBack && !held.isMore)
        demand.fullTenants = ["other"]
        let found = try claim(demand)
        #expect(found.due.count == 3 && !found.isHeldBack)
    }

    @Test("no delivery of an ordered endpoint is claimed while an earlier one is leased or waits")
    func ordered() throws {
        defer { node.store.stop() }
        let webhook = try create { $0.isOrdered = true }
        try add(6, to: webhook)
        let first = try claim(DeliveryDemand(total: 100, other: 2)).due
        #expect(first.map(\.sequence) == [1, 2] && first.allSatisfy(\.isOrdered))
        #expect(try claim().due.isEmpty)
        let later = Timestamp(microseconds: Sys.wallMicroseconds()) + 60
        node.store.deliveries.record([tried(first[0], .retry(at: later)), tried(first[1], .returned)])
        let waiting = try claim()
        #expect(waiting.due.isEmpty && waiting.next == later)
        _ = try wait { node.store.deliveryQueries.redeliver(first[0].id, tenant: "acme", reply: $0) }.get()
        let second = try claim(DeliveryDemand(total: 100, other: 3)).due
        #expect(second.map(\.sequence) == [1, 2, 3])
        node.store.deliveries.record(second.map { tried($0, .accepted, status: 204) })
        #expect(try claim().due.map(\.sequence) == [4, 5, 6])
    }

    @Test("no delivery of an ordered endpoint is claimed behind one that is being claimed")
    func orderedAtOnce() throws {
        defer { node.store.stop() }
        try add(4, to: try create { $0.isOrdered = true })
        var other = try Connection(url: database.url)
        try other.execute(
            script: """
                BEGIN;
                UPDATE deliveries SET tries = 1, next_try_at = now() + interval '600 s' WHERE sequence <= 2
                """)
        let answers = Mailbox<ClaimedDeliveries>()
        node.store.deliveries.claim(DeliveryDemand(total: 100, other: 100), leaseSeconds: 600) {
            answers.send($0)
        }
        var found: [ClaimedDeliveries] = []
        try eventually("the claim has its result, or waits for the lock") {
            found += answers.take()
            return try !found.isEmpty || isBlocked("deliveries", database.url)
        }
        try other.execute(script: "COMMIT")
        if found.isEmpty { found = answers.wait(milliseconds: 60_000) }
        #expect(found.map { $0.due.map(\.sequence) } == [[]])
    }

    @Test("status 410 or long failure disables an endpoint, and enabling it delivers what waited")
    func disabling() throws {
        defer { node.store.stop() }
        let webhook = try create { $0.disableAfter = 3600 }
        try add(3, to: webhook)
        let first = try claim().due
        node.store.deliveries.record([tried(first[0], .givenUp, status: 410)])
        try eventually("it is disabled") { try read(webhook.id).get().disabledReason == .gone }
        node.store.deliveries.record(first[1...].map { tried($0, .returned) })
        #expect(try claim().due.isEmpty)
        try enable(webhook.id)
        #expect(try read(webhook.id).get().failingSince == nil)
        let second = try claim().due
        #expect(second.count == 2)
        let now = Timestamp(microseconds: Sys.wallMicroseconds())
        node.store.deliveries.record([tried(second[0], .retry(at: now))])
        try eventually("it is failing") { try read(webhook.id).get().failingSince != nil }
        #expect(try read(webhook.id).get().endpoint.isEnabled)
        var connection = try Connection(url: database.url)
        try connection.execute(script: "UPDATE webhooks SET failing_since = now() - interval '3601 s'")
        node.store.deliveries.record([tried(second[1], .retry(at: now))])
        try eventually("it is disabled") { try read(webhook.id).get().disabledReason == .failing }
        try enable(webhook.id)
        let third = try claim().due
        #expect(third.count == 2)
        node.store.deliveries.record([tried(third[0], .retry(at: now))])
        try eventually("it is failing") { try read(webhook.id).get().failingSince != nil }
        node.store.deliveries.record([tried(third[1], .accepted, status: 200)])
        try eventually("it works") { try read(webhook.id).get().failingSince == nil }
    }

    @Test("other endpoints get one webhook.disabled event with its reason, the disabled one none")
    func disabledEvent() throws {
        defer { node.store.stop() }
        let webhook = try create { $0.filter = WebhookFilter(types: nil, session: "s", metadata: []) }
        let other = try create { $0.filter = WebhookFilter(types: ["webhook.disabled"]) }
        try add(2, to: webhook)
        let due = try claim().due
        node.store.deliveries.record(due.map { tried($0, .givenUp, status: 410) })
        var told: [Delivery] = []
        try eventually("the other endpoint has a delivery") {
            told += try claim().due
            return !told.isEmpty
        }
        #expect(told.count == 1 && told[0].type == "webhook.disabled" && told[0].endpoint?.id == other.id)
        #expect(told[0].session == "s" && told[0].job == nil && told[0].sequence == 1)
        let shown = try JSON.parse(told[0].jobJSON)
        #expect(shown["id"]?.string == webhook.id.description)
        #expect(shown["disabled_reason"]?["code"]?.string == "gone")
        let list = try wait { node.store.events.events(EventQuery(tenant: "acme"), reply: $0) }.get().records
        #expect(list.map(\.event.record.type) == [.webhookDisabled])
        let expected = DisabledWebhook(id: webhook.id, reason: .gone)
        #expect(list.first?.event.record.disabledWebhook == expected)
        try enable(webhook.id)
        #expect(try claim().due.isEmpty)
    }

    @Test("deliveries that wait for a disabled endpoint do not delay a session's final event")
    func drainedDespite() throws {
        defer { node.store.stop() }
        let webhook = try create()
        _ = try node.submit(newJob(session: "drained"))
        node.end(try node.attempt(), success)
        try node.waitForDeliveries(3)
        func isOver() throws -> Bool {
            var query = EventQuery(tenant: "acme")
            query.types = [EventType.sessionEventsFinished].mask
            return try !wait { node.store.events.events(query, reply: $0) }.get().records.isEmpty
        }
        #expect(try !isOver())
        try enable(webhook.id, false)
        try eventually("the session's events are over") { try isOver() }
        #expect(try node.status().deliveriesPending == 3)
    }

    private func enable(_ id: WebhookID, _ isEnabled: Bool = true) throws {
        let edited = wait { reply in
            node.store.webhooks.editWebhook(
                id, tenant: "acme", revision: nil,
                { record throws(InvalidFields) in
                    var record = record
                    record.endpoint.isEnabled = isEnabled
                    return record
                }, reply: reply)
        }
        #expect(try edited.get().get().disabledReason == (isEnabled ? nil : .requested))
    }

    @Test("testing a disabled endpoint sends the ping and leaves it disabled")
    func ping() throws {
        defer { node.store.stop() }
        let webhook = try create {
            $0.isEnabled = false
            $0.isOrdered = true
        }
        try add(1, to: webhook)
        let id = try wait {
            node.store.webhooks.pingWebhook(webhook.id, tenant: "acme", traceparent: nil, reply: $0)
        }.get()
        let due = try claim().due
        try #require(due.map(\.id) == [id])
        #expect(due[0].isPing && !due[0].isOrdered)
        node.store.deliveries.record([tried(due[0], .givenUp, status: 410)])
        try eventually("it is over") { try node.status().deliveriesPending == 1 }
        #expect(try read(webhook.id).get().disabledReason == .requested)
        let shown = try wait {
            node.store.deliveryQueries.deliveries(
                of: .webhook(webhook.id), tenant: "acme", type: WebhookPing.type, limit: 5, reply: $0)
        }.get().records
        #expect(shown.map(\.id) == [id] && shown.first?.job == nil && shown.first?.tries.count == 1)
    }

    @Test("a replay makes given up deliveries due, or all that are not pending")
    func replay() throws {
        defer { node.store.stop() }
        let webhook = try create()
        try add(6, to: webhook)
        let due = try claim().due
        node.store.deliveries.record(
            due[..<2].map { tried($0, .givenUp) } + due[2..<4].map { tried($0, .accepted, status: 200) })
        try eventually("they are over") { try node.status().deliveriesPending == 2 }
        func replay(_ seconds: Double, until: Double? = nil, onlyFailed: Bool) throws -> Int64 {
            let now = Timestamp(microseconds: Sys.wallMicroseconds())
            return try wait {
                node.store.webhooks.replay(
                    webhook.id, tenant: "acme", since: now + seconds, until: until.map { now + $0 },
                    onlyFailed: onlyFailed, reply: $0)
            }.get()
        }
        #expect(try replay(10, onlyFailed: false) == 0)
        #expect(try replay(-600, until: -300, onlyFailed: false) == 0)
        #expect(try replay(-600, onlyFailed: true) == 2)
        #expect(Set(try claim().due.map(\.id)) == Set(due[..<2].map(\.id)))
        #expect(try replay(-600, onlyFailed: false) == 2)
        #expect(try node.status().deliveriesPending == 6)
    }

    @Test("a deleted endpoint gets no delivery, and is removed with its pending ones")
    func deletion() throws {
        defer { node.store.stop() }
        let webhook = try create()
        try add(5, to: webhook)
        try wait { node.store.webhooks.deleteWebhook(webhook.id, tenant: "acme", revision: 1, reply: $0) }
            .get()
        #expect(read(webhook.id) == .failure(.notFound))
        #expect(try claim().due.isEmpty)
        var connection = try Connection(url: database.url)
        let sweep = Statements.removeOldDeliveries
        try connection.execute(script: "SET ferry.shard = 'sweep'")
        var counts: [Int64] = []
        for _ in 0..<3 {
            var parameters = Parameters()
            parameters.append(uuid: 0, 0)
            parameters.append(int32: 3)
            counts.append(try connection.execute(sweep, parameters).int64(0, 0))
        }
        #expect(counts == [3, 2, 0])
        #expect(try node.status().deliveriesPending == 0)
        // The row stays for a while, since a pass of the relay may have read it.
        let left = Statement("left", "SELECT count(*) FROM webhooks")
        #expect(try connection.execute(left).int64(0, 0) == 1)
        try connection.execute(script: "UPDATE webhooks SET deleted_at = deleted_at - interval '11 minutes'")
        var parameters = Parameters()
        parameters.append(uuid: 0, 0)
        parameters.append(int32: 3)
        _ = try connection.execute(sweep, parameters)
        #expect(try connection.execute(left).int64(0, 0) == 0)
    }
}
