import FerryCore
import Logging
import Postgres
import Sys

/// Slow and shared work of the cluster: cancels jobs of and ends invalidated sessions, sends reminders of
/// unacknowledged jobs, removes uploads that ended jobs have left at stores, and applies the retention of
/// finished jobs. Runs on every node and skips work that another node does at that moment; another node
/// continues what a crashed one has begun.
package final class Housekeeper: Sendable {
    /// Maximum number of jobs that one transaction cancels.
    private static let batchMax: Int32 = 200
    /// Advisory lock "ferryend": one node at a time cancels jobs of sessions.
    private static let sessionLock: Int64 = 0x6665_7272_7965_6e64
    private static let intervalMilliseconds: Int32 = 3_000
    /// Nanoseconds between two runs of the retention.
    private static let historyInterval: Int64 = 30_000_000_000

    /// More often if the retention is short.
    private static func historyInterval(_ configuration: StoreConfiguration) -> Int64 {
        min(historyInterval, Int64(configuration.retentionSeconds / 4 * 1e9))
    }

    private let queueState: QueueState

    init(_ queueState: QueueState) {
        self.queueState = queueState
    }

    private var context: StoreContext { queueState.context }
    private var signals: StoreSignals { queueState.signals }

    func close() { signals.chores.close() }

    /// Body of the thread; returns after `close()`.
    func run() {
        let database = context.connection(
            "housekeeping",
            adjust: { options in
                options.pinsPlans = true
                options.connectTimeout = .seconds(2)
                // One statement may scan a whole partition.
                options.statementTimeout = .seconds(300)
            })
        let reminders = Reminders(context, signals)
        let uploads = AbandonedUploads(queueState)
        let urgent = { [self] (database: ReconnectingConnection) throws(PostgresError) -> Void in
            var hasMore = true
            while hasMore && !signals.chores.isClosed { hasMore = try cancelJobs(database) }
            try reminders.send(database)
            try uploads.remove(database)
        }
        var history = FinishedJobRetention(context, signals, runUrgent: urgent)
        var nextHistory = Sys.monotonicNanoseconds()
        while !signals.chores.isClosed {
            do throws(PostgresError) {
                try urgent(database)
                try endSessions(database)
                let now = Sys.monotonicNanoseconds()
                if now >= nextHistory {
                    nextHistory = now + Self.historyInterval(context.configuration)
                    try history.keep(database)
                }
            } catch {
                if !error.isConnectionLost {
                    context.logger.error("housekeeping failed", metadata: ["error": "\(error)"])
                }
            }
            _ = signals.chores.wait(milliseconds: Self.intervalMilliseconds)
        }
    }

    // MARK: Sessions

    /// Cancels a batch of jobs of sessions that were invalidated with `cancel`. Returns `true` if there may
    /// be more.
    private func cancelJobs(_ database: ReconnectingConnection) throws(PostgresError) -> Bool {
        var lock = Parameters()
        lock.append(int64: Self.sessionLock)
        let batch = try database.withConnection { connection throws(PostgresError) in
            try connection.transaction {
                connection throws(PostgresError) -> (isFull: Bool, outcome: JobCommand.Outcome)? in
                guard try connection.execute(Statements.tryLock, lock).bool(0, 0) else { return nil }
                let rows = try connection.execute(Statements.cancelSessions, .int32(Self.batchMax))
                let stored = (0..<rows.rowCount).compactMap {
                    StoredJob(rows, $0, isWide: false, context.damagedRows)
                }
                let outcome = try JobCommand.cancel(keepsBytes: false).carryOut(
                    stored, &connection, queueState)
                return (rows.rowCount == Int(Self.batchMax), outcome)
            }
        }
        guard let batch else { return false }
        batch.outcome.note(queueState)
        return batch.isFull && !batch.outcome.changed.isEmpty
    }

    /// Ends invalidated sessions whose last job has ended.
    private func endSessions(_ database: ReconnectingConnection) throws(PostgresError) {
        while true {
            var parameters = Parameters()
            parameters.append(context.clock.now())
            parameters.append(int32: Self.batchMax)
            let count = try database.withConnection { connection throws(PostgresError) in
                try connection.execute(Statements.endSessions, parameters).rowCount
            }
            if count > 0 { signals.events.written(isWanted: true) }
            if count < Int(Self.batchMax) { return }
        }
    }
}
