package import FerryCore
import FerryScheduler
import Logging
import Postgres
import Synchronization

/// A job about which something is to be asked now, or about which nobody has answered in time.
struct DueQuestion {
    /// Rows of one round at most.
    static let roundMax: Int32 = 100

    let stored: StoredJob
    /// Nil: it is to be asked whether the job may begin.
    let question: JobQuestion?

    /// Rows of due_questions.sql.
    static func all(_ rows: borrowing ResultSet) -> [DueQuestion] {
        (0..<rows.rowCount).map { row in
            DueQuestion(
                stored: StoredJob(rows, row, isWide: false),
                question: rows.bytesOrNil(row, 20).flatMap { try? JobQuestion(storedJSON: $0) })
        }
    }

    /// Asks, or lets the job decide by itself. Whoever answers at the same moment wins; what fails is due
    /// again.
    func settle(_ lane: LaneConnection, _ context: StoreContext) {
        do {
            try lane.withConnection { connection throws(PostgresError) in
                guard let question else { return try ask(&connection, context) }
                let resolve = { (draft: JobDraft) throws(InvalidFields) -> AnswerResolution in
                    try draft.answered(
                        question, draft.spec.questions.answer(to: question.kind),
                        from: AnswerSource(.timeout), at: context.clock.now(),
                        attempt: stored.record.attempt, refusal: { _ in nil })
                }
                switch try ControlLane.settle(stored, resolve, &connection, context) {
                case .failure(.failed)?, .success(.refused)?: try giveUp(&connection, context)
                default: break
                }
            }
        } catch {
            guard !error.isConnectionLost else { return }
            context.logger.error(
                "a question was not settled",
                metadata: ["job.id": "\(stored.record.id)", "error": "\(error)"])
        }
    }

    /// Its secrets or its spec cannot be read.
    private func giveUp(_ connection: inout Connection, _ context: StoreContext) throws(PostgresError) {
        context.logger.error(
            "a job that waits for an answer cannot be read", metadata: ["job.id": "\(stored.record.id)"])
        let job = FinishedJob(stored, .failed, .unreadable, at: context.clock.now())
        let rows = try connection.execute(Statements.finishJobs, .finished([job]))
        if rows.hasDependents { context.noteDependencies() }
        context.commitObserver?.jobsFinished(rows.identifiers())
        context.events.written(isWanted: job.isWanted)
    }

    private func ask(_ connection: inout Connection, _ context: StoreContext) throws(PostgresError) {
        let rules = (try? JobSpec(storedJSON: stored.record.specJSON))?.questions ?? .standard
        let question = JobQuestion(.begin, askedAt: context.clock.now(), timeout: rules.timeout)
        var parameters = Parameters()
        parameters.append(stored.record.id)
        parameters.append(int32: stored.record.revision)
        parameters.append(text: question.encode())
        parameters.append(question.expiresAt)
        _ = try connection.execute(Statements.askBegin, parameters)
        context.events.written(isWanted: true)
    }
}

extension ControlLane {
    /// Takes an answer to what is asked about a job. `resolve`: what follows from it; may be asked more than
    /// once. `invalidState` when nothing of this kind is asked; `stale` when `revision` differs.
    package func answer(
        _ id: JobID, tenant: String, revision: Int32? = nil, kind: JobQuestion.Kind,
        _ resolve:
            @escaping @Sendable (JobDraft, JobQuestion, Int32) throws(InvalidFields) -> AnswerResolution,
        reply: @escaping Reply<JobEdit>
    ) {
        let context = context
        perform("answer", isRead: false, reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<JobEdit, StoreError> in
            // Each round fails only because the job moved on meanwhile.
            for _ in 0..<10 {
                guard let stored = try Self.read([id], &connection)[id], stored.record.tenant == tenant else {
                    return .failure(.notFound)
                }
                let record = stored.record
                guard record.state == .waiting, let asked = record.questionJSON,
                    let question = try? JobQuestion(storedJSON: asked), question.kind == kind
                else { return .failure(.invalidState(record.state)) }
                if let revision, revision != record.revision {
                    return .failure(.stale(revision: record.revision))
                }
                let settled = try Self.settle(
                    stored,
                    { draft throws(InvalidFields) in try resolve(draft, question, record.attempt) },
                    &connection, context)
                if let settled { return settled }
            }
            return .failure(.unavailable)
        }
    }

    /// Does what follows from an answer. Nil: the job has changed meanwhile.
    static func settle(
        _ stored: StoredJob, _ resolve: (JobDraft) throws(InvalidFields) -> AnswerResolution,
        _ connection: inout Connection, _ context: StoreContext
    ) throws(PostgresError) -> Result<JobEdit, StoreError>? {
        guard let before = JobDraft(stored, context) else { return .failure(.failed) }
        let resolution: AnswerResolution
        do throws(InvalidFields) {
            resolution = try resolve(before)
        } catch {
            return .success(.refused(error))
        }
        let id = stored.record.id
        let draft = resolution.draft
        let origin = (try? WebURL.parse(draft.spec.request.url).origin) ?? stored.origin
        let name = context.lotName(
            tenant: stored.record.tenant, session: draft.spec.session, origin: origin,
            context.sessions.current)
        let lot = try context.lots.find([name], &connection, isCommitted: true)[name]?.id
        var parameters = Parameters.answer(resolution, before, stored, origin: origin, context)
        parameters.append(int64: lot)
        var ending: (JobState, TransferError)?
        switch resolution {
        case .goOn, .ask: break
        case .cancel: ending = (.cancelled, .cancelledByRequest)
        case .fail(let error, _): ending = (.failed, error)
        }
        var finished: FinishedJob?
        let isDone = try connection.transaction { [parameters] connection throws(PostgresError) -> Bool in
            guard try connection.execute(Statements.answerJob, parameters).rowCount == 1 else { return false }
            guard let (state, error) = ending, let changed = try read([id], &connection)[id] else {
                return true
            }
            let job = FinishedJob(
                changed, state, error, at: context.clock.now())
            finished = job
            let rows = try connection.execute(Statements.finishJobs, .finished([job]))
            if rows.hasDependents { context.noteDependencies() }
            return true
        }
        guard isDone else { return nil }
        if let finished {
            context.commitObserver?.jobsFinished([id])
            context.events.written(isWanted: finished.isWanted)
            return .success(.done(finished.record))
        }
        if case .ask = resolution { context.events.written(isWanted: true) }
        guard let changed = try read([id], &connection)[id] else { return .failure(.notFound) }
        return .success(.done(changed.record))
    }
}

extension JobDraft {
    /// Nil: the row cannot be read.
    init?(_ stored: StoredJob, _ context: StoreContext) {
        guard let spec = try? JobSpec(storedJSON: stored.record.specJSON) else { return nil }
        var secrets = JobSecrets()
        if let sealed = stored.sealedSecrets {
            guard let opened = context.configuration.openSecrets(sealed) else { return nil }
            secrets = opened
        }
        self.init(spec, secrets)
    }
}

extension AnswerResolution {
    fileprivate var draft: JobDraft {
        switch self {
        case .goOn(let draft), .ask(_, let draft), .cancel(let draft), .fail(_, let draft): draft
        }
    }
}

extension Parameters {
    /// The parameters of answer_job.sql but the lot.
    fileprivate static func answer(
        _ resolution: AnswerResolution, _ before: JobDraft, _ stored: StoredJob, origin: String,
        _ context: StoreContext
    ) -> Parameters {
        let draft = resolution.draft
        var parameters = Parameters()
        parameters.append(stored.record.id)
        parameters.append(int32: stored.record.revision)
        parameters.append(text: draft.spec.encodeStored())
        parameters.append(text: origin)
        parameters.appendSecrets(draft, before, context)
        if case .ask(let question, _) = resolution {
            parameters.append(text: question.encode())
            parameters.append(question.expiresAt)
        } else {
            parameters.appendNull()
            parameters.append(nil as Timestamp?)
        }
        return parameters
    }

    /// Whether the secrets have changed, and as what they are to be kept.
    mutating func appendSecrets(_ draft: JobDraft, _ before: JobDraft, _ context: StoreContext) {
        let isChanged = draft.secrets != before.secrets
        append(bool: isChanged)
        append(
            bytea: isChanged && !draft.secrets.isEmpty
                ? context.configuration.sealSecrets(draft.secrets) : nil)
    }

    /// The parameters of ask_jobs.sql.
    static func asks(_ asks: [Ending.Ask]) -> Parameters {
        var parameters = Parameters(capacity: asks.count * 512)
        parameters.append(asks.map(\.lease))
        parameters.appendArray(.text, asks) { $0.append(text: $1.question.kind.waitingFor.rawValue) }
        parameters.appendArray(.text, asks) { $0.append(text: $1.question.encode()) }
        parameters.appendArray(.timestamp, asks) { $0.append($1.question.expiresAt) }
        parameters.appendArray(.bytea, asks) { $0.append(bytea: $1.ended) }
        parameters.appendArray(.bool, asks) { $0.append(bool: $1.leavesBytes) }
        return parameters
    }
}
