internal import FerryCore
internal import HTTPServer

/// Lists jobs.
final class JobListing: Sendable {
    private let reader: any JobReader
    private let groups: any GroupStore
    private let view: JobView

    init(_ ports: StorePorts, _ view: JobView) {
        reader = ports.jobs
        groups = ports.groups
        self.view = view
    }

    /// `GET /v1/jobs`
    func list(_ request: RequestContext) throws(Problem) { try list(try jobQuery(request), request) }

    /// `GET /v1/sessions/{id}/jobs`
    func listOfSession(_ request: RequestContext) throws(Problem) {
        var query = try jobQuery(request)
        query.session = try request.sessionKey().name
        try list(query, request)
    }

    /// `GET /v1/job_groups/{name}/jobs`
    func listOfGroup(_ request: RequestContext) throws(Problem) {
        var query = try jobQuery(request)
        let name = try request.groupName()
        query.group = name
        groups.group(
            name, tenant: request.tenant,
            reply: request.onSuccess { [self, query] _ throws(Problem) in try list(query, request) })
    }

    private func list(_ query: JobQuery, _ request: RequestContext) throws(Problem) {
        var selection: MemberSelection?
        if let fields = request.query.first(where: { $0.name == "fields" }) {
            selection = try MemberSelection(fields: fields.value)
        }
        var extended = query
        // One record more than the page shows tells whether there is a next page.
        extended.limit += 1
        reader.jobs(
            extended,
            reply: request.onSuccess { [view, selection] found in
                view.progress.read(found.records) { reading in
                    let page = Page(found, limit: query.limit) { $0.id }
                    let reserved = page.shown.count * (selection == nil ? 2_560 : 256)
                    page.send(request, reservingCapacity: reserved) { record, writer in
                        view.write(record, reading, selection, for: request.disclosure, into: &writer)
                    }
                }
            })
    }

    /// `GET /v1/jobs/summary`
    func summarize(_ request: RequestContext) throws(Problem) {
        guard let by = request.query.first(where: { $0.name == "by" }) else {
            throw Problem(.invalidParameter, "by is required: one or two of \(SummaryDimension.names).")
        }
        var dimensions: [SummaryDimension] = []
        for name in try listed("by", by.value, countMax: Limits.summaryDimensionCountMax) {
            let dimension: SummaryDimension = try choice("by", String(name))
            guard !dimensions.contains(dimension) else {
                throw Problem(.invalidParameter, "by names \(name) twice.")
            }
            dimensions.append(dimension)
        }
        reader.summary(
            of: try jobQuery(request), by: dimensions,
            reply: request.onSuccess { summary in request.send(200, json: summary.shown()) })
    }
}

extension SummaryDimension {
    fileprivate static var names: String { allCases.map(\.rawValue).joined(separator: ", ") }
}

/// Reads the filters, limit and cursor of a list; a wrong value is a 400. Leaves out `by` and `fields`.
private func jobQuery(_ request: RequestContext) throws(Problem) -> JobQuery {
    var query = JobQuery(tenant: request.tenant)
    for (name, value) in request.query {
        switch name {
        case "session": query.session = try sessionName(value)
        case "group":
            guard GroupName.isValid(value) else {
                throw Problem(.invalidParameter, "The name of a group has \(GroupName.rule).")
            }
            query.group = value
        case "state":
            query.states = try listed(name, value, countMax: JobState.allCases.count)
                .map { state throws(Problem) in try choice(name, String(state)) }
        case "kind": query.kind = try choice(name, value)
        case "host":
            guard let place = HostReference(value) else {
                throw Problem(.invalidParameter, "host \(HostReference.rule)")
            }
            query.place = place
        case "created_after": query.createdAfter = try time(name, value)
        case "schedule":
            guard let schedule = ScheduleID(value) else {
                throw Problem(.invalidParameter, "schedule must be the identifier of a schedule (sch_…).")
            }
            query.schedule = schedule
        case "acknowledged":
            guard value == "false" else {
                throw Problem(
                    .invalidParameter, "acknowledged must be false: jobs that wait for acknowledgement.")
            }
            query.isUnacknowledged = true
        case "error":
            query.errors = try listed(name, value, countMax: TransferError.Code.allCases.count)
                .map { code throws(Problem) in try choice(name, String(code)) }
        case "waiting_reason":
            query.waitingReasons = try listed(name, value, countMax: WaitingReasonCode.allCases.count)
                .map { code throws(Problem) in try choice(name, String(code)) }
        case "finished_after": query.finishedAfter = try time(name, value)
        case "finished_before": query.finishedBefore = try time(name, value)
        case "retried":
            guard value == "true" || value == "false" else {
                throw Problem(.invalidParameter, "retried must be true or false.")
            }
            query.isRetried = value == "true"
        case "retry_of":
            guard let job = JobID(value) else {
                throw Problem(.invalidParameter, "retry_of must be the identifier of a job (job_…).")
            }
            query.retryOf = job
        case "by", "fields": break
        case "limit": query.limit = try pageLimit(value)
        case "cursor": query.before = try position(value)
        default:
            query.metadata.append(try metadataFilter(name, value))
        }
    }
    return query
}

/// Returns the value of a parameter that is a time; another text is a 400.
func time(_ name: String, _ value: String) throws(Problem) -> Timestamp {
    guard let time = Timestamp(rfc3339: value) else {
        throw Problem(.invalidParameter, "\(name) must be an RFC 3339 time.")
    }
    return time
}

/// Returns the value of the parameter `session`; a text that is no session name is a 400.
func sessionName(_ value: String) throws(Problem) -> String {
    guard SessionName.isValid(value) else {
        throw Problem(
            .invalidParameter,
            "session must be a name of 1 to \(Limits.nameByteCountMax) letters, digits and -._~:@.")
    }
    return value
}

/// Returns the values of a comma-separated list.
func listed(_ name: String, _ value: String, countMax: Int) throws(Problem) -> [Substring] {
    let values = value.split(separator: ",", omittingEmptySubsequences: false)
    guard values.count <= countMax else {
        throw Problem(.invalidParameter, "\(name) takes at most \(countMax) values.")
    }
    return values
}

/// Returns the name and value of a parameter `metadata.NAME`; a 400 if they are longer than metadata can be.
private func metadataFilter(_ name: String, _ value: String) throws(Problem) -> JobSpec.Pair {
    let pair = JobSpec.Pair(String(name.dropFirst("metadata.".count)), value)
    guard pair.name.utf8.count <= Limits.metadataNameByteCountMax,
        value.unicodeScalars.count <= Limits.metadataValueByteCountMax
    else {
        throw Problem(
            .invalidParameter,
            "\(name.prefix(200)): a name in metadata has at most \(Limits.metadataNameByteCountMax) bytes, a "
                + "value at most \(Limits.metadataValueByteCountMax).")
    }
    return pair
}

private func choice<Choice: RawRepresentable & CaseIterable>(
    _ name: String, _ value: String
) throws(Problem) -> Choice where Choice.RawValue == String {
    guard let choice = Choice(rawValue: value) else {
        let all = Choice.allCases.map(\.rawValue).joined(separator: ", ")
        throw Problem(.invalidParameter, "Unknown value \"\(value)\" for \(name). Use one of: \(all).")
    }
    return choice
}
