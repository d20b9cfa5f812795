import FerryCore
import Postgres

/// An event of a job that is not over, for its webhook.
struct News: Sendable {
    let job: JobID
    let attempt: Int32
    let delivery: DeliveryID
    let event: EventID
    let type: EventType
    let url: String
    /// The job as it was then.
    let jobJSON: [UInt8]
    let occurredAt: Timestamp

    /// `job.resumed_at_offset`. Nil when nobody is to be told.
    init?(
        resumed attempt: Attempt, at offset: Int64, node: NodeID, now: Timestamp,
        identifiers: IdentifierGenerator
    ) {
        guard let webhook = attempt.spec.webhook, webhook.events.contains(.jobResumedAtOffset) else {
            return nil
        }
        var record = JobRecord(ending: attempt, node: node, at: now)
        record.finishedAt = nil
        var writer = JSONWriter(reservingCapacity: record.specJSON.count + 1_024)
        record.write(
            into: &writer, progress: TransferProgress(bytesReceived: offset, resumedAtOffset: offset))
        job = attempt.job
        self.attempt = attempt.number
        delivery = identifiers.make()
        event = identifiers.make()
        type = .jobResumedAtOffset
        url = webhook.url
        jobJSON = writer.bytes
        occurredAt = now
    }
}

extension Parameters {
    /// The parameters of tell_jobs.sql.
    static func news(_ news: [News]) -> Parameters {
        var parameters = Parameters(capacity: news.count * 2_048)
        parameters.appendArray(.uuid, news) { $0.append($1.job) }
        parameters.appendArray(.int32, news) { $0.append(int32: $1.attempt) }
        parameters.appendArray(.uuid, news) { $0.append($1.delivery) }
        parameters.appendArray(.uuid, news) { $0.append($1.event) }
        parameters.appendArray(.text, news) { $0.append(text: $1.type.rawValue) }
        parameters.appendArray(.text, news) { $0.append(text: $1.url) }
        parameters.appendArray(.text, news) { $0.append(text: $1.jobJSON) }
        parameters.appendArray(.timestamp, news) { $0.append($1.occurredAt) }
        return parameters
    }
}
