/// Filter of a tenant's jobs for lists and bulk operations. All conditions apply.
///
/// The field names are those of the query parameters of `GET /v1/jobs`.
public struct JobFilter: FieldObject, FieldValue {
    public static let summary =
        "Which jobs: all conditions apply, and null is not allowed. The names are those of the query "
        + "parameters of GET /v1/jobs; metadata.KEY may be given as such, or as a member of metadata."
    public static let schemaName = "JobFilter"
    public static let rejectsNull = true
    public static let memberPrefix: String? = "metadata."

    /// Name of the session; `nil`: any.
    public var session: String?
    /// Name of the group; `nil`: any, or none.
    public var group: String?
    /// Any of these states; empty for all states.
    public var states: [JobState] = []
    /// Kind; `nil`: any.
    public var kind: JobKind?
    /// Host or origin of `request.url`; `nil` for any.
    public var place: HostReference?
    /// Time after which the job was created; `nil`: any.
    public var createdAfter: Timestamp?
    /// The schedule that has submitted the job; `nil`: any, or none.
    public var schedule: ScheduleID?
    /// `true` for finished jobs that wait for their acknowledgement only.
    public var isUnacknowledged = false
    /// Any of these codes of errors; empty for jobs with and without an error.
    public var errors: [TransferError.Code] = []
    /// Any of these reasons for which a job does not run; empty for all jobs.
    public var waitingReasons: [WaitingReasonCode] = []
    /// Time after which the job ended; `nil`: any, or not ended.
    public var finishedAfter: Timestamp?
    /// Time before which the job ended; `nil`: any, or not ended.
    public var finishedBefore: Timestamp?
    /// `true` for jobs that were retried, `false` for others; `nil`: both.
    public var isRetried: Bool?
    /// The job that the jobs retry; `nil`: any, or none.
    public var retryOf: JobID?
    /// Pairs that the job's metadata must contain.
    public var metadata: [JobSpec.Pair] = []

    /// Creates a filter without conditions.
    public init() {}

    /// Host of `request.url` in lower case with any scheme and port; `nil` if there is no such condition, or
    /// `origins` is it.
    public var host: String? { place.flatMap { $0.scheme == nil && $0.port == nil ? $0.host : nil } }

    /// Any of these origins (`scheme://host:port`) of `request.url`; `nil` if there is no such condition, or
    /// `host` is it.
    public var origins: [String]? {
        guard let place else { return nil }
        if place.scheme != nil { return [place.origin] }
        return place.port.map { port in
            WebURL.Scheme.allCases.map { "\($0.rawValue)://\(place.host):\(port)" }
        }
    }

    /// States in which unfinished jobs can match; `nil`: any.
    public var unfinishedStates: [JobState]? {
        if finishedAfter != nil || finishedBefore != nil || isRetried == true { return [] }
        let named = states.isEmpty ? nil : states.filter { !$0.isTerminal }
        guard !waitingReasons.isEmpty else { return named }
        return (named ?? JobState.allCases).filter { !$0.isTerminal && $0 != .running }
    }

    /// States in which finished jobs can match; `nil`: any.
    public var finishedStates: [JobState]? {
        guard waitingReasons.isEmpty else { return [] }
        return states.isEmpty ? nil : states.filter(\.isTerminal)
    }

    /// Returns `true` if the job does not run for one of `waitingReasons`, or these are empty.
    public func matchesReason(of job: JobRecord, queue: @autoclosure () -> QueueConditions) -> Bool {
        guard !waitingReasons.isEmpty else { return true }
        return WaitingReason(job, queue: queue()).map { waitingReasons.contains($0.code) } ?? false
    }

    public mutating func fields(_ visitor: inout some FieldVisitor) {
        visitor.field("session", &session, .sessionName, .plain, "Only jobs of this session.")
        visitor.field("group", &group, .groupName, .plain, "Only jobs of this group.")
        choices(
            &visitor, "state", &states,
            "Only jobs in one of these states: a list, or a text with commas between them.")
        visitor.field("kind", &kind, .plain, "Only jobs of this kind.")
        visitor.field(
            "host", &place, .plain,
            "Only jobs whose request.url is at this host: a name with any port, host:port with any scheme, "
                + "or an origin.")
        visitor.field(
            "created_after", &createdAfter, .plain, "Only jobs that were submitted after this time.")
        visitor.field("schedule", &schedule, .plain, "Only jobs that this schedule submitted.")
        var awaits: OnlyFalse? = isUnacknowledged ? OnlyFalse() : nil
        visitor.field(
            "acknowledged", &awaits, .plain,
            "false: only terminal jobs that wait for their acknowledgement.")
        isUnacknowledged = awaits != nil
        choices(
            &visitor, "error", &errors,
            "Only jobs whose error has one of these codes: failed ones, and unfinished ones whose last "
                + "attempt failed so. A list, or a text with commas between them.")
        choices(
            &visitor, "waiting_reason", &waitingReasons,
            "Only jobs whose waiting_reason has one of these codes: a list, or a text with commas between "
                + "them.")
        visitor.field("finished_after", &finishedAfter, .plain, "Only jobs that ended after this time.")
        visitor.field("finished_before", &finishedBefore, .plain, "Only jobs that ended before this time.")
        visitor.field(
            "retried", &isRetried, .plain,
            "true: only jobs that were retried. false: only others.")
        visitor.field("retry_of", &retryOf, .plain, "Only retries of this job.")
        metadataField(&visitor, &metadata, .plain)
    }

    /// A field with any of the values of an enumeration; an empty list is no condition.
    private func choices<Choice>(
        _ visitor: inout some FieldVisitor, _ name: String, _ values: inout [Choice], _ text: String
    ) where ChoiceList<Choice>: FieldValue {
        var list = values.isEmpty ? nil : ChoiceList(values: values)
        visitor.field(name, &list, .plain, text)
        values = list?.values ?? []
    }

    /// Reads the members `metadata.KEY`. A key that is a member of `metadata` as well is an error.
    public mutating func check(_ body: FieldDecoder) {
        guard let prefix = Self.memberPrefix else { return }
        let members = body.members(withPrefix: prefix)
        guard metadata.count + members.count <= Limits.metadataCountMax else {
            return body.fail(
                "metadata", "too_many",
                "At most \(Limits.metadataCountMax) entries are allowed, these are "
                    + "\(metadata.count + members.count).")
        }
        for member in members {
            let place = body.place(of: member.name)
            let key = String(decoding: member.name.utf8.dropFirst(prefix.utf8.count), as: UTF8.self)
            if metadata.contains(where: { $0.name.hasSameBytes(as: key) }) {
                place.add("duplicate", "This is a member of metadata as well.")
            } else if let pair = Metadata.pair(key, member.value, place) {
                metadata.append(pair)
            }
        }
    }

    /// Returns the filter in the stored form.
    public func encode() -> [UInt8] {
        var writer = JSONWriter(reservingCapacity: 256)
        writeConditions(into: &writer)
        return writer.bytes
    }

    /// Writes an object of the conditions only, so that what a response shows can be sent again.
    private func writeConditions(into writer: inout JSONWriter) {
        writer.beginObject()
        storeFields(into: &writer, isRedacted: false)
        writer.endObject()
    }

    /// Reads what `encode` returned. Throws if it is damaged.
    public init(storedJSON: [UInt8]) throws(StoredJSONError) {
        try self.init(restoring: try StoredObject(storedJSON))
    }
}

extension JobFilter: ShownValue {
    public func show(into writer: inout JSONWriter, isRedacted: Bool) {
        writeConditions(into: &writer)
    }
    public static func shownSchema(in schemas: FieldSchemas) -> [JSON.Member] { schema(NoRule()) }
}

/// Values of an enumeration in a filter, at least one.
private struct ChoiceList<Choice: ShownChoice & RawRepresentable<String> & Equatable>: FieldValue {
    var values: [Choice]

    static func decode(_ json: JSONView, _ rule: NoRule, _ place: FieldPlace) -> Self? {
        let texts: [String?]
        if let text = json.string {
            texts = text.split(separator: ",", omittingEmptySubsequences: false).map { String($0) }
        } else if let values = json.array {
            texts = values.map(\.string)
        } else {
            return place.failType("an array or a string", json)
        }
        let values = texts.compactMap { $0.flatMap(Choice.init) }
        guard !texts.isEmpty, values.count == texts.count else {
            let all = Choice.allCases.map(\.name).joined(separator: ", ")
            return place.fail("invalid_value", "Each of these must be one of: \(all).")
        }
        return Self(values: Choice.allCases.filter(values.contains))
    }
    static func restore(_ json: JSON) -> Self? {
        let values = (json.array ?? []).compactMap { $0.string.flatMap(Choice.init) }
        return values.isEmpty ? nil : Self(values: values)
    }
    func encode(into writer: inout JSONWriter, isRedacted: Bool) {
        writer.beginArray()
        for value in values { writer.value(value.rawValue) }
        writer.endArray()
    }
    static func schema(_ rule: NoRule) -> [JSON.Member] {
        let list: JSON = .object([
            JSON.Member("type", "array"),
            JSON.Member("items", .object(Choice.choices)),
            JSON.Member("minItems", JSON(1)),
        ])
        let choice = Choice.allCases.map(\.name).joined(separator: "|")
        let text: JSON = .object([
            JSON.Member("type", "string"), .pattern("^(\(choice))(,(\(choice)))*$"),
        ])
        return [JSON.Member("oneOf", .array([list, text]))]
    }
}

/// A boolean that is false.
private struct OnlyFalse: FieldValue {
    static func decode(_ json: JSONView, _ rule: NoRule, _ place: FieldPlace) -> Self? {
        guard let value = json.bool else { return place.failType("a boolean", json) }
        return value
            ? place.fail("invalid_value", "This must be false: jobs that wait for acknowledgement.") : Self()
    }
    static func restore(_ json: JSON) -> Self? { json.bool == false ? Self() : nil }
    func encode(into writer: inout JSONWriter, isRedacted: Bool) { writer.value(false) }
    static func schema(_ rule: NoRule) -> [JSON.Member] {
        // Not `const`, which generators do not support.
        JSON.rules(#"{"type": "boolean", "not": {"enum": [true]}}"#)
    }
}
