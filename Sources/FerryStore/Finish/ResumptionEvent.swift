import FerryCore
import Postgres

/// An event of a job that is not finished: `job.resumed_at_offset`.
struct ResumptionEvent: Sendable {
    let job: JobID
    let attempt: Int32
    /// When it happened.
    let occurredAt: Timestamp
    /// When the attempt began.
    let begunAt: Timestamp
    /// The first byte that is fetched.
    let offset: Int64
    /// `true` if the job's webhook wants it.
    let isWanted: Bool

    /// `job.resumed_at_offset`
    init(resumed attempt: Attempt, at offset: Int64, now: Timestamp) {
        job = attempt.job
        self.attempt = attempt.number
        occurredAt = now
        begunAt = attempt.startedAt
        self.offset = offset
        isWanted = attempt.spec.webhook?.events.contains(.jobResumedAtOffset) ?? false
    }
}

extension Parameters {
    /// The parameters of tell_jobs.sql.
    static func resumptions(_ resumptions: [ResumptionEvent]) -> Parameters {
        var parameters = Parameters(capacity: resumptions.count * 80)
        parameters.appendArray(.uuid, resumptions) { $0.append($1.job) }
        parameters.appendArray(.int32, resumptions) { $0.append(int32: $1.attempt) }
        parameters.appendArray(.timestamp, resumptions) { $0.append($1.occurredAt) }
        parameters.appendArray(.int64, resumptions) { $0.append(int64: $1.offset) }
        parameters.appendArray(.timestamp, resumptions) { $0.append($1.begunAt) }
        return parameters
    }
}
