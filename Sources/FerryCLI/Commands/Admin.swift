package import ArgumentParser
import FerryCore

/// `ferry admin`: commands for operators. They need a key with the role `admin`.
package struct Admin: ParsableCommand {
    package static let configuration = CommandConfiguration(
        abstract: "Shows the state of the service and controls it.",
        subcommands: [
            Status.self, Nodes.self, Tenants.self, AdminHosts.self, Limits.self, Windows.self,
            Keys.self, Audit.self,
            Pause.self, Resume.self, Drain.self, AdminContentStore.self,
        ])

    package init() {}

    /// `ferry admin status`.
    package struct Status: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Shows jobs, throughput, database and storage.")
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws {
            let console = Console.current
            let response = try client.service().send("GET", "/v1/admin/status")
            if client.json { return try console.data(json: response.bytes) }
            for (name, value) in leaves(response.json) {
                try console.data(line: "\(name):".padded(to: 44) + value)
            }
        }
    }

    /// `ferry admin nodes`.
    package struct Nodes: ParsableCommand {
        package static let configuration = CommandConfiguration(abstract: "Lists nodes and their heartbeats.")
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws { try list("/v1/admin/nodes", client) }
    }

    /// `ferry admin limits`.
    package struct Limits: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Shows or changes the rate limits of all transfers together.",
            discussion: "Limits are in bytes per second; `none` removes a limit.")
        @OptionGroup var client: ClientOptions
        @Option(help: "Limit on received bytes, over all nodes.") var received: String?
        @Option(help: "Limit on sent bytes, over all nodes.") var sent: String?
        @Option(help: "Limit for each host on each node.") var perHost: String?

        package init() {}

        package func run() throws {
            let given = [
                ("max_bytes_received_per_second", received), ("max_bytes_sent_per_second", sent),
                ("max_bytes_per_second_per_host", perHost),
            ]
            var patch: [JSON.Member] = []
            for (name, text) in given {
                guard let text else { continue }
                let limit = Int64(text)
                guard limit != nil || text == "none" else {
                    throw ValidationError("\(text) is not a number of bytes per second, nor \"none\".")
                }
                patch.append(JSON.Member(name, limit.map { .integer($0) } ?? .null))
            }
            var writer = JSONWriter()
            writer.value(.object(patch))
            let service = try client.service()
            let response =
                patch.isEmpty
                ? try service.send("GET", "/v1/admin/limits")
                : try service.send("PATCH", "/v1/admin/limits", body: writer.bytes)
            if client.json { return try Console.current.data(json: response.bytes) }
            for (name, value) in leaves(response.json) {
                try Console.current.data(line: "\(name):".padded(to: 44) + value)
            }
        }
    }

    /// `ferry admin keys`.
    package struct Keys: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Lists the API keys, without their secrets.")
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws { try list("/v1/admin/keys", client) }
    }
}

/// Prints a list with the members of its first entry as columns: all pages, or one of `limit` entries.
func list(_ path: String, _ client: ClientOptions, limit: Int? = nil) throws {
    let console = Console.current
    let listing = try Listing(path, of: client.service(), limit: limit)
    if client.json { return try console.data(json: listing.json) }
    let entries = listing.entries
    let names = entries.first?.members?.map(\.name) ?? []
    let rows = entries.map { entry in names.map { name in entry[name].map(plainText) ?? "-" } }
    let heading = names.map { $0.uppercased() }
    for line in tableLines(heading, rows, terminalWidth: console.outIsTerminal ? console.width() : nil)
    where !names.isEmpty {
        try console.data(line: line)
    }
}

/// Returns all scalars of a value with their paths, such as `database.ok`.
func leaves(_ value: JSON, _ path: String = "") -> [(String, String)] {
    let below: (String) -> String = { path.isEmpty ? $0 : "\(path).\($0)" }
    switch value {
    case .object(let members): return members.flatMap { leaves($0.value, below($0.name)) }
    case .array(let values): return values.enumerated().flatMap { leaves($1, below("\($0)")) }
    default: return [(path, plainText(value))]
    }
}

/// Returns a string without quotes, a fraction rounded to thousandths, `-` for null, and JSON for other
/// values.
func plainText(_ value: JSON) -> String {
    switch value {
    case .null: return "-"
    case .string(let text): return text
    case .number(let number) where number.magnitude >= 0.001 && number.magnitude < 1e12:
        return "\((number * 1_000).rounded() / 1_000)"
    default:
        var writer = JSONWriter()
        writer.value(value)
        return String(decoding: writer.bytes, as: UTF8.self)
    }
}
