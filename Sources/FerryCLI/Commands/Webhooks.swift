package import ArgumentParser
import FerryCore

/// `ferry webhooks`: webhook endpoints of a tenant.
package struct Webhooks: ParsableCommand {
    package static let configuration = CommandConfiguration(
        abstract:
            "Lists, creates, tests, changes and deletes webhook endpoints.",
        subcommands: [
            List.self, Create.self, Test.self, Rotate.self, Replay.self, Enable.self, Disable.self,
            Delete.self,
        ], defaultSubcommand: List.self)

    package init() {}

    /// `ferry webhooks list`.
    package struct List: ParsableCommand {
        package static let configuration = CommandConfiguration(abstract: "Lists endpoints, newest first.")
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws {
            let console = Console.current
            let response = try client.service().send("GET", "/v1/webhooks?limit=500")
            if client.json { return try console.data(json: response.bytes) }
            let rows = (response.json["data"]?.array ?? []).map { endpoint in
                [
                    endpoint["id"]?.string ?? "", endpoint["url"]?.string ?? "",
                    endpoint["events"]?.array?.compactMap(\.string).joined(separator: ",") ?? "",
                    condition(endpoint),
                ]
            }
            let width = console.outIsTerminal ? console.width() : nil
            for line in tableLines(["ID", "URL", "EVENTS", "CONDITION"], rows, terminalWidth: width) {
                try console.data(line: line)
            }
        }

        private func condition(_ endpoint: JSON) -> String {
            if let reason = endpoint["disabled_reason"]?["code"]?.string { return "disabled: \(reason)" }
            return endpoint["failing_since"]?.string.map { "failing since \($0)" } ?? "enabled"
        }
    }

    /// `ferry webhooks create`.
    package struct Create: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Creates an endpoint and shows its secret, only this once.")
        @OptionGroup var client: ClientOptions
        @Argument(help: "URL that events are posted to.") var target: String
        @Option(help: "Type of events to send; repeatable. Default: all types.") var event: [String] = []
        @Option(help: "Send only events of this session.") var session: String?
        @Option(help: "Send only events of jobs with this metadata, as NAME=VALUE; repeatable.")
        var metadata: [String] = []
        @Flag(help: "Send an event after the previous one was accepted or given up.") var ordered = false
        @Flag(help: "Use CloudEvents instead of plain Standard Webhooks.") var cloudevents = false
        @Option(
            help: ArgumentHelp("Header field of deliveries; repeatable.", valueName: "name: value"))
        var header: [String] = []
        @Flag(help: "Send deliveries of at most 4,096 bytes, without most of the job.") var thin = false
        @Option(help: "PEM file with the authorities to trust instead of the system's.")
        var caFile: String?
        @Option(
            help: ArgumentHelp(
                "Public key the receiver must have; repeatable (any).", valueName: "sha256//base64"))
        var pin: [String] = []
        @Option(help: "Keep results until they are acknowledged by client, or by webhook too.")
        var acknowledgement: String?
        @Option(help: "Longest time to wait for an acknowledgement, in seconds after the end of the job.")
        var acknowledgementTimeout: Double?
        @Option(help: "Description of the endpoint.") var description: String?

        package init() {}

        package func validate() throws {
            for line in header where JobOptions.pair(line, separator: ":") == nil {
                throw ValidationError("\"\(line)\" is not a header field. Write it as 'Name: value'.")
            }
            guard acknowledgement == nil, acknowledgementTimeout != nil else { return }
            throw ValidationError("--acknowledgement-timeout needs --acknowledgement.")
        }

        package func run() throws {
            var writer = JSONWriter()
            writer.beginObject()
            writer.member("url", target)
            if !event.isEmpty { writer.member("events", .array(event.map { .string($0) })) }
            if let session { writer.member("session", session) }
            if !metadata.isEmpty { writer.member("metadata", .object(try pairs())) }
            if ordered { writer.member("ordered", true) }
            if cloudevents { writer.member("format", "cloudevents") }
            writer.deliveryContent(headers: header, isThin: thin)
            try writer.receiverTLS(caFile: caFile, pins: pin)
            if let acknowledgement {
                writer.name("acknowledgement")
                writer.beginObject()
                writer.member("by", acknowledgement)
                if let acknowledgementTimeout { writer.member("timeout", acknowledgementTimeout) }
                writer.endObject()
            }
            if let description { writer.member("description", description) }
            writer.endObject()
            let response = try client.service().send("POST", "/v1/webhooks", body: writer.bytes)
            try showSecret(response, client)
        }

        private func pairs() throws -> [JSON.Member] {
            try metadata.map { text in
                let parts = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
                guard parts.count == 2 else { throw ValidationError("\(text) is not NAME=VALUE.") }
                return JSON.Member(String(parts[0]), .string(String(parts[1])))
            }
        }
    }

    /// `ferry webhooks test`.
    package struct Test: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Sends a signed webhook.ping and shows the response.",
            discussion: "Exit status: 0 if the receiver accepts it, else 1.")
        @OptionGroup var client: ClientOptions
        @Argument(help: "Identifier of the endpoint.") var id: String

        package init() {}

        package func run() throws {
            let console = Console.current
            let response = try client.service().send("POST", path(id, "/test"), body: Array("{}".utf8))
            if client.json { try console.data(json: response.bytes) }
            let attempt = response.json["tries"]?.array?.last
            let status = attempt?["status"]?.integer.map { "status \($0)" }
            let result = status ?? attempt?["error"]?.string ?? "no response yet"
            guard response.json["state"]?.string == "accepted" else {
                throw ClientFailure(.failed, "The receiver did not accept the ping: \(result).")
            }
            if !client.json { try console.data(line: "accepted: \(result)") }
        }
    }

    /// `ferry webhooks rotate`.
    package struct Rotate: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Creates a new secret and shows it once. The old one still signs for a while.")
        @OptionGroup var client: ClientOptions
        @Argument(help: "Identifier of the endpoint.") var id: String
        @Option(help: "Seconds for which the old secret signs as well (default: one day).")
        var overlap: Double?

        package init() {}

        package func run() throws {
            var writer = JSONWriter()
            writer.beginObject()
            if let overlap { writer.member("overlap_seconds", overlap) }
            writer.endObject()
            try showSecret(
                try client.service().send("POST", path(id, "/rotate_secret"), body: writer.bytes), client)
        }
    }

    /// `ferry webhooks replay`.
    package struct Replay: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Sends the deliveries of a period again, with their former identifiers.")
        @OptionGroup var client: ClientOptions
        @Argument(help: "Identifier of the endpoint.") var id: String
        @Option(help: "Begin with events of this time (RFC 3339).") var since: String
        @Option(help: "End before this time.") var until: String?
        @Flag(help: "Send only deliveries that were given up.") var onlyFailed = false

        package init() {}

        package func run() throws {
            var writer = JSONWriter()
            writer.beginObject()
            writer.member("since", since)
            if let until { writer.member("until", until) }
            if onlyFailed { writer.member("only", "failed") }
            writer.endObject()
            let response = try client.service().send("POST", path(id, "/replay"), body: writer.bytes)
            if client.json { return try Console.current.data(json: response.bytes) }
            try Console.current.data(line: "redelivered: \(response.json["redelivered"]?.integer ?? 0)")
        }
    }

    /// `ferry webhooks enable`.
    package struct Enable: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Enables an endpoint. Pending deliveries are sent.")
        @OptionGroup var client: ClientOptions
        @Argument(help: "Identifier of the endpoint.") var id: String

        package init() {}

        package func run() throws { try change(id, #"{"enabled":true}"#, client) }
    }

    /// `ferry webhooks disable`.
    package struct Disable: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Disables an endpoint. Pending deliveries wait.")
        @OptionGroup var client: ClientOptions
        @Argument(help: "Identifier of the endpoint.") var id: String

        package init() {}

        package func run() throws { try change(id, #"{"enabled":false}"#, client) }
    }

    /// `ferry webhooks delete`.
    package struct Delete: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Deletes an endpoint and its pending deliveries.")
        @OptionGroup var client: ClientOptions
        @Argument(help: "Identifier of the endpoint.") var id: String

        package init() {}

        package func run() throws { _ = try client.service().send("DELETE", path(id)) }
    }
}

private func path(_ id: String, _ rest: String = "") -> String { "/v1/webhooks/\(percentEncoded(id))\(rest)" }

private func change(_ id: String, _ patch: String, _ client: ClientOptions) throws {
    let response = try client.service().send("PATCH", path(id), body: Array(patch.utf8))
    if client.json { return try Console.current.data(json: response.bytes) }
    let isEnabled = response.json["enabled"]?.bool == true
    try Console.current.data(line: isEnabled ? "enabled" : "disabled")
}

private func showSecret(_ response: ServiceClient.Response, _ client: ClientOptions) throws {
    let console = Console.current
    if client.json { return try console.data(json: response.bytes) }
    for name in ["id", "secret", "public_key"] {
        try console.data(line: "\(name):".padded(to: 12) + (response.json[name]?.string ?? "-"))
    }
}
