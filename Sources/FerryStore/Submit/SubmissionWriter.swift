package import FerryCore
import Logging
import Postgres
import Synchronization
import Sys

/// Takes submissions and commits what has gathered: while one batch commits, the next one forms.
///
/// Any thread submits; one thread owns the connection and calls the replies.
package final class SubmissionWriter: SubmissionSink {
    /// Seconds that a submission waits for a database that is away.
    static let patienceSeconds = 2.0

    /// A submission that waits for its commit.
    struct Pending: Sendable {
        let submission: Submission
        /// Nanoseconds of the monotonic clock.
        let arrival: Int64
        /// What it gets unless it repeats one that was accepted: then it gets that one's answer.
        var refusal: StoreError?
    }

    let context: StoreContext
    private let mailbox = Mailbox<Pending>()
    private let waitingJobCount = Atomic<Int>(0)
    /// What a commit takes, lately.
    private let commitNanoseconds = Atomic<Int64>(0)
    private let wakeDispatcher: @Sendable (_ earliest: Timestamp?) -> Void
    private let reconcile: @Sendable () -> Void

    /// `wakeDispatcher` is told of queued jobs (nil) and of the next begin date, `reconcile` of a commit
    /// whose answer was lost.
    init(
        _ context: StoreContext, wakeDispatcher: @escaping @Sendable (Timestamp?) -> Void,
        reconcile: @escaping @Sendable () -> Void
    ) {
        self.context = context
        self.wakeDispatcher = wakeDispatcher
        self.reconcile = reconcile
    }

    /// Never blocks. After `stop()` the answer is `unavailable`.
    package func submit(_ submission: Submission) {
        let count = submission.jobs.count
        let waitingCount = waitingCount
        guard waitingCount + count <= Limits.waitingJobCountMax,
            expectedWait(behind: waitingCount) <= Limits.waitingSecondsMax
        else {
            context.metrics.overloadedJobs.add(Int64(count), ordering: .relaxed)
            submission.reply(.failure(.overloaded))
            return
        }
        var pending = Pending(submission: submission, arrival: Sys.monotonicNanoseconds())
        if let tenant = submission.jobs.first?.tenant,
            let seconds = context.admission.admit(count, of: tenant)
        {
            let refusal = StoreError.tooManyJobs(max: context.admission.jobCountMax, retryAfter: seconds)
            guard submission.idempotency != nil else {
                context.metrics.surplusJobs.add(Int64(count), ordering: .relaxed)
                return submission.reply(.failure(refusal))
            }
            pending.refusal = refusal
        }
        waitingJobCount.add(count, ordering: .relaxed)
        if !mailbox.send(pending) {
            waitingJobCount.subtract(count, ordering: .relaxed)
            submission.reply(.failure(.unavailable))
        }
    }

    /// Jobs that nobody has committed yet.
    package var waitingCount: Int { waitingJobCount.load(ordering: .relaxed) }

    /// Seconds until so many jobs are committed.
    private func expectedWait(behind count: Int) -> Double {
        let commits = Double(count) / Double(Limits.intakeBatchMax)
        return commits * Double(commitNanoseconds.load(ordering: .relaxed)) / 1e9
    }

    /// Refuses what comes from now on; what was sent before is still committed.
    func close() { mailbox.close() }

    /// A commit costs the database about as much as ten rows. Clients that were just answered are likely to
    /// send again: their next submissions are waited for, this long at most.
    private static let gatherMicroseconds = 600

    /// The thread's body: returns once the box is closed and empty.
    func run() {
        let lane = context.connection(
            "intake", counts: true,
            adjust: { options in
                options.pinsPlans = true
                options.connectTimeout = .seconds(2)
                options.statementTimeout = .seconds(20)
            })
        var pending: [Pending] = []
        var answeredCount = 0
        while true {
            let delay: Int32 = pending.isEmpty ? -1 : Int32(lane.retryIn / .milliseconds(1)) + 1
            if pending.isEmpty || lane.retryIn > .zero {
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
            let open = commit(batch, lane)
            if !open.isEmpty {
                pending.insert(contentsOf: open, at: 0)
                expire(&pending)
                // A closed mailbox does not wait.
                if mailbox.isClosed { expireAll(&pending) }
            }
        }
    }

    /// The oldest submissions, up to `Limits.intakeBatchMax` jobs, each idempotency key at most once.
    static func takeBatch(_ pending: inout [Pending]) -> [Pending] {
        var batch: [Pending] = []
        var later: [Pending] = []
        var keys: Set<[String]> = []
        var jobCount = 0
        for (index, next) in pending.enumerated() {
            let count = next.submission.jobs.count
            guard batch.isEmpty || jobCount + count <= Limits.intakeBatchMax else {
                later.append(contentsOf: pending[index...])
                break
            }
            if let key = next.submission.idempotency,
                !keys.insert([key.tenant, key.key]).inserted
            {
                later.append(next)
                continue
            }
            batch.append(next)
            jobCount += count
        }
        pending = later
        return batch
    }

    // MARK: Committing

    /// Returns what is to be tried again because there is no database: of that nothing was sent, and nobody
    /// was answered.
    ///
    /// `sends`: how often it may be sent yet when the database undoes it in favor of others.
    private func commit(
        _ gathered: [Pending], _ lane: ReconnectingConnection, sends: Int = ControlLane.sendCountMax
    ) -> [Pending] {
        guard let admitted = admitted(gathered, lane) else { return gathered }
        guard let (batch, epoch) = acceptable(admitted, lane) else { return admitted }
        guard !batch.isEmpty else { return [] }
        let start = Sys.monotonicNanoseconds()
        let work = SubmissionBatch(batch.map(\.submission), context)
        var wasSent = false
        do {
            let outcome = try lane.withConnection { connection throws(PostgresError) in
                wasSent = true
                return try work.commit(&connection, epoch: epoch)
            }
            context.metrics.submitBatches.add(1, ordering: .relaxed)
            let duration = Sys.monotonicNanoseconds() - start
            context.metrics.submitNanoseconds.add(duration, ordering: .relaxed)
            let before = commitNanoseconds.load(ordering: .relaxed)
            commitNanoseconds.store((before * 3 + duration) / 4, ordering: .relaxed)
            succeed(work, outcome)
            return []
        } catch {
            work.abandon()
            guard wasSent else { return batch }
            if error.isSessionChange {
                guard (try? context.readSessions(lane)) != nil else { return batch }
                return commit(batch, lane)
            }
            if error.isRetryable, sends > 1 { return commit(batch, lane, sends: sends - 1) }
            return refuse(batch, error, lane)
        }
    }

    /// Returns what is to be tried again, as `commit` does.
    private func refuse(_ batch: [Pending], _ error: PostgresError, _ lane: ReconnectingConnection)
        -> [Pending]
    {
        let count: Logger.Metadata = ["error": "\(error)", "count": "\(batch.count)"]
        if error.isConnectionLost {
            // Whether it was committed is unknown: leases that nobody acts on are found by the dispatcher.
            context.logger.warning("submissions have an unknown outcome", metadata: count)
            reconcile()
        } else if error.isRetryable || error.isShortage {
            // Nothing was committed, and none of them is to blame.
            context.logger.warning("the database could not take submissions", metadata: count)
        } else if batch.count == 1 {
            context.logger.error("a submission was refused by the database", metadata: ["error": "\(error)"])
            reply(batch[0], .failure(.failed))
            return []
        } else {
            // One bad submission fails alone.
            return batch.flatMap { commit([$0], lane) }
        }
        for next in batch { reply(next, .failure(.unavailable)) }
        return []
    }

    /// After the commit: transfers begin, then clients are answered.
    private func succeed(_ work: SubmissionBatch, _ outcome: SubmissionBatch.Outcome) {
        context.metrics.submittedJobs.add(Int64(outcome.jobCount), ordering: .relaxed)
        context.metrics.leasedAtOnceJobs.add(Int64(outcome.attempts.count), ordering: .relaxed)
        work.begin(outcome.attempts)
        if outcome.jobCount > 0 { context.events.written(isWanted: outcome.tells) }
        if !outcome.queued.isEmpty, context.configuration.isWorker {
            context.specs.insert(outcome.queued)
            context.backlog.add(outcome.additions)
            wakeDispatcher(nil)
        }
        if let earliest = outcome.earliestBegin { wakeDispatcher(earliest) }
        if outcome.hasDependencies { context.noteDependencies() }
        if let earliest = outcome.earliestDeadline { context.deadlines.send(earliest) }
        for (submission, result) in zip(work.submissions, outcome.results) {
            waitingJobCount.subtract(submission.jobs.count, ordering: .relaxed)
            submission.reply(result)
        }
    }

    func reply(_ pending: Pending, _ result: Result<Submission.Accepted, StoreError>) {
        waitingJobCount.subtract(pending.submission.jobs.count, ordering: .relaxed)
        pending.submission.reply(result)
    }

    private func expire(_ pending: inout [Pending]) {
        let limit = Sys.monotonicNanoseconds() - Int64(Self.patienceSeconds * 1e9)
        let late = pending.filter { $0.arrival < limit }
        pending.removeAll { $0.arrival < limit }
        for next in late { reply(next, .failure(.unavailable)) }
    }

    private func expireAll(_ pending: inout [Pending]) {
        for next in pending { reply(next, .failure(.unavailable)) }
        pending = []
    }
}
