internal import FerryCore
internal import HTTPServer

/// Seconds for which the response to a test waits for the delivery: one try, and the time until it begins.
private let pingWait = 20.0
/// Values of the parameter `type`.
private let deliveryTypes = EventType.allCases.map(\.rawValue) + [WebhookPing.type]

/// Shows deliveries, repeats them, and makes test deliveries.
final class DeliveryHandlers: Sendable {
    private let deliveries: any DeliveryReader
    private let webhooks: any WebhookStore
    private let waiters: JobWaiters

    init(_ ports: APIPorts) {
        deliveries = ports.store.deliveries
        webhooks = ports.store.webhooks
        waiters = ports.waiters
    }

    /// `GET /v1/jobs/{id}/deliveries`
    func listOfJob(_ request: RequestContext) throws(Problem) {
        let id = try request.identifier(JobID.self)
        let (limit, before) = try request.page(of: DeliveryID.self)
        deliveries.deliveries(
            of: id, tenant: request.tenant, before: before, limit: limit + 1,
            reply: sending(request, limit: limit))
    }

    /// `GET /v1/webhooks/{id}/deliveries`
    func listOfWebhook(_ request: RequestContext) throws(Problem) {
        let id = try request.identifier(WebhookID.self)
        var limit = Limits.listLimitDefault
        var before: DeliveryID?
        var state: DeliveryRecord.State?
        var type: String?
        for (name, value) in request.query {
            switch name {
            case "limit": limit = try pageLimit(value)
            case "cursor": before = try position(value)
            case "state":
                state = DeliveryRecord.State(rawValue: value)
                if state == nil {
                    throw Problem(.invalidParameter, "state must be pending, accepted or given_up.")
                }
            default:
                guard deliveryTypes.contains(value) else {
                    let all = deliveryTypes.joined(separator: ", ")
                    throw Problem(.invalidParameter, "type must be one of: \(all).")
                }
                type = value
            }
        }
        webhooks.deliveries(
            of: id, tenant: request.tenant, state: state, type: type, before: before, limit: limit + 1,
            reply: sending(request, limit: limit))
    }

    /// `GET /v1/deliveries/{id}`
    func read(_ request: RequestContext) throws(Problem) {
        let id = try request.identifier(DeliveryID.self)
        deliveries.delivery(id, tenant: request.tenant, reply: sending(request))
    }

    /// `POST /v1/deliveries/{id}/redeliver`
    func redeliver(_ request: RequestContext) throws(Problem) {
        let id = try request.identifier(DeliveryID.self)
        try request.needEmptyObject()
        deliveries.redeliver(id, tenant: request.tenant, reply: sending(request))
    }

    /// `POST /v1/webhooks/{id}/replay`
    func replay(_ request: RequestContext) throws(Problem) {
        let id = try request.identifier(WebhookID.self)
        let body = try request.decoded(ReplayRequest.self)
        webhooks.replay(
            id, tenant: request.tenant, since: body.since, until: body.until,
            onlyFailed: body.only == .failed,
            reply: request.onSuccess { count in
                request.send(200, json: ReplayAnswer(count: count).shown())
            })
    }

    /// `POST /v1/webhooks/{id}/test`: sends a signed `ping`. The response shows the try.
    func test(_ request: RequestContext) throws(Problem) {
        let id = try request.identifier(WebhookID.self)
        try request.needEmptyObject()
        webhooks.pingWebhook(
            id, tenant: request.tenant, traceparent: traceContext(request.fields),
            reply: request.onSuccess { [self] ping in sendTried(ping, request) })
    }

    /// Responds with a delivery when it was tried, or after `pingWait`. Any node may send it, so that its
    /// tries are read from the store.
    private func sendTried(_ id: DeliveryID, _ request: RequestContext) {
        let (deliveries, waiters) = (deliveries, waiters)
        // `JobWaiters` waits for a `JobID`. The delivery's number is no job's, so that nothing else ends the
        // wait.
        _ = waiters.wait(
            for: JobID(high: id.high, low: id.low), seconds: pingWait,
            look: { token in
                deliveries.delivery(id, tenant: request.tenant) { result in
                    if case .success(let delivery) = result, delivery.tries.isEmpty { return }
                    waiters.finish(token)
                }
            },
            done: { [self] in deliveries.delivery(id, tenant: request.tenant, reply: sending(request)) })
    }

    /// Returns a reply that sends one delivery.
    private func sending(_ request: RequestContext) -> Reply<DeliveryRecord> {
        request.onSuccess { delivery in
            let json = delivery.shown(isRedacted: request.disclosure.isRedacted)
            request.send(200, tag: entityTag(changeable: [], shown: json)) { json }
        }
    }

    /// Returns a reply that sends a page of deliveries.
    private func sending(
        _ request: RequestContext, limit: Int
    ) -> Reply<ListPage<DeliveryRecord, DeliveryKindTag>> {
        request.onSuccess { found in
            Page(found, limit: limit) { $0.id }.send(request, reservingCapacity: 4_096)
        }
    }
}

/// The response of `POST /v1/webhooks/{id}/replay`.
struct ReplayAnswer: ShownObject {
    static let summary = "Result of a replay."
    static let schemaName = "ReplayAnswer"
    fileprivate let count: Int64

    static func members(_ list: inout some MemberVisitor<Self>) {
        list.member("redelivered", \.count, "Number of deliveries that are sent again.", [.minimum(0)])
    }
}

/// The body of `POST /v1/webhooks/{id}/replay`.
struct ReplayRequest: FieldObject {
    static let summary = "The events that are sent again."
    static let schemaName = "ReplayRequest"
    fileprivate enum Only: String, FieldChoice { case failed }

    fileprivate var since = Timestamp(microseconds: 0)
    fileprivate var until: Timestamp?
    fileprivate var only: Only?

    mutating func fields(_ visitor: inout some FieldVisitor) {
        visitor.field("since", &since, .of(required: true), "Earliest time of the events.")
        visitor.field(
            "until", &until, .plain, "Time before which the events occurred, after since; null for no limit.")
        visitor.field(
            "only", &only, .plain, "failed: only deliveries that were given up; null: all deliveries.")
    }

    mutating func check(_ body: FieldDecoder) {
        guard body.isValid("since"), let until, until <= since else { return }
        body.fail("until", "invalid_combination", "This must be after since.")
    }
}
