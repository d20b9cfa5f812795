package import FerryCore
import Postgres
import Synchronization

// Reads and changes of webhook endpoints.
/// Reads, changes and tests webhook endpoints. Any thread.
package final class WebhookCommands: Sendable {
    private let commands: CommandQueue
    private let reads: ReadPool
    private let queries: DeliveryQueries
    private let context: StoreContext
    private let signals: StoreSignals

    init(
        _ commands: CommandQueue, _ reads: ReadPool, queries: DeliveryQueries, _ context: StoreContext,
        _ signals: StoreSignals
    ) {
        self.commands = commands
        self.reads = reads
        self.queries = queries
        self.context = context
        self.signals = signals
    }

    /// Maximum number of deliveries that one statement of a replay makes due.
    private static let replayBatchMax: Int32 = 2_000

    /// Creates an endpoint, or finds the one that the first request with the same key created. Replies
    /// `limitReached` if the tenant has `Limits.webhookCountMax` endpoints.
    package func createWebhook(_ new: NewWebhook, reply: @escaping Reply<WebhookCreation>) {
        let (context, signals) = (context, signals)
        commands.perform("create_webhook", reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<WebhookCreation, StoreError> in
            let rows = try connection.execute(
                Statements.createWebhook, .new(new, node: context.configuration.node))
            signals.events.hasEndpoints.store(true, ordering: .relaxed)
            if rows.bool(0, 0) { return .success(.made(new.record)) }
            guard let key = new.idempotency else { return .success(.limitReached) }
            switch try Self.made(with: key, &connection) {
            case .failure(.notFound): return .success(.limitReached)
            case .failure(let error): return .failure(error)
            case .success(let made): return .success(.known(made))
            }
        }
    }

    /// Reads what the first request with this key created, also if it was changed or deleted since. Fails
    /// with `notFound` if there was none.
    package func webhook(createdWith key: Submission.Idempotency, reply: @escaping Reply<CreatedWebhook>) {
        reads.read("keyed_webhook", of: .tenant(key.tenant), reply) { connection throws(PostgresError) in
            try Self.made(with: key, &connection)
        }
    }

    /// Reads an endpoint. Fails with `notFound` for another tenant's endpoint.
    package func webhook(_ id: WebhookID, tenant: String, reply: @escaping Reply<WebhookRecord>) {
        reads.read("webhook", of: .tenant(tenant), reply) { connection throws(PostgresError) in
            try Self.webhook(id, tenant, &connection)
        }
    }

    /// Reads a page of a tenant's endpoints, newest first.
    package func webhooks(
        tenant: String, before: WebhookID?, limit: Int, reply: @escaping Reply<[WebhookRecord]>
    ) {
        reads.read("webhooks", of: .tenant(tenant), reply) { connection throws(PostgresError) in
            var parameters = Parameters()
            parameters.append(text: tenant)
            parameters.append(before ?? .last)
            parameters.append(int32: Int32(clamping: limit))
            let rows = try connection.execute(Statements.listWebhooks, parameters)
            return .success((0..<rows.rowCount).map { WebhookRecord(rows, $0) })
        }
    }

    /// Changes an endpoint. `change` may be called more than once. Fails with `stale` if the revision
    /// differs.
    package func editWebhook(
        _ id: WebhookID, tenant: String, revision: Int32?,
        _ change: @escaping @Sendable (WebhookRecord) throws(InvalidFields) -> WebhookRecord,
        reply: @escaping Reply<Result<WebhookRecord, InvalidFields>>
    ) {
        let signals = signals
        commands.perform("edit_webhook", reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<
                Result<WebhookRecord, InvalidFields>, StoreError
            > in
            // An iteration fails only if another transaction has changed the endpoint meanwhile.
            for _ in 0..<10 {
                let before: WebhookRecord
                switch try Self.webhook(id, tenant, &connection) {
                case .failure(let error): return .failure(error)
                case .success(let record): before = record
                }
                let finding = ChangeCheck { () throws(InvalidFields) in try change(before) }
                    .matching(revision, of: before.revision)
                let after: WebhookRecord
                switch finding {
                case .invalid(let fields): return .success(.failure(fields))
                case .refused(let error): return .failure(error)
                case .allowed(let record): after = record
                }
                if after.isIdentical(to: before) { return .success(.success(before)) }
                let rows = try connection.execute(Statements.editWebhook, .edited(after))
                guard rows.rowCount == 1 else { continue }
                // The sender looks again: deliveries of an enabled endpoint may be due, and those claimed for
                // an older revision have to be returned.
                signals.commitObserver?.deliveriesAdded(0)
                return .success(.success(WebhookRecord(rows, 0)))
            }
            return .failure(.unavailable)
        }
    }

    /// Deletes an endpoint. Its pending deliveries are never sent, and are removed later.
    package func deleteWebhook(
        _ id: WebhookID, tenant: String, revision: Int32?, reply: @escaping Reply<Void>
    ) {
        let signals = signals
        commands.perform("delete_webhook", reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<Void, StoreError> in
            for _ in 0..<10 {
                switch try Self.webhook(id, tenant, &connection) {
                case .failure(let error): return .failure(error)
                case .success(let record):
                    let finding = ChangeCheck.allowed(record).matching(revision, of: record.revision)
                    if case .refused(let error) = finding { return .failure(error) }
                    var parameters = Parameters()
                    parameters.append(id)
                    parameters.append(int32: record.revision)
                    let gone = try connection.execute(Statements.deleteWebhook, parameters)
                    guard gone.affectedRowCount == 1 else { continue }
                    // The sender looks again and returns the deliveries that it has claimed.
                    signals.commitObserver?.deliveriesAdded(0)
                    return .success(())
                }
            }
            return .failure(.unavailable)
        }
    }

    /// Reads a page of the deliveries of an endpoint, newest first. Fails with `notFound` for another
    /// tenant's endpoint.
    package func deliveries(
        of webhook: WebhookID, tenant: String, state: DeliveryRecord.State?, type: String?,
        before: DeliveryID?, limit: Int, reply: @escaping Reply<ListPage<DeliveryRecord, DeliveryKindTag>>
    ) {
        self.webhook(webhook, tenant: tenant) { [self] found in
            if case .failure(let error) = found { return reply(.failure(error)) }
            queries.deliveries(
                of: .webhook(webhook), tenant: tenant, state: state, type: type, before: before, limit: limit,
                reply: reply)
        }
    }

    /// Adds a `webhook.ping` delivery, which is due at once and tried once.
    package func pingWebhook(
        _ id: WebhookID, tenant: String, traceparent: String?, reply: @escaping Reply<DeliveryID>
    ) {
        let (context, signals) = (context, signals)
        commands.perform("ping_webhook", reply) { connection throws(PostgresError) in
            let (delivery, event): (DeliveryID, EventID) = (
                context.identifiers.make(), context.identifiers.make()
            )
            var parameters = Parameters()
            parameters.append(id)
            parameters.append(text: tenant)
            parameters.append(delivery)
            parameters.append(event)
            parameters.append(context.clock.now())
            parameters.append(text: traceparent)
            guard try connection.execute(Statements.pingWebhook, parameters).rowCount == 1 else {
                return .failure(.notFound)
            }
            signals.commitObserver?.deliveriesAdded(1)
            return .success(delivery)
        }
    }

    /// Makes deliveries due again that are not pending, in steps, between which other commands run. `since`
    /// and `until` limit the times of their events. Replies with the number of deliveries.
    package func replay(
        _ id: WebhookID, tenant: String, since: Timestamp, until: Timestamp?, onlyFailed: Bool,
        reply: @escaping Reply<Int64>
    ) {
        webhook(id, tenant: tenant) { [self] result in
            if case .failure(let error) = result { return reply(.failure(error)) }
            // Ids are ordered by time; those of a node whose clock is behind may be up to a minute older.
            let milliseconds = max(0, since.microseconds / 1_000 - 60_000)
            let first = DeliveryID(high: UInt64(milliseconds) << 16, low: 0)
            replayNext(
                Replay(endpoint: id, since: since, until: until, onlyFailed: onlyFailed), after: first,
                count: 0, reply)
        }
    }

    private struct Replay: Sendable {
        let endpoint: WebhookID
        let since: Timestamp
        let until: Timestamp?
        let onlyFailed: Bool
    }

    private func replayNext(
        _ replay: Replay, after: DeliveryID, count: Int64, _ reply: @escaping Reply<Int64>
    ) {
        let step: Reply<[DeliveryID]> = { [self] result in
            switch result {
            case .failure(let error): reply(.failure(error))
            case .success(let ids):
                if !ids.isEmpty { signals.commitObserver?.deliveriesAdded(ids.count) }
                let total = count + Int64(ids.count)
                guard let last = ids.last, ids.count == Int(Self.replayBatchMax) else {
                    return reply(.success(total))
                }
                replayNext(replay, after: last, count: total, reply)
            }
        }
        commands.perform("replay_deliveries", step) { connection throws(PostgresError) in
            var parameters = Parameters()
            parameters.append(replay.endpoint)
            parameters.append(after)
            parameters.append(replay.since)
            parameters.append(replay.until)
            parameters.append(bool: replay.onlyFailed)
            parameters.append(int32: Self.replayBatchMax)
            return .success(try connection.execute(Statements.replayDeliveries, parameters).identifiers())
        }
    }

    private static func made(
        with key: Submission.Idempotency, _ connection: inout Connection
    ) throws(PostgresError) -> Result<CreatedWebhook, StoreError> {
        var parameters = Parameters()
        for text in [key.tenant, key.key] { parameters.append(text: text) }
        let rows = try connection.execute(Statements.readFirstWebhook, parameters)
        guard rows.rowCount == 1 else { return .failure(.notFound) }
        guard rows.bytes(0, 0) == key.fingerprint else { return .failure(.idempotencyKeyReused) }
        // Versions before this one did not store the keys.
        guard let sealedKeys = rows.bytesOrNil(0, 3) else { return .failure(.failed) }
        return .success(
            CreatedWebhook(
                id: rows.identifier(0, 1), createdAt: rows.instant(0, 2), sealedKeys: sealedKeys))
    }

    private static func webhook(
        _ id: WebhookID, _ tenant: String, _ connection: inout Connection
    ) throws(PostgresError) -> Result<WebhookRecord, StoreError> {
        var parameters = Parameters()
        parameters.append(id)
        parameters.append(text: tenant)
        let rows = try connection.execute(Statements.readWebhook, parameters)
        return rows.rowCount == 1 ? .success(WebhookRecord(rows, 0)) : .failure(.notFound)
    }
}
