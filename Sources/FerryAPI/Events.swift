internal import FerryCore
internal import HTTPServer

extension API {
    /// `GET /v1/events`
    func listEvents(_ call: Call) {
        call.answering { () throws(Problem) in
            if wantsStream(call) { return try streamEvents(call) }
            let items = try call.query(["session", "type", "since", "limit", "cursor"])
            let query = try eventQuery(items, tenant: call.principal.tenant)
            var page = query
            page.limit += 1
            ports.events.events(page) { sendEvents($0, query.limit, items, call) }
        }
    }

    /// `GET /v1/jobs/{id}/events`
    func listJobEvents(_ call: Call) {
        call.answering { () throws(Problem) in
            let id = try call.identifier(JobID.self)
            if wantsStream(call) { return try streamEvents(of: id, call) }
            let items = try call.query(["limit", "cursor"])
            let query = try eventQuery(items, tenant: call.principal.tenant)
            ports.events.events(
                of: id, tenant: query.tenant, before: query.before, limit: query.limit + 1
            ) { sendEvents($0, query.limit, items, call) }
        }
    }

    // MARK: Streams

    /// All events of the tenant, or of one of its sessions.
    private func streamEvents(_ call: Call) throws(Problem) {
        let items = try call.query(["session", "type", "since", "progress"])
        var query = try eventQuery(items.filter { $0.name != "progress" }, tenant: call.principal.tenant)
        // It is about what was, and the stream about what comes.
        query.since = nil
        let progress = items.first { $0.name == "progress" }?.value
        guard progress == nil || progress == "true" || progress == "false" else {
            throw Problem(.invalidParameter, "progress must be true or false.")
        }
        try open(EventStream.Subject(query: query, job: nil, showsProgress: progress == "true"), call)
    }

    private func streamEvents(of job: JobID, _ call: Call) throws(Problem) {
        _ = try call.query([])
        let query = EventQuery(tenant: call.principal.tenant)
        try open(EventStream.Subject(query: query, job: job, showsProgress: true), call)
    }

    private func open(_ subject: EventStream.Subject, _ call: Call) throws(Problem) {
        var after: EventID?
        if let text = call.fields["Last-Event-ID"], !text.isEmpty {
            guard let id = EventID(text) else {
                throw Problem(.invalidParameter, "Last-Event-ID is none of an event.")
            }
            after = id
        }
        streams.open(subject, after: after, call)
    }
}

private func sendEvents(
    _ result: Result<[EventEntry], StoreError>, _ limit: Int, _ items: [(name: String, value: String)],
    _ call: Call
) {
    switch result {
    case .failure(let error): call.fail(error)
    case .success(let entries):
        Page(entries, limit: limit) { $0.event.id }.send(
            call, items, reservingCapacity: min(entries.count, limit) * 2_560
        ) { entry, writer in entry.write(into: &writer) }
    }
}

/// Whether the client asks for server-sent events before JSON (RFC 9110 §12.5.1, without weights: nobody
/// gives them here).
private func wantsStream(_ call: Call) -> Bool {
    let types = (call.fields["Accept"] ?? "").split(separator: ",").map { range in
        range.prefix { $0 != ";" }.filter { $0 != " " && $0 != "\t" }.lowercased()
    }
    guard let stream = types.firstIndex(of: "text/event-stream") else { return false }
    return types.firstIndex(of: "application/json").map { stream < $0 } ?? true
}

private func eventQuery(
    _ items: [(name: String, value: String)], tenant: String
) throws(Problem) -> EventQuery {
    var query = EventQuery(tenant: tenant)
    for (name, value) in items {
        switch name {
        case "session":
            guard (1...Limits.nameByteCountMax).contains(value.utf8.count) else {
                throw Problem(.invalidParameter, "session must have 1 to \(Limits.nameByteCountMax) bytes.")
            }
            query.session = value
        case "type":
            let types = value.split(separator: ",", omittingEmptySubsequences: false)
                .map { EventType(rawValue: String($0)) }
            guard !types.contains(nil) else {
                throw Problem(
                    .invalidParameter,
                    "type must be of: \(EventType.allCases.map(\.rawValue).joined(separator: ", ")).")
            }
            query.types = types.compactMap(\.self).mask
        case "since":
            guard let instant = Timestamp(rfc3339: value) else {
                throw Problem(.invalidParameter, "since must be an RFC 3339 time.")
            }
            query.since = instant
        case "limit": query.limit = try pageLimit(value)
        default: query.before = try position(value)
        }
    }
    return query
}
