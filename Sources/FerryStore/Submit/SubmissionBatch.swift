import FerryCore
import FerryScheduler
import Logging
import Postgres
import Synchronization
import Sys

/// Way in which a job is leased as it is inserted. The raw value is that of submit_jobs.sql.
enum SubmissionLease: Int32 {
    case none = 0
    /// The job begins at once.
    case begins = 1
    /// The node holds the job until it has a free slot (`HeldAttempts`).
    case held = 2
}

/// Submissions that are committed together, and the reply to each.
struct SubmissionBatch {
    let submissions: [Submission]
    let insertion: JobInsertion
    let now: Timestamp
    private let sessions: SessionSnapshot
    /// Lease of each job to this node as it is inserted, in the order of the submissions.
    var leases: [[SubmissionLease]]
    private var leaseCount = 0
    /// The reserved places of held jobs.
    private var heldPlaces: [HeldAttempts.Place] = []
    /// Number of the node's lease on which `leases` rest; `nil` if no job is leased.
    private let lease: Int?
    /// `true` if the batch is a transaction of its own, and not a part of another one.
    let isAlone: Bool
    /// The latest starts of discretionary jobs; `nil` if that is now.
    private let latestStarts: [JobID: Timestamp?]
    /// The questions of jobs that are to be confirmed and wait for nothing else.
    let questions: [JobID: JobQuestion]

    struct Outcome {
        var results: [Result<Submission.Accepted, StoreError>] = []
        var attempts: [Attempt] = []
        /// Attempts that this node holds until it has a free slot.
        var held: [(attempt: Attempt, urgency: Timestamp, pool: ConnectionPool)] = []
        var jobCount = 0
        var queued: [NewJob] = []
        /// `true` if a job has a webhook of its own, or a client was asked whether a job may begin.
        var tells = false
        /// `queued` by claim queue.
        var additions: [ClaimQueue: Backlog.Addition] = [:]
        /// Of the jobs that wait for their begin date or an answer.
        var earliestBegin: Timestamp?
        /// Of all inserted jobs.
        var earliestExpiry: Timestamp?
        var hasDependencies = false
    }

    /// Reserves slots for jobs that may begin at once, if the batch `isAlone` and no queued job goes before
    /// them.
    init(_ submissions: [Submission], _ insertion: JobInsertion, isAlone: Bool = true) {
        self.submissions = submissions
        self.isAlone = isAlone
        self.insertion = insertion
        now = insertion.context.clock.now()
        sessions = insertion.context.sessions.current
        latestStarts = Self.latestStarts(submissions, insertion, now)
        questions = Self.questions(submissions, now)
        leases = submissions.map { Array(repeating: .none, count: $0.jobs.count) }
        lease =
            isAlone && insertion.nodeState.isLeasing.load(ordering: .relaxed)
            ? insertion.nodeState.lease.number : nil
        // Queued jobs go first: slots are left for as many.
        let slots = insertion.context.configuration.slots
        guard lease != nil, let queued = insertion.queueState.backlog.count else { return }
        var due: [(submission: Int, job: Int)] = []
        var limited: [(submission: Int, job: Int)] = []
        let stopped = slots.tenantsWithoutLoans
        for (index, submission) in submissions.enumerated() {
            for (place, job) in submission.jobs.enumerated()
            where waitingFor(job) == nil && mayBegin(job) && !stopped.contains(job.tenant) {
                if claimQueueName(of: job).origin.isEmpty {
                    due.append((index, place))
                } else if mayHold(job) {
                    limited.append((index, place))
                }
            }
        }
        leaseCount = slots.reserve(upTo: min(due.count, slots.freeCount - queued))
        if leaseCount < due.count {
            due = inOrder(due)
        }
        for next in due.prefix(leaseCount) { leases[next.submission][next.job] = .begins }
        if queued == 0 {
            hold(due.dropFirst(leaseCount))
            hold(limited: limited)
        }
        insertion.nodeState.leaseRegistry.expect(leasedJobs)
    }

    /// Returns jobs in the order of their urgency.
    private func inOrder(_ jobs: [(submission: Int, job: Int)]) -> [(submission: Int, job: Int)] {
        let urgencies = jobs.map { urgency(submissions[$0.submission].jobs[$0.job]) }
        return jobs.indices.sorted { (urgencies[$0], $0) < (urgencies[$1], $1) }.map { jobs[$0] }
    }

    /// Holds jobs in the memory of this node that only the connections of their sessions limit. They begin
    /// when one is free. Jobs that find no place are queued, the least urgent ones first.
    private mutating func hold(limited: [(submission: Int, job: Int)]) {
        guard !limited.isEmpty else { return }
        let bySession = Dictionary(grouping: limited) { place(of: $0) }
        let hasFreeSlots = insertion.context.configuration.slots.freeCount > 0
        for (place, jobs) in bySession {
            let count = insertion.queueState.held.reserve(
                upTo: jobs.count, of: place, hasPeers: false, capacity: 0, hasFreeSlots: hasFreeSlots)
            let chosen = count < jobs.count ? inOrder(jobs)[..<count] : jobs[...]
            heldPlaces += repeatElement(place, count: count)
            for next in chosen { leases[next.submission][next.job] = .held }
        }
    }

    private func place(of next: (submission: Int, job: Int)) -> HeldAttempts.Place {
        HeldAttempts.Place(pool(of: submissions[next.submission].jobs[next.job]))
    }

    /// Returns the connections that a leased job uses.
    private func pool(of job: NewJob) -> ConnectionPool {
        ConnectionPool(
            tenant: job.tenant, session: job.spec.session, origin: isLimited(job) ? job.origin : "")
    }

    /// Returns `true` if the job's session has a limit of connections.
    private func isLimited(_ job: NewJob) -> Bool {
        sessions.share(tenant: job.tenant, session: job.spec.session).connectionLimit != nil
    }

    /// Returns `true` if a job under a limit may be held in memory: this node counts connections alone, and
    /// the request may be repeated. A process that dies cannot tell that it has not been sent.
    private func mayHold(_ job: NewJob) -> Bool {
        guard job.spec.isRequestRepeatable else { return false }
        let scope = insertion.queueState.scope(of: job)
        return insertion.hostState.connections.mayHold(scope, session: job.spec.session)
    }

    /// Holds jobs beyond the free slots in the memory of this node. All are of one session, and their
    /// requests may be repeated: a process that dies cannot tell that they have not begun.
    private mutating func hold(_ due: some Collection<(submission: Int, job: Int)>) {
        let repeatable = due.filter { next in
            let spec = submissions[next.submission].jobs[next.job].spec
            return spec.isRequestRepeatable
        }
        // A job that cannot be held is queued. It must not wait behind those that are.
        guard let first = repeatable.first.map(place), repeatable.count == due.count,
            repeatable.allSatisfy({ place(of: $0) == first })
        else { return }
        let count = insertion.queueState.held.reserve(
            upTo: repeatable.count, of: first,
            hasPeers: insertion.nodeState.hasPeers.load(ordering: .relaxed),
            capacity: insertion.context.configuration.slots.capacity, hasFreeSlots: false)
        heldPlaces += repeatElement(first, count: count)
        for next in repeatable.prefix(count) { leases[next.submission][next.job] = .held }
    }

    /// Makes a batch that is not committed, to read the replies to earlier submissions with the same keys.
    init(refused submissions: [Submission], _ insertion: JobInsertion) {
        self.submissions = submissions
        self.insertion = insertion
        isAlone = true
        lease = nil
        now = insertion.context.clock.now()
        sessions = insertion.context.sessions.current
        latestStarts = [:]
        questions = [:]
        leases = submissions.map { Array(repeating: .none, count: $0.jobs.count) }
    }

    func urgency(_ job: NewJob) -> Timestamp {
        job.spec.urgency(
            createdAt: now, bytesPerSecond: insertion.hostState.throughputs.bytesPerSecond(job.origin))
    }

    /// Returns `true` if the job may be leased as it is inserted, as far as limits of connections allow it.
    /// Suspended jobs may not.
    private func mayBegin(_ job: NewJob) -> Bool {
        !job.spec.startsSuspended && insertion.context.configuration.downloads.admits(job.spec.kind)
            && insertion.context.configuration.quotas.usedUpUntil(job.tenant, at: now) == nil
            && (insertion.hostState.health.unreachable(job.origin) == nil || !job.spec.awaitsHost)
    }

    private func claimQueueName(of job: NewJob) -> ClaimQueueCache.Name {
        insertion.queueState.claimQueueName(
            insertion.queueState.scope(of: job), session: job.spec.session, sessions)
    }

    /// Returns the name of a job's claim queue. A limit of its host that has become known since `init` does
    /// not count for a job that `init` has leased.
    func claimQueueName(submission: Int, place: Int) -> ClaimQueueCache.Name {
        let job = submissions[submission].jobs[place]
        guard leases[submission][place] != .none else { return claimQueueName(of: job) }
        return ClaimQueueCache.Name(
            tenant: job.tenant, session: job.spec.session, origin: pool(of: job).origin)
    }

    /// Gives back what `init` reserved. Called if the commit has failed or has an unknown outcome.
    func abandon() {
        insertion.nodeState.leaseRegistry.dismiss(leasedJobs)
        insertion.context.configuration.slots.release(leaseCount)
        insertion.queueState.held.unreserve(heldPlaces)
    }

    /// Inserts the jobs. `epoch` is that of the sessions with which the jobs were read. If sessions have
    /// changed since, throws an error with `isSessionChange`, and nothing is committed.
    func commit(_ connection: inout Connection, epoch: Int64) throws(PostgresError) -> Outcome {
        let plain = submissions.indices.filter { submissions[$0].idempotency == nil }
        let keyed = submissions.indices.filter { submissions[$0].idempotency != nil }
        let notifies = insertion.nodeState.hasPeers.load(ordering: .relaxed) && !isAllLeased
        let queues = try SubmissionQueues(self, insertion.queueState.claimQueues, &connection)
        let attemptSessions = attemptSessions
        let reading = CookieReading(for: attemptSessions.values)
        let submit = plainParameters(of: plain, queues, epoch: epoch)
        let submitKeyed = keyedParameters(of: keyed, queues, epoch: epoch)
        let changes = firstChanges
        let retries = retries
        for retry in retries { insertion.recentResults.forget(retry.source) }
        var results = try connection.pipeline { pipeline in
            if !reading.isEmpty { pipeline.send(Statements.changedCookies, reading.parameters) }
            if !plain.isEmpty { pipeline.send(Statements.submitJobs, submit) }
            if !keyed.isEmpty { pipeline.send(Statements.submitKeyedJobs, submitKeyed) }
            if hasDependencies { pipeline.send(Statements.addDependencies, .dependencies(submissions)) }
            if sendsUploads { pipeline.send(Statements.addUploadJobs, .uploadJobs(submissions)) }
            if !changes.isEmpty { pipeline.send(Statements.changeJobs, .changes(changes)) }
            if !retries.isEmpty { pipeline.send(Statements.markRetried, markRetried(retries)) }
            if notifies { pipeline.send(Statements.notify, workNotification) }
        }
        if !reading.isEmpty { reading.take(results.take(0), insertion.context) }
        var replays: [Int: Result<Submission.Accepted, StoreError>] = [:]
        if !keyed.isEmpty {
            let rows = results.take((reading.isEmpty ? 0 : 1) + (plain.isEmpty ? 0 : 1))
            let fresh = Set((0..<rows.rowCount).map { Int(rows.int32($0, 0)) })
            let known = keyed.filter { !fresh.contains($0) }
            if !known.isEmpty { replays = try replaysAfterCommit(known, &connection) }
        }
        return outcome(replays, queues, attemptSessions)
    }

    /// The configured sessions of leased jobs.
    private var attemptSessions: [JobID: AttemptSession] {
        guard !sessions.records.isEmpty else { return [:] }
        var found: [JobID: AttemptSession] = [:]
        for (submission, leases) in zip(submissions, leases) {
            for (job, lease) in zip(submission.jobs, leases) where lease != .none {
                found[job.id] = insertion.context.cookies.session(of: job.spec, tenant: job.tenant)
            }
        }
        return found
    }

    // MARK: After the commit

    /// Makes the outcome. `replays` has the replies to submissions that were not inserted.
    private func outcome(
        _ replays: [Int: Result<Submission.Accepted, StoreError>], _ queues: SubmissionQueues,
        _ attemptSessions: [JobID: AttemptSession]
    ) -> Outcome {
        var outcome = Outcome()
        for (index, submission) in submissions.enumerated() {
            if let replay = replays[index] {
                let unused = zip(submission.jobs, leases[index]).filter { $1 != .none }
                insertion.nodeState.leaseRegistry.dismiss(unused.map(\.0.id))
                insertion.context.configuration.slots.release(unused.count { $1 == .begins })
                insertion.queueState.held.unreserve(
                    unused.lazy.filter { $1 == .held }.map { HeldAttempts.Place(pool(of: $0.0)) })
                outcome.results.append(replay)
                continue
            }
            outcome.jobCount += submission.jobs.count
            outcome.tells =
                outcome.tells || !questions.isEmpty || submission.closedGroup != nil
                || submission.jobs.contains { $0.spec.webhook != nil }
            var accepted: [Submission.Accepted.Job] = []
            accepted.reserveCapacity(submission.jobs.count)
            for (place, job) in submission.jobs.enumerated() {
                let lease = leases[index][place]
                switch lease {
                case .begins: outcome.attempts.append(attempt(of: job, attemptSessions[job.id]))
                case .held:
                    outcome.held.append(
                        (attempt(of: job, attemptSessions[job.id]), urgency(job), pool(of: job)))
                case .none where job.spec.startsSuspended:
                    if !job.spec.schedule.dependencies.isEmpty { outcome.hasDependencies = true }
                case .none:
                    switch waitingFor(job) {
                    case nil:
                        outcome.queued.append(job)
                        outcome.additions.add(queues[index, place], urgency(job))
                    case .dependency?: outcome.hasDependencies = true
                    default:
                        outcome.earliestBegin = [outcome.earliestBegin, dueAt(job)]
                            .compactMap(\.self).min()
                    }
                }
                let expiry = job.spec.schedule.expiry(createdAt: now)
                outcome.earliestExpiry = min(outcome.earliestExpiry ?? expiry, expiry)
                accepted.append(acceptance(job, begins: lease == .begins))
            }
            outcome.results.append(.success(Submission.Accepted(jobs: accepted, isReplay: false)))
        }
        insertion.nodeState.leaseRegistry.insert(outcome.attempts.lazy.map { ($0.job, $0.number) })
        insertion.nodeState.leaseRegistry.insert(
            outcome.held.lazy.map { ($0.attempt.job, $0.attempt.number) })
        return outcome
    }

    /// Begins or holds the attempts that were leased and committed, or gives them back if other nodes may
    /// have taken them since.
    func begin(_ outcome: Outcome) {
        guard !outcome.attempts.isEmpty || !outcome.held.isEmpty else { return }
        // The registry has the leases: if the node's lease lapses from now on, they are compared with the
        // database. If it has lapsed since the batch was made, other nodes may have taken this node's jobs
        // before or after the commit.
        guard insertion.nodeState.lease.number == lease else {
            insertion.queueState.giveBack(outcome.attempts)
            insertion.queueState.held.unreserve(outcome.held.lazy.map { HeldAttempts.Place($0.pool) })
            return insertion.queueState.giveBack(submitted: outcome.held.map(\.attempt))
        }
        insertion.queueState.begin(outcome.attempts)
        guard !outcome.held.isEmpty else { return }
        insertion.queueState.held.add(
            submitted: outcome.held, hasPeers: insertion.nodeState.hasPeers.load(ordering: .relaxed),
            at: Sys.monotonicNanoseconds())
        insertion.queueState.beginHeld()
    }

    /// Returns the entry of a job in the reply. `isNew`: `false` if another job of the batch has its key.
    func acceptance(_ job: NewJob, begins: Bool, isNew: Bool = true) -> Submission.Accepted.Job {
        Submission.Accepted.Job(
            id: job.id, state: state(job, begins: begins),
            waitingFor: shownReason(job), createdAt: now, startedAt: begins ? now : nil,
            node: begins ? insertion.context.configuration.node : nil,
            nextAttemptAt: dueAt(job), isNew: isNew)
    }

    private func attempt(of job: NewJob, _ session: AttemptSession?) -> Attempt {
        Attempt(
            job: job.id, number: 1, failedAttemptCount: 0, revision: 1, tenant: job.tenant, createdAt: now,
            startedAt: now, spec: job.spec, storedSpec: job.storedSpec, secrets: job.request.secrets,
            sealedSecrets: job.sealedSecrets, payload: job.request.payload, origin: job.origin,
            scopePath: insertion.queueState.scope(of: job).path, traceparent: job.traceparent,
            retryOf: job.retryOf, isCancelRequested: false, session: session)
    }

    /// Reads the replies to earlier submissions with the same keys. A batch that `isAlone` is committed by
    /// now, so that an error concerns these submissions alone.
    private func replaysAfterCommit(
        _ known: [Int], _ connection: inout Connection
    ) throws(PostgresError) -> [Int: Result<Submission.Accepted, StoreError>] {
        do throws(PostgresError) {
            return try readReplays(known, &connection)
        } catch {
            guard isAlone else { throw error }
            insertion.context.logger.warning(
                "earlier answers could not be read",
                metadata: ["error": "\(error)", "count": "\(known.count)"])
            let unavailable = Result<Submission.Accepted, StoreError>.failure(.unavailable)
            return Dictionary(uniqueKeysWithValues: known.map { ($0, unavailable) })
        }
    }

    func readReplays(
        _ known: [Int], _ connection: inout Connection
    ) throws(PostgresError) -> [Int: Result<Submission.Accepted, StoreError>] {
        var parameters = Parameters()
        parameters.append(keys: known.map { submissions[$0].idempotency }, numbered: known)
        let rows = try connection.execute(Statements.readKeys, parameters)
        // If housekeeping has just removed the key, the client's next try finds it free.
        var replays = Dictionary(uniqueKeysWithValues: known.map { ($0, Self.inProgress) })
        for row in 0..<rows.rowCount {
            let index = Int(rows.int32(row, 0))
            guard rows.bytes(row, 1) == submissions[index].idempotency?.fingerprint else {
                replays[index] = .failure(.idempotencyKeyReused)
                continue
            }
            replays[index] = .success(Submission.Accepted(jobs: Self.acceptedJobs(rows, row), isReplay: true))
        }
        return replays
    }

    private static let inProgress = Result<Submission.Accepted, StoreError>.failure(.idempotencyKeyInProgress)

    /// Reads the columns of read_keys.sql. Empty if the key was not used for a submission of jobs.
    static func acceptedJobs(_ rows: borrowing ResultSet, _ row: Int) -> [Submission.Accepted.Job] {
        let (ids, states, begins) = (
            rows.uuidArray(row, 2), rows.textArray(row, 3), rows.timestampArray(row, 4)
        )
        guard states.count == ids.count else { return [] }
        let (node, createdAt): (NodeID, Timestamp) = (rows.identifier(row, 5), rows.instant(row, 6))
        let existing = rows.bytesOrNil(row, 7)
        return ids.indices.map { index in
            let state = states[index].flatMap(JobState.init) ?? .queued
            let isLeased = state == .running
            let begin = begins[index].map(Timestamp.init(microseconds:))
            return Submission.Accepted.Job(
                id: JobID(high: ids[index]?.high ?? 0, low: ids[index]?.low ?? 0), state: state,
                waitingFor: state != .waiting ? nil : begin == nil ? .dependency : .beginDate,
                createdAt: createdAt, startedAt: isLeased ? createdAt : nil, node: isLeased ? node : nil,
                nextAttemptAt: state == .waiting ? begin : nil,
                isNew: existing.map { $0.indices.contains(index) && $0[index] == 0 } ?? true)
        }
    }

    // MARK: Parameters

    private var isAllLeased: Bool { leases.allSatisfy { !$0.contains(.none) } }

    private var leasedJobs: [JobID] {
        zip(submissions, leases).flatMap { zip($0.jobs, $1).filter { $1 != .none }.map(\.0.id) }
    }

    /// First state of a job. One that this node holds is queued.
    func state(_ job: NewJob, begins: Bool) -> JobState {
        if job.spec.startsSuspended { return .suspended }
        return begins ? .running : waitingFor(job) != nil ? .waiting : .queued
    }

    /// Returns the condition for which a job waits; `nil` if it may begin now, or is suspended: the
    /// conditions still to come are determined when it is resumed.
    func waitingFor(_ job: NewJob) -> WaitingFor? {
        guard !job.spec.startsSuspended else { return nil }
        let schedule = job.spec.schedule
        if !schedule.dependencies.isEmpty { return .dependency }
        if schedule.confirmsBeforeBegin { return .confirmation }
        if schedule.isDiscretionary { return beginAt(job) == nil ? nil : .discretionary }
        return beginAt(job) == nil ? nil : .beginDate
    }

    /// Begin date of a job that waits for nothing else; `nil` if it may begin now.
    private func beginAt(_ job: NewJob) -> Timestamp? {
        guard job.spec.schedule.dependencies.isEmpty else { return nil }
        if job.spec.schedule.isDiscretionary { return latestStarts[job.id] ?? nil }
        return job.spec.schedule.earliestBeginAt.flatMap { $0 > now ? $0 : nil }
    }

    private static func latestStarts(
        _ submissions: [Submission], _ insertion: JobInsertion, _ now: Timestamp
    ) -> [JobID: Timestamp?] {
        var starts: [JobID: Timestamp?] = [:]
        for submission in submissions {
            for job in submission.jobs where job.spec.schedule.isDiscretionary {
                starts[job.id] = job.spec.latestDiscretionaryStart(
                    createdAt: now, now: now,
                    bytesPerSecond: insertion.hostState.throughputs.bytesPerSecond(job.origin))
            }
        }
        return starts
    }

    private static func questions(_ submissions: [Submission], _ now: Timestamp) -> [JobID: JobQuestion] {
        var questions: [JobID: JobQuestion] = [:]
        for submission in submissions {
            for job in submission.jobs where job.spec.schedule.confirmsBeforeBegin {
                questions[job.id] = job.spec.firstQuestion(createdAt: now)
            }
        }
        return questions
    }

    /// Changes of the inserted jobs in the same transaction: discretionary jobs wait, and clients are asked
    /// about jobs that are due.
    private var firstChanges: [JobChange] {
        guard !latestStarts.isEmpty || !questions.isEmpty else { return [] }
        return submissions.flatMap(\.jobs).compactMap { job in
            if let question = questions[job.id] {
                var change = JobChange(.askBeginOnSubmission, job.id)
                change.ask(question)
                return change
            }
            guard waitingFor(job) == .discretionary else { return nil }
            return JobChange(deferring: job.id, job.spec, now: now)
        }
    }

    /// Returns the reason that the API shows: a job to be confirmed waits for its begin date first.
    func shownReason(_ job: NewJob) -> WaitingFor? {
        let waitingFor = waitingFor(job)
        return waitingFor == .confirmation && questions[job.id] == nil ? .beginDate : waitingFor
    }

    /// When what the job waits for is due: for a question, when the default answer applies.
    func dueAt(_ job: NewJob) -> Timestamp? {
        switch waitingFor(job) {
        case .beginDate?, .discretionary?: beginAt(job)
        case .confirmation?: questions[job.id]?.expiresAt ?? job.spec.schedule.earliestBeginAt
        default: nil
        }
    }

    private var sendsUploads: Bool {
        submissions.contains { $0.jobs.contains { !$0.spec.sourceUploads.isEmpty } }
    }

    private var hasDependencies: Bool {
        submissions.contains { $0.jobs.contains { !$0.spec.schedule.dependencies.isEmpty } }
    }

    /// The jobs that are retries, in their order.
    private var retries: [(job: JobID, source: JobID)] {
        var retries: [(job: JobID, source: JobID)] = []
        for submission in submissions {
            for job in submission.jobs {
                if let source = job.retryOf { retries.append((job.id, source)) }
            }
        }
        return retries
    }

    /// The parameters of mark_retried.sql.
    private func markRetried(_ retries: [(job: JobID, source: JobID)]) -> Parameters {
        var parameters = Parameters()
        parameters.appendArray(.uuid, retries) { $0.append($1.job) }
        let notifies = insertion.nodeState.hasPeers.load(ordering: .relaxed)
        parameters.append(text: notifies ? RecentResults.changeNotification : nil)
        return parameters
    }

    private var workNotification: Parameters {
        var parameters = Parameters()
        parameters.append(text: "work")
        return parameters
    }
}
