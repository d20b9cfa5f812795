import FerryCore
import FerryScheduler
import Postgres

/// One transaction of the dispatcher.
struct DispatcherTransaction {
    /// Due jobs that one transaction queues at most.
    static let promotionMax: Int32 = 500

    let endings: [AttemptEnding]
    /// Bytes of the attempts of `endings` that count for their tenants.
    let transfers: [AttemptTransfer]
    /// Attempts of jobs that were held since their submission, whose begin is recorded.
    let begun: [Attempt]
    let promotes: Bool
    let reconciles: Bool
    /// Jobs to lease and queues to scan.
    let claims: Claims
    /// Changes of cookies to store.
    var cookies: CookieWriting?
    /// Passes deliveries on if the transaction also gives its events their numbers (a pass of the relay),
    /// else `nil`.
    var handover: DeliveryHandover?

    struct Outcome {
        var claims = Claims.Outcome()
        /// Results that changed nothing, because their lease was lost.
        var fenced: [Lease] = []
        var promotedCount = 0
        var reconciledCount = 0
        /// Claim queues of jobs that were queued (promoted or given back), with the urgency of the first one.
        var queued: [ClaimQueue: Timestamp] = [:]
        var nextDue: Timestamp?
        /// When the first of the jobs that wait now is due.
        var nextWait: Timestamp?
        /// Versions of the sessions' cookies.
        var cookieVersions: [SessionKey: Int64] = [:]
        /// `true` if other jobs depend on finished ones.
        var hasDependencyWork = false
        var finished: [RecentResults.Committed] = []
        /// The pass of the relay that was part of the transaction, or `nil`.
        var numbered: RelayTransaction.Outcome?

        /// Rows of next_due.sql.
        fileprivate mutating func noteDue(_ rows: borrowing ResultSet) {
            nextDue = rows.rowCount > 0 ? rows.instantOrNil(0, 0) : nil
        }

        /// Returns the jobs that the transaction has finished, for the deliveries of their ends.
        fileprivate func eventJobs(_ jobs: [FinishedJob]) -> [JobID: EventJob] {
            var found: [JobID: EventJob] = [:]
            for job in jobs {
                guard let committed = finished.first(where: { $0.job == job.lease.job }) else { continue }
                found[job.lease.job] = job.eventJob(committed)
            }
            return found
        }

        fileprivate mutating func note(_ changed: [ChangedJob]) {
            for job in changed {
                if job.state == .queued {
                    queued[job.queue] = min(job.urgency, queued[job.queue] ?? job.urgency)
                } else if job.state == .waiting, let due = job.dueAt {
                    nextWait = min(due, nextWait ?? due)
                }
            }
        }
        /// `true` if jobs are due about which a question is to be asked, or was not answered in time.
        var hasDueQuestions = false
    }

    /// Changes the jobs of ended attempts and those that are due, finishes and claims, in this order, in one
    /// transaction.
    func commit(
        _ connection: inout Connection, _ queueState: QueueState, _ numbering: EventNumbering
    ) throws(PostgresError) -> Outcome {
        let unknown = reconciles ? try unknownLeases(&connection, queueState) : []
        let (ended, finished) = try split(&connection, queueState)
        let changes = ended + unknown.map { JobChange(.giveBack, $0) }
        guard promotes || !claims.unreachable.isEmpty || handover != nil else {
            return try commit(changes, finished, unknown.count, &connection, queueState, numbering)
        }
        return try connection.transaction { connection throws(PostgresError) in
            let due: [JobID] =
                promotes
                ? try connection.execute(Statements.lockDueJobs, .int32(Self.promotionMax)).identifiers() : []
            let awaited = try claims.lockUnreachable(&connection)
            return try commit(
                changes, finished, unknown.count, due: due, awaited: awaited, &connection, queueState,
                numbering)
        }
    }

    /// `due` and `awaited`: jobs that this transaction has locked.
    private func commit(
        _ changes: [JobChange], _ finished: [FinishedJob], _ reconciledCount: Int, due: [JobID] = [],
        awaited: [JobID: (queue: Int64, change: JobChange)] = [:], _ connection: inout Connection,
        _ queueState: QueueState, _ numbering: EventNumbering
    ) throws(PostgresError) -> Outcome {
        var outcome = Outcome(reconciledCount: reconciledCount)
        let begins = begun.map { JobChange(recordingBegin: $0) } + endings.compactMap(\.begin)
        let changes = changes + due.map { JobChange(.becomeDue, $0) } + awaited.values.map(\.change)
        let cookies = self.cookies.flatMap { $0.isEmpty ? nil : $0 }
        var results = try connection.pipeline { pipeline in
            if let cookies { pipeline.send(Statements.storeCookies, cookies.parameters(queueState.context)) }
            if !transfers.isEmpty {
                pipeline.send(
                    Statements.countTransfers,
                    .transfers(transfers, of: queueState.context.configuration.node))
            }
            // A statement of its own: the next one may change the same jobs.
            if !begins.isEmpty { pipeline.send(Statements.changeJobs, .changes(begins)) }
            if !changes.isEmpty { pipeline.send(Statements.changeJobs, .changes(changes)) }
            if !finished.isEmpty { pipeline.send(Statements.finishJobs, .finished(finished)) }
            if promotes {
                pipeline.send(Statements.nextDue)
                pipeline.send(Statements.hasDependencyWork)
                pipeline.send(Statements.hasDueQuestions)
            }
            if handover != nil { RelayTransaction.begin(in: &pipeline) }
            claims.send(to: &pipeline, queueState.context)
        }
        var changed: Set<JobID> = []
        var index = 0
        func next(_ results: inout PipelineResults) -> ResultSet {
            defer { index += 1 }
            return results.take(index)
        }
        if cookies != nil { outcome.cookieVersions = CookieWriting.versions(next(&results)) }
        if !transfers.isEmpty { _ = next(&results) }
        if !begins.isEmpty { _ = next(&results) }
        if !changes.isEmpty {
            let jobs = ChangedJob.all(next(&results))
            outcome.note(jobs)
            changed.formUnion(jobs.lazy.map(\.id))
        }
        outcome.promotedCount = due.count { changed.contains($0) }
        if !finished.isEmpty {
            let ended = next(&results)
            changed.formUnion(ended.identifiers())
            outcome.hasDependencyWork = ended.hasDependents
            outcome.finished = ended.committedResults
        }
        if promotes {
            outcome.noteDue(next(&results))
            if next(&results).bool(0, 0) { outcome.hasDependencyWork = true }
            outcome.hasDueQuestions = next(&results).bool(0, 0)
        }
        if let handover {
            outcome.numbered = try RelayTransaction.run(
                begun: next(&results), &connection, numbering, handover: handover,
                finished: outcome.eventJobs(finished))
        }
        if !claims.isEmpty {
            outcome.claims = claims.read(&results, from: index, queueState.context.damagedRows)
            // An attempt uses every credential that its session had when the job was submitted.
            if outcome.claims.sessionEpoch > queueState.context.sessions.current.epoch {
                try numbering.sessionLoader.readSessions(&connection)
            }
        }
        for (job, wait) in awaited where changed.contains(job) { outcome.claims.noteWait(in: wait.queue) }
        outcome.fenced = endings.map(\.lease).filter { !changed.contains($0.job) }
        return outcome
    }

    /// Returns the endings by the statement that writes them. Given back jobs that one node alone can run get
    /// its claim queue.
    private func split(
        _ connection: inout Connection, _ queueState: QueueState
    ) throws(PostgresError) -> ([JobChange], [FinishedJob]) {
        let queues = try queues(&connection, queueState)
        var (changes, finished): ([JobChange], [FinishedJob]) = ([], [])
        for ending in endings {
            switch ending {
            case .finish(let job): finished.append(job)
            case .change(var ending):
                ending.change.home = ending.home?.node
                ending.change.queue = queues[ending.lease.job]
                changes.append(ending.change)
            }
        }
        return (changes, finished)
    }

    /// Returns the claim queues of given back jobs that one node alone can run.
    private func queues(
        _ connection: inout Connection, _ queueState: QueueState
    ) throws(PostgresError) -> [JobID: Int64] {
        var names: [JobID: ClaimQueueCache.Name] = [:]
        for case .change(let ending) in endings {
            guard let home = ending.home else { continue }
            names[ending.lease.job] = queueState.claimQueueName(
                home.scope, session: home.session, home: home.node, queueState.context.sessions.current)
        }
        guard !names.isEmpty else { return [:] }
        let found = try queueState.claimQueues.find(Set(names.values), &connection, isCommitted: true)
        return names.compactMapValues { found[$0]?.id }
    }

    /// Returns leases of this node in the database that this process does not know: the outcome of their
    /// commit was unknown.
    private func unknownLeases(
        _ connection: inout Connection, _ queueState: QueueState
    ) throws(PostgresError) -> [Lease] {
        var parameters = Parameters()
        parameters.append(queueState.context.configuration.node)
        let rows = try connection.execute(Statements.heldJobs, parameters)
        var unknown: [Lease] = []
        for row in 0..<rows.rowCount {
            let job: JobID = rows.identifier(row, 0)
            guard !queueState.nodeState.leaseRegistry.contains(job) else { continue }
            unknown.append(Lease(job: job, attempt: rows.int32(row, 1), revision: rows.int32(row, 2)))
        }
        return unknown
    }
}
