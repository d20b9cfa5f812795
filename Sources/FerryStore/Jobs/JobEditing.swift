package import FerryCore
import FerryScheduler
import Postgres
import Sys

extension JobCommands {
    /// Payload of the notification that asks a node to return a job that it holds: this text, a colon and the
    /// job's id.
    static let returnNotification = "return"
    /// Maximum number of reads of a job that another node holds, and the pause between two of them in
    /// milliseconds.
    private static let holderAnswerMax = 50
    private static let holderPause: Int32 = 20

    /// Payload of the notification about an edit of a running job: this text, a colon and the job's id.
    static let editNotification = "edit"

    /// Changes the spec of an unfinished job. `change` is called again if the job has changed meanwhile.
    /// Fails with `invalidState` if the job is terminal, or if it runs and `change` touches more than
    /// `JobSpec.differsOnlyWhileRunning` allows; with `stale` if the revision differs.
    package func edit(
        _ id: JobID, tenant: String, revision: Int32? = nil,
        _ change: @escaping @Sendable (JobRequest) throws(InvalidFields) -> JobRequest,
        reply: @escaping Reply<Result<JobRecord, InvalidFields>>
    ) {
        let (context, queueState) = (queueState.context, queueState)
        commands.perform("edit", reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<
                Result<JobRecord, InvalidFields>, StoreError
            > in
            // An iteration fails only if another transaction has changed the job meanwhile.
            for _ in 0..<Self.holderAnswerMax {
                guard let stored = try context.job(id, &connection), stored.record.tenant == tenant else {
                    return .failure(.notFound)
                }
                if stored.isHeld {
                    try Self.askHolder(of: id, &connection, queueState)
                    continue
                }
                let record = stored.record
                if record.state.isTerminal { return .failure(.invalidState(of: record)) }
                guard let before = JobRequest(stored, context) else { return .failure(.failed) }
                let finding = ChangeCheck { () throws(InvalidFields) in try change(before) }
                    .checkingState { record.allows($0, before) ? nil : .invalidState(of: record) }
                    .matching(revision, of: record.revision)
                let after: JobRequest
                switch finding {
                case .invalid(let fields): return .success(.failure(fields))
                case .refused(let error): return .failure(error)
                case .allowed(let draft): after = draft
                }
                if after.isIdentical(to: before) { return .success(.success(record)) }
                if let edited = try Self.store(after, before, stored, &connection, queueState) {
                    return .success(.success(edited))
                }
            }
            return .failure(.unavailable)
        }
    }

    /// Writes the edit and notifies the node that runs the job, or the nodes that wait for work. Returns
    /// `nil` if the job has changed meanwhile.
    private static func store(
        _ draft: JobRequest, _ before: JobRequest, _ stored: StoredJob, _ connection: inout Connection,
        _ queueState: QueueState
    ) throws(PostgresError) -> JobRecord? {
        let record = stored.record
        let spec = draft.spec
        let now = queueState.context.clock.now()
        let isBeginChanged = spec.begins(otherwiseThan: before.spec, record)
        let isRescheduled =
            isBeginChanged || spec.leavesHost(since: before.spec, record)
            || draft.outdatesQuestion(since: before, record)
        let bytesPerSecond = queueState.hostState.throughputs.bytesPerSecond(spec.request.webURL.origin)
        let begin = isBeginChanged ? spec.begin(record, now: now, bytesPerSecond: bytesPerSecond) : nil
        let asks = spec.awaitsConfirmation && record.attempt == 0
        let fields = try Parameters.spec(
            draft, before, stored, asks: asks, &connection, queueState, isCommitted: true)
        var changes = [JobChange(.edit, record)]
        if isRescheduled {
            changes[0].input = begin != nil ? .editToBeginLater : asks ? .askBegin : .editToBegin
            changes[0].dueAt = begin
            if begin == nil, asks { changes[0].ask(spec.questions.question(askedAt: now)) }
        }
        if isRescheduled, begin != nil, spec.schedule.isDiscretionary {
            changes.append(JobChange(deferring: record.id, spec, now: now))
        }
        let isWritten = try connection.transaction { [changes] connection throws(PostgresError) in
            for change in changes {
                guard try ChangedJob.commit([change], &connection).count == 1 else { return false }
            }
            _ = try connection.execute(Statements.editSpec, fields)
            return true
        }
        guard isWritten, let edited = try queueState.context.job(record.id, &connection) else { return nil }
        if isRescheduled, begin == nil, asks { queueState.signals.events.written(isWanted: true) }
        queueState.adopt(edited)
        queueState.signals.noteExpiry(spec.schedule.expiry(createdAt: record.createdAt))
        // Another node may run the job, or wait for work.
        var payload: String?
        if record.state == .running {
            payload = "\(editNotification):\(record.id.uuidText)"
        } else if isRescheduled {
            payload = "work"
        }
        if let payload {
            var notification = Parameters()
            notification.append(text: payload)
            _ = try connection.execute(Statements.notify, notification)
        }
        return edited.record
    }

    /// Lets the node that holds a job return it to the queue, or record that the attempt has begun. Waits a
    /// little for another node.
    private static func askHolder(
        of job: JobID, _ connection: inout Connection, _ queueState: QueueState
    ) throws(PostgresError) {
        if try queueState.settleHeld(job, &connection) { return }
        var notification = Parameters()
        notification.append(text: "\(returnNotification):\(job.uuidText)")
        _ = try connection.execute(Statements.notify, notification)
        _ = Mailbox<Never>().wait(milliseconds: holderPause)
    }

    /// Returns a job to the queue that this node holds, because another node is to edit it.
    func returnHeld(_ id: JobID) {
        let queueState = queueState
        guard queueState.nodeState.leaseRegistry.contains(id) else { return }
        commands.perform("return_held", { (_: Result<Void, StoreError>) in }) {
            (connection: inout Connection) throws(PostgresError) -> Result<Void, StoreError> in
            _ = try queueState.settleHeld(id, &connection)
            return .success(())
        }
    }

    /// Applies an edit that another node has made to a job that runs here.
    func adoptEdit(_ id: JobID) {
        let queueState = queueState
        guard queueState.nodeState.leaseRegistry.contains(id) else { return }
        reads.read("adopt_edit", of: .service, { (_: Result<Void, StoreError>) in }) {
            (connection: inout Connection) throws(PostgresError) -> Result<Void, StoreError> in
            if let stored = try queueState.context.job(id, &connection) { queueState.adopt(stored) }
            return .success(())
        }
    }
}

extension JobRecord {
    /// Returns whether the state of the job allows the change: the begin of a job is fixed once an attempt
    /// has begun, and a running attempt keeps what all of its requests rely on.
    fileprivate func allows(_ after: JobRequest, _ before: JobRequest) -> Bool {
        if after.isIdentical(to: before) { return true }
        let (new, old) = (after.spec.schedule, before.spec.schedule)
        let isBeginChanged =
            new.earliestBeginAt != old.earliestBeginAt || new.confirmsBeforeBegin != old.confirmsBeforeBegin
            || new.isDiscretionary != old.isDiscretionary
        if attempt > 0, isBeginChanged { return false }
        return state != .running || after.differsOnlyWhileRunning(from: before)
    }
}

extension JobRequest {
    /// Returns whether the open question was asked about a different request. The job is then tried again: an
    /// answer, which may be a credential, must reach only the server that the question came from.
    fileprivate func outdatesQuestion(since before: JobRequest, _ record: JobRecord) -> Bool {
        guard [.redirect, .challenge, .urlExpired].contains(record.waitingFor) else { return false }
        return sendsOtherRequests(than: before)
            || spec.asksOnChallenge != before.spec.asksOnChallenge
            || spec.onURLExpired != before.spec.onURLExpired
    }
}

extension QueueState {
    /// Passes an edit to the attempt if the job runs on this node.
    fileprivate func adopt(_ stored: StoredJob) {
        let record = stored.record
        guard record.state == .running, record.node == context.configuration.node,
            // The attempt keeps its fields if the edited ones are unreadable.
            let job = JobRequest(stored, context)
        else { return }
        let edit = AttemptEdit(
            attempt: record.attempt, revision: record.revision, spec: job.spec,
            storedSpec: record.storedSpec, secrets: job.secrets, sealedSecrets: stored.sealedSecrets)
        edits.insert(edit, of: record.id, leases: nodeState.leaseRegistry) {
            // No effect on an attempt that has not begun: it takes the edit from `EditRegistry`.
            signals.attemptRunner?.adopt(edit, of: record.id)
        }
    }
}

extension JobSpec {
    /// Returns whether the edit changes when a job begins that has not begun yet.
    fileprivate func begins(otherwiseThan before: JobSpec, _ record: JobRecord) -> Bool {
        guard record.attempt == 0, record.state != .suspended, record.waitingFor != .dependency else {
            return false
        }
        if schedule.earliestBeginAt != before.schedule.earliestBeginAt { return true }
        if awaitsConfirmation != before.awaitsConfirmation { return true }
        if schedule.isDiscretionary != before.schedule.isDiscretionary { return true }
        // A discretionary job that was started stays started.
        guard record.waitingFor == .discretionary else { return false }
        return schedule != before.schedule || request.url != before.request.url
    }

    /// Returns the begin date, for a discretionary job the latest start; `nil` if it may begin now.
    fileprivate func begin(_ record: JobRecord, now: Timestamp, bytesPerSecond: Double?) -> Timestamp? {
        guard schedule.isDiscretionary else {
            return schedule.earliestBeginAt.flatMap { $0 > now ? $0 : nil }
        }
        return latestDiscretionaryStart(
            createdAt: record.createdAt, now: now, bytesPerSecond: bytesPerSecond)
    }

    /// Returns whether a job that waits for an unreachable host no longer wants to wait, or has another host
    /// or another way to it now. It is then tried at once.
    fileprivate func leavesHost(since before: JobSpec, _ record: JobRecord) -> Bool {
        guard record.state == .waiting, record.waitingFor == .connectivity else { return false }
        return !schedule.waitsForConnectivity
            || request.webURL.origin != before.request.webURL.origin
            || request.connection?.proxy != before.request.connection?.proxy
    }
}
