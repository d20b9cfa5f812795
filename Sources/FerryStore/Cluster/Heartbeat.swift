package import FerryCore
import Logging
import Postgres
import Synchronization
import Sys

/// Renews this node's lease with heartbeats, and decides whether the lease is held.
///
/// One thread owns a connection that nothing else uses, so that a slow statement delays no heartbeat. Between
/// two heartbeats the same thread runs the `Reaper`. Any thread may ask whether the lease is held.
package final class Heartbeat: LeaseHolder {
    /// The advisory lock that keeps heartbeats and reclaims apart: "ferryrec".
    static let reclaimLock: Int64 = 0x6665_7272_7972_6563

    private let context: StoreContext
    private let signals: StoreSignals
    private let nodeState: NodeState
    private let admission: Admission
    private let limits: LimitsCache
    private let tenantLimits: TenantLimitsLoader
    private let sessionLoader: SessionLoader
    private let permits: PermitTransaction
    private let spool: ResultSpool?
    private let stop: @Sendable (JobID, AttemptStop) -> Void
    /// Gives back the deliveries of this node's last process, and at the end those of this one.
    let deliveryReclaimer: DeliveryReclaimer

    /// `stop`: stops the attempt of a job if this node has one.
    init(
        _ context: StoreContext, _ signals: StoreSignals, _ nodeState: NodeState, _ admission: Admission,
        _ limits: LimitsCache, _ tenantLimits: TenantLimitsLoader, _ sessionLoader: SessionLoader,
        _ permits: PermitTransaction, spool: ResultSpool?,
        stop: @escaping @Sendable (JobID, AttemptStop) -> Void
    ) {
        self.context = context
        self.signals = signals
        self.nodeState = nodeState
        self.admission = admission
        self.limits = limits
        self.tenantLimits = tenantLimits
        self.sessionLoader = sessionLoader
        self.permits = permits
        self.spool = spool
        self.stop = stop
        deliveryReclaimer = DeliveryReclaimer(context, signals)
    }

    /// Returns `true` if this node still holds the lease of the attempt. A node whose own lease has expired
    /// has lost its attempts, even if its heartbeat works again.
    package func holdsLease(of job: JobID, attempt: Int32) -> Bool {
        holdsLease && nodeState.leaseRegistry.holds(job, attempt: attempt)
    }

    /// `true` while this node's lease is valid, less a margin of at most 1 s.
    package var holdsLease: Bool { nodeState.lease.isHeld }

    /// Number of the current lease, which differs after each expiry. `nil` if no lease is held.
    package var lease: Int? { nodeState.lease.number }

    /// `true` if the database has confirmed one of the last two heartbeats.
    var isAnswered: Bool {
        nodeState.lease.secondsSinceHeartbeat < context.configuration.heartbeatSeconds * 2 + 0.5
    }

    /// Makes the thread give back what this node holds, and end.
    func close() { signals.expiries.close() }

    func makeConnection() -> ReconnectingConnection {
        context.connection(
            "heartbeat",
            adjust: { options in
                options.pinsPlans = true
                options.connectTimeout = .seconds(2)
                options.statementTimeout = .seconds(5)
                // A sweep that waits for a lock delays the next heartbeat. Longer than the server's own
                // timeout, which keeps the session.
                options.resultTimeout = .seconds(6)
            })
    }

    /// The thread's body.
    func run() {
        let database = makeConnection()
        var reaper = Reaper(context, signals, deliveryReclaimer)
        while !signals.expiries.isClosed {
            let start = Sys.monotonicNanoseconds()
            do {
                let beat = try beat(database)
                try permits.settle(database, lock: Self.reclaimLock)
                reaper.note(expiry: beat.nextExpiry)
                try reaper.reap(
                    beat.others, database, startedAt: start,
                    until: start + Int64(context.configuration.heartbeatSeconds * 1e9))
            } catch {
                if !error.isConnectionLost {
                    context.logger.error(
                        "a heartbeat or the cleanup after it failed", metadata: ["error": "\(error)"])
                }
            }
            let interval = context.configuration.heartbeatSeconds * (database.isConnected ? 1 : 0.1)
            reaper.failOverdueJobs(database, until: start + Int64(interval * 1e9))
        }
        end(database)
    }

    /// Takes the permits of a lone node, so that its first jobs begin from memory, or asks a node that has
    /// them to return them. Called after the first heartbeat.
    func settlePermits(_ database: ReconnectingConnection) throws(PostgresError) {
        try permits.settle(database, lock: Self.reclaimLock)
        try permits.ask(database)
    }

    // MARK: Heartbeats

    /// Values that one heartbeat has read.
    struct Beat {
        /// The last heartbeats of the other nodes.
        let others: [NodeID: Timestamp]
        /// The next time at which a job that no node holds must have ended; `nil` if there is none.
        let nextExpiry: Timestamp?
    }

    /// Writes one heartbeat. Also sets the clock, adopts limits, settings and sessions, and stops attempts
    /// whose cancellation or suspension was requested while a notification was lost.
    @discardableResult
    func beat(_ database: ReconnectingConnection) throws(PostgresError) -> Beat {
        let configuration = context.configuration
        var setting = Parameters()
        setting.append(text: LimitsCache.setting)
        let start = Sys.monotonicNanoseconds()
        let total = admission.beginTotal()
        let reading = configuration.hosts.beginReading()
        let limitsReading = limits.beginReading()
        let quotasReading = configuration.quotas.beginReading()
        let held = Parameters.leases(nodeState.leaseRegistry.all.keys, of: configuration.node)
        let demand = signals.attemptRunner?.takeRateDemand() ?? RateDemand()
        let ownDemand = limits.beginPublishing(demand)
        var results = try database.withConnection { connection throws(PostgresError) in
            try connection.pipeline(timeout: .seconds(5)) { pipeline in
                pipeline.send(Statements.lockHeartbeat, .int64(Self.reclaimLock))
                pipeline.send(Statements.heartbeat, .heartbeat(context, nodeState, demand))
                pipeline.send(Statements.checkLeases, held)
                pipeline.send(Statements.readSetting, setting)
                pipeline.send(Statements.nextExpiry)
                pipeline.send(Statements.readHostLimits, HostLimitsLoader.parameters)
                pipeline.send(Statements.readSessionEpoch)
                pipeline.send(Statements.readOperations, .operatorSettings(context))
                pipeline.send(Statements.readHeartbeats, .identifier(configuration.node))
                pipeline.send(Statements.listTenantLimits)
            }
        }
        let end = Sys.monotonicNanoseconds()
        let nodes = results.take(1)
        let confirmedLeases = results.take(2)
        let stored = results.take(3)
        let expiry = results.take(4)
        let hosts = results.take(5)
        let epoch = results.take(6).int64(0, 0)
        let operations = results.take(7)
        let others = results.take(8)
        let tenants = results.take(9)
        nodeState.peers.withLock { $0 = others.peers }
        let beat = Beat(
            others: others.heartbeats,
            nextExpiry: expiry.rowCount > 0 ? expiry.instant(0, 0) : nil)
        try renewLease(sentAt: start, database)
        context.metrics.roundTripNanoseconds.store(end - start, ordering: .relaxed)
        context.clock.adjust(nodes.instant(0, 0), between: start, and: end)
        nodeState.hasPeers.store(nodes.int64(0, 1) > 1, ordering: .relaxed)
        admission.note(
            total: nodes.int64(0, 4), total, hasPeers: nodes.int64(0, 1) > 1)
        if let settings = OperatorSettings(operations), nodeState.adopt(settings) { signals.beginAgain() }
        nodeState.workers.note(others: Int(nodes.int64(0, 2)), drained: Int(nodes.int64(0, 3)))
        limits.endPublishing(
            demand, own: ownDemand, others: nodes.isNull(0, 5) ? [] : nodes.bytesArray(0, 5),
            nodeCount: Int(nodes.int64(0, 2) + nodes.int64(0, 3)) + 1)
        limits.apply(
            stored.rowCount == 1 ? stored.bytes(0, 0) : nil, reading: limitsReading,
            to: signals.attemptRunner)
        if HostLimitsLoader.apply(hosts, to: configuration.hosts, reading: reading) {
            signals.lookForJobs()
        }
        tenantLimits.apply(tenants, reading: quotasReading)
        stopRequested(confirmedLeases)
        if epoch != context.sessions.current.epoch { try sessionLoader.readSessions(database) }
        return beat
    }

    /// Renews the lease after the database has confirmed a heartbeat that was sent at `start`.
    private func renewLease(
        sentAt start: Int64, _ database: ReconnectingConnection
    ) throws(PostgresError) {
        // Judged after the confirmation: other nodes may have taken this node's jobs while the heartbeat was
        // on its way.
        let hasLapsed = !nodeState.lease.isHeld
        if hasLapsed {
            try forgetLostLeases(database)
            // Other nodes may have begun jobs meanwhile.
            permits.giveUp()
            nodeState.lease.lapse()
        }
        // Last: a thread that finds the lease held again finds no lost lease in the registry. From here on
        // the other nodes leave this node's jobs alone.
        nodeState.lease.confirm(sentAt: start)
        // While the lease had lapsed nothing was leased.
        if hasLapsed { signals.wakeDispatcher() }
    }

    /// Stops the attempts whose cancellation or suspension was requested: rows of check_leases.sql.
    private func stopRequested(_ held: borrowing ResultSet) {
        for row in 0..<held.rowCount where held.bool(row, 3) || held.bool(row, 5) {
            let how: AttemptStop =
                !held.bool(row, 3) ? .suspend : held.bool(row, 4) ? .cancelKeepingBytes : .cancel
            stop(held.identifier(row, 0), how)
        }
    }

    /// Removes the leases that the database does not confirm from the registry: a node whose lease has
    /// lapsed may have lost any of them. Called after a heartbeat, so that nothing that is confirmed now can
    /// be taken any more.
    private func forgetLostLeases(_ database: ReconnectingConnection) throws(PostgresError) {
        // The registry as it is now. A lease that is written later either is in the registry before its
        // writer compares the number of the node's lease, or was written under the next number
        // (`Reservation.lease`, `SubmissionBatch.begin`).
        let unconfirmed = nodeState.leaseRegistry.all
        guard !unconfirmed.isEmpty else { return }
        let parameters = Parameters.leases(unconfirmed.keys, of: context.configuration.node)
        let held = try database.withConnection { connection throws(PostgresError) in
            try connection.execute(Statements.checkLeases, parameters, timeout: .seconds(5))
        }
        var confirmed: [JobID: Int32] = [:]
        for row in 0..<held.rowCount { confirmed[held.identifier(row, 0)] = held.int32(row, 1) }
        let lost = unconfirmed.filter { confirmed[$0.key] != $0.value }
        guard !lost.isEmpty else { return }
        nodeState.leaseRegistry.remove(lost.map { ($0.key, $0.value) })
        context.logger.warning(
            "leases were lost while the node sent no heartbeat", metadata: ["count": "\(lost.count)"])
    }

    /// Gives back the jobs and deliveries of this node, and removes the node.
    private func end(_ database: ReconnectingConnection) {
        // First: an attempt that still hangs here must not publish what other nodes may take from now on.
        nodeState.lease.end()
        do {
            // Before the jobs are given back: no node may begin a job that has ended.
            try spool?.commit(database, context, signals)
            try database.withConnection { connection throws(PostgresError) in
                let node = Parameters.identifier(context.configuration.node)
                try connection.transaction { connection throws(PostgresError) in
                    _ = try JobChange.loseJobs(
                        Statements.lockJobsOfNode, node, at: context.clock.now(), &connection)
                    _ = try connection.execute(Statements.removeNode, node, timeout: .seconds(5))
                }
                try deliveryReclaimer.reclaimOwn(&connection)
            }
        } catch {
            context.logger.warning(
                "the node could not give back its jobs: another node takes them after the lease",
                metadata: ["error": "\(error)"])
        }
    }
}

extension Parameters {
    /// The parameters of heartbeat.sql.
    fileprivate static func heartbeat(_ context: StoreContext, _ nodeState: NodeState, _ demand: RateDemand)
        -> Parameters
    {
        let configuration = context.configuration
        var parameters = Parameters()
        parameters.append(configuration.node)
        parameters.append(text: configuration.nodeName)
        parameters.append(text: configuration.version)
        parameters.append(context.startedAt)
        parameters.append(int32: Int32(configuration.slots.busyCount))
        parameters.append(bool: configuration.isWorker && nodeState.isStopping)
        parameters.append(bool: configuration.isWorker)
        parameters.append(float64: configuration.leaseSeconds)
        parameters.append(text: demand.json)
        parameters.append(text: configuration.nodeURL)
        return parameters
    }
}

extension Parameters {
    /// The parameters of check_leases.sql.
    static func leases(_ jobs: some Sequence<JobID>, of node: NodeID) -> Parameters {
        var parameters = identifier(node)
        parameters.appendArray(.uuid, jobs) { $0.append($1) }
        return parameters
    }
}
