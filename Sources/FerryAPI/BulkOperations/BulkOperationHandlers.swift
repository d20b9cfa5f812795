package import FerryCore
internal import HTTPServer

/// Stores bulk operations, which a node carries out. An operation of another tenant is `notFound`.
package protocol BulkOperationStore: Sendable {
    /// Stores a new operation. A repeated `idempotency` key replies with the first one.
    func createBulkOperation(
        _ operation: NewBulkOperation, _ idempotency: Submission.Idempotency?,
        reply: @escaping Reply<Created<BulkOperation>>)
    /// Replies with one operation.
    func bulkOperation(_ id: BulkOperationID, tenant: String, reply: @escaping Reply<BulkOperation>)
    /// Replies with operations, newest first, only those before `before`.
    func bulkOperations(
        tenant: String, before: BulkOperationID?, limit: Int, reply: @escaping Reply<[BulkOperation]>)
    /// Cancels a running operation and replies with it; an ended one stays as it is.
    func cancelBulkOperation(_ id: BulkOperationID, tenant: String, reply: @escaping Reply<BulkOperation>)
    /// Replies with the number of jobs that an operation would cover.
    func countJobs(_ selection: BulkSelection, tenant: String, reply: @escaping Reply<Int64>)
}

/// Starts, shows and cancels operations on many jobs.
final class BulkOperationHandlers: Sendable {
    private let store: any BulkOperationStore
    private let identifiers: IdentifierGenerator

    init(_ store: any BulkOperationStore, _ identifiers: IdentifierGenerator) {
        self.store = store
        self.identifiers = identifiers
    }

    /// `POST /v1/jobs/suspend`
    func suspend(_ request: RequestContext) throws(Problem) { try start(.suspend, request) }

    /// `POST /v1/jobs/resume`
    func resume(_ request: RequestContext) throws(Problem) { try start(.resume, request) }

    /// `POST /v1/jobs/retry`
    func retry(_ request: RequestContext) throws(Problem) { try start(.retry, request) }

    /// `POST /v1/jobs/cancel`
    func cancel(_ request: RequestContext) throws(Problem) {
        let json = try request.json()
        let body = try valid(try BulkCancelRequest(body: json))
        try start(.cancel, body.jobs, keepsBytes: body.keepsBytes, json, request)
    }

    private func start(_ command: BulkCommand, _ request: RequestContext) throws(Problem) {
        let json = try request.json()
        let body = try valid(try BulkRequest(body: json))
        try start(command, body, keepsBytes: false, json, request)
    }

    private func start(
        _ command: BulkCommand, _ body: BulkRequest, keepsBytes: Bool, _ json: JSONView,
        _ request: RequestContext
    ) throws(Problem) {
        start(
            command, body.selection, isDryRun: body.isDryRun, keepsBytes: keepsBytes,
            try request.idempotency([json]), request)
    }

    /// Starts an operation and responds with it, or with the number of jobs for a dry run.
    func start(
        _ command: BulkCommand, _ selection: BulkSelection, isDryRun: Bool, keepsBytes: Bool,
        _ key: Submission.Idempotency?, _ request: RequestContext
    ) {
        guard !isDryRun else {
            return store.countJobs(
                selection, tenant: request.tenant,
                reply: request.onSuccess { count in
                    request.send(200, json: BulkDryRun(count: count).shown())
                })
        }
        let operation = NewBulkOperation(
            id: identifiers.make(), tenant: request.tenant, command: command, keepsBytes: keepsBytes,
            selection: selection, traceparent: traceContext(request.fields))
        store.createBulkOperation(
            operation, key,
            reply: request.onSuccess { created in
                let place = ("Location", "/v1/operations/\(created.record.id)")
                request.send(
                    202, json: created.record.shown(), [place] + (created.isReplay ? replayed : []))
            })
    }

    /// `GET /v1/operations`
    func list(_ request: RequestContext) throws(Problem) {
        let (limit, before) = try request.page(of: BulkOperationID.self)
        store.bulkOperations(
            tenant: request.tenant, before: before, limit: limit + 1,
            reply: request.onSuccess { operations in
                Page(operations, limit: limit) { $0.id }.send(request, reservingCapacity: 16_384)
            })
    }

    /// `GET /v1/operations/{id}`
    func read(_ request: RequestContext) throws(Problem) {
        let id = try request.identifier(BulkOperationID.self)
        store.bulkOperation(
            id, tenant: request.tenant,
            reply: request.onSuccess { operation in
                let json = operation.shown()
                request.send(200, tag: entityTag(changeable: [], shown: json)) { json }
            })
    }

    /// `POST /v1/operations/{id}/cancel`
    func cancelOperation(_ request: RequestContext) throws(Problem) {
        let id = try request.identifier(BulkOperationID.self)
        try request.needEmptyObject()
        store.cancelBulkOperation(
            id, tenant: request.tenant,
            reply: request.onSuccess { request.send(200, json: $0.shown()) })
    }
}

extension Operation {
    /// `true` for requests that start an operation on many jobs.
    var startsBulkOperation: Bool {
        switch self {
        case .suspendJobs, .resumeJobs, .cancelJobs, .retryJobs, .suspendJobGroup, .resumeJobGroup,
            .cancelJobGroup, .retryJobGroup:
            true
        default: false
        }
    }
}
