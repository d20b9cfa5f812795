internal import FerryCore
internal import HTTPServer

/// Seconds that a cancellation waits for the node that runs the job, so that its answer usually says
/// `cancelled`.
private let cancelWait = 1.0

extension API {
    /// `POST /v1/jobs/{id}/cancel`
    func cancelJob(_ call: Call) {
        call.answering { () throws(Problem) in
            let id = try call.identifier(JobID.self)
            try checkCancelBody(call)
            let tenant = call.principal.tenant
            ports.control.cancel(id, tenant: tenant, revision: call.expectedRevision) { [self] result in
                switch result {
                case .failure(let error): call.fail(error)
                case .success(let record) where record.state.isTerminal: send(record, 200, call)
                case .success:
                    whenTerminal(id, tenant: tenant, seconds: cancelWait) { [self] result in
                        switch result {
                        case .failure(let error): call.fail(error)
                        case .success(let record): send(record, 200, call)
                        }
                    }
                }
            }
        }
    }

    private func checkCancelBody(_ call: Call) throws(Problem) {
        let complaints = Complaints()
        if var fields = FieldReader(try call.json(isOptional: true), at: "#", complaints) {
            fields.off("produce_resume_data", .bool(false), "Resume data is")
            fields.finish()
        }
        if !complaints.isEmpty { throw Problem(InvalidFields(complaints.errors)) }
    }

    /// `DELETE /v1/jobs/{id}`
    func deleteJob(_ call: Call) {
        call.answering { () throws(Problem) in
            let id = try call.identifier(JobID.self)
            ports.control.delete(id, tenant: call.principal.tenant, revision: call.expectedRevision) {
                result in
                switch result {
                case .failure(let error): call.fail(error)
                case .success: call.send(Response(status: 204))
                }
            }
        }
    }
}
