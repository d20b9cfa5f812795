/// A schedule on its way into the store: found right, with its job's template.
package struct NewSchedule: Sendable {
    package let id: ScheduleID
    package let tenant: String
    package let spec: ScheduleSpec
    package let template: JobTemplate

    package init(id: ScheduleID, tenant: String, spec: ScheduleSpec, template: JobTemplate) {
        self.id = id
        self.tenant = tenant
        self.spec = spec
        self.template = template
    }
}

/// What a schedule submits, as it is kept.
package struct JobTemplate: Sendable {
    /// `JobSpec.encodeStored`, with placeholders.
    package let specJSON: [UInt8]
    package let sealedSecrets: [UInt8]?
    package let payload: [UInt8]?

    package init(specJSON: [UInt8], sealedSecrets: [UInt8]?, payload: [UInt8]?) {
        self.specJSON = specJSON
        self.sealedSecrets = sealedSecrets
        self.payload = payload
    }
}

/// A schedule as the store knows it, for those who show it.
package struct ScheduleRecord: Sendable {
    package struct Counts: Sendable, Equatable {
        package var runs: Int64 = 0
        package var missed: Int64 = 0
        package var skipped: Int64 = 0
        package init() {}
    }

    package var id: ScheduleID
    package var tenant: String
    /// Grows with every change of what a client has said, not with runs.
    package var revision: Int32
    package var createdAt: Timestamp
    package var updatedAt: Timestamp
    package var spec: ScheduleSpec
    /// `JobSpec.encodeStored`
    package var jobJSON: [UInt8]
    package var nextScheduledAt: Timestamp?
    package var nextRunAt: Timestamp?
    package var lastScheduledAt: Timestamp?
    package var lastRunAt: Timestamp?
    package var lastJob: JobID?
    package var counts = Counts()

    package init(
        id: ScheduleID, tenant: String, revision: Int32, createdAt: Timestamp, updatedAt: Timestamp,
        spec: ScheduleSpec, jobJSON: [UInt8]
    ) {
        self.id = id
        self.tenant = tenant
        self.revision = revision
        self.createdAt = createdAt
        self.updatedAt = updatedAt
        self.spec = spec
        self.jobJSON = jobJSON
    }

    /// As every endpoint shows it.
    package func write(into writer: inout JSONWriter, for disclosure: Disclosure) {
        writer.beginObject()
        writer.member("id", id)
        writer.member("tenant", tenant)
        writer.member("revision", revision)
        writer.member("created_at", createdAt)
        writer.member("updated_at", updatedAt)
        spec.write(into: &writer)
        writer.memberOrNull("next_scheduled_at", nextScheduledAt)
        writer.memberOrNull("next_run_at", nextRunAt)
        writer.memberOrNull("last_scheduled_at", lastScheduledAt)
        writer.memberOrNull("last_run_at", lastRunAt)
        writer.memberOrNull("last_job", lastJob?.description)
        writer.name("counts")
        writer.beginObject()
        writer.member("runs", counts.runs)
        writer.member("missed", counts.missed)
        writer.member("skipped", counts.skipped)
        writer.endObject()
        writer.name("job")
        let whole = disclosure.seal.flatMap { try? JobSpec(storedJSON: jobJSON, opening: $0) }
        if let job = whole ?? (try? JobSpec(storedJSON: jobJSON)) {
            writer.beginObject()
            job.write(into: &writer, isRedacted: disclosure.isRedacted)
            writer.endObject()
        } else if !disclosure.isRedacted {
            // Damaged: what is there is better than nothing.
            writer.raw(jobJSON)
        } else {
            writer.null()
        }
        writer.endObject()
    }
}
