package import FerryCore
internal import HTTPServer

/// Takes answers to what is asked about jobs.
package protocol AnswerSink: Sendable {
    /// `resolve` may be asked more than once; what it throws is the inner failure. A job about which nothing
    /// of this kind is asked, or not since `askedAt`, is `invalidState`.
    func answer(
        _ id: JobID, tenant: String, revision: Int32?, kind: JobQuestion.Kind, askedAt: Timestamp?,
        _ resolve:
            @escaping @Sendable (JobDraft, JobQuestion, Int32) throws(InvalidFields) -> AnswerResolution,
        reply: @escaping Reply<Result<JobRecord, InvalidFields>>)
}

extension API {
    /// `POST /v1/jobs/{id}/begin`
    func answerBegin(_ call: RequestContext) { answer(.begin, call) }

    /// `POST /v1/jobs/{id}/redirect`
    func answerRedirect(_ call: RequestContext) { answer(.redirect, call) }

    /// `POST /v1/jobs/{id}/challenge`
    func answerChallenge(_ call: RequestContext) { answer(.challenge, call) }

    private func answer(_ kind: JobQuestion.Kind, _ call: RequestContext) {
        call.answering { () throws(Problem) in
            let id = try call.identifier(JobID.self)
            let body = try call.json()
            let answer = try Self.read(body, kind)
            let source = AnswerSource(.api, name: call.principal.key.description)
            let (node, egress, clock) = (node, ports.egress, ports.clock)
            call.changing { [self] revision, reply in
                ports.questions.answer(
                    id, tenant: call.principal.tenant, revision: revision, kind: kind,
                    askedAt: answer.askedAt,
                    { draft, question, attempt throws(InvalidFields) in
                        try draft.answered(
                            question, answer, from: source, at: clock.now(), attempt: attempt, node: node
                        ) { egress.refusal(of: $0) }
                    }, reply: reply)
            } then: { [self] (result: Result<Result<JobRecord, InvalidFields>, StoreError>) in
                switch result {
                case .failure(.invalidState(let state, let waitingFor))
                where answer.askedAt != nil && waitingFor == kind.waitingFor:
                    var problem = Problem(StoreError.invalidState(state, waitingFor: waitingFor))
                    problem.detail = "Another question is open than the one that asked_at names."
                    call.fail(problem)
                case .failure(let error): call.fail(error)
                case .success(.failure(let invalid)): call.fail(Problem(invalid))
                case .success(.success(let record)): send(record, 200, call)
                }
            }
        }
    }

    private static func read(_ body: JSON, _ kind: JobQuestion.Kind) throws(Problem) -> JobAnswer {
        do throws(InvalidFields) {
            return try JobAnswer(body, to: kind)
        } catch {
            throw Problem(error)
        }
    }
}
