package import ArgumentParser
import FerryCore

/// `ferry schedules`: jobs that are submitted repeatedly.
package struct Schedules: ParsableCommand {
    package static let configuration = CommandConfiguration(
        abstract: "Lists, creates, shows, runs, pauses, resumes and deletes schedules.",
        discussion: """
            EXAMPLES
              echo '{"cron":"0 6 * * mon-fri","time_zone":"Europe/Berlin","job":{"kind":"download",
                "request":{"url":"https://example.com/report.csv"},
                "destination":{"path":"reports/{scheduled_at:date}.csv"}}}' | ferry schedules create -
              ferry jobs --schedule sch_0123456789abcdefghjkmnpqrs
            """,
        subcommands: [
            List.self, Create.self, Show.self, Run.self, Pause.self, Resume.self, Delete.self,
        ])

    package init() {}

    /// `ferry schedules list`.
    package struct List: ParsableCommand {
        package static let configuration = CommandConfiguration(abstract: "Lists schedules, newest first.")
        @Option(name: [.customShort("n"), .long], help: "Number of schedules, at most 500.") var limit: Int?
        @Option(name: .long, help: "Continue after an earlier list.") var cursor: String?
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws {
            let console = Console.current
            let query = [("limit", limit.map { "\($0)" }), ("cursor", cursor)].compactMap { name, value in
                value.map { "\(name)=\(percentEncoded($0))" }
            }
            let path = "/v1/schedules" + (query.isEmpty ? "" : "?" + query.joined(separator: "&"))
            let response = try client.service().send("GET", path)
            if client.json { return try console.data(json: response.bytes) }
            let rows = (response.json["data"]?.array ?? []).map { schedule in
                [
                    schedule["id"]?.string ?? "", timesText(schedule), schedule["time_zone"]?.string ?? "",
                    schedule["next_run_at"]?.string ?? "-", schedule["last_run_at"]?.string ?? "-",
                    jobsText(schedule),
                ]
            }
            let lines = tableLines(
                ["SCHEDULE", "TIMES", "ZONE", "NEXT", "LAST", "URL"], rows,
                terminalWidth: console.outIsTerminal ? console.width() : nil)
            for line in lines { try console.data(line: line) }
            if let cursor = response.json["next_cursor"]?.string {
                console.message("There may be more: --cursor \(cursor)")
            }
        }
    }

    /// `ferry schedules create`.
    package struct Create: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Creates a schedule given as JSON and prints its identifier.")
        @Argument(help: "File with the schedule; - is standard input.") var file: String
        @Option(
            name: .long,
            help: "Idempotency key: the same key returns the same schedule.")
        var idempotencyKey: String?
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws {
            let body = try LocalFile.readJSON(file, byteCountMax: Limits.submissionByteCountMax)
            let response = try client.service().send(
                "POST", "/v1/schedules", body: body, idempotencyKey: idempotencyKey)
            try printIdentifier(response, client)
        }
    }

    /// `ferry schedules show`.
    package struct Show: ParsableCommand {
        package static let configuration = CommandConfiguration(abstract: "Shows a schedule.")
        @Argument(help: "Identifier of the schedule.") var id: String
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws {
            let response = try client.service().send("GET", "/v1/schedules/\(percentEncoded(id))")
            if client.json { return try Console.current.data(json: response.bytes) }
            for line in scheduleLines(response.json) { try Console.current.data(line: line) }
        }
    }

    /// `ferry schedules run`.
    package struct Run: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Submits a schedule's jobs now and prints their identifiers.")
        @Argument(help: "Identifier of the schedule.") var id: String
        @Option(name: .long, help: "Idempotency key: the same key returns the same jobs.")
        var idempotencyKey: String?
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws {
            let response = try client.service().send(
                "POST", "/v1/schedules/\(percentEncoded(id))/run", body: Array("{}".utf8),
                idempotencyKey: idempotencyKey)
            guard let jobs = response.json["data"]?.array, !client.json else {
                return try printIdentifier(response, client)
            }
            for job in jobs { try Console.current.data(line: job["id"]?.string ?? "") }
        }
    }

    /// `ferry schedules pause`.
    package struct Pause: ParsableCommand {
        package static let configuration = CommandConfiguration(abstract: "Pauses a schedule.")
        @Argument(help: "Identifier of the schedule.") var id: String
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws { try change("pause", id, client) }
    }

    /// `ferry schedules resume`.
    package struct Resume: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Resumes a paused schedule, beginning with the next occurrence.")
        @Argument(help: "Identifier of the schedule.") var id: String
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws { try change("resume", id, client) }
    }

    /// `ferry schedules delete`.
    package struct Delete: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Deletes a schedule. Its jobs stay.")
        @Argument(help: "Identifier of the schedule.") var id: String
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws {
            _ = try client.service().send("DELETE", "/v1/schedules/\(percentEncoded(id))")
        }
    }
}

private func change(_ verb: String, _ id: String, _ client: ClientOptions) throws {
    let response = try client.service().send(
        "POST", "/v1/schedules/\(percentEncoded(id))/\(verb)", body: Array("{}".utf8))
    if client.json { return try Console.current.data(json: response.bytes) }
    try Console.current.data(line: "\(id)\t\(response.json["next_run_at"]?.string ?? "-")")
}

func printIdentifier(_ response: ServiceClient.Response, _ client: ClientOptions) throws {
    if client.json { return try Console.current.data(json: response.bytes) }
    try Console.current.data(line: response.json["id"]?.string ?? "")
}

/// Returns the cron expression or the interval as text.
private func timesText(_ schedule: JSON) -> String {
    if let cron = schedule["cron"]?.string { return cron }
    return schedule["interval"]?.double.map { "every \(durationText($0))" } ?? "-"
}

/// Returns the URL of a schedule's job, or what its jobs have in common.
private func jobsText(_ schedule: JSON) -> String {
    if let job = schedule["job"] { return job["request"]?["url"]?.string ?? "" }
    return schedule["group"]?.string.map { "jobs of the group \($0)" } ?? "several jobs"
}

/// Returns the lines of `show`: a name and a value each, without missing values.
private func scheduleLines(_ schedule: JSON) -> [String] {
    let counts = schedule["counts"]
    let rows: [(String, String?)] = [
        ("schedule", schedule["id"]?.string), ("description", schedule["description"]?.string),
        ("times", timesText(schedule)), ("time zone", schedule["time_zone"]?.string),
        ("start", schedule["start_at"]?.string), ("end", schedule["end_at"]?.string),
        ("enabled", schedule["enabled"]?.bool.map { $0 ? "yes" : "no" }),
        ("missed runs", schedule["missed"]?.string), ("overlap", schedule["overlap"]?.string),
        ("next run", schedule["next_run_at"]?.string), ("last run", schedule["last_run_at"]?.string),
        ("last job", schedule["last_job"]?.string), ("runs", counts?["runs"]?.integer.map { "\($0)" }),
        ("missed", counts?["missed"]?.integer.map { "\($0)" }),
        ("skipped", counts?["skipped"]?.integer.map { "\($0)" }),
        ("kind", schedule["job"]?["kind"]?.string), ("url", schedule["job"]?["request"]?["url"]?.string),
        ("path", schedule["job"]?["destination"]?["path"]?.string),
        ("jobs", schedule["jobs"]?.array.map { "\($0.count)" }), ("group", schedule["group"]?.string),
        ("close group", schedule["close_group"]?.bool.map { $0 ? "yes" : "no" }),
    ]
    return rows.compactMap { name, value in value.map { "\(name):".padded(to: 14) + $0 } }
}
