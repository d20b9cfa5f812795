internal import FerryCore

/// The body of a request that starts an operation on many jobs, other than a cancellation.
struct BulkRequest: FieldObject {
    static let summary =
        "Which jobs, of those that were created before the request: exactly one of ids and filter."
    static let schemaName = "BulkRequest"

    private var identifiers: [NamedJob]?
    private var filter: JobFilter?
    private(set) var isDryRun = false

    /// Jobs that the operation covers. Identifiers that occur twice count once.
    var selection: BulkSelection {
        if let filter { return .filter(filter) }
        return .jobs(Array(Set((identifiers ?? []).map(\.id))).sorted(by: >))
    }

    mutating func fields(_ visitor: inout some FieldVisitor) {
        visitor.alternative(
            "ids", &identifiers, ListRule(1...Limits.bulkJobCountMax, of: NoRule(), isUnique: false),
            "Identifiers of jobs. Those of jobs that do not exist are ignored.")
        visitor.alternative(
            "filter", &filter, NoRule(),
            "The filters of GET /v1/jobs; an empty object means all jobs, null is not allowed.")
        visitor.field(
            "dry_run", &isDryRun, .plain,
            "true: only counts the jobs that the operation would look at, in the response.")
    }
}

/// The body of `POST /v1/jobs/cancel`.
struct BulkCancelRequest: FieldObject {
    static let summary = "Which jobs are cancelled, and how: exactly one of ids and filter."
    static let schemaName = "BulkCancelRequest"

    private(set) var jobs = BulkRequest()
    private(set) var keepsBytes = false

    mutating func fields(_ visitor: inout some FieldVisitor) {
        jobs.fields(&visitor)
        visitor.field(
            "produce_resume_data", &keepsBytes, .plain,
            "Whether the bytes of unfinished downloads are kept for other jobs, as resume_data.")
    }
}

/// Identifier of a job in a list.
private struct NamedJob: FieldValue {
    let id: JobID

    static func decode(_ json: JSONView, _ rule: NoRule, _ place: FieldPlace) -> Self? {
        guard let text = json.string else { return place.failType("a string", json) }
        return JobID(text).map(Self.init)
            ?? place.fail("invalid_value", "This is not the identifier of a job.")
    }
    static func restore(_ json: JSON) -> Self? { json.string.flatMap { JobID($0) }.map(Self.init) }
    func encode(into writer: inout JSONWriter, isRedacted: Bool) { writer.value(id) }
    static func schema(_ rule: NoRule) -> [JSON.Member] { JobID.shownSchema }
}

/// The response to a dry run.
struct BulkDryRun: ShownObject {
    static let summary = "What an operation would do if it was started now."
    static let schemaName = "BulkDryRun"
    let count: Int64

    static func members(_ list: inout some MemberVisitor<Self>) {
        list.member("matched", \.count, "Number of jobs that the filter or ids name.", [.minimum(0)])
    }
}
