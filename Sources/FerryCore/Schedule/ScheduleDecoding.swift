/// A valid schedule from untrusted JSON.
public struct ValidatedSchedule: Sendable {
    public let spec: ScheduleSpec
    /// Jobs of every run; their texts may contain placeholders.
    public let jobs: ScheduleJobs

    /// Reads a job at a place in the document. The last argument returns the identifier that stands for an
    /// earlier job of the list.
    public typealias Validate = (
        JSONView, _ pointer: String, _ earlierJob: @escaping (Int) -> JobID?
    ) throws(InvalidFields) -> JobRequest

    /// Time of the sample run with which the jobs are validated.
    private static let sample = Timestamp(microseconds: 1_798_761_599_000_000)

    /// Reads and validates a schedule. Throws all errors at once. `validate`: called for each job in the
    /// order of the list, with the texts of a sample run.
    public init(
        _ json: JSONView, zones: some TimeZoneSource, now: Timestamp, validate: Validate
    ) throws(InvalidFields) {
        let context = FieldContext()
        var body = ScheduleBody()
        FieldDecoder.decode(json, into: &body, at: "#", .new, context)
        body.spec.check(zones, now: now, context.errors)
        let zone = zones.rules(named: body.spec.timeZone) ?? .utc
        body.checkGroup(at: Self.sample, zone, context.errors)
        var requests: [JobRequest] = []
        for (place, template) in body.templates.enumerated() where !context.errors.isFull {
            let pointer = body.isList ? "#/jobs/\(place)" : "#/job"
            do throws(InvalidFields) {
                let job = try Self.job(template, at: pointer, zone: zone) { job throws(InvalidFields) in
                    try validate(job, pointer) { $0 < place ? JobID(placeInList: $0) : nil }
                }
                requests.append(try body.listed(job, template, at: pointer, place))
            } catch {
                for error in error.errors { context.errors.add(error.pointer, error.code, error.detail) }
            }
        }
        guard context.errors.isEmpty else { throw InvalidFields(context.errors.all) }
        spec = body.spec
        jobs =
            body.isList
            ? ScheduleJobs(requests, .init(group: body.group, closesGroup: body.closesGroup))
            : ScheduleJobs(requests[0])
    }

    /// Validates a job of a sample run, then restores the placeholders.
    private static func job(
        _ template: JSONView, at pointer: String, zone: TimeZoneRules,
        _ validate: (JSONView) throws(InvalidFields) -> JobRequest
    ) throws(InvalidFields) -> JobRequest {
        let texts = TemplateTexts(template)
        let errors = ValidationErrors()
        texts.check(errors, at: pointer)
        guard errors.isEmpty else { throw InvalidFields(errors.all) }
        let patch = texts.expanded(at: sample, zone)
        let expanded =
            patch.isEmpty
            ? template : try JSONView(template.json.merged(with: .object(patch)), at: pointer)
        var job = try validate(expanded)
        try checkTimes(job, at: pointer)
        if let body = job.spec.request.body, let payload = job.payload,
            ScheduledText.expanded(payload, body.form, at: sample, .utc) == nil
        {
            throw InvalidFields(
                "\(pointer)/request/body/\(body.form.rawValue)", "invalid_value",
                ScheduledText.knownPlaceholders)
        }
        try texts.restore(&job.spec, at: pointer)
        return job
    }

    /// Reports fields that only make sense for a single job.
    private static func checkTimes(_ job: JobRequest, at pointer: String) throws(InvalidFields) {
        let errors = ValidationErrors()
        if job.spec.schedule.earliestBeginAt != nil {
            errors.add(
                "\(pointer)/schedule/earliest_begin_at", "invalid_combination",
                "The schedule determines when its jobs begin.")
        }
        if job.spec.schedule.deadlineAt != nil {
            errors.add(
                "\(pointer)/schedule/deadline_at", "invalid_combination",
                "A deadline is for a single job; timeout_for_resource counts from each run.")
        }
        if job.secrets.resumePoint != nil {
            errors.add(
                "\(pointer)/resume_data", "invalid_combination",
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
    private let objects: [ObjectText]
    private let group: String?
    /// Names and values of the metadata.
    private let metadata: [JobSpec.Pair]

    init(_ template: JSONView) {
        url = template["request"]?["url"]?.string
        path = template["destination"]?["path"]?.string
        objects = ["source", "destination"].compactMap { ObjectText(template, in: $0) }
        group = template["group"]?.string
        metadata = (template["metadata"]?.members ?? []).compactMap { member in
            member.value.string.map { JobSpec.Pair(member.name, $0) }
        }
    }

    /// Reports unknown placeholders, and placeholders in the origin of the URL.
    func check(_ errors: ValidationErrors, at pointer: String) {
        for (member, text) in [("request/url", url), ("destination/path", path), ("group", group)] {
            guard let text, let error = ScheduledText.error(in: text, isURL: member == "request/url") else {
                continue
            }
            errors.add("\(pointer)/\(member)", "invalid_value", error)
        }
        for object in objects {
            guard let error = ScheduledText.error(in: object.text, isURL: object.isURL) else { continue }
            errors.add("\(pointer)/\(object.pointer)", "invalid_value", error)
        }
        for pair in metadata {
            guard let error = ScheduledText.error(in: pair.value, isURL: false) else { continue }
            errors.add("\(pointer)/metadata/\(pointerStep(pair.name))", "invalid_value", error)
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
        var destination = [member("path", path)].compactMap(\.self)
        for object in objects {
            guard let text = member("", object.text)?.value else { continue }
            let member = object.member(text)
            if object.place == "destination" {
                destination.append(member)
            } else {
                patch.append(JSON.Member(object.place, .object([member])))
            }
        }
        if !destination.isEmpty { patch.append(JSON.Member("destination", .object(destination))) }
        if let group = member("group", group) { patch.append(group) }
        let values = metadata.compactMap { member($0.name, $0.value) }
        if !values.isEmpty { patch.append(JSON.Member("metadata", .object(values))) }
        return patch
    }

    /// Puts the texts with placeholders into a job that was validated without them.
    func restore(_ spec: inout JobSpec, at pointer: String) throws(InvalidFields) {
        if let url, ScheduledText.hasPlaceholder(url) {
            do throws(WebURL.Failure) {
                try spec.request.setURL(url)
            } catch {
                throw InvalidFields("\(pointer)/request/url", "invalid_value", error.message)
            }
        }
        if let path, ScheduledText.hasPlaceholder(path) { spec.destination?.path = path }
        for object in objects where ScheduledText.hasPlaceholder(object.text) {
            do throws(WebURL.Failure) {
                if object.isOfServer {
                    try spec.setServerURL(ofTemplate: object.text)
                } else if object.place == "source" {
                    spec.sourceObject?.key = object.key
                } else {
                    spec.destinationObject?.key = object.key
                }
                try spec.setURLOfTemplate()
            } catch {
                throw InvalidFields("\(pointer)/\(object.pointer)", "invalid_value", error.message)
            }
        }
        if let group, ScheduledText.hasPlaceholder(group) { spec.group = group }
        let values = Dictionary(metadata.map { ($0.name, $0.value) }, uniquingKeysWith: { $1 })
        for (index, pair) in spec.metadata.enumerated() {
            guard let value = values[pair.name], ScheduledText.hasPlaceholder(value) else { continue }
            spec.metadata[index] = JobSpec.Pair(pair.name, value)
        }
    }
}

/// The key of an object of a store, an `s3` URL in its place, or the URL of a copy's other server, in the
/// template of a job.
private struct ObjectText {
    /// `source` or `destination`.
    let place: String
    /// `true` for a URL.
    let isURL: Bool
    let text: String

    /// `nil` if the member has neither.
    init?(_ template: JSONView, in place: String) {
        guard let member = template[place] else { return nil }
        self.place = place
        if let key = member["s3"]?["key"]?.string {
            (isURL, text) = (false, key)
        } else if let url = member["url"]?.string {
            (isURL, text) = (true, url)
        } else {
            return nil
        }
    }

    /// Steps of the JSON Pointer from the job.
    var pointer: String { isURL ? "\(place)/url" : "\(place)/s3/key" }

    /// `true` if it is the URL of another server.
    var isOfServer: Bool { isURL && ObjectURL.parts(of: text) == nil }

    /// The key, with its placeholders.
    var key: String { isURL ? ObjectURL.parts(of: text)?.key ?? text : text }

    /// Returns the member of the source or destination with another text.
    func member(_ text: JSON) -> JSON.Member {
        isURL ? JSON.Member("url", text) : JSON.Member("s3", .object([JSON.Member("key", text)]))
    }
}

extension JobSpec {
    /// Sets the URL of the other server of a template, with its placeholders. Throws if it is no URL.
    fileprivate mutating func setServerURL(ofTemplate text: String) throws(WebURL.Failure) {
        _ = try WebURL.parse(text, byteCountMax: .max)
        serverURL = text
    }

    /// Sets the URL of a template to the address of its object, whose key has placeholders. Throws if that is
    /// no URL.
    fileprivate mutating func setURLOfTemplate() throws(WebURL.Failure) {
        guard let address = storeObject?.url else { return }
        try request.setURL(ScheduledText.withPlaceholders(percentEncoded: address.string))
    }
}
