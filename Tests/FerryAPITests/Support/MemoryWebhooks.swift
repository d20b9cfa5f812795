import FerryAPI
import FerryCore
import Synchronization

// The port for webhook endpoints in memory.
extension MemoryStore: WebhookStore {
    func createWebhook(_ new: NewWebhook, reply: @escaping Reply<WebhookCreation>) {
        reply(
            state.withLock { state -> Result<WebhookCreation, StoreError> in
                if let failure = state.failure { return .failure(failure) }
                if let key = new.idempotency {
                    if let first = state.webhookKeys[key.key] {
                        guard first.fingerprint == key.fingerprint else {
                            return .failure(.idempotencyKeyReused)
                        }
                        return .success(.known(first.made))
                    }
                    let made = CreatedWebhook(
                        id: new.record.id, createdAt: new.record.createdAt, sealedKeys: new.record.sealedKeys)
                    state.webhookKeys[key.key] = (key.fingerprint, made)
                }
                guard state.webhooks.count < Limits.webhookCountMax else { return .success(.limitReached) }
                state.webhooks.append(new.record)
                if new.isOfOperator { state.operatorWebhooks.insert(new.record.id) }
                return .success(.made(new.record))
            })
    }

    func webhook(createdWith key: Submission.Idempotency, reply: @escaping Reply<CreatedWebhook>) {
        guard let first = state.withLock({ $0.webhookKeys[key.key] }) else {
            return reply(.failure(.notFound))
        }
        reply(first.fingerprint == key.fingerprint ? .success(first.made) : .failure(.idempotencyKeyReused))
    }

    func webhook(_ id: WebhookID, tenant: String, reply: @escaping Reply<WebhookRecord>) {
        let found = state.withLock { $0.webhooks.first { $0.id == id && $0.tenant == tenant } }
        reply(found.map { .success($0) } ?? .failure(.notFound))
    }

    func webhooks(
        tenant: String, before: WebhookID?, limit: Int, reply: @escaping Reply<[WebhookRecord]>
    ) {
        let all = state.withLock { $0.webhooks }.filter { record in
            record.tenant == tenant && before.map { record.id < $0 } ?? true
        }
        reply(.success(Array(all.sorted { $0.id > $1.id }.prefix(limit))))
    }

    func editWebhook(
        _ id: WebhookID, tenant: String, revision: Int32?,
        _ change: @escaping @Sendable (WebhookRecord) throws(InvalidFields) -> WebhookRecord,
        reply: @escaping Reply<Result<WebhookRecord, InvalidFields>>
    ) {
        reply(
            checked(id, tenant, nil).flatMap { before in
                let finding = ChangeCheck { () throws(InvalidFields) in try change(before) }
                switch finding.matching(revision, of: before.revision) {
                case .invalid(let fields): return .success(.failure(fields))
                case .refused(let error): return .failure(error)
                case .allowed(var record):
                    record.revision += 1
                    record.disabledReason = record.endpoint.isEnabled ? nil : .requested
                    replace(record)
                    return .success(.success(record))
                }
            })
    }

    func deleteWebhook(_ id: WebhookID, tenant: String, revision: Int32?, reply: @escaping Reply<Void>) {
        reply(
            checked(id, tenant, revision).map { record in
                state.withLock { $0.webhooks.removeAll { $0.id == record.id } }
            })
    }

    func pingWebhook(
        _ id: WebhookID, tenant: String, traceparent: String?, reply: @escaping Reply<DeliveryID>
    ) {
        reply(
            checked(id, tenant, nil).map { record in
                let ping = DeliveryID(high: 9, low: id.low)
                let response = DeliveryRecord.Try(
                    number: 1, startedAt: record.createdAt, duration: 0.01, status: 204, error: nil,
                    responseExcerpt: "")
                state.withLock { state in
                    state.deliveries.append(
                        DeliveryRecord(
                            id: ping, event: EventID(high: 9, low: 1), type: WebhookPing.type,
                            tenant: tenant, session: "", job: nil, webhook: id, sequence: 0,
                            occurredAt: record.createdAt, url: record.endpoint.url, state: .accepted,
                            nextTryAt: nil, tries: [response]))
                }
                return ping
            })
    }

    func replay(
        _ id: WebhookID, tenant: String, since: Timestamp, until: Timestamp?, onlyFailed: Bool,
        reply: @escaping Reply<Int64>
    ) {
        reply(
            checked(id, tenant, nil).map { _ in
                state.withLock { $0.replays.append((since, until, onlyFailed)) }
                return 7
            })
    }

    func deliveries(
        of webhook: WebhookID, tenant: String, state wanted: DeliveryRecord.State?, type: String?,
        before: DeliveryID?, limit: Int, reply: @escaping Reply<ListPage<DeliveryRecord, DeliveryKindTag>>
    ) {
        reply(
            checked(webhook, tenant, nil).map { _ in
                let all = state.withLock { $0.deliveries }.filter { delivery in
                    delivery.webhook == webhook && wanted.map { delivery.state == $0 } ?? true
                        && type.map { delivery.type == $0 } ?? true && before.map { delivery.id < $0 } ?? true
                }
                return ListPage(Array(all.sorted { $0.id > $1.id }.prefix(limit)))
            })
    }

    private func checked(
        _ id: WebhookID, _ tenant: String, _ revision: Int32?
    ) -> Result<WebhookRecord, StoreError> {
        state.withLock { state in
            guard let record = state.webhooks.first(where: { $0.id == id && $0.tenant == tenant }) else {
                return .failure(.notFound)
            }
            if let revision, revision != record.revision {
                return .failure(.stale(revision: record.revision))
            }
            return .success(record)
        }
    }

    private func replace(_ record: WebhookRecord) {
        state.withLock { state in
            for index in state.webhooks.indices where state.webhooks[index].id == record.id {
                state.webhooks[index] = record
            }
        }
    }
}

extension MemoryStore {
    /// Returns the header fields of the endpoint at a path of the API, with their values.
    func headers(of path: String) -> [JobSpec.Pair] {
        let records = state.withLock { $0.webhooks }
        let record = records.first { path.hasSuffix($0.id.description) }
        let seal = SecretSeal(seal: { $0 }, open: { Array($0.dropFirst().reversed()) })
        return record?.sealedHeaders.flatMap { WebhookHeaders.opened($0, seal) } ?? []
    }
}
