extension JobDecoding {
    func asksOnChallenge(_ fields: inout FieldReader) -> Bool {
        fields.choice("on_challenge", OnChallenge.self) == .ask
    }

    func questions(_ fields: inout FieldReader) -> QuestionRules {
        var rules = QuestionRules.standard
        guard var object = fields.object("questions") else { return rules }
        rules.timeout = object.number("timeout", in: 1...Limits.questionSecondsMax) ?? rules.timeout
        rules.begin = object.choice("begin", QuestionRules.Begin.self) ?? rules.begin
        rules.redirect = object.choice("redirect", QuestionRules.Redirect.self) ?? rules.redirect
        rules.challenge = object.choice("challenge", QuestionRules.Challenge.self) ?? rules.challenge
        object.finish()
        return rules
    }

    /// A question ends the attempt, and the request is repeated after the answer.
    func checkQuestions(
        _ fields: inout FieldReader, _ asksOnChallenge: Bool, _ redirects: JobSpec.Redirects,
        _ retry: JobSpec.RetryRules, _ request: JobSpec.RequestSpec?
    ) {
        let isInParts =
            fields.value("segments")?.integer ?? 1 > 1 || !(fields.value("mirrors")?.array ?? []).isEmpty
        if isInParts, asksOnChallenge {
            fields.addError(
                "on_challenge", "invalid_combination", "A job with segments or mirrors cannot ask.")
        }
        guard redirects.policy == .ask else { return }
        if isInParts {
            errors.add(
                "\(fields.pointer("redirects"))/policy", "invalid_combination",
                "A job with segments or mirrors cannot ask.")
        } else if let request, !JobSpec.isIdempotent(request.method), !retry.repeatsNonIdempotent {
            errors.add(
                "\(fields.pointer("redirects"))/policy", "invalid_combination",
                "\(request.method) is not idempotent, and would be sent again after the answer.")
        }
    }
}

private enum OnChallenge: String, CaseIterable { case fail, ask }
