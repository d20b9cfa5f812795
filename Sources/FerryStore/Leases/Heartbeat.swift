package import FerryCore
import Logging
import Postgres
import Synchronization
import Sys

/// The node's heartbeat, and what somebody must do for everybody: rescue the jobs of dead nodes, end what has
/// expired, sweep. On a connection of its own, so that a slow batch never delays a heartbeat.
package final class Heartbeat: LeaseHolder {
    /// Rows that one round of rescuing or expiring takes at most.
    private static let roundMax: Int32 = 500
    /// "ferryres": between heartbeats and rescues.
    private static let rescueLock: Int64 = 0x6665_7272_7972_6573
    /// Seconds of silence after which a node is forgotten.
    private static let nodeLifetimeSeconds = 3_600.0
    /// Nanoseconds between looks at all that runs, for jobs of nodes without a trace.
    private static let wholeRescueInterval: Int64 = 60_000_000_000
    /// Seconds after which a narrow lot without jobs goes; nodes know lots for ten minutes.
    private static let lotLifetimeSeconds = 7_200.0

    private let context: StoreContext
    /// The next deadline that is known; monotonic nanoseconds.
    private let nextDeadline = Atomic<Int64>(.max)
    private let wakeDispatcher: @Sendable () -> Void
    let lostSenders: DeliveryReclaimer

    init(_ context: StoreContext, wakeDispatcher: @escaping @Sendable () -> Void) {
        self.context = context
        lostSenders = DeliveryReclaimer(context)
        self.wakeDispatcher = wakeDispatcher
    }

    /// Whether an attempt is still ours. A node that slept through its lease has lost what it held, also when
    /// its heartbeat works again.
    package func holdsLease(of job: JobID, attempt: Int32) -> Bool {
        holdsLease && context.book.holds(job, attempt: attempt)
    }

    /// Whether the other nodes still count on us.
    package var holdsLease: Bool { context.lease.isHeld }

    /// Which lease this is: another one after each time that others could not count on us. Nil: none.
    package var lease: Int? { context.lease.number }

    /// Whether the database answers: at most one heartbeat is missing.
    var isAnswered: Bool {
        context.lease.silenceSeconds < context.configuration.heartbeatSeconds * 2 + 0.5
    }

    func close() { context.deadlines.close() }

    func makeConnection() -> ReconnectingConnection {
        context.connection(
            "watch",
            adjust: { options in
                options.pinsPlans = true
                options.connectTimeout = .seconds(2)
                options.statementTimeout = .seconds(5)
                // The next heartbeat waits for what a sweep waits for. After the server's own timeout, which
                // leaves the session as it is.
                options.answerTimeout = .seconds(6)
            })
    }

    /// The thread's body.
    func run() {
        let lane = makeConnection()
        var nextSweep = Sys.monotonicNanoseconds()
        var nextWholeRescue = nextSweep
        var silence = FailureDetector(leaseSeconds: context.configuration.leaseSeconds)
        while !context.deadlines.isClosed {
            let start = Sys.monotonicNanoseconds()
            let nextBeat = start + Int64(context.configuration.heartbeatSeconds * 1e9)
            do {
                let heartbeats = try beat(lane)
                let dead = silence.dead(heartbeats, at: Sys.monotonicNanoseconds())
                let isWhole = start >= nextWholeRescue
                if isWhole || !dead.isEmpty {
                    try rescue(lane, dead, isWhole: isWhole, until: nextBeat)
                    if isWhole { nextWholeRescue = start + Self.wholeRescueInterval }
                }
                if start >= nextSweep {
                    nextSweep = start + 30_000_000_000
                    if try !keepHouse(lane, until: nextBeat) { nextSweep = nextBeat }
                }
                // Last: it may take as long as a statement may.
                try lostSenders.takeBack(of: dead, lane, lock: Self.rescueLock)
            } catch {
                if !error.isConnectionLost {
                    context.logger.error("watching failed", metadata: ["error": "\(error)"])
                }
            }
            let interval = context.configuration.heartbeatSeconds * (lane.isConnected ? 1 : 0.1)
            keepDeadlines(lane, until: start + Int64(interval * 1e9))
        }
        sayGoodbye(lane)
    }

    // MARK: Rounds

    /// One heartbeat. Also sets the clock, and finds cancellations whose notification was lost. Returns the
    /// last heartbeats of the other nodes.
    @discardableResult
    func beat(_ lane: ReconnectingConnection) throws(PostgresError) -> [NodeID: Timestamp] {
        let configuration = context.configuration
        var limits = Parameters()
        limits.append(text: LimitsCache.setting)
        let start = Sys.monotonicNanoseconds()
        let reading = configuration.hosts.beginReading()
        let limitsReading = context.limits.beginReading()
        let held = Parameters.leases(context.book.all.keys, of: configuration.node)
        let demand = context.attemptRunner?.takeRateDemand() ?? RateDemand()
        let ownDemand = context.limits.beginTelling(demand)
        var results = try lane.withConnection { connection throws(PostgresError) in
            try connection.pipeline(timeout: .seconds(5)) { pipeline in
                pipeline.send(Statements.lockHeartbeat, .int64(Self.rescueLock))
                pipeline.send(Statements.heartbeat, .heartbeat(context, demand))
                pipeline.send(Statements.checkLeases, held)
                pipeline.send(Statements.readSetting, limits)
                pipeline.send(Statements.nextDeadline)
                pipeline.send(Statements.readHostLimits, HostLimitsLoader.parameters)
                pipeline.send(Statements.readSessionEpoch)
                pipeline.send(Statements.readOperations, .wishes(context))
                pipeline.send(Statements.readHeartbeats, .identifier(configuration.node))
            }
        }
        let end = Sys.monotonicNanoseconds()
        let answer = results.take(1)
        let confirmedLeases = results.take(2)
        let stored = results.take(3)
        note(deadline: results.take(4))
        let hosts = results.take(5)
        let epoch = results.take(6).int64(0, 0)
        let operations = results.take(7)
        let heartbeats = results.take(8).heartbeats
        try renewLease(sentAt: start, lane)
        context.metrics.roundTripNanoseconds.store(end - start, ordering: .relaxed)
        context.clock.adjust(answer.instant(0, 0), between: start, and: end)
        context.hasPeers.store(answer.int64(0, 1) > 1, ordering: .relaxed)
        context.admission.note(total: answer.int64(0, 4))
        if let wishes = OperatorSettings(operations), context.adopt(wishes) { wakeDispatcher() }
        context.workers.note(others: Int(answer.int64(0, 2)), drained: Int(answer.int64(0, 3)))
        context.limits.endTelling(
            demand, own: ownDemand, others: answer.isNull(0, 5) ? [] : answer.bytesArray(0, 5),
            nodeCount: Int(answer.int64(0, 2) + answer.int64(0, 3)) + 1)
        context.limits.apply(
            stored.rowCount == 1 ? stored.bytes(0, 0) : nil, reading: limitsReading,
            to: context.attemptRunner)
        if HostLimitsLoader.apply(hosts, to: configuration.hosts, reading: reading) {
            context.backlog.addUnknown()
            wakeDispatcher()
        }
        stopAsked(confirmedLeases)
        if epoch != context.sessions.current.epoch { try context.readSessions(lane) }
        return heartbeats
    }

    /// The heartbeat that was sent then has got through.
    private func renewLease(sentAt start: Int64, _ lane: ReconnectingConnection) throws(PostgresError) {
        // Asked only now: also while it was on its way the others may have taken what we hold.
        let hasLapsed = !context.lease.isHeld
        if hasLapsed {
            try forgetLost(lane)
            context.lease.lapse()
        }
        // After it: whoever finds the lease held again finds nothing in the book that was lost. From here on
        // the others count on us again.
        context.lease.confirm(sentAt: start)
        // Meanwhile nothing was leased.
        if hasLapsed { wakeDispatcher() }
    }

    /// Of rows of check_leases.sql.
    private func stopAsked(_ held: borrowing ResultSet) {
        for row in 0..<held.rowCount where held.bool(row, 3) || held.bool(row, 5) {
            let how: AttemptStop =
                !held.bool(row, 3) ? .suspend : held.bool(row, 4) ? .cancelKeepingBytes : .cancel
            context.stop(held.identifier(row, 0), how)
        }
    }

    /// Strikes out leases that the database does not confirm: whoever was silent for too long may have lost
    /// any of them. To be called after a heartbeat, so that what is confirmed now cannot be taken any more.
    private func forgetLost(_ lane: ReconnectingConnection) throws(PostgresError) {
        // As the book is now. What is written later either comes into the book before somebody looks whether
        // the lease is still the one that it was written under, or has that one's successor
        // (`Reservation.lease`, `SubmissionBatch.begin`).
        let doubtful = context.book.all
        guard !doubtful.isEmpty else { return }
        let parameters = Parameters.leases(doubtful.keys, of: context.configuration.node)
        let held = try lane.withConnection { connection throws(PostgresError) in
            try connection.execute(Statements.checkLeases, parameters, timeout: .seconds(5))
        }
        var confirmed: [JobID: Int32] = [:]
        for row in 0..<held.rowCount { confirmed[held.identifier(row, 0)] = held.int32(row, 1) }
        let lost = doubtful.filter { confirmed[$0.key] != $0.value }
        guard !lost.isEmpty else { return }
        context.book.remove(lost.map { ($0.key, $0.value) })
        context.logger.warning(
            "leases were lost while the node was silent", metadata: ["count": "\(lost.count)"])
    }

    /// `dead`: nodes, and their last heartbeats. `isWhole`: jobs of nodes of which there is no trace as well.
    /// `end`: as for `expire`.
    private func rescue(
        _ lane: ReconnectingConnection, _ dead: [NodeID: Timestamp], isWhole: Bool, until end: Int64
    ) throws(PostgresError) {
        var parameters = Parameters()
        parameters.appendArray(.uuid, dead) { $0.append($1.key) }
        parameters.appendArray(.timestamp, dead) { $0.append($1.value) }
        parameters.append(int32: Self.roundMax)
        parameters.append(text: TransferError.attemptLostText)
        parameters.append(bool: isWhole)
        while true {
            var results = try lane.withConnection { connection throws(PostgresError) in
                try connection.pipeline(timeout: .seconds(5)) { pipeline in
                    // So that a node that wakes sees either its heartbeat counted or its jobs gone.
                    pipeline.send(Statements.lockRescue, .int64(Self.rescueLock))
                    pipeline.send(Statements.rescueJobs, parameters)
                }
            }
            let count = results.take(1).rowCount
            guard count > 0 else { break }
            context.metrics.rescuedJobs.add(Int64(count), ordering: .relaxed)
            context.logger.notice("jobs of a dead node are queued again", metadata: ["count": "\(count)"])
            context.backlog.addUnknown()
            context.events.written(isWanted: true)
            wakeDispatcher()
            if count < Int(Self.roundMax) || Sys.monotonicNanoseconds() >= end { break }
        }
    }

    /// Fails jobs whose time ended while no node held them: those of a statement. No batch begins after
    /// `end`, in monotonic nanoseconds: the next heartbeat is more urgent. Returns whether those were all.
    func expire(
        _ lane: ReconnectingConnection, _ overdue: Statement = Statements.expiredJobs, until end: Int64
    ) throws(PostgresError) -> Bool {
        while true {
            let stored = try lane.withConnection { connection throws(PostgresError) in
                let rows = try connection.execute(overdue, .int32(Self.roundMax), timeout: .seconds(5))
                return (0..<rows.rowCount).map { StoredJob(overdue: rows, $0) }
            }
            guard !stored.isEmpty else { return true }
            let now = context.clock.now()
            let resumeData = context.configuration.resumeData
            let jobs = stored.map { FinishedJob(overdue: $0, at: now, resumeData: resumeData) }
            let (done, hasDependents): ([JobID], Bool) = try lane.withConnection {
                connection throws(PostgresError) in
                let rows = try connection.execute(
                    Statements.finishJobs, .finished(jobs), timeout: .seconds(5))
                return (rows.identifiers(), rows.hasDependents)
            }
            if hasDependents { context.noteDependencies() }
            let leaving = Set(jobs.filter { $0.record.resumeData != nil }.map(\.lease.job))
            if !leaving.isEmpty { context.commitObserver?.jobsLeaveBytes(done.filter(leaving.contains)) }
            context.commitObserver?.jobsFinished(done)
            context.events.written(isWanted: jobs.contains(where: \.isWanted))
            if stored.count < Int(Self.roundMax) { return true }
            if Sys.monotonicNanoseconds() >= end { return false }
        }
    }

    /// Ends what has expired, and sweeps whatever comes of that. `end`, and what it returns: as for `expire`.
    func keepHouse(_ lane: ReconnectingConnection, until end: Int64) throws(PostgresError) -> Bool {
        let expiry: Result<Bool, PostgresError>
        do throws(PostgresError) {
            expiry = .success(try expire(lane, until: end))
        } catch {
            expiry = .failure(error)
        }
        try sweep(lane)
        return try expiry.get()
    }

    /// Housekeeping, by one node at a time.
    func sweep(_ lane: ReconnectingConnection) throws(PostgresError) {
        var lock = Parameters()
        lock.append(int64: 0x6665_7272_7973_7765)  // "ferryswe"
        var nodes = Parameters()
        nodes.append(float64: Self.nodeLifetimeSeconds)
        var audit = Parameters()
        audit.append(float64: Limits.auditSeconds)
        audit.append(int32: Limits.auditCountMax)
        var lots = Parameters()
        lots.append(float64: Self.lotLifetimeSeconds)
        lots.append(int32: 1_000)
        try lane.withConnection { connection throws(PostgresError) in
            try connection.transaction { connection throws(PostgresError) in
                let mine = try connection.execute(Statements.tryLock, lock)
                guard mine.bool(0, 0) else { return }
                _ = try connection.execute(Statements.foldCounts, nodes)
                _ = try connection.execute(Statements.removeOldAudit, audit)
                _ = try connection.execute(Statements.lockOldLots, lots)
                _ = try connection.execute(Statements.removeOldLots)
                _ = try connection.execute(Statements.sweepConnections, .int32(1_000))
            }
            try removeOldEvents(&connection)
            let health = try connection.execute(Statements.readHealth)
            context.metrics.oldestTransactionMilliseconds.store(
                Int64(health.float64(0, 0) * 1000), ordering: .relaxed)
            context.metrics.deadRows.store(health.int64(0, 1), ordering: .relaxed)
        }
    }

    // MARK: Deadlines

    /// `rows`: of next_deadline.sql.
    private func note(deadline rows: borrowing ResultSet) {
        nextDeadline.store(.max, ordering: .relaxed)
        if rows.rowCount > 0 { expect(rows.instant(0, 0)) }
    }

    private func expect(_ deadline: Timestamp) {
        // A millisecond later, because the database's clock decides, not ours.
        let delay = min(max(0, deadline - context.clock.now()), 1e6) * 1e9 + 1e6
        nextDeadline.min(Sys.monotonicNanoseconds() + Int64(delay), ordering: .relaxed)
    }

    /// Fails jobs at their deadlines until the next round begins, or the lane is to end.
    private func keepDeadlines(_ lane: ReconnectingConnection, until end: Int64) {
        while !context.deadlines.isClosed {
            let now = Sys.monotonicNanoseconds()
            guard now < end else { return }
            if now >= nextDeadline.load(ordering: .relaxed) {
                do {
                    // What is left is due then as well.
                    guard try expire(lane, Statements.dueDeadlines, until: end) else { return }
                    note(
                        deadline: try lane.withConnection { connection throws(PostgresError) in
                            try connection.execute(Statements.nextDeadline, timeout: .seconds(5))
                        })
                } catch {
                    // The next heartbeat reads it again.
                    nextDeadline.store(.max, ordering: .relaxed)
                }
            }
            let next = min(end, nextDeadline.load(ordering: .relaxed))
            let wait = max(0, next - Sys.monotonicNanoseconds())
            for deadline in context.deadlines.wait(milliseconds: Int32((wait + 999_999) / 1_000_000)) {
                expect(deadline)
            }
        }
    }

    /// In small transactions: a sweep may find a day's events.
    private func removeOldEvents(_ connection: inout Connection) throws(PostgresError) {
        var parameters = Parameters()
        parameters.append(float64: context.configuration.eventRetention)
        parameters.append(int32: 1_000)
        for _ in 0..<20 {
            let removed = try connection.execute(Statements.removeOldEvents, parameters).int64(0, 0)
            if removed < 1_000 { return }
        }
    }

    private func sayGoodbye(_ lane: ReconnectingConnection) {
        // First: what still hangs here must not publish what others may take from now on.
        context.lease.end()
        do {
            // Before it: nobody may begin what has ended.
            try context.configuration.spool?.commit(lane, context)
            try lane.withConnection { connection throws(PostgresError) in
                _ = try connection.pipeline(timeout: .seconds(5)) { pipeline in
                    pipeline.send(Statements.reclaimJobs, .lost(by: context.configuration.node))
                    pipeline.send(Statements.removeNode, .identifier(context.configuration.node))
                }
                try lostSenders.takeBackOwn(&connection)
            }
        } catch {
            context.logger.warning("the node could not say goodbye", metadata: ["error": "\(error)"])
        }
    }
}

extension Parameters {
    /// The parameters of heartbeat.sql.
    fileprivate static func heartbeat(_ context: StoreContext, _ demand: RateDemand) -> Parameters {
        let configuration = context.configuration
        var parameters = Parameters()
        parameters.append(configuration.node)
        parameters.append(text: configuration.nodeName)
        parameters.append(text: configuration.version)
        parameters.append(context.startedAt)
        parameters.append(int32: Int32(configuration.slots.busyCount))
        parameters.append(bool: configuration.isWorker && context.isDraining)
        parameters.append(bool: configuration.isWorker)
        parameters.append(float64: configuration.leaseSeconds)
        parameters.append(text: demand.json)
        return parameters
    }
}
