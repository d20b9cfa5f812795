// What objects of a job inherit from its session.

extension SessionRecord: FieldDefaults {
    public var fieldValues: [String: any FieldValue] { FieldCapture.values(of: configuration) }
}

extension FieldContext {
    /// The job's session, or `nil` if it is not configured.
    var session: SessionRecord? { defaults as? SessionRecord }

    /// `true` if the job's session is a background session.
    var isBackground: Bool { session?.configuration.kind == .background }
}

extension JobSpec {
    public mutating func inherit(from context: FieldContext) {
        guard let session = context.session else { return }
        acknowledgement = session.configuration.acknowledgement
        lowSpeed = session.configuration.lowSpeed
    }

    /// Sets the webhook of the session if the body of a new job does not name one. A webhook of the job
    /// replaces it as a whole, because its secret and header fields are for its own receiver.
    mutating func inheritWebhook(_ fields: FieldDecoder) {
        guard fields.mode == .new, let session = fields.context.session,
            var webhook = session.configuration.webhook, !fields.has("webhook")
        else { return }
        // The policy may have become stricter since the session was configured.
        if let url = try? WebURL.parse(webhook.url), let reason = fields.context.refusal(url.endpoint) {
            fields.fail("webhook", "blocked_address", reason)
        }
        webhook.secret.text = session.secrets.webhookSecret
        webhook.headers = session.secrets.webhookHeaders
        webhook.tls = session.secrets.webhookTLS
        self.webhook = webhook
    }
}

extension JobSpec.Redirects {
    public mutating func inherit(from context: FieldContext) {
        guard let session = context.session else { return }
        self = session.configuration.redirects
        // A session's choice is ignored where another of its fields excludes it.
        if context.isBackground { policy = .follow }
    }
}

extension JobSpec.Acceptance {
    public mutating func inherit(from context: FieldContext) {
        guard let session = context.session else { return }
        self = session.configuration.accept
        if let kind = context.kind { leaveOutStandard(kind) }
    }
}

extension JobSpec.RetryRules {
    public mutating func inherit(from context: FieldContext) {
        guard let session = context.session else { return }
        self = session.configuration.retry
        let hasResume = context.kind.map { Self.resumingKinds.contains(JobKinds($0)) } ?? false
        if !hasResume { resumesWithoutValidator = false }
    }
}

extension JobSpec.Network {
    public mutating func inherit(from context: FieldContext) {
        guard let session = context.session else { return }
        self = session.configuration.network
    }
}

extension JobSpec.Schedule {
    public mutating func inherit(from context: FieldContext) {
        guard let session = context.session?.configuration else { return }
        // A session's choice is ignored where another of its fields excludes it.
        isDiscretionary = isDiscretionary && session.networkServiceType != .responsiveData
    }
}

extension ConnectionRules.TLS {
    public mutating func inherit(from context: FieldContext) {
        guard let session = context.session else { return }
        if let tls = session.configuration.tls {
            let texts = session.secrets.connection
            self = tls.rules
            authorities.text = texts?.authorities
            clientCertificate.text = texts?.clientCertificate
            clientKey.text = texts?.clientKey
        }
        versionMin = session.configuration.tlsVersionMin
        versionMax = session.configuration.tlsVersionMax
    }
}

extension JobSpec.RequestSpec {
    /// Sets the proxy and the TLS settings of the session where the request has none.
    mutating func inheritConnection(_ fields: FieldDecoder) {
        let context = fields.context
        var rules = connection ?? .standard
        if !fields.has("proxy"), let session = context.session, let proxy = session.configuration.proxy {
            rules.proxy = proxy
            // The policy may have become stricter since the session was configured.
            if let reason = context.refusal(proxy.url.endpoint) {
                fields.fail("proxy", "blocked_address", reason)
            }
            rules.proxy?.password.isSet = proxy.user != nil
            rules.proxy?.password.text = session.secrets.connection?.proxyPassword
            rules.proxy?.authorities.text = session.secrets.connection?.proxyAuthorities
        }
        connection = rules
        if rules.tls == nil, context.requestURL?.scheme == .https { inheritTLS(context) }
    }

    /// Sets the TLS settings of the session, if they differ from the default.
    mutating func inheritTLS(_ context: FieldContext) {
        guard context.session != nil else { return }
        var rules = connection ?? .standard
        let tls = FieldDecoder.standard(ConnectionRules.TLS.self, context)
        rules.tls = tls == ConnectionRules.TLS() ? nil : tls
        connection = rules
    }

    /// Adds the header fields of the session that the request does not name itself.
    mutating func addSessionHeaders(_ fields: FieldDecoder) {
        guard let session = fields.context.session, !session.configuration.headers.isEmpty else { return }
        let others = Set(headers.map { $0.name.lowercased() })
        let determined = DeterminedHeaders.of(self)
        let added = session.configuration.headers.filter { header in
            let name = header.name.lowercased()
            return !others.contains(name) && !determined.contains(name)
                && !(fields.context.namesObject && JobSpec.isStoreField(name))
        }
        guard !added.isEmpty else { return }
        headers += added.map { header in
            let name = header.name.lowercased()
            let secret = session.secrets.headers.first { $0.name.lowercased() == name }
            return secret ?? header
        }
        if let origins = session.configuration.headerOrigins {
            additionalHeaders = AdditionalHeaders(
                names: added.map { $0.name.lowercased() }, origins: origins,
                trustsProxy: !fields.has("proxy"))
        }
        let byteCount = headers.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count }
        if headers.count > Limits.headerCountMax || byteCount > Limits.headerByteCountMax {
            fields.fail(
                "headers", "too_many",
                "With those of the session, there are more than \(Limits.headerCountMax) header fields or "
                    + "\(Limits.headerByteCountMax) bytes.")
        }
    }
}
