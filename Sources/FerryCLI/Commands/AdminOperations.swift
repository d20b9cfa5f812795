package import ArgumentParser
import FerryCore

extension Admin {
    /// `ferry admin tenants`.
    package struct Tenants: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Lists the unfinished jobs of each tenant.")
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws { try list("/v1/admin/tenants", client) }
    }

    /// `ferry admin audit`.
    package struct Audit: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Lists changes made by operators, newest first.")
        @OptionGroup var client: ClientOptions
        @Option(help: "Number of entries, at most 500.") var limit = 50

        package init() {}

        package func run() throws { try list("/v1/admin/audit", client, limit: limit) }
    }

    /// `ferry admin pause`.
    package struct Pause: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Starts no jobs on any node; running jobs continue.")
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws { try order("/v1/admin/pause", client) }
    }

    /// `ferry admin resume`.
    package struct Resume: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Starts jobs again: on all nodes after `pause`, or on one after `drain`.")
        @OptionGroup var client: ClientOptions
        @Argument(help: "Identifier of a drained node.") var node: String?

        package init() {}

        package func run() throws {
            let place = node.map { "/v1/admin/nodes/\(percentEncoded($0))" } ?? "/v1/admin"
            try order("\(place)/resume", client)
        }
    }

    /// `ferry admin drain`.
    package struct Drain: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Drains a node until it is resumed or restarted.",
            discussion: """
                The node starts no jobs, finishes those that run, and serves the API. Its /readyz is 503, so \
                that load balancers stop using it.
                """)
        @OptionGroup var client: ClientOptions
        @Argument(help: "Identifier of the node, from `ferry admin nodes`.") var node: String

        package init() {}

        package func run() throws {
            try order("/v1/admin/nodes/\(percentEncoded(node))/drain", client)
        }
    }
}

/// Sends a request with an empty object and prints the response.
func order(_ path: String, _ client: ClientOptions) throws {
    try printMembers(of: client.service().send("POST", path, body: Array("{}".utf8)), client)
}

/// Prints the members of a response, one a line.
func printMembers(of response: ServiceClient.Response, _ client: ClientOptions) throws {
    if client.json { return try Console.current.data(json: response.bytes) }
    for (name, value) in leaves(response.json) {
        try Console.current.data(line: "\(name):".padded(to: 44) + value)
    }
}
