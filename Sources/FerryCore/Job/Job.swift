/// A validated job that is about to be stored.
public final class NewJob: Sendable {
    /// Identifier of the job.
    public let id: JobID
    /// Its tenant.
    public let tenant: String
    /// Request of the client, with the secrets in the clear. A run of a schedule comes without them.
    public let request: JobRequest
    /// `request.spec` as it will be stored.
    public let storedSpec: StoredSpec
    /// `JobSecrets`, encrypted, or `nil` if there are none.
    public let sealedSecrets: [UInt8]?
    /// Scope of the request, without credentials.
    public let scope: RequestScope
    /// `scheme://host:port` of the request, lower case.
    public var origin: String { scope.origin }
    /// Trace context of the submission (`TraceContext`), or `nil`.
    public let traceparent: String?
    /// The job that this one retries, or `nil`.
    public let retryOf: JobID?

    /// Creates a job. `specJSON`: `request.spec` as it will be stored (`JobSpec.encodeStored`).
    public init(
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
    public convenience init(
        id: JobID, tenant: String, _ request: JobRequest, sealing secrets: SecretSeal, traceparent: String?,
        retryOf: JobID?
    ) {
        self.init(
            id: id, tenant: tenant, request, specJSON: request.spec.encodeStored(secrets),
            sealedSecrets: request.secrets.isEmpty ? nil : secrets.seal(request.secrets.encode()),
            traceparent: traceparent, retryOf: retryOf)
    }

    /// The fields of the job.
    public var spec: JobSpec { request.spec }
}

/// A job as stored, for showing it.
public struct JobRecord: Sendable {
    /// Identifier of the job.
    public var id: JobID
    /// Its tenant.
    public var tenant: String
    /// Its state.
    public var state: JobState
    /// Condition for which a waiting job waits; `nil` in other states.
    public var waitingFor: WaitingFor?
    /// Revision of its fields; grows with each change.
    public var revision: Int32
    /// Number of the last attempt, 0 before the first.
    public var attempt: Int32
    /// Number of failed attempts.
    public var failedAttemptCount: Int32
    /// The node of the last attempt, or `nil`.
    public var node: NodeID?
    /// Time of the submission.
    public var createdAt: Timestamp
    /// Start of the first attempt, or `nil`.
    public var startedAt: Timestamp?
    /// Time of the terminal state, or `nil`.
    public var finishedAt: Timestamp?
    /// Time at which a waiting job continues, or `nil`.
    public var nextAttemptAt: Timestamp?
    /// The job that this one retries, or `nil`.
    public var retryOf: JobID?
    /// The first job that retries this one, or `nil`.
    public var retriedBy: JobID?
    /// Name of the job's group, or `nil` if it has none or the group was deleted.
    public var group: String?
    /// The accepted fields as stored; `spec` decodes them.
    public var storedSpec: StoredSpec
    /// The revision since which the job has these fields, or `nil` if they were never edited.
    public var specRevision: Int32?
    /// The fields at earlier revisions that events are about; read only for these events.
    public var earlierSpecs: [Int32: StoredSpec] = [:]
    /// The last response, as stored; `nil` before the end, and if there was none.
    public var storedResponse: Stored<TransferResponse>?
    /// The result of a succeeded job, as stored; `result` decodes it.
    public var storedResult: Stored<TransferResult>?
    /// Error of the job or of its last attempt, as stored; `error` decodes it.
    public var storedError: Stored<ErrorRecord>?
    /// Body of a finished data job if it is stored in the database, else `nil`.
    public var body: [UInt8]?
    /// Opaque text with which another job resumes the bytes of this failed or cancelled one, or `nil`.
    public var resumeData: String?
    /// Bytes of a download while no attempt runs, or `nil`.
    public var partialDownload: PartialDownload?
    /// Time of the acknowledgement, or `nil`.
    public var acknowledgedAt: Timestamp?
    /// The open question (`JobQuestion`) as stored, or `nil`.
    public var questionJSON: [UInt8]?
    /// Unfinished jobs that a job in `waiting` for `dependency` depends on.
    public var pendingDependencies: [JobID] = []
    /// Names of the unfinished groups that such a job depends on.
    public var pendingGroups: [String] = []
    /// Incomplete uploads that such a job depends on.
    public var pendingUploads: [UploadID] = []
    /// The only node that can do the job, or `nil` if every node can.
    public var home: NodeAffinity?
    /// Connections that the session of a queued job has to its host, or `nil` if not known.
    public var sessionConnectionCount: Int?

    /// Creates a record.
    public init(
        id: JobID, tenant: String, state: JobState, waitingFor: WaitingFor?, revision: Int32, attempt: Int32,
        failedAttemptCount: Int32, node: NodeID?, createdAt: Timestamp, startedAt: Timestamp?,
        finishedAt: Timestamp? = nil, nextAttemptAt: Timestamp? = nil, retryOf: JobID?, storedSpec: StoredSpec
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
    }
}

extension JobRecord {
    /// The accepted fields, or `nil` if they are damaged (`StoredSpec.spec`).
    public var spec: JobSpec? { storedSpec.spec }

    /// The last response without secret values, or `nil` if there is none or it is damaged.
    var response: TransferResponse? { readable { () throws(StoredJSONError) in try storedResponse?.read() } }

    /// The result, or `nil` if there is none or it is damaged.
    public var result: TransferResult? {
        readable { () throws(StoredJSONError) in try storedResult?.read() }
    }

    /// Error of the job or of its last attempt; `nil` if there is none, or it is damaged.
    public var error: ErrorRecord? { readable { () throws(StoredJSONError) in try storedError?.read() } }

    /// Returns the last response for a reader: without secret values if those cannot be decrypted.
    func shownResponse(for disclosure: Disclosure) -> ShownResponse? {
        if let seal = disclosure.seal,
            let whole = readable({ () throws(StoredJSONError) in try storedResponse?.read(opening: seal) })
        {
            return ShownResponse(response: whole, isRedacted: false)
        }
        return response.map { ShownResponse(response: $0, isRedacted: true) }
    }

    /// Returns the open question, or `nil` if there is none or it cannot be read. Its secret values are
    /// redacted unless `seal` decrypts them.
    public func question(opening seal: SecretSeal?) -> JobQuestion? {
        guard let questionJSON else { return nil }
        return readable { () throws(StoredJSONError) in
            guard let seal else { return try JobQuestion(storedJSON: questionJSON) }
            return try JobQuestion(storedJSON: questionJSON, opening: seal)
        }
    }

    /// Returns what `read` returns, or `nil` if it throws, which is reported.
    private func readable<Value>(_ read: () throws(StoredJSONError) -> Value?) -> Value? {
        do throws(StoredJSONError) {
            return try read()
        } catch {
            storedSpec.report(error)
            return nil
        }
    }
}

extension ResumePoint {
    /// Returns where the bytes of a job are. `spec`: its fields, with their secrets if the point is sealed.
    public init(_ record: JobRecord, _ spec: JobSpec, upload: ResumableUpload? = nil) {
        self.init(
            tenant: record.tenant, job: record.id, url: spec.request.url,
            originalURL: spec.request.original?.url, location: spec.contentLocation, upload: upload)
    }

    /// Returns where the bytes of a download are; `nil` for other jobs, and if the fields cannot be read.
    public init?(of record: JobRecord) {
        guard let spec = record.spec, spec.kind == .download else { return nil }
        self.init(record, spec)
    }
}
