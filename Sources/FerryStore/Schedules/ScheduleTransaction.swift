import FerryCore
import Logging
import Postgres

/// One transaction for due schedules: locks their rows, inserts their jobs and writes their next occurrences.
struct ScheduleTransaction {
    struct Outcome {
        /// Number of due schedules.
        var dueCount = 0
        var submitted = SubmissionBatch.Outcome()
        /// Number of occurrences that were missed.
        var missedCount = 0
        var skippedCount = 0
        /// Those of `skippedCount` that were skipped because of limits of their tenants.
        var surplusCount = 0
        /// Jobs of earlier occurrences that the next run replaces.
        var cancels: [(job: JobID, tenant: String)] = []
    }

    /// Update of one schedule.
    private struct Advance {
        var id: ScheduleID
        var decision = ScheduleDecision()
        var job: JobID?
        var skip: ScheduleSkip.Reason?

        /// Skips the occurrence that would be submitted.
        mutating func skip(_ reason: ScheduleSkip.Reason) {
            job = nil
            decision.submits = nil
            decision.skippedCount += 1
            skip = reason
        }
    }

    /// Seconds until a schedule that cannot run is tried again.
    static let repairSeconds = 3_600.0

    let insertion: JobInsertion
    let countMax: Int
    let now: Timestamp
    /// Schedules whose occurrence the database refuses because of its group, with the reason.
    var refusals: [ScheduleID: StoreError] = [:]

    /// `dueIDs`: set to the schedules that were due, also if it throws. `admitted`: to be settled after the
    /// transaction, also if it throws.
    func commit(
        _ connection: inout Connection, dueIDs: inout [ScheduleID], admitted: inout AdmittedJobs
    ) throws(PostgresError) -> Outcome {
        var outcome = Outcome()
        var parameters = Parameters()
        parameters.append(int32: Int32(countMax))
        parameters.append(now)
        let rows = try connection.execute(Statements.dueSchedules, parameters)
        outcome.dueCount = rows.rowCount
        dueIDs = rows.identifiers()
        guard !dueIDs.isEmpty else { return outcome }
        let unfinished = try Self.unfinished(of: rows, &connection)
        let sessions = insertion.context.sessions.current
        var advances: [Advance] = []
        var jobs: [NewJob] = []
        for row in 0..<rows.rowCount {
            let id: ScheduleID = rows.identifier(row, 0)
            let previous = unfinished[id] ?? []
            // An unreadable schedule is postponed and logged.
            guard let stored = try? StoredSchedule(rows, row),
                let decision = decision(stored, hasUnfinished: !previous.isEmpty)
            else {
                advances.append(postponed(id, rows.instant(row, 7), "its definition cannot be read"))
                continue
            }
            if decision.cancelsPrevious {
                outcome.cancels += previous.map { ($0, stored.record.tenant) }
            }
            var advance = Advance(
                id: id, decision: decision, skip: decision.skippedCount > 0 ? .overlap : nil)
            if let occurrence = decision.submits {
                let job = stored.job(
                    at: occurrence, id: insertion.context.identifiers.make(), traceparent: newTraceparent(),
                    insertion.context.configuration.zones, insertion.context.configuration.seal)
                guard let job else {
                    advances.append(postponed(id, occurrence, "its job cannot be created"))
                    continue
                }
                if let reason = try refusal(of: job, sessions, &outcome, &admitted, &connection) {
                    advance.skip(reason)
                } else {
                    advance.job = job.id
                    jobs.append(job)
                }
            }
            advances.append(advance)
        }
        if !jobs.isEmpty {
            outcome.submitted = try submit(jobs, &advances, epoch: sessions.epoch, &admitted, &connection)
        }
        outcome.missedCount = advances.reduce(0) { $0 + $1.decision.missedCount }
        outcome.skippedCount = advances.reduce(0) { $0 + $1.decision.skippedCount }
        _ = try connection.execute(Statements.advanceSchedules, advancing(advances))
        return outcome
    }

    /// Returns the unfinished jobs of earlier occurrences, for schedules that depend on them. `due`: rows of
    /// due_schedules.sql.
    private static func unfinished(
        of due: borrowing ResultSet, _ connection: inout Connection
    ) throws(PostgresError) -> [ScheduleID: [JobID]] {
        var watching: [ScheduleID] = []
        for row in 0..<due.rowCount where due.bool(row, 20) { watching.append(due.identifier(row, 0)) }
        guard !watching.isEmpty else { return [:] }
        var parameters = Parameters.identifiers(watching)
        parameters.append(int32: Int32(Limits.scheduleOverlapMax))
        let rows = try connection.execute(Statements.unfinishedRuns, parameters)
        var unfinished: [ScheduleID: [JobID]] = [:]
        for row in 0..<rows.rowCount {
            unfinished[rows.identifier(row, 0), default: []].append(rows.identifier(row, 1))
        }
        return unfinished
    }

    /// Returns why the session, the group or the tenant does not accept the job of an occurrence, or `nil`.
    private func refusal(
        of job: NewJob, _ sessions: SessionSnapshot, _ outcome: inout Outcome,
        _ admitted: inout AdmittedJobs, _ connection: inout Connection
    ) throws(PostgresError) -> ScheduleSkip.Reason? {
        let schedule = job.spec.occurrence?.schedule
        if let refused = schedule.flatMap({ refusals[$0] }) { return ScheduleSkip.Reason(refused) }
        switch sessions.verdict(on: [job], known: nil) {
        case .acceptable, .changed: break
        case .invalidated, .unreadable:
            insertion.context.logger.warning(
                "an occurrence of a schedule was skipped: its session accepts no jobs",
                metadata: [
                    "schedule.id": "\(schedule?.description ?? "")", "session": "\(job.spec.session)",
                ])
            return .sessionInvalidated
        }
        guard let refused = try insertion.admission.refusal(of: job, &admitted, &connection) else {
            return nil
        }
        outcome.surplusCount += 1
        return ScheduleSkip.Reason(refused)
    }

    private func decision(_ stored: StoredSchedule, hasUnfinished: Bool) -> ScheduleDecision? {
        let record = stored.record
        guard let due = record.nextScheduledAt,
            let recurrence = record.spec.recurrence(
                insertion.context.configuration.zones, createdAt: record.createdAt)
        else { return nil }
        return ScheduleDecision(
            ScheduleDecision.Input(
                id: record.id, spec: record.spec, recurrence: recurrence, scheduledAt: due,
                isHeld: stored.isHeld, hasUnfinished: hasUnfinished,
                lastRunAt: record.lastRunAt, now: now))
    }

    /// Postpones a schedule for an hour: an operator has to repair it.
    private func postponed(_ id: ScheduleID, _ occurrence: Timestamp, _ reason: String) -> Advance {
        insertion.context.logger.error(
            "a schedule was postponed for an hour",
            metadata: ["schedule.id": "\(id)", "scheduled_at": "\(occurrence)", "reason": "\(reason)"])
        var decision = ScheduleDecision()
        decision.next = occurrence
        decision.nextRunAt = now + Self.repairSeconds
        return Advance(id: id, decision: decision)
    }

    private func submit(
        _ jobs: [NewJob], _ advances: inout [Advance], epoch: Int64, _ admitted: inout AdmittedJobs,
        _ connection: inout Connection
    ) throws(PostgresError) -> SubmissionBatch.Outcome {
        let fresh = Set(try ScheduleTransaction.insertRuns(jobs, &connection))
        // The other occurrences were submitted before; their schedules only advance.
        for index in advances.indices where advances[index].job.map({ !fresh.contains($0) }) ?? false {
            advances[index].job = nil
            advances[index].decision.submits = nil
        }
        let submission = Submission(jobs: jobs.filter { fresh.contains($0.id) }, idempotency: nil) { _ in }
        guard !submission.jobs.isEmpty else { return SubmissionBatch.Outcome() }
        let outcome = try insertion.insert([submission], &connection, epoch: epoch)
        guard outcome.jobCount < submission.jobs.count else { return outcome }
        // Other jobs have the unique keys.
        let inserted = Set(
            outcome.results.flatMap { (try? $0.get().jobs.filter(\.isNew).map(\.id)) ?? [] })
        for job in submission.jobs where !inserted.contains(job.id) {
            insertion.admission.withdraw(1, of: job.tenant, &admitted)
            guard let index = advances.firstIndex(where: { $0.job == job.id }) else { continue }
            advances[index].skip(.uniqueKeyTaken)
        }
        return outcome
    }

    /// Inserts runs and returns the jobs whose occurrences were not submitted before.
    static func insertRuns(
        _ jobs: [NewJob], _ connection: inout Connection
    ) throws(PostgresError) -> [JobID] {
        var parameters = Parameters()
        parameters.appendArray(.uuid, jobs) { $0.append($1.spec.occurrence?.schedule) }
        parameters.appendArray(.timestamp, jobs) { $0.append($1.spec.occurrence?.scheduledAt) }
        parameters.appendArray(.uuid, jobs) { $0.append($1.id) }
        return try connection.execute(Statements.insertRuns, parameters).identifiers()
    }

    private func advancing(_ advances: [Advance]) -> Parameters {
        var parameters = Parameters(capacity: advances.count * 128)
        parameters.appendArray(.uuid, advances) { $0.append($1.id) }
        parameters.appendArray(.timestamp, advances) { $0.append($1.decision.next) }
        parameters.appendArray(.timestamp, advances) { $0.append($1.decision.nextRunAt) }
        parameters.appendArray(.bool, advances) { $0.append(bool: $1.decision.isHeld) }
        parameters.appendArray(.timestamp, advances) { $0.append($1.decision.submits) }
        parameters.appendArray(.uuid, advances) { $0.append($1.job) }
        parameters.appendArray(.int64, advances) { $0.append(int64: Int64($1.decision.missedCount)) }
        parameters.appendArray(.int64, advances) { $0.append(int64: Int64($1.decision.skippedCount)) }
        parameters.append(now)
        parameters.appendArray(.text, advances) { $0.append(text: $1.skip?.rawValue) }
        return parameters
    }
}

extension ScheduleSkip.Reason {
    /// The reason for which a limit of the tenant or a group refuses the job of an occurrence.
    fileprivate init(_ error: StoreError) {
        switch error {
        case .groupClosed: self = .groupClosed
        case .tooManyGroups: self = .limitReached
        case .quotaExceeded: self = .quotaExceeded
        case .storageQuotaExceeded: self = .storageQuotaExceeded
        default: self = .tooManyJobs
        }
    }
}
