internal import FerryCore
internal import HTTPServer

/// Seconds that a cancellation or suspension waits for the node that runs the job, so that its answer usually
/// says what has become of it.
private let stopWait = 1.0

extension API {
    /// `POST /v1/jobs/{id}/cancel`
    func cancelJob(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            let id = try call.identifier(JobID.self)
            let keepsBytes = try cancelBody(call)
            let tenant = call.principal.tenant
            call.changing { [self] revision, reply in
                ports.control.cancel(
                    id, tenant: tenant, revision: revision, keepsBytes: keepsBytes, reply: reply)
            } then: { [self] in
                answerStop($0, id, call) { $0.isTerminal }
            }
        }
    }

    /// `produce_resume_data`.
    private func cancelBody(_ call: RequestContext) throws(Problem) -> Bool {
        let complaints = ValidationErrors()
        var keepsBytes = false
        if var fields = FieldReader(try call.json(isOptional: true), at: "#", complaints) {
            keepsBytes = fields.bool("produce_resume_data") ?? false
            fields.finish()
        }
        if !complaints.isEmpty { throw Problem(InvalidFields(complaints.errors)) }
        return keepsBytes
    }

    /// `POST /v1/jobs/{id}/suspend`
    func suspendJob(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            let id = try call.identifier(JobID.self)
            try needEmptyObject(call)
            call.changing { [self] revision, reply in
                ports.control.suspend(id, tenant: call.principal.tenant, revision: revision, reply: reply)
            } then: { [self] in
                answerStop($0, id, call) { $0 != .running }
            }
        }
    }

    /// `POST /v1/jobs/{id}/resume`
    func resumeJob(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            let id = try call.identifier(JobID.self)
            try needEmptyObject(call)
            call.changing { [self] revision, reply in
                ports.control.resume(id, tenant: call.principal.tenant, revision: revision, reply: reply)
            } then: { [self] (result: Result<JobRecord, StoreError>) in
                switch result {
                case .failure(let error): call.fail(error)
                case .success(let record): send(record, 200, call)
                }
            }
        }
    }

    /// `POST /v1/jobs/{id}/acknowledge`
    func acknowledgeJob(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            let id = try call.identifier(JobID.self)
            try needEmptyObject(call)
            ports.control.acknowledge(id, tenant: call.principal.tenant) { [self] result in
                switch result {
                case .failure(let error): call.fail(error)
                case .success(let record): send(record, 200, call)
                }
            }
        }
    }

    /// Answers when the job has come to a state that `isDone`, or does not come to it in time.
    private func answerStop(
        _ result: Result<JobRecord, StoreError>, _ id: JobID, _ call: RequestContext,
        isDone: @escaping @Sendable (JobState) -> Bool
    ) {
        switch result {
        case .failure(let error): call.fail(error)
        case .success(let record) where isDone(record.state): send(record, 200, call)
        case .success:
            when(isDone, id, tenant: call.principal.tenant, seconds: stopWait) { [self] result in
                switch result {
                case .failure(let error): call.fail(error)
                case .success(let record): send(record, 200, call)
                }
            }
        }
    }

    /// `DELETE /v1/jobs/{id}`
    func deleteJob(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            let id = try call.identifier(JobID.self)
            call.changing { [self] revision, reply in
                ports.control.delete(id, tenant: call.principal.tenant, revision: revision, reply: reply)
            } then: { (result: Result<Void, StoreError>) in
                switch result {
                case .failure(let error): call.fail(error)
                case .success: call.send(Response(status: 204))
                }
            }
        }
    }
}
