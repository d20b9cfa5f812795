/// One attempt of a job with all data that the engine needs. Immutable, so it may be used on any thread.
public final class Attempt: Sendable {
    /// The job.
    public let job: JobID
    /// Number of the attempt. A fencing token: it grows with each lease, and every state change names it.
    public let number: Int32
    /// Number of failed attempts before this one, which `retry.max_attempts` limits.
    public let failedAttemptCount: Int32
    /// Revision of the job's fields when the attempt was leased.
    public let revision: Int32
    /// Tenant of the job.
    public let tenant: String
    /// Time of the submission.
    public let createdAt: Timestamp
    /// Time of the lease; of a job that was held since its submission, the begin.
    public let startedAt: Timestamp
    /// The job's fields with decrypted URLs and header fields; credentials are in `secrets`.
    public let spec: JobSpec
    /// The fields as they are stored.
    public let storedSpec: StoredSpec
    /// The decrypted secrets.
    public let secrets: JobSecrets
    /// The secrets as they are stored, or `nil` if there are none.
    public let sealedSecrets: [UInt8]?
    /// Inline request body, or `nil` if there is none.
    public let payload: [UInt8]?
    /// Origin of the request URL.
    public let origin: String
    /// `RequestScope.path` of the job's request.
    public let scopePath: String
    /// Trace context of the submission as stored (`TraceContext`), or `nil` if there is none.
    public let traceparent: String?
    /// The job that this one retries, or `nil`.
    public let retryOf: JobID?
    /// `true` if cancellation was requested while no node ran the job.
    public let isCancelRequested: Bool
    /// The only node that can do the job, as an earlier attempt has found, or `nil` if every node may. If it
    /// is another node than this one, that node is not alive.
    public let home: NodeID?
    /// The request with which the attempt begins, instead of the job's own; `nil`: the job's own.
    public let nextRequest: NextRequest?
    /// Whether it is the end of a copy that the lease is not about: all of its connections are further ones.
    public let isOtherEnd: Bool
    /// Its session, as far as it uses that; `nil` if it is not configured.
    public let session: AttemptSession?

    /// Creates an attempt.
    public init(
        job: JobID, number: Int32, failedAttemptCount: Int32, revision: Int32, tenant: String,
        createdAt: Timestamp,
        startedAt: Timestamp, spec: JobSpec, storedSpec: StoredSpec, secrets: JobSecrets,
        sealedSecrets: [UInt8]? = nil, payload: [UInt8]?, origin: String, scopePath: String,
        traceparent: String?, retryOf: JobID?, isCancelRequested: Bool, home: NodeID? = nil,
        nextRequest: NextRequest? = nil, isOtherEnd: Bool = false, session: AttemptSession? = nil
    ) {
        self.job = job
        self.number = number
        self.failedAttemptCount = failedAttemptCount
        self.revision = revision
        self.tenant = tenant
        self.createdAt = createdAt
        self.startedAt = startedAt
        self.spec = spec
        self.storedSpec = storedSpec
        self.secrets = secrets
        self.sealedSecrets = sealedSecrets
        self.payload = payload
        self.origin = origin
        self.scopePath = scopePath
        self.traceparent = traceparent
        self.retryOf = retryOf
        self.isCancelRequested = isCancelRequested
        self.home = home
        self.nextRequest = nextRequest
        self.isOtherEnd = isOtherEnd
        self.session = session
    }

    /// Returns the attempt as it begins at `now`, some time after its lease.
    public func beginning(at now: Timestamp) -> Attempt {
        Attempt(
            job: job, number: number, failedAttemptCount: failedAttemptCount, revision: revision,
            tenant: tenant, createdAt: createdAt, startedAt: max(now, createdAt), spec: spec,
            storedSpec: storedSpec, secrets: secrets, sealedSecrets: sealedSecrets, payload: payload,
            origin: origin, scopePath: scopePath, traceparent: traceparent, retryOf: retryOf,
            isCancelRequested: isCancelRequested, home: home, nextRequest: nextRequest,
            isOtherEnd: isOtherEnd, session: session)
    }

    /// Returns the attempt with the job's fields after an edit. Its lease, and with it the origin that it may
    /// connect to, stays.
    public func edited(by edit: AttemptEdit) -> Attempt {
        Attempt(
            job: job, number: number, failedAttemptCount: failedAttemptCount, revision: edit.revision,
            tenant: tenant, createdAt: createdAt, startedAt: startedAt, spec: edit.spec,
            storedSpec: edit.storedSpec, secrets: edit.secrets, sealedSecrets: edit.sealedSecrets,
            payload: payload, origin: origin, scopePath: scopePath, traceparent: traceparent,
            retryOf: retryOf,
            isCancelRequested: isCancelRequested, home: home,
            nextRequest: edit.dropsNextRequest(of: self) ? nil : nextRequest, isOtherEnd: isOtherEnd,
            session: session?.with(edit.spec))
    }

    /// Scope of the job's own request.
    public var scope: RequestScope { RequestScope(tenant: tenant, origin: origin, path: scopePath) }

    /// Returns the scope of a request that the attempt sends to `url`: a segment, a mirror or a redirect.
    public func scope(of url: WebURL) -> RequestScope {
        RequestScope(
            tenant: tenant, origin: url.origin,
            path: RequestScope.path(of: url, credentials: RequestScope.credentials(in: scopePath)))
    }

    /// Time by which the job must have ended.
    public var expiry: Timestamp { spec.schedule.expiry(createdAt: createdAt) }

    /// Returns the error of a job that has not ended by `expiry`.
    public func overdue(_ phase: TransferError.Phase) -> TransferError {
        spec.schedule.overdue(createdAt: createdAt, phase: phase)
    }
}

/// Fields of a job that a client has changed while an attempt runs or is about to begin.
public struct AttemptEdit: Sendable {
    /// Number of the attempt.
    public let attempt: Int32
    /// Revision of the job's fields.
    public let revision: Int32
    /// The fields with decrypted URLs and header fields.
    public let spec: JobSpec
    /// The fields as they are stored.
    public let storedSpec: StoredSpec
    /// The decrypted secrets.
    public let secrets: JobSecrets
    /// The secrets as they are stored, or `nil` if there are none.
    public let sealedSecrets: [UInt8]?

    /// Creates an edit.
    public init(
        attempt: Int32, revision: Int32, spec: JobSpec, storedSpec: StoredSpec, secrets: JobSecrets,
        sealedSecrets: [UInt8]? = nil
    ) {
        self.attempt = attempt
        self.revision = revision
        self.spec = spec
        self.storedSpec = storedSpec
        self.secrets = secrets
        self.sealedSecrets = sealedSecrets
    }

    /// Returns `true` if the edited job sends another request than the attempt.
    public func changesRequest(of attempt: Attempt) -> Bool {
        spec.request != attempt.spec.request || secrets != attempt.secrets
    }

    /// Returns `true` if the request with which an attempt begins no longer belongs to the job. An upload
    /// goes on with other credentials, or another signature of its URL.
    public func dropsNextRequest(of attempt: Attempt) -> Bool {
        spec.kind == .upload
            ? !isSameLink(spec.request.url, attempt.spec.request.url) : changesRequest(of: attempt)
    }
}

/// A response as evidence for host control.
public struct HostResponse: Sendable, Equatable {
    /// The job whose request was answered.
    public let job: JobID
    /// Scope of the request that was answered; after a redirect not the scope of the job's own request.
    public let scope: RequestScope
    /// Status code.
    public let status: Int
    /// `Retry-After` in seconds, or `nil` if the response had none.
    public let retryAfter: Double?

    /// Creates a response.
    public init(job: JobID, scope: RequestScope, status: Int, retryAfter: Double?) {
        self.job = job
        self.scope = scope
        self.status = status
        self.retryAfter = retryAfter
    }
}

/// Progress of a running attempt.
public struct TransferProgress: Sendable, Equatable {
    /// Bytes of the body received.
    public var bytesReceived: Int64
    /// Bytes of the whole body to receive, or `nil` if not known.
    public var bytesExpectedToReceive: Int64?
    /// Bytes of the body sent.
    public var bytesSent: Int64
    /// Bytes of the whole body to send, or `nil` if not known.
    public var bytesExpectedToSend: Int64?
    /// The job's own estimate of these bytes, in the direction of its file; `nil` if it has none.
    public var estimate: Estimate?
    /// Rate of the last seconds.
    public var bytesPerSecond: Double
    /// Offset at which a transfer resumed with the bytes of an earlier attempt; 0 if those could not be used,
    /// `nil` if there were none.
    public var resumedAtOffset: Int64?
    /// Size of a body as the job announced it (`expected_bytes_to_receive`, `expected_bytes_to_send`).
    public enum Estimate: Sendable, Equatable {
        case toReceive(Int64)
        case toSend(Int64)
    }

    /// Creates a progress.
    public init(
        bytesReceived: Int64 = 0, bytesExpectedToReceive: Int64? = nil, bytesSent: Int64 = 0,
        bytesExpectedToSend: Int64? = nil, estimate: Estimate? = nil, bytesPerSecond: Double = 0,
        resumedAtOffset: Int64? = nil
    ) {
        self.resumedAtOffset = resumedAtOffset
        self.bytesReceived = bytesReceived
        self.bytesExpectedToReceive = bytesExpectedToReceive
        self.bytesSent = bytesSent
        self.bytesExpectedToSend = bytesExpectedToSend
        self.estimate = estimate
        self.bytesPerSecond = bytesPerSecond
    }
}

/// A job that runs on this node, with its progress.
public struct RunningTransfer: Sendable, Equatable {
    /// The job, its tenant and its session.
    public let job: JobID
    public let tenant: String
    public let session: String
    /// The progress.
    public let progress: TransferProgress
    /// Creates a running transfer.
    public init(job: JobID, tenant: String, session: String, progress: TransferProgress) {
        self.job = job
        self.tenant = tenant
        self.session = session
        self.progress = progress
    }
}
