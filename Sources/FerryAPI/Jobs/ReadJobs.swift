internal import FerryCore
internal import HTTPServer

extension API {
    /// `GET /v1/jobs/{id}`
    func readJob(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            let id = try call.identifier(JobID.self)
            let tenant = call.principal.tenant
            guard let seconds = preferredWait(call.fields), seconds > 0 else {
                ports.reader.job(id, tenant: tenant) { [self] in sendRead($0, call, waited: nil) }
                return
            }
            whenTerminal(id, tenant: tenant, seconds: seconds) { [self] in sendRead($0, call, waited: seconds)
            }
        }
    }

    /// `GET /v1/jobs/{id}/attempts`
    func readAttempts(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            let id = try call.identifier(JobID.self)
            let principal = call.principal
            ports.reader.attempts(of: id, tenant: principal.tenant) { result in
                switch result {
                case .failure(let error): call.fail(error)
                case .success(let attempts):
                    call.send(
                        200,
                        json: attempts.json(
                            showsDiagnostics: principal.role == .admin, for: call.disclosure))
                }
            }
        }
    }

    private func sendRead(_ result: Result<JobRecord, StoreError>, _ call: RequestContext, waited: Double?) {
        switch result {
        case .failure(let error): call.fail(error)
        case .success(let record):
            let applied: [(name: String, value: String)] =
                waited.map { [("Preference-Applied", "wait=\(Int($0))")] } ?? []
            send(record, 200, call, applied)
        }
    }

    /// Sends a job as it is shown everywhere, with its entity tag.
    func send(
        _ record: JobRecord, _ status: Int, _ call: RequestContext,
        _ extra: [(name: String, value: String)] = []
    ) {
        call.send(status, tag: entityTag(revision: record.revision), extra) {
            var writer = JSONWriter(reservingCapacity: record.specJSON.count + 1_024)
            write(record, for: call.disclosure, into: &writer)
            return writer.bytes
        }
    }

    func write(_ record: JobRecord, for disclosure: Disclosure, into writer: inout JSONWriter) {
        record.write(
            into: &writer, progress: record.state == .running ? ports.progress(record.id) : nil,
            queue: ports.queue(), for: disclosure)
    }

    /// Reads a job once it is terminal or the time is over.
    func whenTerminal(_ id: JobID, tenant: String, seconds: Double, then: @escaping Reply<JobRecord>) {
        when({ $0.isTerminal }, id, tenant: tenant, seconds: seconds, then: then)
    }

    /// Reads a job once it is in one of these states or the time is over.
    func when(
        _ isDone: @escaping @Sendable (JobState) -> Bool, _ id: JobID, tenant: String, seconds: Double,
        then: @escaping Reply<JobRecord>
    ) {
        let reader = ports.reader
        let token = ports.waiters.wait(
            for: id, seconds: seconds, look: { [self] in lookAfter($0, tenant: tenant, isDone) },
            done: { reader.job(id, tenant: tenant, reply: then) })
        reader.job(id, tenant: tenant) { [self] result in
            var isOver = true
            if case .success(let record) = result { isOver = isDone(record.state) }
            // Whoever takes the waiter away answers; the other one does not.
            if isOver, ports.waiters.remove(token) { then(result) }
        }
    }

    /// A waiter's look at a job that may end on another node.
    func lookAfter(
        _ token: JobWaiters.Token, tenant: String,
        _ isDone: @escaping @Sendable (JobState) -> Bool = { $0.isTerminal }
    ) {
        ports.reader.job(token.job, tenant: tenant) { [self] result in
            if case .success(let record) = result, isDone(record.state) { ports.waiters.finish(token) }
        }
    }
}
