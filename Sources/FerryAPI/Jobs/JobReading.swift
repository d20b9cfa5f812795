internal import FerryCore
internal import HTTPServer

/// Reads one job and its attempts.
final class JobReading: Sendable {
    private let reader: any JobReader
    private let node: any NodeOperations
    private let others: any OtherNodes
    private let view: JobView
    private let wait: JobWait

    init(_ ports: APIPorts, _ view: JobView, _ wait: JobWait) {
        reader = ports.store.jobs
        node = ports.node
        others = ports.others
        self.view = view
        self.wait = wait
    }

    /// `GET /v1/jobs/{id}`
    func read(_ request: RequestContext) throws(Problem) {
        let id = try request.identifier(JobID.self)
        let seconds = preferredWait(request.fields).flatMap { $0 > 0 ? $0 : nil }
        if let record = reader.recentResult(id, tenant: request.tenant) {
            return view.send(record, 200, to: request, seconds.map(appliedWait) ?? [])
        }
        guard let seconds else {
            return reader.job(
                id, tenant: request.tenant,
                reply: request.onSuccess { [view] record in view.send(record, 200, to: request) })
        }
        wait.read(
            id, tenant: request.tenant, seconds: seconds, when: { $0.isTerminal },
            then: request.onSuccess { [view] record in
                view.send(record, 200, to: request, appliedWait(seconds))
            })
    }

    /// `GET /v1/jobs/{id}/attempts`. Only the node that runs the job knows what its attempt has done so far;
    /// if that node cannot be asked, the response has the attempts that have ended.
    func readAttempts(_ request: RequestContext) throws(Problem) {
        let id = try request.identifier(JobID.self)
        reader.job(
            id, tenant: request.tenant,
            reply: request.onSuccess { [self] job in
                let owner = job.state == .running ? request.belongs(to: job.node, among: others) : nil
                guard let owner else { return sendAttempts(of: id, to: request) }
                request.forward(to: owner, by: others) { [self] in sendAttempts(of: id, to: request) }
            })
    }

    private func sendAttempts(of id: JobID, to request: RequestContext) {
        node.attempts(
            of: id, tenant: request.tenant,
            reply: request.onSuccess { attempts in
                request.send(
                    200,
                    json: attempts.json(
                        showsDiagnostics: request.principal.role == .admin, for: request.disclosure))
            })
    }
}

/// Reads a job when it has reached a state, or when the time for that is over.
final class JobWait: Sendable {
    private let reader: any JobReader
    private let waiters: JobWaiters

    init(_ ports: APIPorts) {
        reader = ports.store.jobs
        waiters = ports.waiters
    }

    /// Reads a job as soon as `isDone` returns `true` for its state, or after `seconds`.
    func read(
        _ id: JobID, tenant: String, seconds: Double, when isDone: @escaping @Sendable (JobState) -> Bool,
        then: @escaping Reply<JobRecord>
    ) {
        let token = waiters.wait(
            for: id, seconds: seconds, look: { [self] in finish($0, tenant: tenant, when: isDone) },
            done: { [reader] in reader.job(id, tenant: tenant, reply: then) })
        reader.job(id, tenant: tenant) { [waiters] result in
            var isOver = true
            if case .success(let record) = result { isOver = isDone(record.state) }
            // Only the call that removes the waiter responds.
            if isOver, waiters.remove(token) { then(result) }
        }
    }

    /// Reads the job of a waiter, which may run on another node, and ends the wait if `isDone` returns `true`
    /// for its state.
    func finish(
        _ token: JobWaiters.Token, tenant: String, when isDone: @escaping @Sendable (JobState) -> Bool
    ) {
        reader.job(token.job, tenant: tenant) { [waiters] result in
            if case .success(let record) = result, isDone(record.state) { waiters.finish(token) }
        }
    }
}
