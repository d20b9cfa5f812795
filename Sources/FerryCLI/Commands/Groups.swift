package import ArgumentParser
import FerryCore

/// `ferry groups`: jobs that belong together.
package struct Groups: ParsableCommand {
    package static let configuration = CommandConfiguration(
        abstract: "Lists, shows, creates, closes and deletes groups, and changes their jobs.",
        discussion: """
            EXAMPLES
              ferry submit night.ndjson --group night-2026-11-29 --close-group
              ferry watch --group night-2026-11-29
              ferry groups retry night-2026-11-29
            """,
        subcommands: [
            List.self, Show.self, Create.self, Close.self, Cancel.self, Suspend.self, Resume.self, Retry.self,
            Delete.self,
        ],
        defaultSubcommand: List.self)

    package init() {}

    /// `ferry groups list`.
    package struct List: ParsableCommand {
        package static let configuration = CommandConfiguration(abstract: "Lists groups, newest first.")
        @Option(name: [.customShort("n"), .long], help: "Number of groups, at most 500.") var limit: Int?
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws {
            let console = Console.current
            let listing = try Listing("/v1/job_groups", of: try client.service(), limit: limit)
            if client.json { return try console.data(json: listing.json) }
            let lines = tableLines(
                ["GROUP", "STATE", "UNFINISHED", "SUCCEEDED", "OPEN FAILURES", "CANCELLED"],
                listing.entries.map { GroupText($0).row },
                terminalWidth: console.outIsTerminal ? console.width() : nil)
            for line in lines { try console.data(line: line) }
        }
    }

    /// `ferry groups show`.
    package struct Show: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Shows a group and the numbers of its jobs.")
        @OptionGroup var group: GroupArgument
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws { try show(try client.service().send("GET", group.path), client) }
    }

    /// `ferry groups create`.
    package struct Create: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Creates a group. The first job that names a group creates it as well.")
        @OptionGroup var group: GroupArgument
        @Option(name: .long, help: "Text of the client.") var description: String?
        @Option(name: .long, help: "Idempotency key: the same key returns the same group.")
        var idempotencyKey: String?
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws {
            let text = description.map { [JSON.Member("description", .string($0))] } ?? []
            var body = JSONWriter()
            body.value(.object([JSON.Member("name", .string(group.name))] + text))
            let response = try client.service().send(
                "POST", "/v1/job_groups", body: body.bytes, idempotencyKey: idempotencyKey)
            try show(response, client)
        }
    }

    /// `ferry groups close`.
    package struct Close: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Closes a group: only retries of its jobs join it. It finishes with its last job.")
        @OptionGroup var group: GroupArgument
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws {
            try show(
                try client.service().send("POST", "\(group.path)/close", body: Array("{}".utf8)), client)
        }
    }

    /// `ferry groups cancel`.
    package struct Cancel: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Cancels the jobs of a group that have not ended.")
        @OptionGroup var command: GroupCommand
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws { try command.run("cancel", client) }
    }

    /// `ferry groups suspend`.
    package struct Suspend: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Suspends the jobs of a group. Downloads keep their bytes.")
        @OptionGroup var command: GroupCommand
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws { try command.run("suspend", client) }
    }

    /// `ferry groups resume`.
    package struct Resume: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Resumes the suspended jobs of a group.")
        @OptionGroup var command: GroupCommand
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws { try command.run("resume", client) }
    }

    /// `ferry groups retry`.
    package struct Retry: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Submits the failed jobs of a group again that were not retried.")
        @OptionGroup var command: GroupCommand
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws { try command.run("retry", client) }
    }

    /// `ferry groups delete`.
    package struct Delete: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Deletes a finished group. Its jobs stay.")
        @OptionGroup var group: GroupArgument
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws { _ = try client.service().send("DELETE", group.path) }
    }
}

/// The group of a command.
package struct GroupArgument: ParsableArguments {
    @Argument(help: "Name of the group.") var name: String

    package init() {}

    /// Path of the group in the API.
    var path: String { groupPath(name) }
}

/// A command on the jobs of a group, which is an operation.
package struct GroupCommand: ParsableArguments {
    @OptionGroup var group: GroupArgument
    @Flag(name: .long, help: "Print how many jobs there are, and change none.") var dryRun = false
    @Flag(name: .long, help: "Print the identifier of the operation and do not wait for it.")
    var detach = false

    package init() {}

    package mutating func validate() throws {
        if dryRun, detach { throw ValidationError("--dry-run and --detach exclude each other.") }
    }

    /// Starts the operation and waits for it, or only counts its jobs.
    func run(_ verb: String, _ client: ClientOptions) throws {
        let console = Console.current
        let service = try client.service()
        let body = dryRun ? #"{"dry_run":true}"# : "{}"
        let response = try service.send("POST", "\(group.path)/\(verb)", body: Array(body.utf8))
        if dryRun {
            if client.json { return try console.data(json: response.bytes) }
            return try console.data(line: "\(response.json["matched"]?.integer ?? 0)")
        }
        if detach { return try printIdentifier(response, client) }
        try BulkWatch(service: service, console: console).finish(response, json: client.json)
    }
}

/// Returns the path of a group in the API.
func groupPath(_ name: String) -> String { "/v1/job_groups/\(percentEncoded(name))" }

private func show(_ response: ServiceClient.Response, _ client: ClientOptions) throws {
    let console = Console.current
    if client.json { return try console.data(json: response.bytes) }
    for line in GroupText(response.json).lines { try console.data(line: line) }
}
