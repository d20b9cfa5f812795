import FerryCore
import Postgres

/// Finds the jobs of a bulk operation or a dry run in bounded steps, newest first. A step reads candidates
/// from one index of `list_jobs.sql`, or the next identifiers, so that its cost does not depend on the number
/// of jobs.
struct JobScan: Sendable {
    /// A job that matches.
    struct Match: Sendable {
        let id: JobID
        let state: JobState
        /// Number of jobs that were looked at up to it.
        let number: Int
    }

    /// Result of one step.
    struct Step: Sendable {
        /// The jobs that match, the newest first.
        var matches: [Match] = []
        /// Jobs and identifiers that were looked at.
        var examinedCount = 0
        /// Upper bound (exclusive) of the jobs still to be looked at; `nil` at the end.
        var position: JobID?
    }

    let tenant: String
    /// Jobs that were created after this time do not match.
    let createdUntil: Timestamp
    let queueState: QueueState

    /// Returns an identifier above those of all jobs that were created until a time.
    static func upperBound(of time: Timestamp) -> JobID {
        .first(at: time + Parameters.acceptanceSeconds)
    }

    /// Looks at up to `rowCount` jobs below `position`.
    func step(
        _ filter: JobFilter, below position: JobID, rowCount: Int, _ connection: inout Connection
    ) throws(PostgresError) -> Step {
        let query = JobQuery(tenant: tenant, filter: filter, before: position, limit: rowCount)
        // A waiting reason needs the fields of the job.
        let isNarrow = filter.waitingReasons.isEmpty
        let conditions = isNarrow ? QueueConditions() : queueState.conditions
        let rows = try connection.execute(
            Statements.listJobs, .query(query, rowCount: rowCount, isNarrow: isNarrow))
        var step = Step()
        var stoppedAt: JobID?
        for row in 0..<rows.rowCount {
            let number = rows.int64(row, JobColumn.allCases.count)
            let id: JobID = rows.identifier(row, 0)
            step.examinedCount = Int(number)
            if number == Int64(rowCount) { stoppedAt = id }
            guard !rows.isNull(row, 1), rows.instant(row, 8) <= createdUntil,
                let state = JobState(rawValue: rows.text(row, 2))
            else { continue }
            if !isNarrow {
                guard let stored = StoredJob(rows, row, isWide: true, queueState.context.damagedRows),
                    filter.matchesReason(of: stored.record, queue: conditions)
                else { continue }
            }
            step.matches.append(Match(id: id, state: state, number: Int(number)))
        }
        // No job below the floor matches, as in a list.
        if let stoppedAt, Parameters.lowerBound(of: query).map({ stoppedAt > $0 }) ?? true {
            step.position = stoppedAt
        }
        return step
    }

    /// Looks at identifiers, the largest first. `isLast`: no others follow.
    func step(
        _ identifiers: [JobID], isLast: Bool, _ connection: inout Connection
    ) throws(PostgresError) -> Step {
        var step = Step(examinedCount: identifiers.count)
        let found = try queueState.context.jobs(identifiers, withBodies: false, &connection)
        for (index, id) in identifiers.enumerated() {
            guard let record = found[id]?.record, record.tenant == tenant, record.createdAt <= createdUntil
            else { continue }
            step.matches.append(Match(id: id, state: record.state, number: index + 1))
        }
        if !isLast { step.position = identifiers.last }
        return step
    }
}
