/// Kind of a job.
package enum JobKind: String, Sendable, CaseIterable {
    case download, upload, data
}

/// Secrets of a job, which are stored encrypted and never shown.
package struct JobSecrets: Sendable, Equatable {
    /// Header fields whose value is secret.
    package var headers: [JobSpec.Pair]
    /// Signing secret `whsec_…` of the job's own webhook, or `nil`.
    package var webhookSecret: String?
    /// Header fields of deliveries to the job's own webhook.
    package var webhookHeaders: [JobSpec.Pair] = []
    /// TLS settings of the job's own webhook with the text of the authorities, or `nil` for the default.
    package var webhookTLS: WebhookTLS? {
        get { boxedWebhookTLS?.value }
        set { boxedWebhookTLS = newValue.map(Boxed.init) }
    }
    private var boxedWebhookTLS: Boxed<WebhookTLS>?
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
        headers.isEmpty && webhookSecret == nil && webhookHeaders.isEmpty && boxedWebhookTLS == nil
            && boxedConnection == nil && boxedResumePoint == nil
    }
}

/// A validated job that is about to be stored.
package final class NewJob: Sendable {
    /// Identifier of the job.
    package let id: JobID
    /// Its tenant.
    package let tenant: String
    /// What the client asks for, with the secrets in the clear. A run of a schedule comes without them.
    package let request: JobRequest
    /// `request.spec` as it will be stored.
    package let storedSpec: StoredSpec
    /// `JobSecrets`, encrypted, or `nil` if there are none.
    package let sealedSecrets: [UInt8]?
    /// Scope of the request, without credentials.
    package let scope: RequestScope
    /// `scheme://host:port` of the request, lower case.
    package var origin: String { scope.origin }
    /// Trace context of the submission (`TraceContext`), or `nil`.
    package let traceparent: String?
    /// The job that this one retries, or `nil`.
    package let retryOf: JobID?

    /// Creates a job. `specJSON`: `request.spec` as it will be stored (`JobSpec.encodeStored`).
    package init(
        id: JobID, tenant: String, _ request: JobRequest, specJSON: [UInt8], sealedSecrets: [UInt8]?,
        traceparent: String?, retryOf: JobID?
    ) {
        self.id = id
        self.tenant = tenant
        self.request = request
        storedSpec = StoredSpec(request.spec, json: specJSON)
        self.sealedSecrets = sealedSecrets
        let url = request.spec.request.webURL
        scope = RequestScope(
            tenant: tenant, origin: url.origin, path: RequestScope.path(of: url, credentials: nil))
        self.traceparent = traceparent
        self.retryOf = retryOf
    }

    /// Creates a job of a request. `secrets`: encrypts what may be secret.
    package convenience init(
        id: JobID, tenant: String, _ request: JobRequest, sealing secrets: SecretSeal, traceparent: String?,
        retryOf: JobID?
    ) {
        self.init(
            id: id, tenant: tenant, request, specJSON: request.spec.encodeStored(secrets),
            sealedSecrets: request.secrets.isEmpty ? nil : secrets.seal(request.secrets.encode()),
            traceparent: traceparent, retryOf: retryOf)
    }

    /// The fields of the job.
    package var spec: JobSpec { request.spec }
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
    /// The accepted fields as stored; `spec` decodes them.
    package var storedSpec: StoredSpec
    /// The revision since which the job has these fields, or `nil` if they were never edited.
    package var specRevision: Int32?
    /// The fields at earlier revisions that events are about; read only for these events.
    package var earlierSpecs: [Int32: StoredSpec] = [:]
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
    /// Connections that the session of a queued job has to its host, or `nil` if not known.
    package var sessionConnectionCount: Int?

    /// Creates a record.
    package init(
        id: JobID, tenant: String, state: JobState, waitingFor: WaitingFor?, revision: Int32, attempt: Int32,
        failedAttemptCount: Int32, node: NodeID?, createdAt: Timestamp, startedAt: Timestamp?,
        finishedAt: Timestamp?, nextAttemptAt: Timestamp?, retryOf: JobID?, storedSpec: StoredSpec,
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
        self.storedSpec = storedSpec
        self.responseJSON = responseJSON
        self.resultJSON = resultJSON
        self.errorJSON = errorJSON
        self.body = body
    }
}
