extension Operation {
    /// Group of the operation in the document.
    var tag: String {
        switch self {
        case .submitJob, .submitJobs, .listJobs, .summarizeJobs, .readJob, .editJob, .deleteJob, .cancelJob,
            .suspendJob,
            .resumeJob, .acknowledgeJob, .retryJob, .answerBegin, .answerRedirect, .answerChallenge,
            .answerURLExpired,
            .readContent, .readAttempts:
            "jobs"
        case .suspendJobs, .resumeJobs, .cancelJobs, .retryJobs, .listBulkOperations, .readBulkOperation,
            .cancelBulkOperation:
            "operations"
        case .createJobGroup, .listJobGroups, .readJobGroup, .closeJobGroup, .deleteJobGroup, .listGroupJobs,
            .suspendJobGroup, .resumeJobGroup, .cancelJobGroup, .retryJobGroup, .listJobGroupEvents:
            "groups"
        case .createUpload, .listUploads, .putUpload, .readUpload, .continueUpload, .deleteUpload,
            .readUploadContent:
            "uploads"
        case .listSessions, .readSession, .putSession, .deleteSession, .listSessionJobs, .invalidateSession,
            .resetSession, .flushSession, .listCookies, .replaceCookies, .addCookies, .deleteCookies,
            .listCredentials, .readCredential, .putCredential, .deleteCredential:
            "sessions"
        case .listDeliveries, .readDelivery, .redeliver: "deliveries"
        case .listEvents, .listJobEvents: "events"
        case .createWebhook, .listWebhooks, .readWebhook, .editWebhook, .deleteWebhook, .rotateSecret,
            .testWebhook, .replayDeliveries, .listWebhookDeliveries:
            "webhooks"
        case .createSchedule, .listSchedules, .readSchedule, .replaceSchedule, .deleteSchedule, .runSchedule,
            .pauseSchedule, .resumeSchedule:
            "schedules"
        case .readWindows, .changeWindows, .createKey, .listKeys, .readKey, .revokeKey, .readStatus,
            .listNodes, .readLimits, .changeLimits, .pauseService, .resumeService, .drainNode, .resumeNode,
            .listTenants, .readTenantLimits, .replaceTenantLimits, .listAudit, .listHosts, .readHost,
            .changeHost, .readContentStore, .acceptContentStore:
            "admin"
        case .live, .ready, .metrics, .openapi, .docs: "service"
        }
    }

    var description: OperationDescription {
        switch tag {
        case "jobs": jobDescription
        case "operations": bulkDescription
        case "groups": groupDescription
        case "uploads": uploadDescription
        case "sessions": sessionDescription
        case "deliveries", "webhooks": webhookDescription
        case "events": eventDescription
        case "schedules": scheduleDescription
        case "admin": adminDescription
        default: serviceDescription
        }
    }

    private var jobDescription: OperationDescription {
        switch self {
        case .submitJobs:
            OperationDescription(
                "Submit up to 10,000 jobs, all or nothing", ["IdempotencyKey", "Traceparent"],
                .init(content: batchContent),
                .init(201, "The accepted jobs, in order.", json("BatchAnswer"), ["Idempotency-Replayed"]),
                .init(
                    200, "Jobs that exist and have the unique keys of all submitted ones.",
                    json("BatchAnswer"), ["Idempotency-Replayed"]))
        case .listJobs:
            .page(
                "List jobs, newest first", "A page of jobs.", "JobList",
                ["Session", "Group"] + jobFilters + jobPage,
                problems: [422])
        case .summarizeJobs:
            OperationDescription(
                "Count jobs by one or two properties", ["By", "Session", "Group"] + jobFilters, nil,
                .init(
                    200, "The numbers. They are exact if at most 20,000 jobs are to be looked at.",
                    json("JobSummary")))
        case .readJob:
            OperationDescription(
                "Read a job, or wait for its end", ["Prefer", "IfNoneMatch"], nil,
                .init(200, "The job.", json("Job"), ["ETag", "Preference-Applied"]), .unchanged)
        case .editJob:
            .change("Change an unfinished job", .patch("JobPatch"), "The job.", "Job", problems: [409])
        case .deleteJob:
            .delete(
                "Delete a terminal job and its managed file", "The job is deleted.", problems: [409])
        case .cancelJob:
            .change(
                "Cancel a job", .optional("CancelRequest"), "The job; it may still be running.", "Job",
                problems: [409])
        case .suspendJob:
            .change(
                "Suspend a job; a download keeps its bytes", .empty, "The job; it may still be running.",
                "Job", problems: [409])
        case .resumeJob: .change("Resume a suspended job", .empty, "The job.", "Job", problems: [409])
        case .acknowledgeJob:
            OperationDescription(
                "Acknowledge the result of a terminal job", [], .empty,
                .object("The job, acknowledged now or before.", "Job"), problems: [409])
        case .answerBegin: answer("Answer whether a job may begin", "BeginAnswer")
        case .answerRedirect: answer("Answer whether a job follows a redirect", "RedirectAnswer")
        case .answerChallenge: answer("Answer a challenge for credentials", "ChallengeAnswer")
        case .answerURLExpired: answer("Give a job whose URL is outdated another one", "URLExpiredAnswer")
        case .readContent:
            OperationDescription(
                "Fetch the file or body that a job received, or the response that rejected an upload",
                ["Follow", "PreferRedirect", "Range", "IfRange", "IfNoneMatch", "IfMatch"], nil,
                .init(200, "The whole content.", bytes, contentHeaders + ["Digest"]),
                .init(206, "The range.", bytes, contentHeaders + ["Content-Range"]),
                .unchanged, .redirected, problems: [409, 410, 416])
        case .readAttempts:
            OperationDescription(
                "List a job's attempts with the timings of every request", [], nil,
                .init(200, "The attempts, oldest first.", json("AttemptList")))
        case .retryJob:
            OperationDescription(
                "Submit a terminal job again, as a new one", ["IdempotencyKey", "Prefer", "Traceparent"],
                .empty, Self.accepted)
        default:
            OperationDescription(
                "Submit a job", ["IdempotencyKey", "Prefer", "Traceparent"], .json("JobRequest"),
                Self.accepted,
                .init(
                    200, "The job that has the unique key of the submitted one. No job is created.",
                    json("Job"), ["Location", "ETag", "Preference-Applied", "Idempotency-Replayed"]))
        }
    }

    private static let accepted = OperationDescription.Answer.created(
        "The job is accepted and stored.", "Job", ["Preference-Applied", "Idempotency-Replayed"])

    private func answer(_ summary: String, _ schema: String) -> OperationDescription {
        .change(summary, .json(schema), "The job with its new state.", "Job", problems: [409])
    }

    private var bulkDescription: OperationDescription {
        switch self {
        case .listBulkOperations:
            .page("List operations, newest first", "A page of operations.", "BulkOperationList")
        case .readBulkOperation:
            .read("Read an operation with its progress", "The operation.", "BulkOperation")
        case .cancelBulkOperation:
            OperationDescription(
                "Cancel a running operation; jobs that it has changed stay changed", [], .empty,
                .init(200, "The operation, cancelled or ended before.", json("BulkOperation")))
        case .suspendJobs: bulk("Suspend jobs", "BulkRequest")
        case .resumeJobs: bulk("Resume suspended jobs", "BulkRequest")
        case .cancelJobs: bulk("Cancel jobs", "BulkCancelRequest")
        default: bulk("Submit terminal jobs again that were not retried yet", "BulkRequest")
        }
    }

    private func bulk(_ summary: String, _ schema: String) -> OperationDescription {
        bulk("\(summary), by filter or identifiers", .json(schema))
    }

    private func bulk(_ summary: String, _ body: OperationDescription.Body) -> OperationDescription {
        OperationDescription(
            summary, ["IdempotencyKey", "Traceparent"], body,
            .init(200, "With dry_run: the number of jobs.", json("BulkDryRun")),
            .init(
                202, "The operation, which continues after the response.", json("BulkOperation"),
                ["Location", "Idempotency-Replayed"]))
    }

    private var groupDescription: OperationDescription {
        switch self {
        case .createJobGroup:
            .create("Create a group of jobs", .json("JobGroupRequest"), "The created group.", "JobGroup")
        case .listJobGroups: .page("List groups, newest first", "A page of groups.", "JobGroupList")
        case .readJobGroup: .read("Read a group with the counts of its jobs", "The group.", "JobGroup")
        case .closeJobGroup:
            OperationDescription(
                "Close a group: only retries of its jobs join it", [], .empty,
                .object("The group, closed now or before.", "JobGroup"))
        case .listGroupJobs:
            .page(
                "List a group's jobs, newest first", "A page of jobs.", "JobList",
                ["Session"] + jobFilters + jobPage, problems: [422])
        case .listJobGroupEvents:
            OperationDescription(
                "List a group's own events, newest first, or stream them",
                ["Since", "Limit", "Cursor", "LastEventID"], nil, eventPage)
        case .suspendJobGroup: bulk("Suspend the jobs of a group", .optional("GroupCommand"))
        case .resumeJobGroup: bulk("Resume the suspended jobs of a group", .optional("GroupCommand"))
        case .cancelJobGroup: bulk("Cancel the jobs of a group", .optional("GroupCancellation"))
        case .retryJobGroup:
            bulk("Submit the open failures of a group again", .optional("GroupCommand"))
        default:
            .delete(
                "Delete a finished group; its jobs are kept", "The group is deleted.", problems: [409])
        }
    }

    private var sessionDescription: OperationDescription {
        switch self {
        case .listSessions:
            .page(
                "List sessions by name", "A page of sessions, without their jobs.", "SessionList",
                ["Limit", "SessionCursor"])
        case .readSession: .read("Read a session with its unfinished jobs", "The session.", "Session")
        case .putSession:
            OperationDescription(
                "Create a session, or change it with If-Match", ["IfMatch"], .optional("SessionRequest"),
                .created("The created session.", "Session", []),
                .object("The session, unchanged or changed with If-Match.", "Session"),
                problems: [409, 428])
        case .listCredentials:
            .page(
                "List a session's credentials by name", "A page of credentials, without their secrets.",
                "CredentialList", ["Limit", "CredentialCursor"])
        case .readCredential:
            .read("Read a credential of a session", "The credential, without secrets.", "SessionCredential")
        case .putCredential:
            OperationDescription(
                "Create or replace a credential of a session", ["IfMatch"], .json("CredentialRequest"),
                .created("The created credential.", "SessionCredential", []),
                .object("The replaced or unchanged credential.", "SessionCredential"),
                problems: [409])
        case .deleteCredential:
            .delete(
                "Delete a credential of a session",
                "The credential is deleted; no job that is submitted later uses it.")
        case .listSessionJobs:
            .page(
                "List a session's jobs, newest first",
                "A page of jobs, empty if no session has this name; 404 if the name is invalid. The jobs of "
                    + "a deleted session are still listed.",
                "JobList", ["Group"] + jobFilters + jobPage, problems: [422])
        case .invalidateSession:
            .change(
                "Invalidate a session: it accepts no more jobs", .json("InvalidationRequest"),
                "The invalidated session.", "Session", problems: [409])
        case .resetSession:
            OperationDescription(
                "Remove all that a session remembers: its cookies and credentials", [], .empty,
                .object("The session.", "Session"), problems: [409])
        case .flushSession:
            OperationDescription(
                "Store what a session has in memory, and use new connections for its later jobs", [], .empty,
                .object("The session.", "Session"), problems: [409])
        case .listCookies, .replaceCookies, .addCookies, .deleteCookies: cookieDescription
        default:
            .delete(
                "Delete an invalidated session without unfinished jobs",
                "The session is deleted; its finished jobs are kept.", problems: [409])
        }
    }

    private var eventPage: OperationDescription.Answer {
        OperationDescription.Answer(
            200, "A page of events, or a stream of events with Accept: text/event-stream.",
            #"""
            {"application/json": {"schema": {"$ref": "#/components/schemas/EventList"}},
             "text/event-stream": {"schema": {"type": "string"}}}
            """#, ["Link"])
    }

    private var eventDescription: OperationDescription {
        let page = eventPage
        if self == .listEvents {
            return OperationDescription(
                "List events, newest first, or stream them",
                ["Session", "EventTypes", "Since", "Progress", "Limit", "Cursor", "LastEventID"], nil, page)
        }
        return OperationDescription(
            "List a job's events, newest first, or stream them",
            ["Progress", "Limit", "Cursor", "LastEventID"], nil, page,
            .init(204, "The job has ended, and no event follows."))
    }

    private var webhookDescription: OperationDescription {
        switch self {
        case .listDeliveries:
            .page(
                "List a job's deliveries with every try, newest first", "A page of deliveries.",
                "DeliveryList")
        case .readDelivery: .read("Read a delivery", "The delivery.", "Delivery")
        case .redeliver:
            OperationDescription(
                "Send a delivery again", [], .empty, .object("The delivery is due now.", "Delivery"))
        case .createWebhook:
            .create(
                "Create an endpoint; only this response shows its secret", .json("WebhookEndpointRequest"),
                "The endpoint with its secret.", "WebhookWithSecret")
        case .listWebhooks: .page("List endpoints, newest first", "A page of endpoints.", "WebhookList")
        case .readWebhook: .read("Read an endpoint", "The endpoint.", "Webhook")
        case .editWebhook:
            .change(
                "Change an endpoint; enabling it sends its pending deliveries", .patch("WebhookPatch"),
                "The changed endpoint.", "Webhook")
        case .deleteWebhook: .delete("Delete an endpoint and its deliveries", "The endpoint is deleted.")
        case .rotateSecret:
            .change(
                "Rotate the secret of an endpoint; only this response shows it",
                .optional("RotateSecretRequest"), "The endpoint with its new secret.", "WebhookWithSecret")
        case .testWebhook:
            OperationDescription(
                "Send a signed webhook.ping once and show the response", ["Traceparent"], .empty,
                .object("The delivery, without a try if none ended within 20 seconds.", "Delivery"))
        case .replayDeliveries:
            OperationDescription(
                "Send the deliveries of a period again, with the same identifiers", [],
                .json("ReplayRequest"), .init(200, "The deliveries are due now.", json("ReplayAnswer")))
        default:
            .page(
                "List an endpoint's deliveries with every try, newest first", "A page of deliveries.",
                "DeliveryList", ["DeliveryState", "DeliveryType", "Limit", "Cursor"])
        }
    }

    private var scheduleDescription: OperationDescription {
        switch self {
        case .createSchedule:
            .create(
                "Create a schedule", .json("ScheduleRequest"), "The created schedule.", "ScheduleView")
        case .listSchedules: .page("List schedules, newest first", "A page of schedules.", "ScheduleList")
        case .readSchedule: .read("Read a schedule", "The schedule.", "ScheduleView")
        case .replaceSchedule:
            .change(
                "Replace a schedule, including its jobs and secrets", .json("ScheduleRequest"),
                "The replaced schedule.", "ScheduleView")
        case .deleteSchedule: .delete("Delete a schedule; its jobs are kept", "The schedule is deleted.")
        case .runSchedule:
            OperationDescription(
                "Submit the jobs of a schedule now", ["IdempotencyKey", "Traceparent"], .empty,
                .init(
                    201, "The job, or the accepted jobs of a schedule with several jobs, in order.",
                    runContent, ["Location", "ETag", "Idempotency-Replayed"]),
                .init(
                    200, "Jobs that exist and have the unique keys of all submitted ones.", runContent,
                    ["Location", "ETag", "Idempotency-Replayed"]))
        default:
            .change(
                self == .pauseSchedule
                    ? "Pause a schedule" : "Resume a paused schedule with its next occurrence",
                .empty, "The changed schedule.", "ScheduleView")
        }
    }

    private var adminDescription: OperationDescription {
        switch self {
        case .readWindows:
            .read("Read the windows for discretionary jobs and rates", "The windows.", "Windows")
        case .changeWindows:
            .change("Change the windows", .patch("WindowsPatch"), "The changed windows.", "Windows")
        case .createKey:
            .create("Create a key; only this response shows it", .json("KeyRequest"), "The key.", "NewKey")
        case .listKeys: .page("List keys, revoked ones included, newest first", "A page of keys.", "KeyList")
        case .readKey: .read("Read a key, without its secret text", "The key.", "Key")
        case .revokeKey:
            .delete(
                "Revoke a key permanently, also the key of the configuration",
                "The key is revoked: on this node immediately, on others within 5 seconds.")
        case .listNodes: .page("List the nodes, newest first", "A page of nodes.", "NodeList")
        case .readLimits: .read("Read the rate limits of all transfers", "The limits.", "TransferLimits")
        case .changeLimits:
            .change(
                "Change the rate limits, also of running transfers", .patch("LimitsPatch"),
                "The changed limits.", "TransferLimits")
        case .listTenants:
            .page(
                "List the tenants with their unfinished jobs, by name",
                "A page of tenants with unfinished jobs, at most 2 seconds old.", "TenantList",
                ["Limit", "TenantCursor"])
        case .readTenantLimits:
            .read(
                "Read the limits of a tenant; a tenant without limits need not exist", "The limits.",
                "TenantLimits")
        case .replaceTenantLimits:
            .change(
                "Replace the limits of a tenant; a field that is absent or null is no limit",
                .json("TenantLimitsRequest"), "The limits.", "TenantLimits")
        case .listAudit:
            .page("List the audit log: changes by operators, newest first", "A page of entries.", "Audit")
        case .listHosts:
            .page(
                "List hosts that are configured, limited or failing", "A page of hosts, ordered by name.",
                "HostList", ["Limit", "HostCursor"])
        case .readHost: .read("Read a host; an unknown host has default settings", "The host.", "Host")
        case .changeHost:
            .change(
                "Change the settings of a host, on every node", .patch("HostPatch"), "The changed host.",
                "Host", problems: [409])
        case .pauseService:
            command(
                "Pause the service: no node begins jobs, running jobs continue", "The new state.", "Pause")
        case .resumeService: command("Resume the service", "The new state.", "Pause")
        case .drainNode:
            command(
                "Drain a node: it starts no jobs, finishes those that run, serves the API, and its /readyz "
                    + "is 503, until it is resumed or restarted",
                "The node.", "Node")
        case .resumeNode: command("Resume a node that drains", "The node.", "Node")
        case .readContentStore:
            OperationDescription(
                "Read the state of the content store", [], nil,
                .init(200, "The state, as this node sees it.", json("ContentStore")))
        case .acceptContentStore:
            OperationDescription(
                "Accept that the database was restored: the content store is swept again", [], .empty,
                .init(200, "The new state.", json("ContentStore")), problems: [409])
        default:
            OperationDescription(
                "Read the state of the service", [], nil,
                .init(200, "The state, with exact numbers of unfinished jobs.", json("Status")))
        }
    }

    private func command(_ summary: String, _ text: String, _ schema: String) -> OperationDescription {
        OperationDescription(summary, [], .empty, .init(200, text, json(schema)))
    }

    private var serviceDescription: OperationDescription {
        switch self {
        case .live:
            OperationDescription(
                "Check whether the process responds", [], nil, .init(200, "The process responds.", plainText))
        case .ready:
            OperationDescription(
                "Check whether the node is ready", ["Verbose"], nil,
                .init(200, "The node is ready.", plainText),
                .init(503, "The node is not ready; the lines name the failed checks.", plainText))
        case .metrics:
            OperationDescription(
                "Read the metrics of this node for Prometheus, with any key", [], nil,
                .init(200, "Prometheus text format 0.0.4, of all tenants together.", plainText))
        case .openapi:
            OperationDescription(
                "Read this document", ["IfNoneMatch"], nil,
                .init(
                    200, "OpenAPI 3.1.", #"{"application/json": {"schema": {"type": "object"}}}"#, ["ETag"]),
                .unchanged)
        default:
            OperationDescription(
                "Read this document as a page", ["IfNoneMatch"], nil,
                .init(200, "The page.", #"{"text/html": {"schema": {"type": "string"}}}"#, ["ETag"]),
                .unchanged)
        }
    }
}

private let jobFilters = [
    "State", "Kind", "Host", "CreatedAfter", "Schedule", "Acknowledged", "ErrorCode", "WaitingReasonCode",
    "FinishedAfter", "FinishedBefore", "Retried", "RetryOf", "Metadata",
]
private let jobPage = ["SelectedFields", "Limit", "Cursor"]
let contentHeaders = ["ETag", "Accept-Ranges", "Content-Disposition", "Repr-Digest"]
let bytes = #"{"*/*": {"schema": {"type": "string", "format": "binary"}}}"#
private let plainText = #"{"text/plain": {"schema": {"type": "string"}}}"#
private let batchContent = #"""
    {"application/json": {"schema": {"$ref": "#/components/schemas/BatchRequest"}},
     "application/x-ndjson": {"schema": {"type": "string", "description": "A job per line."}},
     "application/ndjson": {"schema": {"type": "string", "description": "A job per line."}},
     "application/jsonl": {"schema": {"type": "string", "description": "A job per line."}}}
    """#
private let runContent = #"""
    {"application/json": {"schema": {"oneOf": [
        {"$ref": "#/components/schemas/Job"}, {"$ref": "#/components/schemas/BatchAnswer"}]}}}
    """#
