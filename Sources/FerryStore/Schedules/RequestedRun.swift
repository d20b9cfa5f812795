import FerryCore
import Postgres
import Synchronization

/// Submits the jobs of a schedule now, because a client requests it.
struct RequestedRun: Sendable {
    let insertion: JobInsertion
    let idempotency: Submission.Idempotency?
    let traceparent: String

    /// Submits the jobs: all of them, or none.
    func submit(
        _ stored: StoredSchedule, _ connection: inout Connection
    ) throws(PostgresError) -> Result<ScheduleRun, StoreError> {
        let now = insertion.context.clock.now()
        let ids = stored.record.templates.map { _ in insertion.context.identifiers.make(JobKindTag.self) }
        guard var run = run(of: stored, at: now, ids) else { return .failure(.failed) }
        if let refusal = try nameUploads(of: &run, &connection) { return .failure(refusal) }
        var admitted = AdmittedJobs()
        if let refusal = try refusal(of: run, &admitted, &connection) { return .failure(refusal) }
        let outcome: SubmissionBatch.Outcome
        do {
            switch try insert(run, of: stored.record.id, now: now, &connection) {
            case .failure(let error):
                insertion.admission.settle(&admitted, isCommitted: false)
                return .failure(error)
            case .success(let submitted): outcome = submitted
            }
        } catch {
            insertion.admission.settle(&admitted, isCommitted: error.isConnectionLost)
            if let refusal = error.groupRefusal { return .failure(refusal) }
            throw error
        }
        if outcome.jobCount > 0 {
            insertion.admission.withdraw(run, outcome.jobCount, &admitted)
            insertion.note(outcome)
        }
        insertion.admission.settle(&admitted, isCommitted: outcome.jobCount > 0)
        switch outcome.results.first {
        case .failure(let error): return .failure(error)
        case .success(let accepted):
            let isList = stored.record.list != nil
            if let response = try response(accepted, isList: isList, &connection) {
                return .success(response)
            }
            guard let first = accepted.jobs.first else { return .failure(.failed) }
            // The job was deleted since.
            let again = self.run(of: stored, at: first.createdAt, [first.id]) ?? run
            let record = JobRecord(first, of: again.jobs[0])
            return .success(.job(Created(record, isReplay: accepted.isReplay)))
        case nil: return .failure(.failed)
        }
    }

    /// Returns the reply to an earlier request with the same key; `nil` if there was none, or its job was
    /// deleted since.
    func replay(_ connection: inout Connection) throws(PostgresError) -> ScheduleRun? {
        guard let idempotency else { return nil }
        let repeated = Submission(jobs: [], idempotency: idempotency) { _ in }
        let replays = try SubmissionBatch(refused: [repeated], insertion).readReplays([0], &connection)
        guard case .success(let accepted)? = replays[0] else { return nil }
        return try response(accepted, isList: false, &connection)
    }

    /// Looks up the uploads that the jobs send. Returns an error if they cannot send them, else `nil`.
    private func nameUploads(
        of run: inout ScheduledRun, _ connection: inout Connection
    ) throws(PostgresError) -> StoreError? {
        let named = Set(run.sourceUploads)
        guard !named.isEmpty else { return nil }
        let known = NamedUploads(
            try UploadCommands.prepare(Array(named), of: run.jobs[0].tenant, &connection))
        do throws(StoreError) {
            try run.nameUploads(known, insertion.context.configuration.seal)
            return nil
        } catch {
            return error
        }
    }

    private func run(of stored: StoredSchedule, at time: Timestamp, _ ids: [JobID]) -> ScheduledRun? {
        ScheduledRun(
            of: stored, at: time, ids: ids, traceparent: traceparent, insertion.context.configuration.zones,
            insertion.context.configuration.seal)
    }

    /// Returns the response with the accepted jobs; `nil` if the only one cannot be read. `isList`: whether
    /// the schedule has `jobs`, if nothing tells that of a repeated request.
    private func response(
        _ accepted: Submission.Accepted, isList: Bool, _ connection: inout Connection
    ) throws(PostgresError) -> ScheduleRun? {
        guard let first = accepted.jobs.first else { return nil }
        if accepted.jobs.count > 1 || isList && !accepted.isReplay { return .jobs(accepted) }
        let record = try insertion.context.job(first.id, &connection)?.record
        var isList = isList
        if accepted.isReplay, let occurrence = record?.spec?.occurrence { isList = occurrence.place != nil }
        if isList { return .jobs(accepted) }
        return record.map { .job(Created($0, isReplay: accepted.isReplay, isNew: first.isNew)) }
    }

    /// Returns an error if a limit of the tenant refuses the jobs; `nil` also for a key that was accepted
    /// before, since it gets its first reply again.
    private func refusal(
        of run: ScheduledRun, _ admitted: inout AdmittedJobs, _ connection: inout Connection
    ) throws(PostgresError) -> StoreError? {
        guard let refusal = try insertion.admission.refusal(of: run.jobs, &admitted, &connection) else {
            return nil
        }
        if let idempotency, case .success(_?) = try FirstResponse.read(idempotency, &connection) {
            return nil
        }
        insertion.context.metrics.surplusJobs.add(Int64(run.jobs.count), ordering: .relaxed)
        return refusal
    }

    private func insert(
        _ run: ScheduledRun, of id: ScheduleID, now: Timestamp, _ connection: inout Connection
    ) throws(PostgresError) -> Result<SubmissionBatch.Outcome, StoreError> {
        let submission = run.submission(idempotency)
        // An iteration fails only if a session has changed meanwhile.
        for _ in 0..<3 {
            let sessions = insertion.context.sessions.current
            switch sessions.verdict(on: run.jobs, known: nil) {
            case .acceptable, .changed: break
            case .invalidated: return .failure(.sessionInvalidated)
            case .unreadable: return .failure(.failed)
            }
            do {
                return .success(
                    try connection.transaction { connection throws(PostgresError) in
                        if submission.hasUniqueJobs {
                            _ = try connection.execute(Statements.lockSchedule, .identifier(id))
                        }
                        let outcome = try insertion.insert(
                            [submission], &connection, epoch: sessions.epoch)
                        try noteRun(run, of: id, outcome, now: now, &connection)
                        return outcome
                    })
            } catch {
                guard error.isSessionChange else { throw error }
                try insertion.sessionLoader.readSessions(&connection)
            }
        }
        return .failure(.unavailable)
    }

    /// Writes the inserted jobs of the run, and the run itself, unless no job is new.
    private func noteRun(
        _ run: ScheduledRun, of id: ScheduleID, _ outcome: SubmissionBatch.Outcome, now: Timestamp,
        _ connection: inout Connection
    ) throws(PostgresError) {
        guard outcome.jobCount > 0, case .success(let accepted)? = outcome.results.first else { return }
        let inserted = Set(accepted.jobs.lazy.filter(\.isNew).map(\.id))
        let new = run.jobs.filter { inserted.contains($0.id) }
        guard let first = new.first else { return }
        _ = try ScheduleTransaction.insertRuns(new, &connection)
        var parameters = Parameters()
        parameters.append(id)
        parameters.append(now)
        parameters.append(first.id)
        _ = try connection.execute(Statements.noteRun, parameters)
    }
}
