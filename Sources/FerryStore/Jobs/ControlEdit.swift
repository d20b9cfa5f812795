package import FerryCore
import FerryScheduler
import Postgres
import Sys

/// What became of a change that a client asked for.
package enum JobEdit: Sendable {
    case done(JobRecord)
    /// The job would not be right any more.
    case refused(InvalidFields)
}

extension ControlLane {
    /// What is notified when a job was changed that runs somewhere: this, a colon and its identifier.
    static let editNotification = "edit"

    /// Changes what a client has said about an unfinished job. `change` may be asked more than once. One that
    /// runs keeps everything but its description, metadata, priority and rate: `invalidState`; so does a
    /// terminal one. `stale` when `revision` differs.
    package func edit(
        _ id: JobID, tenant: String, revision: Int32? = nil,
        _ change: @escaping @Sendable (JobDraft) throws(InvalidFields) -> JobDraft,
        reply: @escaping Reply<JobEdit>
    ) {
        let context = context
        perform("edit", isRead: false, reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<JobEdit, StoreError> in
            // Each round fails only because the job moved on meanwhile.
            for _ in 0..<10 {
                guard let stored = try Self.read([id], &connection)[id], stored.record.tenant == tenant else {
                    return .failure(.notFound)
                }
                let record = stored.record
                if record.state.isTerminal { return .failure(.invalidState(of: record)) }
                guard let before = JobDraft(stored, context) else { return .failure(.failed) }
                let finding = ChangeCheck { () throws(InvalidFields) in try change(before) }
                    .checkingState { record.allows($0, before) ? nil : .invalidState(of: record) }
                    .matching(revision, of: record.revision)
                let after: JobDraft
                switch finding {
                case .invalid(let fields): return .success(.refused(fields))
                case .refused(let error): return .failure(error)
                case .allowed(let draft): after = draft
                }
                if after.isIdentical(to: before) { return .success(.done(record)) }
                if let edited = try Self.store(after, before, stored, &connection, context) {
                    return .success(.done(edited))
                }
            }
            return .failure(.unavailable)
        }
    }

    /// Nil: the job has changed meanwhile.
    private static func store(
        _ draft: JobDraft, _ before: JobDraft, _ stored: StoredJob, _ connection: inout Connection,
        _ context: StoreContext
    ) throws(PostgresError) -> JobRecord? {
        let record = stored.record
        let spec = draft.spec
        let now = context.clock.now()
        let isRescheduled = spec.begins(otherwiseThan: before.spec, record)
        let isMoved =
            isRescheduled || spec.leavesHost(record) || draft.outdatesQuestion(since: before, record)
        let origin = (try? WebURL.parse(spec.request.url).origin) ?? stored.origin
        let bytesPerSecond = context.throughputs.bytesPerSecond(origin)
        let begin = isRescheduled ? spec.begin(record, now: now, bytesPerSecond: bytesPerSecond) : nil
        var parameters = Parameters()
        parameters.append(record.id)
        parameters.append(int32: record.revision)
        parameters.append(text: spec.encodeStored(context.configuration.seal))
        parameters.append(jsonb: spec.metadataJSON)
        parameters.append(float32: Float(spec.schedule.priority))
        parameters.append(spec.schedule.expiry(createdAt: record.createdAt))
        parameters.append(text: origin)
        parameters.append(bool: isMoved)
        parameters.append(begin)
        parameters.append(spec.schedule.deadlineAt)
        let scope = context.scope(
            tenant: record.tenant, url: spec.request.url, origin: origin, draft.secrets)
        let name = context.lotName(scope, session: spec.session, home: stored.home, context.sessions.current)
        parameters.append(int64: try context.lots.find([name], &connection, isCommitted: true)[name]?.id)
        parameters.append(spec.urgency(createdAt: record.createdAt, bytesPerSecond: bytesPerSecond))
        parameters.append(bool: spec.awaitsConfirmation && record.attempt == 0)
        parameters.appendSecrets(draft, before, context)
        parameters.append(text: scope.path)
        parameters.appendClaimFlags(of: spec)
        let isDeferred = isMoved && begin != nil && spec.schedule.isDiscretionary
        let isWritten = try connection.transaction { [parameters] connection throws(PostgresError) in
            guard try connection.execute(Statements.editJob, parameters).rowCount == 1 else { return false }
            if isDeferred {
                _ = try connection.execute(
                    Statements.deferJobs, .deferred([(record.id, spec)], now: now))
            }
            return true
        }
        guard isWritten, let edited = try read([record.id], &connection)[record.id]
        else { return nil }
        context.adopt(edited.record)
        if let deadline = spec.schedule.deadlineAt { context.deadlines.send(deadline) }
        // Others may run it, or wait for it.
        var news: String?
        if record.state == .running {
            news = "\(editNotification):\(record.id.uuidText)"
        } else if isMoved {
            news = "work"
        }
        if let news {
            var notification = Parameters()
            notification.append(text: news)
            _ = try connection.execute(Statements.notify, notification)
        }
        return edited.record
    }

    /// Looks at a job that another node has changed, if it runs here.
    func adoptEdit(_ id: JobID) {
        let context = context
        guard context.book.contains(id) else { return }
        perform("adopt_edit", isRead: true, { (_: Result<Void, StoreError>) in }) {
            (connection: inout Connection) throws(PostgresError) -> Result<Void, StoreError> in
            if let stored = try Self.read([id], &connection)[id] { context.adopt(stored.record) }
            return .success(())
        }
    }
}

extension JobRecord {
    /// Whether a change comes in time: what a running attempt relies on stays, and when the job begins is
    /// over once it has begun.
    fileprivate func allows(_ after: JobDraft, _ before: JobDraft) -> Bool {
        if after.isIdentical(to: before) { return true }
        let (new, old) = (after.spec.schedule, before.spec.schedule)
        let isBeginChanged =
            new.earliestBeginAt != old.earliestBeginAt || new.confirmsBeforeBegin != old.confirmsBeforeBegin
            || new.isDiscretionary != old.isDiscretionary
        if attempt > 0, isBeginChanged { return false }
        return state != .running || after.differsOnlyWhileRunning(from: before)
    }
}

extension JobDraft {
    /// Whether what is asked about an attempt was asked about another request: it is tried anew, so that an
    /// answer, which may be a credential, goes nowhere but where the question came from.
    fileprivate func outdatesQuestion(since before: JobDraft, _ record: JobRecord) -> Bool {
        guard [.redirect, .challenge].contains(record.waitingFor) else { return false }
        return secrets != before.secrets || spec.request != before.spec.request
            || spec.redirects != before.spec.redirects
            || spec.asksOnChallenge != before.spec.asksOnChallenge
    }
}

extension StoreContext {
    /// A job was changed: if it runs here, its attempt learns of it.
    fileprivate func adopt(_ record: JobRecord) {
        guard record.state == .running, record.node == configuration.node,
            let spec = try? JobSpec(storedJSON: record.specJSON, opening: configuration.seal)
        else { return }
        edits.insert(record, spec, book: book) {
            // Before it has begun there is nothing to change yet: it begins with what the book says.
            attemptRunner?.changeRate(record.id, bytesPerSecondMax: spec.bytesPerSecondMax)
        }
    }
}

extension JobSpec {
    /// Whether a job that has not begun is to begin at another moment than it was to before.
    fileprivate func begins(otherwiseThan before: JobSpec, _ record: JobRecord) -> Bool {
        guard record.attempt == 0, record.state != .suspended, record.waitingFor != .dependency else {
            return false
        }
        if schedule.earliestBeginAt != before.schedule.earliestBeginAt { return true }
        if awaitsConfirmation != before.awaitsConfirmation { return true }
        if schedule.isDiscretionary != before.schedule.isDiscretionary { return true }
        // One that was started already stays so.
        guard record.waitingFor == .discretionary else { return false }
        return schedule != before.schedule || request.url != before.request.url
    }

    /// When it begins, at the latest if the service chooses the moment; nil: now.
    fileprivate func begin(_ record: JobRecord, now: Timestamp, bytesPerSecond: Double?) -> Timestamp? {
        guard schedule.isDiscretionary else {
            return schedule.earliestBeginAt.flatMap { $0 > now ? $0 : nil }
        }
        return latestDiscretionaryStart(
            createdAt: record.createdAt, now: now, bytesPerSecond: bytesPerSecond)
    }

    /// Whether a job that waits until its host can be reached is to do so no longer: it is tried at once.
    fileprivate func leavesHost(_ record: JobRecord) -> Bool {
        record.state == .waiting && record.waitingFor == .connectivity && !schedule.waitsForConnectivity
    }
}
