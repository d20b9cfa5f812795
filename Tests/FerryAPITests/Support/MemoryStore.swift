import FerryAPI
import FerryCore
import Glibc
import Synchronization

/// The store's ports in memory. Replies are called immediately, on the caller's thread.
final class MemoryStore: SubmissionSink, JobReader, JobControl, DeliveryReader, EventReader, EventFeed,
    NodeOperations, LimitStore, HostStore, DependencyStore, SubmissionReader, AnswerSink, SessionStore,
    CookieStore, CredentialStore, ContentStore,
    ServiceControl, TenantReader, AuditLog
{
    func answer(
        _ id: JobID, tenant: String, revision: Int32?, kind: JobQuestion.Kind, askedAt: Timestamp?,
        _ resolve:
            @escaping @Sendable (JobRequest, JobQuestion, Int32) throws(InvalidFields) ->
            AnswerResolution,
        reply: @escaping Reply<Result<JobRecord, InvalidFields>>
    ) {
        reply(
            found(id, tenant).flatMap { job in
                guard let spec = job.spec, let question = job.question(opening: nil),
                    question.kind == kind, askedAt == nil || askedAt == question.askedAt
                else { return .failure(.invalidState(job.state)) }
                do throws(InvalidFields) {
                    _ = try resolve(JobRequest(spec, JobSecrets()), question, job.attempt)
                } catch {
                    return .success(.failure(error))
                }
                return .success(.success(job))
            })
    }

    func missing(_ jobs: [JobID], tenant: String, reply: @escaping Reply<[JobID]>) {
        prepareDependencies(jobs, tenant: tenant, reply: reply)
    }

    func prepareDependencies(_ jobs: [JobID], tenant: String, reply: @escaping Reply<[JobID]>) {
        reply(.success(jobs.filter { state.withLock { $0 }.jobs[$0]?.tenant != tenant }))
    }

    func firstAcceptance(of key: Submission.Idempotency, reply: @escaping Reply<Submission.Accepted?>) {
        guard let first = state.withLock({ $0.idempotency["\(key.tenant) \(key.route) \(key.key)"] }) else {
            return reply(.success(nil))
        }
        guard first.fingerprint == key.fingerprint else { return reply(.failure(.idempotencyKeyReused)) }
        reply(.success(Submission.Accepted(jobs: first.jobs, isReplay: true)))
    }

    struct State {
        var jobs: [JobID: JobRecord] = [:]
        var sources: [JobID: NewJob] = [:]
        var idempotency: [String: (fingerprint: [UInt8], jobs: [Submission.Accepted.Job])] = [:]
        var keys: [APIKey] = []
        var firstKeys: [String: (fingerprint: [UInt8], id: KeyID, sealedText: [UInt8])] = [:]
        var deliveries: [DeliveryRecord] = []
        var contents: [JobID: any OpenContent] = [:]
        /// Error of every opened file.
        var fileFailure: StoreError?
        var submissions: [Submission] = []
        /// Error of every call.
        var failure: StoreError?
        /// Listing jobs in this state fails.
        var unreadable: JobState?
        /// Number of jobs that one scan reads.
        var scanCount = Int.max
        /// Called after a submission is accepted.
        var afterSubmit: (@Sendable (JobID) -> Void)?
        var queries: [JobQuery] = []
        /// Dimensions of the summaries that were asked for, and the response to each.
        var summaries: [[SummaryDimension]] = []
        var summary = JobSummary(rows: [], isExact: true)
        /// Packed attempts of every job.
        var attempts: [[UInt8]] = []
        var limits = TransferLimits()
        var tenantLimits: [String: TenantLimits] = [:]
        var sessions: [SessionKey: SessionRecord] = [:]
        var credentials: [SessionKey: [String: CredentialRecord]] = [:]
        /// Number of submissions that fail with `sessionsChanged`.
        var outdatedCount = 0
        var isPaused = false
        var running: [RunningTransfer] = []
        var tenants = [TenantStatus(tenant: "a", waiting: 1, queued: 2, running: 3, suspended: 4)]
        /// Nodes beside this one.
        var otherNodes: [NodeStatus] = []
        var drained: Set<NodeID> = []
        var audit: [AuditEntry] = []
        /// The log, oldest event first.
        var events: [EventEntry] = []
        /// `true` if there are events that are not in the log yet.
        var hasUnnumberedEvents = false
        var sink: (any EventSink)?
        var webhooks: [WebhookRecord] = []
        /// Endpoints that an admin key has created.
        var operatorWebhooks: Set<WebhookID> = []
        var webhookKeys: [String: (fingerprint: [UInt8], made: CreatedWebhook)] = [:]
        var replays: [(since: Timestamp, until: Timestamp?, onlyFailed: Bool)] = []
        var hosts: [String: HostRecord] = [:]
        var hostCountMax = 10
        var windows = OffPeakWindows()
        var schedules: [ScheduleID: ScheduleRecord] = [:]
        var scheduledJobs: [ScheduleID: ScheduleJobs] = [:]
        var scheduleKeys: [String: ScheduleID] = [:]
        var groups: [JobGroup] = []
        var uploads: [StagedUpload] = []
        var groupKeys: [String: JobGroupID] = [:]
        var bulkOperations: [BulkOperationID: BulkOperation] = [:]
        var newBulkOperations: [NewBulkOperation] = []
        var bulkKeys: [String: BulkOperationID] = [:]
    }
    let sessionCache = SessionCache()
    let cookieStorages: CookieStorages
    let state = Mutex(State())

    init() { cookieStorages = CookieStorages(of: sessionCache, publicSuffixes: .installed) }

    func edit(
        _ id: JobID, tenant: String, revision: Int32?,
        _ change: @escaping @Sendable (JobRequest) throws(InvalidFields) -> JobRequest,
        reply: @escaping Reply<Result<JobRecord, InvalidFields>>
    ) {
        reply(
            found(id, tenant).flatMap { job in
                guard let spec = job.spec else { return .failure(.failed) }
                let finding = ChangeCheck { () throws(InvalidFields) in
                    try change(JobRequest(spec, JobSecrets()))
                }
                switch finding.matching(revision, of: job.revision) {
                case .invalid(let fields): return .success(.failure(fields))
                case .refused(let error): return .failure(error)
                case .allowed(let draft):
                    var job = job
                    job.storedSpec = StoredSpec(draft.spec.encodeStored())
                    job.revision += 1
                    state.withLock { [job] in $0.jobs[id] = job }
                    return .success(.success(job))
                }
            })
    }

    func limits(reply: @escaping Reply<TransferLimits>) { reply(.success(state.withLock { $0.limits })) }

    func changeLimits(
        if isAllowed: @escaping @Sendable (TransferLimits) -> Bool,
        _ change: @escaping @Sendable (TransferLimits) -> TransferLimits,
        reply: @escaping Reply<TransferLimits>
    ) {
        guard isAllowed(state.withLock { $0.limits }) else {
            return reply(.failure(.stale(revision: nil)))
        }
        state.withLock { $0.limits = change($0.limits) }
        limits(reply: reply)
    }

    func submit(_ submission: Submission) {
        let (result, after) = state.withLock {
            state -> (Result<Submission.Accepted, StoreError>, (@Sendable (JobID) -> Void)?) in
            if let failure = state.failure { return (.failure(failure), nil) }
            if state.outdatedCount > 0 {
                state.outdatedCount -= 1
                return (.failure(.sessionsChanged), nil)
            }
            state.submissions.append(submission)
            if let key = submission.idempotency {
                let name = "\(key.tenant) \(key.route) \(key.key)"
                if let first = state.idempotency[name] {
                    guard first.fingerprint == key.fingerprint else {
                        return (.failure(.idempotencyKeyReused), nil)
                    }
                    return (.success(.init(jobs: first.jobs, isReplay: true)), nil)
                }
            }
            let accepted = submission.jobs.map { job -> Submission.Accepted.Job in
                if let key = job.spec.unique?.key,
                    let other = state.jobs.values.first(where: {
                        $0.spec?.unique?.key == key && !$0.state.isTerminal
                    })
                {
                    return Submission.Accepted.Job(
                        id: other.id, state: other.state, waitingFor: nil, createdAt: other.createdAt,
                        startedAt: nil, node: nil, nextAttemptAt: nil, isNew: false)
                }
                state.sources[job.id] = job
                let waits = !job.spec.schedule.dependencies.isEmpty
                let entry = Submission.Accepted.Job(
                    id: job.id,
                    state: job.spec.startsSuspended ? .suspended : waits ? .waiting : .queued,
                    waitingFor: waits && !job.spec.startsSuspended ? .dependency : nil,
                    createdAt: Timestamp(microseconds: 1_000_000),
                    startedAt: nil, node: nil, nextAttemptAt: nil)
                state.jobs[job.id] = record(job, entry)
                return entry
            }
            if let key = submission.idempotency {
                state.idempotency["\(key.tenant) \(key.route) \(key.key)"] = (key.fingerprint, accepted)
            }
            return (.success(.init(jobs: accepted, isReplay: false)), state.afterSubmit)
        }
        submission.reply(result)
        if let after, case .success(let accepted) = result { for job in accepted.jobs { after(job.id) } }
    }

    func finish(_ id: JobID, _ state: JobState, _ change: (inout JobRecord) -> Void = { _ in }) {
        self.state.withLock { all in
            guard var job = all.jobs[id] else { return }
            job.state = state
            job.revision += 1
            job.finishedAt = Timestamp(microseconds: 2_000_000)
            change(&job)
            all.jobs[id] = job
        }
    }

    private func found(_ id: JobID, _ tenant: String) -> Result<JobRecord, StoreError> {
        state.withLock { state in
            if let failure = state.failure { return .failure(failure) }
            guard let job = state.jobs[id], job.tenant == tenant else { return .failure(.notFound) }
            return .success(job)
        }
    }

    func job(_ id: JobID, tenant: String, reply: @escaping Reply<JobRecord>) { reply(found(id, tenant)) }

    func recentResult(_ id: JobID, tenant: String) -> JobRecord? { nil }

    func jobs(_ query: JobQuery, reply: @escaping Reply<ListPage<JobRecord, JobKindTag>>) {
        if let failed = state.withLock({ $0.unreadable }), query.states.contains(failed) {
            return reply(.failure(.unavailable))
        }
        let (jobs, scanCount) = state.withLock { state in
            state.queries.append(query)
            let all = state.jobs.values.filter { job in
                job.tenant == query.tenant && query.before.map { job.id < $0 } ?? true
            }
            return (all.sorted { $0.id > $1.id }, state.scanCount)
        }
        let looked = jobs.prefix(scanCount)
        let found = looked.filter { query.states.isEmpty || query.states.contains($0.state) }
        let isStopped = found.count < query.limit && looked.count < jobs.count
        reply(
            .success(
                ListPage(Array(found.prefix(query.limit)), stoppedAt: isStopped ? looked.last?.id : nil)))
    }

    func summary(
        of query: JobQuery, by dimensions: [SummaryDimension], reply: @escaping Reply<JobSummary>
    ) {
        let summary = state.withLock { state in
            state.queries.append(query)
            state.summaries.append(dimensions)
            return state.summary
        }
        reply(.success(summary))
    }

    func attempts(of id: JobID, tenant: String, reply: @escaping Reply<JobAttempts>) {
        let packed = state.withLock { $0.attempts }
        reply(
            found(id, tenant).map { job in
                JobAttempts(
                    .init(
                        state: job.state, attempt: job.attempt, node: job.node, startedAt: job.startedAt,
                        storedSpec: job.storedSpec), packed: packed)
            })
    }

    private func checked(_ id: JobID, _ tenant: String, _ revision: Int32?) -> Result<JobRecord, StoreError> {
        found(id, tenant).flatMap { job in
            if let revision, revision != job.revision { return .failure(.stale(revision: job.revision)) }
            return .success(job)
        }
    }

    func cancel(
        _ id: JobID, tenant: String, revision: Int32?, keepsBytes: Bool, reply: @escaping Reply<JobRecord>
    ) {
        reply(
            checked(id, tenant, revision).flatMap { job in
                guard !job.state.isTerminal else { return .failure(.invalidState(job.state)) }
                if job.state == .queued { finish(id, .cancelled) { $0.resumeData = keepsBytes ? "x" : nil } }
                return found(id, tenant)
            })
    }

    func suspend(_ id: JobID, tenant: String, revision: Int32?, reply: @escaping Reply<JobRecord>) {
        move(id, tenant, revision, from: [.queued], to: .suspended, reply)
    }

    func resume(_ id: JobID, tenant: String, revision: Int32?, reply: @escaping Reply<JobRecord>) {
        move(id, tenant, revision, from: [.suspended], to: .queued, reply)
    }

    private func move(
        _ id: JobID, _ tenant: String, _ revision: Int32?, from: [JobState], to: JobState,
        _ reply: @escaping Reply<JobRecord>
    ) {
        reply(
            checked(id, tenant, revision).flatMap { job in
                guard from.contains(job.state) else { return .failure(.invalidState(job.state)) }
                finish(id, to) { $0.finishedAt = nil }
                return found(id, tenant)
            })
    }

    func acknowledge(_ id: JobID, tenant: String, reply: @escaping Reply<JobRecord>) {
        reply(
            found(id, tenant).flatMap { job in
                guard job.state.isTerminal else { return .failure(.invalidState(job.state)) }
                guard job.spec?.acknowledgement != nil else {
                    return .failure(.acknowledgementNotRequired)
                }
                if job.acknowledgedAt == nil {
                    state.withLock { $0.jobs[id]?.acknowledgedAt = Timestamp(microseconds: 1) }
                }
                return found(id, tenant)
            })
    }

    func delete(_ id: JobID, tenant: String, revision: Int32?, reply: @escaping Reply<Void>) {
        reply(
            checked(id, tenant, revision).flatMap { job in
                guard job.state.isTerminal else { return .failure(.invalidState(job.state)) }
                state.withLock { $0.jobs[id] = nil }
                return .success(())
            })
    }

    func retrySource(_ id: JobID, tenant: String, reply: @escaping Reply<RetrySource>) {
        reply(
            found(id, tenant).flatMap { job in
                guard job.state.isTerminal else { return .failure(.invalidState(job.state)) }
                let source = state.withLock { $0.sources[id] }
                return .success(
                    RetrySource(
                        record: job, secrets: source?.request.secrets ?? JobSecrets(),
                        payload: source?.request.payload))
            })
    }

    func deliveries(
        of job: JobID, tenant: String, before: DeliveryID?, limit: Int,
        reply: @escaping Reply<ListPage<DeliveryRecord, DeliveryKindTag>>
    ) {
        reply(
            found(job, tenant).map { _ in
                let all = state.withLock { $0.deliveries }.filter { delivery in
                    delivery.job == job && before.map { delivery.id < $0 } ?? true
                }
                return ListPage(Array(all.sorted { $0.id > $1.id }.prefix(limit)))
            })
    }

    func delivery(_ id: DeliveryID, tenant: String, reply: @escaping Reply<DeliveryRecord>) {
        let found = state.withLock { $0.deliveries.first { $0.id == id } }
        reply(found.map { .success($0) } ?? .failure(.notFound))
    }

    func redeliver(_ id: DeliveryID, tenant: String, reply: @escaping Reply<DeliveryRecord>) {
        state.withLock { state in
            for index in state.deliveries.indices where state.deliveries[index].id == id {
                state.deliveries[index].state = .pending
            }
        }
        delivery(id, tenant: tenant, reply: reply)
    }

    func status(reply: @escaping Reply<ServiceStatus>) {
        if let failure = state.withLock({ $0.failure }) { return reply(.failure(failure)) }
        let isPaused = state.withLock { $0.isPaused }
        reply(.success(ServiceStatus(StoreStatus(running: 3, nodes: [node], isPaused: isPaused))))
    }

    func nodes(reply: @escaping Reply<[NodeStatus]>) {
        reply(.success([node] + state.withLock { $0.otherNodes }))
    }

    private var node: NodeStatus {
        NodeStatus(
            id: NodeID(high: 1, low: 1), name: "a", version: "1", startedAt: Timestamp(microseconds: 0),
            heartbeatAgeSeconds: 0.5, running: 3,
            isDraining: state.withLock { $0.drained.contains(NodeID(high: 1, low: 1)) }, isWorker: true)
    }

    func pause(_ isPaused: Bool, reply: @escaping Reply<Void>) {
        state.withLock { $0.isPaused = isPaused }
        reply(.success(()))
    }

    func drain(_ id: NodeID, _ drains: Bool, reply: @escaping Reply<NodeStatus>) {
        guard id == NodeID(high: 1, low: 1) else { return reply(.failure(.notFound)) }
        state.withLock { state in
            if drains { state.drained.insert(id) } else { state.drained.remove(id) }
        }
        reply(.success(node))
    }

    func tenants(reply: @escaping Reply<[TenantStatus]>) {
        reply(.success(state.withLock { $0.tenants }))
    }

    func beginAudit(_ entry: AuditEntry, reply: @escaping Reply<Void>) {
        if let failure = state.withLock({ $0.failure }) { return reply(.failure(failure)) }
        state.withLock { state in
            var entry = entry
            entry.keyName = state.keys.first { $0.id == entry.key }?.name
            state.audit.insert(entry, at: 0)
        }
        reply(.success(()))
    }

    func endAudit(_ id: AuditID, status: Int, body: [UInt8]?, reply: @escaping Reply<Void>) {
        state.withLock { state in
            for index in state.audit.indices where state.audit[index].id == id {
                state.audit[index].status = Int32(status)
                state.audit[index].body = body
            }
        }
        reply(.success(()))
    }

    func audit(before: AuditID?, limit: Int, reply: @escaping Reply<[AuditEntry]>) {
        let all = state.withLock { $0.audit }
        reply(.success(Array(all.filter { before == nil || $0.id < before ?? $0.id }.prefix(limit))))
    }

    func open(_ job: JobRecord, reply: @escaping Reply<any OpenContent>) {
        if let failure = state.withLock({ $0.fileFailure }) { return reply(.failure(failure)) }
        guard let content = state.withLock({ $0.contents[job.id] }) else {
            return reply(.failure(.notFound))
        }
        reply(.success(content))
    }

    func openObject(_ key: String, byteCount: Int64, reply: @escaping Reply<any OpenContent>) {
        reply(.failure(.contentMissing))
    }
}

private func record(_ job: NewJob, _ accepted: Submission.Accepted.Job) -> JobRecord {
    JobRecord(
        id: job.id, tenant: job.tenant, state: accepted.state, waitingFor: nil, revision: 1, attempt: 0,
        failedAttemptCount: 0, node: nil, createdAt: accepted.createdAt, startedAt: nil,
        retryOf: job.retryOf, storedSpec: job.storedSpec)
}
