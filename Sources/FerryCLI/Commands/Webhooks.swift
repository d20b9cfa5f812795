package import ArgumentParser
import FerryCore

/// `ferry webhooks`: a tenant's endpoints.
package struct Webhooks: ParsableCommand {
    package static let configuration = CommandConfiguration(
        abstract:
            "Where events are sent: lists, makes, tests, rotates, replays, enables and disables endpoints.",
        subcommands: [
            List.self, Create.self, Test.self, Rotate.self, Replay.self, Enable.self, Disable.self,
            Delete.self,
        ], defaultSubcommand: List.self)

    package init() {}

    package struct List: ParsableCommand {
        package static let configuration = CommandConfiguration(abstract: "The endpoints, newest first.")
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws {
            let console = Console.current
            let answer = try client.service().send("GET", "/v1/webhooks?limit=500")
            if client.json { return try console.data(json: answer.bytes) }
            let rows = (answer.json["data"]?.array ?? []).map { endpoint in
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

    package struct Create: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Makes an endpoint and shows its secret, this once.")
        @OptionGroup var client: ClientOptions
        @Argument(help: "Where events are posted.") var target: String
        @Option(help: "A type of events; several may be given. All without one.") var event: [String] = []
        @Option(help: "Events of this session only.") var session: String?
        @Option(help: "NAME=VALUE that the job's metadata must have; several may be given.")
        var metadata: [String] = []
        @Flag(help: "The next event only after the one before was accepted or given up.") var ordered = false
        @Flag(help: "CloudEvents instead of plain Standard Webhooks.") var cloudevents = false
        @Option(help: "Results stay until they are acknowledged: by client, or by webhook too.")
        var acknowledgement: String?
        @Option(help: "Seconds after a job's end; then its acknowledgement is waited for no more.")
        var acknowledgementTimeout: Double?
        @Option(help: "For people.") var description: String?

        package init() {}

        package func validate() throws {
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
            if let acknowledgement {
                writer.name("acknowledgement")
                writer.beginObject()
                writer.member("by", acknowledgement)
                if let acknowledgementTimeout { writer.member("timeout", acknowledgementTimeout) }
                writer.endObject()
            }
            if let description { writer.member("description", description) }
            writer.endObject()
            let answer = try client.service().send("POST", "/v1/webhooks", body: writer.bytes)
            try showSecret(answer, client)
        }

        private func pairs() throws -> [JSON.Member] {
            try metadata.map { text in
                let parts = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
                guard parts.count == 2 else { throw ValidationError("\(text) is not NAME=VALUE.") }
                return JSON.Member(String(parts[0]), .string(String(parts[1])))
            }
        }
    }

    package struct Test: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Sends a signed webhook.ping and shows what came back.",
            discussion: "Status 0 when the receiver accepted it, else 1.")
        @OptionGroup var client: ClientOptions
        @Argument(help: "The endpoint.") var id: String

        package init() {}

        package func run() throws {
            let console = Console.current
            let answer = try client.service().send("POST", path(id, "/test"), body: Array("{}".utf8))
            if client.json { try console.data(json: answer.bytes) }
            let attempt = answer.json["tries"]?.array?.last
            let status = attempt?["status"]?.integer.map { "status \($0)" }
            let result = status ?? attempt?["error"]?.string ?? "no answer yet"
            guard answer.json["state"]?.string == "accepted" else {
                throw ClientFailure(.failed, "The receiver did not accept it: \(result).")
            }
            if !client.json { try console.data(line: "accepted: \(result)") }
        }
    }

    package struct Rotate: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Makes a new secret and shows it, this once; the old one signs as well for a while.")
        @OptionGroup var client: ClientOptions
        @Argument(help: "The endpoint.") var id: String
        @Option(help: "Seconds for which the old secret signs as well; a day unless said otherwise.")
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

    package struct Replay: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Sends deliveries of a time again, under the identifiers that they had.")
        @OptionGroup var client: ClientOptions
        @Argument(help: "The endpoint.") var id: String
        @Option(help: "Events from this RFC 3339 time on.") var since: String
        @Option(help: "Events before this time.") var until: String?
        @Flag(help: "Only what was given up.") var onlyFailed = false

        package init() {}

        package func run() throws {
            var writer = JSONWriter()
            writer.beginObject()
            writer.member("since", since)
            if let until { writer.member("until", until) }
            if onlyFailed { writer.member("only", "failed") }
            writer.endObject()
            let answer = try client.service().send("POST", path(id, "/replay"), body: writer.bytes)
            if client.json { return try Console.current.data(json: answer.bytes) }
            try Console.current.data(line: "redelivered: \(answer.json["redelivered"]?.integer ?? 0)")
        }
    }

    package struct Enable: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Enables an endpoint; what has waited goes out.")
        @OptionGroup var client: ClientOptions
        @Argument(help: "The endpoint.") var id: String

        package init() {}

        package func run() throws { try change(id, #"{"enabled":true}"#, client) }
    }

    package struct Disable: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Disables an endpoint; what is pending waits.")
        @OptionGroup var client: ClientOptions
        @Argument(help: "The endpoint.") var id: String

        package init() {}

        package func run() throws { try change(id, #"{"enabled":false}"#, client) }
    }

    package struct Delete: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Deletes an endpoint with what waits for it.")
        @OptionGroup var client: ClientOptions
        @Argument(help: "The endpoint.") var id: String

        package init() {}

        package func run() throws { _ = try client.service().send("DELETE", path(id)) }
    }
}

private func path(_ id: String, _ rest: String = "") -> String { "/v1/webhooks/\(percentEncoded(id))\(rest)" }

private func change(_ id: String, _ patch: String, _ client: ClientOptions) throws {
    let answer = try client.service().send("PATCH", path(id), body: Array(patch.utf8))
    if client.json { return try Console.current.data(json: answer.bytes) }
    let isEnabled = answer.json["enabled"]?.bool == true
    try Console.current.data(line: isEnabled ? "enabled" : "disabled")
}

private func showSecret(_ answer: ServiceClient.Answer, _ client: ClientOptions) throws {
    let console = Console.current
    if client.json { return try console.data(json: answer.bytes) }
    for name in ["id", "secret", "public_key"] {
        try console.data(line: "\(name):".padded(to: 12) + (answer.json[name]?.string ?? "-"))
    }
}
