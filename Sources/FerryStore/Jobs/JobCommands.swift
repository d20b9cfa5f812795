package import FerryCore
import Postgres
import Synchronization

extension ControlLane {
    /// Cancels a job. A job that no node runs or holds ends at once. For another one its node is asked,
    /// and the reply shows the job unchanged. Fails with `invalidState` if the job is terminal, with `stale`
    /// if the revision differs. `keepsBytes`: keeps the bytes of a download for another job (`resume_data`).
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
        if stored.isLeased {
            let input: JobInput = keepsBytes ? .requestCancellationKeepingBytes : .requestCancellation
            var request = JobChange(input, stored.record)
            request.notification = "\(keepsBytes ? "keep" : "cancel"):\(stored.record.id.uuidText)"
            guard try ChangedJob.commit([request], &connection).count == 1 else { return nil }
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
                return .failure(.eventsBehind)
            }
            var parameters = Parameters()
            parameters.append(id)
            parameters.append(int32: record.revision)
            let notifies = context.hasPeers.load(ordering: .relaxed)
            parameters.append(
                text: notifies ? "\(RecentResults.deletionNotification):\(id.uuidText)" : nil)
            let gone = try connection.execute(Statements.deleteJob, parameters)
            guard gone.rowCount == 1 else { return nil }
            context.recentResults.forget(id)
            return .success(record)
        }
    }

    /// Suspends a job and keeps its bytes. For a running job its node is asked, and the reply shows the job
    /// still running. Fails with `invalidState` if the job is suspended or terminal, with
    /// `requestNotRepeatable` if it runs and no other attempt may send its request, with `stale` if the
    /// revision differs.
    package func suspend(
        _ id: JobID, tenant: String, revision: Int32? = nil, reply: @escaping Reply<JobRecord>
    ) {
        let context = context
        change("suspend", id, tenant, revision, reply) { stored in
            switch stored.record.state {
            case .running where stored.isCancelRequested, .queued where stored.isCancelRequested:
                .invalidState(of: stored.record)
            case .running where !(stored.record.spec?.isRequestRepeatable ?? true): .requestNotRepeatable
            case .waiting, .queued, .running: nil
            case .suspended, .succeeded, .failed, .cancelled: .invalidState(of: stored.record)
            }
        } body: {
            (stored, connection) throws(PostgresError) -> Result<JobRecord, StoreError>? in
            let record = stored.record
            var change = JobChange(stored.isLeased ? .requestSuspension : .suspend, record)
            if stored.isLeased { change.notification = "suspend:\(id.uuidText)" }
            guard try ChangedJob.commit([change], &connection).count == 1 else { return nil }
            if stored.isLeased {
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
            stored.record.state == .suspended || stored.isLeased ? nil : .invalidState(of: stored.record)
        } body: {
            (stored, connection) throws(PostgresError) -> Result<JobRecord, StoreError>? in
            let record = stored.record
            let isResumed = try connection.transaction { connection throws(PostgresError) in
                guard let change = try JobChange(resuming: stored, &connection, context) else { return false }
                return try ChangedJob.commit([change], &connection).count == 1
            }
            guard isResumed else {
                // The job runs without a suspension request, or it has changed meanwhile.
                return stored.isLeased ? .failure(.invalidState(of: record)) : nil
            }
            guard let changed = try context.job(id, &connection) else { return .failure(.notFound) }
            if changed.record.waitingFor == .dependency { context.noteDependencies() }
            return .success(changed.record)
        }
    }
}

extension JobChange {
    /// Resumes a suspended job, which waits for what is still to come. Locks it: call in a transaction.
    /// Withdraws the suspension of a running job. `nil` if the job has changed meanwhile.
    fileprivate init?(
        resuming stored: StoredJob, _ connection: inout Connection, _ context: StoreContext
    ) throws(PostgresError) {
        let record = stored.record
        guard record.state == .suspended else {
            self.init(.withdrawSuspension, record)
            notification = "work"
            return
        }
        var parameters = Parameters()
        parameters.append(record.id)
        parameters.append(int32: record.revision)
        let found = try connection.execute(Statements.lockSuspendedJob, parameters)
        guard found.rowCount == 1 else { return nil }
        let (asks, depends) = (found.bool(0, 0), found.bool(0, 1))
        // An unreadable spec has no begin date: the job is queued, and fails when it begins.
        let spec = record.spec
        let now = context.clock.now()
        let isDiscretionary = spec?.schedule.isDiscretionary == true && record.attempt == 0
        var begin = spec?.schedule.earliestBeginAt.flatMap { $0 > now ? $0 : nil }
        if isDiscretionary, let spec {
            begin = spec.latestDiscretionaryStart(
                createdAt: record.createdAt, now: now,
                bytesPerSecond: context.throughputs.bytesPerSecond(stored.origin))
        }
        let isLater = begin != nil || asks
        self.init(depends ? .resumeDependent : isLater ? .resumeLater : .resume, record)
        self.asks = asks
        if isDiscretionary, let spec {
            discretionary = (max(now, spec.schedule.earliestBeginAt ?? now), spec.expectedByteCount)
            if input == .resumeLater, !asks { input = .resumeDiscretionary }
        }
        if input != .resumeDependent { dueAt = begin ?? (asks ? now : nil) }
        notification = "work"
    }
}
