import FerryCore
import Logging
import Postgres
import Synchronization
import Sys

/// What the threads of one store share. Any thread may use all of it.
final class StoreContext: Sendable {
    let configuration: StoreConfiguration
    let damagedRows: DamagedRows
    let metrics = StoreMetrics()
    /// Leases that this process knows. Other leases of this node are found and given back.
    let leaseRegistry = LeaseRegistry()
    /// The lease of this node, on which the leases of its jobs rest.
    let lease: NodeLease
    /// For events and deliveries.
    let identifiers: IdentifierGenerator
    let backlog = Backlog()
    let claimQueues = ClaimQueueCache()
    let specs = SpecCache()
    let edits = EditRegistry()
    let recentResults = RecentResults()
    /// Times at which jobs must have ended, for the `Reaper`; closed to end the heartbeat thread.
    let expiries = Mailbox<Timestamp>()
    let workers = WorkerCounts()
    let events = EventSignal()
    let sessions: SessionCache
    /// Wakes the `Housekeeper`; closed to end it.
    let chores = Mailbox<Void>()
    /// Wakes the `ScheduleRunner`; closed to end it.
    let scheduleWakes = Mailbox<Void>()
    /// Requests of the `TenantCounts`; closed to end it.
    let countRequests = Mailbox<TenantCounts.Message>()
    /// Wakes the `BulkOperationRunner`; closed to end it.
    let bulkWakes = Mailbox<Void>()
    let limits: LimitsCache
    let health = HostHealth()
    let connections: ConnectionRegistry
    /// Start of this process, as in the table `nodes`.
    let startedAt: Timestamp
    let admission: Admission
    /// Start conditions of discretionary jobs; `nil` before the `ScheduleRunner` has read them.
    let outlook = Mutex<DiscretionaryOutlook?>(nil)
    let holds = Mutex(OperatorHolds())
    let throughputs = ThroughputEstimates()
    /// Shortens the waits of all connections once the store stops.
    let shutdownTimeout = ShutdownTimeout()
    /// `false` while this node drains, is cut off, or operators have paused the service.
    let isLeasing: Atomic<Bool>
    /// `true` if other nodes are alive and must be notified.
    let hasPeers = Atomic<Bool>(true)
    /// The other nodes at the last heartbeat.
    let peers = Mutex<[NodeID: PeerNode]>([:])
    let isListening = Atomic<Bool>(false)
    let held: HeldAttempts
    /// Receives the results of prefetched attempts that have not begun.
    let heldResult = Mutex(ValueCallback<AttemptResult> { _ in })
    private let wakeDependents = Mutex<Callback?>(nil)
    /// Wakes the dispatcher for queued jobs (`nil`) or at the next begin date.
    let dispatcherWake = Mutex(ValueCallback<Timestamp?> { _ in })
    private let runner = Mutex<(any AttemptRunner)?>(nil)
    private let observer = Mutex<(any CommitObserver)?>(nil)
    private let prober = Mutex<(any HostProber)?>(nil)

    init(_ configuration: StoreConfiguration) {
        self.configuration = configuration
        damagedRows = DamagedRows(configuration.logger)
        let clock = configuration.clock
        sessions = configuration.sessions
        identifiers = IdentifierGenerator(random: BufferedRandom()) { clock.now() }
        startedAt = clock.now()
        lease = NodeLease(seconds: configuration.leaseSeconds)
        held = HeldAttempts(
            seconds: configuration.heldSeconds, submittedMax: configuration.heldSubmissionMax)
        connections = ConnectionRegistry(configuration)
        admission = Admission(
            jobCountMax: configuration.jobCountMax, quotas: configuration.quotas, clock: clock)
        isLeasing = Atomic(configuration.isWorker)
        limits = LimitsCache(fallback: configuration.limits)
    }

    func connect(
        runner: (any AttemptRunner)?, observer: (any CommitObserver)?, prober: (any HostProber)?
    ) {
        self.runner.withLock { $0 = runner }
        self.prober.withLock { $0 = prober }
        self.observer.withLock { $0 = observer }
    }

    /// Sets the function that `noteDependencies` calls.
    func connect(dependents wake: @escaping @Sendable () -> Void) {
        let callback = Callback(wake)
        wakeDependents.withLock { $0 = callback }
    }

    /// Wakes the reader of dependencies. Call after a commit that has written to `dependency_outbox`.
    func noteDependencies() { wakeDependents.withLock { $0 }?() }

    /// Wakes the reaper for a job that must have ended at this time, if that is before the reaper reads the
    /// next such time from the database: at each heartbeat. Call after the commit.
    func noteExpiry(_ expiry: Timestamp) {
        if expiry - clock.now() < Limits.expiryNoticeSeconds { expiries.send(expiry) }
    }

    /// Notes a committed submission that has leased no job.
    func noteSubmitted(_ outcome: SubmissionBatch.Outcome) {
        metrics.submittedJobs.add(Int64(outcome.jobCount), ordering: .relaxed)
        if outcome.jobCount > 0 { events.written(isWanted: outcome.tells) }
        let wake = dispatcherWake.withLock { $0 }
        if !outcome.queued.isEmpty, configuration.isWorker {
            specs.insert(outcome.queued)
            backlog.add(outcome.additions)
            wake(nil)
        }
        if let earliest = outcome.earliestBegin { wake(earliest) }
        if let earliest = outcome.earliestExpiry { noteExpiry(earliest) }
    }

    /// `true` if this node may lease and begin jobs: nothing forbids it, and its own lease is held. Without a
    /// lease other nodes would run the same jobs.
    var mayLease: Bool { isLeasing.load(ordering: .relaxed) && lease.isHeld }

    var logger: Logger { configuration.logger }
    var clock: DatabaseClock { configuration.clock }
    var attemptRunner: (any AttemptRunner)? { runner.withLock { $0 } }
    var commitObserver: (any CommitObserver)? { observer.withLock { $0 } }
    var hostProber: (any HostProber)? { prober.withLock { $0 } }

    /// Makes the connection of one thread, which alone uses it. `name` appears in the log and in
    /// `application_name`. `adjust` changes its options. With `counts` it often changes `job_counts`, and
    /// gets a new row there every few seconds.
    func connection(
        _ name: String, counts: Bool = false,
        setUp: @escaping (inout Connection) throws(PostgresError) -> Void = { _ throws(PostgresError) in },
        adjust: (inout ConnectionOptions) -> Void = { _ in }
    ) -> ReconnectingConnection {
        var options = ConnectionOptions()
        options.applicationName = "ferry \(name)"
        let shard = "\(configuration.node.uuidText)/\(name)"
        options.settings = [.init("ferry.shard", shard)]
        options.shutdownTimeout = shutdownTimeout
        adjust(&options)
        let (logger, metrics, clock) = (logger, metrics, clock)
        let own = configuration.own
        let renew = { (connection: inout Connection) throws(PostgresError) in
            _ = try connection.execute(Statements.setShard, .shard(shard, at: clock.now()))
        }
        var isFirst = true
        var isAway = false
        return ReconnectingConnection(
            url: configuration.url, options: options, setUp: setUp,
            renewalInterval: .seconds(Limits.shardSeconds), renew: counts ? renew : nil
        ) { state in
            switch state {
            case .connected(_, let server):
                own.add(server: server.address.flatMap { IPAddress(text: $0) }, port: server.port)
                if !isFirst { metrics.reconnects.add(1, ordering: .relaxed) }
                isFirst = false
                logger.log(
                    level: isAway ? .notice : .debug, "database connected",
                    metadata: ["connection": "\(name)"])
                isAway = false
            case .disconnected(let error, let delay):
                // One warning for each outage.
                logger.log(
                    level: isAway ? .debug : .warning, "database connection lost",
                    metadata: ["connection": "\(name)", "error": "\(error)", "retry_in": "\(delay)"])
                isAway = true
            }
        }
    }
}

extension Parameters {
    /// The parameters of set_shard.sql.
    fileprivate static func shard(_ name: String, at now: Timestamp) -> Parameters {
        var parameters = Parameters()
        parameters.append(text: "\(name)/\(now.microseconds / 1_000_000)")
        return parameters
    }
}

extension Identifier {
    /// The text form that PostgreSQL writes.
    var uuidText: String {
        var text: [UInt8] = []
        for index in 0..<32 {
            if [8, 12, 16, 20].contains(index) { text.append(UInt8(ascii: "-")) }
            let word = index < 16 ? high : low
            text.append(hexDigit(UInt8(truncatingIfNeeded: word >> UInt64(60 - 4 * (index % 16)) & 15)))
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// Reads the text form that PostgreSQL writes. `nil` for anything else.
    init?(uuidText: String) {
        let digits = uuidText.utf8.filter { $0 != UInt8(ascii: "-") }
        guard digits.count == 32, uuidText.utf8.count == 36,
            let high = UInt64(String(decoding: digits.prefix(16), as: UTF8.self), radix: 16),
            let low = UInt64(String(decoding: digits.suffix(16), as: UTF8.self), radix: 16)
        else { return nil }
        self.init(high: high, low: low)
    }

    /// The largest identifier, above all real ones: where a list begins.
    static var last: Self { Self(high: .max, low: .max) }
}
