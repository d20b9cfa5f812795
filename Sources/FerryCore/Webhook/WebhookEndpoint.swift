/// Where a tenant wants its events, and which of them: what a client may say about an endpoint.
package struct WebhookEndpoint: Sendable, Equatable {
    /// How the body of a delivery is written.
    package enum Format: String, Sendable, CaseIterable {
        /// Standard Webhooks 1.0.
        case standard
        /// CloudEvents 1.0.2 in structured mode, signed in the same way.
        case cloudevents
    }

    package var url: String
    package var filter: WebhookFilter
    package var description: String?
    package var isEnabled = true
    /// The next event only after the one before was accepted or given up.
    package var isOrdered = false
    package var format = Format.standard
    /// Seconds after the first, second, … try.
    package var retryDelays = Self.standardRetryDelays
    /// Seconds of nothing but failures after which it is disabled.
    package var disableAfter = Self.standardDisableAfter
    /// Of jobs whose end it is told of; what a job or its session says goes before.
    package var acknowledgement: AcknowledgementRules?

    /// The example schedule of Standard Webhooks 1.0: ten tries in 75 hours.
    package static let standardRetryDelays: [Double] = [
        5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400,
    ]
    package static let standardDisableAfter = 432_000.0

    package init(url: String, filter: WebhookFilter = WebhookFilter()) {
        self.url = url
        self.filter = filter
    }
}

/// An endpoint as it is kept and shown.
package struct WebhookRecord: Sendable, Equatable {
    /// Why an endpoint gets nothing; the raw value is stable.
    package enum DisabledReason: String, Sendable, CaseIterable {
        /// A client said so.
        case requested
        /// The receiver answered "410 Gone".
        case gone
        /// Nothing was accepted for as long as `disable_after` says.
        case failing

        var detail: String {
            switch self {
            case .requested: "A client has disabled it."
            case .gone: "The receiver answered 410: it wants nothing more."
            case .failing: "Nothing was accepted for as long as disable_after says."
            }
        }

        func write(into writer: inout JSONWriter) {
            writer.beginObject()
            writer.member("code", rawValue)
            writer.member("detail", detail)
            writer.endObject()
        }
    }

    package let id: WebhookID
    package let tenant: String
    package let createdAt: Timestamp
    package var updatedAt: Timestamp
    /// Grows with every change that clients can see, but for `failingSince`.
    package var revision: Int32
    package var endpoint: WebhookEndpoint
    package var disabledAt: Timestamp?
    package var disabledReason: DisabledReason?
    /// The first failure since something was accepted last.
    package var failingSince: Timestamp?
    /// `whpk_…` of the newest key.
    package var publicKey: String
    /// `WebhookKeys`, sealed.
    package var sealedKeys: [UInt8]

    package init(
        id: WebhookID, tenant: String, createdAt: Timestamp, updatedAt: Timestamp, revision: Int32 = 1,
        endpoint: WebhookEndpoint, disabledAt: Timestamp? = nil, disabledReason: DisabledReason? = nil,
        failingSince: Timestamp? = nil, publicKey: String, sealedKeys: [UInt8]
    ) {
        self.id = id
        self.tenant = tenant
        self.createdAt = createdAt
        self.updatedAt = updatedAt
        self.revision = revision
        self.endpoint = endpoint
        self.disabledAt = disabledAt
        self.disabledReason = disabledReason
        self.failingSince = failingSince
        self.publicKey = publicKey
        self.sealedKeys = sealedKeys
    }

    /// The endpoint as every answer shows it; `secret` as text in the answers that make one only.
    package func write(
        into writer: inout JSONWriter, secret: WebhookSecret? = nil, isRedacted: Bool
    ) {
        writer.beginObject()
        writer.member("id", id)
        writer.member("revision", revision)
        writer.member("created_at", createdAt)
        writer.member("updated_at", updatedAt)
        endpoint.writeMembers(into: &writer, isRedacted: isRedacted)
        writer.memberOrNull("disabled_at", disabledAt)
        writer.name("disabled_reason")
        if let disabledReason { disabledReason.write(into: &writer) } else { writer.null() }
        writer.memberOrNull("failing_since", failingSince)
        writer.member("public_key", publicKey)
        writer.name("secret")
        if let secret { writer.value(secret.text) } else { writer.raw(Array(#"{"set":true}"#.utf8)) }
        writer.endObject()
    }
}

extension WebhookRecord {
    /// Whether nothing is different, also no byte of a text: to `==` é is the same as e with an accent.
    package func isIdentical(to other: WebhookRecord) -> Bool {
        shown == other.shown && sealedKeys == other.sealedKeys
    }

    private var shown: [UInt8] {
        var writer = JSONWriter(reservingCapacity: 1_024)
        write(into: &writer, isRedacted: false)
        return writer.bytes
    }
}

extension WebhookEndpoint {
    /// The accepted fields with their effective values, into the open object.
    func writeMembers(into writer: inout JSONWriter, isRedacted: Bool) {
        writer.member("url", isRedacted ? RedactedURL.text(of: url) : url)
        writer.name("events")
        writer.beginArray()
        for type in filter.types ?? ["*"] { writer.value(type) }
        writer.endArray()
        writer.memberOrNull("session", filter.session)
        writer.name("metadata")
        writer.beginObject()
        for pair in filter.metadata { writer.member(pair.name, pair.value) }
        writer.endObject()
        writer.memberOrNull("description", description)
        writer.member("enabled", isEnabled)
        writer.member("ordered", isOrdered)
        writer.member("format", format.rawValue)
        writer.name("retry")
        writer.beginObject()
        writer.name("delays")
        writer.beginArray()
        for delay in retryDelays { writer.value(delay) }
        writer.endArray()
        writer.endObject()
        writer.member("disable_after", disableAfter)
        if let acknowledgement {
            acknowledgement.write(into: &writer)
        } else {
            writer.member("acknowledgement", .null)
        }
    }
}

/// An endpoint that is to be made.
package struct NewWebhook: Sendable {
    package let record: WebhookRecord
    package let idempotency: Submission.Idempotency?

    package init(record: WebhookRecord, idempotency: Submission.Idempotency?) {
        self.record = record
        self.idempotency = idempotency
    }
}

/// What the first request with an idempotency key has added to what it says: with both the first answer can
/// be given again, whatever has become of the endpoint since.
package struct MadeWebhook: Sendable, Equatable {
    package let id: WebhookID
    package let createdAt: Timestamp
    /// `WebhookKeys` as they were then, sealed.
    package let sealedKeys: [UInt8]

    package init(id: WebhookID, createdAt: Timestamp, sealedKeys: [UInt8]) {
        self.id = id
        self.createdAt = createdAt
        self.sealedKeys = sealedKeys
    }
}

/// What became of it.
package enum WebhookCreation: Sendable {
    case made(WebhookRecord)
    /// The first request with the same idempotency key made this one.
    case known(MadeWebhook)
    /// The tenant has as many as it may have.
    case limitReached
}
