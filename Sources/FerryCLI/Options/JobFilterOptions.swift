import ArgumentParser
import FerryCore

/// Options that choose jobs: the filters of `GET /v1/jobs`.
struct JobFilterOptions: ParsableArguments {
    @Option(name: .long, help: "Only jobs of this session.") var session: String?
    @Option(name: .long, help: "Only jobs of this group.") var group: String?
    @Option(
        name: .long,
        help: "States with commas: waiting, queued, running, suspended, succeeded, failed, cancelled.")
    var state: String?
    @Option(name: .long, help: "Only jobs of this kind: download, upload or data.") var kind: String?
    @Option(name: .long, help: "Only jobs whose URL has this host.") var host: String?
    @Option(name: .long, help: "Only jobs created after this time (RFC 3339).") var createdAfter: String?
    @Option(name: .long, help: "Only jobs that this schedule has submitted.") var schedule: String?
    @Option(name: .long, help: "Codes of errors with commas, such as timed_out.") var error: String?
    @Option(name: .long, help: "Codes of waiting reasons with commas, such as host_backoff.")
    var reason: String?
    @Option(name: .long, help: "Only jobs that ended after this time (RFC 3339).") var finishedAfter: String?
    @Option(name: .long, help: "Only jobs that ended before this time (RFC 3339).")
    var finishedBefore: String?
    @Flag(inversion: .prefixedNo, help: "Only jobs that were retried, or only others.") var retried: Bool?
    @Option(name: .long, help: "Only retries of this job.") var retryOf: String?
    @Flag(name: .long, help: "Only ended jobs that wait for acknowledgement.")
    var unacknowledged = false
    @Option(
        name: [.customShort("m"), .long, .customLong("tag")],
        help: ArgumentHelp("Only jobs with this metadata; repeatable.", valueName: "key=value"))
    var metadata: [String] = []

    mutating func validate() throws {
        for entry in metadata where JobOptions.pair(entry, separator: "=") == nil {
            throw ValidationError("\"\(entry)\" is not metadata. Write it as key=value.")
        }
    }

    /// Names and values of the given filters, as the API has them.
    var parameters: [(name: String, value: String)] {
        let named: [(String, String?)] = [
            ("session", session), ("group", group), ("state", state), ("kind", kind), ("host", host),
            ("created_after", createdAfter), ("schedule", schedule),
            ("acknowledged", unacknowledged ? "false" : nil), ("error", error), ("waiting_reason", reason),
            ("finished_after", finishedAfter), ("finished_before", finishedBefore),
            ("retried", retried.map { "\($0)" }), ("retry_of", retryOf),
        ]
        let pairs = metadata.compactMap { JobOptions.pair($0, separator: "=") }
            .map { ("metadata.\($0)", Optional($1)) }
        return (named + pairs).compactMap { name, value in value.map { (name, $0) } }
    }

    /// The given filters as the member `filter` of a bulk operation.
    var json: JSON {
        .object(
            parameters.map { name, value in
                let isFlag = name == "acknowledged" || name == "retried"
                return JSON.Member(name, isFlag ? .bool(value == "true") : .string(value))
            })
    }
}
