package import FerryCore
import Logging
import Postgres
import Synchronization
import Sys

/// Lets jobs go on whose dependencies have ended, and fails those that wanted them to succeed. Lives on the
/// dispatcher's thread.
///
/// Whoever ends a job that others depend on, or submits one that depends on others, leaves news in the
/// same transaction; they are taken afterwards, by whichever node comes first. Each round is one transaction:
/// what a crash leaves is taken by the next. A chain of failures is as many rounds as it has links.
struct Dependents {
    /// What follows for the dispatcher.
    struct Effects {
        var queuedCount = 0
        var nextDue: Timestamp?
    }

    /// When to look; monotonic nanoseconds. Nil: there is no news, as far as is known.
    private(set) var nextLook: Int64?

    /// News of one round at most, and jobs that depend on what has ended.
    private static let newsMax: Int32 = 500
    private static let dependentMax: Int32 = 500
    /// Rounds before the dispatcher does something else, and the nanoseconds after which none begins.
    private static let roundMax = 20
    private static let patience: Int64 = 50_000_000
    /// "ferrydep": held by who takes news.
    private static let lock: Int64 = 0x6665_7272_7964_6570
    private static let busyNanoseconds: Int64 = 10_000_000

    mutating func note() { nextLook = 0 }

    /// Takes the news, if there may be any.
    mutating func step(_ lane: ReconnectingConnection, _ context: StoreContext) -> Effects {
        var effects = Effects()
        let now = Sys.monotonicNanoseconds()
        guard let due = nextLook, due <= now, lane.retryIn == .zero else { return effects }
        do {
            for _ in 0..<Self.roundMax {
                let round = try lane.withConnection { connection throws(PostgresError) in
                    try connection.transaction { connection throws(PostgresError) in
                        try DependencyTransaction(&connection, context)
                    }
                }
                guard round.isMine else {
                    nextLook = now + Self.busyNanoseconds
                    return effects
                }
                guard round.newsCount > 0 else {
                    nextLook = nil
                    return effects
                }
                effects.queuedCount += round.queuedCount
                effects.nextDue = [effects.nextDue, round.nextDue].compactMap(\.self).min()
                tell(round, context)
                if Sys.monotonicNanoseconds() - now > Self.patience { break }
            }
        } catch {
            nextLook = now + 1_000_000_000
            if !error.isConnectionLost, !error.isRetryable {
                context.logger.error("dependencies were not resolved", metadata: ["error": "\(error)"])
            }
        }
        return effects
    }

    private func tell(_ round: DependencyTransaction, _ context: StoreContext) {
        guard !round.failed.isEmpty else { return }
        context.commitObserver?.jobsFinished(round.failed.map(\.lease.job))
        if !round.failed.isEmpty {
            context.events.written(isWanted: round.failed.contains(where: \.isWanted))
        }
    }

    /// One transaction.
    private struct DependencyTransaction {
        /// False: somebody else takes the news at this moment.
        var isMine = true
        var newsCount = 0
        var queuedCount = 0
        var nextDue: Timestamp?
        var failed: [FinishedJob] = []

        /// Rows of jobs are locked before those of sessions (finish_jobs.sql), as everywhere.
        init(_ connection: inout Connection, _ context: StoreContext) throws(PostgresError) {
            isMine = try connection.execute(Statements.tryLock, .int64(Dependents.lock)).bool(0, 0)
            guard isMine else { return }
            var most = Parameters.int32(Dependents.newsMax)
            most.append(int32: Dependents.dependentMax)
            let rows = try connection.execute(Statements.resolveDependencies, most)
            newsCount = Int(rows.int32(0, 0))
            var released: [JobID] = []
            var reasons: [JobID: TransferError] = [:]
            for row in 0..<rows.rowCount where !rows.isNull(row, 1) {
                let dependent: JobID = rows.identifier(row, 1)
                guard let dependency: JobID = rows.identifierOrNil(row, 2) else {
                    released.append(dependent)
                    continue
                }
                reasons[dependent] = .dependencyFailed(dependency, state: rows.text(row, 3))
            }
            if !reasons.isEmpty { released += try judge(reasons, &connection, context) }
            if !released.isEmpty { try release(released, &connection, context) }
            guard !failed.isEmpty else { return }
            let done = try connection.execute(Statements.finishJobs, .finished(failed))
            let ids = Set(done.identifiers() as [JobID])
            failed.removeAll { !ids.contains($0.lease.job) }
        }

        /// Which of them go on although a dependency did not succeed; the others fail.
        private mutating func judge(
            _ reasons: [JobID: TransferError], _ connection: inout Connection, _ context: StoreContext
        ) throws(PostgresError) -> [JobID] {
            var goingOn: [JobID] = []
            let rows = try connection.execute(Statements.lockDependents, .identifiers(Array(reasons.keys)))
            let now = context.clock.now()
            for row in 0..<rows.rowCount {
                let stored = StoredJob(rows, row, isWide: false)
                guard let error = reasons[stored.record.id] else { continue }
                let spec = try? JobSpec(storedJSON: stored.record.specJSON)
                if spec?.schedule.onDependencyFailure == .ignore {
                    goingOn.append(stored.record.id)
                } else {
                    failed.append(
                        FinishedJob(stored, .failed, error, at: now))
                }
            }
            return goingOn
        }

        private mutating func release(
            _ jobs: [JobID], _ connection: inout Connection, _ context: StoreContext
        ) throws(PostgresError) {
            let rows = try connection.execute(Statements.releaseDependents, .identifiers(jobs))
            for row in 0..<rows.rowCount {
                guard let begin = rows.instantOrNil(row, 1) else {
                    queuedCount += 1
                    continue
                }
                nextDue = min(nextDue ?? begin, begin)
            }
            if rows.rowCount > 0, context.hasPeers.load(ordering: .relaxed) {
                var work = Parameters()
                work.append(text: "work")
                _ = try connection.execute(Statements.notify, work)
            }
        }
    }
}

extension TransferError {
    /// `state`: how the dependency ended.
    fileprivate static func dependencyFailed(_ job: JobID, state: String) -> TransferError {
        let how = state == "failed" ? "failed" : "was \(state)"
        return TransferError(
            .dependencyFailed, "\(job), on which this job depends, \(how).", phase: .waiting,
            isRetryable: false)
    }
}

extension ControlLane {
    /// Times that rows which somebody else has locked are asked for again, and the pause between, in
    /// milliseconds.
    private static let flagTryMax = 50
    private static let flagPause: Int32 = 4

    /// To be called before jobs are submitted that depend on these: from then on their end is told to the
    /// dependents. Answers with those that the tenant does not have.
    package func prepareDependencies(_ jobs: [JobID], tenant: String, reply: @escaping Reply<[JobID]>) {
        perform("prepare_dependencies", isRead: false, reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<[JobID], StoreError> in
            var left = Set(jobs)
            let pause = Mailbox<Never>()
            for _ in 0..<Self.flagTryMax {
                var parameters = Parameters.identifiers(Array(left))
                parameters.append(text: tenant)
                let rows = try connection.execute(Statements.flagDependencies, parameters)
                var busy: Set<JobID> = []
                for row in 0..<rows.rowCount {
                    let id: JobID = rows.identifier(row, 0)
                    left.remove(id)
                    if !rows.bool(row, 1) { busy.insert(id) }
                }
                if !left.isEmpty { return .success(jobs.filter(left.contains)) }
                if busy.isEmpty { return .success([]) }
                left = busy
                _ = pause.wait(milliseconds: Self.flagPause)
            }
            return .failure(.unavailable)
        }
    }
}

extension Parameters {
    static func identifiers<Kind>(_ values: [Identifier<Kind>]) -> Parameters {
        var parameters = Parameters(capacity: values.count * 20)
        parameters.appendArray(.uuid, values) { $0.append($1) }
        return parameters
    }

    /// The parameters of add_dependencies.sql.
    static func dependencies(_ submissions: [Submission]) -> Parameters {
        let jobs = submissions.flatMap(\.jobs)
        let dependents = jobs.filter { !$0.spec.schedule.dependsOn.isEmpty }
        let pairs = dependents.flatMap { job in job.spec.schedule.dependsOn.map { (job.id, $0) } }
        let own = Set(jobs.map(\.id))
        var parameters = Parameters(capacity: pairs.count * 48)
        parameters.appendArray(.uuid, pairs) { $0.append($1.0) }
        parameters.appendArray(.uuid, pairs) { $0.append($1.1) }
        parameters.appendArray(.uuid, Array(Set(pairs.map(\.1)).intersection(own))) { $0.append($1) }
        return parameters
    }
}
