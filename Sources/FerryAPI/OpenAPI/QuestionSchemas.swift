internal import FerryCore

extension FieldSchemas {
    /// Adds the answers to questions. Each is one of several objects, by its disposition.
    func addAnswers() {
        reference("BeginAnswer") {
            oneOf(
                "An answer to the question whether a job may begin.",
                answer(
                    ["continue_loading", "cancel"],
                    "continue_loading: the job begins. cancel: the job is cancelled."),
                .reference("schemas", "NewRequestAnswer"))
        }
        reference("NewRequestAnswer") {
            answer(
                ["use_new_request"], "The job continues with a changed request.",
                JSON.Member(
                    "request",
                    [
                        "$ref": "#/components/schemas/RequestPatch",
                        "description": "A merge patch of url, headers and timeout_for_request.",
                    ]))
        }
        reference("RedirectAnswer") {
            oneOf(
                "An answer to the question whether a job follows a redirect.",
                answer(
                    ["follow", "reject", "cancel"],
                    "follow: the next attempt begins at the redirect target. reject: the redirect response "
                        + "is the job's response. cancel: the job is cancelled."),
                .reference("schemas", "NewRequestAnswer"))
        }
        reference("ChallengeAnswer") {
            oneOf(
                "An answer to a challenge for credentials.",
                answer(
                    ["perform_default_handling", "reject_protection_space", "cancel"],
                    "perform_default_handling: the job fails as if it had not asked. "
                        + "reject_protection_space: the job asks about the next method that the server "
                        + "offers. cancel: the job is cancelled."),
                answer(
                    ["use_credential"], "The next attempt sends credential.",
                    JSON.Member("credential", .reference("schemas", "Credential"))))
        }
        reference("Credential") {
            oneOf(
                "A user and a password for Basic, Digest and NTLM, or a token for Bearer. Stored encrypted "
                    + "and not shown.",
                closed(
                    "A user and a password.",
                    [
                        property("user", .user, "Name of the user."),
                        property("password", .password, "Password of the user."),
                    ]),
                closed("A token.", [property("token", .token, "Token for Bearer, visible ASCII.")]))
        }
    }
}

/// Returns an answer with one of these dispositions.
private func answer(_ dispositions: [String], _ text: String, _ others: JSON.Member...) -> JSON {
    let disposition: JSON = [
        "type": "string", "enum": .array(dispositions.map { .string($0) }), "description": .string(text),
    ]
    let askedAt: JSON = [
        "type": ["string", "null"], "format": "date-time",
        "description": """
        Value of question.asked_at, unchanged. If another question is open, the response is 409. Without \
        asked_at and If-Match the answer applies to the open question.
        """,
    ]
    return closed(
        "An answer.", [JSON.Member("disposition", disposition)] + others,
        optional: [JSON.Member("asked_at", askedAt)])
}

private func property(_ name: String, _ rule: TextRule, _ text: String) -> JSON.Member {
    JSON.Member(name, .object(String.schema(rule) + [JSON.Member("description", .string(text))]))
}

private func closed(
    _ text: String, _ required: [JSON.Member], optional: [JSON.Member] = []
) -> JSON {
    .schema(text, required: required.map { .string($0.name) }, required + optional, isClosed: true)
}

private func oneOf(_ text: String, _ choices: JSON...) -> JSON {
    ["description": .string(text), "oneOf": .array(choices)]
}
