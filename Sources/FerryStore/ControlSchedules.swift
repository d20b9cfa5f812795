package import FerryCore
import Postgres
import Synchronization

/// What a submission by hand, or a new schedule, became.
package struct Accepted<Record: Sendable>: Sendable {
    package let record: Record
    /// The same key and body were accepted before.
    package let isReplay: Bool
}

extension ControlLane {
    /// Keeps a schedule; its first occurrence comes after this moment.
    package func createSchedule(
        _ schedule: NewSchedule, _ idempotency: Submission.Idempotency?,
        reply: @escaping Reply<Accepted<ScheduleRecord>>
    ) {
        let context = context
        perform("create_schedule", isRead: false, reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<
                Accepted<ScheduleRecord>, StoreError
            > in
            let now = context.clock.now()
            var parameters = Parameters()
            parameters.append(schedule.id)
            parameters.append(text: schedule.tenant)
            parameters.append(now)
            parameters.appendOccurrence(of: schedule.spec, schedule.id, createdAt: now, now, context)
            parameters.append(bool: schedule.spec.overlap != .allow)
            parameters.append(text: schedule.spec.encode())
            parameters.append(text: schedule.template.specJSON)
            parameters.append(bytea: schedule.template.sealedSecrets)
            parameters.append(bytea: schedule.template.payload)
            parameters.append(text: idempotency?.route)
            parameters.append(text: idempotency?.key)
            parameters.append(bytea: idempotency?.fingerprint)
            parameters.append(context.configuration.node)
            let isNew = try connection.execute(Statements.createSchedule, parameters).rowCount == 1
            var id = schedule.id
            if !isNew, let idempotency {
                switch try Self.first(idempotency, &connection) {
                case .failure(let error): return .failure(error)
                case .success(let first): id = first
                }
            }
            return try Self.readSchedule(id, schedule.tenant, &connection).map {
                Accepted(record: $0.record, isReplay: !isNew)
            }
        }
    }

    /// What a key has made before.
    private static func first(
        _ idempotency: Submission.Idempotency, _ connection: inout Connection
    ) throws(PostgresError) -> Result<ScheduleID, StoreError> {
        var parameters = Parameters()
        parameters.append(keys: [idempotency], numbered: [0])
        let rows = try connection.execute(Statements.readKeys, parameters)
        // A key that housekeeping has just removed: the client's next try will find it free.
        guard rows.rowCount == 1, let id = rows.uuidArray(0, 2).first ?? nil else {
            return .failure(.idempotencyKeyInProgress)
        }
        guard rows.bytes(0, 1) == idempotency.fingerprint else { return .failure(.idempotencyKeyReused) }
        return .success(ScheduleID(high: id.high, low: id.low))
    }

    package func schedule(_ id: ScheduleID, tenant: String, reply: @escaping Reply<ScheduleRecord>) {
        perform("schedule", isRead: true, reply) { connection throws(PostgresError) in
            try Self.readSchedule(id, tenant, &connection).map(\.record)
        }
    }

    /// A page, newest first, only those before `before`.
    package func schedules(
        tenant: String, before: ScheduleID?, limit: Int, reply: @escaping Reply<[ScheduleRecord]>
    ) {
        perform("schedules", isRead: true, reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<[ScheduleRecord], StoreError> in
            var parameters = Parameters()
            parameters.append(text: tenant)
            parameters.append(before ?? .last)
            parameters.append(int32: Int32(clamping: limit))
            let rows = try connection.execute(Statements.listSchedules, parameters)
            var records: [ScheduleRecord] = []
            for row in 0..<rows.rowCount {
                guard let stored = try? StoredSchedule(rows, row) else { return .failure(.failed) }
                records.append(stored.record)
            }
            return .success(records)
        }
    }

    /// Gives a schedule another definition, and another job if there is one. What is due by the same times
    /// stays so; by other times the next occurrence comes after this moment. `change` may be asked more than
    /// once. `stale` when `revision` differs.
    package func changeSchedule(
        _ id: ScheduleID, tenant: String, revision: Int32?, template: JobTemplate?,
        _ change: @escaping @Sendable (ScheduleSpec) -> ScheduleSpec, reply: @escaping Reply<ScheduleRecord>
    ) {
        let context = context
        changeScheduleRow("change_schedule", id, tenant, revision, reply) {
            (stored, connection) throws(PostgresError) -> ScheduleRecord? in
            let spec = change(stored.record.spec)
            if template == nil, spec == stored.record.spec { return stored.record }
            let now = context.clock.now()
            var parameters = Parameters()
            parameters.append(id)
            parameters.append(int32: stored.record.revision)
            parameters.append(now)
            if spec.keepsTimes(of: stored.record.spec), let due = stored.record.nextScheduledAt {
                parameters.appendSameOccurrence(as: due, of: stored)
            } else {
                parameters.appendOccurrence(of: spec, id, createdAt: stored.record.createdAt, now, context)
            }
            parameters.append(bool: spec.overlap != .allow)
            parameters.append(text: spec.encode())
            parameters.append(text: template?.specJSON)
            parameters.append(bytea: template?.sealedSecrets)
            parameters.append(bytea: template?.payload)
            guard try connection.execute(Statements.replaceSchedule, parameters).rowCount == 1 else {
                return nil
            }
            return try? Self.readSchedule(id, tenant, &connection).get().record
        }
    }

    /// Removes a schedule; its jobs stay.
    package func deleteSchedule(
        _ id: ScheduleID, tenant: String, revision: Int32?, reply: @escaping Reply<ScheduleRecord>
    ) {
        changeScheduleRow("delete_schedule", id, tenant, revision, reply) {
            (stored, connection) throws(PostgresError) -> ScheduleRecord? in
            var parameters = Parameters()
            parameters.append(id)
            parameters.append(int32: stored.record.revision)
            return try connection.execute(Statements.deleteSchedule, parameters).rowCount == 1
                ? stored.record : nil
        }
    }

    /// Submits a schedule's job now, whatever its times say.
    package func runSchedule(
        _ id: ScheduleID, tenant: String, _ idempotency: Submission.Idempotency?, traceparent: String,
        reply: @escaping Reply<Accepted<JobRecord>>
    ) {
        let context = context
        perform("run_schedule", isRead: false, reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<Accepted<JobRecord>, StoreError> in
            let stored: StoredSchedule
            switch try Self.readSchedule(id, tenant, &connection) {
            case .failure(let error): return .failure(error)
            case .success(let found): stored = found
            }
            if let refusal = try Self.refusal(of: tenant, idempotency, &connection, context) {
                return .failure(refusal)
            }
            let now = context.clock.now()
            let job = stored.job(
                at: now, id: context.identifiers.make(), traceparent: traceparent,
                context.configuration.zones)
            guard let job else { return .failure(.failed) }
            let outcome: IntakeBatch.Outcome
            switch try Self.submitRun(job, of: id, idempotency, now: now, &connection, context) {
            case .failure(let error): return .failure(error)
            case .success(let submitted): outcome = submitted
            }
            if outcome.jobCount == 1 { context.noteSubmitted(outcome) }
            switch outcome.results.first {
            case .failure(let error): return .failure(error)
            case .success(let accepted):
                guard let first = accepted.jobs.first?.id,
                    let record = try Self.read([first], &connection)[first]?.record
                else { return .failure(.notFound) }
                return .success(Accepted(record: record, isReplay: accepted.isReplay))
            case nil: return .failure(.failed)
            }
        }
    }

    /// Why the tenant gets no more jobs; a key that was accepted before gets its answer all the same.
    private static func refusal(
        of tenant: String, _ idempotency: Submission.Idempotency?, _ connection: inout Connection,
        _ context: StoreContext
    ) throws(PostgresError) -> StoreError? {
        guard let seconds = context.admission.admit(1, of: tenant) else { return nil }
        if let idempotency, case .success = try first(idempotency, &connection) { return nil }
        context.metrics.surplusJobs.add(1, ordering: .relaxed)
        return .tooManyJobs(max: context.admission.jobCountMax, retryAfter: seconds)
    }

    private static func submitRun(
        _ job: NewJob, of id: ScheduleID, _ idempotency: Submission.Idempotency?, now: Timestamp,
        _ connection: inout Connection, _ context: StoreContext
    ) throws(PostgresError) -> Result<IntakeBatch.Outcome, StoreError> {
        let submission = Submission(jobs: [job], idempotency: idempotency) { _ in }
        // Each round fails only because a session has changed meanwhile.
        for _ in 0..<3 {
            let sessions = context.sessions.current
            switch sessions.verdict(on: [job], known: nil) {
            case .acceptable, .changed: break
            case .invalidated: return .failure(.sessionInvalidated)
            case .unreadable: return .failure(.failed)
            }
            do {
                return .success(
                    try connection.transaction { connection throws(PostgresError) in
                        let outcome = try IntakeBatch([submission], context, isAlone: false).commit(
                            &connection, epoch: sessions.epoch)
                        guard outcome.jobCount == 1 else { return outcome }
                        _ = try ScheduleRound.insertRuns([job], &connection)
                        var parameters = Parameters()
                        parameters.append(id)
                        parameters.append(now)
                        parameters.append(job.id)
                        _ = try connection.execute(Statements.noteRun, parameters)
                        return outcome
                    })
            } catch {
                guard error.isSessionChange else { throw error }
                try context.readSessions(&connection)
            }
        }
        return .failure(.unavailable)
    }

    // MARK: Rows

    private static func readSchedule(
        _ id: ScheduleID, _ tenant: String, _ connection: inout Connection
    ) throws(PostgresError) -> Result<StoredSchedule, StoreError> {
        var parameters = Parameters()
        parameters.append(id)
        parameters.append(text: tenant)
        let rows = try connection.execute(Statements.readSchedule, parameters)
        guard rows.rowCount == 1 else { return .failure(.notFound) }
        guard let stored = try? StoredSchedule(rows, 0) else { return .failure(.failed) }
        return .success(stored)
    }

    /// Tries a change until nobody has changed the row in between; `body` answers nil when somebody has.
    private func changeScheduleRow(
        _ name: StaticString, _ id: ScheduleID, _ tenant: String, _ revision: Int32?,
        _ reply: @escaping Reply<ScheduleRecord>,
        _ body:
            @escaping @Sendable (StoredSchedule, inout Connection) throws(PostgresError) -> ScheduleRecord?
    ) {
        perform(name, isRead: false, reply) {
            (connection: inout Connection) throws(PostgresError) -> Result<ScheduleRecord, StoreError> in
            for _ in 0..<10 {
                switch try Self.readSchedule(id, tenant, &connection) {
                case .failure(let error): return .failure(error)
                case .success(let stored):
                    if let revision, revision != stored.record.revision {
                        return .failure(.stale(revision: stored.record.revision))
                    }
                    if let record = try body(stored, &connection) { return .success(record) }
                }
            }
            return .failure(.unavailable)
        }
    }
}

extension ScheduleSpec {
    /// Whether occurrences come, and are put off, as before. Of a schedule that is not enabled none comes.
    fileprivate func keepsTimes(of before: ScheduleSpec) -> Bool {
        // Seconds are the same everywhere.
        let isInterval = if case .interval = pattern { true } else { false }
        return isEnabled && before.isEnabled && pattern == before.pattern
            && (isInterval || timeZone == before.timeZone) && startAt == before.startAt
            && endAt == before.endAt && jitter == before.jitter
    }
}

extension Parameters {
    /// The next occurrence of a schedule, and when it runs.
    fileprivate mutating func appendOccurrence(
        of spec: ScheduleSpec, _ id: ScheduleID, createdAt: Timestamp, _ now: Timestamp,
        _ context: StoreContext
    ) {
        let next =
            spec.isEnabled
            ? spec.recurrence(context.configuration.zones, createdAt: createdAt)?.next(after: now) : nil
        append(next)
        append(next.map { $0 + spec.delay(id, $0) })
    }

    /// Whichever occurrence is next when the row is locked; `due` was when it was read. The look at one that
    /// could not run is not put off any longer: this may be the repair.
    fileprivate mutating func appendSameOccurrence(as due: Timestamp, of stored: StoredSchedule) {
        let record = stored.record
        let runAt = due + record.spec.delay(record.id, due)
        let isPutOff = !stored.isHeld && record.nextRunAt.map { $0 > runAt } ?? false
        append(Timestamp(microseconds: .min))
        append(isPutOff ? runAt : nil)
    }
}
