import FerryCore
import TestGolden
import Testing

@testable import FerryWebhooks

@Suite("Golden files of webhook messages")
struct GoldenMessageTests {
    @Test("an event is delivered as recorded")
    func messages() throws {
        let golden = try GoldenFile("webhook_message.json")
        for difference in try golden.differences(from: try Self.all()) {
            Issue.record("webhook_message.json: \(difference)")
        }
    }

    /// Returns the message of each type of event in each format.
    private static func all() throws -> [GoldenCase] {
        let types = EventType.allCases.map(\.rawValue) + [WebhookPing.type]
        return try types.flatMap { type in
            try [WebhookEndpoint.Format.standard, .cloudevents].map { format in
                let body = WebhookMessage.body(of: try delivery(type, format), format)
                return GoldenCase(
                    "\(type), \(format.rawValue)", found: [.init("message", try JSON.parse(body))])
            }
        }
    }

    private static func delivery(_ type: String, _ format: WebhookEndpoint.Format) throws -> Delivery {
        let isOfEndpoint = [EventType.webhookDisabled.rawValue, WebhookPing.type].contains(type)
        let isOfJob = !isOfEndpoint && EventType(rawValue: type)?.isOfSession != true
        let secret = try #require(WebhookSecret(key: [UInt8](repeating: 1, count: 32)))
        let endpoint = Delivery.Endpoint(
            id: WebhookID(high: 1, low: 3), revision: 1,
            keys: WebhookKeys(.init(secret: secret, seed: [UInt8](repeating: 1, count: 32))),
            format: format, isOrdered: false, retryDelays: [5])
        let disabled = DisabledWebhook(id: WebhookID(high: 1, low: 3), reason: .gone)
        let job = #"{"id":"job_x","state":"running","progress":{"resumed_at_offset":25}}"#
        return Delivery(
            id: DeliveryID(high: 1, low: 4), receiverQueue: ReceiverQueueID(high: 1, low: 5),
            event: EventID(high: 1, low: 6), type: type, tenant: "default",
            session: isOfEndpoint ? "" : "s", job: isOfJob ? JobID(high: 1, low: 2) : nil, sequence: 4,
            occurredAt: Timestamp(microseconds: 1_795_000_000_000_000), url: "https://h.example/",
            secret: nil, endpoint: endpoint,
            jobJSON: isOfJob ? Array(job.utf8) : isOfEndpoint ? disabled.json : Array("null".utf8),
            traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", tryNumber: 1)
    }
}
