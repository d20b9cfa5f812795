// The doors between stages: each has two conformers, the real one and the tests'.

/// Where a submission goes. The reply comes after the commit, on the lane's thread: it must not block.
package protocol SubmissionSink: Sendable {
    func submit(_ submission: Submission)
}

/// Jobs that are accepted together or not at all.
package struct Submission: Sendable {
    package let jobs: [NewJob]
    package let idempotency: Idempotency?
    /// `SessionSnapshot.epoch` with which the jobs were read; nil: they were not made of their sessions'
    /// configuration.
    package let sessionEpoch: Int64?
    /// Called exactly once.
    package let reply: @Sendable (Result<Accepted, StoreError>) -> Void

    package init(
        jobs: [NewJob], idempotency: Idempotency?, sessionEpoch: Int64? = nil,
        reply: @escaping @Sendable (Result<Accepted, StoreError>) -> Void
    ) {
        self.jobs = jobs
        self.idempotency = idempotency
        self.sessionEpoch = sessionEpoch
        self.reply = reply
    }

    package struct Idempotency: Sendable, Equatable {
        /// Tenant and key are the scope: a tenant uses a key for one request, whatever its method and path.
        package let tenant: String
        package let key: String
        /// Method and path of the request. Nodes of an older version look for keys by it.
        package let route: String
        /// SHA-256 of method, path and body: what makes a request the same as the first one with the key.
        package let fingerprint: [UInt8]
        package init(tenant: String, route: String, key: String, fingerprint: [UInt8]) {
            self.tenant = tenant
            self.route = route
            self.key = key
            self.fingerprint = fingerprint
        }
    }

    /// One entry a job, in order.
    package struct Accepted: Sendable {
        package struct Job: Sendable {
            package let id: JobID
            package let state: JobState
            /// Of a replay `beginDate` also where the service chooses the moment: that only the job says.
            package let waitingFor: WaitingFor?
            package let createdAt: Timestamp
            /// Set when it was leased to this node with its acceptance.
            package let startedAt: Timestamp?
            package let node: NodeID?
            package let nextAttemptAt: Timestamp?
            package init(
                id: JobID, state: JobState, waitingFor: WaitingFor?, createdAt: Timestamp,
                startedAt: Timestamp?,
                node: NodeID?, nextAttemptAt: Timestamp?
            ) {
                self.id = id
                self.state = state
                self.waitingFor = waitingFor
                self.createdAt = createdAt
                self.startedAt = startedAt
                self.node = node
                self.nextAttemptAt = nextAttemptAt
            }
        }
        package let jobs: [Job]
        /// The same key and body were accepted before: these are that submission's jobs.
        package let isReplay: Bool
        package init(jobs: [Job], isReplay: Bool) {
            self.jobs = jobs
            self.isReplay = isReplay
        }
    }
}

extension JobRecord {
    /// A job as the answer to its submission tells of it.
    package init(
        _ accepted: Submission.Accepted.Job, tenant: String, spec: JobSpec, specJSON: [UInt8], retryOf: JobID?
    ) {
        self.init(
            id: accepted.id, tenant: tenant, state: accepted.state, waitingFor: accepted.waitingFor,
            revision: 1, attempt: accepted.state == .running ? 1 : 0, failedAttemptCount: 0,
            node: accepted.node, createdAt: accepted.createdAt, startedAt: accepted.startedAt,
            finishedAt: nil, nextAttemptAt: accepted.nextAttemptAt, retryOf: retryOf, specJSON: specJSON,
            responseJSON: nil, resultJSON: nil, errorJSON: nil, body: nil)
        self.spec = spec
        let schedule = spec.schedule
        if waitingFor == .beginDate, schedule.isDiscretionary, !schedule.confirmsBeforeBegin {
            waitingFor = .discretionary
        }
        pendingDependencies = schedule.dependsOn
    }

    /// `job`: as it was submitted.
    package init(_ accepted: Submission.Accepted.Job, of job: NewJob) {
        self.init(
            accepted, tenant: job.tenant, spec: job.spec, specJSON: job.specJSON, retryOf: job.retryOf)
    }
}

/// Why the store could not do what it was asked.
package enum StoreError: Error, Sendable, Equatable {
    /// The database cannot be reached or did not answer in time. Nothing is known to be stored: ask again.
    case unavailable
    /// The idempotency key was used for another body.
    case idempotencyKeyReused
    /// A request with the same idempotency key is being processed.
    case idempotencyKeyInProgress
    /// Too much waits in front of the store.
    case overloaded
    /// As many reads of the tenant wait as may.
    case tooManyReads
    /// The database has stopped a read that took too long, or an operator has. Nothing has changed.
    case readStopped
    /// The tenant has as many unfinished jobs as it may have, or nearly so. Seconds until it is worth asking
    /// again.
    case tooManyJobs(max: Int64, retryAfter: Double)
    case notFound
    /// The job is not in a state that allows this.
    case invalidState(JobState, waitingFor: WaitingFor? = nil)
    /// The job asks for no acknowledgement.
    case notAwaited
    /// `If-Match` names another revision than this one; nil: of what has no revisions, another state.
    case stale(revision: Int32?)
    /// The session takes no more jobs.
    case sessionInvalidated
    /// A session of the submission has another configuration by now: it is to be read anew.
    case sessionsChanged
    /// The session is not invalidated, has unfinished jobs, or is the default one.
    case sessionInUse
    /// The tenant has as many configured sessions as it may.
    case tooManySessions
    /// Something that must not happen; details are in the log.
    case failed

    package static func invalidState(of job: JobRecord) -> StoreError {
        .invalidState(job.state, waitingFor: job.waitingFor)
    }
}

/// Runs attempts. Any thread may call; every attempt that is begun ends in exactly one result at the
/// `ResultSink`.
package protocol AttemptRunner: Sendable {
    func begin(_ attempts: [Attempt])
    /// Stops the attempt if it runs here; its result is `cancelled` or `suspended` (or what it became just
    /// before).
    func stop(_ job: JobID, _ how: AttemptStop)
    func progress(of job: JobID) -> TransferProgress?
    /// Another `network.max_bytes_per_second` for a job, if it runs here; nil: none.
    func changeRate(_ job: JobID, bytesPerSecondMax: Int64?)
    /// The limits of the service, and this node's part of what the nodes keep together: those, and the rates
    /// of sessions and origins.
    func setLimits(_ limits: TransferLimits, shares: RateShares)
    /// The most jobs that have moved bytes at once under each of them here, since it was asked last.
    func takeRateDemand() -> RateDemand
    /// Bytes a second of each session that has a limit, of all nodes together.
    func setSessionRates(_ rates: [SessionKey: Int64])
    /// Bytes a second of single origins, shared in the same way; others have none of their own.
    func setHostRates(_ rates: [String: Int64])
}

/// Finds out whether an origin can be reached, without asking it for anything.
package protocol HostProber: Sendable {
    /// Any thread. Replies once, on a thread that must not block; nil: somebody is there.
    func probe(_ origin: String, reply: @escaping @Sendable (TransferError?) -> Void)
}

/// How somebody wants an attempt to end. The raw value is what nodes tell each other.
package enum AttemptStop: String, Sendable, CaseIterable {
    case cancel
    /// Cancels, and leaves the bytes to another job.
    case cancelKeepingBytes = "keep"
    /// Leaves the bytes to the next attempt.
    case suspend
}

extension AttemptRunner {
    package func cancel(_ job: JobID) { stop(job, .cancel) }
}

/// Finds a job of a tenant, finished or not; another tenant's is `notFound`. The reply comes once, on a
/// thread that must not block.
package protocol JobLookup: Sendable {
    func job(_ id: JobID, tenant: String, reply: @escaping Reply<JobRecord>)
}

/// Takes results; they are committed in batches, and the slot is freed afterwards.
package protocol ResultSink: Sendable {
    func record(_ result: AttemptResult)
    /// An attempt goes on from bytes that were there (0: they were of no use), and the job's webhook is to be
    /// told.
    func resumed(_ attempt: Attempt, at offset: Int64)
    /// A request of an attempt that may go on without it was refused, or one that was `unanswered` is not.
    func answered(_ answer: HostResponse)
    /// An attempt's request has had no response for seconds. Returns `false` if that matters to no other job
    /// now: it is to be told again.
    func unanswered(_ attempt: Attempt, at scope: RequestScope) -> Bool
    /// Nothing has moved for a while: others may have its slot. False: too many wait like that.
    func lendSlot(of attempt: Attempt) -> Bool
    /// It needs its slot again; always before its result. Once for each that was lent.
    func takeBackSlot(of attempt: Attempt)
}

/// Admits the connections that attempts want beyond the one to their own origin that each begins with: of
/// parts, mirrors and redirects. Any thread. What an attempt has is given back with its result.
package protocol ConnectionLimiter: Sendable {
    /// Asks for one more connection of an attempt, for requests of a scope. Returns `nil` if the answer comes
    /// to `reply` later: once, on a thread that must not block.
    func ask(
        _ attempt: Attempt, for scope: RequestScope, reply: @escaping @Sendable (ConnectionGrant) -> Void
    ) -> ConnectionGrant?
    /// Gives back a connection that was granted.
    func giveBack(_ attempt: Attempt, _ scope: RequestScope)
    /// Why no request of the scope may be sent now, whatever connections there are. `nil` if it may.
    func hold(on scope: RequestScope) -> HostHold?
}

/// What becomes of a connection that was asked for.
package enum ConnectionGrant: Sendable, Equatable {
    case granted
    case refused(HostHold)
}

/// Says whether this node may still act for the attempts it holds: false once its last heartbeat that the
/// database confirmed is older than the lease allows. Asked before a file gets its final name.
package protocol LeaseHolder: Sendable {
    func holdsLease(of job: JobID, attempt: Int32) -> Bool
}

/// Told after the commit that jobs have become terminal on this node (for `Prefer: wait`), and that there are
/// deliveries.
package protocol CommitObserver: Sendable {
    func jobsFinished(_ jobs: [JobID])
    func deliveriesAdded(_ count: Int)
    /// These jobs are suspended now.
    func jobsSuspended(_ jobs: [JobID])
    /// These jobs are about to be told as finished, and the bytes that they have left are kept for others.
    func jobsLeaveBytes(_ jobs: [JobID])
}

extension CommitObserver {
    package func jobsSuspended(_ jobs: [JobID]) {}
    package func jobsLeaveBytes(_ jobs: [JobID]) {}
}
