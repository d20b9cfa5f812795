package import FerryCore

/// Accepts the answers of clients to the questions of jobs.
package protocol AnswerSink: Sendable {
    /// Applies what `resolve` makes of the open question. The store may call `resolve` more than once; what
    /// it throws is the inner failure. The job is `invalidState` if it has no open question of this kind, or
    /// none that was asked at `askedAt`.
    func answer(
        _ id: JobID, tenant: String, revision: Int32?, kind: JobQuestion.Kind, askedAt: Timestamp?,
        _ resolve:
            @escaping @Sendable (JobRequest, JobQuestion, Int32) throws(InvalidFields) -> AnswerResolution,
        reply: @escaping Reply<Result<JobRecord, InvalidFields>>)
}

/// Answers to the questions of jobs.
final class JobAnswers: Sendable {
    private let questions: any AnswerSink
    private let egress: EgressPolicy
    private let clock: any WallClock
    private let node: NodeAbilities
    private let view: JobView

    init(_ ports: APIPorts, _ node: NodeAbilities, _ view: JobView) {
        questions = ports.store.answers
        egress = ports.egress
        clock = ports.clock
        self.node = node
        self.view = view
    }

    /// `POST /v1/jobs/{id}/begin`
    func begin(_ request: RequestContext) throws(Problem) { try answer(.begin, request) }

    /// `POST /v1/jobs/{id}/redirect`
    func redirect(_ request: RequestContext) throws(Problem) { try answer(.redirect, request) }

    /// `POST /v1/jobs/{id}/challenge`
    func challenge(_ request: RequestContext) throws(Problem) { try answer(.challenge, request) }

    /// `POST /v1/jobs/{id}/url_expired`
    func urlExpired(_ request: RequestContext) throws(Problem) { try answer(.urlExpired, request) }

    private func answer(_ kind: JobQuestion.Kind, _ request: RequestContext) throws(Problem) {
        let id = try request.identifier(JobID.self)
        let json = try request.json()
        let answer = try valid(try JobAnswer(json, to: kind))
        let source = AnswerSource(.api, name: request.principal.key.description)
        request.changing { [self] revision, reply in
            questions.answer(
                id, tenant: request.tenant, revision: revision, kind: kind, askedAt: answer.askedAt,
                { [self] draft, question, attempt throws(InvalidFields) in
                    try draft.answered(
                        question, answer, from: source, at: clock.now(), attempt: attempt, node: node
                    ) { egress.refusal(of: $0) }
                }, reply: reply)
        } then: { [view] (result: Result<Result<JobRecord, InvalidFields>, StoreError>) in
            if case .failure(.invalidState(let state, let waitingFor)) = result, answer.askedAt != nil,
                waitingFor == kind.waitingFor
            {
                var problem = Problem(StoreError.invalidState(state, waitingFor: waitingFor))
                problem.detail = "The open question is not the one that was asked at asked_at."
                return request.fail(problem)
            }
            request.onValid { record in view.send(record, 200, to: request) }(result)
        }
    }
}
