package import ArgumentParser
import FerryCore

/// `ferry admin`: what operators look at. Needs a key with the role `admin`.
package struct Admin: ParsableCommand {
    package static let configuration = CommandConfiguration(
        abstract: "Shows the service's condition to operators.",
        subcommands: [Status.self, Nodes.self, Keys.self])

    package init() {}

    package struct Status: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Jobs, throughput, database, storage.")
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws {
            let console = Console.current
            let answer = try client.service().send("GET", "/v1/admin/status")
            if client.json { return try console.data(json: answer.bytes) }
            for (name, value) in leaves(answer.json) {
                try console.data(line: "\(name):".padded(to: 44) + value)
            }
        }
    }

    package struct Nodes: ParsableCommand {
        package static let configuration = CommandConfiguration(abstract: "The nodes and their heartbeats.")
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws { try list("/v1/admin/nodes", client) }
    }

    package struct Keys: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "The API keys, without their secrets.")
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws { try list("/v1/admin/keys", client) }
    }
}

/// A list whose columns are the members of its first entry.
private func list(_ path: String, _ client: ClientOptions) throws {
    let console = Console.current
    let answer = try client.service().send("GET", path)
    if client.json { return try console.data(json: answer.bytes) }
    let entries = answer.json["data"]?.array ?? []
    let names = entries.first?.members?.map(\.name) ?? []
    let rows = entries.map { entry in names.map { name in entry[name].map(plainText) ?? "-" } }
    let heading = names.map { $0.uppercased() }
    for line in tableLines(heading, rows, terminalWidth: console.outIsTerminal ? console.width() : nil)
    where !names.isEmpty {
        try console.data(line: line)
    }
}

/// Every scalar of a value with its path: `database.ok`.
func leaves(_ value: JSON, _ path: String = "") -> [(String, String)] {
    let below: (String) -> String = { path.isEmpty ? $0 : "\(path).\($0)" }
    switch value {
    case .object(let members): return members.flatMap { leaves($0.value, below($0.name)) }
    case .array(let values): return values.enumerated().flatMap { leaves($1, below("\($0)")) }
    default: return [(path, plainText(value))]
    }
}

/// A scalar without quotes; `-` for null, JSON for the rest.
private func plainText(_ value: JSON) -> String {
    switch value {
    case .null: return "-"
    case .string(let text): return text
    default:
        var writer = JSONWriter()
        writer.value(value)
        return String(decoding: writer.bytes, as: UTF8.self)
    }
}

/// `ferry healthcheck`: for containers and load balancers.
package struct Healthcheck: ParsableCommand {
    package static let configuration = CommandConfiguration(
        abstract: "Asks the service whether it is ready.",
        discussion:
            "Status 0 when it is, 1 when it says it is not, 3 when it cannot be reached. Needs no key.")
    @OptionGroup var client: ClientOptions

    package init() {}

    package func run() throws {
        let console = Console.current
        let answer = try client.service().exchange("GET", "/readyz")
        if client.json, !answer.body.isEmpty { try console.data(json: answer.body) }
        guard answer.status == 200 else {
            throw ClientFailure(.failed, "The service is not ready (status \(answer.status)).")
        }
        if !client.json { try console.data(line: "ready") }
    }
}
