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
    func list(_ request: RequestContext) throws(Problem) { list(try jobQuery(request), request) }

    /// `GET /v1/sessions/{id}/jobs`
    func listOfSession(_ request: RequestContext) throws(Problem) {
        var query = try jobQuery(request)
        query.session = try request.sessionKey().name
        list(query, request)
    }

    /// `GET /v1/job_groups/{name}/jobs`
    func listOfGroup(_ request: RequestContext) throws(Problem) {
        var query = try jobQuery(request)
        let name = try request.groupName()
        query.group = name
        groups.group(
            name, tenant: request.tenant, reply: request.onSuccess { [self, query] _ in list(query, request) }
        )
    }

    private func list(_ query: JobQuery, _ request: RequestContext) {
        var extended = query
        // One record more than the page shows tells whether there is a next page.
        extended.limit += 1
        reader.jobs(
            extended,
            reply: request.onSuccess { [view] found in
                view.progress.read(found.records) { reading in
                    let page = Page(found, limit: query.limit) { $0.id }
                    page.send(request, reservingCapacity: page.shown.count * 2_560) { record, writer in
                        view.write(record, reading, for: request.disclosure, into: &writer)
                    }
                }
            })
    }
}

/// Reads the filters, limit and cursor of a list; a wrong value is a 400.
private func jobQuery(_ request: RequestContext) throws(Problem) -> JobQuery {
    var query = JobQuery(tenant: request.tenant)
    for (name, value) in request.query {
        switch name {
        case "session": query.session = try sessionName(value)
        case "group":
            guard GroupName.isValid(value) else {
                throw Problem(
                    .invalidParameter,
                    "group must be a name of 1 to \(Limits.nameByteCountMax) letters, digits and ._:-.")
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
        case "created_after":
            guard let instant = Timestamp(rfc3339: value) else {
                throw Problem(.invalidParameter, "created_after must be an RFC 3339 time.")
            }
            query.createdAfter = instant
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
        case "limit": query.limit = try pageLimit(value)
        case "cursor": query.before = try position(value)
        default:
            query.metadata.append(try metadataFilter(name, value))
        }
    }
    return query
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
