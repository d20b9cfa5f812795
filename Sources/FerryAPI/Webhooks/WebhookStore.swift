package import FerryCore

/// Where webhook endpoints are kept. An endpoint of another tenant is `notFound`. Every reply is called
/// exactly once, on a thread that must not block.
package protocol WebhookStore: Sendable {
    func createWebhook(_ new: NewWebhook, reply: @escaping Reply<WebhookCreation>)
    /// What was made with this key, also when it was changed or deleted since; `notFound`: nothing was. Of
    /// another request the key is `idempotencyKeyReused`.
    func webhook(createdWith key: Submission.Idempotency, reply: @escaping Reply<MadeWebhook>)
    func webhook(_ id: WebhookID, tenant: String, reply: @escaping Reply<WebhookRecord>)
    /// Newest first, only those before `before`.
    func webhooks(
        tenant: String, before: WebhookID?, limit: Int, reply: @escaping Reply<[WebhookRecord]>)
    /// `change` may be asked more than once; what it throws is the inner failure. `revision`: what `If-Match`
    /// names.
    func editWebhook(
        _ id: WebhookID, tenant: String, revision: Int32?,
        _ change: @escaping @Sendable (WebhookRecord) throws(InvalidFields) -> WebhookRecord,
        reply: @escaping Reply<Result<WebhookRecord, InvalidFields>>)
    func deleteWebhook(_ id: WebhookID, tenant: String, revision: Int32?, reply: @escaping Reply<Void>)
    /// Adds a delivery that is tried once, at once.
    func pingWebhook(
        _ id: WebhookID, tenant: String, traceparent: String?, reply: @escaping Reply<DeliveryID>)
    /// Makes deliveries due again that are not pending; replies how many.
    func replay(
        _ id: WebhookID, tenant: String, since: Timestamp, until: Timestamp?, onlyFailed: Bool,
        reply: @escaping Reply<Int64>)
    /// Newest first; an endpoint that is not the tenant's is `notFound`.
    func deliveries(
        of webhook: WebhookID, tenant: String, state: DeliveryRecord.State?, type: String?,
        before: DeliveryID?, limit: Int, reply: @escaping Reply<ListPage<DeliveryRecord, DeliveryKindTag>>)
}
