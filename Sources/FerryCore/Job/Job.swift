/// Kind of a job.
package enum JobKind: String, Sendable, CaseIterable {
    case download, upload, data
}

/// The fields of an accepted job, each with its effective value. Secrets and bodies are stored apart
/// (`JobSecrets`, `payload`), so that showing a spec shows no secret.
package struct JobSpec: Sendable, Equatable {
    /// Kind of the job.
    package var kind: JobKind
    /// Name of the session.
    package var session: String
    /// Text of the client, or `nil`.
    package var description: String?
    /// Name-value pairs of the client, in its order; names are unique.
    package var metadata: [Pair]
    /// The request.
    package var request: RequestSpec
    /// Destination of a download, or `nil` if Ferry stores the file.
    package var destination: Destination?
    /// Source of an upload; `nil` for other kinds.
    package var source: Source?
    /// Required size and digests.
    package var integrity: Integrity
    /// Rules for redirects.
    package var redirects: Redirects
    /// Responses that are accepted.
    package var accept: Acceptance
    /// Begin date, timeouts and order.
    package var schedule: Schedule
    /// Bytes per second in each direction, or `nil` for no limit.
    package var bytesPerSecondMax: Int64?
    /// Rules for further attempts.
    package var retry: RetryRules
    /// Webhook of the job, or `nil`.
    package var webhook: WebhookSpec?
    /// Other URLs of the same bytes, in the client's order; only for downloads by GET.
    package var mirrors: [String] = []
    /// Largest number of segments that are fetched at once, at least 1; more than 1 only for downloads by
    /// GET.
    package var segmentCountMax = 1
    /// `true` if the job asks for credentials after an authentication challenge; else it fails.
    package var asksOnChallenge = false
    /// Rules for questions.
    package var questions = QuestionRules.standard
    var boxedAnswers: Boxed<JobAnswers>?
    var boxedOccurrence: Boxed<ScheduleOccurrence>?
    var boxedAcknowledgement: Boxed<AcknowledgementRules>?
    /// `true` if the client has declined acknowledgement, even for an endpoint that requires it.
    package var declinesAcknowledgement = false

    /// A name and its value.
    package struct Pair: Sendable, Equatable {
        /// Name.
        package var name: String
        /// Value.
        package var value: String
        /// Creates a pair.
        package init(_ name: String, _ value: String) {
            self.name = name
            self.value = value
        }
    }

    /// The request of a job.
    package struct RequestSpec: Sendable, Equatable {
        /// URL without fragment.
        package var url: String
        /// Method.
        package var method: String
        /// Header fields. Secret values (`Authorization`, `Cookie`, …) are empty here; `JobSecrets.headers`
        /// has them.
        package var headers: [Pair]
        /// Form and size of the body of a `data` job; the bytes are the payload.
        package var body: Body?
        /// Seconds without a byte after which an attempt fails.
        package var timeoutForRequest: Double
        /// Content coding to ask for.
        package var acceptEncoding: AcceptEncoding
        var boxedConnection: Boxed<ConnectionRules>?
        var boxedOriginal: Boxed<OriginalRequest>?
        var boxedAdditionalHeaders: Boxed<AdditionalHeaders>?
        /// Creates a request.
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

    /// Content coding (RFC 9110 §8.4.1) that the job asks for and decodes; `any` means all that can be
    /// decoded safely.
    package enum AcceptEncoding: String, Sendable, CaseIterable { case identity, gzip, br, any }

    /// The form in which the client gave a body, and the size of its payload in bytes.
    package struct Body: Sendable, Equatable {
        /// Member of the request in which the body was given.
        package enum Form: String, Sendable, CaseIterable { case json, form, text, base64, multipart }
        /// Form.
        package var form: Form
        /// Bytes of the payload.
        package var byteCount: Int
        /// Parts of a `multipart` body.
        package var parts: [Part]
        /// Creates a body.
        package init(form: Form, byteCount: Int, parts: [Part] = []) {
            self.form = form
            self.byteCount = byteCount
            self.parts = parts
        }
    }

    /// Destination of a download.
    package struct Destination: Sendable, Equatable {
        /// What to do if the file exists.
        package enum IfExists: String, Sendable, CaseIterable { case replace, fail, rename }
        /// Path below the tenant's storage root: relative, without `.` or `..` segments. With a slash at the
        /// end it is a directory, and the response suggests the file name.
        package var path: String
        /// What to do if the file exists.
        package var ifExists: IfExists
        /// Creates a destination.
        package init(path: String, ifExists: IfExists) {
            self.path = path
            self.ifExists = ifExists
        }
        /// `true` if the path is a directory.
        package var isDirectory: Bool { path.utf8.last == UInt8(ascii: "/") }
    }

    /// Source of an upload.
    package enum Source: Sendable, Equatable {
        /// A file below the tenant's storage root.
        case path(String)
        /// The file of another job of the same tenant.
        case job(JobID)
        /// The payload, given as `base64` or `text`.
        case inline(Body)
        /// A `multipart/form-data` body of fields, with the uploaded file as last part.
        case form([Part])
    }

    /// Required properties of the bytes; digests in lower-case hexadecimal. `nil` means that the property is
    /// not checked.
    package struct Integrity: Sendable, Equatable {
        /// Bytes.
        package var size: Int64?
        /// Digests and checksums.
        package var md5: String?
        package var sha1: String?
        package var sha256: String?
        package var sha512: String?
        package var crc32c: String?
        package var adler32: String?
        /// Creates requirements.
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
        /// `true` if nothing is checked.
        package var isEmpty: Bool { self == Integrity() }
    }

    /// Rules for redirects.
    package struct Redirects: Sendable, Equatable {
        /// What to do with a redirect.
        package enum Policy: String, Sendable, CaseIterable { case follow, reject, ask }
        /// What to do with a redirect.
        package var policy: Policy
        /// Largest number of redirects of an attempt.
        package var countMax: Int
        /// `true` if credentials are sent to other origins.
        package var sendsCredentialsAcrossOrigins: Bool
        /// Creates rules.
        package init(policy: Policy, countMax: Int, sendsCredentialsAcrossOrigins: Bool) {
            self.policy = policy
            self.countMax = countMax
            self.sendsCredentialsAcrossOrigins = sendsCredentialsAcrossOrigins
        }
    }

    /// Responses that are accepted. Checked when the header section arrives; `byteCountMax` also while the
    /// body arrives.
    package struct Acceptance: Sendable, Equatable {
        /// Status codes as `2xx` or three digits; empty for the default of the kind (`standardStatus`).
        package var status: [String]
        /// Media types as `type/subtype` or `type/*`; empty for all.
        package var contentTypes: [String]
        /// Largest size of the body in bytes, or `nil` for no limit.
        package var byteCountMax: Int64?
        /// Creates rules.
        package init(status: [String] = [], contentTypes: [String] = [], byteCountMax: Int64? = nil) {
            self.status = status
            self.contentTypes = contentTypes
            self.byteCountMax = byteCountMax
        }

        /// Returns the default of a kind: 2xx for files, every status for data.
        static func standardStatus(_ kind: JobKind) -> [String] {
            kind == .data ? ["1xx", "2xx", "3xx", "4xx", "5xx"] : ["2xx"]
        }

        /// Removes the status codes if they are the default.
        mutating func leaveOutStandard(_ kind: JobKind) {
            if !status.isEmpty, status == Self.standardStatus(kind) { status = [] }
        }
    }

    /// Begin date, timeouts and order of a job.
    package struct Schedule: Sendable, Equatable {
        /// From 0.0 to 1.0; jobs with a higher value are earlier.
        package var priority: Double
        /// Time before which the job does not begin, or `nil`.
        package var earliestBeginAt: Timestamp?
        /// Expected bytes of the bodies, or `nil` if not known.
        package var expectedBytesToSend: Int64?
        package var expectedBytesToReceive: Int64?
        /// Seconds from acceptance for all attempts together.
        package var timeoutForResource: Double
        /// `true` if Ferry chooses the time to begin.
        package var isDiscretionary = false
        /// Purpose of the transfer.
        package var networkServiceType = NetworkServiceType.standard
        /// Time by which the job must have ended, in addition to `timeoutForResource`; `nil` if there is
        /// none.
        package var deadlineAt: Timestamp?
        /// `true` if the job waits while its host cannot be reached; else it uses attempts.
        package var waitsForConnectivity = true
        /// Jobs of the same tenant that must have ended before this one begins; each occurs once.
        package var dependsOn: [JobID] = []
        /// What to do if such a job has not succeeded.
        package var onDependencyFailure = DependencyFailure.fail
        /// `true` if the job waits for confirmation before it begins.
        package var confirmsBeforeBegin = false
        /// Creates a schedule with default values for the rest.
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

    /// Purpose of a transfer (URLSession's `networkServiceType`), the least urgent first.
    package enum NetworkServiceType: String, Sendable, CaseIterable {
        /// No person waits for it.
        case background
        case standard = "default"
        /// A person waits for it.
        case responsiveData = "responsive_data"
    }

    /// What to do with a job if one that it depends on has not succeeded.
    package enum DependencyFailure: String, Sendable, CaseIterable { case fail, ignore }

    /// Rules for further attempts.
    package struct RetryRules: Sendable, Equatable {
        /// Largest number of failed attempts.
        package var attemptCountMax: Int
        /// Delay after the first failed attempt, in seconds.
        package var delayInitial: Double
        /// Factor by which the delay grows with each failed attempt.
        package var multiplier: Double
        /// Longest delay, in seconds.
        package var delayMax: Double
        /// `true` if a request that is not idempotent (RFC 9110 §9.2.2) is repeated even if it may have
        /// reached the server.
        package var repeatsNonIdempotent: Bool
        /// `true` if a download resumes although the server gave no validator that would show a change of its
        /// file.
        package var resumesWithoutValidator: Bool
        /// Creates rules.
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

    /// Webhook of a job.
    package struct WebhookSpec: Sendable, Equatable {
        /// URL of the receiver.
        package var url: String
        /// Events that are sent.
        package var events: [EventType]
        /// `true` if the job has a signing secret of its own (in `JobSecrets`).
        package var hasSecret: Bool
        /// Creates a webhook.
        package init(url: String, events: [EventType], hasSecret: Bool) {
            self.url = url
            self.events = events
            self.hasSecret = hasSecret
        }
    }

    /// Creates a spec with default values for the rest.
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

/// Secrets of a job, which are stored encrypted and never shown.
package struct JobSecrets: Sendable, Equatable {
    /// Header fields whose value is secret.
    package var headers: [JobSpec.Pair]
    /// Signing secret `whsec_…` of the job's own webhook, or `nil`.
    package var webhookSecret: String?
    var boxedConnection: Boxed<ConnectionSecrets>?
    /// The job whose bytes this one resumes from (`resume_data`), or `nil`.
    package var resumePoint: ResumePoint? {
        get { boxedResumePoint?.value }
        set { boxedResumePoint = newValue.map(Boxed.init) }
    }
    private var boxedResumePoint: Boxed<ResumePoint>?
    /// Creates secrets.
    package init(headers: [JobSpec.Pair] = [], webhookSecret: String? = nil) {
        self.headers = headers
        self.webhookSecret = webhookSecret
    }
    /// `true` if there are no secrets.
    package var isEmpty: Bool {
        headers.isEmpty && webhookSecret == nil && boxedConnection == nil && boxedResumePoint == nil
    }
}

/// A validated job that is about to be stored.
package final class NewJob: Sendable {
    /// Identifier of the job.
    package let id: JobID
    /// Its tenant.
    package let tenant: String
    /// Its fields.
    package let spec: JobSpec
    /// `spec` as stored (`JobSpec.encodeStored`).
    package let specJSON: [UInt8]
    /// `JobSecrets`, encrypted, or `nil` if there are none.
    package let sealedSecrets: [UInt8]?
    /// The same in the clear.
    package let secrets: JobSecrets
    /// Bytes of an inline source or body, or `nil`.
    package let payload: [UInt8]?
    /// `scheme://host:port` of the request, lower case.
    package let origin: String
    /// Trace context of the submission (`TraceContext`), or `nil`.
    package let traceparent: String?
    /// The job that this one retries, or `nil`.
    package let retryOf: JobID?

    /// Creates a job.
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

/// A job as stored, for showing it.
package struct JobRecord: Sendable {
    /// Identifier of the job.
    package var id: JobID
    /// Its tenant.
    package var tenant: String
    /// Its state.
    package var state: JobState
    /// What a waiting job waits for; `nil` in other states.
    package var waitingFor: WaitingFor?
    /// Revision of its fields; grows with each change.
    package var revision: Int32
    /// Number of the last attempt, 0 before the first.
    package var attempt: Int32
    /// Number of failed attempts.
    package var failedAttemptCount: Int32
    /// The node of the last attempt, or `nil`.
    package var node: NodeID?
    /// Time of the submission.
    package var createdAt: Timestamp
    /// Start of the first attempt, or `nil`.
    package var startedAt: Timestamp?
    /// Time of the terminal state, or `nil`.
    package var finishedAt: Timestamp?
    /// Time at which a waiting job continues, or `nil`.
    package var nextAttemptAt: Timestamp?
    /// The job that this one retries, or `nil`.
    package var retryOf: JobID?
    /// The accepted fields as stored (`JobSpec.encodeStored`).
    package var specJSON: [UInt8]
    /// The decoded fields, or `nil` if the user of this record has to decode `specJSON`.
    package var spec: JobSpec?
    /// `response`, `result` and `error` as JSON objects, or `nil` if there is none.
    package var responseJSON: [UInt8]?
    package var resultJSON: [UInt8]?
    package var errorJSON: [UInt8]?
    /// Body of a finished data job if it is stored in the database, else `nil`.
    package var body: [UInt8]?
    /// Opaque text with which another job resumes the bytes of this failed or cancelled one, or `nil`.
    package var resumeData: String?
    /// Bytes of a download while no attempt runs, or `nil`.
    package var partialDownload: PartialDownload?
    /// Time of the acknowledgement, or `nil`.
    package var acknowledgedAt: Timestamp?
    /// The open question (`JobQuestion`) as stored, or `nil`.
    package var questionJSON: [UInt8]?
    /// Unfinished jobs that a job in `waiting` for `dependency` depends on.
    package var pendingDependencies: [JobID] = []
    /// The only node that can do the job, or `nil` if every node can.
    package var home: NodeAffinity?

    /// Creates a record.
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
