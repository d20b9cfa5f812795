/// Secrets of a job, which are stored encrypted and never shown.
public struct JobSecrets: Sendable, Equatable {
    /// Header fields whose value is secret.
    public var headers: [JobSpec.Pair]
    /// Signing secret `whsec_…` of the job's own webhook, or `nil`.
    public var webhookSecret: String?
    /// Header fields of deliveries to the job's own webhook.
    public var webhookHeaders: [JobSpec.Pair] = []
    /// TLS settings of the job's own webhook with the text of the authorities, or `nil` for the default.
    public var webhookTLS: WebhookTLS? {
        get { boxedWebhookTLS?.value }
        set { boxedWebhookTLS = newValue.map(Boxed.init) }
    }
    private var boxedWebhookTLS: Boxed<WebhookTLS>?
    var boxedConnection: Boxed<ConnectionSecrets>?
    /// The job whose bytes this one resumes from (`resume_data`), or `nil`.
    public var resumePoint: ResumePoint? {
        get { boxedResumePoint?.value }
        set { boxedResumePoint = newValue.map(Boxed.init) }
    }
    private var boxedResumePoint: Boxed<ResumePoint>?
    /// Secrets of the other end of a copy, or `nil`.
    public var otherServer: OtherServerSecrets? {
        get { boxedOtherServer?.value }
        set { boxedOtherServer = newValue.map(Boxed.init) }
    }
    private var boxedOtherServer: Boxed<OtherServerSecrets>?
    /// Creates secrets.
    public init(headers: [JobSpec.Pair] = [], webhookSecret: String? = nil) {
        self.headers = headers
        self.webhookSecret = webhookSecret
    }
    /// `true` if there are no secrets.
    public var isEmpty: Bool {
        headers.isEmpty && webhookSecret == nil && webhookHeaders.isEmpty && boxedWebhookTLS == nil
            && boxedConnection == nil && boxedResumePoint == nil && boxedOtherServer == nil
    }
}

extension JobSecrets {
    /// Bytes to hash that identify the request's credentials: secret header fields, password, token, client
    /// key and key of a store; `nil` if it sends none.
    public var credentialBytes: [UInt8]? {
        let connection = connection
        let others = [
            connection?.password, connection?.token, connection?.clientKey, connection?.secretAccessKey,
        ]
        guard !headers.isEmpty || others.contains(where: { $0 != nil }) else { return nil }
        var bytes: [UInt8] = []
        for part in headers.flatMap({ [$0.name.lowercased(), $0.value] }) + others.map({ $0 ?? "" }) {
            bytes.append(contentsOf: part.utf8)
            bytes.append(0)
        }
        return bytes
    }
}
