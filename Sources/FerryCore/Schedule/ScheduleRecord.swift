/// A validated schedule that is about to be stored, with the template of its jobs.
package struct NewSchedule: Sendable {
    /// Identifier of the schedule.
    package let id: ScheduleID
    /// Tenant.
    package let tenant: String
    /// Configuration.
    package let spec: ScheduleSpec
    /// Template of its jobs.
    package let template: JobTemplate

    /// Creates a new schedule.
    package init(id: ScheduleID, tenant: String, spec: ScheduleSpec, template: JobTemplate) {
        self.id = id
        self.tenant = tenant
        self.spec = spec
        self.template = template
    }
}

/// Template of a schedule's jobs as stored.
package struct JobTemplate: Sendable {
    /// `JobSpec.encodeStored`, with placeholders.
    package let specJSON: [UInt8]
    /// `JobSecrets`, encrypted, or `nil` if there are none.
    package let sealedSecrets: [UInt8]?
    /// Bytes of an inline source or body, or `nil`.
    package let payload: [UInt8]?

    /// Creates a template.
    package init(specJSON: [UInt8], sealedSecrets: [UInt8]?, payload: [UInt8]?) {
        self.specJSON = specJSON
        self.sealedSecrets = sealedSecrets
        self.payload = payload
    }
}

/// A schedule as stored, for showing it.
package struct ScheduleRecord: Sendable {
    /// Numbers of occurrences.
    package struct Counts: Sendable, Equatable {
        /// Occurrences with a job; missed ones; ones skipped because of an earlier job.
        package var runs: Int64 = 0
        package var missed: Int64 = 0
        package var skipped: Int64 = 0
        /// Creates counts of 0.
        package init() {}
    }

    /// Identifier.
    package var id: ScheduleID
    /// Tenant.
    package var tenant: String
    /// Revision; grows with each change by a client, not with runs.
    package var revision: Int32
    /// Times of creation and of the last change.
    package var createdAt: Timestamp
    package var updatedAt: Timestamp
    /// Configuration.
    package var spec: ScheduleSpec
    /// `JobSpec.encodeStored` of the template.
    package var jobJSON: [UInt8]
    /// Next occurrence and the time of its run, or `nil`.
    package var nextScheduledAt: Timestamp?
    package var nextRunAt: Timestamp?
    /// Last occurrence with a job and the time of its submission, or `nil`.
    package var lastScheduledAt: Timestamp?
    package var lastRunAt: Timestamp?
    /// Job of that occurrence, or `nil`.
    package var lastJob: JobID?
    /// Numbers of occurrences.
    package var counts = Counts()

    /// Creates a record.
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

    /// Writes the schedule as the API shows it.
    package func write(into writer: inout JSONWriter, for disclosure: Disclosure) {
        writer.beginObject()
        writer.member("id", id)
        writer.member("tenant", tenant)
        writer.member("revision", revision)
        writer.member("created_at", createdAt)
        writer.member("updated_at", updatedAt)
        spec.writeFields(into: &writer, isRedacted: false)
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
        // With a wrong key, or redacted: the secret values are left out.
        let whole = disclosure.seal.flatMap { try? JobSpec(storedJSON: jobJSON, opening: $0) }
        // If the stored fields are damaged, they are shown as they are.
        if let job = whole ?? (try? JobSpec(storedJSON: jobJSON)) {
            writer.beginObject()
            job.write(into: &writer, isRedacted: disclosure.isRedacted)
            writer.endObject()
        } else if !disclosure.isRedacted {
            writer.raw(jobJSON)
        } else {
            writer.null()
        }
        writer.endObject()
    }
}
