package import FerryCore
import Postgres
import Synchronization

/// Changes single jobs for clients. Any thread.
package final class JobCommands: Sendable {
    let commands: CommandQueue
    let reads: ReadPool
    let queueState: QueueState
    let numbering: EventNumbering
    let recentResults: RecentResults

    init(
        _ commands: CommandQueue, _ reads: ReadPool, _ queueState: QueueState,
        _ numbering: EventNumbering, _ recentResults: RecentResults
    ) {
        self.commands = commands
        self.reads = reads
        self.queueState = queueState
        self.numbering = numbering
        self.recentResults = recentResults
    }

    /// Cancels a job. A job that no node runs or holds ends at once. For another one its node is asked,
    /// and the reply shows the job unchanged. Fails with `invalidState` if the job is terminal, with `stale`
    /// if the revision differs. `keepsBytes`: keeps the bytes of a download for another job (`resume_data`).
    package func cancel(
        _ id: JobID, tenant: String, revision: Int32? = nil, keepsBytes: Bool = false,
        reply: @escaping Reply<JobRecord>
    ) {
        carryOut(.cancel(keepsBytes: keepsBytes), "cancel", id, tenant, revision, reply) {
            stored, outcome, _ in
            .success(outcome.finished.first?.record ?? stored.record)
        }
    }

    /// Carries a command out for one job. `shown` returns the job after it.
    private func carryOut(
        _ command: JobCommand, _ name: StaticString, _ id: JobID, _ tenant: String, _ revision: Int32?,
        _ reply: @escaping Reply<JobRecord>,
        shown:
            @escaping @Sendable (StoredJob, JobCommand.Outcome, inout Connection) throws(PostgresError)
            -> Result<JobRecord, StoreError>
    ) {
        let queueState = queueState
        change(name, id, tenant, revision, reply, unless: { command.refusal(of: $0) }) {
            (stored, connection) throws(PostgresError) -> Result<JobRecord, StoreError>? in
            let outcome = try connection.transaction { connection throws(PostgresError) in
                try command.carryOut([stored], &connection, queueState)
            }
            guard outcome.changed.contains(id) else {
                return command.refusal(ofUnchanged: stored).map { .failure($0) }
            }
            outcome.note(queueState)
            return try shown(stored, outcome, &connection)
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
        commands.perform(name, reply) {
            [context = queueState.context] (connection: inout Connection) throws(PostgresError) -> Result<
                JobRecord, StoreError
            > in
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

    /// Deletes a terminal job and returns it as it was; the caller removes its file. Fails with
    /// `invalidState` if the job is not terminal.
    package func delete(
        _ id: JobID, tenant: String, revision: Int32? = nil, reply: @escaping Reply<JobRecord>
    ) {
        let (numbering, nodeState, recentResults) = (numbering, queueState.nodeState, recentResults)
        // A finished job still changes when it is acknowledged or given up.
        change("delete", id, tenant, revision, reply) { stored in
            stored.record.state.isTerminal ? nil : .invalidState(of: stored.record)
        } body: {
            (stored, connection) throws(PostgresError) -> Result<JobRecord, StoreError>? in
            let record = stored.record
            guard try numbering.number(eventsOf: record, &connection) else {
                return .failure(.eventsBehind)
            }
            var parameters = Parameters()
            parameters.append(id)
            parameters.append(int32: record.revision)
            let notifies = nodeState.hasPeers.load(ordering: .relaxed)
            parameters.append(
                text: notifies ? "\(RecentResults.changeNotification):\(id.uuidText)" : nil)
            let gone = try connection.execute(Statements.deleteJob, parameters)
            guard gone.rowCount == 1 else { return nil }
            recentResults.forget(id)
            // A transaction of its own: if it fails, the upload goes when the resume data expires.
            if record.resumeData != nil, record.spec?.kind == .upload {
                _ = try? connection.execute(Statements.releaseAbandonedUpload, .identifier(id))
            }
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
        let context = queueState.context
        carryOut(.suspend, "suspend", id, tenant, revision, reply) {
            (stored, _, connection) throws(PostgresError) -> Result<JobRecord, StoreError> in
            // The reply shows a running job as it was.
            if stored.isLeased { return .success(stored.record) }
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
        let context = queueState.context
        carryOut(.resume, "resume", id, tenant, revision, reply) {
            (_, _, connection) throws(PostgresError) -> Result<JobRecord, StoreError> in
            guard let changed = try context.job(id, &connection) else { return .failure(.notFound) }
            return .success(changed.record)
        }
    }

    /// Acknowledges the result of a finished job. Idempotent. Fails with `invalidState` if the job is not
    /// terminal, with `acknowledgementNotRequired` if it asks for no acknowledgement, and with `failed` if
    /// its fields cannot be read.
    package func acknowledge(_ id: JobID, tenant: String, reply: @escaping Reply<JobRecord>) {
        let (context, signals) = (queueState.context, queueState.signals)
        commands.perform("acknowledge", reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<JobRecord, StoreError> in
            guard let stored = try context.job(id, &connection), stored.record.tenant == tenant else {
                return .failure(.notFound)
            }
            let record = stored.record
            guard record.state.isTerminal else { return .failure(.invalidState(of: record)) }
            guard record.acknowledgedAt == nil else { return .success(record) }
            guard let spec = record.spec else { return .failure(.failed) }
            guard spec.acknowledgement != nil else { return .failure(.acknowledgementNotRequired) }
            try Acknowledgements(context, signals).add([(id, spec.wantedEvents)], &connection)
            // Another transaction may have acknowledged or deleted the job first.
            guard let stored = try context.job(id, &connection) else { return .failure(.notFound) }
            return .success(stored.record)
        }
    }
}
