import FerryCore
import Logging
import Postgres
import Synchronization
import Sys

/// Does what one node must do for all: queues the jobs of dead nodes again, fails jobs whose time is over,
/// and removes old rows. Lives on the thread of the `Heartbeat` and uses its connection.
struct Reaper {
    /// Jobs that one transaction reclaims or fails at most.
    private static let batchMax: Int32 = 500
    /// Seconds without a heartbeat after which a node's row is removed.
    private static let nodeLifetimeSeconds = 3_600.0
    /// Nanoseconds between two searches for running jobs whose nodes have no row.
    private static let orphanSearchInterval: Int64 = 60_000_000_000
    /// Nanoseconds between two sweeps.
    private static let sweepInterval: Int64 = 30_000_000_000
    /// Nanoseconds between two searches for expired jobs.
    private static let expiryInterval: Int64 = 50_000_000
    /// Seconds after which a narrow claim queue without jobs is removed; nodes remember one for ten minutes.
    private static let claimQueueLifetimeSeconds = 7_200.0

    private let context: StoreContext
    private let signals: StoreSignals
    private let deliveryReclaimer: DeliveryReclaimer
    private var detector: FailureDetector
    // Instants of the monotonic clock, in nanoseconds.
    private var nextSweep = Sys.monotonicNanoseconds()
    private var nextOrphanSearch = Sys.monotonicNanoseconds()
    private var nextExpiry = Int64.max

    init(
        _ context: StoreContext, _ signals: StoreSignals, _ deliveryReclaimer: DeliveryReclaimer
    ) {
        self.context = context
        self.signals = signals
        self.deliveryReclaimer = deliveryReclaimer
        detector = FailureDetector(leaseSeconds: context.configuration.leaseSeconds)
    }

    /// Reclaims, fails and sweeps what is due after a heartbeat. `heartbeats` are the last ones of the other
    /// nodes, `start` is when this node's heartbeat began. No batch begins after `end`: the next heartbeat is
    /// more urgent. Both in monotonic nanoseconds.
    mutating func reap(
        _ heartbeats: [NodeID: Timestamp], _ database: ReconnectingConnection, startedAt start: Int64,
        until end: Int64
    ) throws(PostgresError) {
        let dead = detector.dead(heartbeats, at: Sys.monotonicNanoseconds())
        let includesOrphans = start >= nextOrphanSearch
        if includesOrphans || !dead.isEmpty {
            try reclaim(dead, includesOrphans: includesOrphans, database, until: end)
            if includesOrphans { nextOrphanSearch = start + Self.orphanSearchInterval }
        }
        if start >= nextSweep {
            nextSweep = start + Self.sweepInterval
            if try !expireAndSweep(database, until: end) { nextSweep = end }
        }
        // Last: it may take as long as a statement may.
        try deliveryReclaimer.reclaim(of: dead, database, lock: Heartbeat.reclaimLock)
    }

    /// Queues the jobs of dead nodes again. `dead` has the nodes and their last heartbeats.
    /// `includesOrphans`: also running jobs whose nodes have no row. `end`: as for `reap`.
    private func reclaim(
        _ dead: [NodeID: Timestamp], includesOrphans: Bool, _ database: ReconnectingConnection,
        until end: Int64
    ) throws(PostgresError) {
        var parameters = Parameters()
        parameters.appendArray(.uuid, dead) { $0.append($1.key) }
        parameters.appendArray(.timestamp, dead) { $0.append($1.value) }
        parameters.append(int32: Self.batchMax)
        parameters.append(bool: includesOrphans)
        while true {
            let count = try database.withConnection { [parameters] connection throws(PostgresError) in
                try connection.transaction { connection throws(PostgresError) in
                    // So that a node that wakes sees either its heartbeat counted or its jobs gone.
                    _ = try connection.execute(
                        Statements.waitForLock, .int64(Heartbeat.reclaimLock), timeout: .seconds(5))
                    return try JobChange.loseJobs(
                        Statements.lockJobsOfDeadNodes, parameters, at: context.clock.now(), &connection)
                }
            }
            guard count > 0 else { break }
            context.metrics.reclaimedJobs.add(Int64(count), ordering: .relaxed)
            context.logger.notice("jobs of a dead node are queued again", metadata: ["count": "\(count)"])
            signals.events.written(isWanted: true)
            signals.lookForJobs()
            if count < Int(Self.batchMax) || Sys.monotonicNanoseconds() >= end { break }
        }
    }

    /// Fails jobs whose time ended while no node held them. `end`: as for `reap`.
    /// Returns `false` if some are left.
    func expire(
        _ database: ReconnectingConnection, until end: Int64
    ) throws(PostgresError) -> Bool {
        while true {
            let stored = try database.withConnection { connection throws(PostgresError) in
                let rows = try connection.execute(
                    Statements.expiredJobs, .int32(Self.batchMax), timeout: .seconds(5))
                return (0..<rows.rowCount).compactMap { StoredJob(overdue: rows, $0, context.damagedRows) }
            }
            guard !stored.isEmpty else { return true }
            let now = context.clock.now()
            let resumeData = context.configuration.resumeData
            let jobs = stored.map { FinishedJob(overdue: $0, at: now, resumeData: resumeData) }
            let (done, hasDependents): ([JobID], Bool) = try database.withConnection {
                connection throws(PostgresError) in
                let rows = try connection.execute(
                    Statements.finishJobs, .finished(jobs), timeout: .seconds(5))
                return (rows.identifiers(), rows.hasDependents)
            }
            if hasDependents { signals.noteDependencies() }
            let leaving = Set(jobs.filter { $0.record.resumeData != nil }.map(\.lease.job))
            if !leaving.isEmpty { signals.commitObserver?.jobsLeaveBytes(done.filter(leaving.contains)) }
            signals.commitObserver?.jobsFinished(done)
            signals.events.written(isWanted: jobs.contains(where: \.isWanted))
            if stored.count < Int(Self.batchMax) { return true }
            if Sys.monotonicNanoseconds() >= end { return false }
        }
    }

    /// Fails expired jobs, then sweeps even if that has failed. `end` and the result: as for `expire`.
    func expireAndSweep(_ database: ReconnectingConnection, until end: Int64) throws(PostgresError) -> Bool {
        let expiry: Result<Bool, PostgresError>
        do throws(PostgresError) {
            expiry = .success(try expire(database, until: end))
        } catch {
            expiry = .failure(error)
        }
        try sweep(database)
        return try expiry.get()
    }

    /// Removes old rows and folds counts, on one node at a time; reads metrics about the database's health.
    func sweep(_ database: ReconnectingConnection) throws(PostgresError) {
        var lock = Parameters()
        lock.append(int64: 0x6665_7272_7973_7765)  // "ferryswe"
        var nodes = Parameters()
        nodes.append(float64: Self.nodeLifetimeSeconds)
        var former = Parameters()
        former.append(float64: Limits.formerNodeSeconds)
        var audit = Parameters()
        audit.append(float64: Limits.auditSeconds)
        audit.append(int32: Limits.auditCountMax)
        var queues = Parameters()
        queues.append(float64: Self.claimQueueLifetimeSeconds)
        queues.append(int32: 1_000)
        try database.withConnection { connection throws(PostgresError) in
            try connection.transaction { connection throws(PostgresError) in
                let isLocked = try connection.execute(Statements.tryLock, lock).bool(0, 0)
                guard isLocked else { return }
                _ = try connection.execute(Statements.foldCounts, nodes)
                _ = try connection.execute(Statements.removeFormerNodes, former)
                _ = try connection.execute(Statements.removeOldAudit, audit)
                _ = try connection.execute(Statements.lockOldClaimQueues, queues)
                _ = try connection.execute(Statements.removeOldClaimQueues)
                _ = try connection.execute(Statements.sweepConnections, .int32(1_000))
            }
            try removeOldEvents(&connection)
            let health = try connection.execute(Statements.readHealth)
            context.metrics.oldestTransactionMilliseconds.store(
                Int64(health.float64(0, 0) * 1000), ordering: .relaxed)
            context.metrics.deadRows.store(health.int64(0, 1), ordering: .relaxed)
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

    // MARK: Expiry of jobs

    /// Replaces the next expiry by the one that was read; `nil` if there is none.
    mutating func note(expiry: Timestamp?) {
        nextExpiry = .max
        if let expiry { expect(expiry) }
    }

    private mutating func expect(_ expiry: Timestamp) {
        // A millisecond later, because the database's clock decides, not this machine's.
        let delay = min(max(0, expiry - context.clock.now()), 1e6) * 1e9 + 1e6
        nextExpiry = min(nextExpiry, Sys.monotonicNanoseconds() + Int64(delay))
    }

    /// Fails jobs when they expire, until the monotonic instant `end`, when the next heartbeat is due, or
    /// until the thread is to end.
    mutating func failOverdueJobs(_ database: ReconnectingConnection, until end: Int64) {
        while !signals.expiries.isClosed {
            let now = Sys.monotonicNanoseconds()
            guard now < end else { return }
            if now >= nextExpiry {
                do {
                    // Jobs that are left are due after the heartbeat as well.
                    guard try expire(database, until: end) else { return }
                    let rows = try database.withConnection { connection throws(PostgresError) in
                        try connection.execute(Statements.nextExpiry, timeout: .seconds(5))
                    }
                    note(expiry: rows.rowCount > 0 ? rows.instant(0, 0) : nil)
                    // A row that cannot be read stays, and is not read again and again.
                    nextExpiry = max(nextExpiry, now + Self.expiryInterval)
                } catch {
                    // The next heartbeat reads it again.
                    nextExpiry = .max
                }
            }
            let wait = max(0, min(end, nextExpiry) - Sys.monotonicNanoseconds())
            for expiry in signals.expiries.wait(milliseconds: Int32((wait + 999_999) / 1_000_000)) {
                expect(expiry)
            }
        }
    }
}
