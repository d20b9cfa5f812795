/// Content of the event `webhook.disabled`, without the URL, which may be secret.
public struct DisabledWebhook: Sendable, Equatable {
    /// The endpoint.
    public let id: WebhookID
    /// Reason of the change.
    public let reason: WebhookRecord.DisabledReason

    /// Creates the content.
    public init(id: WebhookID, reason: WebhookRecord.DisabledReason) {
        self.id = id
        self.reason = reason
    }

    /// The content as JSON.
    public var json: [UInt8] { shown(reservingCapacity: 160) }
}

extension DisabledWebhook: ShownObject {
    public static let summary = "A disabled endpoint."
    public static let schemaName = "EventWebhook"

    public static func members(_ list: inout some MemberVisitor<Self>) {
        list.member("id", \.id, "Identifier of the endpoint.")
        list.member("disabled_reason", \.reason, "Why it is disabled.")
    }
}

extension EventRecord {
    /// Endpoint of the event `webhook.disabled`; `nil` for other events.
    public var disabledWebhook: DisabledWebhook? {
        guard type == .webhookDisabled, detail.count > 16,
            let reason = WebhookRecord.DisabledReason(
                rawValue: String(decoding: detail[16...], as: UTF8.self))
        else { return nil }
        let word = { (bytes: ArraySlice<UInt8>) in bytes.reduce(UInt64(0)) { $0 << 8 | UInt64($1) } }
        return DisabledWebhook(
            id: WebhookID(high: word(detail[..<8]), low: word(detail[8..<16])), reason: reason)
    }
}
