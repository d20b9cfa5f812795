internal import FerryCore
internal import HTTPServer

/// Lists events, and opens streams of them.
final class EventHandlers: Sendable {
    private let reader: any EventReader
    private let groups: any GroupStore
    private let streams: EventStreams

    init(_ ports: StorePorts, _ streams: EventStreams) {
        reader = ports.events
        groups = ports.groups
        self.streams = streams
    }

    /// `GET /v1/events`
    func list(_ request: RequestContext) throws(Problem) {
        if wantsStream(request) { return try stream(of: nil, request) }
        let query = try eventQuery(request)
        var extended = query
        extended.limit += 1
        reader.events(
            extended, reply: request.onSuccess { found in send(found, limit: query.limit, request) })
    }

    /// `GET /v1/jobs/{id}/events`
    func listOfJob(_ request: RequestContext) throws(Problem) {
        let id = try request.identifier(JobID.self)
        if wantsStream(request) { return try stream(of: id, request) }
        let query = try eventQuery(request)
        reader.events(
            of: id, tenant: query.tenant, before: query.before, limit: query.limit + 1,
            reply: request.onSuccess { found in send(ListPage(found), limit: query.limit, request) })
    }

    /// `GET /v1/job_groups/{name}/events`
    func listOfGroup(_ request: RequestContext) throws(Problem) {
        let name = try request.groupName()
        let isStream = wantsStream(request)
        let after = isStream ? try lastEventID(request) : nil
        let query = isStream ? try streamQuery(request).query : try eventQuery(request)
        groups.group(
            name, tenant: request.tenant,
            reply: request.onSuccess { [self] group throws(Problem) in
                var query = query
                query.narrow(to: group)
                if isStream {
                    let subject = EventStream.Subject(query: query, job: nil, showsProgress: false)
                    return try streams.open(subject, after: after, request)
                }
                let limit = query.limit
                query.limit += 1
                reader.events(query, reply: request.onSuccess { send($0, limit: limit, request) })
            })
    }

    /// Opens a stream of the events of a job, or, if `job` is `nil`, of the tenant or one of its sessions.
    private func stream(of job: JobID?, _ request: RequestContext) throws(Problem) {
        let (query, showsProgress) = try streamQuery(request)
        let after = try lastEventID(request)
        let subject = EventStream.Subject(query: query, job: job, showsProgress: showsProgress)
        try streams.open(subject, after: after, request)
    }
}

/// Returns the event of `Last-Event-ID`, or `nil` without the field.
private func lastEventID(_ request: RequestContext) throws(Problem) -> EventID? {
    guard let text = request.fields["Last-Event-ID"], !text.isEmpty else { return nil }
    guard let id = EventID(text) else {
        throw Problem(.invalidHeader, "Last-Event-ID is not the identifier of an event (evt_…).")
    }
    return id
}

private func send(_ found: ListPage<EventEntry, EventKindTag>, limit: Int, _ request: RequestContext) {
    let page = Page(found, limit: limit) { $0.event.id }
    page.send(request, reservingCapacity: page.shown.count * 2_560) { $0.write(into: &$1) }
}

/// Whether the client prefers server-sent events to JSON.
private func wantsStream(_ request: RequestContext) -> Bool { request.prefers("text/event-stream") }

/// Reads the parameters of a stream: what it has, and whether it shows progress.
private func streamQuery(
    _ request: RequestContext
) throws(Problem) -> (query: EventQuery, showsProgress: Bool) {
    var query = EventQuery(tenant: request.tenant)
    var showsProgress = true
    for (name, value) in request.query {
        switch name {
        case "progress":
            guard value == "true" || value == "false" else {
                throw Problem(.invalidParameter, "progress must be true or false.")
            }
            showsProgress = value == "true"
        case "limit", "cursor":
            throw Problem(.invalidParameter, "\(name) is for lists only: a stream has no pages.")
        // Only checked: a stream has no events from before its start.
        case "since": _ = try time(name, value)
        default: try query.narrow(name, value)
        }
    }
    return (query, showsProgress)
}

private func eventQuery(_ request: RequestContext) throws(Problem) -> EventQuery {
    var query = EventQuery(tenant: request.tenant)
    for (name, value) in request.query {
        switch name {
        case "since": query.since = try time(name, value)
        case "limit": query.limit = try pageLimit(value)
        case "cursor": query.before = try position(value)
        case "progress":
            throw Problem(
                .invalidParameter,
                "progress is for streams only (Accept: text/event-stream).")
        default: try query.narrow(name, value)
        }
    }
    return query
}

extension EventQuery {
    /// Applies a parameter that lists and streams have in common: `session` or `type`.
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
                "type must have values of: \(EventType.allCases.map(\.rawValue).joined(separator: ", ")).")
        }
        types = named.compactMap(\.self).mask
    }
}
