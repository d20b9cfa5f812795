internal import FerryCore

/// Starts bulk operations on the jobs of a group.
final class GroupOperations: Sendable {
    private let store: any GroupStore
    private let bulkOperations: BulkOperationHandlers

    init(_ store: any GroupStore, _ bulkOperations: BulkOperationHandlers) {
        self.store = store
        self.bulkOperations = bulkOperations
    }

    /// `POST /v1/job_groups/{name}/suspend`
    func suspend(_ request: RequestContext) throws(Problem) { try start(.suspend, request) }

    /// `POST /v1/job_groups/{name}/resume`
    func resume(_ request: RequestContext) throws(Problem) { try start(.resume, request) }

    /// `POST /v1/job_groups/{name}/retry`: only open failures.
    func retry(_ request: RequestContext) throws(Problem) {
        try start(.retry, request) { filter in
            filter.states = [.failed]
            filter.isRetried = false
        }
    }

    /// `POST /v1/job_groups/{name}/cancel`
    func cancel(_ request: RequestContext) throws(Problem) {
        let json = try request.json(isOptional: true)
        let body = try valid(try GroupCancellation(body: json))
        try start(.cancel, body.command, keepsBytes: body.keepsBytes, json, request) { _ in }
    }

    private func start(
        _ command: BulkCommand, _ request: RequestContext,
        narrowing narrow: (inout JobFilter) -> Void = { _ in }
    ) throws(Problem) {
        let json = try request.json(isOptional: true)
        let body = try valid(try GroupCommand(body: json))
        try start(command, body, keepsBytes: false, json, request, narrowing: narrow)
    }

    private func start(
        _ command: BulkCommand, _ body: GroupCommand, keepsBytes: Bool, _ json: JSONView,
        _ request: RequestContext, narrowing narrow: (inout JobFilter) -> Void
    ) throws(Problem) {
        let name = try request.groupName()
        let key = try request.idempotency([json])
        var filter = JobFilter()
        filter.group = name
        narrow(&filter)
        store.group(
            name, tenant: request.tenant,
            reply: request.onSuccess { [bulkOperations, filter] _ in
                bulkOperations.start(
                    command, .filter(filter), isDryRun: body.isDryRun, keepsBytes: keepsBytes, key, request)
            })
    }
}

/// The body of a request that starts an operation on the jobs of a group, other than a cancellation.
struct GroupCommand: FieldObject {
    static let summary = "An operation on the jobs of a group that were created before the request."
    static let schemaName = "GroupCommand"

    fileprivate var isDryRun = false

    mutating func fields(_ visitor: inout some FieldVisitor) {
        visitor.field(
            "dry_run", &isDryRun, .plain,
            "true: only counts the jobs that the operation would look at, in the response.")
    }
}

/// The body of `POST /v1/job_groups/{name}/cancel`.
struct GroupCancellation: FieldObject {
    static let summary = "How the jobs of a group are cancelled."
    static let schemaName = "GroupCancellation"

    fileprivate var command = GroupCommand()
    fileprivate var keepsBytes = false

    mutating func fields(_ visitor: inout some FieldVisitor) {
        command.fields(&visitor)
        visitor.field(
            "produce_resume_data", &keepsBytes, .plain,
            "Whether the bytes of unfinished downloads are kept for other jobs, as resume_data.")
    }
}
