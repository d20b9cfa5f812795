package import FerryCore
import Postgres

/// Applies answers to the questions of jobs. Any thread.
package final class QuestionAnswers: Sendable {
    private let commands: CommandQueue
    private let queueState: QueueState

    init(_ commands: CommandQueue, _ queueState: QueueState) {
        self.commands = commands
        self.queueState = queueState
    }

    /// Applies an answer to the open question of a job. `resolve` returns the resulting change; it is called
    /// again if the job has changed meanwhile. Fails with `invalidState` if no question of this kind is open,
    /// or none that was asked at `askedAt`, and with `stale` if the revision differs.
    package func answer(
        _ id: JobID, tenant: String, revision: Int32? = nil, kind: JobQuestion.Kind,
        askedAt: Timestamp? = nil,
        _ resolve:
            @escaping @Sendable (JobRequest, JobQuestion, Int32) throws(InvalidFields) -> AnswerResolution,
        reply: @escaping Reply<Result<JobRecord, InvalidFields>>
    ) {
        let (context, signals, queueState) = (queueState.context, queueState.signals, queueState)
        commands.perform("answer", reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<
                Result<JobRecord, InvalidFields>, StoreError
            > in
            var revision = revision
            // An iteration fails only if another transaction has changed the job meanwhile, or asks first.
            for _ in 0..<10 {
                guard let stored = try context.job(id, &connection), stored.record.tenant == tenant else {
                    return .failure(.notFound)
                }
                let record = stored.record
                if kind == .begin, let ask = JobChange(askingDue: record, now: context.clock.now()) {
                    guard try ChangedJob.commit([ask], &connection).count == 1 else { continue }
                    signals.events.written(isWanted: true)
                    if revision == record.revision { revision = record.revision + 1 }
                    continue
                }
                guard record.state == .waiting,
                    // An unreadable question cannot be answered; the job fails when it expires.
                    let question = record.question(opening: context.configuration.seal),
                    question.kind == kind,
                    askedAt == nil || question.askedAt == askedAt
                else { return .failure(.invalidState(of: record)) }
                let outcome = try ResolvedAnswer.resolve(
                    stored,
                    { draft throws(InvalidFields) in try resolve(draft, question, record.attempt) },
                    &connection, queueState, isAlone: true)
                switch outcome {
                case .refused(let invalid): return .success(.failure(invalid))
                case .unreadable: return .failure(.failed)
                case .ready(let answer):
                    let finding = ChangeCheck.allowed(record).matching(revision, of: record.revision)
                    if case .refused(let error) = finding { return .failure(error) }
                    let written = try connection.transaction { connection throws(PostgresError) in
                        try answer.write(&connection, context)
                    }
                    guard let written else { continue }
                    written.notify(signals)
                    if let finished = written.finished { return .success(.success(finished.record)) }
                    guard let changed = try context.job(id, &connection) else { return .failure(.notFound) }
                    return .success(.success(changed.record))
                }
            }
            return .failure(.unavailable)
        }
    }
}

extension JobChange {
    /// Asks about a job whose begin date has come before the dispatcher does. `nil` if the job does not wait
    /// for that.
    fileprivate init?(askingDue record: JobRecord, now: Timestamp) {
        guard record.state == .waiting, record.waitingFor == .beginDate, record.attempt == 0,
            let due = record.nextAttemptAt, due <= now, let spec = record.spec, spec.awaitsConfirmation
        else { return nil }
        self.init(.askBegin, record)
        ask(spec.questions.question(askedAt: now))
    }
}
