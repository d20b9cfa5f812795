/// A group's own webhook, which gets `group.finished`.
public struct GroupWebhook: FieldObject {
    public static let summary = "A receiver of the group's event group.finished."
    public static let schemaName = "GroupWebhook"

    /// URL of the receiver.
    public var url: String { urlText.text }
    private var urlText = URLText("")
    /// A signing secret of the group's own (in `JobSecrets`).
    private var secret = Secret()
    /// Header fields of deliveries besides those of Ferry. The values are empty here;
    /// `JobSecrets.webhookHeaders` has them.
    private var headers: [JobSpec.Pair] = []
    /// TLS settings of the receiver, or `nil` for the default. The authorities have no text here;
    /// `JobSecrets.webhookTLS` has it.
    private var tls: WebhookTLS?

    /// Creates a webhook without URL.
    public init() {}

    public mutating func fields(_ visitor: inout some FieldVisitor) {
        visitor.field("url", &urlText, .of(required: true, isStoredPlain: true), "URL of the receiver.")
        visitor.field(
            "secret", &secret, .webhookSecret, .plain,
            "Signing secret: whsec_ and the base64 of 24 to 64 bytes. Without one, Ferry's own secret signs.")
        WebhookHeaders.declare(&visitor, &headers)
        WebhookTLS.declare(&visitor, &tls)
    }

    public mutating func check(_ body: FieldDecoder) {
        WebhookHeaders.check(headers, body)
        WebhookTLS.check(&tls, for: url, of: "webhook", body)
    }

    /// Moves the texts of secrets out of the webhook.
    mutating func takeSecrets() -> JobSecrets {
        var secrets = JobSecrets(webhookSecret: secret.take())
        secrets.webhookHeaders = WebhookHeaders.takeValues(&headers)
        secrets.webhookTLS = WebhookTLS.takeText(&tls)
        return secrets
    }
}
