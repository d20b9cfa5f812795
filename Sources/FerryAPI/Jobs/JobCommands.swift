internal import FerryCore
internal import HTTPServer

/// Seconds for which a cancellation or suspension waits for the node that runs the job, so that the response
/// usually shows the job's new state.
private let stopWait = 1.0

/// Changes jobs: cancels, suspends, resumes, acknowledges, edits and deletes them.
final class JobCommands: Sendable {
    private let control: any JobControl
    private let node: any NodeOperations
    private let validation: JobValidation
    private let view: JobView
    private let wait: JobWait

    init(_ ports: APIPorts, _ validation: JobValidation, _ view: JobView, _ wait: JobWait) {
        control = ports.store.jobControl
        node = ports.node
        self.validation = validation
        self.view = view
        self.wait = wait
    }

    /// `POST /v1/jobs/{id}/cancel`
    func cancel(_ request: RequestContext) throws(Problem) {
        let id = try request.identifier(JobID.self)
        let keepsBytes = try request.decoded(CancelRequest.self, isOptional: true).keepsBytes
        request.changing { [control] revision, reply in
            control.cancel(
                id, tenant: request.tenant, revision: revision, keepsBytes: keepsBytes, reply: reply)
        } then: { [self] in
            sendStopped($0, id, request) { $0.isTerminal }
        }
    }

    /// `POST /v1/jobs/{id}/suspend`
    func suspend(_ request: RequestContext) throws(Problem) {
        let id = try request.identifier(JobID.self)
        try request.needEmptyObject()
        request.changing { [control] revision, reply in
            control.suspend(id, tenant: request.tenant, revision: revision, reply: reply)
        } then: { [self] in
            sendStopped($0, id, request) { $0 != .running }
        }
    }

    /// Responds when `isDone` returns `true` for the job's state, or after `stopWait`.
    private func sendStopped(
        _ result: Result<JobRecord, StoreError>, _ id: JobID, _ request: RequestContext,
        when isDone: @escaping @Sendable (JobState) -> Bool
    ) {
        let send = sending(request)
        if case .success(let record) = result, !isDone(record.state) {
            return wait.read(id, tenant: request.tenant, seconds: stopWait, when: isDone, then: send)
        }
        send(result)
    }

    /// `POST /v1/jobs/{id}/resume`
    func resume(_ request: RequestContext) throws(Problem) {
        let id = try request.identifier(JobID.self)
        try request.needEmptyObject()
        request.changing(
            { [control] revision, reply in
                control.resume(id, tenant: request.tenant, revision: revision, reply: reply)
            }, then: sending(request))
    }

    /// `POST /v1/jobs/{id}/acknowledge`
    func acknowledge(_ request: RequestContext) throws(Problem) {
        let id = try request.identifier(JobID.self)
        try request.needEmptyObject()
        control.acknowledge(id, tenant: request.tenant, reply: sending(request))
    }

    /// `PATCH /v1/jobs/{id}`: a merge patch.
    func edit(_ request: RequestContext) throws(Problem) {
        let id = try request.identifier(JobID.self)
        let patch = try request.mergePatch()
        let sessions = validation.sessions(of: request)
        let change: @Sendable (JobRequest) throws(InvalidFields) -> JobRequest = {
            [validation, isAdmin = request.principal.role == .admin] draft throws(InvalidFields) in
            try validation.merge(patch, into: draft, sessions, mayMoveHost: isAdmin)
        }
        request.changing(
            { [control] revision, reply in
                control.edit(id, tenant: request.tenant, revision: revision, change, reply: reply)
            }, then: request.onValid { [view] record in view.send(record, 200, to: request) })
    }

    /// `DELETE /v1/jobs/{id}`
    func delete(_ request: RequestContext) throws(Problem) {
        let id = try request.identifier(JobID.self)
        request.changing(
            { [node] revision, reply in
                node.delete(id, tenant: request.tenant, revision: revision, reply: reply)
            }, then: request.onSuccess { request.send(Response(status: 204)) })
    }

    /// Returns a reply that sends the job.
    private func sending(_ request: RequestContext) -> Reply<JobRecord> {
        request.onSuccess { [view] record in view.send(record, 200, to: request) }
    }
}

/// The body of `POST /v1/jobs/{id}/cancel`.
struct CancelRequest: FieldObject {
    static let summary = "How a job is cancelled."
    static let schemaName = "CancelRequest"
    fileprivate var keepsBytes = false

    mutating func fields(_ visitor: inout some FieldVisitor) {
        visitor.field(
            "produce_resume_data", &keepsBytes, .plain,
            "Whether the bytes of an unfinished download are kept for another job, as resume_data.")
    }
}
