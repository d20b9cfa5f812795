package import ArgumentParser
import FerryCore

/// `ferry sessions`.
package struct Sessions: ParsableCommand {
    package static let configuration = CommandConfiguration(
        abstract: "Lists, shows, changes and removes sessions: settings that jobs share.",
        subcommands: [
            List.self, Show.self, Set.self, Cookies.self, SessionCredentials.self, Reset.self,
            Flush.self, Invalidate.self, Delete.self,
        ],
        defaultSubcommand: List.self)

    package init() {}

    /// `ferry sessions list`.
    package struct List: ParsableCommand {
        package static let configuration = CommandConfiguration(abstract: "Lists sessions by name.")
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws {
            let console = Console.current
            let listing = try Listing("/v1/sessions", of: client.service())
            if client.json { return try console.data(json: listing.json) }
            let rows = listing.entries.map(Self.row)
            let names = ["SESSION", "KIND", "WEIGHT", "CONNECTIONS PER HOST", "STATE"]
            let width = console.outIsTerminal ? console.width() : nil
            for line in tableLines(names, rows, terminalWidth: width) { try console.data(line: line) }
        }

        private static func row(_ session: JSON) -> [String] {
            let connections = session["http_maximum_connections_per_host"]?.integer.map { "\($0)" } ?? "-"
            let state =
                session["ended_at"]?.string != nil
                ? "ended" : session["invalidation"]?.string.map { "invalidated (\($0))" } ?? "valid"
            return [
                session["identifier"]?.string ?? "?", session["kind"]?.string ?? "?",
                session["weight"]?.double.map { "\($0)" } ?? "?", connections, state,
            ]
        }
    }

    /// `ferry sessions show`.
    package struct Show: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Shows a session and the number of its unfinished jobs.")
        @Argument(help: "Name of the session.") var session: String
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws {
            try show(try client.service().send("GET", sessionPath(session)), client)
        }
    }

    /// `ferry sessions set`.
    package struct Set: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Creates a session or changes its fields.",
            discussion: """
                FIELD=VALUE uses the names of the API, such as weight=2 or proxy=null; a value is JSON or \
                text. Other fields stay unchanged. Secrets cannot be read: give a field that contains one \
                again with its value.
                """)
        @Argument(help: "Name of the session.") var session: String
        @Argument(help: "FIELD=VALUE") var fields: [String] = []
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws {
            let service = try client.service()
            let found = try service.perform("GET", sessionPath(session))
            guard found.status == 200 || found.status == 404 else {
                throw ServiceClient.failure(found.status, found.body)
            }
            let before = found.status == 200 ? try JSON.parse(found.body) : nil
            var members = before.map(sessionFields) ?? []
            for field in fields {
                let parts = field.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
                guard parts.count == 2, !parts[0].isEmpty else {
                    throw ValidationError("\"\(field)\" is not FIELD=VALUE.")
                }
                // Text that is not JSON is a string.
                let value = (try? JSON.parse(Array(parts[1].utf8))) ?? .string(String(parts[1]))
                members.removeAll { $0.name == parts[0] }
                members.append(JSON.Member(String(parts[0]), value))
            }
            for member in members where holdsSecret(member.value) {
                throw ClientFailure(
                    .usage, "\(member.name) contains a secret, which cannot be read. Give its value again.")
            }
            var writer = JSONWriter()
            writer.value(.object(members))
            let revision = before?["is_configured"]?.bool == true ? before?["revision"]?.integer : nil
            try show(
                try service.send(
                    "PUT", sessionPath(session), body: writer.bytes, ifMatch: revision.map { "\"r\($0)\"" }),
                client)
        }
    }

    /// `ferry sessions invalidate`.
    package struct Invalidate: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Invalidates a session: it accepts no more jobs.",
            discussion: "Its unfinished jobs continue, or are cancelled with --cancel.")
        @Argument(help: "Name of the session.") var session: String
        @Flag(help: "Cancel its unfinished jobs.") var cancel = false
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws {
            let body = #"{"mode":"\#(cancel ? "cancel" : "finish")"}"#
            let place = sessionPath(session) + "/invalidate"
            try show(try client.service().send("POST", place, body: Array(body.utf8)), client)
        }
    }

    /// `ferry sessions reset`.
    package struct Reset: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Removes all that a session remembers: its cookies and credentials.")
        @Argument(help: "Name of the session.") var session: String
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws {
            try show(try client.service().send("POST", sessionPath(session) + "/reset"), client)
        }
    }

    /// `ferry sessions flush`.
    package struct Flush: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Makes later jobs of a session use new connections.")
        @Argument(help: "Name of the session.") var session: String
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws {
            try show(try client.service().send("POST", sessionPath(session) + "/flush"), client)
        }
    }

    /// `ferry sessions delete`.
    package struct Delete: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Removes an invalidated session without unfinished jobs.")
        @Argument(help: "Name of the session.") var session: String
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws { _ = try client.service().send("DELETE", sessionPath(session)) }
    }
}

/// Path of a session.
func sessionPath(_ session: String) -> String { "/v1/sessions/\(percentEncoded(session))" }

/// Members of a session that are not configuration.
private let shownOnly: Swift.Set<String> = [
    "identifier", "tenant", "is_configured", "revision", "created_at", "updated_at", "invalidation",
    "invalidated_at", "ended_at", "jobs",
]

/// Returns the configured members of a session; none if it has the default values.
private func sessionFields(_ session: JSON) -> [JSON.Member] {
    guard session["is_configured"]?.bool == true else { return [] }
    return (session.members ?? []).filter { !shownOnly.contains($0.name) }
}

/// Returns `true` if a value contains `{"set": true}`, which stands for a secret.
private func holdsSecret(_ value: JSON) -> Bool {
    switch value {
    case .object(let members):
        members.contains { $0.name == "set" && $0.value == .bool(true) || holdsSecret($0.value) }
    case .array(let values): values.contains(where: holdsSecret)
    default: false
    }
}

private func show(_ response: ServiceClient.Response, _ client: ClientOptions) throws {
    if client.json { return try Console.current.data(json: response.bytes) }
    for (name, value) in leaves(response.json) {
        try Console.current.data(line: "\(name):".padded(to: 44) + value)
    }
}
