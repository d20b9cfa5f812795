package import ArgumentParser
import FerryCore

/// `ferry admin hosts`: state and limits of hosts.
package struct AdminHosts: ParsableCommand {
    package static let configuration = CommandConfiguration(
        commandName: "hosts", abstract: "Shows and changes the state and limits of hosts.",
        discussion: """
            A host is given as https://host:port. Without a scheme, it is the listed host of that name.
            """,
        subcommands: [List.self, Show.self, Set.self], defaultSubcommand: List.self)

    package init() {}

    /// `ferry admin hosts list`.
    package struct List: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Lists hosts that fail, are limited, or are configured.")
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
                "SET MIN", "SET MAX", "SET BYTES/S", "SET PER SECOND", "PAUSED",
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
                text(host["minimum_connections"]), text(host["maximum_connections"]),
                text(host["max_bytes_per_second"]), text(host["max_requests_per_second"]),
                host["paused"]?.bool == true ? "yes" : "-",
            ]
        }
    }

    /// `ferry admin hosts show`.
    package struct Show: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Shows a host and the latest decisions about it.",
            discussion: """
                Without a scheme, every listed host of that name is shown: of any scheme, and of any port if \
                none is given. If the list has none, the scheme is https.
                """)
        @Argument(help: "The host.") var host: String
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws {
            let service = try client.service()
            let named = HostReference(host)
            let hosts = named?.scheme == nil ? try NamedHosts(host, service).listed : []
            for (index, host) in (hosts.isEmpty ? [host] : hosts).enumerated() {
                if index > 0, !client.json { try Console.current.data(line: "") }
                try show(try service.send("GET", "/v1/admin/hosts/\(percentEncoded(host))"), client)
            }
        }
    }

    /// `ferry admin hosts set`.
    package struct Set: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Changes the limits of a host; `none` removes a limit.",
            discussion: """
                Without a scheme, the host is the listed one of that name or, if none is listed, the one of \
                your unfinished jobs. If there are several, the command asks on a terminal, and ends with \
                status 2 elsewhere.
                """)
        @Argument(help: "The host.") var host: String
        @Option(help: "Transfers at once that the host always gets.") var minimum: String?
        @Option(help: "Largest number of transfers at once, over all nodes.") var maximum: String?
        @Option(help: "Bytes per second, over all nodes.") var rate: String?
        @Option(help: "Transfers started per second, over all nodes; 0.5 is one every two seconds.")
        var requestsPerSecond: String?
        @Flag(inversion: .prefixedNo, help: "Start no transfers to the host.") var paused: Bool?
        @Flag(help: "End the host's backoff: transfers may start now.") var clearBackoff = false
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
            guard !patch.isEmpty else { throw ValidationError("No change given; see --help.") }
            var writer = JSONWriter()
            writer.value(.object(patch))
            let service = try client.service()
            let origin = try NamedHosts(host, service).chosen()
            let response = try service.send(
                "PATCH", "/v1/admin/hosts/\(percentEncoded(origin))", body: writer.bytes)
            try show(response, client)
        }
    }
}

private func show(_ response: ServiceClient.Response, _ client: ClientOptions) throws {
    let console = Console.current
    if client.json { return try console.data(json: response.bytes) }
    for (name, value) in leaves(response.json) where !name.hasPrefix("decisions.") {
        try console.data(line: "\(name):".padded(to: 32) + value)
    }
    for decision in response.json["decisions"]?.array ?? [] {
        try console.data(
            line: "\(decision["at"].map(plainText) ?? "-")  \(decision["sentence"].map(plainText) ?? "-")")
    }
}
