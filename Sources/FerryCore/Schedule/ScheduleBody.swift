/// The body of a schedule: its fields and the templates of its jobs.
public struct ScheduleBody: FieldObject {
    public static let summary = ScheduleSpec.summary
    public static let schemaName = "Schedule"
    public static func schemaRules(for kind: JobKind?) -> [JSON.Member] {
        let times = [("cron", "string", unused: ["interval"]), ("interval", "number", unused: ["cron"])]
        let jobs = [("job", "object", unused: ["jobs", "group"]), ("jobs", "array", unused: ["job"])]
        let choices = times.flatMap { times in
            jobs.map { jobs in
                let given = [times, jobs].map {
                    JSON.Member($0.0, .object([JSON.Member("type", .string($0.1))]))
                }
                let unused = (times.unused + jobs.unused).map {
                    JSON.Member($0, .object([JSON.Member("type", "null")]))
                }
                return JSON.object([
                    JSON.Member("required", .array([.string(times.0), .string(jobs.0)])),
                    JSON.Member("properties", .object(given + unused)),
                ])
            }
        }
        return [JSON.Member("oneOf", .array(choices))]
    }

    var spec = ScheduleSpec()
    fileprivate var job: JobTemplateBody?
    fileprivate var jobs: [JobTemplateBody]?
    /// Group of the jobs of a list that name none; may have placeholders.
    private(set) var group: String?
    /// `true` if each run of a list closes `group`.
    private(set) var closesGroup = false

    public init() {}

    public mutating func fields(_ visitor: inout some FieldVisitor) {
        spec.fields(&visitor)
        visitor.field(
            "job", &job, .plain,
            "The job of every run. Either this or jobs. request.url (path and query), destination.path, "
                + "group, values of metadata, and text, JSON and form bodies may contain {scheduled_at}, or "
                + ":date, :time, :year, :month, :day, :hour, :minute and :unix of it as in "
                + "{scheduled_at:date}. earliest_begin_at, deadline_at and depends_on of its schedule, and "
                + "resume_data, are refused.")
        visitor.field(
            "jobs", &jobs, ListRule(1...Limits.scheduleJobCountMax, of: NoRule(), isUnique: false), .plain,
            "The jobs of every run, which are accepted or skipped together. As job, except that depends_on "
                + "may have places of earlier jobs of the list, such as #/jobs/3, and source.job may be one.")
        visitor.field(
            "group", &group, TextRule(1...Limits.scheduleGroupByteCountMax), .plain,
            "Group of the jobs of the list that have no member group; null for none. May contain "
                + "placeholders.")
        visitor.field(
            "close_group", &closesGroup, .plain,
            "Whether each run closes the group with its jobs: later only retries of its jobs join it.")
    }

    public mutating func check(_ body: FieldDecoder) {
        if body.hasValue("job"), body.hasValue("jobs") {
            body.fail("jobs", "invalid_combination", "A schedule has job or jobs, not both.")
        } else if !body.hasValue("job"), !body.hasValue("jobs") {
            body.fail("job", "required", "A schedule needs job or jobs.")
        } else if body.hasValue("job"), group != nil {
            body.fail("group", "invalid_combination", "This is for jobs. A single job has its own group.")
        }
        if closesGroup, !body.hasValue("group") {
            body.fail("close_group", "invalid_combination", "This needs group.")
        }
        spec.check(body)
    }
}

// MARK: Jobs

extension ScheduleBody {
    /// `true` if the schedule has a list of jobs.
    var isList: Bool { job == nil && jobs != nil }

    /// The jobs as the client has given them.
    var templates: [JSONView] { (job.map { [$0] } ?? jobs ?? []).compactMap(\.json) }

    /// Reports a group that would have no valid name in a run.
    func checkGroup(at sample: Timestamp, _ zone: TimeZoneRules, _ errors: ValidationErrors) {
        guard let group else { return }
        if let error = ScheduledText.error(in: group, isURL: false) {
            errors.add("#/group", "invalid_value", error)
        } else if let name = ScheduledText.expanded(group, at: sample, zone),
            let error = TextRule.groupName.reason(name)
        {
            errors.add("#/group", "invalid_value", error)
        }
    }

    /// Returns a job with the group of the list, unless it names one. Reports dependencies on other jobs than
    /// earlier ones of the list. `place`: index in the list.
    func listed(
        _ job: JobRequest, _ template: JSONView, at pointer: String, _ place: Int
    ) throws(InvalidFields) -> JobRequest {
        let dependencies = job.spec.schedule.dependencies
        guard dependencies.allSatisfy({ $0.job?.placeInList.map { $0 < place } ?? false }) else {
            throw InvalidFields(
                "\(pointer)/schedule/depends_on", "invalid_combination",
                isList
                    ? "In every run, a job can depend only on earlier jobs of the list, such as #/jobs/0."
                    : "Dependencies are for a single job, not for every run.")
        }
        var job = job
        if job.spec.group == nil, template["group"] == nil { job.spec.group = group }
        return job
    }
}

/// The template of a schedule's job, which is validated apart: with the values of a sample run.
private struct JobTemplateBody: FieldValue {
    /// The job as the client has given it; `nil` in a description of the fields.
    let json: JSONView?

    static func decode(_ json: JSONView, _ rule: NoRule, _ place: FieldPlace) -> JobTemplateBody? {
        JobTemplateBody(json: json)
    }
    static func restore(_ json: JSON) -> JobTemplateBody? { JobTemplateBody(json: nil) }
    func encode(into writer: inout JSONWriter, isRedacted: Bool) { writer.null() }
    static func schema(_ rule: NoRule) -> [JSON.Member] {
        [JSON.Member("$ref", "#/components/schemas/JobRequest")]
    }
}
