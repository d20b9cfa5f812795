package import FerryCore

/// Stores webhook endpoints. An endpoint of another tenant is `notFound`. Every reply is called exactly once,
/// on a thread that must not block.
package protocol WebhookStore: Sendable {
    /// Stores a new endpoint, unless the tenant has too many. A repeated idempotency key replies with the
    /// first one.
    func createWebhook(_ new: NewWebhook, reply: @escaping Reply<WebhookCreation>)
    /// Replies with the endpoint that was created with this key, even if it was changed or deleted since;
    /// `notFound` if there is none. A key of another request is `idempotencyKeyReused`.
    func webhook(createdWith key: Submission.Idempotency, reply: @escaping Reply<CreatedWebhook>)
    /// Replies with one endpoint.
    func webhook(_ id: WebhookID, tenant: String, reply: @escaping Reply<WebhookRecord>)
    /// Replies with endpoints, newest first, only those before `before`.
    func webhooks(
        tenant: String, before: WebhookID?, limit: Int, reply: @escaping Reply<[WebhookRecord]>)
    /// Replaces the endpoint by what `change` returns. The store may call `change` more than once; what it
    /// throws is the inner failure. `revision`: the one that `If-Match` names.
    func editWebhook(
        _ id: WebhookID, tenant: String, revision: Int32?,
        _ change: @escaping @Sendable (WebhookRecord) throws(InvalidFields) -> WebhookRecord,
        reply: @escaping Reply<Result<WebhookRecord, InvalidFields>>)
    /// Deletes an endpoint. `revision`: the one that `If-Match` names.
    func deleteWebhook(_ id: WebhookID, tenant: String, revision: Int32?, reply: @escaping Reply<Void>)
    /// Adds a test delivery that is due now and tried once.
    func pingWebhook(
        _ id: WebhookID, tenant: String, traceparent: String?, reply: @escaping Reply<DeliveryID>)
    /// Makes deliveries due again that are not pending. Replies with their number.
    func replay(
        _ id: WebhookID, tenant: String, since: Timestamp, until: Timestamp?, onlyFailed: Bool,
        reply: @escaping Reply<Int64>)
    /// Replies with deliveries, newest first.
    func deliveries(
        of webhook: WebhookID, tenant: String, state: DeliveryRecord.State?, type: String?,
        before: DeliveryID?, limit: Int, reply: @escaping Reply<ListPage<DeliveryRecord, DeliveryKindTag>>)
}
