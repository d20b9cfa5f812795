/// Something that must have ended before a job begins: an element of `schedule.depends_on`.
public enum JobDependency: FieldValue, Hashable {
    /// A job of the same tenant.
    case job(JobID)
    /// A group of the same tenant: it must be finished.
    case group(String)
    /// A staged upload of the same tenant: it must be complete.
    case upload(UploadID)

    /// The job, or `nil` for others.
    public var job: JobID? { if case .job(let job) = self { job } else { nil } }
    /// The name of the group, or `nil` for others.
    public var group: String? { if case .group(let name) = self { name } else { nil } }
    /// The upload, or `nil` for others.
    public var upload: UploadID? { if case .upload(let id) = self { id } else { nil } }

    public static func decode(_ json: JSONView, _ rule: NoRule, _ place: FieldPlace) -> Self? {
        guard json.isObject else { return JobReference.decode(json, rule, place).map { .job($0.id) } }
        if json["upload"] != nil {
            return StagedReference.decode(json, rule, place).map { .upload($0.upload) }
        }
        return GroupReference.decode(json, rule, place).map { .group($0.group) }
    }
    public static func restore(_ json: JSON) -> Self? {
        if let reference = JobReference.restore(json) { return .job(reference.id) }
        if json["upload"] != nil { return StagedReference.restore(json).map { .upload($0.upload) } }
        return GroupReference.restore(json).map { .group($0.group) }
    }
    public func encode(into writer: inout JSONWriter, isRedacted: Bool) {
        switch self {
        case .job(let job): JobReference(id: job).encode(into: &writer, isRedacted: isRedacted)
        case .group(let name): GroupReference(name).encode(into: &writer, isRedacted: isRedacted)
        case .upload(let id): StagedReference(id).encode(into: &writer, isRedacted: isRedacted)
        }
    }
    public static func schema(_ rule: NoRule) -> [JSON.Member] {
        func named(_ name: String, _ schema: [JSON.Member]) -> JSON {
            JSON.object([
                JSON.Member("type", "object"), JSON.Member("required", .array([.string(name)])),
                JSON.Member("additionalProperties", .bool(false)),
                JSON.Member("properties", .object([JSON.Member(name, .object(schema))])),
            ])
        }
        return [
            JSON.Member(
                "oneOf",
                .array([
                    .object(JobReference.schema(rule)), named("group", String.schema(TextRule.groupName)),
                    named("upload", UploadID.schema(NoRule())),
                ]))
        ]
    }
}

/// Reference to a group: `{"group": "name"}`.
private struct GroupReference: FieldObject, FieldValue {
    static let summary = "A group of the same tenant."
    static let schemaName = "GroupReference"

    var group = ""

    init() {}
    init(_ group: String) { self.group = group }

    mutating func fields(_ visitor: inout some FieldVisitor) {
        visitor.field("group", &group, .groupName, .of(required: true), "Name of the group.")
    }
}

/// Reference to a staged upload: `{"upload": "upl_…"}`.
private struct StagedReference: FieldObject, FieldValue {
    static let summary = "A staged upload of the same tenant."
    static let schemaName = "UploadReference"

    var upload = UploadID(high: 0, low: 0)

    init() {}
    init(_ upload: UploadID) { self.upload = upload }

    mutating func fields(_ visitor: inout some FieldVisitor) {
        visitor.field("upload", &upload, .of(required: true), "Identifier of the upload.")
    }
}

extension JobSpec.Schedule {
    /// The uploads among `dependencies`.
    public var uploadsOfDependencies: [UploadID] { dependencies.compactMap(\.upload) }

    /// The jobs among `dependencies`.
    public var dependsOn: [JobID] { dependencies.compactMap(\.job) }

    /// The names of the groups among `dependencies`.
    public var groupsOfDependencies: [String] { dependencies.compactMap(\.group) }
}

extension JobSpec {
    /// Makes the job depend on jobs of its batch whose files it sends, and reports what does not fit.
    mutating func addDependenciesOfSources(_ fields: FieldDecoder) {
        guard !fields.context.namedEarlierJobs.isEmpty else { return }
        for (job, pointer) in sourceJobs where fields.context.namedEarlierJobs.contains(job) {
            let place = String(pointer.dropFirst())
            if fields.context.inheritsDiscretionary { schedule.isDiscretionary = false }
            if schedule.isDiscretionary {
                fields.fail(
                    place, "not_supported",
                    "Dependencies of a discretionary job are not supported yet by this version of Ferry.")
            }
            if schedule.onDependencyFailure == .ignore {
                fields.fail(
                    "schedule/on_dependency_failure", "invalid_combination",
                    "This must be fail: the job sends the file of another job of the batch.")
            }
            guard !schedule.dependencies.contains(.job(job)) else { continue }
            guard schedule.dependencies.count < Limits.dependencyCountMax else {
                fields.fail(
                    place, "too_many",
                    "A job has at most \(Limits.dependencyCountMax) dependencies, this one included.")
                return
            }
            schedule.dependencies.append(.job(job))
        }
    }
}
