public import FerryCore
internal import HTTPServer

/// Codes of the errors that the API responds with. Clients switch on the raw value; `/docs#code` explains it.
enum ProblemCode: String, Sendable, CaseIterable {
    case badJSON = "bad_json"
    case invalidParameter = "invalid_parameter"
    case invalidHeader = "invalid_header"
    case invalidCursor = "invalid_cursor"
    case unauthorized, forbidden
    case notFound = "not_found"
    case noContent = "no_content"
    case contentMissing = "content_missing"
    case methodNotAllowed = "method_not_allowed"
    case idempotencyKeyInProgress = "idempotency_key_in_progress"
    case invalidState = "invalid_state"
    case notRepeatable = "not_repeatable"
    case notAwaited = "not_awaited"
    case sessionInvalidated = "session_invalidated"
    case sessionInUse = "session_in_use"
    case sessionNotConfigured = "session_not_configured"
    case tooManySessions = "too_many_sessions"
    case limitReached = "limit_reached"
    case groupClosed = "group_closed"
    case groupExists = "group_exists"
    case groupNotFinished = "group_not_finished"
    case uniqueKeyTaken = "unique_key_taken"
    case uploadInUse = "in_use"
    case uploadExists = "upload_exists"
    case uploadMissing = "upload_missing"
    case uploadIncomplete = "upload_incomplete"
    case uploadComplete = "upload_complete"
    case uploadSuperseded = "upload_superseded"
    case offsetMismatch = "offset_mismatch"
    case uploadLengthMismatch = "upload_length_mismatch"
    case digestMismatch = "digest_mismatch"
    case unsupportedVersion = "unsupported_version"
    case storageFull = "storage_full"
    case stale
    case preconditionRequired = "precondition_required"
    case bodyTooLarge = "body_too_large"
    case unsupportedMediaType = "unsupported_media_type"
    case rangeNotSatisfiable = "range_not_satisfiable"
    case invalidFields = "invalid_fields"
    case idempotencyKeyReused = "idempotency_key_reused"
    case rateLimited = "rate_limited"
    case tooManyJobs = "too_many_jobs"
    case quotaExceeded = "quota_exceeded"
    case storageQuotaExceeded = "storage_quota_exceeded"
    case internalError = "internal_error"
    case storeUnavailable = "store_unavailable"
    case overloaded
    case tooManyStreams = "too_many_streams"
    case nodeUnavailable = "node_unavailable"
    case nodeRequestRefused = "node_request_refused"

    var status: Int {
        switch self {
        case .badJSON, .invalidParameter, .invalidHeader, .invalidCursor, .uploadComplete,
            .uploadLengthMismatch, .digestMismatch:
            400
        case .unauthorized, .nodeRequestRefused: 401
        case .forbidden: 403
        case .notFound, .noContent: 404
        case .methodNotAllowed: 405
        case .idempotencyKeyInProgress, .invalidState, .notRepeatable, .notAwaited, .sessionInvalidated,
            .sessionInUse, .sessionNotConfigured, .tooManySessions, .limitReached, .groupClosed, .groupExists,
            .groupNotFinished,
            .uniqueKeyTaken, .uploadInUse, .uploadExists, .uploadMissing, .uploadIncomplete,
            .uploadSuperseded, .offsetMismatch:
            409
        case .contentMissing: 410
        case .stale, .unsupportedVersion: 412
        case .bodyTooLarge, .storageQuotaExceeded: 413
        case .unsupportedMediaType: 415
        case .rangeNotSatisfiable: 416
        case .invalidFields, .idempotencyKeyReused: 422
        case .preconditionRequired: 428
        case .rateLimited, .tooManyJobs, .quotaExceeded, .overloaded, .tooManyStreams: 429
        case .internalError: 500
        case .storeUnavailable, .nodeUnavailable: 503
        case .storageFull: 507
        }
    }

    /// Title of the problem; constant for each code (RFC 9457 §3.1.3).
    var title: String {
        switch self {
        case .badJSON: "The body is not JSON"
        case .invalidParameter: "A query parameter is wrong"
        case .invalidHeader: "A header field is wrong"
        case .invalidCursor: "The cursor does not belong to this list"
        case .unauthorized: "A valid key is needed"
        case .forbidden: "The key may not do this"
        case .notFound: "No such endpoint or object"
        case .noContent: "The job has no content"
        case .contentMissing: "The content store has lost the content"
        case .methodNotAllowed: "The method is not allowed here"
        case .idempotencyKeyInProgress: "The first request with this key is not finished"
        case .invalidState: "The job's state does not allow this"
        case .notRepeatable: "The request of the job cannot be repeated"
        case .notAwaited: "The job asks for no acknowledgement"
        case .sessionInvalidated: "The session takes no more jobs"
        case .sessionInUse: "The session is not invalidated, has unfinished jobs, or is the default one"
        case .sessionNotConfigured: "The session is not configured"
        case .tooManySessions: "There are too many sessions"
        case .limitReached: "The limit of objects is reached"
        case .groupClosed: "The group takes no more jobs"
        case .groupExists: "A group has this name"
        case .groupNotFinished: "The group is not finished"
        case .uniqueKeyTaken: "Another job has the unique key"
        case .uploadInUse: "A job needs the upload"
        case .uploadExists: "Another upload has this name"
        case .uploadMissing: "The upload does not exist"
        case .uploadIncomplete: "The upload is not complete"
        case .uploadComplete: "The upload is complete"
        case .uploadSuperseded: "A later request works on the upload"
        case .offsetMismatch: "The upload continues at another place"
        case .uploadLengthMismatch: "The bytes do not fit the size of the upload"
        case .digestMismatch: "The bytes are not the ones that were announced"
        case .unsupportedVersion: "The version of the protocol is not supported"
        case .storageFull: "There is no room on the disk"
        case .stale: "The object has changed"
        case .preconditionRequired: "A change needs If-Match"
        case .bodyTooLarge: "The body is too large"
        case .unsupportedMediaType: "The media type is not supported"
        case .rangeNotSatisfiable: "The range is beyond the content"
        case .invalidFields: "Fields of the body are wrong"
        case .idempotencyKeyReused: "The key was used for another request"
        case .rateLimited: "Too many requests"
        case .tooManyJobs: "Too many unfinished jobs"
        case .quotaExceeded: "A limit of the tenant is reached"
        case .storageQuotaExceeded: "The tenant's stored files reach their limit"
        case .internalError: "Internal error"
        case .storeUnavailable: "The database, or the place of the content, is not available"
        case .overloaded: "Too many requests are waiting"
        case .tooManyStreams: "The tenant has too many streams on this node"
        case .nodeUnavailable: "The node that has this does not answer"
        case .nodeRequestRefused: "The request of a node is refused"
        }
    }
}

extension RefusalCode {
    /// Like `ProblemCode.title`.
    var title: String {
        switch self {
        case .malformedRequest: "The head of the request is malformed"
        case .invalidMethod: "The method is not a token"
        case .invalidTarget: "The request target is not a path"
        case .invalidHost: "One valid Host is needed"
        case .invalidHeaderName: "The name of a header field is not a token"
        case .invalidHeaderValue: "A header field holds a control character"
        case .foldedHeader: "A header field runs over several lines"
        case .invalidContentLength: "Content-Length is not one number"
        case .ambiguousLength: "The body has two lengths"
        case .invalidTransferEncoding: "Transfer-Encoding needs HTTP/1.1"
        case .bodyTooLarge: ProblemCode.bodyTooLarge.title
        case .uriTooLong: "The request target is too long"
        case .hostMismatch: "The request target names another host than Host"
        case .tooManyHeaders: "There are too many header fields"
        case .headersTooLarge: "The header fields are too large"
        case .unknownTransferEncoding: "Transfer-Encoding must be chunked"
        case .shuttingDown: "This node is stopping"
        case .responseDeadline: "The response took too long"
        }
    }
}

/// All problems that a client can receive: those of the API and those of `HTTPServer`, each code once.
let allProblems: [(code: String, status: Int, title: String)] = {
    var problems = ProblemCode.allCases.map { (code: $0.rawValue, status: $0.status, title: $0.title) }
    for code in RefusalCode.allCases where ProblemCode(rawValue: code.rawValue) == nil {
        problems.append((code: code.rawValue, status: code.status, title: code.title))
    }
    return problems
}()

/// An error as a problem document (RFC 9457).
struct Problem: Error, Sendable {
    var status: Int
    var code: String
    var title: String
    var detail: String
    var errors: [FieldError] = []
    /// State of the job, for `invalid_state`.
    var state: JobState?
    /// Reason why the job waits, for `invalid_state`.
    var waitingFor: WaitingFor?
    /// Current revision of the object, for `stale`.
    var revision: Int32?
    /// The job that has the key, for `unique_key_taken`.
    var job: JobID?
    /// The node that does not answer, for `node_unavailable`.
    var unavailable: NodeUnavailable?
    /// URI of the problem type, if another specification defines it.
    var type: String?
    /// Places in the upload, for `offset_mismatch`.
    var uploadOffsets: UploadOffsets?
    var fields: [(name: String, value: String)] = []

    init(_ code: ProblemCode, _ detail: String) {
        status = code.status
        self.code = code.rawValue
        title = code.title
        self.detail = detail
        switch code {
        case .storeUnavailable, .idempotencyKeyInProgress, .nodeUnavailable:
            fields.append(("Retry-After", "1"))
        default: break
        }
    }

    /// A refusal by `HTTPServer`.
    init(refusal code: RefusalCode, _ detail: String) {
        status = code.status
        self.code = code.rawValue
        title = code.title
        self.detail = detail
        if status == 503 { fields.append(("Retry-After", "1")) }
    }

    /// The node ends its streams and opens no others.
    static var stopping: Problem {
        Problem(refusal: .shuttingDown, "This node is stopping; use another node, or try again later.")
    }

    /// A tenant has as many streams as it leaves free. `quota`: the most that it can have.
    static func tooManyStreams(_ subject: String, _ name: String, quota: Int) -> Problem {
        var problem = Problem(
            .tooManyStreams,
            "The tenant has as many \(subject) on this node as it leaves to others, or \(quota); close one, "
                + "or try again later.")
        problem.fields = quotaFields(name, quota: Int64(quota), seconds: 5)
        return problem
    }

    init(_ failure: NodeUnavailable) {
        self.init(.nodeUnavailable, failure.detail)
        unavailable = failure
    }

    init(_ fields: InvalidFields) {
        let count = fields.errors.count
        self.init(
            .invalidFields,
            count == 1
                ? "\(fields.errors[0].pointer): \(fields.errors[0].detail)" : "\(count) errors; see errors.")
        errors = fields.errors
    }

    init(_ error: StoreError) {
        switch error {
        case .unavailable:
            self.init(
                .storeUnavailable,
                "The database cannot be reached. The request may or may not be stored; send it again.")
        case .overloaded:
            self.init(.overloaded, "Too many submissions wait for the database; try again later.")
            fields += quotaFields("submissions", quota: Limits.waitingJobCountMax, seconds: 1)
        case .tooManyReads:
            self.init(
                .overloaded,
                "\(Limits.waitingReadCountMax) reads of this tenant wait on this node; try again later.")
            fields += quotaFields("reads", quota: Int64(Limits.waitingReadCountMax), seconds: 1)
        case .readStopped:
            self.init(
                .storeUnavailable,
                "The database stopped this read, which may take \(Int(Limits.readSecondsMax)) s; try again.")
        case .eventsBehind:
            self.init(
                .storeUnavailable,
                "Too many events of this tenant have no number yet. The job is not deleted; try again later.")
        case .tooManyJobs(let countMax, let seconds):
            self.init(
                .tooManyJobs,
                "The tenant would have more than \(countMax) unfinished jobs; try again later.")
            fields += quotaFields("jobs", quota: countMax, seconds: seconds)
        case .quotaExceeded(let quota, let countMax, let seconds):
            self.init(quota, max: countMax, seconds: seconds)
        case .storageQuotaExceeded(let byteCountMax):
            self.init(
                .storageQuotaExceeded,
                "The tenant's files and bodies have reached its limit of \(byteCountMax) bytes. Delete jobs, "
                    + "or name a path for the file.")
        case .notFound: self.init(.notFound, "There is no such object, or it belongs to another tenant.")
        case .contentMissing:
            self.init(
                .contentMissing,
                "The content store has no longer the object with the content of the job.")
        case .idempotencyKeyReused:
            self.init(
                .idempotencyKeyReused,
                "The tenant used this Idempotency-Key for another method, path or body. Use a new key.")
        case .idempotencyKeyInProgress:
            self.init(.idempotencyKeyInProgress, "A request with this Idempotency-Key is being processed.")
        case .invalidState(let state, let waitingFor):
            let reason = waitingFor.map { " (waiting_for: \($0.rawValue))" } ?? ""
            self.init(.invalidState, "The job is \(state.rawValue)\(reason).")
            self.state = state
            self.waitingFor = waitingFor
        case .requestNotRepeatable:
            self.init(
                .notRepeatable,
                "The job is running, and its request is not idempotent: after a suspension it could not be "
                    + "sent again. Wait until the job ends, or cancel it.")
        case .acknowledgementNotRequired:
            self.init(.notAwaited, "The job asks for no acknowledgement; it is deleted after its retention.")
        case .stale(let revision):
            self.init(
                .stale,
                revision.map { "The object has the revision \($0), not the one of If-Match." }
                    ?? "The object has changed since the version of If-Match.")
            self.revision = revision
        case .sessionInvalidated: self.init(.sessionInvalidated, "The session was invalidated.")
        case .sessionsChanged:
            self.init(.storeUnavailable, "The session was changed at the same time; try again.")
        case .sessionInUse:
            self.init(.sessionInUse, "Only an invalidated session without unfinished jobs can be deleted.")
        case .sessionNotConfigured:
            self.init(
                .sessionNotConfigured,
                "The session is not configured, and remembers nothing between its jobs. Configure it with "
                    + "PUT /v1/sessions/{identifier} first.")
        case .tooManySessions:
            self.init(
                .tooManySessions,
                "A tenant may have \(Limits.sessionCountMax) configured sessions.")
        case .tooManyCredentials:
            self.init(
                .limitReached,
                "A session may have \(Limits.sessionCredentialCountMax) credentials, and all sessions of a "
                    + "tenant \(Limits.tenantCredentialCountMax). Delete some.")
        case .tooManyBulkOperations:
            self.init(
                .limitReached,
                "A tenant may have \(Limits.bulkOperationCountMax) running operations. Wait until one has "
                    + "ended, or cancel one.")
        case .groupClosed:
            self.init(.groupClosed, "The group is closed: only retries of its jobs join it.")
        case .groupMissing:
            self.init(InvalidFields("#", "invalid_value", "A group that depends_on names does not exist."))
        case .groupAwaited:
            self.init(
                InvalidFields(
                    "#", "invalid_combination",
                    "A job with dependencies cannot join a group on which a job depends."))
        case .groupExists: self.init(.groupExists, "The tenant has a group with this name.")
        case .groupUnfinished:
            self.init(
                .groupNotFinished,
                "Only a finished group can be deleted: one that is closed and has no unfinished jobs.")
        case .tooManyGroups:
            self.init(
                .limitReached, "A tenant may have \(Limits.jobGroupCountMax) groups. Delete finished ones.")
        case .tooManyUploads:
            self.init(
                .limitReached, "A tenant may have \(Limits.uploadCountMax) staged uploads. Delete some.")
        case .uploadInUse:
            self.init(
                .uploadInUse,
                "An unfinished job needs the upload. With force=true it is deleted all the same.")
        case .uploadMissing:
            self.init(
                .uploadMissing,
                "An upload that a job of the schedule sends does not exist. Send it again under its name, or "
                    + "replace the schedule.")
        case .uploadIncomplete:
            self.init(
                .uploadIncomplete,
                "An upload that a job of the schedule sends is not complete. A discretionary job, and one "
                    + "that ignores failed dependencies, cannot wait for it.")
        case .uniqueKeyTaken(let job):
            self.init(.uniqueKeyTaken, "The job \(job) has the unique key of this job.")
            self.job = job
        case .failed:
            self.init(.internalError, "The request failed; the log has its cause under its request_id.")
        }
    }

    /// A submission that a limit of the tenant refuses.
    private init(_ quota: TenantQuota, max countMax: Int64, seconds: Double) {
        switch quota {
        case .unfinishedJobs:
            self.init(
                .quotaExceeded,
                "The tenant would have more than its \(countMax) unfinished jobs; try again later.")
            fields += quotaFields("jobs", quota: countMax, seconds: seconds)
        case .bytesPerDay:
            self.init(
                .quotaExceeded,
                "The tenant has used up its \(countMax) bytes of today; try again after midnight (UTC).")
            fields += quotaFields("bytes", quota: countMax, window: 86_400, seconds: seconds)
        }
    }

    func response(requestID: String) -> Response {
        let body = ShownProblem(problem: self, requestID: requestID).shown(reservingCapacity: 384)
        var fields = HTTPFields([("Content-Type", "application/problem+json"), ("Cache-Control", "no-store")])
        for field in self.fields { fields.append(field.name, field.value) }
        return Response(status: status, fields: fields, body: .bytes(body))
    }
}

/// Places in an upload that do not match.
struct UploadOffsets: Sendable {
    let expected: Int64
    let provided: Int64
}

/// The body of an error response.
struct ShownProblem: ShownObject {
    static let summary = "An error response (RFC 9457)."
    static let schemaName = "Problem"

    fileprivate let problem: Problem
    fileprivate let requestID: String

    static func members(_ list: inout some MemberVisitor<Self>) {
        list.member(
            "type", { $0.problem.type ?? "/docs#\($0.problem.code)" },
            "URI reference of the documentation of the code, or of the specification that defines it.",
            [JSON.Member("format", "uri-reference")])
        list.member("title", \.problem.title, "Kind of the problem, the same text for each code.")
        list.member("status", \.problem.status, "HTTP status code of the response.")
        list.member("detail", \.problem.detail, "What is wrong with this request, as a sentence.")
        list.member("code", \.problem.code, "Stable code of the problem; /docs explains it.")
        list.member("request_id", \.requestID, "Identifier of the request, as in X-Request-Id and the log.")
        list.optional("state", \.problem.state, "State of the job. Only with the code invalid_state.")
        list.optional(
            "waiting_for", \.problem.waitingFor?.rawValue,
            "What the job waits for. Only with the state waiting.")
        list.optional("revision", \.problem.revision, "Only with the code stale: the current revision.")
        list.optional(
            "job", \.problem.job, "Only with the code unique_key_taken: the job that has the key.")
        list.optional(
            "node", \.problem.unavailable?.node, "Only with the code node_unavailable: the node to ask.")
        list.optional(
            "heartbeat_at", \.problem.unavailable?.heartbeatAt,
            "Only with the code node_unavailable: time of the node's last heartbeat, if it is known.")
        list.optional(
            "expected-offset", \.problem.uploadOffsets?.expected,
            "Only with the code offset_mismatch: the place where the upload continues.")
        list.optional(
            "provided-offset", \.problem.uploadOffsets?.provided,
            "Only with the code offset_mismatch: the place that the request has named.")
        list.optional(
            "errors", { $0.problem.errors.isEmpty ? nil : $0.problem.errors },
            "The wrong fields of the body. Absent if no field is wrong.")
    }
}

extension FieldError: ShownObject {
    public static let summary = "An error of one field of the request's body."
    public static let schemaName = "FieldError"

    public static func members(_ list: inout some MemberVisitor<Self>) {
        list.member("pointer", \.pointer, "JSON Pointer of the field.", [.examples("#/request/url")])
        list.member("code", \.code, "Stable code of the error.")
        list.member("detail", \.detail, "The error as a sentence.")
    }
}
