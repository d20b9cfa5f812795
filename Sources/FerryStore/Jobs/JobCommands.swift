package import FerryCore
import Postgres

extension ControlLane {
    /// Cancels a job. A job that no node runs ends at once. For a running job its node is asked, and the
    /// reply shows the job still running. Fails with `invalidState` if the job is terminal, with `stale` if
    /// the revision differs. `keepsBytes`: keeps the bytes of a download for another job (`resume_data`).
    package func cancel(
        _ id: JobID, tenant: String, revision: Int32? = nil, keepsBytes: Bool = false,
        reply: @escaping Reply<JobRecord>
    ) {
        let context = context
        change("cancel", id, tenant, revision, reply) { stored in
            stored.record.state.isTerminal ? .invalidState(of: stored.record) : nil
        } body: {
            (stored, connection) throws(PostgresError) -> Result<JobRecord, StoreError>? in
            guard let cancelled = try Self.cancel(stored, keepsBytes, &connection, context) else {
                return nil
            }
            return .success(cancelled)
        }
    }

    /// Retries a change while other transactions change the job in between; `body` returns `nil` if one has.
    /// `refusal` returns an error if the job's state does not allow the change.
    func change(
        _ name: StaticString, _ id: JobID, _ tenant: String, _ revision: Int32?,
        _ reply: @escaping Reply<JobRecord>, unless refusal: @escaping @Sendable (StoredJob) -> StoreError?,
        body:
            @escaping @Sendable (StoredJob, inout Connection) throws(PostgresError)
            -> Result<JobRecord, StoreError>?
    ) {
        perform(name, isRead: false, reply) {
            [context] (connection: inout Connection) throws(PostgresError) -> Result<JobRecord, StoreError> in
            // An iteration fails only if another transaction has changed the job meanwhile.
            for _ in 0..<10 {
                guard let stored = try context.job(id, &connection), stored.record.tenant == tenant else {
                    return .failure(.notFound)
                }
                let finding = ChangeCheck.allowed(stored).checkingState(refusal)
                    .matching(revision, of: stored.record.revision)
                if case .refused(let error) = finding { return .failure(error) }
                if let result = try body(stored, &connection) { return result }
            }
            return .failure(.unavailable)
        }
    }

    /// Returns `nil` if the job has changed meanwhile.
    private static func cancel(
        _ stored: StoredJob, _ keepsBytes: Bool, _ connection: inout Connection, _ context: StoreContext
    ) throws(PostgresError) -> JobRecord? {
        if stored.record.state == .running {
            var parameters = Parameters()
            parameters.append(stored.record.id)
            parameters.append(int32: stored.record.revision)
            parameters.append(bool: keepsBytes)
            let changed = try connection.execute(Statements.requestCancel, parameters)
            guard changed.rowCount == 1 else { return nil }
            context.stop(stored.record.id, keepsBytes ? .cancelKeepingBytes : .cancel)
            return stored.record
        }
        let resumeData = keepsBytes ? context.configuration.resumeData : nil
        let job = FinishedJob(
            stored, .cancelled, .cancelledByRequest, at: context.clock.now(), resumeData: resumeData)
        let changed = try connection.execute(Statements.finishJobs, .finished([job]))
        guard changed.rowCount == 1 else { return nil }
        if changed.hasDependents { context.noteDependencies() }
        if job.record.resumeData != nil { context.commitObserver?.jobsLeaveBytes([job.lease.job]) }
        context.commitObserver?.jobsFinished([job.lease.job])
        context.events.written(isWanted: job.isWanted)
        return job.record
    }

    /// Deletes a terminal job and returns it as it was; the caller removes its file. Fails with
    /// `invalidState` if the job is not terminal.
    package func delete(
        _ id: JobID, tenant: String, revision: Int32? = nil, reply: @escaping Reply<JobRecord>
    ) {
        let context = context
        // A finished job still changes when it is acknowledged or given up.
        change("delete", id, tenant, revision, reply) { stored in
            stored.record.state.isTerminal ? nil : .invalidState(of: stored.record)
        } body: {
            (stored, connection) throws(PostgresError) -> Result<JobRecord, StoreError>? in
            let record = stored.record
            guard try Self.numberEvents(of: record, &connection, context) else {
                return .failure(.unavailable)
            }
            var parameters = Parameters()
            parameters.append(id)
            parameters.append(int32: record.revision)
            let gone = try connection.execute(Statements.deleteJob, parameters)
            return gone.rowCount == 1 ? .success(record) : nil
        }
    }

    /// Suspends a job and keeps its bytes. For a running job its node is asked, and the reply shows the job
    /// still running. Fails with `invalidState` if the job is suspended or terminal, with `stale` if the
    /// revision differs.
    package func suspend(
        _ id: JobID, tenant: String, revision: Int32? = nil, reply: @escaping Reply<JobRecord>
    ) {
        let context = context
        change("suspend", id, tenant, revision, reply) { stored in
            switch stored.record.state {
            case .running where stored.isCancelRequested: .invalidState(.running)
            case .waiting, .queued, .running: nil
            case .suspended, .succeeded, .failed, .cancelled: .invalidState(of: stored.record)
            }
        } body: {
            (stored, connection) throws(PostgresError) -> Result<JobRecord, StoreError>? in
            let record = stored.record
            let isRunning = record.state == .running
            let statement = isRunning ? Statements.requestSuspend : Statements.suspendJob
            guard try connection.execute(statement, .revision(of: record)).rowCount == 1 else { return nil }
            if isRunning {
                context.stop(id, .suspend)
                return .success(record)
            }
            guard let changed = try context.job(id, &connection) else { return .failure(.notFound) }
            return .success(changed.record)
        }
    }

    /// Resumes a suspended job: at its begin date if that is in the future, or as a discretionary job if it
    /// is one and has not begun. Takes back a suspension that its node has not carried out yet. Fails with
    /// `invalidState` if the job is not suspended, with `stale` if the revision differs.
    package func resume(
        _ id: JobID, tenant: String, revision: Int32? = nil, reply: @escaping Reply<JobRecord>
    ) {
        let context = context
        change("resume", id, tenant, revision, reply) { stored in
            [.suspended, .running].contains(stored.record.state) ? nil : .invalidState(of: stored.record)
        } body: {
            (stored, connection) throws(PostgresError) -> Result<JobRecord, StoreError>? in
            let record = stored.record
            let parameters = Parameters.resuming(stored, context)
            guard try connection.execute(Statements.resumeJob, parameters).rowCount == 1 else {
                // The job runs without a suspension request, or it has changed meanwhile.
                return record.state == .running ? .failure(.invalidState(.running)) : nil
            }
            guard let changed = try context.job(id, &connection) else { return .failure(.notFound) }
            if changed.record.waitingFor == .dependency { context.noteDependencies() }
            return .success(changed.record)
        }
    }
}

extension Parameters {
    /// The parameters of resume_job.sql.
    fileprivate static func resuming(_ stored: StoredJob, _ context: StoreContext) -> Parameters {
        let record = stored.record
        // An unreadable spec has no begin date: the job is queued, and fails when it begins.
        let spec = record.spec
        let now = context.clock.now()
        var parameters = Parameters.revision(of: record)
        guard let spec, spec.schedule.isDiscretionary, record.attempt == 0 else {
            parameters.append(spec?.schedule.earliestBeginAt.flatMap { $0 > now ? $0 : nil })
            parameters.append(nil as Timestamp?)
            parameters.append(int64: nil)
            return parameters
        }
        parameters.append(
            spec.latestDiscretionaryStart(
                createdAt: record.createdAt, now: now,
                bytesPerSecond: context.throughputs.bytesPerSecond(stored.origin)))
        parameters.append(max(now, spec.schedule.earliestBeginAt ?? now))
        parameters.append(int64: spec.expectedByteCount)
        return parameters
    }

    fileprivate static func revision(of record: JobRecord) -> Parameters {
        var parameters = Parameters()
        parameters.append(record.id)
        parameters.append(int32: record.revision)
        return parameters
    }
}
