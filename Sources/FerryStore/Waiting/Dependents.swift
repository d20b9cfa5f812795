import FerryCore
import Logging
import Postgres
import Synchronization
import Sys

/// Releases jobs whose dependencies have ended, and fails those whose dependency did not succeed. Used on the
/// dispatcher's thread only.
///
/// A transaction that ends a job or finishes a group with dependents, or submits a job with dependencies,
/// also inserts a row into `dependency_outbox`. The first node that gets the advisory lock processes these
/// rows, one transaction at a time; rows that a crash leaves are processed by the next one. A chain of n
/// failures takes n transactions.
struct Dependents {
    /// Effects of `step` on which the dispatcher has to act.
    struct Effects {
        var queuedCount = 0
        var nextDue: Timestamp?
    }

    /// Time of the next check in monotonic nanoseconds; `nil` if no unprocessed rows are known.
    private(set) var nextLook: Int64?

    /// Limits of one transaction: rows of `dependency_outbox`, and dependents of the jobs that have ended.
    private static let outboxRowMax: Int32 = 500
    private static let dependentMax: Int32 = 500
    /// Limits of one `step`: transactions, and nanoseconds after which no further transaction begins.
    private static let transactionMax = 20
    private static let timeMax: Int64 = 50_000_000
    /// Advisory lock "ferrydep": held by the node that processes `dependency_outbox`.
    private static let lock: Int64 = 0x6665_7272_7964_6570
    private static let lockedNanoseconds: Int64 = 10_000_000

    mutating func note() { nextLook = 0 }

    /// Processes the rows of `dependency_outbox` if a check is due.
    mutating func step(_ database: ReconnectingConnection, _ queueState: QueueState) -> Effects {
        var effects = Effects()
        let now = Sys.monotonicNanoseconds()
        guard let due = nextLook, due <= now, database.retryIn == .zero else { return effects }
        do {
            for _ in 0..<Self.transactionMax {
                let outcome = try database.withConnection { connection throws(PostgresError) in
                    try connection.transaction { connection throws(PostgresError) in
                        try DependencyTransaction(&connection, queueState.context, queueState.nodeState)
                    }
                }
                guard outcome.isMine else {
                    nextLook = now + Self.lockedNanoseconds
                    return effects
                }
                guard outcome.outboxRowCount > 0 else {
                    nextLook = nil
                    return effects
                }
                effects.queuedCount += outcome.queuedCount
                effects.nextDue = [effects.nextDue, outcome.nextDue].compactMap(\.self).min()
                notifyObservers(outcome, queueState.signals)
                if Sys.monotonicNanoseconds() - now > Self.timeMax { break }
            }
        } catch {
            nextLook = now + 1_000_000_000
            if !error.isConnectionLost, !error.isRetryable {
                queueState.context.logger.error(
                    "resolving dependencies failed", metadata: ["error": "\(error)"])
            }
        }
        return effects
    }

    private func notifyObservers(_ outcome: DependencyTransaction, _ signals: StoreSignals) {
        if !outcome.failed.isEmpty {
            signals.commitObserver?.jobsFinished(outcome.failed.map(\.lease.job))
        }
        if !outcome.failed.isEmpty || outcome.asks {
            signals.events.written(isWanted: outcome.asks || outcome.failed.contains(where: \.isWanted))
        }
    }

    /// One transaction that processes rows of `dependency_outbox`.
    private struct DependencyTransaction {
        /// `false` if another node holds the lock.
        var isMine = true
        var outboxRowCount = 0
        var queuedCount = 0
        var nextDue: Timestamp?
        var failed: [FinishedJob] = []
        /// `true` if a client was asked whether a job may begin.
        var asks = false

        /// Locks rows of jobs before rows of sessions, like all transactions (finish_jobs.sql).
        init(
            _ connection: inout Connection, _ context: StoreContext, _ nodeState: NodeState
        ) throws(PostgresError) {
            isMine = try connection.execute(Statements.tryLock, .int64(Dependents.lock)).bool(0, 0)
            guard isMine else { return }
            var most = Parameters.int32(Dependents.outboxRowMax)
            most.append(int32: Dependents.dependentMax)
            let rows = try connection.execute(Statements.resolveDependencies, most)
            outboxRowCount = Int(rows.int32(0, 0))
            var released: [JobID] = []
            var reasons: [JobID: TransferError] = [:]
            for row in 0..<rows.rowCount where !rows.isNull(row, 1) {
                let dependent: JobID = rows.identifier(row, 1)
                guard let dependency: JobID = rows.identifierOrNil(row, 2) else {
                    released.append(dependent)
                    continue
                }
                let (round, state) = (rows.int32(row, 4), rows.text(row, 3))
                reasons[dependent] =
                    round > 0
                    ? .groupFailed(rows.textOrNil(row, 5), outcome: state)
                    : round < 0
                        ? .uploadMissing(UploadID(high: dependency.high, low: dependency.low))
                        : .dependencyFailed(dependency, state: state)
            }
            if !reasons.isEmpty { released += try judge(reasons, &connection, context) }
            if !released.isEmpty { try release(released, &connection, context, nodeState) }
            guard !failed.isEmpty else { return }
            let done = try connection.execute(Statements.finishJobs, .finished(failed))
            let ids = Set(done.identifiers() as [JobID])
            failed.removeAll { !ids.contains($0.lease.job) }
        }

        /// Returns the jobs with `on_dependency_failure: ignore`; the others are added to `failed`.
        private mutating func judge(
            _ reasons: [JobID: TransferError], _ connection: inout Connection, _ context: StoreContext
        ) throws(PostgresError) -> [JobID] {
            var ignoring: [JobID] = []
            let rows = try connection.execute(Statements.lockDependents, .identifiers(Array(reasons.keys)))
            let now = context.clock.now()
            for row in 0..<rows.rowCount {
                guard let stored = StoredJob(rows, row, isWide: false, context.damagedRows),
                    let error = reasons[stored.record.id]
                else { continue }
                // An unreadable spec cannot ask to ignore the failure.
                if stored.record.spec?.schedule.onDependencyFailure == .ignore {
                    ignoring.append(stored.record.id)
                } else {
                    failed.append(
                        FinishedJob(stored, .failed, error, at: now))
                }
            }
            return ignoring
        }

        private mutating func release(
            _ jobs: [JobID], _ connection: inout Connection, _ context: StoreContext,
            _ nodeState: NodeState
        ) throws(PostgresError) {
            let rows = try connection.execute(Statements.lockFreeDependents, .identifiers(jobs))
            let now = context.clock.now()
            let changes = (0..<rows.rowCount).map { row in
                let id: JobID = rows.identifier(row, 0)
                // A job whose spec cannot be read is queued, and fails when it begins.
                let spec = StoredSpec(rows.bytes(row, 1), of: id, log: context.damagedRows).spec
                return JobChange(
                    releasing: id, spec?.schedule ?? JobSpec.Schedule(), spec?.questions ?? QuestionRules(),
                    now: now)
            }
            asks = changes.contains { $0.input == .askBegin }
            let released = try ChangedJob.commit(changes, &connection)
            queuedCount = released.count { $0.state == .queued }
            nextDue = released.filter { $0.state == .waiting }.compactMap(\.dueAt).min()
            if !released.isEmpty, nodeState.hasPeers.load(ordering: .relaxed) {
                var work = Parameters()
                work.append(text: "work")
                _ = try connection.execute(Statements.notify, work)
            }
        }
    }
}

extension JobChange {
    /// Lets a job whose dependencies have ended begin, at its begin date or after a confirmation.
    fileprivate init(
        releasing job: JobID, _ schedule: JobSpec.Schedule, _ rules: QuestionRules, now: Timestamp
    ) {
        if let begin = schedule.earliestBeginAt, begin > now {
            self.init(.endDependenciesLater, job)
            asks = schedule.confirmsBeforeBegin
            dueAt = begin
        } else if schedule.confirmsBeforeBegin {
            self.init(.askBegin, job)
            ask(rules.question(askedAt: now))
        } else {
            self.init(.endDependencies, job)
            asks = false
        }
    }
}

extension TransferError {
    /// `state`: the state in which the dependency ended, or `deleted`.
    fileprivate static func dependencyFailed(_ job: JobID, state: String) -> TransferError {
        let how = state == "failed" ? "failed" : "was \(state)"
        return TransferError(
            .dependencyFailed, "\(job), on which this job depends, \(how).", phase: .waiting,
            isRetryable: false)
    }

    /// The upload has expired or was deleted before it was complete.
    fileprivate static func uploadMissing(_ upload: UploadID) -> TransferError {
        TransferError(
            .dependencyFailed,
            "\(upload), which this job sends, has expired or was deleted before it was complete.",
            phase: .waiting, isRetryable: false)
    }

    /// `name`: `nil` if the group was deleted since.
    fileprivate static func groupFailed(_ name: String?, outcome: String) -> TransferError {
        let group = name.map { "The group \($0)" } ?? "A deleted group"
        let how = outcome == "failed" ? "failed jobs that were not retried" : "cancelled jobs"
        return TransferError(
            .dependencyFailed, "\(group), on which this job depends, has \(how).", phase: .waiting,
            isRetryable: false)
    }
}
