// Protocols between the stages. Each has two implementations: the real one and that of the tests.

/// Accepts submissions. The reply comes after the commit, on a thread of the store: it must not block.
public protocol SubmissionSink: Sendable {
    /// Submits jobs.
    func submit(_ submission: Submission)
}

/// Jobs that are accepted together or not at all.
public struct Submission: Sendable {
    /// The jobs.
    public let jobs: [NewJob]
    /// `Idempotency-Key` of the request, or `nil`.
    public let idempotency: Idempotency?
    /// Name of the group that is closed with these jobs, or `nil`.
    public let closedGroup: String?
    /// Tenant of the jobs; empty if there are none.
    public let tenant: String
    /// `true` if a job is unique (`JobSpec.unique`).
    public let hasUniqueJobs: Bool
    /// `SessionSnapshot.epoch` of the sessions whose configuration the jobs use, or `nil` if they use none.
    public let sessionEpoch: Int64?
    /// Called exactly once.
    public let reply: @Sendable (Result<Accepted, StoreError>) -> Void

    /// Creates a submission.
    public init(
        jobs: [NewJob], idempotency: Idempotency?, closedGroup: String? = nil, sessionEpoch: Int64? = nil,
        reply: @escaping @Sendable (Result<Accepted, StoreError>) -> Void
    ) {
        self.jobs = jobs
        self.idempotency = idempotency
        self.closedGroup = closedGroup
        tenant = jobs.first?.tenant ?? ""
        hasUniqueJobs = jobs.contains { $0.spec.isUnique }
        self.sessionEpoch = sessionEpoch
        self.reply = reply
    }

    /// Creates the part of a submission that inserts `jobs` in place of its own, without its key. A run of a
    /// schedule without new jobs is skipped: it does not close its group.
    public init(_ submission: Submission, inserting jobs: [NewJob]) {
        self.jobs = jobs
        idempotency = nil
        let isSkipped = jobs.isEmpty && submission.jobs.contains { $0.spec.occurrence != nil }
        closedGroup = isSkipped ? nil : submission.closedGroup
        tenant = submission.tenant
        hasUniqueJobs = submission.hasUniqueJobs
        sessionEpoch = submission.sessionEpoch
        reply = submission.reply
    }

    /// Identity of a request that may be repeated.
    public struct Idempotency: Sendable, Equatable {
        /// Tenant and key together identify a request, whatever its method and path.
        public let tenant: String
        public let key: String
        /// Method and path of the request. Nodes of an older version look keys up by it.
        public let route: String
        /// SHA-256 of method, path and body. A repetition must have the same.
        public let fingerprint: [UInt8]
        /// Creates an identity.
        public init(tenant: String, route: String, key: String, fingerprint: [UInt8]) {
            self.tenant = tenant
            self.route = route
            self.key = key
            self.fingerprint = fingerprint
        }
    }

    /// Result of a submission: one entry per job, in order.
    public struct Accepted: Sendable {
        /// An accepted job.
        public struct Job: Sendable {
            /// Identifier of the job.
            public let id: JobID
            /// State after the acceptance.
            public let state: JobState
            /// Condition for which the job waits. A replay has `beginDate` for `discretionary` and
            /// `confirmation` as well: only the job's fields tell the difference.
            public let waitingFor: WaitingFor?
            /// Time of the submission.
            public let createdAt: Timestamp
            /// Start of the attempt if the job was leased to this node with its acceptance, else `nil`.
            public let startedAt: Timestamp?
            /// Node of the attempt, or `nil`.
            public let node: NodeID?
            /// Time at which a waiting job continues, or `nil`.
            public let nextAttemptAt: Timestamp?
            /// `false` if the job existed before and has the unique key of the submitted one.
            public let isNew: Bool
            /// Creates an entry.
            public init(
                id: JobID, state: JobState, waitingFor: WaitingFor?, createdAt: Timestamp,
                startedAt: Timestamp?,
                node: NodeID?, nextAttemptAt: Timestamp?, isNew: Bool = true
            ) {
                self.isNew = isNew
                self.id = id
                self.state = state
                self.waitingFor = waitingFor
                self.createdAt = createdAt
                self.startedAt = startedAt
                self.node = node
                self.nextAttemptAt = nextAttemptAt
            }
        }
        /// The jobs.
        public let jobs: [Job]
        /// `true` if no job existed before the submission.
        public var areNew: Bool { jobs.allSatisfy(\.isNew) }
        /// `true` if a request with the same key and body was accepted before; these are its jobs.
        public let isReplay: Bool
        /// Creates a result.
        public init(jobs: [Job], isReplay: Bool) {
            self.jobs = jobs
            self.isReplay = isReplay
        }
    }
}

extension JobRecord {
    /// Creates the record of a job for the response to its submission.
    public init(
        _ accepted: Submission.Accepted.Job, tenant: String, spec: JobSpec, storedSpec: StoredSpec,
        retryOf: JobID?
    ) {
        self.init(
            id: accepted.id, tenant: tenant, state: accepted.state, waitingFor: accepted.waitingFor,
            revision: 1, attempt: accepted.state == .running ? 1 : 0, failedAttemptCount: 0,
            node: accepted.node, createdAt: accepted.createdAt, startedAt: accepted.startedAt,
            nextAttemptAt: accepted.nextAttemptAt, retryOf: retryOf, storedSpec: storedSpec)
        let schedule = spec.schedule
        if waitingFor == .beginDate, schedule.isDiscretionary, !schedule.confirmsBeforeBegin {
            waitingFor = .discretionary
        }
        if let question = spec.firstQuestion(createdAt: createdAt), question.expiresAt == nextAttemptAt {
            waitingFor = .confirmation
            questionJSON = question.encodedWithoutSecrets
        }
        pendingDependencies = schedule.dependsOn
        pendingGroups = schedule.groupsOfDependencies
        pendingUploads = schedule.uploadsOfDependencies
    }

    /// Creates the record of an accepted job. `job`: as submitted.
    public init(_ accepted: Submission.Accepted.Job, of job: NewJob) {
        self.init(
            accepted, tenant: job.tenant, spec: job.spec, storedSpec: job.storedSpec, retryOf: job.retryOf)
    }
}

/// An object that a request has created.
public struct Created<Record: Sendable>: Sendable {
    /// The created object, as it is now.
    public let record: Record
    /// `true` if an earlier request with the same key and body has created the object.
    public let isReplay: Bool
    /// `false` if the object existed before the request: a job with the same unique key.
    public let isNew: Bool
    public init(_ record: Record, isReplay: Bool, isNew: Bool = true) {
        self.isNew = isNew
        self.record = record
        self.isReplay = isReplay
    }
}

/// Response to a run of a schedule that a client has requested.
public enum ScheduleRun: Sendable {
    /// The job of a schedule with `job`.
    case job(Created<JobRecord>)
    /// The jobs of a schedule with `jobs`.
    case jobs(Submission.Accepted)
}

/// Runs attempts. May be called on any thread. Every attempt that begins leads to exactly one result at the
/// `ResultSink`.
public protocol AttemptRunner: Sendable {
    /// Begins attempts.
    func begin(_ attempts: [Attempt])
    /// Stops the attempt if it runs here. Its result is `cancelled` or `suspended`, or the one that it had
    /// just before.
    func stop(_ job: JobID, _ how: AttemptStop)
    /// Lets the attempt of a job, if it runs here, use the edited fields: the limit of speed at once, those
    /// of the request for the next one that it sends.
    func adopt(_ edit: AttemptEdit, of job: JobID)
    /// Sets the limits of Ferry, and this node's shares of the limits that nodes keep together.
    func setLimits(_ limits: TransferLimits, shares: RateShares)
    /// Returns the largest number of jobs that moved bytes at once under each limit on this node since the
    /// last call.
    func takeRateDemand() -> RateDemand
    /// Sets the bytes per second of sessions with a limit, of all nodes together.
    func setSessionRates(_ rates: [SessionKey: Int64])
    /// Returns the number of attempts that run here, by tenant.
    func attemptCounts() -> [String: Int]
    /// Lets slow attempts lend their slots while `ResultSink.areSlotsMissing`.
    func lendSlots()
    /// Sets the bytes per second of single origins, shared like those of sessions; other origins have no
    /// limit of their own.
    func setHostRates(_ rates: [String: Int64])
}

/// Finds out whether an origin can be reached, without sending a request.
public protocol HostProber: Sendable {
    /// Connects to the origin. May be called on any thread. Replies once, on a thread that must not block;
    /// `nil` if the origin can be reached.
    func probe(_ origin: String, reply: @escaping @Sendable (TransferError?) -> Void)
}

/// Removes uploads from servers that keep them for jobs that have ended.
public protocol UploadRemover: Sendable {
    /// Removes the upload that `attempt` would continue, under the rules of the job's own requests. May be
    /// called on any thread. Replies once, on a thread that must not block: `nil` if the server has the
    /// upload no longer.
    func removeUpload(of attempt: Attempt, reply: @escaping @Sendable (TransferError?) -> Void)
}

/// Way in which an attempt is stopped. The raw value is sent between nodes.
public enum AttemptStop: String, Sendable, CaseIterable {
    /// Cancels the job.
    case cancel
    /// Cancels the job and leaves its bytes for another job.
    case cancelKeepingBytes = "keep"
    /// Suspends the job and leaves its bytes for its next attempt.
    case suspend
}

extension AttemptRunner {
    /// Cancels a job that runs here.
    public func cancel(_ job: JobID) { stop(job, .cancel) }
}

/// Finds a job of a tenant, finished or not; a job of another tenant is `notFound`. Replies once, on a thread
/// that must not block.
public protocol JobLookup: Sendable {
    /// Looks a job up.
    func job(_ id: JobID, tenant: String, reply: @escaping Reply<JobRecord>)
}

/// Takes the results of attempts. They are committed in batches.
public protocol ResultSink: Sendable {
    /// Records the result of an attempt.
    func record(_ result: AttemptResult)
    /// Reports that an attempt resumes from existing bytes (0 if they could not be used) and that the job's
    /// webhook gets an event.
    func resumed(_ attempt: Attempt, at offset: Int64)
    /// Reports a response as evidence before the attempt ends: to a request that the attempt can do without,
    /// or after `noteUnanswered`.
    func received(_ response: HostResponse)
    /// Reports that a request has had no response for some seconds. Returns `false` if this is of no use to
    /// host control now and must be reported again.
    func noteUnanswered(_ attempt: Attempt, at scope: RequestScope) -> Bool
    /// Lends the slot of a stalled attempt. Returns `false` if too many are lent.
    func lendSlot(of attempt: Attempt) -> Bool
    /// `true` while tenants wait that hold fewer slots than their share.
    var areSlotsMissing: Bool { get }
    /// Lends the slot of a slow attempt to a tenant that waits. Returns `false` if no slot is missing, or too
    /// many are lent.
    func lendSlotEarly(of attempt: Attempt) -> Bool
    /// Makes an early loan an ordinary one: the attempt is stalled by now.
    func settleEarlyLoan(of attempt: Attempt)
    /// Takes a lent slot back. Called once for each loan, before the result of the attempt. `isEarly`: it was
    /// lent early, and `settleEarlyLoan` was not called.
    func takeBackSlot(of attempt: Attempt, isEarly: Bool)
}

/// Grants connections of attempts beyond the first one to their own origin: for segments, mirrors, redirects
/// and the other ends of copies. An attempt begins with the first one; once it has returned that, it asks for
/// it like for others. May be called on any thread. The result of an attempt returns all of its connections.
public protocol ConnectionLimiter: Sendable {
    /// Requests one more connection of an attempt for requests of a scope. Returns `nil` if the decision
    /// comes later: `reply` is then called once, on a thread that must not block.
    func ask(
        _ attempt: Attempt, for scope: RequestScope, reply: @escaping @Sendable (ConnectionGrant) -> Void
    ) -> ConnectionGrant?
    /// Ends the wait of an end of a copy for a connection of a scope: the reply is a refusal, unless another
    /// one was given.
    func endWait(of attempt: Attempt, for scope: RequestScope)
    /// Returns a granted connection; of the attempt's own origin, the first one last.
    func giveBack(_ attempt: Attempt, _ scope: RequestScope)
    /// Returns why no request of the scope may be sent now, whatever the number of connections; `nil` if
    /// requests may be sent.
    func hold(on scope: RequestScope) -> HostHold?
}

/// Decision about a requested connection.
public enum ConnectionGrant: Sendable, Equatable {
    /// The connection may be opened.
    case granted
    /// The host may not be used now.
    case refused(HostHold)
}

/// Tells whether this node may still act for its attempts: `false` once the last heartbeat that the database
/// confirmed is older than the lease allows. Checked before a file gets its final name.
public protocol LeaseHolder: Sendable {
    /// Returns `true` if this node holds the lease of the attempt.
    func holdsLease(of job: JobID, attempt: Int32) -> Bool
}

/// Notes which attempts may have sent a request that must not be sent twice, and which uploads later attempts
/// can continue.
public protocol RequestMarker: Sendable {
    /// Notes this before the first byte of such a request. Replies once, after the commit, on a thread that
    /// must not block: `false` if this node no longer holds the lease, and must send nothing. While the
    /// database is unavailable, the reply waits.
    func mark(_ attempt: Attempt, reply: @escaping @Sendable (Bool) -> Void)
    /// Notes that the server keeps the upload of an attempt: the next attempt continues it, and a request
    /// that was noted with `mark` may be sent again. `nil`: the server keeps it no longer, and neither holds.
    /// An upload that is noted when its job ends is removed from its store. The first note of an upload of
    /// another job, whose resume data the job has, takes it over.
    func note(_ upload: ResumableUpload?, of attempt: Attempt)
}

/// Is called after the commit of jobs that became terminal on this node (for `Prefer: wait`) and of new
/// deliveries.
public protocol CommitObserver: Sendable {
    /// These jobs are terminal.
    func jobsFinished(_ jobs: [JobID])
    /// The results of these attempts came after their leases were lost. What becomes of the jobs is decided
    /// elsewhere.
    func attemptsLost(_ attempts: [LostAttempt])
    /// This many deliveries were added.
    func deliveriesAdded(_ count: Int)
    /// These jobs are suspended.
    func jobsSuspended(_ jobs: [JobID])
    /// These jobs are about to be reported as finished, and their bytes are kept for other jobs.
    func jobsLeaveBytes(_ jobs: [JobID])
    /// Jobs were cancelled while no node ran them, and nothing continues the bytes that their attempts left,
    /// maybe on other nodes.
    func bytesDropped(_ points: [ResumePoint])
}

/// An attempt whose lease was lost.
public struct LostAttempt: Sendable, Equatable {
    /// The job.
    public let job: JobID
    /// Number of the attempt.
    public let number: Int32

    /// Names an attempt.
    public init(job: JobID, number: Int32) {
        self.job = job
        self.number = number
    }
}

extension CommitObserver {
    /// Does nothing.
    public func attemptsLost(_ attempts: [LostAttempt]) {}
    /// Does nothing.
    public func jobsSuspended(_ jobs: [JobID]) {}
    /// Does nothing.
    public func jobsLeaveBytes(_ jobs: [JobID]) {}
    /// Does nothing.
    public func bytesDropped(_ points: [ResumePoint]) {}
}
