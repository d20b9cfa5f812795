/// What is to be transferred.
package enum JobKind: String, Sendable, CaseIterable {
    case download, upload, data
}

/// A job as it was accepted: every field with its effective value. Secrets and bodies are kept apart
/// (`JobSecrets`, `payload`), so that whatever shows a spec shows no secret.
package struct JobSpec: Sendable, Equatable {
    package var kind: JobKind
    package var session: String
    package var description: String?
    /// In the order in which the client named them; names are unique.
    package var metadata: [Pair]
    package var request: RequestSpec
    /// Downloads only. Nil: the service keeps the file.
    package var destination: Destination?
    /// Uploads only.
    package var source: Source?
    package var integrity: Integrity
    package var redirects: Redirects
    package var accept: Acceptance
    package var schedule: Schedule
    /// Bytes per second in either direction; nil: no limit.
    package var bytesPerSecondMax: Int64?
    package var retry: RetryRules
    package var webhook: WebhookSpec?
    /// Downloads by GET: other URLs of the same bytes, in the client's order.
    package var mirrors: [String] = []
    /// Downloads by GET: parts that are fetched at once, at most. From 1.
    package var segmentCountMax = 1
    /// Whether somebody is asked when the server wants credentials; otherwise the job fails.
    package var asksOnChallenge = false
    package var questions = QuestionRules.standard
    var boxedAnswers: Boxed<JobAnswers>?
    var boxedOccurrence: Boxed<ScheduleOccurrence>?
    var boxedAcknowledgement: Boxed<AcknowledgementRules>?
    /// The client has said that nobody waits for an acknowledgement, not even an endpoint that asks.
    package var declinesAcknowledgement = false

    package struct Pair: Sendable, Equatable {
        package var name: String
        package var value: String
        package init(_ name: String, _ value: String) {
            self.name = name
            self.value = value
        }
    }

    package struct RequestSpec: Sendable, Equatable {
        package var url: String
        package var method: String
        /// Secret values (`Authorization`, `Cookie`, …) are empty here; they live in `JobSecrets.headers`.
        package var headers: [Pair]
        /// `data` jobs: what the body is; its bytes are the payload.
        package var body: Body?
        /// Seconds without a byte after which an attempt fails.
        package var timeoutForRequest: Double
        package var acceptEncoding: AcceptEncoding
        var boxedConnection: Boxed<ConnectionRules>?
        var boxedOriginal: Boxed<OriginalRequest>?
        var boxedAdditionalHeaders: Boxed<AdditionalHeaders>?
        package init(
            url: String, method: String, headers: [Pair], body: Body?, timeoutForRequest: Double,
            acceptEncoding: AcceptEncoding = .identity
        ) {
            self.url = url
            self.method = method
            self.headers = headers
            self.body = body
            self.timeoutForRequest = timeoutForRequest
            self.acceptEncoding = acceptEncoding
        }
    }

    /// The content coding (RFC 9110 §8.4.1) that is asked for and undone; `any`: one that is safe to undo.
    package enum AcceptEncoding: String, Sendable, CaseIterable { case identity, gzip, br, any }

    /// The form in which a client gave a body, and the size of its payload in bytes.
    package struct Body: Sendable, Equatable {
        package enum Form: String, Sendable, CaseIterable { case json, form, text, base64, multipart }
        package var form: Form
        package var byteCount: Int
        /// Of `multipart`.
        package var parts: [Part]
        package init(form: Form, byteCount: Int, parts: [Part] = []) {
            self.form = form
            self.byteCount = byteCount
            self.parts = parts
        }
    }

    package struct Destination: Sendable, Equatable {
        package enum IfExists: String, Sendable, CaseIterable { case replace, fail, rename }
        /// Below the tenant's storage root: relative, without `.` or `..` parts. With a slash at its end it
        /// is a directory, and the answer suggests the name.
        package var path: String
        package var ifExists: IfExists
        package init(path: String, ifExists: IfExists) {
            self.path = path
            self.ifExists = ifExists
        }
        package var isDirectory: Bool { path.utf8.last == UInt8(ascii: "/") }
    }

    package enum Source: Sendable, Equatable {
        /// A file below the tenant's storage root.
        case path(String)
        /// What another job of the same tenant has left.
        case job(JobID)
        /// The payload, given as `base64` or `text`.
        case inline(Body)
        /// A `multipart/form-data` body: fields, and last the file that the upload is about.
        case form([Part])
    }

    /// What the bytes must be; digests in lower-case hexadecimal. Nil: not checked.
    package struct Integrity: Sendable, Equatable {
        package var size: Int64?
        package var md5: String?
        package var sha1: String?
        package var sha256: String?
        package var sha512: String?
        package var crc32c: String?
        package var adler32: String?
        package init(
            size: Int64? = nil, md5: String? = nil, sha1: String? = nil, sha256: String? = nil,
            sha512: String? = nil, crc32c: String? = nil, adler32: String? = nil
        ) {
            self.size = size
            self.md5 = md5
            self.sha1 = sha1
            self.sha256 = sha256
            self.sha512 = sha512
            self.crc32c = crc32c
            self.adler32 = adler32
        }
        package var isEmpty: Bool { self == Integrity() }
    }

    package struct Redirects: Sendable, Equatable {
        package enum Policy: String, Sendable, CaseIterable { case follow, reject, ask }
        package var policy: Policy
        package var countMax: Int
        package var sendsCredentialsAcrossOrigins: Bool
        package init(policy: Policy, countMax: Int, sendsCredentialsAcrossOrigins: Bool) {
            self.policy = policy
            self.countMax = countMax
            self.sendsCredentialsAcrossOrigins = sendsCredentialsAcrossOrigins
        }
    }

    /// Decided at the headers; `byteCountMax` on the bytes as well.
    package struct Acceptance: Sendable, Equatable {
        /// `2xx` or three digits. Empty: what the kind says (`standardStatus`).
        package var status: [String]
        /// `type/subtype`, `type/*`. Empty: anything.
        package var contentTypes: [String]
        package var byteCountMax: Int64?
        package init(status: [String] = [], contentTypes: [String] = [], byteCountMax: Int64? = nil) {
            self.status = status
            self.contentTypes = contentTypes
            self.byteCountMax = byteCountMax
        }

        /// What a job of that kind accepts which names nothing: 2xx for files, anything for data.
        static func standardStatus(_ kind: JobKind) -> [String] {
            kind == .data ? ["1xx", "2xx", "3xx", "4xx", "5xx"] : ["2xx"]
        }

        mutating func leaveOutStandard(_ kind: JobKind) {
            if !status.isEmpty, status == Self.standardStatus(kind) { status = [] }
        }
    }

    package struct Schedule: Sendable, Equatable {
        /// 0.0 to 1.0; higher first.
        package var priority: Double
        package var earliestBeginAt: Timestamp?
        package var expectedBytesToSend: Int64?
        package var expectedBytesToReceive: Int64?
        /// Seconds from acceptance, all attempts together.
        package var timeoutForResource: Double
        /// Whether the service chooses the moment.
        package var isDiscretionary = false
        package var networkServiceType = NetworkServiceType.standard
        /// When the job must have ended, whatever `timeoutForResource` says.
        package var deadlineAt: Timestamp?
        package var waitsForConnectivity = true
        /// Jobs of the same tenant that must have ended before this one begins; each occurs once.
        package var dependsOn: [JobID] = []
        package var onDependencyFailure = DependencyFailure.fail
        package var confirmsBeforeBegin = false
        package init(
            priority: Double, earliestBeginAt: Timestamp?, expectedBytesToSend: Int64?,
            expectedBytesToReceive: Int64?, timeoutForResource: Double
        ) {
            self.priority = priority
            self.earliestBeginAt = earliestBeginAt
            self.expectedBytesToSend = expectedBytesToSend
            self.expectedBytesToReceive = expectedBytesToReceive
            self.timeoutForResource = timeoutForResource
        }
    }

    /// What the transfer is for (URLSession's `networkServiceType`), the least urgent first.
    package enum NetworkServiceType: String, Sendable, CaseIterable {
        /// Nobody waits for it.
        case background
        case standard = "default"
        /// A person waits for it.
        case responsiveData = "responsive_data"
    }

    /// What becomes of a job when one that it depends on has not succeeded.
    package enum DependencyFailure: String, Sendable, CaseIterable { case fail, ignore }

    package struct RetryRules: Sendable, Equatable {
        package var attemptCountMax: Int
        /// Seconds.
        package var delayInitial: Double
        package var multiplier: Double
        /// Seconds.
        package var delayMax: Double
        /// Whether a request that is not idempotent (RFC 9110 §9.2.2) is repeated after it reached the
        /// server.
        package var repeatsNonIdempotent: Bool
        /// Whether a download goes on from its bytes although the server has given nothing that would tell
        /// whether its file has changed.
        package var resumesWithoutValidator: Bool
        package init(
            attemptCountMax: Int, delayInitial: Double, multiplier: Double, delayMax: Double,
            repeatsNonIdempotent: Bool, resumesWithoutValidator: Bool = false
        ) {
            self.attemptCountMax = attemptCountMax
            self.delayInitial = delayInitial
            self.multiplier = multiplier
            self.delayMax = delayMax
            self.repeatsNonIdempotent = repeatsNonIdempotent
            self.resumesWithoutValidator = resumesWithoutValidator
        }
    }

    package struct WebhookSpec: Sendable, Equatable {
        package var url: String
        package var events: [EventType]
        /// Whether the job has a signing secret of its own (in `JobSecrets`).
        package var hasSecret: Bool
        package init(url: String, events: [EventType], hasSecret: Bool) {
            self.url = url
            self.events = events
            self.hasSecret = hasSecret
        }
    }

    package init(
        kind: JobKind, session: String, description: String?, metadata: [Pair], request: RequestSpec,
        destination: Destination?, source: Source?, integrity: Integrity, redirects: Redirects,
        accept: Acceptance,
        schedule: Schedule, bytesPerSecondMax: Int64?, retry: RetryRules, webhook: WebhookSpec?
    ) {
        self.kind = kind
        self.session = session
        self.description = description
        self.metadata = metadata
        self.request = request
        self.destination = destination
        self.source = source
        self.integrity = integrity
        self.redirects = redirects
        self.accept = accept
        self.schedule = schedule
        self.bytesPerSecondMax = bytesPerSecondMax
        self.retry = retry
        self.webhook = webhook
    }
}

/// What must not be readable in the database or in any answer.
package struct JobSecrets: Sendable, Equatable {
    /// Header fields whose value is a credential.
    package var headers: [JobSpec.Pair]
    /// `whsec_…` of the job's own webhook.
    package var webhookSecret: String?
    var boxedConnection: Boxed<ConnectionSecrets>?
    /// Whose bytes the job goes on from (`resume_data`).
    package var resumePoint: ResumePoint? {
        get { boxedResumePoint?.value }
        set { boxedResumePoint = newValue.map(Boxed.init) }
    }
    private var boxedResumePoint: Boxed<ResumePoint>?
    package init(headers: [JobSpec.Pair] = [], webhookSecret: String? = nil) {
        self.headers = headers
        self.webhookSecret = webhookSecret
    }
    package var isEmpty: Bool {
        headers.isEmpty && webhookSecret == nil && boxedConnection == nil && boxedResumePoint == nil
    }
}

/// A validated job on its way into the store.
package final class NewJob: Sendable {
    package let id: JobID
    package let tenant: String
    package let spec: JobSpec
    /// `spec` as it is stored (`JobSpec.encodeStored`).
    package let specJSON: [UInt8]
    /// `JobSecrets`, sealed. Nil: none.
    package let sealedSecrets: [UInt8]?
    package let secrets: JobSecrets
    /// The bytes of an inline source or body.
    package let payload: [UInt8]?
    /// `scheme://host:port` of the request, lower case.
    package let origin: String
    /// The trace context of the submission (`TraceContext`).
    package let traceparent: String?
    /// `retry_of`.
    package let retryOf: JobID?

    package init(
        id: JobID, tenant: String, spec: JobSpec, specJSON: [UInt8], sealedSecrets: [UInt8]?,
        secrets: JobSecrets,
        payload: [UInt8]?, origin: String, traceparent: String?, retryOf: JobID?
    ) {
        self.id = id
        self.tenant = tenant
        self.spec = spec
        self.specJSON = specJSON
        self.sealedSecrets = sealedSecrets
        self.secrets = secrets
        self.payload = payload
        self.origin = origin
        self.traceparent = traceparent
        self.retryOf = retryOf
    }
}

/// A job as the store knows it, for those who show it.
package struct JobRecord: Sendable {
    package var id: JobID
    package var tenant: String
    package var state: JobState
    package var waitingFor: WaitingFor?
    package var revision: Int32
    package var attempt: Int32
    package var failedAttemptCount: Int32
    package var node: NodeID?
    package var createdAt: Timestamp
    package var startedAt: Timestamp?
    package var finishedAt: Timestamp?
    package var nextAttemptAt: Timestamp?
    package var retryOf: JobID?
    /// The accepted fields as they are stored (`JobSpec.encodeStored`).
    package var specJSON: [UInt8]
    /// The same, for those who have it; nil: whoever shows the job reads `specJSON`.
    package var spec: JobSpec?
    /// `response`, `result`, `error` as JSON objects; nil where there is none.
    package var responseJSON: [UInt8]?
    package var resultJSON: [UInt8]?
    package var errorJSON: [UInt8]?
    /// The body of a finished data job, when it is kept in the database.
    package var body: [UInt8]?
    /// With it another job goes on from the bytes that a failed or cancelled one has left; opaque.
    package var resumeData: String?
    /// What a download that no attempt is at has got so far.
    package var kept: PartialDownload?
    /// When somebody has said that the result has arrived (`acknowledgement`).
    package var acknowledgedAt: Timestamp?
    /// What is asked about it (`JobQuestion`), as it is stored.
    package var questionJSON: [UInt8]?
    /// The jobs that one in `waiting` for `dependency` still waits for.
    package var pendingDependencies: [JobID] = []
    package var home: NodeAffinity?

    package init(
        id: JobID, tenant: String, state: JobState, waitingFor: WaitingFor?, revision: Int32, attempt: Int32,
        failedAttemptCount: Int32, node: NodeID?, createdAt: Timestamp, startedAt: Timestamp?,
        finishedAt: Timestamp?, nextAttemptAt: Timestamp?, retryOf: JobID?, specJSON: [UInt8],
        responseJSON: [UInt8]?, resultJSON: [UInt8]?, errorJSON: [UInt8]?, body: [UInt8]?
    ) {
        self.id = id
        self.tenant = tenant
        self.state = state
        self.waitingFor = waitingFor
        self.revision = revision
        self.attempt = attempt
        self.failedAttemptCount = failedAttemptCount
        self.node = node
        self.createdAt = createdAt
        self.startedAt = startedAt
        self.finishedAt = finishedAt
        self.nextAttemptAt = nextAttemptAt
        self.retryOf = retryOf
        self.specJSON = specJSON
        self.responseJSON = responseJSON
        self.resultJSON = resultJSON
        self.errorJSON = errorJSON
        self.body = body
    }
}
