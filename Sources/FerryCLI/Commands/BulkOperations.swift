package import ArgumentParser
import FerryCore

/// `ferry operations`: operations on many jobs.
package struct BulkOperations: ParsableCommand {
    package static let configuration = CommandConfiguration(
        commandName: "operations",
        abstract: "Lists, shows and cancels operations on many jobs.",
        discussion: """
            EXAMPLES
              ferry cancel --tag customer=42 --detach
              ferry operations watch opn_0123456789abcdefghjkmnpqrs
            """,
        subcommands: [List.self, Show.self, Watch.self, Cancel.self])

    package init() {}

    /// `ferry operations list`.
    package struct List: ParsableCommand {
        package static let configuration = CommandConfiguration(abstract: "Lists operations, newest first.")
        @Option(name: [.customShort("n"), .long], help: "Number of operations, at most 500.") var limit: Int?
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws {
            let console = Console.current
            let listing = try Listing("/v1/operations", of: try client.service(), limit: limit)
            if client.json { return try console.data(json: listing.json) }
            let rows = listing.entries.map { operation in
                [
                    operation["id"]?.string ?? "", operation["kind"]?.string ?? "",
                    operation["state"]?.string ?? "", operation["created_at"]?.string ?? "",
                    "\(operation["changed"]?.integer ?? 0)", "\(operation["skipped"]?.integer ?? 0)",
                    "\(operation["failed"]?.integer ?? 0)",
                ]
            }
            let lines = tableLines(
                ["OPERATION", "KIND", "STATE", "CREATED", "CHANGED", "SKIPPED", "FAILED"], rows,
                terminalWidth: console.outIsTerminal ? console.width() : nil)
            for line in lines { try console.data(line: line) }
        }
    }

    /// `ferry operations show`.
    package struct Show: ParsableCommand {
        package static let configuration = CommandConfiguration(abstract: "Shows an operation.")
        @Argument(help: "Identifier of the operation.") var id: String
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws {
            try show(try client.service().send("GET", path(id)), client)
        }
    }

    /// `ferry operations watch`.
    package struct Watch: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Waits until an operation has ended and shows its progress.")
        @Argument(help: "Identifier of the operation.") var id: String
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws {
            let service = try client.service()
            try BulkWatch(service: service, console: .current).finish(
                try service.send("GET", path(id)), json: client.json)
        }
    }

    /// `ferry operations cancel`.
    package struct Cancel: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Cancels an operation. Jobs that it has changed stay changed.")
        @Argument(help: "Identifier of the operation.") var id: String
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws {
            try show(
                try client.service().send("POST", "\(path(id))/cancel", body: Array("{}".utf8)), client)
        }
    }
}

private func path(_ id: String) -> String { "/v1/operations/\(percentEncoded(id))" }

private func show(_ response: ServiceClient.Response, _ client: ClientOptions) throws {
    let console = Console.current
    if client.json { return try console.data(json: response.bytes) }
    try console.data(line: bulkLine(response.json))
}
