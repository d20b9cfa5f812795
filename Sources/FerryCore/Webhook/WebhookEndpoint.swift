/// Configuration of a webhook endpoint: the receiver of a tenant's events, and which events it gets.
public struct WebhookEndpoint: FieldObject {
    public static let summary = "A receiver of the tenant's events."
    public static let schemaName = "Webhook"

    /// Format of the body of a delivery.
    public enum Format: String, FieldChoice {
        /// Standard Webhooks 1.0.
        case standard
        /// CloudEvents 1.0.2 in structured mode, signed like Standard Webhooks.
        case cloudevents
    }

    /// URL of the receiver.
    public var url: String
    /// Events that the endpoint gets.
    public var filter: WebhookFilter
    /// Text of the client, or `nil`.
    public var description: String?
    /// `false` if a client has disabled it.
    public var isEnabled = true
    /// `true` if an event is sent only after the one before was accepted or given up.
    public var isOrdered = false
    /// Format of the body.
    public var format = Format.standard
    /// Header fields of deliveries besides those of Ferry. In a stored endpoint the values are empty here;
    /// `WebhookRecord.sealedHeaders` has them.
    public var headers: [JobSpec.Pair] = []
    /// Extent to which deliveries contain the job.
    public var payload = WebhookPayload.full
    /// TLS settings of the receiver, or `nil` for the default. In a stored endpoint the authorities have no
    /// text here; `WebhookRecord.sealedTLS` has it.
    public var tls: WebhookTLS?
    /// Seconds after the first, second, … try.
    public var retryDelays = Self.standardRetryDelays
    /// Seconds of failures alone after which it is disabled.
    public var disableAfter = Self.standardDisableAfter
    /// Rules of acknowledgement for jobs whose end it is told, unless the job or its session has rules; or
    /// `nil`.
    public var acknowledgement: AcknowledgementRules?

    /// The example schedule of Standard Webhooks 1.0: ten tries in 75 hours.
    public static let standardRetryDelays: [Double] = [
        5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400,
    ]
    /// Default of `disableAfter` in seconds.
    public static let standardDisableAfter = 432_000.0

    /// Creates an endpoint without URL, with default settings.
    public init() { self.init(url: "") }

    /// Creates an endpoint with default settings.
    public init(url: String, filter: WebhookFilter = WebhookFilter()) {
        self.url = url
        self.filter = filter
    }

    public mutating func fields(_ visitor: inout some FieldVisitor) {
        var urlText = URLText(url)
        visitor.field("url", &urlText, .of(required: true), "URL of the receiver.")
        url = urlText.text
        var types = EventTypeNames(names: filter.types ?? ["*"])
        visitor.field(
            "events", &types, .plain,
            "Types of events that the endpoint gets; * stands for all, those of later versions included.")
        filter.types = types.names.contains("*") ? nil : types.names
        visitor.field(
            "session", &filter.session, .sessionName, .plain,
            "Only events of this session; null for all.")
        metadataField(&visitor, &filter.metadata, .plain)
        visitor.field(
            "description", &description, .description, .plain,
            "Text of the client: at most 1,024 bytes of UTF-8 without U+0000.")
        WebhookHeaders.declare(&visitor, &headers)
        WebhookPayload.declare(&visitor, &payload)
        WebhookTLS.declare(&visitor, &tls)
        visitor.field("enabled", &isEnabled, .plain, "Whether the endpoint gets deliveries.")
        visitor.field(
            "ordered", &isOrdered, .plain,
            "Whether an event is sent only after the one before was accepted or its delivery has failed.")
        visitor.field(
            "format", &format, .plain,
            "Format of the body: Standard Webhooks 1.0, or CloudEvents 1.0.2 in structured mode, signed like "
                + "Standard Webhooks.")
        var retry = Retry(delays: retryDelays)
        visitor.object("retry", &retry, .plain, "Times of further attempts of a delivery.")
        retryDelays = retry.delays
        visitor.field(
            "disable_after", &disableAfter, Limits.webhookDisableAfterMin...Limits.webhookDisableAfterMax,
            .of(unit: .seconds), "Time of failures alone after which it is disabled.")
        visitor.object(
            "acknowledgement", &acknowledgement, .plain,
            "Rules of acknowledgement for jobs whose end it is told, unless the job or its session has rules."
        )
    }

    public mutating func check(_ body: FieldDecoder) {
        WebhookHeaders.check(headers, body)
        WebhookTLS.check(&tls, for: url, of: "endpoint", body)
    }

    /// Removes the values of `headers` and returns the fields with them.
    public mutating func takeHeaders() -> [JobSpec.Pair] { WebhookHeaders.takeValues(&headers) }

    /// Removes the text of the authorities and returns the TLS settings with it.
    public mutating func takeTLS() -> WebhookTLS? { WebhookTLS.takeText(&tls) }

    /// Times of further attempts of a delivery.
    private struct Retry: FieldObject {
        static let summary = "Times of further attempts of a delivery."
        static let schemaName = "WebhookRetry"
        var delays = WebhookEndpoint.standardRetryDelays

        init() {}
        init(delays: [Double]) { self.delays = delays }

        mutating func fields(_ visitor: inout some FieldVisitor) {
            visitor.field(
                "delays", &delays,
                ListRule(0...Limits.webhookDelayCountMax, of: 1...Limits.webhookDelayMax, isUnique: false),
                .of(unit: .seconds), "Delays after the first, second, … attempt.")
        }
    }
}

/// An endpoint as it is stored and shown.
public struct WebhookRecord: Sendable, Equatable {
    /// Reason for which an endpoint gets no deliveries; the raw value is stable.
    public enum DisabledReason: String, Sendable, CaseIterable {
        /// A client disabled it.
        case requested
        /// The receiver answered 410 (Gone).
        case gone
        /// All tries have failed for the time of `disable_after`.
        case failing

        var detail: String {
            switch self {
            case .requested: "A client has disabled it."
            case .gone: "The receiver answered 410 (Gone)."
            case .failing: "Nothing was accepted for as long as disable_after says."
            }
        }
    }

    /// Identifier of the endpoint.
    public let id: WebhookID
    /// Tenant.
    public let tenant: String
    /// Times of creation and of the last change.
    public let createdAt: Timestamp
    public var updatedAt: Timestamp
    /// Revision; grows with every visible change except of `failingSince`.
    public var revision: Int32
    /// Configuration.
    public var endpoint: WebhookEndpoint
    /// Time at which it was disabled, or `nil`.
    public var disabledAt: Timestamp?
    /// Reason for that, or `nil`.
    public var disabledReason: DisabledReason?
    /// Time of the first failure since the last success, or `nil`.
    public var failingSince: Timestamp?
    /// Public half of the newest key, `whpk_…`.
    public var publicKey: String
    /// `WebhookKeys`, encrypted.
    public var sealedKeys: [UInt8]
    /// `endpoint.headers` with their values as stored (`WebhookHeaders`), or `nil` if there are none.
    public var sealedHeaders: [UInt8]?
    /// `endpoint.tls` with the text of the authorities as stored (`WebhookTLS`), or `nil` for the default.
    public var sealedTLS: [UInt8]?

    /// Creates a record.
    public init(
        id: WebhookID, tenant: String, createdAt: Timestamp, updatedAt: Timestamp, revision: Int32 = 1,
        endpoint: WebhookEndpoint, disabledAt: Timestamp? = nil, disabledReason: DisabledReason? = nil,
        failingSince: Timestamp? = nil, publicKey: String, sealedKeys: [UInt8],
        sealedHeaders: [UInt8]? = nil, sealedTLS: [UInt8]? = nil
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
        self.sealedHeaders = sealedHeaders
        self.sealedTLS = sealedTLS
    }

    /// Returns the endpoint as the API shows it. `secret`: shown only in responses that create one.
    public func shown(secret: WebhookSecret?, isRedacted: Bool) -> [UInt8] {
        guard let secret else { return shown(isRedacted: isRedacted, reservingCapacity: 1_024) }
        return ShownNewWebhook(record: self, secret: secret)
            .shown(isRedacted: isRedacted, reservingCapacity: 1_024)
    }
}

extension WebhookRecord: ShownObject {
    public static let summary = "An endpoint."
    public static let schemaName = "Webhook"

    public static func members(_ list: inout some MemberVisitor<Self>) {
        list.include { Members(record: $0) }
        list.member("secret", { _ in SetMark() }, "The secret is not shown.")
    }

    /// The members without the secret.
    fileprivate struct Members: ShownObject {
        static let summary = WebhookRecord.summary
        static let schemaName = WebhookRecord.schemaName

        let record: WebhookRecord

        static func members(_ list: inout some MemberVisitor<Self>) {
            list.member("id", \.record.id, "Identifier of the endpoint.")
            list.member("revision", \.record.revision, "Grows with each change.", [.minimum(1)])
            list.member("created_at", \.record.createdAt, "Time of the creation.")
            list.member("updated_at", \.record.updatedAt, "Time of the last change.")
            list.fields(\.record.endpoint)
            list.member("disabled_at", \.record.disabledAt, "Time at which it was disabled.")
            list.member("disabled_reason", \.record.disabledReason, "Why it is disabled.")
            list.member("failing_since", \.record.failingSince, "First failure since the last success.")
            list.member(
                "public_key", \.record.publicKey, "Verifies v1a signatures (Ed25519).", [.pattern("^whpk_")])
        }
    }
}

/// An endpoint with its secret.
public struct ShownNewWebhook: ShownObject {
    public static let summary = "An endpoint with its secret, which no other response shows."
    public static let schemaName = "WebhookWithSecret"

    fileprivate let record: WebhookRecord
    fileprivate let secret: WebhookSecret

    public static func members(_ list: inout some MemberVisitor<Self>) {
        list.include { WebhookRecord.Members(record: $0.record) }
        list.member(
            "secret", \.secret.text, "Verifies v1 signatures; not shown again.", [.pattern("^whsec_")])
    }
}

extension WebhookRecord.DisabledReason: ShownObject {
    public static let summary = "Why an endpoint is disabled."
    public static let schemaName = "DisabledReason"

    public static func members(_ list: inout some MemberVisitor<Self>) {
        list.member(
            "code", \.rawValue,
            "Stable code of the reason. requested: a client disabled the endpoint. gone: the receiver "
                + "responded 410. failing: no delivery was accepted for too long.",
            [.choices(allCases.map(\.rawValue))])
        list.member("detail", \.detail, "The reason as a sentence.")
    }
}

extension WebhookRecord {
    /// Returns `true` if both have the same bytes; `==` considers equivalent Unicode sequences equal (é as
    /// one or two code points).
    public func isIdentical(to other: WebhookRecord) -> Bool {
        shown(isRedacted: false) == other.shown(isRedacted: false) && sealedKeys == other.sealedKeys
            && sealedHeaders == other.sealedHeaders && sealedTLS == other.sealedTLS
    }
}

/// Names of event types, or `*`.
private struct EventTypeNames: FieldValue {
    let names: [String]

    static func decode(_ json: JSONView, _ rule: NoRule, _ place: FieldPlace) -> EventTypeNames? {
        [String].decode(json, listRule, place).map(EventTypeNames.init)
    }
    static func restore(_ json: JSON) -> EventTypeNames? {
        [String].restore(json).map(EventTypeNames.init)
    }
    func encode(into writer: inout JSONWriter, isRedacted: Bool) {
        names.encode(into: &writer, isRedacted: isRedacted)
    }
    static func schema(_ rule: NoRule) -> [JSON.Member] { [String].schema(listRule) }
    static func shownSchema(_ rule: NoRule) -> [JSON.Member] { [String].shownSchema(listRule) }

    private static let listRule = ListRule(
        1...Limits.webhookEventCountMax,
        of: TextRule(1...64, pattern: "^(\\*|\(known.joined(separator: "|").replacing(".", with: "\\.")))$") {
            $0 == "*" || known.contains($0)
                ? nil : "This must be * or one of: \(known.joined(separator: ", "))."
        })
    private static let known = EventType.allCases.map(\.rawValue)
}

/// An endpoint to be stored.
public struct NewWebhook: Sendable {
    /// The endpoint.
    public let record: WebhookRecord
    /// `Idempotency-Key` of the request, or `nil`.
    public let idempotency: Submission.Idempotency?
    /// `true` if an admin key creates it: then it can get the events of all hosts.
    public let isOfOperator: Bool

    /// Creates a new endpoint.
    public init(record: WebhookRecord, idempotency: Submission.Idempotency?, isOfOperator: Bool = false) {
        self.record = record
        self.idempotency = idempotency
        self.isOfOperator = isOfOperator
    }
}

/// Values that the first request with an idempotency key has generated. With the request they suffice to
/// repeat the first response, whatever has happened to the endpoint since.
public struct CreatedWebhook: Sendable, Equatable {
    /// Identifier and time of creation of the endpoint.
    public let id: WebhookID
    public let createdAt: Timestamp
    /// `WebhookKeys` of that time, encrypted.
    public let sealedKeys: [UInt8]

    /// Creates a result.
    public init(id: WebhookID, createdAt: Timestamp, sealedKeys: [UInt8]) {
        self.id = id
        self.createdAt = createdAt
        self.sealedKeys = sealedKeys
    }
}

/// Result of the creation of an endpoint.
public enum WebhookCreation: Sendable {
    case made(WebhookRecord)
    /// A request with the same idempotency key had created this one.
    case known(CreatedWebhook)
    /// The tenant has its largest number of endpoints.
    case limitReached
}
