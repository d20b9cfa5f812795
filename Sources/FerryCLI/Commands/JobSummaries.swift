package import ArgumentParser
import FerryCore

/// `ferry stuck`: numbers of jobs that do not run.
package struct Stuck: ParsableCommand {
    package static let configuration = CommandConfiguration(
        abstract: "Counts the unfinished jobs that do not run, by host and reason.",
        discussion: """
            Shows the newest job of each row as an example.

            EXAMPLES
              ferry stuck --session nightly
            """)

    @OptionGroup(title: "FILTERS") var filter: JobFilterOptions
    @OptionGroup var client: ClientOptions

    package init() {}

    package mutating func validate() throws {
        if filter.state == nil { filter.state = "waiting,queued,suspended" }
    }

    package func run() throws {
        try SummaryTable(dimension: "waiting_reason", heading: "REASON").show(filter, client)
    }
}

/// `ferry failures`: numbers of open failures.
package struct Failures: ParsableCommand {
    package static let configuration = CommandConfiguration(
        abstract: "Counts the failed jobs that were not retried, by host and error.",
        discussion: """
            Shows the newest job of each row as an example. `ferry retry --failed --no-retried` with the \
            same filters retries them.

            EXAMPLES
              ferry failures --finished-after 2026-11-28T22:00:00Z
            """)

    @OptionGroup(title: "FILTERS") var filter: JobFilterOptions
    @OptionGroup var client: ClientOptions

    package init() {}

    package mutating func validate() throws {
        guard filter.state == nil, filter.retried == nil else {
            throw ValidationError(
                "These are failed jobs that were not retried: leave out --state and --retried.")
        }
        filter.state = "failed"
        filter.retried = false
    }

    package func run() throws {
        try SummaryTable(dimension: "error", heading: "ERROR").show(filter, client)
    }
}

/// Numbers of jobs by host and another property.
private struct SummaryTable {
    /// The other property, as a value of `by`.
    let dimension: String
    let heading: String

    /// Prints the numbers of the jobs that match the filter.
    func show(_ filter: JobFilterOptions, _ client: ClientOptions) throws {
        let console = Console.current
        let query = queryText([("by", "host,\(dimension)")] + filter.parameters)
        let response = try client.service().send("GET", "/v1/jobs/summary\(query)")
        if client.json { return try console.data(json: response.bytes) }
        let counts = response.json["data"]?.array ?? []
        let width = console.outIsTerminal ? console.width() : nil
        if !counts.isEmpty {
            let lines = tableLines(
                ["JOBS", "HOST", heading, "EXAMPLE"], rows(counts, width), terminalWidth: width)
            for line in lines { try console.data(line: line) }
        }
        if response.json["is_exact"]?.bool == false {
            console.message("There are more jobs than one request counts: these are the newest.")
        }
    }

    private func rows(_ counts: [JSON], _ width: Int?) -> [[String]] {
        let rows = counts.map { count in
            let values = count["value"]?.array ?? []
            let host = values.first?.string ?? "-"
            return [
                "\(count["count"]?.integer ?? 0)", width == nil ? host : hostText(host),
                values.last?.string ?? "-", count["example"]?.string ?? "-",
            ]
        }
        guard let width else { return rows }
        let others = rows.map { [max($0[0].count, 4), max($0[2].count, heading.count), $0[3].count] }
        let taken = (0..<3).reduce(6) { sum, column in sum + (others.map { $0[column] }.max() ?? 0) }
        return rows.map { [$0[0], cut($0[1], to: max(4, width - taken)), $0[2], $0[3]] }
    }
}
