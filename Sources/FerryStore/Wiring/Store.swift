package import FerryCore
import FerryScheduler
import Logging
package import Postgres
import Synchronization
import Sys

/// The part of a node that uses the database: its threads, and the order in which they start and stop.
///
/// Any thread may use its parts. One thread calls `start`, `beginWork`, `drain` and `stop`.
package final class Store: Sendable {
    package let submissions: SubmissionWriter
    package let dispatcher: JobDispatcher
    package let jobs: JobQueries
    package let jobCommands: JobCommands
    package let submissionQueries: SubmissionQueries
    package let dependencies: Dependencies
    package let questions: QuestionAnswers
    package let bulkCommands: BulkCommands
    package let groups: GroupCommands
    package let uploads: UploadCommands
    package let sessions: SessionCommands
    package let cookies: CookieCommands
    package let credentials: CredentialCommands
    package let scheduleCommands: ScheduleCommands
    package let windows: WindowCommands
    package let events: EventQueries
    package let webhooks: WebhookCommands
    package let deliveryQueries: DeliveryQueries
    package let hostCommands: HostCommands
    package let limits: LimitCommands
    package let tenantLimits: TenantLimitCommands
    package let keys: KeyCommands
    package let operators: OperatorCommands
    package let audit: AuditCommands
    package let contentStore: ContentStoreCommands
    package let status: StatusQueries
    package let peers: PeerDirectory
    package let deliveries: DeliveryOutbox
    package let tenantCounts: TenantCounts
    package let schedules: ScheduleRunner
    private let bulkOperations: BulkOperationRunner
    /// The heartbeat, which holds the lease of this node.
    package let heartbeat: Heartbeat
    private let listener: NotificationListener
    private let relay: EventRelay
    private let housekeeper: Housekeeper
    /// Follows the event log as it grows.
    package let eventTail: EventTail
    private let hosts: HostCoordinator
    let commands: CommandQueue
    let reads: ReadPool
    private let spool: ResultSpool?
    let context: StoreContext
    let signals: StoreSignals
    let nodeState: NodeState
    let hostState: HostState
    let queueState: QueueState
    /// By role, in the order in which `stop` ends them.
    private struct Threads {
        var submissions: Thread?
        var dispatcher: Thread?
        var relay: Thread?
        var others: [Thread] = []
        var heartbeat: Thread?
    }
    private let threads = Mutex(Threads())

    /// `spool` keeps results that cannot be committed before the end, for the next start. If `nil` they are
    /// lost, and their jobs run again.
    package init(_ configuration: StoreConfiguration, spool: ResultSpool? = nil) {
        self.spool = spool
        let context = StoreContext(configuration)
        let signals = StoreSignals(configuration.clock)
        let nodeState = NodeState(configuration)
        let hostState = HostState(configuration)
        let queueState = QueueState(context, signals, nodeState, hostState)
        let permits = PermitTransaction(context, signals, nodeState, hostState.connections.permits)
        let recentResults = RecentResults()
        let sessionLoader = SessionLoader(context: context, signals: signals)
        let admission = Admission(
            jobCountMax: configuration.jobCountMax, quotas: configuration.quotas, clock: configuration.clock)
        let numbering = EventNumbering(context, signals, nodeState, sessionLoader)
        let insertion = JobInsertion(queueState, sessionLoader, admission, recentResults)
        (self.context, self.signals, self.nodeState) = (context, signals, nodeState)
        (self.hostState, self.queueState) = (hostState, queueState)
        let dispatcher = JobDispatcher(queueState, numbering, recentResults, spool: spool)
        self.dispatcher = dispatcher
        hostState.connections.connect(
            work: { [weak dispatcher] in dispatcher?.send(.wake) },
            free: { [weak queueState, weak dispatcher] pool in
                guard let queueState else { return }
                queueState.begin(in: pool)
                let isQueued = queueState.hostState.connections.isQueued(pool)
                if isQueued { dispatcher?.send(.connectionFree(pool.origin)) }
            }, isAwaited: { [weak queueState] in queueState?.held.isHeld($0) ?? false })
        queueState.connect(result: { [weak dispatcher] in dispatcher?.send(.result($0, nil)) })
        let submissions = SubmissionWriter(insertion, reconcile: { dispatcher.send(.reconcile) })
        self.submissions = submissions
        tenantCounts = TenantCounts(context, admission, submissions)

        let commands = CommandQueue(context)
        let reads = ReadPool(context)
        (self.commands, self.reads) = (commands, reads)
        let settings = Settings(reads)
        let limitsCache = LimitsCache(fallback: configuration.limits)
        let tenantLimitsLoader = TenantLimitsLoader(
            context, signals, sumBytes: { _ = submissions.countRequests.send(.limits) })
        let hostLimitsLoader = HostLimitsLoader(configuration.hosts, signals)
        let jobs = JobQueries(reads, queueState, recentResults)
        let jobCommands = JobCommands(commands, reads, queueState, numbering, recentResults)
        let limits = LimitCommands(commands, settings, limitsCache, signals)
        let tenantLimits = TenantLimitCommands(commands, reads, tenantLimitsLoader)
        let hostCommands = HostCommands(commands, reads, configuration.clock, hostLimitsLoader)
        let sessions = SessionCommands(commands, reads, sessionLoader)
        cookies = CookieCommands(commands, reads, sessionLoader)
        let operators = OperatorCommands(commands, reads, context, signals, nodeState)
        let deliveryQueries = DeliveryQueries(
            commands, reads, jobs, signals, nodeState, context.configuration.credits)
        (self.jobs, self.jobCommands, self.sessions) = (jobs, jobCommands, sessions)
        credentials = CredentialCommands(commands, reads, sessionLoader)
        (self.limits, self.tenantLimits, self.hostCommands) = (limits, tenantLimits, hostCommands)
        (self.operators, self.deliveryQueries) = (operators, deliveryQueries)
        submissionQueries = SubmissionQueries(reads)
        dependencies = Dependencies(commands)
        questions = QuestionAnswers(commands, queueState)
        bulkCommands = BulkCommands(commands, reads, jobs, queueState)
        groups = GroupCommands(commands, reads, context, signals)
        uploads = UploadCommands(commands, reads, context, signals)
        scheduleCommands = ScheduleCommands(commands, reads, insertion)
        windows = WindowCommands(commands, settings, signals)
        events = EventQueries(reads, context, signals)
        webhooks = WebhookCommands(commands, reads, queries: deliveryQueries, context, signals)
        keys = KeyCommands(commands, reads, node: configuration.node)
        audit = AuditCommands(commands, reads)
        contentStore = ContentStoreCommands(commands, reads)
        status = StatusQueries(reads, context)
        peers = PeerDirectory(reads, nodeState, leaseSeconds: configuration.leaseSeconds)

        schedules = ScheduleRunner(
            insertion, limitsCache,
            cancel: { job, tenant in jobCommands.cancel(job, tenant: tenant) { _ in } },
            limitsChanged: { limits.adopt() })
        bulkOperations = BulkOperationRunner(insertion)
        deliveries = DeliveryOutbox(
            context, signals, nodeState, keepInFile: { spool?.keep($0, context.logger) ?? false })
        relay = EventRelay(numbering)
        housekeeper = Housekeeper(queueState)
        eventTail = EventTail(context, signals)
        heartbeat = Heartbeat(
            context, signals, nodeState, admission, limitsCache, tenantLimitsLoader, sessionLoader,
            permits, spool: spool, stop: { queueState.stop($0, $1) })
        let hosts = HostCoordinator(context, signals, nodeState, hostState.health)
        self.hosts = hosts
        let look: @Sendable () -> Void = { [weak dispatcher] in
            queueState.backlog.addUnknown()
            dispatcher?.send(.wake)
        }
        signals.connect(
            dispatcher: { [weak dispatcher] begin in dispatcher?.send(begin.map { .due($0) } ?? .wake) },
            search: look, dependents: { [weak dispatcher] in dispatcher?.send(.dependencies) })
        listener = NotificationListener(
            context, nodeState, recentResults, onWork: look,
            onStop: { queueState.stop($0, $1) }, onLimits: { limits.adopt() },
            onEdit: { jobCommands.adoptEdit($0) }, onReturn: { jobCommands.returnHeld($0) },
            onHosts: {
                hostCommands.adopt()
                hosts.changed()
            }, onEvents: eventTail.wake, onSessions: { sessions.adopt() },
            onOperations: { operators.adopt() }, onTenants: { tenantLimits.adopt() },
            onPermits: { permits.noteStart() }, onUploads: { signals.noteAbandonedUploads() })
    }

    /// Writes the first heartbeat, commits the results that the last process of this node left in the spool,
    /// gives back its jobs, and starts the threads for heartbeats and reads. Until `beginWork`, submissions
    /// wait and queued jobs stay queued.
    ///
    /// The schema must be current. Blocks for a few round trips; throws if the database does not answer. If
    /// `runner` is `nil` this node runs no attempts; if `prober` is `nil` it probes no hosts; if `remover` is
    /// `nil` it removes no uploads. Call once.
    package func start(
        runner: (any AttemptRunner)?, observer: (any CommitObserver)?, prober: (any HostProber)? = nil,
        remover: (any UploadRemover)? = nil
    ) throws(PostgresError) {
        signals.connect(runner: runner, observer: observer, prober: prober, remover: remover)
        let database = heartbeat.makeConnection()
        if context.configuration.startsPaused {
            // Before the first heartbeat, with which this node adopts it, and so before all work.
            try database.withConnection { connection throws(PostgresError) in
                _ = try connection.execute(Statements.changePause, .pause(true, holdsAll: true))
            }
        }
        try heartbeat.beat(database)
        try spool?.commit(database, context, signals)
        let reclaimer = heartbeat.deliveryReclaimer
        let given = try database.withConnection { connection throws(PostgresError) in
            try connection.transaction { [context] connection throws(PostgresError) in
                try JobChange.loseJobs(
                    Statements.lockJobsOfNode, .identifier(context.configuration.node),
                    at: context.clock.now(), &connection)
            }
        }
        do throws(PostgresError) {
            try database.withConnection { connection throws(PostgresError) in
                try reclaimer.reclaimOwn(&connection)
            }
        } catch {
            context.logger.warning(
                "what the last run was sending comes with its lease", metadata: ["error": "\(error)"])
        }
        // Before the first claim; else a heartbeat takes them.
        try heartbeat.settlePermits(database)
        database.close()
        if given > 0 {
            context.logger.notice("jobs of the last run are queued again", metadata: ["count": "\(given)"])
        }
        // There may be queued jobs until the first claim finds none.
        queueState.backlog.addUnknown()
        let (heartbeat, commands, reads) = (heartbeat, commands, reads)
        threads.withLock { threads in
            threads.heartbeat = Thread(name: "heartbeat") { heartbeat.run() }
            threads.others.append(Thread(name: "control") { commands.run() })
            for index in 0..<reads.threadCount {
                threads.others.append(Thread(name: "reads-\(index)") { reads.run(index) })
            }
        }
    }

    /// Starts the other threads: from here on jobs are accepted, leased and begun. Call once, after `start`,
    /// when nothing can fail any more that ends the process: a process that ends without `stop` leaves
    /// attempts of unknown progress.
    package func beginWork() {
        let (submissions, dispatcher, deliveries) = (submissions, dispatcher, deliveries)
        let (listener, relay, eventTail, schedules) = (listener, relay, eventTail, schedules)
        let (housekeeper, tenantCounts, hosts) = (housekeeper, tenantCounts, hosts)
        let bulkOperations = bulkOperations
        threads.withLock { threads in
            threads.dispatcher = Thread(name: "dispatcher") { dispatcher.run() }
            threads.submissions = Thread(name: "submissions") { submissions.run() }
            threads.others.append(Thread(name: "deliveries") { deliveries.run() })
            threads.relay = Thread(name: "events") { relay.run() }
            threads.others.append(Thread(name: "event-tail") { eventTail.run() })
            threads.others.append(Thread(name: "housekeeping") { housekeeper.run() })
            if context.configuration.listens {
                threads.others.append(Thread(name: "listen") { listener.run() })
            }
            threads.others.append(Thread(name: "tenant-counts") { tenantCounts.run() })
            threads.others.append(Thread(name: "hosts") { hosts.run() })
            threads.others.append(Thread(name: "schedules") { schedules.run() })
            threads.others.append(Thread(name: "bulk") { bulkOperations.run() })
        }
    }

    /// Stops leasing. Running attempts go on, and their results are committed.
    package func drain() {
        nodeState.stopLeasing()
    }

    /// Commits the remaining results, gives back jobs that still run, and ends the threads. Call after the
    /// runner has stopped. Blocks, but only for some seconds if the database does not answer. A second call
    /// does nothing.
    package func stop() {
        drain()
        context.shutdownTimeout.begin()
        let ending = threads.withLock { threads in
            defer { threads = Threads() }
            return threads
        }
        submissions.close()
        schedules.close()
        bulkOperations.close()
        ending.submissions?.join()
        dispatcher.close()
        ending.dispatcher?.join()
        commands.close()
        reads.close()
        // Before the outbox: deliveries that the relay still gives to the ended sender go back through it.
        relay.close()
        ending.relay?.join()
        deliveries.close()
        eventTail.close()
        listener.close()
        housekeeper.close()
        tenantCounts.close()
        hosts.close()
        for thread in ending.others { thread.join() }
        heartbeat.close()
        ending.heartbeat?.join()
    }

    /// `true` if the database has confirmed one of the last two heartbeats.
    package var isReady: Bool { heartbeat.isAnswered }

    /// The conditions that explain why a queued job waits, as this node knows them.
    package var queueConditions: QueueConditions { queueState.conditions }

    /// The limits of tenants, as this node knows them.
    package var quotas: TenantQuotas { context.configuration.quotas }

    /// `true` if operators have paused the service, as far as this node knows.
    package var isPaused: Bool { nodeState.isPaused }

    /// `true` if this node drains: it begins no attempts and lets running ones end. It stops, or operators
    /// drain it, as far as this node knows.
    package var isDraining: Bool { nodeState.isDraining }

    /// `true` if this node reaches no origin while other nodes do. It then leases nothing.
    package var isCutOff: Bool { nodeState.isCutOff }

    /// `true` unless this node knows that no job is queued.
    package var hasBacklog: Bool { !queueState.backlog.isEmpty }

    /// Duration of the last heartbeat in seconds; `nil` before the first.
    package var roundTripSeconds: Double? {
        let nanoseconds = context.metrics.roundTripNanoseconds.load(ordering: .relaxed)
        return nanoseconds < 0 ? nil : Double(nanoseconds) / 1e9
    }

    /// Admits further connections of attempts, beyond the first of each.
    package var connections: any ConnectionLimiter { hostState.connections }

    package var metrics: StoreMetrics.Snapshot {
        var snapshot = context.metrics.snapshot
        (snapshot.hostsKnown, snapshot.hostsUnreachable) = hostState.health.counts
        return snapshot
    }
}
