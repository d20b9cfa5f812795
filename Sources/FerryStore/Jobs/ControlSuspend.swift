package import FerryCore
import Postgres

extension ControlLane {
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
            guard let changed = try Self.read([id], &connection)[id] else { return .failure(.notFound) }
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
            guard let changed = try Self.read([id], &connection)[id] else { return .failure(.notFound) }
            if changed.record.waitingFor == .dependency { context.noteDependencies() }
            return .success(changed.record)
        }
    }
}

extension ControlLane {
    /// Returns for each known job whether its leftover files may be removed.
    package func leftovers(of jobs: [JobID], reply: @escaping Reply<[JobID: Bool]>) {
        perform("leftovers", isRead: true, reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<[JobID: Bool], StoreError> in
            var parameters = Parameters()
            parameters.appendArray(.uuid, jobs) { $0.append($1) }
            parameters.append(float64: Limits.resumeDataSeconds)
            let rows = try connection.execute(Statements.judgeJobs, parameters)
            var goes: [JobID: Bool] = [:]
            for row in 0..<rows.rowCount { goes[rows.identifier(row, 0)] = rows.bool(row, 1) }
            return .success(goes)
        }
    }

    /// Returns which of the jobs exist, finished or not. `tenant`: `nil` for jobs of any tenant.
    package func known(_ jobs: [JobID], tenant: String? = nil, reply: @escaping Reply<Set<JobID>>) {
        reads.read("known_jobs", of: tenant.map { .tenant($0) } ?? .service, reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<Set<JobID>, StoreError> in
            var parameters = Parameters()
            parameters.appendArray(.uuid, jobs) { $0.append($1) }
            parameters.append(text: tenant)
            return .success(Set(try connection.execute(Statements.knownJobs, parameters).identifiers()))
        }
    }

    /// Returns the first reply to a submission with this key; `nil` if none was accepted. A key that was used
    /// for another kind of request has no such reply.
    package func firstAnswer(to key: Submission.Idempotency, reply: @escaping Reply<Submission.Accepted?>) {
        read("first_answer", for: key.tenant, reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<
                Submission.Accepted?, StoreError
            > in
            var parameters = Parameters()
            parameters.append(keys: [key], numbered: [0])
            let rows = try connection.execute(Statements.readKeys, parameters)
            guard rows.rowCount == 1 else { return .success(nil) }
            guard rows.bytes(0, 1) == key.fingerprint else { return .failure(.idempotencyKeyReused) }
            return .success(Submission.Accepted(jobs: SubmissionBatch.firstAnswer(rows, 0), isReplay: true))
        }
    }
}

extension Parameters {
    /// The parameters of resume_job.sql.
    fileprivate static func resuming(_ stored: StoredJob, _ context: StoreContext) -> Parameters {
        let record = stored.record
        let spec = try? JobSpec(storedJSON: record.specJSON)
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
