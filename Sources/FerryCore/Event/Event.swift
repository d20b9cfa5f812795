/// An event with its place in the log of its session.
package struct Event: Sendable, Equatable {
    package let id: EventID
    package let tenant: String
    package let session: String
    /// Gap-free per tenant and session.
    package let sequence: Int64
    package let record: EventRecord

    package init(id: EventID, tenant: String, session: String, sequence: Int64, record: EventRecord) {
        self.id = id
        self.tenant = tenant
        self.session = session
        self.sequence = sequence
        self.record = record
    }

    /// `{"id","type","timestamp","data":{"sequence","session","job"}}`. `job`: the record as it is now; nil:
    /// it was deleted.
    package func write(into writer: inout JSONWriter, job: JobRecord?) {
        writer.beginObject()
        writer.member("id", id)
        writer.member("type", record.type.rawValue)
        writer.member("timestamp", record.occurredAt)
        writer.name("data")
        writer.beginObject()
        writer.member("sequence", sequence)
        writer.member("session", session)
        if record.type == .jobResumedAtOffset { writer.memberOrNull("offset", record.offset) }
        writer.name("job")
        record.writeJob(into: &writer, job)
        if let webhook = record.disabledWebhook {
            writer.name("webhook")
            webhook.write(into: &writer)
        }
        writer.endObject()
        writer.endObject()
    }
}

extension EventRecord {
    /// Of `job.resumed_at_offset`, in bytes.
    package var offset: Int64? {
        type == .jobResumedAtOffset ? Int64(String(decoding: detail, as: UTF8.self)) : nil
    }

    /// The job as it was when this happened, as far as its row still tells; its name alone once it is gone,
    /// null for an event of a session.
    package func writeJob(into writer: inout JSONWriter, _ current: JobRecord?) {
        guard let job else { return writer.null() }
        guard let current else {
            writer.beginObject()
            writer.member("id", job)
            writer.endObject()
            return
        }
        let progress = offset.map { TransferProgress(bytesReceived: $0, resumedAtOffset: $0) }
        current.asOf(self).write(into: &writer, progress: progress)
    }

    /// The same as a document of its own.
    package func jobJSON(_ current: JobRecord?) -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: (current?.specJSON.count ?? 0) + 1_024)
        writeJob(into: &writer, current)
        return writer.bytes
    }
}

extension JobRecord {
    /// The job when an event happened: what only came later is taken away.
    func asOf(_ event: EventRecord) -> JobRecord {
        guard let state = event.state else { return self }
        var record = self
        if event.revision != revision { record.forgetQuestions(after: event) }
        if let instant = acknowledgedAt,
            event.type.isTerminal || event.type == .jobUnacknowledged || instant > event.occurredAt
        {
            record.acknowledgedAt = nil
        }
        if state.isTerminal, event.type != .jobAttemptFailed {
            record.revision = event.revision
            return record
        }
        record.state = state
        record.waitingFor = event.waitingFor
        record.revision = event.revision
        record.attempt = event.attempt
        if event.attempt == 0 {
            record.startedAt = nil
            record.failedAttemptCount = 0
        }
        if state != .running { record.node = nil }
        if state != self.state || event.revision != revision {
            record.nextAttemptAt = nil
            record.kept = nil
        }
        if !state.isTerminal {
            record.finishedAt = nil
            record.responseJSON = nil
            record.resultJSON = nil
            record.body = nil
            record.resumeData = nil
        }
        if event.type == .jobAttemptFailed {
            record.errorJSON = event.detail.isEmpty ? errorJSON : event.detail
        } else if event.attempt <= 1 {
            record.errorJSON = nil
        }
        return record
    }

    /// The event that a question makes shows it, and no other one does; nor an answer that came later.
    private mutating func forgetQuestions(after event: EventRecord) {
        if let questionJSON {
            let question = try? JobQuestion(storedJSON: questionJSON)
            if let question, question.kind == event.type.question, question.askedAt <= event.occurredAt {
                return
            }
            self.questionJSON = nil
        }
        spec = spec ?? (try? JobSpec(storedJSON: specJSON))
        if let last = spec?.answers?.last, last.at > event.occurredAt { spec?.answers?.last = nil }
    }
}
