import ArgumentParser
import FerryCore

/// Options that choose jobs: the filters of `GET /v1/jobs`.
struct JobFilterOptions: ParsableArguments {
    @Option(name: .long, help: "Only jobs of this session.") var session: String?
    @Option(
        name: .long,
        help: "States with commas: waiting, queued, running, suspended, succeeded, failed, cancelled.")
    var state: String?
    @Option(name: .long, help: "Only jobs of this kind: download, upload or data.") var kind: String?
    @Option(name: .long, help: "Only jobs whose URL has this host.") var host: String?
    @Option(name: .long, help: "Only jobs created after this time (RFC 3339).") var createdAfter: String?
    @Option(name: .long, help: "Only jobs that this schedule has submitted.") var schedule: String?
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
            ("session", session), ("state", state), ("kind", kind), ("host", host),
            ("created_after", createdAfter), ("schedule", schedule),
            ("acknowledged", unacknowledged ? "false" : nil),
        ]
        let pairs = metadata.compactMap { JobOptions.pair($0, separator: "=") }
            .map { ("metadata.\($0)", Optional($1)) }
        return (named + pairs).compactMap { name, value in value.map { (name, $0) } }
    }

    /// The given filters as the member `filter` of a bulk operation.
    var json: JSON {
        .object(
            parameters.map { name, value in
                JSON.Member(name, name == "acknowledged" ? .bool(false) : .string(value))
            })
    }
}
