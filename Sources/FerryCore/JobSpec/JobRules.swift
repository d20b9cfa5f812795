// Objects of a job that only its own attempts read: integrity, redirects, accept, retry, webhook.

extension JobSpec {
    /// Required properties of the bytes; digests in lower-case hexadecimal. `nil` means that the property is
    /// not checked.
    public struct Integrity: FieldObject {
        public static let summary =
            "What the bytes must be; each member that is given is checked. Without a digest, those that the "
            + "server announces are checked (Repr-Digest and others, see docs/integrity.md)."
        public static let schemaName = "Integrity"
        public static let standardTexts: StandardTexts? = StandardTexts(Self.self)
        /// Use of digests that the server announces.
        public enum Announced: String, FieldChoice { case verify, ignore }
        /// Bytes.
        public var size: Int64?
        /// Digests and checksums.
        public var md5: String?
        public var sha1: String?
        public var sha256: String?
        public var sha512: String?
        public var crc32c: String?
        public var adler32: String?
        /// Use of digests that the server announces.
        public var announced = Announced.verify
        /// Creates requirements.
        public init() {}
        /// `true` if the job demands nothing itself.
        public var isEmpty: Bool {
            var standard = Integrity()
            standard.announced = announced
            return self == standard
        }

        public mutating func fields(_ visitor: inout some FieldVisitor) {
            visitor.field("size", &size, 0...JSON.safeIntegerMax, .of(unit: .bytes), "Size of the file.")
            visitor.field("md5", &md5, .hexadecimal(byteCount: 16), .plain, "MD5 in hexadecimal.")
            visitor.field("sha1", &sha1, .hexadecimal(byteCount: 20), .plain, "SHA-1 in hexadecimal.")
            visitor.field("sha256", &sha256, .hexadecimal(byteCount: 32), .plain, "SHA-256 in hexadecimal.")
            visitor.field("sha512", &sha512, .hexadecimal(byteCount: 64), .plain, "SHA-512 in hexadecimal.")
            visitor.field("crc32c", &crc32c, .hexadecimal(byteCount: 4), .plain, "CRC-32C in hexadecimal.")
            visitor.field("adler32", &adler32, .hexadecimal(byteCount: 4), .plain, "Adler-32 in hexadecimal.")
            visitor.field(
                "announced", &announced, .plain,
                "What happens with digests that the server announces. They count only if the job has none "
                    + "of its own; ignore: not even then.")
        }

        public mutating func check(_ body: FieldDecoder) {
            for name in body.context.node.missingDigests.sorted() where body.hasValue(name) {
                body.fail(
                    name, "not_supported",
                    "This node's libcrypto does not support this digest (FIPS mode?).")
            }
            md5 = md5?.lowercased()
            sha1 = sha1?.lowercased()
            sha256 = sha256?.lowercased()
            sha512 = sha512?.lowercased()
            crc32c = crc32c?.lowercased()
            adler32 = adler32?.lowercased()
        }
    }

    /// Rules for redirects.
    public struct Redirects: FieldObject {
        public static let summary = "Rules for redirects."
        public static let schemaName = "Redirects"
        public static let standardTexts: StandardTexts? = StandardTexts(Self.self)
        /// Behavior after a redirect.
        public enum Policy: String, FieldChoice { case follow, reject, ask }
        /// Use of user information in the URL of a redirect.
        public enum UserInformation: String, FieldChoice { case send, ignore }
        /// Behavior after a redirect.
        public var policy = Policy.follow
        /// Largest number of redirects of an attempt.
        public var countMax = 20
        /// `true` if credentials are sent to other origins.
        public var sendsCredentialsAcrossOrigins = false
        /// Use of user information in the URL of a redirect.
        public var userInformation = UserInformation.send
        /// Creates the default rules.
        public init() {}

        public mutating func fields(_ visitor: inout some FieldVisitor) {
            visitor.field(
                "policy", &policy, .plain,
                "What happens to a redirect. ask: a client decides about each (POST …/redirect).")
            visitor.field(
                "max", &countMax, 0...Limits.redirectCountMax, .plain,
                "Largest number of redirects of an attempt.")
            visitor.field(
                "send_credentials_across_origins", &sendsCredentialsAcrossOrigins, .plain,
                "Whether credentials and fields that may be secret are sent to other origins.")
            visitor.field(
                "user_info", &userInformation, .plain,
                "What happens to user information in the URL of a redirect. send: it becomes the credentials "
                    + "of that request.")
        }
    }

    /// Responses that are accepted. Checked when the header section arrives; `byteCountMax` also while the
    /// body arrives.
    public struct Acceptance: FieldObject {
        public static let summary = "Responses that are accepted."
        public static let schemaName = "Acceptance"
        public static let standardTexts: StandardTexts? = StandardTexts(Self.self)
        /// Empty for the default of the kind (`standardStatus`).
        public var status: [StatusPattern] = []
        /// Media types as `type/subtype` or `type/*`; empty for all.
        public var contentTypes: [String] = []
        /// Largest size of the body in bytes, or `nil` for no limit.
        public var byteCountMax: Int64?
        /// Creates the default rules.
        public init() {}

        public mutating func fields(_ visitor: inout some FieldVisitor) {
            visitor.field(
                "status", &status, ListRule(0...50, of: NoRule()), .plain,
                "Status codes as 404, \"404\" or \"2xx\". Empty: every status for data jobs, 2xx for "
                    + "uploads, and for downloads 2xx without 202 (the server is not ready), 204 and 205 (no "
                    + "file).")
            visitor.field(
                "content_type", &contentTypes, ListRule(0...50, of: .mediaRange), .plain,
                "Media types as \"image/png\" or \"image/*\"; empty: all.")
            visitor.field(
                "max_bytes", &byteCountMax, 0...JSON.safeIntegerMax, .of(unit: .bytes),
                "Largest size of the body; null for no limit.")
        }

        public mutating func check(_ body: FieldDecoder) {
            if let kind = body.context.kind { leaveOutStandard(kind) }
        }

        /// Returns the default of a kind as patterns; empty for downloads, whose default is not a list of
        /// them.
        static func standardStatus(_ kind: JobKind) -> [StatusPattern] {
            switch kind {
            case .data: ["1xx", "2xx", "3xx", "4xx", "5xx"]
            case .upload: ["2xx"]
            case .download: []
            }
        }

        /// Removes the status codes if they are the default.
        mutating func leaveOutStandard(_ kind: JobKind) {
            if !status.isEmpty, status == Self.standardStatus(kind) { status = [] }
        }
    }

    /// Rules for further attempts.
    public struct RetryRules: FieldObject {
        public static let summary =
            "Rules for further attempts. max_delay must not be below a given initial_delay."
        public static let schemaName = "Retry"
        public static let standardTexts: StandardTexts? = StandardTexts(Self.self)
        /// Largest number of failed attempts.
        public var attemptCountMax = 8
        /// Delay after the first failed attempt, in seconds.
        public var delayInitial = 1.0
        /// Factor by which the delay grows with each failed attempt.
        public var multiplier = 2.0
        /// Longest delay, in seconds.
        public var delayMax = 300.0
        /// `true` if a request that is not idempotent (RFC 9110 §9.2.2) is repeated even if it may have
        /// reached the server.
        public var repeatsNonIdempotent = false
        /// `true` if a download resumes although the server gave no validator that would show a change of its
        /// file.
        public var resumesWithoutValidator = false
        /// Status codes that are retried, or `nil` for the default.
        public var statuses: [StatusPattern]?
        /// Kinds of jobs that have `resume_without_validator`.
        static let resumingKinds: JobKinds = .download
        /// Creates the default rules.
        public init() {}

        public mutating func fields(_ visitor: inout some FieldVisitor) {
            visitor.field(
                "max_attempts", &attemptCountMax, 1...Limits.jobAttemptCountMax, .plain,
                "Largest number of failed attempts; in background sessions there is no limit by default.")
            visitor.field(
                "initial_delay", &delayInitial, 0...86_400, .of(unit: .seconds),
                "Delay after the first failed attempt.")
            visitor.field(
                "multiplier", &multiplier, 1...10, .plain,
                "Factor by which the delay grows with each failed attempt.")
            visitor.field("max_delay", &delayMax, 0...86_400, .of(unit: .seconds), "Longest delay.")
            visitor.field(
                "non_idempotent", &repeatsNonIdempotent, .plain,
                "Whether a request that is not idempotent is repeated after it may have reached the server.")
            visitor.field(
                "resume_without_validator", &resumesWithoutValidator, .of(kinds: Self.resumingKinds),
                "Whether an attempt resumes from the bytes of the last one although the server has sent "
                    + "neither a strong ETag nor a safe Last-Modified. Only the length then shows a changed "
                    + "file.")
            visitor.field(
                "statuses", &statuses, ListRule(0...50, of: NoRule()), .plain,
                "Status codes as 404, \"404\" or \"5xx\" that are retried, also with Retry-After; no "
                    + "others are. null: 408, 425, 429, 500, 502, 503, 504, 520 to 524, and every 4xx and "
                    + "5xx with Retry-After.")
        }

        public mutating func check(_ body: FieldDecoder) {
            guard delayMax < delayInitial, body.isGiven("initial_delay") else { return }
            if body.isGiven("max_delay") {
                body.fail("max_delay", "invalid_combination", "This must not be below initial_delay.")
            }
            // An initial delay above the default maximum raises the maximum.
            delayMax = delayInitial
        }
    }

    /// Webhook of a job.
    public struct WebhookSpec: FieldObject {
        public static let summary = "A receiver of the job's events."
        public static let schemaName = "JobWebhook"
        /// URL of the receiver.
        public var url: String { urlText.text }
        private var urlText = URLText("")
        /// Events that are sent.
        public var events: [EventType] = []
        /// A signing secret of the job's own (in `JobSecrets`).
        public var secret = Secret()
        /// Header fields of deliveries besides those of Ferry. The values are empty here;
        /// `JobSecrets.webhookHeaders` has them.
        public var headers: [Pair] = []
        /// Extent to which deliveries contain the job.
        public var payload = WebhookPayload.full
        /// TLS settings of the receiver, or `nil` for the default. The authorities have no text here;
        /// `JobSecrets.webhookTLS` has it.
        public var tls: WebhookTLS?
        /// Creates a webhook without URL.
        public init() {}
        /// Creates a webhook.
        public init(url: String, events: [EventType], hasSecret: Bool) {
            urlText = URLText(url)
            self.events = events
            secret.isSet = hasSecret
        }

        public mutating func fields(_ visitor: inout some FieldVisitor) {
            visitor.field(
                "url", &urlText, .of(required: true, isStoredPlain: true), "URL of the receiver.")
            visitor.field(
                "events", &events, ListRule(1...20, of: EventType.ofJobs), .plain,
                "Types of events that are sent. By default job.succeeded, job.failed, job.cancelled and "
                    + "job.waiting_for_connectivity; for a job with acknowledgement also job.unacknowledged "
                    + "and job.acknowledgement_expired.")
            visitor.field(
                "secret", &secret, .webhookSecret, .plain,
                "Signing secret: whsec_ and the base64 of 24 to 64 bytes. Without one, Ferry's own secret "
                    + "signs.")
            WebhookHeaders.declare(&visitor, &headers)
            WebhookPayload.declare(&visitor, &payload)
            WebhookTLS.declare(&visitor, &tls)
        }

        public mutating func check(_ body: FieldDecoder) {
            WebhookHeaders.check(headers, body)
            WebhookTLS.check(&tls, for: url, of: "webhook", body)
        }

        /// Sets the events of a webhook that names none. `acknowledgement`: rules of the job, or `nil` if it
        /// needs none.
        mutating func setStandardEvents(_ acknowledgement: AcknowledgementRules?) {
            guard events.isEmpty else { return }
            events = EventType.standard + (acknowledgement == nil ? [] : AcknowledgementRules.events)
        }

        /// Moves the texts of secrets to the secrets of the job or session.
        mutating func takeSecrets(into secrets: inout JobSecrets) {
            secrets.webhookSecret = secret.take()
            secrets.webhookHeaders = WebhookHeaders.takeValues(&headers)
            secrets.webhookTLS = WebhookTLS.takeText(&tls)
        }
    }
}

extension TextRule {
    fileprivate static func hexadecimal(byteCount: Int) -> TextRule {
        TextRule(0...Int.max, pattern: "^[0-9A-Fa-f]{\(byteCount * 2)}$") {
            hexDecoded($0)?.count == byteCount ? nil : "This must be \(byteCount * 2) hexadecimal digits."
        }
    }

    fileprivate static let mediaRange = TextRule(
        1...255,
        pattern: #"^(\*/\*|[A-Za-z0-9!#$%&'+.^_`|~-]+/(\*|[A-Za-z0-9!#$%&'+.^_`|~-]+))$"#
    ) {
        isMediaRange($0) ? nil : "This must be a media type such as \"image/png\" or \"image/*\"."
    }

    /// A signing secret of Standard Webhooks.
    static let webhookSecret = TextRule(
        0...256,
        pattern: "^whsec_(([A-Za-z0-9+/]{4}){8,20}([A-Za-z0-9+/]{4}|[A-Za-z0-9+/][AQgw]==|"
            + "[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?|([A-Za-z0-9+/]{4}){21}[A-Za-z0-9+/][AQgw]==)$"
    ) {
        WebhookSecret($0) == nil
            ? "A secret is whsec_ and the base64 of 24 to 64 bytes (Standard Webhooks)." : nil
    }
}

private func isMediaRange(_ text: String) -> Bool {
    let parts = text.split(separator: "/", omittingEmptySubsequences: false)
    guard parts.count == 2 else { return false }
    if parts[0] == "*" { return parts[1] == "*" }
    return HeaderRules.isName(String(parts[0])) && (parts[1] == "*" || HeaderRules.isName(String(parts[1])))
}
