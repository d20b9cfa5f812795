/// Failure of an operation of the store.
public enum StoreError: Error, Sendable, Equatable {
    /// The database cannot be reached or did not respond in time. It is not known whether anything was
    /// stored; the client should repeat the request.
    case unavailable
    /// The idempotency key was used for another request.
    case idempotencyKeyReused
    /// A request with the same idempotency key is being processed.
    case idempotencyKeyInProgress
    /// Too many operations wait for the database.
    case overloaded
    /// The tenant has the largest allowed number of waiting reads.
    case tooManyReads
    /// The database or an operator stopped a read that took too long. Nothing has changed.
    case readStopped
    /// Too many events of the tenant have no number yet, so that the job cannot be deleted. It is unchanged.
    case eventsBehind
    /// The tenant has its largest number of unfinished jobs, or nearly so. `retryAfter`: seconds.
    case tooManyJobs(max: Int64, retryAfter: Double)
    /// A limit of the tenant alone allows no more jobs now. `retryAfter`: seconds.
    case quotaExceeded(TenantQuota, max: Int64, retryAfter: Double)
    /// The stored bytes of the tenant have reached its limit.
    case storageQuotaExceeded(max: Int64)
    /// No such object of the tenant.
    case notFound
    /// The job's state does not allow the operation.
    case invalidState(JobState, waitingFor: WaitingFor? = nil)
    /// The job runs, and its request must not be sent again by another attempt.
    case requestNotRepeatable
    /// The job requires no acknowledgement.
    case acknowledgementNotRequired
    /// `If-Match` names another revision than this one, or, with `nil`, another state of an object without
    /// revisions.
    case stale(revision: Int32?)
    /// The session accepts no more jobs.
    case sessionInvalidated
    /// The configuration of a session has changed since the submission was read; read it again.
    case sessionsChanged
    /// The session is not invalidated, has unfinished jobs, or is the default session.
    case sessionInUse
    /// The session is not configured, and keeps no cookies, credentials or connections of its own.
    case sessionNotConfigured
    /// The tenant has its largest number of configured sessions.
    case tooManySessions
    /// The session or its tenant has its largest number of credentials.
    case tooManyCredentials
    /// The tenant has its largest number of running bulk operations.
    case tooManyBulkOperations
    /// The group is closed: only retries of its jobs join it.
    case groupClosed
    /// A group on which a job depends was deleted while the job was submitted.
    case groupMissing
    /// A job with dependencies joins a group on which a job depends.
    case groupAwaited
    /// The tenant has a group with this name.
    case groupExists
    /// The group is not finished.
    case groupUnfinished
    /// The tenant has its largest number of groups.
    case tooManyGroups
    /// The tenant has its largest number of staged uploads.
    case tooManyUploads
    /// An unfinished job needs the upload.
    case uploadInUse
    /// An upload that a job of a schedule sends does not exist.
    case uploadMissing
    /// An upload is not complete, and the job of a schedule that sends it cannot depend on it.
    case uploadIncomplete
    /// A retry has a unique key that this job has.
    case uniqueKeyTaken(JobID)
    /// The content store has no longer the content of a job.
    case contentMissing
    /// A defect; the log has details.
    case failed

    /// Returns the error for the state of a job.
    public static func invalidState(of job: JobRecord) -> StoreError {
        .invalidState(job.state, waitingFor: job.waitingFor)
    }
}
