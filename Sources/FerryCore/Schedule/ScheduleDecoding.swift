/// A valid schedule from untrusted JSON.
package struct ValidatedSchedule: Sendable {
    package let spec: ScheduleSpec
    /// Job of every run; its URL and path may contain placeholders.
    package let job: ValidatedJob

    /// Reads and validates a schedule. Throws all errors at once. `validate`: reads its job, at `#/job`.
    package init(
        _ json: JSON, zones: some TimeZoneSource, now: Timestamp,
        validate: (JSON) throws(InvalidFields) -> ValidatedJob
    ) throws(InvalidFields) {
        let errors = ValidationErrors()
        guard var fields = FieldReader(json, at: "#", errors) else {
            throw InvalidFields(errors.all)
        }
        let spec = ScheduleSpec(&fields, zones, now: now)
        var job: ValidatedJob?
        if let template = fields.value("job") {
            do throws(InvalidFields) {
                job = try Self.job(template, zone: spec.flatMap { zones.rules(named: $0.timeZone) }, validate)
            } catch {
                for error in error.errors { errors.add(error.pointer, error.code, error.detail) }
            }
        } else {
            fields.addError("job", "required", "A schedule needs a job.")
        }
        fields.finish()
        guard errors.isEmpty, let spec, let job else { throw InvalidFields(errors.all) }
        self.spec = spec
        self.job = job
    }

    /// Validates the job of a sample run, then restores the placeholders.
    private static func job(
        _ template: JSON, zone: TimeZoneRules?, _ validate: (JSON) throws(InvalidFields) -> ValidatedJob
    ) throws(InvalidFields) -> ValidatedJob {
        let url = template["request"]?["url"]?.string
        let path = template["destination"]?["path"]?.string
        let errors = ValidationErrors()
        for (pointer, text, isURL) in [("request/url", url, true), ("destination/path", path, false)] {
            guard let text, let error = ScheduledText.error(in: text, isURL: isURL) else { continue }
            errors.add("#/job/\(pointer)", "invalid_value", error)
        }
        guard errors.isEmpty else { throw InvalidFields(errors.all) }
        let sample = Timestamp(microseconds: 1_798_761_599_000_000)
        var patch: [JSON.Member] = []
        for (outer, inner, text) in [("request", "url", url), ("destination", "path", path)] {
            guard let text, ScheduledText.hasPlaceholder(text),
                let expanded = ScheduledText.expanded(text, at: sample, zone ?? .utc)
            else { continue }
            patch.append(JSON.Member(outer, .object([JSON.Member(inner, .string(expanded))])))
        }
        let found = try validate(patch.isEmpty ? template : template.merged(with: .object(patch)))
        try checkTimes(found)
        var spec = found.spec
        if let url, ScheduledText.hasPlaceholder(url) { spec.request.url = url }
        if let path, ScheduledText.hasPlaceholder(path) { spec.destination?.path = path }
        return ValidatedJob(
            spec: spec, payload: found.payload, secrets: found.secrets, origin: found.origin)
    }

    /// Reports fields that only make sense for a single job.
    private static func checkTimes(_ job: ValidatedJob) throws(InvalidFields) {
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
        if !job.spec.schedule.dependsOn.isEmpty {
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
