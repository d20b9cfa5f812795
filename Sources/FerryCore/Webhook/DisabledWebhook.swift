/// Content of the event `webhook.disabled`, without the URL, which may be secret.
package struct DisabledWebhook: Sendable, Equatable {
    /// The endpoint.
    package let id: WebhookID
    /// Reason of the change.
    package let reason: WebhookRecord.DisabledReason

    /// Creates the content.
    package init(id: WebhookID, reason: WebhookRecord.DisabledReason) {
        self.id = id
        self.reason = reason
    }

    /// Writes `{"id","disabled_reason"}`, as the endpoint shows them.
    package func write(into writer: inout JSONWriter) {
        writer.beginObject()
        writer.member("id", id)
        writer.name("disabled_reason")
        reason.write(into: &writer)
        writer.endObject()
    }

    /// The same as JSON.
    package var json: [UInt8] {
        var writer = JSONWriter(reservingCapacity: 160)
        write(into: &writer)
        return writer.bytes
    }
}

extension EventRecord {
    /// Endpoint of the event `webhook.disabled`; `nil` for other events.
    package var disabledWebhook: DisabledWebhook? {
        guard type == .webhookDisabled, detail.count > 16,
            let reason = WebhookRecord.DisabledReason(
                rawValue: String(decoding: detail[16...], as: UTF8.self))
        else { return nil }
        let word = { (bytes: ArraySlice<UInt8>) in bytes.reduce(UInt64(0)) { $0 << 8 | UInt64($1) } }
        return DisabledWebhook(
            id: WebhookID(high: word(detail[..<8]), low: word(detail[8..<16])), reason: reason)
    }
}
