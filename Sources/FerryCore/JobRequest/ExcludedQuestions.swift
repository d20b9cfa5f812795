// Questions that a job cannot ask.

extension JobSpec {
    /// Reports questions that the job cannot ask. A question that only its session wants is left out.
    mutating func checkQuestions(_ fields: FieldDecoder) {
        if asksOnChallenge, let reason = obstacleToChallenge {
            if fields.isGiven("on_challenge") {
                fields.fail("on_challenge", "invalid_combination", reason)
            } else {
                onChallenge = .fail
            }
        }
        if onURLExpired == .ask, let reason = obstacleToExpiredURL {
            if fields.isGiven("on_url_expired") {
                fields.fail("on_url_expired", "invalid_combination", reason)
            } else {
                onURLExpired = .fail
            }
        }
        if redirects.policy == .ask, let reason = obstacleToRedirect {
            if fields.isGiven("policy", in: "redirects") {
                fields.fail("redirects/policy", "invalid_combination", reason)
            } else {
                redirects.policy = .follow
            }
        }
    }

    /// Sentence that says why the job cannot ask for credentials; `nil` if it can.
    private var obstacleToChallenge: String? {
        if isInParts { return Self.partsDoNotAsk }
        if storeObject != nil { return "A store sends no challenges." }
        return isCopiedDownload ? Self.copiesDoNotAsk : nil
    }

    /// Sentence that says why the job cannot ask for a new request; `nil` if it can.
    private var obstacleToExpiredURL: String? {
        if storeObject != nil { return "The address of an object does not expire." }
        return isCopiedDownload ? Self.copiesDoNotAsk : nil
    }

    /// Sentence that says why the job cannot ask about a redirect; `nil` if it can. The question ends the
    /// attempt, and the request is repeated after the answer.
    private var obstacleToRedirect: String? {
        if isInParts { return Self.partsDoNotAsk }
        if isCopiedDownload { return Self.copiesDoNotAsk }
        return isRequestRepeatable
            ? nil : "\(request.method) is not idempotent, and would be sent again after the answer."
    }

    private var isCopiedDownload: Bool { kind == .download && isCopy }

    private static let partsDoNotAsk = "A job with segments or mirrors cannot ask."
    private static let copiesDoNotAsk = "A copy asks no questions."
}
