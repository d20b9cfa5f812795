package import ArgumentParser
import FerryCore

/// `ferry deliveries`: events on their way to webhooks.
package struct Deliveries: ParsableCommand {
    package static let configuration = CommandConfiguration(
        abstract: "Lists and shows deliveries of a job or of a webhook endpoint.",
        discussion: """
            EXAMPLES
              ferry deliveries job_0123456789abcdefghjkmnpqrs
              ferry deliveries whk_0123456789abcdefghjkmnpqrs --state given_up
            """,
        subcommands: [List.self, Show.self], defaultSubcommand: List.self)

    package init() {}

    /// `ferry deliveries list`.
    package struct List: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Lists the deliveries of a job or an endpoint, newest first.")
        @Argument(help: "Identifier of the job or the endpoint.") var id: String
        @Option(help: "Of an endpoint: only pending, accepted or given_up ones.") var state: String?
        @Option(help: "Of an endpoint: only events of this type.") var type: String?
        @Option(name: [.customShort("n"), .long], help: "Number of deliveries, at most 500.") var limit = 50
        @OptionGroup var client: ClientOptions

        package init() {}

        private var isOfEndpoint: Bool { id.hasPrefix(WebhookKindTag.prefix) }

        package mutating func validate() throws {
            guard isOfEndpoint || state == nil && type == nil else {
                throw ValidationError("--state and --type need the identifier of an endpoint.")
            }
        }

        package func run() throws {
            let console = Console.current
            let given = [("limit", "\(limit)"), ("state", state), ("type", type)]
            let filters = given.compactMap { name, value in value.map { "\(name)=\(percentEncoded($0))" } }
            let subject = isOfEndpoint ? "webhooks" : "jobs"
            let response = try client.service().send(
                "GET", "/v1/\(subject)/\(percentEncoded(id))/deliveries?\(filters.joined(separator: "&"))")
            if client.json { return try console.data(json: response.bytes) }
            let lines = tableLines(
                ["DELIVERY", "TYPE", "STATE", "TRIES", "LAST", "NEXT TRY", "URL"],
                (response.json["data"]?.array ?? []).map(row),
                terminalWidth: console.outIsTerminal ? console.width() : nil)
            for line in lines { try console.data(line: line) }
        }

        private func row(_ delivery: JSON) -> [String] {
            let tries = delivery["tries"]?.array ?? []
            let next = delivery["waiting_reason"]?["next_check_at"] ?? delivery["next_try_at"]
            return [
                delivery["id"]?.string ?? "", delivery["type"]?.string ?? "",
                delivery["waiting_reason"]?["code"]?.string ?? delivery["state"]?.string ?? "",
                "\(tries.count)", tries.last.map(outcome) ?? "-", next?.string ?? "-",
                delivery["url"]?.string ?? "",
            ]
        }
    }

    /// `ferry deliveries show`.
    package struct Show: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Shows a delivery and each of its tries.")
        @Argument(help: "Identifier of the delivery.") var id: String
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws {
            let response = try client.service().send("GET", "/v1/deliveries/\(percentEncoded(id))")
            try Deliveries.show(response, client)
        }
    }

    /// Prints a delivery: a name and a value on each line, and a line for each try.
    fileprivate static func show(_ response: ServiceClient.Response, _ client: ClientOptions) throws {
        let console = Console.current
        if client.json { return try console.data(json: response.bytes) }
        let delivery = response.json
        let rows: [(String, String?)] = [
            ("delivery", delivery["id"]?.string), ("event", delivery["event"]?.string),
            ("type", delivery["type"]?.string), ("job", delivery["job"]?.string),
            ("webhook", delivery["webhook"]?.string), ("url", delivery["url"]?.string),
            ("state", delivery["state"]?.string), ("occurred", delivery["occurred_at"]?.string),
            ("waits", delivery["waiting_reason"]?["detail"]?.string),
            (
                "next try",
                (delivery["waiting_reason"]?["next_check_at"] ?? delivery["next_try_at"])?.string
            ),
        ]
        for (name, value) in rows {
            if let value { try console.data(line: "\(name):".padded(to: 12) + value) }
        }
        for entry in delivery["tries"]?.array ?? [] {
            let number = entry["number"].map(plainText) ?? "-"
            try console.data(
                line: "try \(number):".padded(to: 12)
                    + "\(entry["started_at"]?.string ?? "-")  \(outcome(entry))  "
                    + "\(entry["duration"].map(plainText) ?? "-") s")
        }
    }
}

/// `ferry redeliver`: sends deliveries again.
package struct Redeliver: ParsableCommand {
    package static let configuration = CommandConfiguration(
        abstract: "Sends deliveries again, whatever their state is.",
        discussion: """
            EXAMPLES
              ferry deliveries whk_… --state given_up | cut -f1 | xargs ferry redeliver
            """)
    @Argument(help: "Identifiers of the deliveries.") var ids: [String]
    @OptionGroup var client: ClientOptions

    package init() {}

    package func run() throws {
        let service = try client.service()
        try forEach(ids) { id throws(ClientFailure) in
            let response = try service.send(
                "POST", "/v1/deliveries/\(percentEncoded(id))/redeliver", body: Array("{}".utf8))
            if client.json {
                try Console.current.data(json: response.bytes)
            } else {
                try Console.current.data(line: "\(id)\t\(response.json["state"]?.string ?? "?")")
            }
        }
    }
}

/// Returns the outcome of a try: its status or its error.
private func outcome(_ entry: JSON) -> String {
    entry["status"]?.integer.map { "\($0)" } ?? entry["error"]?.string ?? "-"
}
