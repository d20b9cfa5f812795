import FerryAPI
import FerryCore
import FerryStore
import Logging

/// Answers to jobs' questions that webhook receivers give in the body of a 2xx response.
struct WebhookAnswers: Sendable {
    let questions: QuestionAnswers
    let clock: any WallClock
    let egress: EgressPolicy
    let node: NodeAbilities
    let logger: Logger

    /// Applies the answer in a response body. A body without `disposition` is not an answer. Only the first
    /// valid answer to the question that the receiver was sent counts; later and invalid answers change
    /// nothing. Calls `done` with `false` if the answer could not be stored for a temporary reason.
    func take(_ delivery: Delivery, _ body: [UInt8], done: @escaping @Sendable (Bool) -> Void) {
        guard let kind = delivery.question, let job = delivery.job,
            // A body that is not JSON contains no answer.
            let json = try? JSONView(parsing: body), json["disposition"] != nil,
            let askedAt = delivery.askedAt
        else { return done(true) }
        let answer: JobAnswer
        do throws(InvalidFields) {
            answer = try JobAnswer(json, to: kind)
        } catch {
            note(delivery, error)
            return done(true)
        }
        // An answer that names another question does not apply to this one.
        guard (answer.askedAt ?? askedAt) == askedAt else { return done(true) }
        let source = AnswerSource(.webhook, name: delivery.id.description)
        let (clock, egress, node) = (clock, egress, node)
        questions.answer(
            job, tenant: delivery.tenant, kind: kind, askedAt: askedAt,
            { draft, question, attempt throws(InvalidFields) in
                try draft.answered(
                    question, answer, from: source, at: clock.now(), attempt: attempt, node: node
                ) { egress.refusal(of: $0) }
            }
        ) { result in
            switch result {
            case .success(.failure(let invalid)): note(delivery, invalid)
            case .failure(.unavailable), .failure(.failed):
                logger.warning(
                    "The answer in a webhook response could not be stored. The question is sent again.",
                    metadata: ["delivery": "\(delivery.id)", "job.id": "\(job)"])
                return done(false)
            case .success, .failure: break
            }
            done(true)
        }
    }

    private func note(_ delivery: Delivery, _ invalid: InvalidFields) {
        logger.notice(
            "The answer in a webhook response is invalid and was ignored.",
            metadata: [
                "delivery": "\(delivery.id)", "job.id": "\(delivery.job?.description ?? "")",
                "cause": "\(invalid.errors.first?.detail ?? "")",
            ])
    }
}
