import FerryCore
import FerryStore
import Logging
import Postgres
import Synchronization
import Sys
import TestSupport
import Testing

/// A database with the current schema.
let template = TestDatabase.Template(name: "ferry") { url in try Migrator.migrate(url: url) }

/// Keeps what it is told to run, and what it is told to cancel.
final class RecordingRunner: AttemptRunner {
    let begun = Mailbox<Attempt>()
    let cancelled = Mailbox<JobID>()
    /// In an object: each read of a function in a mutex would wrap it once more.
    private final class Reaction: Sendable {
        let body: @Sendable (Attempt) -> Void
        init(_ body: @escaping @Sendable (Attempt) -> Void) { self.body = body }
    }
    private let react = Mutex<Reaction?>(nil)

    /// From now on each attempt goes to `body` as well.
    func react(_ body: @escaping @Sendable (Attempt) -> Void) { react.withLock { $0 = Reaction(body) } }

    func begin(_ attempts: [Attempt]) {
        for attempt in attempts {
            // Under the lock: what was not given to somebody is there when that one looks for it. Before
            // the reaction, which may begin the next one.
            let reaction = react.withLock { react in
                begun.send(attempt)
                return react
            }
            reaction?.body(attempt)
        }
    }
    func stop(_ job: JobID, _ how: AttemptStop) {
        stops.withLock { $0[job] = how }
        cancelled.send(job)
    }
    /// Last request of the node to end each of these attempts.
    let stops = Mutex<[JobID: AttemptStop]>([:])

    let edits = Mailbox<(JobID, AttemptEdit)>()
    let limits = Mailbox<(TransferLimits, RateShares)>()
    /// Demand of running attempts for shares of the limits.
    let demand = Mutex(RateDemand())
    func adopt(_ edit: AttemptEdit, of job: JobID) { edits.send((job, edit)) }
    let sessionRates = Mailbox<[SessionKey: Int64]>()
    func setSessionRates(_ rates: [SessionKey: Int64]) { sessionRates.send(rates) }
    func setLimits(_ limits: TransferLimits, shares: RateShares) { self.limits.send((limits, shares)) }
    func takeRateDemand() -> RateDemand { demand.withLock { $0 } }
    func setHostRates(_ rates: [String: Int64]) {}
    /// Counts of attempts by tenant that the engine reports.
    let counts = Mutex<[String: Int]>([:])
    let loanRequests = Mailbox<Void>()
    func attemptCounts() -> [String: Int] { counts.withLock { $0 } }
    func lendSlots() { loanRequests.send(()) }
}

final class RecordingObserver: CommitObserver {
    let finished = Mailbox<JobID>()
    /// All finished jobs, also those that `finished` has given to a caller.
    let allFinished = Mutex<Set<JobID>>([])
    let deliveries = Atomic<Int>(0)
    let suspended = Mailbox<JobID>()
    let leaving = Mutex<Set<JobID>>([])
    func jobsFinished(_ jobs: [JobID]) {
        allFinished.withLock { $0.formUnion(jobs) }
        jobs.forEach { finished.send($0) }
    }
    func jobsSuspended(_ jobs: [JobID]) { jobs.forEach { suspended.send($0) } }
    func jobsLeaveBytes(_ jobs: [JobID]) { leaving.withLock { $0.formUnion(jobs) } }
    func deliveriesAdded(_ count: Int) { deliveries.add(count, ordering: .relaxed) }
}

/// One node of the service, without anything but its store. `works` false: it has not begun to. Unless it
/// names one its lease outlasts every stall of the machine, and it beats as the service does.
final class TestNode: Sendable {
    static let identifiers = IdentifierGenerator { Timestamp(microseconds: Sys.wallMicroseconds()) }
    static let webhookKeys: WebhookKeys = {
        guard let secret = WebhookSecret(key: Array(0..<32)) else {
            preconditionFailure("32 bytes are a secret")
        }
        return WebhookKeys(.init(secret: secret, seed: Array(repeating: 7, count: 32)))
    }()
    let runner = RecordingRunner()
    let observer = RecordingObserver()
    let slots: WorkerSlots
    let downloads = DownloadAdmission()
    let hosts = HostLimits()
    let id: NodeID
    let store: Store
    private let early = Mutex<[Attempt]>([])

    init(
        _ url: String, slots: Int = 4, lentMax: Int = .max, isWorker: Bool = true,
        id: NodeID = TestNode.identifiers.make(),
        leaseSeconds: Double? = nil, prober: (any HostProber)? = nil, remover: (any UploadRemover)? = nil,
        works: Bool = true,
        spool: ResultSpool? = nil, adjust: (inout StoreConfiguration) -> Void = { _ in }
    ) throws {
        var logger = Logger(label: "test")
        logger.logLevel = .error
        self.id = id
        self.slots = WorkerSlots(capacity: slots, lentMax: lentMax)
        var configuration = StoreConfiguration(
            url: url, node: id, nodeName: "test", version: "0", isWorker: isWorker, slots: self.slots,
            clock: DatabaseClock(), logger: logger, seal: .inverted,
            openSecrets: { JobSecrets(webhookSecret: String(decoding: $0, as: UTF8.self)) },
            sealSecrets: { Array(($0.webhookSecret ?? "").utf8) }, hashCredentials: { "\($0.count)" })
        configuration.openWebhookKeys = { WebhookKeys(json: $0) }
        configuration.downloads = downloads
        configuration.hosts = hosts
        // Jobs of all origins share a wide claim queue, and are leased as they are inserted.
        configuration.sessions = SessionCache(connectionsPerHostMax: nil)
        configuration.sealResumePoint = { "sealed \($0.job)" + ($0.upload.map { " \($0.url)" } ?? "") }
        // Tests of the queue fill it; those of held submissions set another number.
        configuration.heldSubmissionMax = 0
        configuration.leaseSeconds = leaseSeconds ?? 300
        configuration.heartbeatSeconds = leaseSeconds.map { $0 / 5 } ?? Limits.heartbeatSeconds
        adjust(&configuration)
        store = Store(configuration, spool: spool)
        try store.start(runner: runner, observer: observer, prober: prober, remover: remover)
        if works { store.beginWork() }
    }

    /// Submits and waits for the answer.
    func submit(
        _ jobs: [NewJob], key: Submission.Idempotency? = nil
    ) -> Result<Submission.Accepted, StoreError> {
        wait { reply in store.submissions.submit(Submission(jobs: jobs, idempotency: key, reply: reply)) }
    }

    func submit(_ job: NewJob) throws -> Submission.Accepted.Job {
        let accepted = try submit([job]).get()
        return try #require(accepted.jobs.first)
    }

    func job(_ id: JobID, tenant: String = "acme") -> Result<StoredJob, StoreError> {
        wait { store.jobs.storedJob(id, tenant: tenant, reply: $0) }
    }

    func status() throws -> StoreStatus { try wait { store.status.read(reply: $0) }.get() }

    /// Waits until so many deliveries wait to be sent.
    func waitForDeliveries(_ count: Int64) throws {
        try eventually("\(count) deliveries") { try status().deliveriesPending == count }
    }

    /// The next attempts that were begun, in their order. Those that have come beyond them come next.
    func attempts(_ count: Int) throws -> [Attempt] {
        var all = early.withLock { early in
            defer { early = [] }
            return early
        }
        let deadline = Sys.monotonicNanoseconds() + 60_000_000_000
        while all.count < count && Sys.monotonicNanoseconds() < deadline {
            all.append(contentsOf: runner.begun.wait(milliseconds: 1000))
        }
        try #require(all.count >= count)
        early.withLock { $0 = Array(all[count...]) }
        return Array(all[..<count])
    }

    func attempt() throws -> Attempt { try attempts(1)[0] }

    /// Ends an attempt and waits until that is committed.
    func end(_ attempt: Attempt, _ outcome: AttemptResult.Outcome) {
        store.dispatcher.record(result(attempt, outcome))
        if case .succeeded = outcome { waitUntilFinished(attempt.job) }
    }

    /// Changes a host like an operator, and waits until every node knows the change.
    func changeHost(_ origin: String, _ patch: String, known nodes: [TestNode]) throws {
        let patch = try HostPatch(body: JSONView(parsing: Array(patch.utf8)))
        let answer = wait { store.hostCommands.changeHost(origin, patch, if: { _ in true }, reply: $0) }
        let changed = try answer.get().get()
        let isLimited =
            changed.connectionLimit != nil || changed.backoffUntil != nil || changed.isPaused
            || changed.requestRateLimit != nil
        eventually("every node knows what holds for \(origin)") {
            nodes.allSatisfy { ($0.hosts.limit(at: origin, .origin) != nil) == isLimited }
        }
    }

    func waitUntilFinished(_ job: JobID) {
        eventually("the job is finished") { observer.allFinished.withLock { $0.contains(job) } }
    }
}

/// Waits for the reply of an asynchronous request.
func wait<Value: Sendable>(
    _ ask: (@escaping @Sendable (Result<Value, StoreError>) -> Void) -> Void
) -> Result<Value, StoreError> {
    let answer = Mailbox<Result<Value, StoreError>>()
    ask { answer.send($0) }
    return answer.wait(milliseconds: 60_000).first ?? .failure(.unavailable)
}

/// As a client does: what was not possible is asked for again.
func insist<Value: Sendable>(
    _ ask: (@escaping @Sendable (Result<Value, StoreError>) -> Void) -> Void
) throws -> Value {
    var answer = wait(ask)
    eventually("it is possible") {
        if case .failure(.unavailable) = answer { answer = wait(ask) }
        if case .failure(.unavailable) = answer { return false }
        return true
    }
    return try answer.get()
}

/// Asks again until the answer is the wanted one.
func eventually(_ what: Comment, _ check: () throws -> Bool) rethrows {
    let deadline = Sys.monotonicNanoseconds() + 60_000_000_000
    let pause = Mailbox<Int>()
    while Sys.monotonicNanoseconds() < deadline {
        if try check() { return }
        _ = pause.wait(milliseconds: 10)
    }
    Issue.record(what)
}

/// Whether a thread whose name begins so waits for a lock, or for one of this table.
func isBlocked(_ connection: String, at table: String? = nil, _ url: String) throws -> Bool {
    // In a transaction of its own: within one the sessions are seen as they were at first.
    var watcher = try Connection(url: url)
    let ofTable = table.map { "AND l.relation = '\($0)'::regclass" } ?? ""
    let blocked = Statement(
        "blocked",
        """
        SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
        WHERE NOT l.granted AND a.datname = current_database()
            AND a.application_name LIKE 'ferry \(connection)%' \(ofTable)
        """)
    return try watcher.execute(blocked).int64(0, 0) > 0
}

func result(
    _ attempt: Attempt, _ outcome: AttemptResult.Outcome, leavesBytes: Bool = false,
    partial: PartialDownload? = nil, delayedRedirect: DelayedRedirect? = nil,
    upload: ResumableUpload? = nil
) -> AttemptResult {
    AttemptResult(
        attempt: attempt, outcome: outcome,
        response: TransferResponse(
            status: 200, url: attempt.spec.request.url, headers: [.init("Server", "test")], mimeType: nil,
            suggestedFilename: nil, expectedContentLength: 1),
        bytesReceived: 1, bytesSent: 0,
        trace: partial.map { _ in AttemptTrace(startedAt: attempt.startedAt, finishedAt: attempt.startedAt) },
        leavesBytes: leavesBytes, partialDownload: partial, delayedRedirect: delayedRedirect,
        upload: upload)
}

let success = AttemptResult.Outcome.succeeded(
    TransferResult(location: .namedFile(path: "a"), size: 1, sha256: "ab", verified: .length))

func failure(isRetryable: Bool = true) -> AttemptResult.Outcome {
    .failed(
        TransferError(
            .connectionLost, "The connection was lost.", phase: .receiving, isRetryable: isRetryable),
        retryAfter: nil)
}

/// A valid job; what matters to a case is named by it.
func newJob(
    tenant: String = "acme", session: String = "default", kind: JobKind = .download, method: String = "GET",
    priority: Double = 0.5, host: String = "example.org", path: String = "a", metadata: [JobSpec.Pair] = [],
    beginAt: Timestamp? = nil,
    serviceType: JobSpec.NetworkServiceType = .standard,
    timeoutForResource: Double = 3600, attemptCountMax: Int = 3, retryDelay: Double = 0.01,
    webhook: Bool = false, webhookEvents: [EventType]? = nil,
    sealedSecrets: [UInt8]? = nil, traceparent: String? = nil, deadlineAt: Timestamp? = nil,
    acknowledgement: AcknowledgementRules? = nil
) -> NewJob {
    var spec = JobSpec()
    spec.kind = kind
    spec.session = session
    spec.metadata = metadata
    spec.request = .init(url: "https://\(host)/\(path)", method: method)
    spec.destination = kind == .download ? .init(path: "a", ifExists: .replace) : nil
    spec.schedule.priority = priority
    spec.schedule.waitsForConnectivity = true
    spec.schedule.earliestBeginAt = beginAt
    spec.schedule.timeoutForResource = timeoutForResource
    spec.retry.attemptCountMax = attemptCountMax
    spec.retry.delayInitial = retryDelay
    spec.retry.multiplier = 1
    spec.retry.delayMax = retryDelay
    if webhook {
        spec.webhook = .init(
            url: "https://hook.example.org/",
            events: webhookEvents ?? [.jobResumedAtOffset] + EventType.standard,
            hasSecret: sealedSecrets != nil)
    }
    spec.schedule.networkServiceType = serviceType
    spec.schedule.deadlineAt = deadlineAt
    spec.acknowledgement = acknowledgement
    return NewJob(
        id: TestNode.identifiers.make(), tenant: tenant,
        JobRequest(
            spec, JobSecrets(webhookSecret: sealedSecrets.map { String(decoding: $0, as: UTF8.self) })),
        specJSON: spec.encode(), sealedSecrets: sealedSecrets, traceparent: traceparent, retryOf: nil)
}

extension NewJob {
    /// Returns the same job with these fields and without secrets.
    func with(_ spec: JobSpec) -> NewJob {
        NewJob(
            id: id, tenant: tenant, JobRequest(spec), specJSON: spec.encodeStored(), sealedSecrets: nil,
            traceparent: nil, retryOf: nil)
    }
}

/// One that may wait for a good moment.
func discretionaryJob(
    tenant: String = "acme", session: String = "default", host: String = "example.org", bytes: Int64? = nil
) -> NewJob {
    let plain = newJob(tenant: tenant, session: session, host: host)
    var spec = plain.spec
    spec.schedule.isDiscretionary = true
    spec.schedule.expectedBytesToReceive = bytes
    return plain.with(spec)
}

func key(_ key: String, fingerprint: UInt8 = 1) -> Submission.Idempotency {
    Submission.Idempotency(
        tenant: "acme", route: "POST /v1/jobs", key: key,
        fingerprint: Array(repeating: fingerprint, count: 32))
}

/// The counts as the rows themselves say.
func countedStates(_ url: String) throws -> [String: Int64] {
    var connection = try Connection(url: url)
    let rows = try connection.execute(
        Statement("count_states", "SELECT state, count(*) FROM jobs GROUP BY state"))
    var counts: [String: Int64] = [:]
    for row in 0..<rows.rowCount { counts[rows.text(row, 0)] = rows.int64(row, 1) }
    return counts
}

extension Delivery {
    /// Each of a thread and a tenant of its own.
    static func example(_ number: UInt64) -> Delivery {
        Delivery(
            id: DeliveryID(high: 0, low: number), receiverQueue: ReceiverQueueID(high: 0, low: number),
            event: EventID(high: 0, low: number), type: EventType.jobSucceeded.rawValue,
            tenant: "tenant \(number)", session: "s", job: nil, sequence: 1,
            occurredAt: Timestamp(microseconds: 0), url: "https://hook.example.org/", secret: nil,
            jobJSON: Array("null".utf8), traceparent: nil, tryNumber: 1)
    }
}

/// Returns the try of a delivery with this result.
func tried(
    _ delivery: Delivery, _ verdict: DeliveryTry.Verdict, status: Int? = nil, excerpt: String = ""
) -> DeliveryTry {
    DeliveryTry(
        delivery: delivery.id, number: delivery.tryNumber, startedAt: delivery.occurredAt, duration: 0.1,
        status: status, error: nil, responseExcerpt: excerpt, verdict: verdict)
}

/// Queues copies of the only job of an origin, each by so many microseconds more urgent than the one before.
func queueCopies(_ count: Int, of origin: String, moreUrgentBy step: Int = 0, _ url: String) throws {
    var connection = try Connection(url: url)
    try connection.execute(
        script: """
            WITH copied AS (
                INSERT INTO jobs (id, tenant, session, kind, state, priority, expires_at, origin, spec,
                    created_at, queue, is_repeatable, awaits_host, urgency)
                SELECT gen_random_uuid(), tenant, session, kind, state, priority, expires_at, origin, spec,
                    created_at, queue, is_repeatable, awaits_host,
                    urgency - interval '1 microsecond' * n * \(step)
                FROM jobs, generate_series(1, \(count)) AS n WHERE origin = '\(origin)'
                RETURNING *
            )
            INSERT INTO event_inbox (tenant, session, packed)
            SELECT tenant, session, string_agg(
                event_pack(1, NULL, id, created_at, 0, 1, state, NULL, NULL), ''::bytea)
            FROM copied GROUP BY tenant, session;
            \(countRows("queued", count))
            """)
}

/// Returns a script that counts rows which a test itself has written. `column`: of job_counts.
func countRows(_ column: String, _ count: Int) -> String {
    """
    INSERT INTO job_counts AS c (shard, \(column)) VALUES ('rows', \(count))
    ON CONFLICT (shard) DO UPDATE SET \(column) = c.\(column) + excluded.\(column);
    """
}

/// In SQL: an id of a delivery that no sweep takes for an old one, as it may a random one.
let lateDeliveryID = "overlay(gen_random_uuid()::text placing 'ffffffff' from 1 for 8)::uuid"

/// Adds deliveries that are due, to so many receivers in turn.
func addDeliveries(_ count: Int, receiverCount: Int = 1, _ url: String) throws {
    var connection = try Connection(url: url)
    try connection.execute(
        script: """
            INSERT INTO deliveries (id, event, job, sequence, occurred_at, next_try_at, type, tenant,
                session, url, job_json)
            SELECT \(lateDeliveryID), gen_random_uuid(), gen_random_uuid(), i, now(), now(),
                'job.succeeded', 'acme', 'default', 'https://' || i % \(receiverCount) || '.example/', '{}'
            FROM generate_series(1, \(count)) i;
            \(countRows("deliveries_pending", count))
            """)
}
