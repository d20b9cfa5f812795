package import ArgumentParser
import FerryCore
import Sys

/// `ferry jobs`: lists jobs.
package struct Jobs: ParsableCommand {
    package static let configuration = CommandConfiguration(
        abstract: "Lists jobs, newest first.",
        discussion: """
            Prints a table on a terminal: why each job waits or has failed, its age, and its host with the \
            end of the path. Otherwise one job per line, separated by tabs and without a heading: \
            identifier, state, kind, creation, bytes, URL, and the code of the reason or the error.

            EXAMPLES
              ferry jobs --state failed --limit 10
              ferry jobs --reason host_backoff,host_limit
              ferry jobs --metadata customer=42 --json
            """)

    @OptionGroup var filter: JobFilterOptions
    @Option(name: [.customShort("n"), .long], help: "Number of jobs, at most 500.") var limit: Int?
    @Option(name: .long, help: "Continue after an earlier list.") var cursor: String?
    @OptionGroup var client: ClientOptions

    package init() {}

    var path: String {
        let page = [("limit", limit.map { "\($0)" }), ("cursor", cursor)].compactMap { name, value in
            value.map { (name, $0) }
        }
        return "/v1/jobs" + queryText(filter.parameters + page)
    }

    package func run() throws {
        let console = Console.current
        let response = try client.service().send("GET", path)
        if client.json { return try console.data(json: response.bytes) }
        let jobs = response.json["data"]?.array ?? []
        let width = console.outIsTerminal ? console.width() : nil
        let rows =
            width.map {
                JobTable(jobs, now: Timestamp(microseconds: wallMicroseconds()), width: $0).rows
            } ?? jobs.map(Self.columns)
        for line in tableLines(JobTable.heading, rows, terminalWidth: width) { try console.data(line: line) }
        if let cursor = response.json["next_cursor"]?.string {
            console.message("There may be more: --cursor \(cursor)")
        }
    }
}

extension Jobs {
    /// Columns of a job for other programs.
    private static func columns(_ job: JSON) -> [String] {
        [
            job["id"]?.string ?? "", job["state"]?.string ?? "", job["kind"]?.string ?? "",
            job["created_at"]?.string ?? "", (job["result"]?["size"]?.integer).map { "\($0)" } ?? "-",
            job["request"]?["url"]?.string ?? "", reasonCode(job) ?? "-",
        ]
    }
}

/// Returns the query of a URL, with its question mark; empty without parameters.
func queryText(_ parameters: [(name: String, value: String)]) -> String {
    let query = parameters.map { "\(percentEncoded($0.name))=\(percentEncoded($0.value))" }
    return query.isEmpty ? "" : "?" + query.joined(separator: "&")
}

/// `ferry show`: shows a job.
package struct Show: ParsableCommand {
    package static let configuration = CommandConfiguration(abstract: "Shows a job, or its attempts.")
    @Argument(help: "Identifier of the job.") var id: String
    @Flag(name: .long, help: "Show all attempts, with the phases of each request.")
    var attempts = false
    @OptionGroup var client: ClientOptions

    package init() {}

    package func run() throws {
        let console = Console.current
        let path = "/v1/jobs/\(percentEncoded(id))" + (attempts ? "/attempts" : "")
        let response = try client.service().send("GET", path)
        if client.json { return try console.data(json: response.bytes) }
        if attempts {
            let text = AttemptText(width: console.outIsTerminal ? console.width() : 100)
            for line in text.lines(response.json) { try console.data(line: line) }
            return
        }
        for line in jobLines(response.json, now: Timestamp(microseconds: wallMicroseconds())) {
            let state = response.json["state"]?.string ?? ""
            if line.hasPrefix("state:") {
                try console.data(line: "state:".padded(to: 14), state: state)
            } else {
                try console.data(line: line)
            }
        }
    }
}

/// `ferry watch`: waits for jobs.
package struct Watch: ParsableCommand {
    package static let configuration = CommandConfiguration(
        abstract: "Waits until jobs have ended and shows their progress.",
        discussion: """
            With --group, waits until the group is finished: closed, and without an unfinished job. Open \
            failures and cancelled jobs of the group are exit status 1.

            Exit status: 0 if all jobs succeed, 1 if one does not, 4 after the timeout. Ctrl-C ends the \
            command; the jobs continue.
            """)
    @Argument(help: "Identifiers of the jobs; or give --group.") var ids: [String] = []
    @Option(name: .long, help: "Name of a group to wait for.") var group: String?
    @Option(name: .long, help: "Longest time to wait in seconds; then exit status 4.") var timeout: Double?
    @OptionGroup var client: ClientOptions

    package init() {}

    package mutating func validate() throws {
        guard ids.isEmpty != (group == nil) else {
            throw ValidationError("Name jobs, or a group with --group.")
        }
        try WaitOptions.check(timeout, wait: true)
    }

    package func run() throws {
        if let group {
            let watch = GroupWatch(service: try client.service(), console: .current, timeout: timeout)
            return try watch.finish(group, json: client.json)
        }
        try Self.watch(ids, service: try client.service(), timeout: timeout, json: client.json)
    }

    /// Waits for all jobs and prints each in the given order. Throws if one has not succeeded.
    static func watch(_ ids: [String], service: ServiceClient, timeout: Double?, json: Bool) throws {
        let console = Console.current
        let watch = JobWatch(service: service, console: console, timeout: timeout)
        var failures: [String] = []
        for (index, id) in ids.enumerated() {
            let ended = try watch.end(of: id, others: Array(ids[(index + 1)...]))
            let state = ended.json["state"]?.string ?? "?"
            if json {
                try console.data(json: ended.bytes)
            } else {
                try console.data(line: "\(id)\t", state: state)
            }
            if state != "succeeded" { failures.append(failureText(ended.json)) }
        }
        guard failures.isEmpty else { throw ClientFailure(.failed, failures.joined(separator: "\n")) }
    }
}

/// `ferry cancel`.
package struct Cancel: ParsableCommand {
    package static let configuration = CommandConfiguration(
        abstract: "Cancels jobs that have not ended.",
        discussion: """
            With identifiers, one job after another. With filters, one operation for all of them, for which \
            the command waits.

            EXAMPLES
              ferry cancel --tag customer=42 --dry-run
            """)
    @OptionGroup var jobs: BulkOptions
    @OptionGroup var client: ClientOptions

    package init() {}

    package func run() throws {
        if try !jobs.run("cancel", client) { try post("cancel", to: jobs.ids, client) }
    }
}

/// `ferry suspend`.
package struct Suspend: ParsableCommand {
    package static let configuration = CommandConfiguration(
        abstract: "Suspends jobs that have not ended. Downloads keep their bytes.",
        discussion: """
            With identifiers, one job after another. With filters, one operation for all of them, for which \
            the command waits.

            EXAMPLES
              ferry suspend --host example.org
            """)
    @OptionGroup var jobs: BulkOptions
    @OptionGroup var client: ClientOptions

    package init() {}

    package func run() throws {
        if try !jobs.run("suspend", client) { try post("suspend", to: jobs.ids, client) }
    }
}

/// `ferry resume`.
package struct Resume: ParsableCommand {
    package static let configuration = CommandConfiguration(
        abstract: "Resumes suspended jobs.",
        discussion: """
            With identifiers, one job after another. With filters, one operation for all of them, for which \
            the command waits.

            EXAMPLES
              ferry resume --host example.org
            """)
    @OptionGroup var jobs: BulkOptions
    @OptionGroup var client: ClientOptions

    package init() {}

    package func run() throws {
        if try !jobs.run("resume", client) { try post("resume", to: jobs.ids, client) }
    }
}

/// `ferry acknowledge`.
package struct Acknowledge: ParsableCommand {
    package static let configuration = CommandConfiguration(
        abstract: "Acknowledges the results of ended jobs, so that the service may remove them.",
        discussion: """
            EXAMPLES
              ferry jobs --unacknowledged | cut -f1 | xargs ferry acknowledge
            """)
    @Argument(help: "Identifiers of the jobs.") var ids: [String]
    @OptionGroup var client: ClientOptions

    package init() {}

    package func run() throws { try post("acknowledge", to: ids, client) }
}

/// `ferry retry`: submits ended jobs again as new jobs.
package struct Retry: ParsableCommand {
    package static let configuration = CommandConfiguration(
        abstract: "Submits ended jobs again, as new jobs.",
        discussion: """
            With identifiers, prints the identifiers of the new jobs in order, one per line. With filters, \
            starts one operation for all jobs that were not retried yet, and waits until it has submitted \
            them.

            EXAMPLES
              ferry retry --failed --host example.org
            """)
    @OptionGroup var jobs: BulkOptions
    @Flag(inversion: .prefixedNo, help: "With identifiers: wait until all new jobs have ended.")
    var wait = false
    @Option(name: .long, help: "Longest time to wait in seconds; then exit status 4. The jobs continue.")
    var timeout: Double?
    @OptionGroup var client: ClientOptions

    package init() {}

    package mutating func validate() throws {
        try WaitOptions.check(timeout, wait: wait)
        guard !wait || !jobs.ids.isEmpty else {
            throw ValidationError("--wait needs identifiers: with filters, the new jobs are not watched.")
        }
    }

    package func run() throws {
        if try jobs.run("retry", client) { return }
        let console = Console.current
        let service = try client.service()
        var new: [String] = []
        try forEach(jobs.ids) { id throws(ClientFailure) in
            let response = try service.send(
                "POST", "/v1/jobs/\(percentEncoded(id))/retry", body: Array("{}".utf8))
            let made = try identifier(of: response.json)
            new.append(made)
            if wait { return }
            if client.json { try console.data(json: response.bytes) } else { try console.data(line: made) }
        }
        if wait { try Watch.watch(new, service: service, timeout: timeout, json: client.json) }
    }
}

/// Sends a request for each job. Throws afterwards with the errors of all jobs that failed.
private func post(_ verb: String, to ids: [String], _ client: ClientOptions) throws {
    let console = Console.current
    let service = try client.service()
    try forEach(ids) { id throws(ClientFailure) in
        let response = try service.send(
            "POST", "/v1/jobs/\(percentEncoded(id))/\(verb)", body: Array("{}".utf8))
        if client.json {
            try console.data(json: response.bytes)
        } else {
            try console.data(line: "\(id)\t\(response.json["state"]?.string ?? "?")")
        }
    }
}

/// Runs `body` for each job, also after an error. Throws afterwards with all errors.
func forEach(_ ids: [String], _ body: (String) throws(ClientFailure) -> Void) throws {
    var failures: [ClientFailure] = []
    for id in ids {
        do throws(ClientFailure) {
            try body(id)
        } catch {
            failures.append(ClientFailure(error.kind, "\(id): \(error.description)"))
        }
    }
    guard let first = failures.first else { return }
    throw ClientFailure(first.kind, failures.map(\.description).joined(separator: "\n"))
}
