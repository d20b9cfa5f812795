import FerryCore
import Logging
import Postgres

/// Asks clients about jobs that need a confirmation and whose begin date has come, and applies the default
/// answer to questions that have expired. Skips rows that other transactions have locked. Runs on the
/// dispatcher's thread after all jobs that can begin have begun.
struct QuestionTransaction {
    /// Jobs of one transaction: questions asked, and questions expired. The remaining jobs stay due.
    private static let askMax: Int32 = 100
    private static let timeoutMax: Int32 = 10

    let queueState: QueueState
    let database: ReconnectingConnection

    private var context: StoreContext { queueState.context }
    private var signals: StoreSignals { queueState.signals }

    func run() {
        do {
            try ask()
            try settle()
        } catch {
            guard !error.isConnectionLost, !error.isRetryable else { return }
            context.logger.error("processing questions failed", metadata: ["error": "\(error)"])
        }
    }

    private func ask() throws(PostgresError) {
        let now = context.clock.now()
        let askedCount = try database.withConnection { connection throws(PostgresError) in
            try connection.transaction { connection throws(PostgresError) in
                let rows = try connection.execute(Statements.dueBegins, .int32(Self.askMax))
                guard rows.rowCount > 0 else { return 0 }
                return try ChangedJob.commit(JobChange.begins(rows, now, context), &connection).count
            }
        }
        if askedCount > 0 { signals.events.written(isWanted: true) }
    }

    private func settle() throws(PostgresError) {
        var first: DueQuestion?
        // If the database refuses a batch, the jobs are tried one by one, so that only the refused job fails.
        for countMax in [Self.timeoutMax, 1] {
            do {
                return try settle(countMax, &first)
            } catch {
                guard error.isOfData else { throw error }
            }
        }
        guard let first else { return }
        let written = try database.withConnection { [first, context] connection throws(PostgresError) in
            try first.giveUp(.unstorable, &connection, context)
        }
        written.notify(signals)
    }

    private func settle(_ countMax: Int32, _ first: inout DueQuestion?) throws(PostgresError) {
        let written = try database.withConnection { connection throws(PostgresError) in
            try connection.transaction { connection throws(PostgresError) in
                let due = DueQuestion.all(
                    try connection.execute(Statements.dueQuestions, .int32(countMax)),
                    context)
                first = due.first
                var written: [WrittenAnswer] = []
                for question in due {
                    if let answer = try question.decide(&connection, queueState) { written.append(answer) }
                }
                return written
            }
        }
        for answer in written { answer.notify(signals) }
    }
}

/// A job whose question has expired without an answer.
struct DueQuestion {
    let stored: StoredJob
    /// `nil` if the stored question cannot be read.
    let question: JobQuestion?

    /// Rows of due_questions.sql.
    fileprivate static func all(_ rows: borrowing ResultSet, _ context: StoreContext) -> [DueQuestion] {
        (0..<rows.rowCount).compactMap { row in
            guard let stored = StoredJob(asked: rows, row, context.damagedRows) else { return nil }
            return DueQuestion(
                stored: stored, question: stored.record.question(opening: context.configuration.seal))
        }
    }

    /// Applies the default answer of the job's question rules. Call in a transaction.
    fileprivate func decide(
        _ connection: inout Connection, _ queueState: QueueState
    ) throws(PostgresError) -> WrittenAnswer? {
        let context = queueState.context
        guard let question else { return try giveUp(.unreadable, &connection, context) }
        let resolve = { (draft: JobRequest) throws(InvalidFields) -> AnswerResolution in
            try draft.answered(
                question, draft.spec.questions.answer(to: question.kind), from: AnswerSource(.timeout),
                at: context.clock.now(), attempt: stored.record.attempt, refusal: { _ in nil })
        }
        switch try ResolvedAnswer.resolve(stored, resolve, &connection, queueState, isAlone: false) {
        case .ready(let answer): return try answer.write(&connection, context)
        case .refused, .unreadable: return try giveUp(.unreadable, &connection, context)
        }
    }

    /// Fails the job: its question, secrets or spec cannot be read, or the database refuses the change that
    /// follows from the answer.
    fileprivate func giveUp(
        _ error: TransferError, _ connection: inout Connection, _ context: StoreContext
    ) throws(PostgresError) -> WrittenAnswer {
        context.logger.error(
            "a job failed, since its question cannot be answered",
            metadata: ["job.id": "\(stored.record.id)", "error": "\(error.code.rawValue)"])
        let job = FinishedJob(stored, .failed, error, at: context.clock.now())
        let rows = try connection.execute(Statements.finishJobs, .finished([job]))
        return WrittenAnswer(
            finished: rows.rowCount == 1 ? job : nil, hasDependents: rows.hasDependents, asksAgain: false)
    }
}

extension JobChange {
    /// Asks about the jobs of due_begins.sql whether they may begin.
    fileprivate static func begins(
        _ rows: borrowing ResultSet, _ now: Timestamp, _ context: StoreContext
    ) -> [JobChange] {
        (0..<rows.rowCount).map { row in
            // An unreadable spec gets the default rules; the job fails when it begins.
            let id: JobID = rows.identifier(row, 0)
            let stored = StoredSpec(rows.bytes(row, 1), of: id, log: context.damagedRows)
            let rules = stored.spec?.questions ?? QuestionRules()
            var change = JobChange(.askBegin, id)
            change.ask(rules.question(askedAt: now))
            return change
        }
    }
}
