import FerryCore
import Logging
import Postgres
import Synchronization
import Sys

/// Submits the jobs of due schedules, starts discretionary jobs, applies off-peak windows and exchanges
/// throughput estimates. Runs on every node and skips rows locked by another node.
package final class ScheduleRunner: Sendable {
    typealias Cancel = @Sendable (JobID, _ tenant: String) -> Void

    /// Seconds between checks without a wake-up: another node may have created a schedule and crashed.
    private static let idleSeconds = 2.0
    /// Seconds until schedules that are due but locked by another node are checked again.
    private static let lockedSeconds = 0.05
    /// Seconds between two scans of all runs, and between two steps of one scan.
    private static let sweepSeconds = 30.0
    private static let sweepStepSeconds = 1.0
    private static let sweepRunMax: Int32 = 2_000
    /// Advisory lock "ferryswp" of the scan.
    private static let sweepLock: Int64 = 0x6665_7272_7973_7770
    private static let exchangeSeconds = 30.0
    /// Pause after a search for discretionary jobs, as a multiple of its duration: millions may wait, and the
    /// search may take a twentieth of the time at most.
    private static let releasePause: Int64 = 20

    private let insertion: JobInsertion
    private let limits: LimitsCache
    private let cancel: Cancel
    private let limitsChanged: @Sendable () -> Void

    private var context: StoreContext { insertion.context }
    private var signals: StoreSignals { insertion.signals }

    /// `limitsChanged`: called when a window with another rate has opened or closed.
    init(
        _ insertion: JobInsertion, _ limits: LimitsCache, cancel: @escaping Cancel,
        limitsChanged: @escaping @Sendable () -> Void
    ) {
        self.insertion = insertion
        self.limits = limits
        self.cancel = cancel
        self.limitsChanged = limitsChanged
    }

    /// Call when something may be due earlier than known.
    package func wake() { signals.scheduleWakes.send(()) }

    func close() { signals.scheduleWakes.close() }

    /// Body of the thread; returns after `close()`.
    func run() {
        let database = context.connection(
            "schedules",
            adjust: { options in
                options.pinsPlans = true
                options.connectTimeout = .seconds(2)
                options.statementTimeout = .seconds(20)
            })
        var chores = Chores()
        while !signals.scheduleWakes.isClosed {
            var pause = 1.0
            do {
                pause = try submitDue(database)
                try applyWindows(database, &chores)
                try exchangeThroughputs(database, &chores)
                try sweepRuns(database, &chores)
                pause = min(pause, chores.untilSweep)
            } catch {
                if !error.isConnectionLost {
                    context.logger.error("running schedules failed", metadata: ["error": "\(error)"])
                }
                pause = max(pause, Double(database.retryIn / .milliseconds(1)) / 1_000)
            }
            _ = signals.scheduleWakes.wait(milliseconds: Int32(max(0, pause) * 1_000) + 1)
        }
    }

    /// Submits the jobs of due schedules, unless operators hold them. Returns the seconds until the next
    /// check.
    private func submitDue(_ database: ReconnectingConnection) throws(PostgresError) -> Double {
        if insertion.nodeState.isHeld.load(ordering: .relaxed) { return Self.idleSeconds }
        var countMax = Limits.scheduleBatchMax
        // Schedules that are still due at this time are locked by another node.
        var foundNothingAt: Timestamp?
        var refusals: [ScheduleID: StoreError] = [:]
        while !signals.scheduleWakes.isClosed {
            let work = ScheduleTransaction(
                insertion: insertion, countMax: countMax, now: context.clock.now(), refusals: refusals)
            var due: [ScheduleID] = []
            var admitted = AdmittedJobs()
            let outcome: ScheduleTransaction.Outcome
            do {
                outcome = try database.withConnection { connection throws(PostgresError) in
                    try connection.transaction { connection throws(PostgresError) in
                        try work.commit(&connection, dueIDs: &due, admitted: &admitted)
                    }
                }
                insertion.admission.settle(&admitted, isCommitted: true)
            } catch {
                insertion.admission.settle(&admitted, isCommitted: error.isConnectionLost)
                if error.isSessionChange {
                    try insertion.sessionLoader.readSessions(database)
                    continue
                }
                if let refusal = error.groupRefusal, !due.isEmpty {
                    // Which of several schedules is refused shows only when each runs alone.
                    if due.count == 1 { refusals[due[0]] = refusal } else { countMax = 1 }
                    continue
                }
                guard !error.isConnectionLost, !error.isRetryable, !error.isShortage, !due.isEmpty else {
                    throw error
                }
                context.logger.error(
                    "the database refused due schedules",
                    metadata: ["error": "\(error)", "count": "\(due.count)"])
                // The refused schedule is postponed alone, and delays no other one.
                if due.count == 1 { try postpone(due[0], database) } else { countMax = 1 }
                continue
            }
            refusals = [:]
            count(outcome)
            for next in outcome.cancels { cancel(next.job, next.tenant) }
            if outcome.dueCount == 0 { foundNothingAt = work.now }
            if outcome.leavesDue {
                // Rows that the next transaction does not use are not read again.
                countMax = max(1, outcome.dueCount)
            } else if outcome.dueCount < countMax {
                break
            }
        }
        return try database.withConnection { [foundNothingAt] connection throws(PostgresError) in
            let rows = try connection.execute(Statements.nextSchedule)
            guard rows.rowCount == 1 else { return Self.idleSeconds }
            let due = rows.instant(0, 0)
            if let foundNothingAt, due <= foundNothingAt { return Self.lockedSeconds }
            return min(Self.idleSeconds, max(0, due - context.clock.now()))
        }
    }

    private func count(_ outcome: ScheduleTransaction.Outcome) {
        if outcome.submitted.jobCount > 0 { insertion.note(outcome.submitted) }
        let metrics = context.metrics
        metrics.scheduledJobs.add(Int64(outcome.submitted.jobCount), ordering: .relaxed)
        metrics.missedOccurrences.add(Int64(outcome.missedCount), ordering: .relaxed)
        metrics.skippedOccurrences.add(
            Int64(outcome.skippedCount - outcome.surplusCount), ordering: .relaxed)
        guard outcome.surplusCount > 0 else { return }
        metrics.surplusOccurrences.add(Int64(outcome.surplusCount), ordering: .relaxed)
        context.logger.warning(
            "occurrences of schedules were skipped: their tenants have reached a limit",
            metadata: ["count": "\(outcome.surplusCount)"])
    }

    /// Postpones a schedule that an operator has to repair.
    private func postpone(_ id: ScheduleID, _ database: ReconnectingConnection) throws(PostgresError) {
        var parameters = Parameters()
        parameters.append(id)
        parameters.append(context.clock.now() + ScheduleTransaction.repairSeconds)
        _ = try database.withConnection { connection throws(PostgresError) in
            try connection.execute(Statements.postponeSchedule, parameters).rowCount
        }
    }

    // MARK: Windows

    /// Updates the outlook of discretionary jobs, starts jobs whose window is open, and applies the rate of
    /// the open window.
    private func applyWindows(_ database: ReconnectingConnection, _ chores: inout Chores)
        throws(PostgresError)
    {
        let now = context.clock.now()
        let zones = context.configuration.zones
        let (windows, outlook) = try database.withConnection { connection throws(PostgresError) in
            let windows = OffPeakWindows(stored: try WindowCommands.stored(&connection))
            let isBounded = windows.discretionary.contains { $0.byteCountMax != nil }
            let usage = isBounded ? try DiscretionaryTransaction.usage(&connection) : [:]
            return (windows, DiscretionaryOutlook(windows, usage: usage, at: now, zones))
        }
        insertion.queueState.outlook.withLock { $0 = outlook }
        guard context.configuration.isWorker else { return }
        try startDiscretionary(windows, now, database, &chores)
        let rate = windows.bytesPerSecondMax(at: now, context.configuration.zones)
        if limits.note(windowRate: rate) { limitsChanged() }
    }

    private func startDiscretionary(
        _ windows: OffPeakWindows, _ now: Timestamp, _ database: ReconnectingConnection,
        _ chores: inout Chores
    ) throws(PostgresError) {
        let start = Sys.monotonicNanoseconds()
        guard start >= chores.nextRelease else { return }
        let work = DiscretionaryTransaction(
            context: context, nodeState: insertion.nodeState, now: now)
        let startedCount = try database.withConnection { connection throws(PostgresError) in
            try work.commit(&connection, windows)
        }
        let end = Sys.monotonicNanoseconds()
        chores.nextRelease = end + Self.releasePause * (end - start)
        guard startedCount > 0 else { return }
        context.metrics.discretionaryStarts.add(Int64(startedCount), ordering: .relaxed)
        signals.lookForJobs()
    }

    // MARK: Housekeeping

    private struct Chores {
        // Monotonic nanoseconds.
        var nextSweep: Int64 = 0
        var nextExchange: Int64 = 0
        var nextRelease: Int64 = 0
        /// The job after which this node's scan continues.
        var sweptUpTo = JobID(high: 0, low: 0)

        /// Seconds until the next step of the scan.
        var untilSweep: Double { max(0, Double(nextSweep - Sys.monotonicNanoseconds()) / 1e9) }
    }

    private func exchangeThroughputs(
        _ database: ReconnectingConnection, _ chores: inout Chores
    ) throws(PostgresError) {
        let now = Sys.monotonicNanoseconds()
        guard now >= chores.nextExchange else { return }
        chores.nextExchange = now + Int64(Self.exchangeSeconds * 1e9)
        let clock = context.clock
        try database.withConnection { [hostState = insertion.hostState] connection throws(PostgresError) in
            try hostState.throughputs.exchange(&connection, now: clock.now())
        }
    }

    /// Removes runs whose jobs are deleted, for one range of jobs. One node at a time scans.
    private func sweepRuns(_ database: ReconnectingConnection, _ chores: inout Chores) throws(PostgresError) {
        let now = Sys.monotonicNanoseconds()
        guard now >= chores.nextSweep else { return }
        chores.nextSweep = now + Int64(Self.sweepSeconds * 1e9)
        var parameters = Parameters()
        parameters.append(chores.sweptUpTo)
        parameters.append(int32: Self.sweepRunMax)
        let (isMine, last) = try database.withConnection {
            [parameters] connection throws(PostgresError) -> (Bool, JobID?) in
            guard try connection.execute(Statements.holdLock, .int64(Self.sweepLock)).bool(0, 0) else {
                return (false, nil)
            }
            let last: JobID? = try connection.execute(Statements.sweepRuns, parameters).identifierOrNil(0, 0)
            if last == nil { _ = try connection.execute(Statements.dropLocks) }
            return (true, last)
        }
        guard isMine else { return }
        chores.sweptUpTo = last ?? JobID(high: 0, low: 0)
        if last != nil { chores.nextSweep = now + Int64(Self.sweepStepSeconds * 1e9) }
    }
}
