package import FerryCore
internal import HTTPServer

/// Changes what a client has said about an unfinished job.
package protocol JobEditor: Sendable {
    /// `change` may be asked more than once; what it throws is the inner failure. A job that is terminal, or
    /// that runs and would change in what its attempt relies on, is `invalidState`.
    func edit(
        _ id: JobID, tenant: String, revision: Int32?,
        _ change: @escaping @Sendable (JobDraft) throws(InvalidFields) -> JobDraft,
        reply: @escaping Reply<Result<JobRecord, InvalidFields>>)
}

extension API {
    /// `PATCH /v1/jobs/{id}`: a merge patch.
    func editJob(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            let id = try call.identifier(JobID.self)
            let patch = try call.mergePatch()
            let (node, egress) = (node, ports.egress)
            let sessions = scope(call)
            let change: @Sendable (JobDraft) throws(InvalidFields) -> JobDraft = {
                draft throws(InvalidFields) in
                try draft.merging(patch, node: node, session: sessions.record(draft.spec.session)) {
                    egress.refusal(of: $0)
                }
            }
            call.changing { [self] revision, reply in
                ports.editor.edit(
                    id, tenant: call.principal.tenant, revision: revision, change, reply: reply)
            } then: { [self] (result: Result<Result<JobRecord, InvalidFields>, StoreError>) in
                switch result {
                case .failure(let error): call.fail(error)
                case .success(.failure(let invalid)): call.fail(Problem(invalid))
                case .success(.success(let record)): send(record, 200, call)
                }
            }
        }
    }
}
