package import FerryCore
import Postgres

extension ControlLane {
    /// Suspends a job. For a running one its node is asked, and the job that the reply shows is still
    /// running; its bytes stay. `invalidState` when it is suspended or terminal, `stale` when `revision`
    /// differs.
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

    /// Lets a suspended job go on, at its begin date if that is still to come, or in a good moment if it may
    /// wait for one and has not begun; takes back a suspension that is not done yet. `invalidState` when it
    /// is not suspended, `stale` when `revision` differs.
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
                // Running, and nobody has asked for a suspension; or it has changed meanwhile.
                return record.state == .running ? .failure(.invalidState(.running)) : nil
            }
            guard let changed = try Self.read([id], &connection)[id] else { return .failure(.notFound) }
            if changed.record.waitingFor == .dependency { context.noteDependencies() }
            return .success(changed.record)
        }
    }
}

extension ControlLane {
    /// Of those of these jobs that are known: whether what they have left in directories can go.
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

    /// Which of these jobs are there, finished or not. `tenant`: whose; nil: anybody's.
    package func known(_ jobs: [JobID], tenant: String? = nil, reply: @escaping Reply<Set<JobID>>) {
        reads.read("known_jobs", of: tenant.map { .tenant($0) } ?? .service, reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<Set<JobID>, StoreError> in
            var parameters = Parameters()
            parameters.appendArray(.uuid, jobs) { $0.append($1) }
            parameters.append(text: tenant)
            return .success(Set(try connection.execute(Statements.knownJobs, parameters).identifiers()))
        }
    }

    /// What a submission with this key was answered before; nil: none was accepted. Of a request that is no
    /// submission of jobs it has none.
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
