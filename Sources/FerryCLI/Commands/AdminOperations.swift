package import ArgumentParser
import FerryCore

extension Admin {
    package struct Tenants: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "The unfinished jobs of each tenant.")
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws { try list("/v1/admin/tenants", client) }
    }

    package struct Audit: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "What operators have changed, newest first.")
        @OptionGroup var client: ClientOptions
        @Option(help: "How many entries to show, at most 500.") var limit = 50

        package init() {}

        package func run() throws { try list("/v1/admin/audit", client, limit: limit) }
    }

    package struct Pause: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Begins nothing new on any node; what runs goes on.")
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws { try order("/v1/admin/pause", client) }
    }

    package struct Resume: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Begins jobs again: all nodes after `pause`, or one after `drain`.")
        @OptionGroup var client: ClientOptions
        @Argument(help: "The identifier of a node that was drained.") var node: String?

        package init() {}

        package func run() throws {
            let place = node.map { "/v1/admin/nodes/\(percentEncoded($0))" } ?? "/v1/admin"
            try order("\(place)/resume", client)
        }
    }

    package struct Drain: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Begins nothing new on one node, until it is resumed or restarted.")
        @OptionGroup var client: ClientOptions
        @Argument(help: "The node's identifier, as `ferry admin nodes` shows it.") var node: String

        package init() {}

        package func run() throws {
            try order("/v1/admin/nodes/\(percentEncoded(node))/drain", client)
        }
    }
}

/// Sends an order without a body and shows the answer.
private func order(_ path: String, _ client: ClientOptions) throws {
    let answer = try client.service().send("POST", path, body: Array("{}".utf8))
    if client.json { return try Console.current.data(json: answer.bytes) }
    for (name, value) in leaves(answer.json) {
        try Console.current.data(line: "\(name):".padded(to: 44) + value)
    }
}
