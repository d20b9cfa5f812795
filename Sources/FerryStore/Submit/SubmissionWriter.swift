package import FerryCore
import Logging
import Postgres
import Synchronization
import Sys

/// Takes submissions and commits them in batches: while one batch commits, the next one forms.
///
/// Any thread may submit. One thread owns the connection and calls the replies.
package final class SubmissionWriter: SubmissionSink {
    /// Seconds that a submission waits for a database that does not answer.
    static let databaseWaitSecondsMax = 2.0

    /// A submission that waits for its commit.
    struct Pending: Sendable {
        let submission: Submission
        /// Monotonic nanoseconds.
        let arrival: Int64
        /// The reply, unless the submission repeats an accepted one, or all its jobs exist: then it gets
        /// these.
        var refusal: StoreError?
        /// `true` if its jobs are admitted, and not settled yet.
        var isAdmitted = false

        var tenant: String { submission.tenant }

        /// `true` if the submission may get a reply although it is refused: that of an accepted one, or jobs
        /// that exist.
        var mayRepeat: Bool { submission.idempotency != nil || submission.hasUniqueJobs }
    }

    let insertion: JobInsertion
    /// Submissions about which only a count tells, for `TenantCounts`; closed to end it.
    let countRequests = Mailbox<TenantCounts.Message>()
    private let mailbox = Mailbox<Pending>()
    private let waitingJobCount = Atomic<Int>(0)
    /// Moving average of the duration of a commit.
    private let commitNanoseconds = Atomic<Int64>(0)
    private let reconcile: @Sendable () -> Void

    /// `reconcile` is called after a commit with an unknown outcome.
    init(_ insertion: JobInsertion, reconcile: @escaping @Sendable () -> Void) {
        self.insertion = insertion
        self.reconcile = reconcile
    }

    /// Takes a submission; never blocks. Replies on this thread if it is refused at once: `overloaded`,
    /// `tooManyJobs`, `quotaExceeded`, or `unavailable` after `close()`.
    package func submit(_ submission: Submission) {
        let count = submission.jobs.count
        let waitingCount = waitingCount
        guard waitingCount + count <= Limits.waitingJobCountMax,
            expectedWait(behind: waitingCount) <= Limits.waitingSecondsMax
        else {
            insertion.context.metrics.overloadedJobs.add(Int64(count), ordering: .relaxed)
            submission.reply(.failure(.overloaded))
            return
        }
        waitingJobCount.add(count, ordering: .relaxed)
        let pending = Pending(submission: submission, arrival: Sys.monotonicNanoseconds())
        guard ask(pending) != nil else { return }
        if !countRequests.send(.submission(pending)) { reply(pending, .failure(.unavailable)) }
    }

    /// Passes a submission on if its jobs are admitted or refused. Returns `nil` then; else when the jobs of
    /// the tenant may be counted, in monotonic nanoseconds.
    func ask(_ pending: Pending) -> Int64? {
        let jobs = pending.submission.jobs
        switch insertion.admission.admit(
            jobs.count, of: pending.tenant, storesBytes: jobs.contains { $0.spec.storesBytes })
        {
        case .admitted:
            var pending = pending
            pending.isAdmitted = true
            send(pending)
            return nil
        case .refused(let error):
            refuse(pending, error)
            return nil
        case .needsCount(let at): return at
        }
    }

    /// Refuses a submission, unless it repeats an accepted one or all its jobs exist.
    func refuse(_ pending: Pending, _ error: StoreError) {
        guard pending.mayRepeat else {
            let count = Int64(pending.submission.jobs.count)
            insertion.context.metrics.surplusJobs.add(count, ordering: .relaxed)
            return reply(pending, .failure(error))
        }
        var pending = pending
        pending.refusal = error
        send(pending)
    }

    private func send(_ pending: Pending) {
        if !mailbox.send(pending) { reply(pending, .failure(.unavailable)) }
    }

    /// Jobs that wait for their commit.
    package var waitingCount: Int { waitingJobCount.load(ordering: .relaxed) }

    /// Seconds until `count` jobs are committed.
    private func expectedWait(behind count: Int) -> Double {
        let commits = Double(count) / Double(Limits.submissionBatchMax)
        return commits * Double(commitNanoseconds.load(ordering: .relaxed)) / 1e9
    }

    /// Refuses further submissions. Those that were taken are still committed.
    func close() { mailbox.close() }

    /// Maximum time for which a commit waits for the next submissions of clients that have just got a reply,
    /// in microseconds. A commit costs the database about as much as ten rows.
    private static let gatherMicroseconds = 600

    /// The thread's body. Returns once the mailbox is closed and empty.
    func run() {
        let database = insertion.context.connection(
            "submissions", counts: true,
            adjust: { options in
                options.pinsPlans = true
                options.connectTimeout = .seconds(2)
                options.statementTimeout = .seconds(20)
            })
        var pending: [Pending] = []
        var answeredCount = 0
        while true {
            let delay: Int32 = pending.isEmpty ? -1 : Int32(database.retryIn / .milliseconds(1)) + 1
            if pending.isEmpty || database.retryIn > .zero {
                pending.append(
                    contentsOf: mailbox.gather(
                        milliseconds: delay, expected: answeredCount, microseconds: Self.gatherMicroseconds))
            } else {
                pending.append(contentsOf: mailbox.take())
            }
            if pending.isEmpty && mailbox.isClosed {
                pending = mailbox.take()
                if pending.isEmpty { return }
            }
            guard !pending.isEmpty else { continue }
            let batch = Self.takeBatch(&pending)
            answeredCount = batch.count
            let open = commit(batch, database)
            if !open.isEmpty {
                pending.insert(contentsOf: open, at: 0)
                expire(&pending)
                // After `close()` the database is not waited for.
                if mailbox.isClosed { expireAll(&pending) }
            }
        }
    }

    /// Removes and returns the oldest submissions, up to `Limits.submissionBatchMax` jobs. Each idempotency
    /// key and unique key is in a batch at most once. A batch has either no unique jobs or only submissions
    /// with some: those need one more round trip. A submission that closes a group is a batch of its own: it
    /// locks the group alone. If one names a group, all have idempotency keys or none has one: one statement
    /// takes the locks of all groups, in their order.
    static func takeBatch(_ pending: inout [Pending]) -> [Pending] {
        var batch: [Pending] = []
        var later: [Pending] = []
        var keys: Set<[String]> = []
        var uniqueKeys: Set<[String]> = []
        var jobCount = 0
        let isUnique = pending.first?.submission.hasUniqueJobs ?? false
        // Submissions with and without a key are inserted by two statements.
        let isKeyed = pending.first?.submission.idempotency != nil
        var (isMixed, hasGroups) = (false, false)
        for (index, next) in pending.enumerated() {
            let count = next.submission.jobs.count
            guard
                batch.isEmpty
                    || (jobCount + count <= Limits.submissionBatchMax && next.submission.closedGroup == nil)
            else {
                later.append(contentsOf: pending[index...])
                break
            }
            if next.submission.hasUniqueJobs != isUnique
                || isUnique && !next.submission.takesUniqueKeys(&uniqueKeys)
            {
                later.append(next)
                continue
            }
            let mixes = isMixed || (next.submission.idempotency != nil) != isKeyed
            let namesGroups = hasGroups || next.submission.namesGroups
            if mixes, namesGroups {
                later.append(next)
                continue
            }
            if let key = next.submission.idempotency,
                !keys.insert([key.tenant, key.key]).inserted
            {
                later.append(next)
                continue
            }
            (isMixed, hasGroups) = (mixes, namesGroups)
            batch.append(next)
            jobCount += count
            guard next.submission.closedGroup == nil else {
                later.append(contentsOf: pending[(index + 1)...])
                break
            }
        }
        pending = later
        return batch
    }

    // MARK: Committing

    /// Commits submissions and replies to them. Returns those to try again because the database does not
    /// answer: nothing of them was sent, and none was replied to.
    ///
    /// `sends`: how often the transaction may still be sent if the database undoes it in favor of others.
    private func commit(
        _ gathered: [Pending], _ database: ReconnectingConnection, sends: Int = CommandQueue.sendCountMax
    ) -> [Pending] {
        guard let admitted = admitted(gathered, database) else { return gathered }
        guard let (batch, epoch) = acceptable(admitted, database) else { return admitted }
        guard !batch.isEmpty else { return [] }
        let start = Sys.monotonicNanoseconds()
        let submissions = batch.map(\.submission)
        // Unique jobs are never leased as they are inserted: whether one is new is known in the transaction.
        let work = submissions[0].hasUniqueJobs ? nil : SubmissionBatch(submissions, insertion)
        var wasSent = false
        do {
            let outcome = try database.withConnection { connection throws(PostgresError) in
                wasSent = true
                if let work { return try work.commit(&connection, epoch: epoch) }
                return try connection.transaction { connection throws(PostgresError) in
                    try insertion.insert(
                        submissions, refusals: batch.map(\.refusal), &connection, epoch: epoch)
                }
            }
            insertion.context.metrics.submitBatches.add(1, ordering: .relaxed)
            let duration = Sys.monotonicNanoseconds() - start
            insertion.context.metrics.submitNanoseconds.add(duration, ordering: .relaxed)
            let before = commitNanoseconds.load(ordering: .relaxed)
            commitNanoseconds.store((before * 3 + duration) / 4, ordering: .relaxed)
            succeed(batch, work, outcome)
            return []
        } catch {
            work?.abandon()
            guard wasSent else { return batch }
            if error.isSessionChange {
                // Without the sessions the batch is tried again, which reports the error if it stays.
                guard (try? insertion.sessionLoader.readSessions(database)) != nil else { return batch }
                return commit(batch, database)
            }
            if error.isRetryable, sends > 1 { return commit(batch, database, sends: sends - 1) }
            return refuse(batch, error, database)
        }
    }

    /// Replies after a failed commit. Returns the submissions to try again, as `commit` does.
    private func refuse(_ batch: [Pending], _ error: PostgresError, _ database: ReconnectingConnection)
        -> [Pending]
    {
        let count: Logger.Metadata = ["error": "\(error)", "count": "\(batch.count)"]
        if error.isConnectionLost {
            // The batch may be committed. The dispatcher finds leases that no attempt uses.
            insertion.context.logger.warning("submissions have an unknown outcome", metadata: count)
            reconcile()
            for next in batch { reply(next, .failure(.unavailable), mayBeCommitted: true) }
            return []
        } else if error.isRetryable || error.isShortage {
            // Nothing was committed, and no submission is the cause.
            insertion.context.logger.warning("the database could not take submissions", metadata: count)
        } else if batch.count == 1, let refusal = error.groupRefusal {
            // The submission may repeat an accepted one.
            guard let replays = replays(for: batch, database) else { return batch }
            reply(batch[0], replays[0] ?? .failure(refusal))
            return []
        } else if batch.count == 1 {
            insertion.context.logger.error(
                "a submission was refused by the database", metadata: ["error": "\(error)"])
            reply(batch[0], .failure(.failed))
            return []
        } else {
            // Each alone, so that only the bad one fails.
            return batch.flatMap { commit([$0], database) }
        }
        for next in batch { reply(next, .failure(.unavailable)) }
        return []
    }

    /// Begins transfers, then replies to clients. Called after the commit.
    private func succeed(
        _ batch: [Pending], _ work: SubmissionBatch?, _ outcome: SubmissionBatch.Outcome
    ) {
        insertion.context.metrics.submittedJobs.add(Int64(outcome.jobCount), ordering: .relaxed)
        insertion.context.metrics.leasedAtOnceJobs.add(Int64(outcome.attempts.count), ordering: .relaxed)
        work?.begin(outcome)
        // Held jobs that have no slot may be those of a tenant that holds fewer than its share.
        if !outcome.held.isEmpty, insertion.queueState.held.count > 0 { insertion.signals.wakeDispatcher() }
        if outcome.jobCount > 0 || outcome.tells {
            insertion.signals.events.written(isWanted: outcome.tells)
        }
        if !outcome.queued.isEmpty, insertion.context.configuration.isWorker {
            insertion.queueState.specs.insert(outcome.queued)
            insertion.queueState.backlog.add(outcome.additions)
            insertion.signals.wakeDispatcher()
        }
        if let earliest = outcome.earliestBegin { insertion.signals.wakeDispatcher(at: earliest) }
        if outcome.hasDependencies { insertion.signals.noteDependencies() }
        if let earliest = outcome.earliestExpiry { insertion.signals.noteExpiry(earliest) }
        for (pending, result) in zip(batch, outcome.results) {
            let isCommitted = if case .success(let accepted) = result { !accepted.isReplay } else { false }
            reply(pending, result, mayBeCommitted: isCommitted)
        }
    }

    /// `mayBeCommitted`: `false` if the jobs of the submission are certainly not inserted.
    func reply(
        _ pending: Pending, _ result: Result<Submission.Accepted, StoreError>, mayBeCommitted: Bool = false
    ) {
        let count = pending.submission.jobs.count
        if pending.isAdmitted {
            var oldCount = 0
            if pending.submission.hasUniqueJobs, case .success(let accepted) = result {
                oldCount = accepted.jobs.count { !$0.isNew }
                insertion.admission.settle(oldCount, of: pending.tenant, isCommitted: false)
            }
            insertion.admission.settle(count - oldCount, of: pending.tenant, isCommitted: mayBeCommitted)
        }
        waitingJobCount.subtract(count, ordering: .relaxed)
        pending.submission.reply(result)
    }

    private func expire(_ pending: inout [Pending]) {
        let limit = Sys.monotonicNanoseconds() - Int64(Self.databaseWaitSecondsMax * 1e9)
        let late = pending.filter { $0.arrival < limit }
        pending.removeAll { $0.arrival < limit }
        for next in late { reply(next, .failure(.unavailable)) }
    }

    private func expireAll(_ pending: inout [Pending]) {
        for next in pending { reply(next, .failure(.unavailable)) }
        pending = []
    }
}

extension Submission {
    /// Adds the unique keys of the jobs to a set and returns `true`, unless it has one of them.
    fileprivate func takesUniqueKeys(_ keys: inout Set<[String]>) -> Bool {
        let own = Set(jobs.compactMap { job in job.spec.unique.map { [job.tenant, $0.key] } })
        guard keys.isDisjoint(with: own) else { return false }
        keys.formUnion(own)
        return true
    }
}
