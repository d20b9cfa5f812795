import FerryCore
import Postgres

/// An event of a job that is not finished.
struct News: Sendable {
    let job: JobID
    let attempt: Int32
    /// `true` if the job's webhook wants it.
    let isWanted: Bool
    /// The `EventRecord`.
    let packed: [UInt8]

    /// `job.resumed_at_offset`
    init(resumed attempt: Attempt, at offset: Int64, now: Timestamp) {
        let record = EventRecord(
            .jobResumedAtOffset, job: attempt.job, at: now, wanted: attempt.spec.wantedEvents,
            attempt: attempt.number, revision: attempt.revision, state: .running,
            detail: Array(String(offset).utf8))
        var packed: [UInt8] = []
        record.pack(into: &packed)
        job = attempt.job
        self.attempt = attempt.number
        self.packed = packed
        isWanted = record.isWanted
    }
}

extension Parameters {
    /// The parameters of tell_jobs.sql.
    static func news(_ news: [News]) -> Parameters {
        var parameters = Parameters(capacity: news.count * 80)
        parameters.appendArray(.uuid, news) { $0.append($1.job) }
        parameters.appendArray(.int32, news) { $0.append(int32: $1.attempt) }
        parameters.appendArray(.bytea, news) { $0.append(bytea: $1.packed) }
        return parameters
    }
}
