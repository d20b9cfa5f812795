/// Configuration of a session: the default values of its jobs, and what they share.
public struct SessionConfiguration: FieldObject {
    public static let summary =
        "The default values of a session's jobs, and what they share. Jobs keep the values with which they "
        + "were accepted."

    /// Kind of a session.
    public enum Kind: String, FieldChoice {
        case standard = "default"
        /// Uploads have no inline source, redirects are always followed, and jobs are retried until their
        /// resource timeout.
        case background

        public static var unsupportedValues: [String] { ["ephemeral"] }

        /// Default value of `retry.max_attempts`.
        var attemptCountMax: Int {
            self == .background ? Limits.jobAttemptCountMax : JobSpec.RetryRules().attemptCountMax
        }
    }

    /// Kind of the session.
    public var kind = Kind.standard
    /// Text of the client, or `nil`.
    public var description: String?
    /// Name-value pairs of the client.
    public var metadata: [JobSpec.Pair] = []
    /// The session's share of the slots, in proportion to the weights of other sessions.
    public var weight = 1.0
    /// Connections to one host on all nodes together, or `nil` for no limit.
    public var connectionsPerHostMax: Int? = Limits.sessionConnectionCountMax
    /// Seconds.
    public var timeoutForRequest = 60.0
    /// Seconds.
    public var timeoutForResource = 604_800.0
    /// Default value of `low_speed_limit` and `low_speed_time`.
    public var lowSpeed = LowSpeed()
    /// From 0.0 to 1.0.
    public var priority = 0.5
    /// Default values of `schedule`.
    public var isDiscretionary = false
    public var waitsForConnectivity = false
    public var networkServiceType = JobSpec.NetworkServiceType.standard
    /// Bytes per second of all its transfers on all nodes in each direction, or `nil` for no limit.
    public var bytesPerSecondMax: Int64?
    /// Header fields. Secret values are empty here; `JobSecrets.headers` of the record has them.
    public var headers: [JobSpec.Pair] = []
    /// Origins to which `headers` are sent, or `nil` for all.
    public var headerOrigins: [OriginPattern]?
    /// Proxy, or `nil`.
    public var proxy: ConnectionRules.Proxy?
    /// TLS versions; `nil` for no maximum.
    public var tlsVersionMin = ConnectionRules.TLS.Version.v12
    public var tlsVersionMax: ConnectionRules.TLS.Version?
    /// Default values of the objects of the same names of its jobs, member by member.
    public var redirects = JobSpec.Redirects()
    public var accept = JobSpec.Acceptance()
    public var retry = JobSpec.RetryRules()
    public var network = JobSpec.Network()
    /// Default values of the fields of the same names of its jobs.
    public var onChallenge = JobSpec.ChallengePolicy.fail
    public var onURLExpired = JobSpec.ExpiredURLPolicy.fail
    /// TLS settings besides the versions, or `nil` for the default.
    public var tls: SessionTLS?
    /// Webhook of jobs that name none, or `nil`. Its events are empty if it names none.
    public var webhook: JobSpec.WebhookSpec?
    /// Seconds for which finished jobs and their data are kept, or `nil` for the default of Ferry.
    public var retention: Double?
    /// Rules of acknowledgement, or `nil` if finished jobs need none.
    public var acknowledgement: AcknowledgementRules?
    /// `true` if webhook endpoints get events of its jobs.
    public var sendsLaunchEvents = true
    /// `true` if requests of its jobs send its cookies (URLSession's `httpShouldSetCookies`).
    public var setsCookies = true
    /// Cookies that it keeps.
    public var cookieAcceptPolicy = CookieAcceptPolicy.onlyFromMainDocumentDomain

    /// Creates the default configuration.
    public init() {}

    public mutating func fields(_ visitor: inout some FieldVisitor) {
        visitor.field(
            "kind", &kind, .plain,
            "background: uploads send files or what jobs have stored, redirects are followed, and jobs are "
                + "retried until their resource timeout.")
        visitor.field(
            "description", &description, .description, .plain,
            "Text of the client: at most 1,024 bytes of UTF-8 without U+0000.")
        metadataField(&visitor, &metadata, .plain)
        visitor.field(
            "weight", &weight, 0.01...1_000, .plain,
            "The session's share of the slots, in proportion to the weights of other sessions.")
        visitor.field(
            "http_maximum_connections_per_host", &connectionsPerHostMax, 1...10_000, .plain,
            "Connections to one host on all nodes together; null for no limit. Default: the operator's, "
                + "which is 6 unless the operator changes it.")
        visitor.field(
            "max_bytes_per_second", &bytesPerSecondMax, 1...JSON.safeIntegerMax, .of(unit: .bytesPerSecond),
            "Rate of all its transfers on all nodes, in each direction; null for no limit. A change applies "
                + "at once.")
        visitor.field(
            "retention", &retention, 1...315_360_000, .of(unit: .seconds),
            "Time for which finished jobs and their files are kept; at most Ferry's own, which is the "
                + "default."
        )
        visitor.object(
            "acknowledgement", &acknowledgement, .plain, "Rules of acknowledgement; null for none.")
        visitor.field(
            "sends_launch_events", &sendsLaunchEvents, .of(column: "sends_launch_events"),
            "Whether webhook endpoints get events of its jobs. A job's own webhook always gets them.")
        visitor.field(
            "timeout_for_request", &timeoutForRequest, 1...604_800, .of(unit: .seconds),
            "Default of request.timeout_for_request.")
        visitor.field(
            "timeout_for_resource", &timeoutForResource, 1...31_536_000, .of(unit: .seconds),
            "Default of schedule.timeout_for_resource.")
        lowSpeed.fields(&visitor)
        visitor.field("priority", &priority, 0...1, .plain, "Default of schedule.priority.")
        visitor.field(
            "network_service_type", &networkServiceType, .plain,
            "Default of schedule.network_service_type.")
        visitor.field(
            "discretionary", &isDiscretionary, .plain,
            "Default of schedule.discretionary, ignored where other fields of a job exclude it.")
        visitor.field(
            "waits_for_connectivity", &waitsForConnectivity, .plain,
            "Default of schedule.waits_for_connectivity. By default true in background sessions, and false "
                + "in others.")
        var fields = HeaderMap(headers)
        visitor.field(
            "http_additional_headers", &fields, .plain,
            "Sent unless the job's request names the field itself. Not those that a job may not set, nor "
                + "Content-Type, Content-Encoding, Range and the conditions of a request.")
        headers = fields.lines
        visitor.field(
            "http_additional_headers_origins", &headerOrigins,
            ListRule(0...Limits.additionalHeaderOriginCountMax, of: NoRule()), .plain,
            "The only origins that get http_additional_headers: scheme://host[:port]. The first label of a "
                + "name may be an asterisk (https://*.example.org: any names below example.org). null: all "
                + "origins, also those that a client names in a job.")
        visitor.field(
            "http_should_set_cookies", &setsCookies, .plain,
            "Whether requests of its jobs send the session's cookies. A change applies at once.")
        visitor.field(
            "http_cookie_accept_policy", &cookieAcceptPolicy, .plain,
            "Cookies of responses that the session keeps. only_from_main_document_domain: those of the site "
                + "of the request's main_document_url; all if it has none. A change applies at once.")
        visitor.object("proxy", &proxy, .plain, "Proxy of jobs that name none.")
        visitor.field("tls_minimum_version", &tlsVersionMin, .plain, "Lowest version of TLS.")
        visitor.field(
            "tls_maximum_version", &tlsVersionMax, .plain, "Highest version of TLS; null for no maximum.")
        jobFields(&visitor)
    }

    /// Declares the fields and objects that have the names and rules of those of a job.
    private mutating func jobFields(_ visitor: inout some FieldVisitor) {
        visitor.object(
            "redirects", &redirects, .plain,
            "Defaults of redirects, member by member. Background sessions ignore policy.")
        visitor.object("accept", &accept, .plain, "Defaults of accept, member by member.")
        visitor.object("retry", &retry, .plain, "Defaults of retry, member by member.")
        visitor.object(
            "network", &network, .plain,
            "Defaults of network, member by member. Its max_bytes_per_second is the rate of each job.")
        visitor.field(
            "on_challenge", &onChallenge, .plain,
            "Default of on_challenge, ignored where other fields of a job exclude it.")
        visitor.field(
            "on_url_expired", &onURLExpired, .plain,
            "Default of on_url_expired, ignored where other fields of a job exclude it.")
        visitor.field(
            "cache_policy", &JobSpec.CachePolicy.only, .plain,
            "Default of request.cache_policy.")
        visitor.object(
            "tls", &tls, .plain,
            "Defaults of request.tls besides the versions, member by member; null for none.")
        visitor.object(
            "webhook", &webhook, .plain, "Webhook of jobs that do not name the field; null for none.")
    }

    public static let schemaName = "Session"
    public static func schemaRules(for kind: JobKind?) -> [JSON.Member] {
        JSON.rules(
            #"""
            {
              "not": {
                "required": ["tls_minimum_version", "tls_maximum_version"],
                "properties": {
                  "tls_minimum_version": {"const": "1.3"}, "tls_maximum_version": {"const": "1.2"}
                }
              },
              "examples": [
                {"weight": 2, "http_additional_headers": {"User-Agent": "reports/1"}},
                {"redirects": {"policy": "reject"}, "retry": {"max_attempts": 3}},
                {
                  "http_additional_headers": {"Authorization": "Bearer shop-token"},
                  "http_additional_headers_origins": ["https://shop.example", "https://*.shop.example:8443"]
                }
              ]
            }
            """#)
    }

    public mutating func check(_ body: FieldDecoder) {
        if !body.isGiven("waits_for_connectivity") {
            waitsForConnectivity = kind == .background
        }
        if !body.isGiven("max_attempts", in: "retry") { retry.attemptCountMax = kind.attemptCountMax }
        if tls == SessionTLS() { tls = nil }
        if !body.isGiven("http_maximum_connections_per_host") {
            connectionsPerHostMax = body.context.node.connectionsPerHostMax
        }
        for header in headers where Self.requestFields.contains(header.name.lowercased()) {
            body.fail(
                "http_additional_headers/\(pointerStep(header.name))", "invalid_value",
                "This header field belongs to a single request.")
        }
        let retentionMax = body.context.node.retentionSeconds
        if let retention, retention > retentionMax {
            body.fail("retention", "out_of_range", "This must be from 1 to \(decimalText(retentionMax)).")
        }
        if let tlsVersionMax, tlsVersionMax.rawValue < tlsVersionMin.rawValue {
            body.fail(
                "tls_maximum_version", "invalid_combination", "This must not be below tls_minimum_version.")
        }
    }

    /// Header fields that belong to a single request.
    private static let requestFields: Set<String> = [
        "content-type", "content-encoding", "range", "if-range", "if-match", "if-none-match",
        "if-modified-since", "if-unmodified-since",
    ]
}

/// Way in which a session ends.
public enum SessionInvalidation: String, FieldChoice {
    /// Its jobs continue.
    case finish
    /// Its jobs are cancelled.
    case cancel
}

/// A configured or invalidated session as stored. Immutable.
public final class SessionRecord: Sendable {
    /// Tenant and name.
    public let key: SessionKey
    /// Revision; grows with each change.
    public let revision: Int32
    /// Epoch of the last change that concerns submissions.
    public let epoch: Int64
    /// Times of creation and of the last change.
    public let createdAt: Timestamp
    public let updatedAt: Timestamp
    /// Configuration.
    public let configuration: SessionConfiguration
    /// Secret values of header fields, and secrets of the proxy, the TLS settings and the webhook.
    public let secrets: JobSecrets
    /// `false` if the row is damaged or encrypted with another key.
    public let isReadable: Bool
    /// Way in which the session was invalidated, or `nil`.
    public let invalidation: SessionInvalidation?
    /// Time of the invalidation, or `nil`.
    public let invalidatedAt: Timestamp?
    /// Time at which the last job of an invalidated session ended, or `nil`.
    public let endedAt: Timestamp?
    /// Jobs that begin later use no connection that was made before this time; `nil`: any.
    public let flushedAt: Timestamp?
    /// Credentials for its jobs by name; empty in records that are not those of a `SessionSnapshot`.
    public let credentials: [CredentialRecord]

    /// Creates a record.
    public init(
        _ key: SessionKey, revision: Int32, epoch: Int64, createdAt: Timestamp, updatedAt: Timestamp,
        configuration: SessionConfiguration, secrets: JobSecrets = JobSecrets(),
        isReadable: Bool = true, invalidation: SessionInvalidation? = nil, invalidatedAt: Timestamp? = nil,
        endedAt: Timestamp? = nil, flushedAt: Timestamp? = nil, credentials: [CredentialRecord] = []
    ) {
        self.key = key
        self.revision = revision
        self.epoch = epoch
        self.createdAt = createdAt
        self.updatedAt = updatedAt
        self.configuration = configuration
        self.secrets = secrets
        self.isReadable = isReadable
        self.invalidation = invalidation
        self.invalidatedAt = invalidatedAt
        self.endedAt = endedAt
        self.flushedAt = flushedAt
        self.credentials = credentials
    }
}

/// A session as a client configures it.
public struct SessionDraft: Sendable {
    /// Configuration and secrets.
    public let configuration: SessionConfiguration
    public let secrets: JobSecrets
    /// `secrets`, encrypted, or `nil` if there are none.
    public let sealedSecrets: [UInt8]?

    /// Creates a draft.
    public init(configuration: SessionConfiguration, secrets: JobSecrets, sealedSecrets: [UInt8]?) {
        self.configuration = configuration
        self.secrets = secrets
        self.sealedSecrets = sealedSecrets
    }

    /// Reads and validates a session's configuration. Throws all errors at once. `refusal`: the egress
    /// policy's; `seal`: encrypts secrets.
    public init(
        _ json: JSONView, node: NodeAbilities = NodeAbilities(),
        refusal: @escaping (EndpointAddress) -> String?,
        seal: ([UInt8]) -> [UInt8]
    ) throws(InvalidFields) {
        var configuration = try SessionConfiguration(
            body: json, FieldContext(node: node, refusal: refusal))
        let secrets = configuration.takeSecrets()
        self.init(
            configuration: configuration, secrets: secrets,
            sealedSecrets: secrets.isEmpty ? nil : seal(secrets.encode()))
    }
}

extension SessionInvalidation: ShownValue {}

extension SessionConfiguration {
    /// Moves the texts of secrets out of the configuration.
    fileprivate mutating func takeSecrets() -> JobSecrets {
        var secrets = JobSecrets(headers: headers.takeSecrets())
        var rules = ConnectionRules()
        (rules.proxy, rules.tls) = (proxy, tls?.rules)
        secrets.connection = rules.takeSecrets()
        (proxy, tls) = (rules.proxy, rules.tls.map(SessionTLS.init))
        webhook?.takeSecrets(into: &secrets)
        return secrets
    }
}
