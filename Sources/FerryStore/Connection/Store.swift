package import FerryCore
import Logging
package import Postgres
import Synchronization
import Sys

/// Everything that is kept: its lanes, and the order in which they start and stop.
///
/// Any thread may use its parts; `start`, `beginWork`, `drain` and `stop` belong to one.
package final class Store: Sendable {
    package let intake: SubmissionWriter
    package let dispatcher: JobDispatcher
    package let control: ControlLane
    package let deliveries: DeliveryOutbox
    package let census: TenantCounts
    package let schedules: ScheduleRunner
    /// The lease of this node.
    package let watch: Heartbeat
    private let listen: NotificationListener
    private let relay: EventRelay
    private let housekeeping: Housekeeper
    /// The log of events as it grows.
    package let tail: EventTail
    private let hosts: HostCoordinator
    let context: StoreContext
    /// By role, in the order in which they end.
    private struct Threads {
        var intake: Thread?
        var dispatcher: Thread?
        var relay: Thread?
        var others: [Thread] = []
        var watch: Thread?
    }
    private let threads = Mutex(Threads())

    package init(_ configuration: StoreConfiguration) {
        let context = StoreContext(configuration)
        let dispatcher = JobDispatcher(context)
        let wake: @Sendable () -> Void = { dispatcher.send(.wake) }
        context.connect(dependents: { [weak dispatcher] in dispatcher?.send(.dependencies) })
        context.connections.connect(wake)
        self.context = context
        self.dispatcher = dispatcher
        let wakeDue: @Sendable (Timestamp?) -> Void = { [weak dispatcher] earliest in
            dispatcher?.send(earliest.map { .due($0) } ?? .wake)
        }
        context.dispatcherWake.withLock { $0 = wakeDue }
        context.heldResult.withLock { $0 = { [weak dispatcher] in dispatcher?.send(.result($0)) } }
        intake = SubmissionWriter(
            context, wakeDispatcher: wakeDue,
            reconcile: { dispatcher.send(.reconcile) })
        let control = ControlLane(context, wakeDispatcher: wake)
        self.control = control
        schedules = ScheduleRunner(
            context, cancel: { job, tenant in control.cancel(job, tenant: tenant) { _ in } },
            limitsChanged: { control.adoptLimits() })
        deliveries = DeliveryOutbox(context)
        relay = EventRelay(context)
        housekeeping = Housekeeper(context)
        census = TenantCounts(context)
        tail = EventTail(context)
        watch = Heartbeat(context, wakeDispatcher: wake)
        let hosts = HostCoordinator(context, wakeDispatcher: wake)
        self.hosts = hosts
        let look: @Sendable () -> Void = {
            context.backlog.addUnknown()
            wake()
        }
        listen = NotificationListener(
            context, onWork: look,
            onStop: { context.stop($0, $1) }, onLimits: { control.adoptLimits() },
            onEdit: { control.adoptEdit($0) },
            onHosts: { [control] in
                control.adoptHosts()
                hosts.changed()
            }, onEvents: { [tail] in tail.wake() }, onSessions: { [control] in control.adoptSessions() },
            onOperations: { control.adoptWishes() })
    }

    /// Makes the node known, commits what an earlier process of this node could not, gives back what that
    /// held, and starts the lanes that answer for it. What is submitted waits, and what is queued stays
    /// there, until `beginWork`.
    ///
    /// The schema must be current. Blocks for a few round trips; throws when there is no database. `runner`
    /// nil: this node runs nothing; `prober` nil: it looks for no hosts. Call once.
    package func start(
        runner: (any AttemptRunner)?, observer: (any CommitObserver)?, prober: (any HostProber)? = nil
    ) throws(PostgresError) {
        context.connect(runner: runner, observer: observer, prober: prober)
        let lane = watch.makeConnection()
        try watch.beat(lane)
        try context.configuration.spool?.commit(lane, context)
        let reclaimer = watch.deliveryReclaimer
        let given = try lane.withConnection { connection throws(PostgresError) in
            try connection.execute(
                Statements.reclaimJobs, .lost(by: context.configuration.node)
            ).rowCount
        }
        do throws(PostgresError) {
            try lane.withConnection { connection throws(PostgresError) in
                try reclaimer.takeBackOwn(&connection)
            }
        } catch {
            context.logger.warning(
                "what the last run was sending comes with its lease", metadata: ["error": "\(error)"])
        }
        lane.close()
        if given > 0 {
            context.logger.notice("jobs of the last run are queued again", metadata: ["count": "\(given)"])
        }
        // Until the first claim says otherwise.
        context.backlog.addUnknown()
        let (watch, control) = (watch, control)
        threads.withLock { threads in
            threads.watch = Thread(name: "watch") { watch.run() }
            threads.others = control.start()
        }
    }

    /// Starts the lanes that work: from here on jobs are taken in, leased and begun. To be called when
    /// nothing can fail any more that would end this start: who ends without `stop` leaves attempts behind of
    /// which nobody knows how far they came. Call once, after `start`.
    package func beginWork() {
        let (intake, dispatcher, deliveries) = (intake, dispatcher, deliveries)
        let (listen, relay, tail, schedules) = (listen, relay, tail, schedules)
        let (housekeeping, census, hosts) = (housekeeping, census, hosts)
        threads.withLock { threads in
            threads.dispatcher = Thread(name: "dispatcher") { dispatcher.run() }
            threads.intake = Thread(name: "intake") { intake.run() }
            threads.others.append(Thread(name: "deliveries") { deliveries.run() })
            threads.relay = Thread(name: "events") { relay.run() }
            threads.others.append(Thread(name: "event-tail") { tail.run() })
            threads.others.append(Thread(name: "housekeeping") { housekeeping.run() })
            if context.configuration.listens {
                threads.others.append(Thread(name: "listen") { listen.run() })
            }
            threads.others.append(Thread(name: "census") { census.run() })
            threads.others.append(Thread(name: "hosts") { hosts.run() })
            threads.others.append(Thread(name: "schedules") { schedules.run() })
        }
    }

    /// Leases nothing more. What runs goes on; its results are still taken.
    package func drain() {
        context.stopLeasing()
    }

    /// Commits what is left, gives back what still runs and ends the lanes. Call after the runner has
    /// stopped. Blocks, for some seconds at most when the database is away or hangs. A second call does
    /// nothing.
    package func stop() {
        drain()
        context.impatience.begin()
        let ending = threads.withLock { threads in
            defer { threads = Threads() }
            return threads
        }
        intake.close()
        schedules.close()
        ending.intake?.join()
        dispatcher.close()
        ending.dispatcher?.join()
        control.close()
        // What it still hands over to a sender that has ended goes back through the lane of deliveries.
        relay.close()
        ending.relay?.join()
        deliveries.close()
        tail.close()
        listen.close()
        housekeeping.close()
        census.close()
        hosts.close()
        for thread in ending.others { thread.join() }
        watch.close()
        ending.watch?.join()
    }

    /// Whether the database confirmed this node lately.
    package var isReady: Bool { watch.isAnswered }

    /// What a queued job may wait for besides a slot.
    package var queueConditions: QueueConditions {
        var conditions = QueueConditions(isPaused: context.isPaused, workerCount: context.workerCount)
        conditions.hasDrainedWorker = context.hasDrainedWorker
        conditions.hosts = context.configuration.hosts
        conditions.sessionLimit = { [context] in
            context.sessions.current.share(tenant: $0, session: $1).connectionLimit
        }
        conditions.now = context.clock.now()
        conditions.leaseSeconds = context.configuration.leaseSeconds
        let configuration = context.configuration
        conditions.downloadHold = configuration.isWorker ? configuration.downloads.hold : nil
        conditions.hostAway = { [health = context.health] in health.away($0) }
        conditions.outlook = context.outlook.withLock { $0 }
        return conditions
    }

    /// Whether operators have paused the service, as far as this node knows.
    package var isPaused: Bool { context.isPaused }

    /// Whether this node reaches nobody although others do, and leaves the work to them.
    package var isCutOff: Bool { context.isCutOff }

    /// Whether jobs are known to queue.
    package var hasBacklog: Bool { !context.backlog.isEmpty }

    /// Of the last heartbeat; nil before the first.
    package var roundTripSeconds: Double? {
        let nanoseconds = context.metrics.roundTripNanoseconds.load(ordering: .relaxed)
        return nanoseconds < 0 ? nil : Double(nanoseconds) / 1e9
    }

    /// Who admits connections of attempts beyond their first.
    package var connections: any ConnectionLimiter { context.connections }

    /// The sessions as this node knows them.
    package var sessionBoard: SessionCache { context.sessions }

    package var metrics: StoreMetrics.Snapshot {
        var snapshot = context.metrics.snapshot
        (snapshot.hostsKnown, snapshot.hostsUnreachable) = context.health.counts
        return snapshot
    }
}
