import FerryCore
import Postgres

/// A command of a client for unfinished jobs: what one job allows, and how it is carried out for any number
/// of jobs at once.
enum JobCommand: Sendable, Equatable {
    /// Ends jobs that no node runs or holds, and asks the nodes of the others. `keepsBytes`: keeps the bytes
    /// of downloads for other jobs (`resume_data`).
    case cancel(keepsBytes: Bool)
    /// Suspends jobs that no node runs or holds, and asks the nodes of the others.
    case suspend
    /// Resumes suspended jobs, and withdraws suspensions that a node has not carried out yet.
    case resume

    /// Returns why the job's state does not allow the command; `nil` if it does.
    func refusal(of stored: StoredJob) -> StoreError? {
        let isAllowed: Bool
        switch self {
        case .cancel: isAllowed = !stored.record.state.isTerminal
        case .resume: isAllowed = stored.record.state == .suspended || stored.isLeased
        case .suspend:
            switch stored.record.state {
            case .running where stored.isCancelRequested, .queued where stored.isCancelRequested:
                isAllowed = false
            case .running where !(stored.record.spec?.isRequestRepeatable ?? true):
                return .requestNotRepeatable
            case .waiting, .queued, .running: isAllowed = true
            case .suspended, .succeeded, .failed, .cancelled: isAllowed = false
            }
        }
        return isAllowed ? nil : .invalidState(of: stored.record)
    }

    /// Returns why a job that `carryOut` has not changed does not allow the command; `nil` if it has changed
    /// meanwhile. A running job says only then that no suspension was requested.
    func refusal(ofUnchanged stored: StoredJob) -> StoreError? {
        self == .resume && stored.isLeased ? .invalidState(of: stored.record) : nil
    }

    /// Carries the command out for jobs that it does not refuse. Jobs that have changed since they were read
    /// stay as they are. `resume` locks the jobs: call it in a transaction. After the commit, call
    /// `Outcome.note`.
    func carryOut(
        _ jobs: [StoredJob], _ connection: inout Connection, _ queueState: QueueState
    ) throws(PostgresError) -> Outcome {
        var outcome = Outcome()
        switch self {
        case .cancel(let keepsBytes):
            let input: JobInput = keepsBytes ? .requestCancellationKeepingBytes : .requestCancellation
            try outcome.ask(
                jobs.filter(\.isLeased), input, keepsBytes ? .cancelKeepingBytes : .cancel, &connection)
            try outcome.end(
                jobs.filter { !$0.isLeased }, keepsBytes: keepsBytes, &connection, queueState)
        case .suspend:
            try outcome.ask(jobs.filter(\.isLeased), .requestSuspension, .suspend, &connection)
            let changes = jobs.filter { !$0.isLeased }.map { JobChange(.suspend, $0.record) }
            try outcome.commit(changes, &connection)
        case .resume:
            try outcome.commit(try JobChange.resuming(jobs, &connection, queueState), &connection)
        }
        return outcome
    }

    /// Result of `carryOut`.
    struct Outcome {
        /// The jobs that were changed, or whose nodes were asked.
        private(set) var changed: Set<JobID> = []
        /// Those of them that have ended.
        private(set) var finished: [FinishedJob] = []
        /// The bytes that ended jobs have left and that no other job may continue.
        private var droppedBytes: [ResumePoint] = []
        private var stops: [(job: JobID, how: AttemptStop)] = []
        /// `true` if rows were written to `dependency_outbox`.
        private var hasDependencyWork = false
        /// `true` if a client was asked whether a job may begin.
        private var asks = false

        /// Asks the nodes of jobs.
        fileprivate mutating func ask(
            _ jobs: [StoredJob], _ input: JobInput, _ how: AttemptStop, _ connection: inout Connection
        ) throws(PostgresError) {
            let requests = jobs.map { stored in
                var request = JobChange(input, stored.record)
                request.notification = "\(how.rawValue):\(stored.record.id.uuidText)"
                return request
            }
            let asked = try ChangedJob.commit(requests, &connection).map(\.id)
            changed.formUnion(asked)
            stops += asked.map { ($0, how) }
        }

        /// Ends jobs that no node runs or holds.
        fileprivate mutating func end(
            _ jobs: [StoredJob], keepsBytes: Bool, _ connection: inout Connection, _ queueState: QueueState
        ) throws(PostgresError) {
            guard !jobs.isEmpty else { return }
            let resumeData = keepsBytes ? queueState.context.configuration.resumeData : nil
            let now = queueState.context.clock.now()
            let ends = jobs.map {
                FinishedJob($0, .cancelled, .cancelledByRequest, at: now, resumeData: resumeData)
            }
            let rows = try connection.execute(Statements.finishJobs, .finished(ends))
            let ended = Set<JobID>(rows.identifiers())
            if rows.hasDependents { hasDependencyWork = true }
            changed.formUnion(ended)
            finished += ends.filter { ended.contains($0.lease.job) }
            if !keepsBytes {
                droppedBytes += jobs.compactMap {
                    $0.hasBytes && ended.contains($0.record.id) ? ResumePoint(of: $0.record) : nil
                }
            }
        }

        fileprivate mutating func commit(
            _ changes: [JobChange], _ connection: inout Connection
        ) throws(PostgresError) {
            let jobs = try ChangedJob.commit(changes, &connection).map(\.id)
            changed.formUnion(jobs)
            if changes.contains(where: { $0.input == .resumeDependent }) { hasDependencyWork = true }
            if changes.contains(where: { $0.input == .askBegin }) { asks = true }
        }

        /// Tells the other parts of this node. Call after the commit.
        func note(_ queueState: QueueState) {
            let signals = queueState.signals
            if hasDependencyWork { signals.noteDependencies() }
            for stop in stops { queueState.stop(stop.job, stop.how) }
            if asks { signals.events.written(isWanted: true) }
            guard !finished.isEmpty else { return }
            let leaving = finished.filter { $0.record.resumeData != nil }.map(\.lease.job)
            if !leaving.isEmpty { signals.commitObserver?.jobsLeaveBytes(leaving) }
            signals.commitObserver?.jobsFinished(finished.map(\.lease.job))
            if !droppedBytes.isEmpty { signals.commitObserver?.bytesDropped(droppedBytes) }
            signals.events.written(isWanted: finished.contains(where: \.isWanted))
        }
    }
}

extension JobChange {
    /// Returns the changes that resume jobs: suspended ones wait for what is still to come, and the
    /// suspension of running ones is withdrawn. Locks the suspended jobs: call in a transaction. Jobs that
    /// have changed meanwhile are left out.
    fileprivate static func resuming(
        _ jobs: [StoredJob], _ connection: inout Connection, _ queueState: QueueState
    ) throws(PostgresError) -> [JobChange] {
        let suspended = jobs.filter { $0.record.state == .suspended }
        var locked: [JobID: (asks: Bool, depends: Bool)] = [:]
        if !suspended.isEmpty {
            var parameters = Parameters()
            parameters.appendArray(.uuid, suspended) { $0.append($1.record.id) }
            parameters.appendArray(.int32, suspended) { $0.append(int32: $1.record.revision) }
            let rows = try connection.execute(Statements.lockSuspendedJobs, parameters)
            for row in 0..<rows.rowCount {
                locked[rows.identifier(row, 0)] = (rows.bool(row, 1), rows.bool(row, 2))
            }
        }
        return jobs.compactMap { stored in
            guard stored.record.state == .suspended else {
                var withdrawal = JobChange(.withdrawSuspension, stored.record)
                withdrawal.notification = "work"
                return withdrawal
            }
            return locked[stored.record.id].map {
                JobChange(resuming: stored, asks: $0.asks, depends: $0.depends, queueState)
            }
        }
    }

    /// Resumes a suspended job. `asks`: a client must confirm its begin; `depends`: it has dependencies.
    private init(resuming stored: StoredJob, asks: Bool, depends: Bool, _ queueState: QueueState) {
        let record = stored.record
        // An unreadable spec has no begin date: the job is queued, and fails when it begins.
        let spec = record.spec
        let now = queueState.context.clock.now()
        let isDiscretionary = spec?.schedule.isDiscretionary == true && record.attempt == 0
        var begin = spec?.schedule.earliestBeginAt.flatMap { $0 > now ? $0 : nil }
        if isDiscretionary, let spec {
            begin = spec.latestDiscretionaryStart(
                createdAt: record.createdAt, now: now,
                bytesPerSecond: queueState.hostState.throughputs.bytesPerSecond(stored.origin))
        }
        let resumption: JobInput = begin != nil ? .resumeLater : asks ? .askBegin : .resume
        self.init(depends ? .resumeDependent : resumption, record)
        self.asks = asks
        if isDiscretionary, let spec {
            discretionary = (max(now, spec.schedule.earliestBeginAt ?? now), spec.expectedByteCount)
            if input == .resumeLater, !asks { input = .resumeDiscretionary }
        }
        if input != .resumeDependent { dueAt = begin }
        if input == .askBegin { ask((spec?.questions ?? QuestionRules()).question(askedAt: now)) }
        notification = "work"
    }
}
