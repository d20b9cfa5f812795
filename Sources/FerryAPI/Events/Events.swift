internal import FerryCore
internal import HTTPServer

extension API {
    /// `GET /v1/events`
    func listEvents(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            if wantsStream(call) { return try streamEvents(of: nil, call) }
            let query = try eventQuery(call)
            var page = query
            page.limit += 1
            ports.events.events(page) { sendEvents($0, query.limit, call) }
        }
    }

    /// `GET /v1/jobs/{id}/events`
    func listJobEvents(_ call: RequestContext) {
        call.answering { () throws(Problem) in
            let id = try call.identifier(JobID.self)
            if wantsStream(call) { return try streamEvents(of: id, call) }
            let query = try eventQuery(call)
            ports.events.events(
                of: id, tenant: query.tenant, before: query.before, limit: query.limit + 1
            ) { sendEvents($0.map { ListPage($0) }, query.limit, call) }
        }
    }

    // MARK: Streams

    /// Events of a job; nil: of the tenant, or of one of its sessions.
    private func streamEvents(of job: JobID?, _ call: RequestContext) throws(Problem) {
        var query = EventQuery(tenant: call.principal.tenant)
        var showsProgress = true
        for (name, value) in call.query {
            switch name {
            case "progress":
                guard value == "true" || value == "false" else {
                    throw Problem(.invalidParameter, "progress must be true or false.")
                }
                showsProgress = value == "true"
            case "limit", "cursor":
                throw Problem(.invalidParameter, "A stream has no pages: \(name) is for lists.")
            // It is about what was, and the stream about what comes.
            case "since": _ = try time(name, value)
            default: try query.narrow(name, value)
            }
        }
        try open(EventStream.Subject(query: query, job: job, showsProgress: showsProgress), call)
    }

    private func open(_ subject: EventStream.Subject, _ call: RequestContext) throws(Problem) {
        var after: EventID?
        if let text = call.fields["Last-Event-ID"], !text.isEmpty {
            guard let id = EventID(text) else {
                throw Problem(.invalidHeader, "Last-Event-ID is not the identifier of an event (evt_…).")
            }
            after = id
        }
        streams.open(subject, after: after, call)
    }
}

private func sendEvents(
    _ result: Result<ListPage<EventEntry, EventKindTag>, StoreError>, _ limit: Int, _ call: RequestContext
) {
    switch result {
    case .failure(let error): call.fail(error)
    case .success(let found):
        let page = Page(found, limit: limit) { $0.event.id }
        page.send(
            call, reservingCapacity: page.shown.count * 2_560
        ) { entry, writer in entry.write(into: &writer) }
    }
}

/// Whether the client asks for server-sent events before JSON (RFC 9110 §12.5.1, without weights: nobody
/// gives them here).
private func wantsStream(_ call: RequestContext) -> Bool {
    let types = (call.fields["Accept"] ?? "").split(separator: ",").map { range in
        range.prefix { $0 != ";" }.filter { $0 != " " && $0 != "\t" }.lowercased()
    }
    guard let stream = types.firstIndex(of: "text/event-stream") else { return false }
    return types.firstIndex(of: "application/json").map { stream < $0 } ?? true
}

private func eventQuery(_ call: RequestContext) throws(Problem) -> EventQuery {
    var query = EventQuery(tenant: call.principal.tenant)
    for (name, value) in call.query {
        switch name {
        case "since": query.since = try time(name, value)
        case "limit": query.limit = try pageLimit(value)
        case "cursor": query.before = try position(value)
        case "progress":
            throw Problem(
                .invalidParameter,
                "A list shows what was: progress is for streams (Accept: text/event-stream).")
        default: try query.narrow(name, value)
        }
    }
    return query
}

extension EventQuery {
    /// By what streams and lists are asked for alike.
    fileprivate mutating func narrow(_ name: String, _ value: String) throws(Problem) {
        if name == "session" {
            session = try sessionName(value)
            return
        }
        let named = try listed(name, value, countMax: EventType.allCases.count)
            .map { EventType(rawValue: String($0)) }
        guard !named.contains(nil) else {
            throw Problem(
                .invalidParameter,
                "type must be of: \(EventType.allCases.map(\.rawValue).joined(separator: ", ")).")
        }
        types = named.compactMap(\.self).mask
    }
}

private func time(_ name: String, _ value: String) throws(Problem) -> Timestamp {
    guard let instant = Timestamp(rfc3339: value) else {
        throw Problem(.invalidParameter, "\(name) must be an RFC 3339 time.")
    }
    return instant
}
