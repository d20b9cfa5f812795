internal import FerryCore

/// A parameter that several operations share.
struct Parameter: Sendable {
    enum Place: String { case path, query, header }

    /// Name of the component.
    let component: String
    let name: String
    let place: Place
    let schema: [JSON.Member]
    let text: String
    /// Further members of the component.
    let rules: [JSON.Member]

    init(
        _ component: String, _ name: String, _ place: Place,
        _ schema: [JSON.Member], _ text: String, _ rules: [JSON.Member] = []
    ) {
        self.component = component
        self.name = name
        self.place = place
        self.schema = schema
        self.text = text
        self.rules = rules
    }

    var json: JSON {
        var members: [JSON.Member] = [.init("name", .string(name)), .init("in", .string(place.rawValue))]
        if place == .path { members.append(.init("required", .bool(true))) }
        members += [.init("schema", .object(schema)), .init("description", .string(text))]
        return .object(members + rules)
    }
}

let parameters: [Parameter] = [
    Parameter("Session", "session", .query, sessionName, "Only jobs or events of this session."),
    Parameter("Group", "group", .query, String.schema(.groupName), "Only jobs of this group."),
    Parameter(
        "State", "state", .query, list("JobState", JobState.allCases.count),
        "Only jobs in one of these states.", commaSeparated),
    Parameter("Kind", "kind", .query, JobKind.schema(NoRule()), "Only jobs of this kind."),
    Parameter(
        "Host", "host", .query, String.schema(HostReference.textRule),
        "Only jobs whose request.url is at this host: a name with any port, host:port with any scheme, or an "
            + "origin.", hostExamples),
    Parameter(
        "CreatedAfter", "created_after", .query, time, "Only jobs that were submitted after this time."),
    Parameter(
        "Schedule", "schedule", .query, ScheduleID.shownSchema, "Only jobs that this schedule submitted."),
    Parameter(
        "Metadata", "metadata.KEY", .query, String.schema(TextRule(0...Limits.metadataValueByteCountMax)),
        "Only jobs whose metadata has this value for the name KEY. If several names are given, all must "
            + "match."),
    Parameter(
        "Acknowledged", "acknowledged", .query, [.init("const", "false")],
        "Only terminal jobs that wait for their acknowledgement."),
    Parameter(
        "ErrorCode", "error", .query, list(of: TransferError.Code.self),
        "Only jobs whose error has one of these codes: failed ones, and unfinished ones whose last attempt "
            + "failed so.", commaSeparated),
    Parameter(
        "WaitingReasonCode", "waiting_reason", .query, list(of: WaitingReasonCode.self),
        "Only jobs whose waiting_reason has one of these codes.", commaSeparated),
    Parameter(
        "FinishedAfter", "finished_after", .query, time, "Only jobs that ended after this time."),
    Parameter(
        "FinishedBefore", "finished_before", .query, time, "Only jobs that ended before this time."),
    Parameter(
        "Retried", "retried", .query, Bool.schema(NoRule()),
        "true: only jobs that were retried. false: only others."),
    Parameter("RetryOf", "retry_of", .query, JobID.shownSchema, "Only retries of this job."),
    Parameter(
        "By", "by", .query,
        JSON.rules(
            ##"""
            {"type": "array", "items": {"type": "string", "enum": [\##(
                SummaryDimension.allCases.map { "\"\($0.rawValue)\"" }.joined(separator: ", "))]},
             "minItems": 1, "maxItems": 2, "uniqueItems": true}
            """##), "Properties by which jobs are counted.",
        [JSON.Member("required", .bool(true))] + commaSeparated),
    Parameter(
        "SelectedFields", "fields", .query,
        JSON.rules(
            ##"""
            {"type": "array", "items": {"type": "string"}, "minItems": 1,
             "maxItems": \##(Limits.selectedFieldCountMax)}
            """##),
        "Only these members of each job. A dot precedes the members of an object: id,state,error.code.",
        commaSeparated),
    Parameter(
        "Limit", "limit", .query, Int.schema(1...Limits.listLimitMax) + standard(Limits.listLimitDefault),
        "Number of entries of a page, at most. A page may have fewer entries, or none: the list ends where "
            + "next_cursor is null."),
    cursor("Cursor", text(26...26, "^[0-7][0-9a-hjkmnp-tv-z]{25}$")),
    cursor("SessionCursor", text(9...136, #"^session\.\#(TextRule.sessionNamePattern)$"#)),
    cursor("CredentialCursor", text(12...139, #"^credential\.\#(TextRule.sessionNamePattern)$"#)),
    cursor("TenantCursor", text(8...135, #"^tenant\.[a-z0-9_-]{1,128}$"#)),
    cursor("CookieCursor", text(10...32_768, "^cookie\\.([0-9a-f]{2})+$")),
    Parameter(
        "CookieDomain", "domain", .query, String.schema(TextRule(1...Limits.cookieAttributeByteCountMax)),
        "Only cookies that would be sent to this host."),
    Parameter(
        "CookieName", "name", .query, String.schema(TextRule(0...Limits.cookieByteCountMax)),
        "Only cookies with this name."),
    Parameter(
        "CookiePath", "path", .query, String.schema(TextRule(1...Limits.cookieAttributeByteCountMax)),
        "Only cookies of this path."),
    Parameter(
        "CookieSince", "since", .query, time, "Only cookies that were created at this time or later."),
    cursor("HostCursor", String.schema(HostReference.originRule)),
    Parameter(
        "EventTypes", "type", .query, list("AnyEventType", EventType.allCases.count),
        "Only events of these types.", commaSeparated),
    Parameter("Since", "since", .query, time, "Only events from this time on."),
    Parameter(
        "Progress", "progress", .query, Bool.schema(NoRule()),
        "Only for streams: false omits the progress of jobs that run on this node, which is sent at most "
            + "twice a second. Lists reject this parameter."),
    Parameter(
        "Follow", "follow", .query, Bool.schema(NoRule()),
        "true: sends what has arrived of the content and then what arrives, from byte 0 on, also of a job "
            + "that has not begun. The bytes are not verified before the end. If the job succeeds, the body "
            + "ends with the trailer X-Ferry-State: succeeded. If it does not, or if the download restarts "
            + "from byte 0, the connection is closed before the end of the body. Needs HTTP/1.1 or later; "
            + "excludes Range, If-Range and If-Match."),
    header(
        "LastEventID", "Last-Event-ID",
        "Only for streams: the stream continues after this event (evt_…). Lists ignore it."),
    Parameter(
        "DeliveryState", "state", .query, DeliveryRecord.State.choices, "Only deliveries in this state."),
    Parameter(
        "DeliveryType", "type", .query,
        JSON.rules(
            ##"{"anyOf": [{"$ref": "#/components/schemas/AnyEventType"}, {"const": "webhook.ping"}]}"##),
        "Only deliveries of events of this type."),
    Parameter(
        "HostName", "host", .path, String.schema(HostReference.textRule),
        "An origin, percent-encoded. A name without a scheme means https.", hostExamples),
    Parameter(
        "TenantName", "tenant", .path, text(1...Limits.nameByteCountMax, "^[a-z0-9_-]+$"),
        "Name of the tenant."),
    Parameter(
        "UploadName", "upload", .path, text(1...Limits.nameByteCountMax, "^[A-Za-z0-9._-]+$"),
        "Identifier of the upload, or the name that the client has given it."),
    Parameter(
        "UploadIsComplete", "complete", .query, Bool.schema(NoRule()),
        "true: only complete uploads. false: only incomplete ones."),
    Parameter(
        "NameOfUpload", "name", .query, text(1...Limits.nameByteCountMax, "^[A-Za-z0-9._-]+$"),
        "Only the upload with this name of the client."),
    Parameter(
        "UploadCreatedAfter", "created_after", .query, time,
        "Only uploads that were created after this time."),
    Parameter(
        "UploadCreatedBefore", "created_before", .query, time,
        "Only uploads that were created before this time."),
    Parameter(
        "Force", "force", .query, Bool.shownSchema,
        "true: the upload is deleted although an unfinished job needs it; jobs that wait for it fail."),
    header(
        "UploadOffset", "Upload-Offset",
        "Place of the first byte of the body in the upload: the offset that the upload has."),
    header(
        "UploadComplete", "Upload-Complete",
        "?1 if the body completes the upload, else ?0 (resumable uploads of the IETF)."),
    header(
        "UploadLength", "Upload-Length",
        "Size of the complete upload in bytes (tus 1.0 and resumable uploads of the IETF)."),
    header(
        "UploadMetadata", "Upload-Metadata",
        "Names and values of the client: pairs of a name and a value in base64, with commas between them."),
    header(
        "ReprDigest", "Repr-Digest",
        "SHA-256 of the complete upload (RFC 9530). If the bytes have another one, they are not kept."),
    header(
        "ContentDigest", "Content-Digest",
        "Digest of the body (RFC 9530). If the body has another one, its bytes are not kept."),
    Parameter(
        "CredentialName", "credential", .path, String.schema(.credentialName), "Name of the credential."),
    Parameter("GroupName", "name", .path, String.schema(.groupName), "Name of the group."),
    Parameter(
        "Verbose", "verbose", .query, String.schema(TextRule(0...Limits.nameByteCountMax)),
        "Adds a line for each check to the response.", [.init("allowEmptyValue", .bool(true))]),
    Parameter(
        "IdempotencyKey", "Idempotency-Key", .header,
        text(1...257, #"^([!#-~][!-~]{0,254}|"[!#-~]{1,255}")$"#),
        "Identifies one request of the tenant, whatever its method and path. A repetition with the same key "
            + "gets the first response again; the order of members and white space of the body do not "
            + "matter. Another method, path or body gets 422 idempotency_key_reused. Kept for 24 hours."),
    Parameter(
        "Prefer", "Prefer", .header, String.shownSchema + [.examples("wait=30")],
        "wait=N delays the response until the job is terminal or N seconds have passed, at most 60."),
    Parameter(
        "PreferRedirect", "Prefer", .header, String.shownSchema + [.examples("redirect")],
        "redirect: where the content is in an object store, the response is 307 with an address at which it "
            + "can be fetched without a key for 15 minutes. Otherwise the bytes are sent."),
    header(
        "Traceparent", "traceparent",
        "Trace of the client (W3C Trace Context). Without a valid value a new trace begins. tracestate is "
            + "passed on with it."),
    Parameter(
        "IfMatch", "If-Match", .header, String.shownSchema + [.examples("\"r3\"")],
        "The request is carried out only if the object has this ETag; otherwise the response is 412."),
    header("IfNoneMatch", "If-None-Match", "If the object has this ETag, the response is 304."),
    Parameter(
        "Range", "Range", .header, String.shownSchema + [.examples("bytes=0-99")],
        "A range of bytes. A request for several ranges gets the whole content."),
    header(
        "IfRange", "If-Range",
        "The range is sent only if the content still has this ETag; otherwise the whole content is sent."),
]

/// Schema of a session's name.
let sessionName = String.schema(.sessionName)
private let time = Timestamp.schema(NoRule())
private let commaSeparated = [JSON.Member("explode", .bool(false))]
private let hostExamples = JSON.rules(
    #"{"examples": {"name": {"value": "example.org"}, "origin": {"value": "https://example.org:8443"}}}"#)

private func cursor(_ component: String, _ schema: [JSON.Member]) -> Parameter {
    Parameter(
        component, "cursor", .query, schema,
        "next_cursor of the page before, also of an empty page. Its format may change.")
}

private func header(_ component: String, _ name: String, _ text: String) -> Parameter {
    Parameter(component, name, .header, String.shownSchema, text)
}

private func text(_ counts: ClosedRange<Int>, _ pattern: String) -> [JSON.Member] {
    String.schema(TextRule(counts, pattern: pattern))
}

private func list(_ item: String, _ countMax: Int) -> [JSON.Member] {
    JSON.rules(
        ##"""
        {"type": "array", "items": {"$ref": "#/components/schemas/\##(item)"}, "minItems": 1,
         "maxItems": \##(countMax)}
        """##)
}

private func list<Choice: ShownChoice>(of type: Choice.Type) -> [JSON.Member] {
    [
        JSON.Member("type", "array"), JSON.Member("items", .object(Choice.choices)),
        JSON.Member("minItems", .integer(1)), JSON.Member("maxItems", .integer(Int64(Choice.allCases.count))),
    ]
}

private func standard(_ number: Int) -> [JSON.Member] { [.init("default", .integer(Int64(number)))] }

/// Header fields of responses: name, description, schema, and whether the field is always present.
let responseHeaders: [(name: String, text: String, schema: [JSON.Member], isRequired: Bool)] = [
    (
        "X-Request-Id", "Identifier of the request: that of the request if it is valid, else a new one.",
        String.shownSchema, true
    ),
    ("ETag", "Version of the object or content.", String.shownSchema, false),
    ("Location", "Path of the created object, or address of the content.", String.shownSchema, false),
    ("Link", "rel=\"next\" with the URL of the next page, if there is one.", String.shownSchema, false),
    (
        "Preference-Applied", "The preference of the request that was applied.", String.shownSchema, false
    ),
    (
        "Idempotency-Replayed", "The response repeats the first one with this Idempotency-Key.",
        [.init("const", "true")], false
    ),
    (
        "Upload-Offset", "Bytes of the upload that are on the disk; it continues there.", Int64.shownSchema,
        false
    ),
    ("Upload-Complete", "?1 if the upload is complete, else ?0.", String.shownSchema, false),
    ("Upload-Length", "Size of the complete upload, if it is known.", Int64.shownSchema, false),
    ("Upload-Limit", "Limits of uploads.", String.shownSchema, false),
    ("Accept-Ranges", "Unit of ranges.", [.init("const", "bytes")], false),
    ("Content-Disposition", "File name of the content.", String.shownSchema, false),
    ("Content-Range", "Range of the content.", String.shownSchema, false),
    ("Repr-Digest", "SHA-256 of the whole content (RFC 9530).", String.shownSchema, false),
    ("Digest", "SHA-256 of the whole content (RFC 3230).", String.shownSchema, false),
    ("Allow", "Methods of the path.", String.shownSchema, true),
    ("Retry-After", "Seconds after which to try again.", Int.shownSchema, false),
    ("WWW-Authenticate", "Scheme of the credentials: Bearer.", String.shownSchema, true),
    ("RateLimit", "Remaining quotas.", String.shownSchema, false),
    ("RateLimit-Policy", "Quotas and their periods.", String.shownSchema, false),
]

extension ShownValue {
    /// Schema of a value that refers to no other schema.
    static var shownSchema: [JSON.Member] { shownSchema(in: FieldSchemas()) }
}
