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
                tag: "sessions", summary: "Create a session, or change it with If-Match",
                parameters: ["IfMatch"], body: json("SessionRequest"),
                answers: [
                    .init(
                        status: 201, text: "The created session.", content: json("Session"),
                        headers: ["Location", "ETag"]),
                    .init(
                        status: 200, text: "The session, unchanged or changed with If-Match.",
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
                        text: "A page of jobs, empty if no session has this name; 404 if the name is "
                            + "invalid. The jobs of a deleted session are still listed.",
                        content: json("JobList"), headers: ["Link"])
                ], problems: [404])
        case .invalidateSession:
            OperationDescription(
                tag: "sessions",
                summary: "Invalidate a session: it accepts no more jobs",
                parameters: ["IfMatch"], body: json("InvalidationRequest"), isBodyRequired: true,
                answers: [
                    .init(
                        status: 200, text: "The invalidated session.", content: json("Session"),
                        headers: ["ETag"])
                ], problems: [404, 409, 412, 413, 415, 422])
        default:
            OperationDescription(
                tag: "sessions", summary: "Delete an invalidated session without unfinished jobs",
                parameters: ["IfMatch"],
                answers: [.init(status: 204, text: "The session is deleted; its finished jobs are kept.")],
                problems: [404, 409, 412])
        }
    }
}
