package import ArgumentParser
import FerryCore

/// `ferry events`: what has happened, and what happens.
package struct Events: ParsableCommand {
    package static let configuration = CommandConfiguration(
        abstract: "Lists events, the latest last; --follow goes on with what happens.",
        discussion: """
            On a terminal a table; otherwise one event a line, with tabs and without a heading. With --json
            one JSON object a line.

            EXAMPLES
              ferry events --type job.failed --since 2026-11-21T00:00:00Z
              ferry events job_… --follow
            """)

    @Argument(help: "Only of this job.") var job: String?
    @Option(name: .long) var session: String?
    @Option(name: .long, help: "Only these types, separated by commas.") var type: String?
    @Option(name: .long, help: "Only what happened since this time (RFC 3339).") var since: String?
    @Option(name: [.customShort("n"), .long], help: "At most so many events that were (up to 500).")
    var limit = 50
    @Flag(name: [.customShort("f"), .long], help: "Go on with what happens, until the job has ended.")
    var follow = false
    @OptionGroup var client: ClientOptions

    package init() {}

    package mutating func validate() throws {
        guard job != nil, session != nil || type != nil || since != nil else { return }
        throw ValidationError("The events of a job are not filtered by session, type or time.")
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
        // Known before what was is read: nothing falls between that and what happens.
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

    /// The latest events, newest first. A page may be shorter than it was asked for, or empty, where few
    /// events are of the type.
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
        // It shows what happens, not how far anything is.
        let progress = "progress=false"
        if let job { return "/v1/jobs/\(percentEncoded(job))/events?\(progress)" }
        let query = [("session", session), ("type", type)].compactMap { name, value in
            value.map { "\(name)=\(percentEncoded($0))" }
        }
        return "/v1/events?" + (query + [progress]).joined(separator: "&")
    }

    /// The last event of all, to go on behind; nil: nothing has ever happened.
    private func latest(_ service: ServiceClient) throws(ClientFailure) -> String? {
        guard job == nil else { return nil }
        return try service.send("GET", "/v1/events?limit=1").json["data"]?.array?.first?["id"]?.string
    }

    /// Everything after the event that was shown last, newest first: as many pages as that takes.
    private func new(since last: String, _ service: ServiceClient) throws(ClientFailure) -> [JSON] {
        var new: [JSON] = []
        var cursor: String?
        repeat {
            let page = try service.send("GET", path(limit: 500, cursor: cursor)).json
            for event in page["data"]?.array ?? [] {
                // Identifiers grow with each event.
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
