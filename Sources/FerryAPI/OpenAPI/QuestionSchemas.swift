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
                .schema("NewRequestAnswer"))
        }
        reference("NewRequestAnswer") {
            answer(
                ["use_new_request"], "The job continues with a changed request.",
                .property(
                    "request", .schema("NewRequest"),
                    "A merge patch of the request. A body replaces the former one."))
        }
        reference("URLExpiredAnswer") {
            oneOf(
                "An answer to the question for another URL or credential.",
                answer(["cancel"], "cancel: the job is cancelled."), .schema("NewRequestAnswer"))
        }
        reference("RedirectAnswer") {
            oneOf(
                "An answer to the question whether a job follows a redirect.",
                answer(
                    ["follow", "reject", "cancel"],
                    "follow: the next attempt begins at the redirect target. reject: the redirect response "
                        + "is the job's response. cancel: the job is cancelled."),
                .schema("NewRequestAnswer"))
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
                    .property("credential", .schema("Credential"), "The credential.")))
        }
        reference("Credential") {
            oneOf(
                "A user and a password for Basic, Digest and NTLM, or a token for Bearer. Stored encrypted "
                    + "and not shown.",
                closed(
                    "A user and a password.",
                    [
                        .property("user", .object(String.schema(.user)), "Name of the user."),
                        .property("password", .object(String.schema(.password)), "Password of the user."),
                    ]),
                closed(
                    "A token.",
                    [.property("token", .object(String.schema(.token)), "Token for Bearer, visible ASCII.")]))
        }
    }
}

/// Returns an answer with one of these dispositions.
private func answer(_ dispositions: [String], _ text: String, _ others: JSON.Member...) -> JSON {
    let choices: JSON = ["type": "string", "enum": .array(dispositions.map { .string($0) })]
    return closed(
        "An answer.", [.property("disposition", choices, text)] + others,
        optional: [
            .property(
                "asked_at", ["type": ["string", "null"], "format": "date-time"],
                "Value of question.asked_at, unchanged. If another question is open, the response is 409. "
                    + "Without asked_at and If-Match the answer applies to the open question.")
        ])
}
