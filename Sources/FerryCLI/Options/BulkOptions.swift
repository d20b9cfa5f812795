import ArgumentParser
import FerryCore

/// Options of commands that change jobs: identifiers, or filters for any number of jobs.
struct BulkOptions: ParsableArguments {
    @Argument(help: "Identifiers of the jobs; or give filters.") var ids: [String] = []
    @OptionGroup(title: "FILTERS") var filter: JobFilterOptions
    @Flag(name: .long, help: "Only failed jobs, as --state failed.") var failed = false
    @Flag(name: .long, help: "All jobs, without a filter.") var all = false
    @Flag(name: .long, help: "Print how many jobs there are, and change none.") var dryRun = false
    @Flag(name: .long, help: "With filters: print the identifier of the operation and do not wait for it.")
    var detach = false

    mutating func validate() throws {
        guard !failed || filter.state == nil else {
            throw ValidationError("--failed and --state exclude each other.")
        }
        if failed { filter.state = "failed" }
        let hasFilter = !filter.parameters.isEmpty
        guard !ids.isEmpty || hasFilter || all else {
            throw ValidationError("Name jobs, give filters such as --host, or say --all.")
        }
        guard [!ids.isEmpty, hasFilter, all].count(where: { $0 }) == 1 else {
            throw ValidationError("Identifiers, filters and --all exclude each other.")
        }
        if detach, !ids.isEmpty { throw ValidationError("--detach needs filters or --all.") }
    }

    /// Starts an operation, or only counts its jobs. Returns `false` if each job is to be requested alone.
    func run(_ verb: String, _ client: ClientOptions) throws -> Bool {
        guard dryRun || ids.isEmpty else { return false }
        let jobs =
            ids.isEmpty
            ? JSON.Member("filter", filter.json) : JSON.Member("ids", .array(ids.map { .string($0) }))
        let rest = dryRun ? [JSON.Member("dry_run", .bool(true))] : []
        var body = JSONWriter()
        body.value(.object([jobs] + rest))
        let console = Console.current
        let service = try client.service()
        let response = try service.send("POST", "/v1/jobs/\(verb)", body: body.bytes)
        if dryRun {
            if client.json {
                try console.data(json: response.bytes)
            } else {
                try console.data(line: "\(response.json["matched"]?.integer ?? 0)")
            }
            return true
        }
        if detach {
            try printIdentifier(response, client)
            return true
        }
        try BulkWatch(service: service, console: console).finish(response, json: client.json)
        return true
    }
}
