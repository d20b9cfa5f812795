import FerryCore

/// A delivery to be added: a row of add_deliveries.sql.
struct DeliveryDraft {
    let id: DeliveryID
    let event: Event
    let url: String
    let jobJSON: [UInt8]
    /// Sealed secrets of the job.
    let secrets: [UInt8]?
    let traceparent: String?
    /// The endpoint; `nil` for the job's own webhook.
    var endpoint: WebhookID?
    /// Payload of the job's own webhook. An endpoint has its own setting.
    var payload = WebhookPayload.full

    /// Approximate bytes of its row.
    var byteCount: Int { Self.byteCount(url, jobJSON, secrets) }

    /// Returns the approximate bytes of a row: its URL, its job with its secrets, and 1 KiB for the other
    /// columns.
    static func byteCount(_ url: String, _ jobJSON: [UInt8], _ secrets: [UInt8]?) -> Int {
        1_024 + url.utf8.count + jobJSON.count + (secrets?.count ?? 0)
    }
}
