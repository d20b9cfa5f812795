package import ArgumentParser
import FerryCore

/// `ferry admin hosts`: how the hosts do that transfers talk to, and what holds for them.
package struct AdminHosts: ParsableCommand {
    package static let configuration = CommandConfiguration(
        commandName: "hosts", abstract: "The hosts of which something is known, and what holds for them.",
        discussion: "A host is named as https://host:port; without a scheme it means https.",
        subcommands: [List.self, Show.self, Set.self], defaultSubcommand: List.self)

    package init() {}

    package struct List: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "All hosts in trouble, limited, or configured.")
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws {
            let console = Console.current
            let listing = try Listing("/v1/admin/hosts", of: client.service())
            if client.json { return try console.data(json: listing.json) }
            let rows = listing.entries.map(row)
            guard !rows.isEmpty else { return }
            let heading = [
                "HOST", "STATE", "LIMIT", "PER SECOND", "IN FLIGHT", "BACKOFF UNTIL", "JOBS/S", "BYTES/S",
            ]
            for line in tableLines(
                heading, rows, terminalWidth: console.outIsTerminal ? console.width() : nil)
            {
                try console.data(line: line)
            }
        }

        private func row(_ host: JSON) -> [String] {
            func text(_ value: JSON?) -> String { value.map(plainText) ?? "-" }
            return [
                text(host["host"]), text(host["state"]), text(host["connection_limit"]),
                text(host["request_rate_limit"]), text(host["in_flight"]), text(host["backoff_until"]),
                text(host["throughput"]?["jobs_per_second"]), text(host["throughput"]?["bytes_per_second"]),
            ]
        }
    }

    package struct Show: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "One host, with the latest decisions about it.")
        @Argument(help: "The host.") var host: String
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws {
            try show(try client.service().send("GET", "/v1/admin/hosts/\(percentEncoded(host))"), client)
        }
    }

    package struct Set: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Changes what holds for a host; `none` takes a value away.")
        @Argument(help: "The host.") var host: String
        @Option(help: "Transfers at once that it always gets.") var minimum: String?
        @Option(help: "Transfers at once at most, of all nodes together.") var maximum: String?
        @Option(help: "Bytes a second of all nodes together.") var rate: String?
        @Option(help: "Transfers begun a second, of all nodes together; 0.5 is one in two seconds.")
        var requestsPerSecond: String?
        @Flag(inversion: .prefixedNo, help: "Nothing begins there.") var paused: Bool?
        @Flag(help: "Whatever it asked for, transfers begin now.") var clearBackoff = false
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws {
            var patch: [JSON.Member] = []
            let given = [
                ("minimum_connections", minimum), ("maximum_connections", maximum),
                ("max_bytes_per_second", rate),
            ]
            for (name, text) in given {
                guard let text else { continue }
                let number = Int64(text)
                guard number != nil || text == "none" else {
                    throw ValidationError("\(text) is not a number, nor \"none\".")
                }
                patch.append(JSON.Member(name, number.map { .integer($0) } ?? .null))
            }
            if let text = requestsPerSecond {
                let number = Double(text)
                guard number != nil || text == "none" else {
                    throw ValidationError("\(text) is not a number, nor \"none\".")
                }
                patch.append(JSON.Member("max_requests_per_second", number.map { .number($0) } ?? .null))
            }
            if let paused { patch.append(JSON.Member("paused", .bool(paused))) }
            if clearBackoff { patch.append(JSON.Member("backoff_until", .null)) }
            guard !patch.isEmpty else { throw ValidationError("Say what is to be changed.") }
            var writer = JSONWriter()
            writer.value(.object(patch))
            let answer = try client.service().send(
                "PATCH", "/v1/admin/hosts/\(percentEncoded(host))", body: writer.bytes)
            try show(answer, client)
        }
    }
}

private func show(_ answer: ServiceClient.Answer, _ client: ClientOptions) throws {
    let console = Console.current
    if client.json { return try console.data(json: answer.bytes) }
    for (name, value) in leaves(answer.json) where !name.hasPrefix("decisions.") {
        try console.data(line: "\(name):".padded(to: 32) + value)
    }
    for decision in answer.json["decisions"]?.array ?? [] {
        try console.data(
            line: "\(decision["at"].map(plainText) ?? "-")  \(decision["sentence"].map(plainText) ?? "-")")
    }
}
