package import ArgumentParser
import FerryCore

/// `ferry events`: lists events and follows new ones.
package struct Events: ParsableCommand {
    package static let configuration = CommandConfiguration(
        abstract: "Lists events, the newest last. --follow also shows new ones.",
        discussion: """
            Prints a table on a terminal, otherwise one event per line, separated by tabs and without a
            heading. With --json, prints one JSON object per line.

            EXAMPLES
              ferry events --type job.failed --since 2026-11-21T00:00:00Z
              ferry events job_… --follow
            """)

    @Argument(help: "Show only events of this job.") var job: String?
    @Option(name: .long, help: "Show only events of this session.") var session: String?
    @Option(name: .long, help: "Show only these types, separated by commas.") var type: String?
    @Option(name: .long, help: "Show only events since this time (RFC 3339).") var since: String?
    @Option(name: [.customShort("n"), .long], help: "Number of past events, at most 500.")
    var limit = 50
    @Flag(name: [.customShort("f"), .long], help: "Show new events, until the job has ended.")
    var follow = false
    @OptionGroup var client: ClientOptions

    package init() {}

    package mutating func validate() throws {
        guard job != nil, session != nil || type != nil || since != nil else { return }
        throw ValidationError("--session, --type and --since cannot be used with a job.")
    }

    func path(limit: Int, cursor: String?) -> String {
        let named: [(String, String?)] = [
            ("session", session), ("type", type), ("since", since), ("limit", "\(limit)"), ("cursor", cursor),
        ]
        let query = named.compactMap { name, value in value.map { "\(name)=\(percentEncoded($0))" } }
        let path = job.map { "/v1/jobs/\(percentEncoded($0))/events" } ?? "/v1/events"
        return path + "?" + query.joined(separator: "&")
    }

    package func run() throws {
        let console = Console.current
        let service = try client.service()
        // Read before the list, so that no event between the list and the stream is missed.
        let newest = follow ? try latest(service) : nil
        let first = try latest(limit, service)
        try show(first.reversed(), console, withHeading: true)
        guard follow, !hasEnded(first) else { return }
        let following = EventFollowing(
            service: service, path: streamPath, last: first.first?["id"]?.string ?? newest,
            new: { last throws(ClientFailure) in try new(since: last, service) },
            show: { events in
                try show(events, console, withHeading: false)
                return !hasEnded(events)
            })
        try following.run()
    }

    /// Returns the newest events, newest first. The service may return short or empty pages if few events
    /// match the filter.
    private func latest(_ count: Int, _ service: ServiceClient) throws(ClientFailure) -> [JSON] {
        var events: [JSON] = []
        var cursor: String?
        repeat {
            let page = try service.send("GET", path(limit: count - events.count, cursor: cursor)).json
            events += page["data"]?.array ?? []
            cursor = page["next_cursor"]?.string
        } while cursor != nil && events.count < count
        return events
    }

    private var streamPath: String {
        // Progress is not an event of the list.
        let progress = "progress=false"
        if let job { return "/v1/jobs/\(percentEncoded(job))/events?\(progress)" }
        let query = [("session", session), ("type", type)].compactMap { name, value in
            value.map { "\(name)=\(percentEncoded($0))" }
        }
        return "/v1/events?" + (query + [progress]).joined(separator: "&")
    }

    /// Returns the identifier of the newest event, after which following begins, or `nil` if there are no
    /// events.
    private func latest(_ service: ServiceClient) throws(ClientFailure) -> String? {
        guard job == nil else { return nil }
        return try service.send("GET", "/v1/events?limit=1").json["data"]?.array?.first?["id"]?.string
    }

    /// Returns all events after `last`, newest first, from as many pages as needed.
    private func new(since last: String, _ service: ServiceClient) throws(ClientFailure) -> [JSON] {
        var new: [JSON] = []
        var cursor: String?
        repeat {
            let page = try service.send("GET", path(limit: 500, cursor: cursor)).json
            for event in page["data"]?.array ?? [] {
                // Identifiers increase with each event.
                guard (event["id"]?.string ?? "") > last else { return new }
                new.append(event)
            }
            cursor = page["next_cursor"]?.string
        } while cursor != nil
        return new
    }

    private func hasEnded(_ events: [JSON]) -> Bool {
        job != nil
            && events.contains {
                ($0["type"]?.string).flatMap(EventType.init)?.isTerminal == true
            }
    }

    private func show(_ events: [JSON], _ console: Console, withHeading: Bool) throws {
        if client.json {
            for event in events {
                var writer = JSONWriter()
                writer.value(event)
                try console.data(json: writer.bytes)
            }
            return
        }
        let rows = events.map { event in
            [
                event["timestamp"]?.string ?? "", event["data"]?["session"]?.string ?? "",
                (event["data"]?["sequence"]?.integer).map { "\($0)" } ?? "", event["type"]?.string ?? "",
                event["data"]?["job"]?["id"]?.string ?? "-",
            ]
        }
        let width = withHeading && console.outIsTerminal ? console.width() : nil
        let lines = tableLines(["TIME", "SESSION", "NUMBER", "EVENT", "JOB"], rows, terminalWidth: width)
        for line in lines { try console.data(line: line) }
    }
}
