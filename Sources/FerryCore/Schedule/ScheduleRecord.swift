/// A validated schedule that is about to be stored, with the templates of its jobs.
public struct NewSchedule: Sendable {
    /// Identifier of the schedule.
    public let id: ScheduleID
    /// Tenant.
    public let tenant: String
    /// Configuration.
    public let spec: ScheduleSpec
    /// Its jobs; their texts may have placeholders.
    public let jobs: ScheduleJobs

    /// Creates a new schedule.
    public init(id: ScheduleID, tenant: String, spec: ScheduleSpec, jobs: ScheduleJobs) {
        self.id = id
        self.tenant = tenant
        self.spec = spec
        self.jobs = jobs
    }
}

/// A schedule as stored, for showing it.
public struct ScheduleRecord: Sendable {
    /// Numbers of occurrences.
    public struct Counts: Sendable, Equatable {
        /// Occurrences with a job; missed ones; ones skipped because of an earlier job.
        public var runs: Int64 = 0
        public var missed: Int64 = 0
        public var skipped: Int64 = 0
        /// Creates counts of 0.
        public init() {}
    }

    /// Identifier.
    public var id: ScheduleID
    /// Tenant.
    public var tenant: String
    /// Revision; grows with each change by a client, not with runs.
    public var revision: Int32
    /// Times of creation and of the last change.
    public var createdAt: Timestamp
    public var updatedAt: Timestamp
    /// Configuration.
    public var spec: ScheduleSpec
    /// Templates of its jobs, in the order of the list. Empty if the list was not read.
    public var templates: [StoredSpec]
    /// Rules of the list, or `nil` if the schedule has one `job`.
    public var list: ScheduleJobs.List?
    /// Next occurrence and the time of its run, or `nil`.
    public var nextScheduledAt: Timestamp?
    public var nextRunAt: Timestamp?
    /// Last occurrence with a job and the time of its submission, or `nil`.
    public var lastScheduledAt: Timestamp?
    public var lastRunAt: Timestamp?
    /// Job of that occurrence, of a list the first one that was new; or `nil`.
    public var lastJob: JobID?
    /// Numbers of occurrences.
    public var counts = Counts()
    /// The last time at which an occurrence was skipped, and why, or `nil`.
    public var lastSkip: ScheduleSkip?

    /// Creates a record.
    public init(
        id: ScheduleID, tenant: String, revision: Int32, createdAt: Timestamp, updatedAt: Timestamp,
        spec: ScheduleSpec, templates: [StoredSpec], list: ScheduleJobs.List?
    ) {
        self.id = id
        self.tenant = tenant
        self.revision = revision
        self.createdAt = createdAt
        self.updatedAt = updatedAt
        self.spec = spec
        self.templates = templates
        self.list = list
    }

    /// Returns the schedule as the reader may see it.
    public func view(for disclosure: Disclosure) -> ShownSchedule {
        let jobs = templates.map { ShownSchedule.Template(stored: $0, disclosure: disclosure) }
        return ShownSchedule(record: self, templates: jobs)
    }
}

/// A schedule as the API shows it.
public struct ShownSchedule: ShownObject {
    public static let summary =
        "The accepted fields with their effective values, and the progress of the schedule."
    public static let schemaName = "ScheduleView"

    fileprivate let record: ScheduleRecord
    fileprivate let templates: [Template]

    /// The job of a schedule with `job`.
    private var job: Template? { record.list == nil ? templates.first : nil }
    /// The jobs of a schedule with `jobs`, unless they were not read.
    private var jobs: [Template]? { record.list == nil || templates.isEmpty ? nil : templates }

    public static func members(_ list: inout some MemberVisitor<Self>) {
        list.member("id", \.record.id, "Identifier of the schedule.")
        list.member("tenant", \.record.tenant, "Owner of the schedule.")
        list.member("revision", \.record.revision, "Grows with changes, not with runs.", [.minimum(1)])
        list.member("created_at", \.record.createdAt, "Time of the creation.")
        list.member("updated_at", \.record.updatedAt, "Time of the last change.")
        list.fields(\.record.spec)
        list.member(
            "next_scheduled_at", \.record.nextScheduledAt,
            "The next occurrence; null if there is none any more, or the schedule is paused.")
        list.member(
            "next_run_at", \.record.nextRunAt,
            "Time of the next run: the occurrence and its jitter, or the next check while an earlier job is "
                + "unfinished.")
        list.member("last_scheduled_at", \.record.lastScheduledAt, "Last occurrence with a job.")
        list.member("last_run_at", \.record.lastRunAt, "Time of its submission.")
        list.member("last_job", \.record.lastJob, "Its job; of several ones the first that was new.")
        list.member("counts", \.record.counts, "Numbers of occurrences.")
        list.member("last_skip", \.record.lastSkip, "The last skipped occurrence.")
        list.optional(
            "job", \.job,
            "The template of the jobs, with the members of a job that a client gives. Absent if the schedule "
                + "has several jobs.")
        list.optional(
            "jobs", \.jobs,
            "The templates of the jobs of a run. Absent if the schedule has job, and in lists of schedules.")
        list.optional(
            "group", { $0.record.list.map(\.group) },
            "Group of the jobs that name none, with its placeholders. Absent if the schedule has job.")
        list.optional(
            "close_group", \.record.list?.closesGroup,
            "Whether each run closes the group. Absent if the schedule has job.")
    }

    /// The template of the jobs.
    fileprivate struct Template: ShownValue {
        let stored: StoredSpec
        let disclosure: Disclosure

        func show(into writer: inout JSONWriter, isRedacted: Bool) {
            // If the stored fields are damaged, they are shown as they are.
            if let job = stored.shown(for: disclosure) {
                writer.beginObject()
                job.write(into: &writer, isRedacted: disclosure.isRedacted)
                writer.endObject()
            } else if !disclosure.isRedacted {
                writer.raw(stored.json)
            } else {
                writer.null()
            }
        }
        static func shownSchema(in schemas: FieldSchemas) -> [JSON.Member] {
            JSON.rules(#"{"type": "object", "required": ["kind", "request"]}"#)
        }
    }
}

/// An occurrence that was skipped.
public struct ScheduleSkip: Sendable, Equatable {
    /// Reason for which an occurrence is skipped. The raw value is stored and shown.
    public enum Reason: String, Sendable, CaseIterable {
        /// A job of an earlier occurrence is unfinished.
        case overlap
        case sessionInvalidated = "session_invalidated"
        case tooManyJobs = "too_many_jobs"
        case quotaExceeded = "quota_exceeded"
        case storageQuotaExceeded = "storage_quota_exceeded"
        /// The group of one of its jobs is closed.
        case groupClosed = "group_closed"
        /// The tenant has too many groups.
        case limitReached = "limit_reached"
        /// Other jobs have the unique keys of all its jobs.
        case uniqueKeyTaken = "unique_key_taken"
        /// A job with dependencies would join a group on which a job depends.
        case groupAwaited = "group_awaited"
        /// An upload that one of its jobs sends does not exist.
        case uploadMissing = "upload_missing"
        /// An upload is not complete, and the job that sends it cannot depend on it.
        case uploadIncomplete = "upload_incomplete"
    }

    /// Time of the decision.
    public let at: Timestamp
    /// Reason; `nil` for one of a later version.
    public let reason: Reason?

    public init(at: Timestamp, reason: Reason?) {
        self.at = at
        self.reason = reason
    }
}

extension ScheduleSkip: ShownObject {
    public static let summary = "A skipped occurrence of a schedule."
    public static let schemaName = "ScheduleSkip"

    public static func members(_ list: inout some MemberVisitor<Self>) {
        list.member("at", \.at, "When the occurrence was skipped.")
        list.member(
            "reason", \.reason?.rawValue,
            "Reason: " + Reason.allCases.map(\.rawValue).joined(separator: ", ") + ".")
    }
}

extension ScheduleRecord.Counts: ShownObject {
    public static let summary = "Numbers of occurrences of a schedule."
    public static let schemaName = "ScheduleCounts"

    public static func members(_ list: inout some MemberVisitor<Self>) {
        list.member("runs", \.runs, "Occurrences with a job.")
        list.member("missed", \.missed, "Occurrences that no node submitted in time.")
        list.member("skipped", \.skipped, "Occurrences skipped for a reason as in last_skip.")
    }
}
