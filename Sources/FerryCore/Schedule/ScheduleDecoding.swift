/// A valid schedule from untrusted JSON.
public struct ValidatedSchedule: Sendable {
    public let spec: ScheduleSpec
    /// Job of every run; its URL and path may contain placeholders.
    public let job: JobRequest

    /// Reads and validates a schedule. Throws all errors at once. `validate`: reads its job, at `#/job`.
    public init(
        _ json: JSONView, zones: some TimeZoneSource, now: Timestamp,
        validate: (JSONView) throws(InvalidFields) -> JobRequest
    ) throws(InvalidFields) {
        let context = FieldContext()
        var body = ScheduleBody()
        FieldDecoder.decode(json, into: &body, at: "#", .new, context)
        let spec = body.spec
        spec.check(zones, now: now, context.errors)
        var job: JobRequest?
        if let template = json["job"] {
            do throws(InvalidFields) {
                job = try Self.job(template, zone: zones.rules(named: spec.timeZone), validate)
            } catch {
                for error in error.errors { context.errors.add(error.pointer, error.code, error.detail) }
            }
        }
        guard context.errors.isEmpty, let job else { throw InvalidFields(context.errors.all) }
        self.spec = spec
        self.job = job
    }

    /// Validates the job of a sample run, then restores the placeholders.
    private static func job(
        _ template: JSONView, zone: TimeZoneRules?,
        _ validate: (JSONView) throws(InvalidFields) -> JobRequest
    ) throws(InvalidFields) -> JobRequest {
        let texts = TemplateTexts(template)
        let errors = ValidationErrors()
        texts.check(errors)
        guard errors.isEmpty else { throw InvalidFields(errors.all) }
        let sample = Timestamp(microseconds: 1_798_761_599_000_000)
        let patch = texts.expanded(at: sample, zone ?? .utc)
        let expanded =
            patch.isEmpty
            ? template : try JSONView(template.json.merged(with: .object(patch)), at: "#/job")
        var job = try validate(expanded)
        try checkTimes(job)
        if let body = job.spec.request.body, let payload = job.payload,
            ScheduledText.expanded(payload, body.form, at: sample, .utc) == nil
        {
            throw InvalidFields(
                "#/job/request/body/\(body.form.rawValue)", "invalid_value", ScheduledText.knownPlaceholders)
        }
        try texts.restore(&job.spec)
        return job
    }

    /// Reports fields that only make sense for a single job.
    private static func checkTimes(_ job: JobRequest) throws(InvalidFields) {
        let errors = ValidationErrors()
        if job.spec.schedule.earliestBeginAt != nil {
            errors.add(
                "#/job/schedule/earliest_begin_at", "invalid_combination",
                "The schedule determines when its jobs begin.")
        }
        if job.spec.schedule.deadlineAt != nil {
            errors.add(
                "#/job/schedule/deadline_at", "invalid_combination",
                "A deadline is for a single job; timeout_for_resource counts from each run.")
        }
        if !job.spec.schedule.dependencies.isEmpty {
            errors.add(
                "#/job/schedule/depends_on", "invalid_combination",
                "Dependencies are for a single job, not for every run.")
        }
        if job.secrets.resumePoint != nil {
            errors.add(
                "#/job/resume_data", "invalid_combination",
                "Resume data is for a single job, not for every run.")
        }
        guard errors.isEmpty else { throw InvalidFields(errors.all) }
    }
}

/// Texts of a job that may have placeholders, as the client has given them. The job is validated with the
/// values of a sample run.
private struct TemplateTexts {
    private let url: String?
    private let path: String?
    private let group: String?
    /// Names and values of the metadata.
    private let metadata: [JobSpec.Pair]

    init(_ template: JSONView) {
        url = template["request"]?["url"]?.string
        path = template["destination"]?["path"]?.string
        group = template["group"]?.string
        metadata = (template["metadata"]?.members ?? []).compactMap { member in
            member.value.string.map { JobSpec.Pair(member.name, $0) }
        }
    }

    /// Reports unknown placeholders, and placeholders in the origin of the URL.
    func check(_ errors: ValidationErrors) {
        for (pointer, text) in [("request/url", url), ("destination/path", path), ("group", group)] {
            guard let text, let error = ScheduledText.error(in: text, isURL: pointer == "request/url") else {
                continue
            }
            errors.add("#/job/\(pointer)", "invalid_value", error)
        }
        for pair in metadata {
            guard let error = ScheduledText.error(in: pair.value, isURL: false) else { continue }
            errors.add("#/job/metadata/\(pointerStep(pair.name))", "invalid_value", error)
        }
    }

    /// Returns the texts of one run, as a merge patch of the job.
    func expanded(at instant: Timestamp, _ zone: TimeZoneRules) -> [JSON.Member] {
        func member(_ name: String, _ text: String?) -> JSON.Member? {
            guard let text, ScheduledText.hasPlaceholder(text) else { return nil }
            return ScheduledText.expanded(text, at: instant, zone).map { JSON.Member(name, .string($0)) }
        }
        var patch: [JSON.Member] = []
        if let url = member("url", url) { patch.append(JSON.Member("request", .object([url]))) }
        if let path = member("path", path) { patch.append(JSON.Member("destination", .object([path]))) }
        if let group = member("group", group) { patch.append(group) }
        let values = metadata.compactMap { member($0.name, $0.value) }
        if !values.isEmpty { patch.append(JSON.Member("metadata", .object(values))) }
        return patch
    }

    /// Puts the texts with placeholders into a job that was validated without them.
    func restore(_ spec: inout JobSpec) throws(InvalidFields) {
        if let url, ScheduledText.hasPlaceholder(url) {
            do throws(WebURL.Failure) {
                try spec.request.setURL(url)
            } catch {
                throw InvalidFields("#/job/request/url", "invalid_value", error.message)
            }
        }
        if let path, ScheduledText.hasPlaceholder(path) { spec.destination?.path = path }
        if let group, ScheduledText.hasPlaceholder(group) { spec.group = group }
        let values = Dictionary(metadata.map { ($0.name, $0.value) }, uniquingKeysWith: { $1 })
        for (index, pair) in spec.metadata.enumerated() {
            guard let value = values[pair.name], ScheduledText.hasPlaceholder(value) else { continue }
            spec.metadata[index] = JobSpec.Pair(pair.name, value)
        }
    }
}

/// The body of a schedule: its fields and the template of its jobs.
public struct ScheduleBody: FieldObject {
    public static let summary = ScheduleSpec.summary
    public static let schemaName = "Schedule"
    public static func schemaRules(for kind: JobKind?) -> [JSON.Member] {
        JSON.rules(
            #"""
            {
              "oneOf": [
                {
                  "required": ["cron"],
                  "properties": {"cron": {"type": "string"}, "interval": {"type": "null"}}
                },
                {
                  "required": ["interval"],
                  "properties": {"interval": {"type": "number"}, "cron": {"type": "null"}}
                }
              ]
            }
            """#)
    }
    var spec = ScheduleSpec()

    public init() {}

    public mutating func fields(_ visitor: inout some FieldVisitor) {
        spec.fields(&visitor)
        var job = JobTemplateBody()
        visitor.field(
            "job", &job, .of(required: true),
            "The job of every run. request.url (path and query), destination.path, group, values of "
                + "metadata, and text, JSON and form bodies may contain {scheduled_at}, or :date, :time, "
                + ":year, :month, :day, :hour, :minute and :unix of it as in {scheduled_at:date}. "
                + "earliest_begin_at, deadline_at and depends_on of its schedule, and resume_data, are "
                + "refused.")
    }

    public mutating func check(_ body: FieldDecoder) { spec.check(body) }
}

/// The template of a schedule's jobs, which is validated apart: with the values of a sample run.
private struct JobTemplateBody: FieldValue {
    static func decode(_ json: JSONView, _ rule: NoRule, _ place: FieldPlace) -> JobTemplateBody? {
        JobTemplateBody()
    }
    static func restore(_ json: JSON) -> JobTemplateBody? { JobTemplateBody() }
    func encode(into writer: inout JSONWriter, isRedacted: Bool) { writer.null() }
    static func schema(_ rule: NoRule) -> [JSON.Member] {
        [JSON.Member("$ref", "#/components/schemas/JobRequest")]
    }
}
