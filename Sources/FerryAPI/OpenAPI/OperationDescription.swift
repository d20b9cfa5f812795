/// Description of an operation in the document, without its route.
struct OperationDescription: Sendable {
    struct Answer: Sendable {
        let status: Int
        let text: String
        /// Media type and schema, as JSON; `nil` without a body.
        var content: String?
        /// Names of `components/headers`.
        var headers: [String] = []

        /// Response to `If-None-Match`.
        static let unchanged = Answer(status: 304, text: "The object is unchanged.", headers: ["ETag"])
    }
    let tag: String
    let summary: String
    /// Names of `components/parameters`.
    var parameters: [String] = []
    /// The `content` of the request's body, as JSON; `nil` without a body.
    var body: String?
    var isBodyRequired = false
    let answers: [Answer]
    /// Statuses of problems of this operation, without those of every operation.
    var problems: [Int] = []
}

func json(_ schema: String, as type: String = "application/json") -> String {
    ##"{"\##(type)": {"schema": {"$ref": "#/components/schemas/\##(schema)"}}}"##
}

func mergePatch(_ schema: String) -> String { json(schema, as: "application/merge-patch+json") }

private let plainText = #"{"text/plain": {"schema": {"type": "string"}}}"#

extension Operation {
    var description: OperationDescription {
        switch self {
        case .submitJob, .submitJobs, .listJobs, .readJob, .editJob, .deleteJob, .cancelJob, .suspendJob,
            .resumeJob, .acknowledgeJob, .retryJob, .answerBegin, .answerRedirect, .answerChallenge,
            .readContent, .readAttempts:
            jobDescription
        case .listSessions, .readSession, .putSession, .deleteSession, .listSessionJobs, .invalidateSession:
            sessionDescription
        case .listDeliveries, .readDelivery, .redeliver: deliveryDescription
        case .listEvents, .listJobEvents: eventDescription
        case .createWebhook, .listWebhooks, .readWebhook, .editWebhook, .deleteWebhook, .rotateSecret,
            .testWebhook, .replayDeliveries, .listWebhookDeliveries:
            webhookDescription
        case .readWindows, .changeWindows: windowDescription
        case .createSchedule, .listSchedules, .readSchedule, .replaceSchedule, .deleteSchedule, .runSchedule,
            .pauseSchedule, .resumeSchedule:
            scheduleDescription
        case .createKey, .listKeys, .readKey, .revokeKey: keyDescription
        case .readStatus, .listNodes, .readLimits, .changeLimits: adminDescription
        case .pauseService, .resumeService, .drainNode, .resumeNode, .listTenants, .listAudit:
            operatorDescription
        case .listHosts, .readHost, .changeHost: hostDescription
        case .live, .ready, .metrics, .openapi, .docs: serviceDescription
        }
    }

    private var jobDescription: OperationDescription {
        switch self {
        case .submitJobs:
            OperationDescription(
                tag: "jobs", summary: "Submit up to 10,000 jobs, all or nothing",
                parameters: ["IdempotencyKey", "Traceparent"],
                body: #"""
                    {"application/json": {"schema": {"$ref": "#/components/schemas/BatchRequest"}},
                     "application/x-ndjson": {"schema": {"type": "string", "description": "A job per line."}},
                     "application/ndjson": {"schema": {"type": "string", "description": "A job per line."}},
                     "application/jsonl": {"schema": {"type": "string", "description": "A job per line."}}}
                    """#, isBodyRequired: true,
                answers: [
                    .init(
                        status: 201, text: "The accepted jobs, in order.", content: json("BatchAnswer"),
                        headers: ["Idempotency-Replayed"])
                ], problems: [409, 413, 415, 422])
        case .listJobs:
            OperationDescription(
                tag: "jobs", summary: "List jobs, newest first",
                parameters: [
                    "Session", "State", "Kind", "Host", "CreatedAfter", "Schedule", "Acknowledged",
                    "Metadata", "Limit", "Cursor",
                ],
                answers: [
                    .init(status: 200, text: "A page of jobs.", content: json("JobList"), headers: ["Link"])
                ])
        case .readJob:
            OperationDescription(
                tag: "jobs", summary: "Read a job, or wait for its end",
                parameters: ["Prefer", "IfNoneMatch"],
                answers: [
                    .init(
                        status: 200, text: "The job.", content: json("Job"),
                        headers: ["ETag", "Preference-Applied"]),
                    .init(status: 304, text: "The job still has this revision.", headers: ["ETag"]),
                ], problems: [404])
        case .editJob:
            OperationDescription(
                tag: "jobs", summary: "Change an unfinished job", parameters: ["IfMatch"],
                body: mergePatch("JobPatch"), isBodyRequired: true,
                answers: [.init(status: 200, text: "The job.", content: json("Job"), headers: ["ETag"])],
                problems: [404, 409, 412, 413, 415, 422])
        case .deleteJob:
            OperationDescription(
                tag: "jobs", summary: "Delete a terminal job and its managed file",
                parameters: ["IfMatch"],
                answers: [.init(status: 204, text: "The job is deleted.")], problems: [404, 409, 412])
        case .cancelJob:
            OperationDescription(
                tag: "jobs", summary: "Cancel a job", parameters: ["IfMatch"], body: json("CancelRequest"),
                answers: [
                    .init(
                        status: 200, text: "The job; it may still be running.", content: json("Job"),
                        headers: ["ETag"])
                ],
                problems: [404, 409, 412, 413, 415, 422])
        case .suspendJob, .resumeJob:
            OperationDescription(
                tag: "jobs",
                summary: self == .suspendJob
                    ? "Suspend a job; a download keeps its bytes" : "Resume a suspended job",
                parameters: ["IfMatch"], body: json("EmptyRequest"),
                answers: [
                    .init(
                        status: 200,
                        text: self == .suspendJob ? "The job; it may still be running." : "The job.",
                        content: json("Job"), headers: ["ETag"])
                ],
                problems: [404, 409, 412, 413, 415, 422])
        case .acknowledgeJob: acknowledgeDescription
        case .answerBegin: answerDescription("Answer whether a job may begin", "BeginAnswer")
        case .answerRedirect: answerDescription("Answer whether a job follows a redirect", "RedirectAnswer")
        case .answerChallenge:
            answerDescription("Answer a challenge for credentials", "ChallengeAnswer")
        case .readContent: contentDescription
        case .readAttempts:
            OperationDescription(
                tag: "jobs", summary: "List a job's attempts with the timings of every request",
                answers: [
                    .init(status: 200, text: "The attempts, oldest first.", content: json("AttemptList"))
                ], problems: [404])
        default:
            OperationDescription(
                tag: "jobs",
                summary: self == .retryJob ? "Submit a terminal job again, as a new one" : "Submit a job",
                parameters: ["IdempotencyKey", "Prefer", "Traceparent"],
                body: json(self == .retryJob ? "EmptyRequest" : "JobRequest"),
                isBodyRequired: self == .submitJob,
                answers: [
                    .init(
                        status: 201, text: "The job is accepted and stored.", content: json("Job"),
                        headers: ["Location", "ETag", "Preference-Applied", "Idempotency-Replayed"])
                ], problems: (self == .retryJob ? [404] : []) + [409, 413, 415, 422])
        }
    }

    private var acknowledgeDescription: OperationDescription {
        OperationDescription(
            tag: "jobs", summary: "Acknowledge the result of a terminal job",
            body: json("EmptyRequest"),
            answers: [
                .init(
                    status: 200, text: "The job, acknowledged now or before.", content: json("Job"),
                    headers: ["ETag"])
            ], problems: [404, 409, 413, 415, 422])
    }

    private func answerDescription(_ summary: String, _ schema: String) -> OperationDescription {
        OperationDescription(
            tag: "jobs", summary: summary, parameters: ["IfMatch"], body: json(schema), isBodyRequired: true,
            answers: [
                .init(
                    status: 200, text: "The job with its new state.", content: json("Job"),
                    headers: ["ETag"])
            ], problems: [404, 409, 412, 413, 415, 422])
    }

    private var contentDescription: OperationDescription {
        let bytes = #"{"*/*": {"schema": {"type": "string", "format": "binary"}}}"#
        return OperationDescription(
            tag: "jobs", summary: "Fetch the file or body that a job received",
            parameters: ["Range", "IfRange", "IfNoneMatch", "IfMatch"],
            answers: [
                .init(
                    status: 200, text: "The whole content.", content: bytes,
                    headers: ["ETag", "Accept-Ranges", "Content-Disposition", "Repr-Digest", "Digest"]),
                .init(
                    status: 206, text: "The range.", content: bytes,
                    headers: [
                        "ETag", "Accept-Ranges", "Content-Disposition", "Repr-Digest", "Content-Range",
                    ]),
                .init(status: 304, text: "The object is unchanged.", headers: ["ETag"]),
            ], problems: [404, 409, 412, 416])
    }

    private var eventDescription: OperationDescription {
        let page = OperationDescription.Answer(
            status: 200,
            text: "A page of events, or a stream of events with Accept: text/event-stream.",
            content: #"""
                {"application/json": {"schema": {"$ref": "#/components/schemas/EventList"}},
                 "text/event-stream": {"schema": {"type": "string"}}}
                """#, headers: ["Link"])
        if self == .listEvents {
            return OperationDescription(
                tag: "events", summary: "List events, newest first, or stream them",
                parameters: [
                    "Session", "EventTypes", "Since", "Progress", "Limit", "Cursor", "LastEventID",
                ], answers: [page], problems: [503])
        }
        return OperationDescription(
            tag: "events", summary: "List a job's events, newest first, or stream them",
            parameters: ["Progress", "Limit", "Cursor", "LastEventID"],
            answers: [page, .init(status: 204, text: "The job has ended, and no event follows.")],
            problems: [404, 503])
    }

    private var deliveryDescription: OperationDescription {
        switch self {
        case .listDeliveries:
            OperationDescription(
                tag: "deliveries", summary: "List a job's deliveries with every try, newest first",
                parameters: ["Limit", "Cursor"],
                answers: [
                    .init(
                        status: 200, text: "A page of deliveries.", content: json("DeliveryList"),
                        headers: ["Link"])
                ], problems: [404])
        case .readDelivery:
            OperationDescription(
                tag: "deliveries", summary: "Read a delivery", parameters: ["IfNoneMatch"],
                answers: [
                    .init(
                        status: 200, text: "The delivery.", content: json("Delivery"), headers: ["ETag"]),
                    .unchanged,
                ], problems: [404])
        default:
            OperationDescription(
                tag: "deliveries", summary: "Send a delivery again", body: json("EmptyRequest"),
                answers: [
                    .init(
                        status: 200, text: "The delivery is due now.", content: json("Delivery"),
                        headers: ["ETag"])
                ],
                problems: [404, 413, 415, 422])
        }
    }

    private var adminDescription: OperationDescription {
        switch self {
        case .listNodes:
            OperationDescription(
                tag: "admin", summary: "List the nodes, newest first", parameters: ["Limit", "Cursor"],
                answers: [
                    .init(
                        status: 200, text: "A page of nodes.", content: json("NodeList"), headers: ["Link"])
                ])
        case .readLimits:
            OperationDescription(
                tag: "admin", summary: "Read the rate limits of all transfers",
                parameters: ["IfNoneMatch"],
                answers: [
                    .init(
                        status: 200, text: "The limits.", content: json("TransferLimits"),
                        headers: ["ETag"]),
                    .unchanged,
                ])
        case .changeLimits:
            OperationDescription(
                tag: "admin", summary: "Change the rate limits, also of running transfers",
                parameters: ["IfMatch"], body: mergePatch("LimitsPatch"), isBodyRequired: true,
                answers: [
                    .init(
                        status: 200, text: "The changed limits.", content: json("TransferLimits"),
                        headers: ["ETag"])
                ], problems: [412, 413, 415, 422])
        default:
            OperationDescription(
                tag: "admin", summary: "Read the state of the service",
                answers: [
                    .init(
                        status: 200, text: "The state, with exact numbers of unfinished jobs.",
                        content: json("Status"))
                ])
        }
    }

    private var serviceDescription: OperationDescription {
        switch self {
        case .live:
            OperationDescription(
                tag: "service", summary: "Check whether the process responds",
                answers: [.init(status: 200, text: "The process responds.", content: plainText)])
        case .ready:
            OperationDescription(
                tag: "service", summary: "Check whether the node is ready", parameters: ["Verbose"],
                answers: [
                    .init(status: 200, text: "The node is ready.", content: plainText),
                    .init(
                        status: 503, text: "The node is not ready; the lines name the failed checks.",
                        content: plainText),
                ])
        case .metrics:
            OperationDescription(
                tag: "service", summary: "Read the metrics of this node for Prometheus, with any key",
                answers: [
                    .init(
                        status: 200,
                        text: "Prometheus text format 0.0.4, of all tenants together.",
                        content: plainText)
                ])
        case .openapi:
            OperationDescription(
                tag: "service", summary: "Read this document", parameters: ["IfNoneMatch"],
                answers: [
                    .init(
                        status: 200, text: "OpenAPI 3.1.",
                        content: #"{"application/json": {"schema": {"type": "object"}}}"#, headers: ["ETag"]),
                    .init(status: 304, text: "The object is unchanged.", headers: ["ETag"]),
                ])
        default:
            OperationDescription(
                tag: "service", summary: "Read this document as a page", parameters: ["IfNoneMatch"],
                answers: [
                    .init(
                        status: 200, text: "The page.",
                        content: #"{"text/html": {"schema": {"type": "string"}}}"#, headers: ["ETag"]),
                    .init(status: 304, text: "The object is unchanged.", headers: ["ETag"]),
                ])
        }
    }
}
