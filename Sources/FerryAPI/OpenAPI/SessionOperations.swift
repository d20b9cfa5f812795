extension Operation {
    var sessionDescription: OperationDescription {
        switch self {
        case .listSessions:
            OperationDescription(
                tag: "sessions", summary: "List sessions by name", parameters: ["Limit", "SessionCursor"],
                answers: [
                    .init(
                        status: 200, text: "A page of sessions, without their jobs.",
                        content: json("SessionList"), headers: ["Link"])
                ])
        case .readSession:
            OperationDescription(
                tag: "sessions", summary: "Read a session with its unfinished jobs",
                parameters: ["IfNoneMatch"],
                answers: [
                    .init(status: 200, text: "The session.", content: json("Session"), headers: ["ETag"]),
                    .unchanged,
                ], problems: [404])
        case .putSession:
            OperationDescription(
                tag: "sessions", summary: "Create a session, or find it again as it is",
                parameters: ["IfMatch"], body: json("SessionRequest"),
                answers: [
                    .init(
                        status: 201, text: "It is new.", content: json("Session"),
                        headers: ["Location", "ETag"]),
                    .init(
                        status: 200, text: "It is so; with If-Match it may have been changed.",
                        content: json("Session"), headers: ["ETag"]),
                ], problems: [409, 412, 413, 415, 422, 428])
        case .listSessionJobs:
            OperationDescription(
                tag: "sessions", summary: "List a session's jobs, newest first",
                parameters: [
                    "State", "Kind", "Host", "CreatedAfter", "Schedule", "Acknowledged", "Metadata", "Limit",
                    "Cursor",
                ],
                answers: [
                    .init(
                        status: 200,
                        text: "A page of jobs; empty when there is no session of this name, and 404 only for "
                            + "what cannot be a name. Jobs stay in the list of a deleted session.",
                        content: json("JobList"), headers: ["Link"])
                ], problems: [404])
        case .invalidateSession:
            OperationDescription(
                tag: "sessions",
                summary: "Let a session take no more jobs, and finish or cancel those it has",
                parameters: ["IfMatch"], body: json("InvalidationRequest"), isBodyRequired: true,
                answers: [
                    .init(
                        status: 200, text: "It takes no more jobs.", content: json("Session"),
                        headers: ["ETag"])
                ], problems: [404, 409, 412, 413, 415, 422])
        default:
            OperationDescription(
                tag: "sessions", summary: "Remove a session that was invalidated and has no unfinished jobs",
                parameters: ["IfMatch"],
                answers: [.init(status: 204, text: "It is gone; its finished jobs stay.")],
                problems: [404, 409, 412])
        }
    }
}
