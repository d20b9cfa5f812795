internal import FerryCore
internal import HTTPServer

extension API {
    /// `GET /v1/jobs`
    func listJobs(_ call: RequestContext) {
        call.answering { () throws(Problem) in list(try jobQuery(call), call) }
    }

    /// `GET /v1/sessions/{id}/jobs`
    func listSessionJobs(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            var query = try jobQuery(call)
            query.session = try call.sessionKey().name
            list(query, call)
        }
    }

    private func list(_ query: JobQuery, _ call: RequestContext) {
        var page = query
        // One more than asked tells whether there is a next page.
        page.limit += 1
        ports.reader.jobs(page) { [self] result in
            switch result {
            case .failure(let error): call.fail(error)
            case .success(let found): sendPage(found, query, call)
            }
        }
    }

    private func sendPage(_ found: ListPage<JobRecord, JobKindTag>, _ query: JobQuery, _ call: RequestContext)
    {
        let page = Page(found, limit: query.limit) { $0.id }
        page.send(call, reservingCapacity: page.shown.count * 2_560) { record, writer in
            write(record, for: call.disclosure, into: &writer)
        }
    }
}

/// Reads filters, limit and cursor; what is wrong is a 400.
func jobQuery(_ call: RequestContext) throws(Problem) -> JobQuery {
    var query = JobQuery(tenant: call.principal.tenant)
    for (name, value) in call.query {
        switch name {
        case "session": query.session = try sessionName(value)
        case "state":
            query.states = try listed(name, value, countMax: JobState.allCases.count)
                .map { state throws(Problem) in try choice(name, String(state)) }
        case "kind": query.kind = try choice(name, value)
        case "host": try query.narrow(toHost: value)
        case "created_after":
            guard let instant = Timestamp(rfc3339: value) else {
                throw Problem(.invalidParameter, "created_after must be an RFC 3339 time.")
            }
            query.createdAfter = instant
        case "schedule":
            guard let schedule = ScheduleID(value) else {
                throw Problem(.invalidParameter, "schedule must be a schedule's identifier.")
            }
            query.schedule = schedule
        case "acknowledged":
            guard value == "false" else {
                throw Problem(
                    .invalidParameter, "acknowledged=false lists what waits for it; there is no other value.")
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

extension JobQuery {
    /// By a host's name, by `host:port`, or by an origin.
    fileprivate mutating func narrow(toHost value: String) throws(Problem) {
        guard let reference = HostReference(value) else {
            throw Problem(
                .invalidParameter,
                "host is a name, host:port, or an origin such as https://example.org:8443, without a path.")
        }
        if reference.scheme != nil {
            origins = [reference.origin]
        } else if let port = reference.port {
            origins = WebURL.Scheme.allCases.map { "\($0.rawValue)://\(reference.host):\(port)" }
        } else {
            host = reference.host
        }
    }
}

/// The session that a list or a stream is about.
func sessionName(_ value: String) throws(Problem) -> String {
    guard SessionName.isValid(value) else {
        throw Problem(
            .invalidParameter,
            "session must be a session's name: 1 to \(Limits.nameByteCountMax) letters, digits and -._~:@.")
    }
    return value
}

/// The values of a list with commas.
func listed(_ name: String, _ value: String, countMax: Int) throws(Problem) -> [Substring] {
    let values = value.split(separator: ",", omittingEmptySubsequences: false)
    guard values.count <= countMax else {
        throw Problem(.invalidParameter, "\(name) takes at most \(countMax) values.")
    }
    return values
}

/// What no metadata can be like is refused.
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
        throw Problem(.invalidParameter, "There is no \(name) \"\(value)\", but: \(all).")
    }
    return choice
}
