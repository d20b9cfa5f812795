import FerryCore
import FerryScheduler
import Postgres

/// The change that an answer makes to a job, ready to be written.
struct ResolvedAnswer {
    enum Outcome {
        case ready(ResolvedAnswer)
        case refused(InvalidFields)
        /// The stored job cannot be read.
        case unreadable
    }

    private let change: JobChange
    /// The parameters of edit_spec.sql.
    private let fields: Parameters
    private let ending: (state: JobState, error: TransferError)?
    private let asksAgain: Bool

    /// Computes the change. `isAlone`: `true` if called outside of any transaction.
    static func resolve(
        _ stored: StoredJob, _ resolve: (JobRequest) throws(InvalidFields) -> AnswerResolution,
        _ connection: inout Connection, _ queueState: QueueState, isAlone: Bool
    ) throws(PostgresError) -> Outcome {
        let context = queueState.context
        guard let before = JobRequest(stored, context) else { return .unreadable }
        let resolution: AnswerResolution
        do throws(InvalidFields) {
            resolution = try resolve(before)
        } catch {
            return .refused(error)
        }
        let draft = resolution.draft
        let fields = try Parameters.spec(
            draft, before, stored, asks: false, &connection, queueState, isCommitted: isAlone)
        var change = JobChange(.answer, stored.record)
        change.asks = false
        if case .ask(let question, _) = resolution {
            change = JobChange(.answerWithQuestion, stored.record)
            change.questionJSON = question.encode(context.configuration.seal)
            change.asks = true
            change.dueAt = question.expiresAt
        }
        change.notification = "work"
        return .ready(ResolvedAnswer(change, fields, resolution))
    }

    private init(_ change: JobChange, _ fields: Parameters, _ resolution: AnswerResolution) {
        self.change = change
        self.fields = fields
        switch resolution {
        case .goOn: (ending, asksAgain) = (nil, false)
        case .ask: (ending, asksAgain) = (nil, true)
        case .cancel: (ending, asksAgain) = ((.cancelled, .cancelledByRequest), false)
        case .fail(let error, _): (ending, asksAgain) = ((.failed, error), false)
        }
    }

    /// Writes the change. Call in a transaction. Returns `nil` if the job has changed meanwhile.
    func write(
        _ connection: inout Connection, _ context: StoreContext
    ) throws(PostgresError) -> WrittenAnswer? {
        guard try ChangedJob.commit([change], &connection).count == 1 else { return nil }
        _ = try connection.execute(Statements.editSpec, fields)
        guard let ending, let changed = try context.job(change.job, &connection) else {
            return WrittenAnswer(finished: nil, hasDependents: false, asksAgain: asksAgain)
        }
        let resumeData = ending.state == .failed ? context.configuration.resumeData : nil
        let job = FinishedJob(
            changed, ending.state, ending.error, at: context.clock.now(), resumeData: resumeData)
        let rows = try connection.execute(Statements.finishJobs, .finished([job]))
        return WrittenAnswer(finished: job, hasDependents: rows.hasDependents, asksAgain: false)
    }
}

/// Effects of an answer that are reported to observers after its commit.
struct WrittenAnswer {
    /// The job, if it has ended.
    let finished: FinishedJob?
    let hasDependents: Bool
    let asksAgain: Bool

    /// Notifies observers, dependents and the event relay. Call after the commit.
    func notify(_ signals: StoreSignals) {
        if hasDependents { signals.noteDependencies() }
        if let finished {
            if finished.record.resumeData != nil {
                signals.commitObserver?.jobsLeaveBytes([finished.lease.job])
            }
            signals.commitObserver?.jobsFinished([finished.lease.job])
            signals.events.written(isWanted: finished.isWanted)
        } else if asksAgain {
            signals.events.written(isWanted: true)
        }
    }
}

extension AnswerResolution {
    fileprivate var draft: JobRequest {
        switch self {
        case .goOn(let draft), .ask(_, let draft), .cancel(let draft), .fail(_, let draft): draft
        }
    }
}
