/// An event with its position in the log of its session.
package struct Event: Sendable, Equatable {
    /// Identifier of the event.
    package let id: EventID
    /// Tenant of the session.
    package let tenant: String
    /// Session of the event.
    package let session: String
    /// Number of the event, without gaps per tenant and session.
    package let sequence: Int64
    /// What happened.
    package let record: EventRecord

    /// Creates an event.
    package init(id: EventID, tenant: String, session: String, sequence: Int64, record: EventRecord) {
        self.id = id
        self.tenant = tenant
        self.session = session
        self.sequence = sequence
        self.record = record
    }

    /// Writes `{"id","type","timestamp","data":{"sequence","session","job"}}`. `job`: the current record, or
    /// `nil` if the job was deleted.
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
    /// Offset of `job.resumed_at_offset` in bytes; `nil` for other events.
    package var offset: Int64? {
        type == .jobResumedAtOffset ? Int64(String(decoding: detail, as: UTF8.self)) : nil
    }

    /// Writes the job as it was at the event, as far as its row still tells. A deleted job has its identifier
    /// only, an event of a session has null.
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

    /// Returns the JSON that `writeJob` writes.
    package func jobJSON(_ current: JobRecord?) -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: (current?.specJSON.count ?? 0) + 1_024)
        writeJob(into: &writer, current)
        return writer.bytes
    }
}

extension JobRecord {
    /// Returns the job at the time of an event, without anything that came later.
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
            record.partialDownload = nil
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

    /// Removes a question that the event is not about, and an answer that came later.
    private mutating func forgetQuestions(after event: EventRecord) {
        if let questionJSON {
            // A question that cannot be read is left out.
            let question = try? JobQuestion(storedJSON: questionJSON)
            if let question, question.kind == event.type.question, question.askedAt <= event.occurredAt {
                return
            }
            self.questionJSON = nil
        }
        // Fields that cannot be read have no answer to remove.
        spec = spec ?? (try? JobSpec(storedJSON: specJSON))
        if let last = spec?.answers?.last, last.at > event.occurredAt { spec?.answers?.last = nil }
    }
}
