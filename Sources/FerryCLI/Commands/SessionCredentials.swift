package import ArgumentParser
import FerryCore

/// `ferry sessions credentials`.
package struct SessionCredentials: ParsableCommand {
    package static let configuration = CommandConfiguration(
        commandName: "credentials",
        abstract: "Lists, stores and removes the credentials that a session's jobs use.",
        subcommands: [List.self, Set.self, Delete.self], defaultSubcommand: List.self)

    package init() {}

    /// `ferry sessions credentials list`.
    package struct List: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Lists the credentials of a session by name, without their secrets.")
        @Argument(help: "Name of the session.") var session: String
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws {
            let console = Console.current
            let listing = try Listing(sessionPath(session) + "/credentials", of: client.service())
            if client.json { return try console.data(json: listing.json) }
            let rows = listing.entries.map(Self.row)
            let width = console.outIsTerminal ? console.width() : nil
            let names = ["CREDENTIAL", "SERVER", "REALM", "METHOD", "USER", "PERSISTENCE"]
            for line in tableLines(names, rows, terminalWidth: width) { try console.data(line: line) }
        }

        private static func row(_ credential: JSON) -> [String] {
            let space = credential["protection_space"]
            let scheme = space?["scheme"]?.string ?? "?"
            let (host, port) = (space?["host"]?.string ?? "?", space?["port"]?.integer ?? 0)
            return [
                credential["name"]?.string ?? "?", "\(scheme)://\(host):\(port)",
                space?["realm"]?.string ?? "-", space?["method"]?.string ?? "?",
                credential["user"]?.string ?? "-", credential["persistence"]?.string ?? "?",
            ]
        }
    }

    /// `ferry sessions credentials set`.
    package struct Set: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Creates or replaces a credential of a session.",
            discussion: """
                The password or token is read from a file, from standard input, or from the terminal, which \
                does not show it.
                """)
        @Argument(help: "Name of the session.") var session: String
        @Argument(help: "Name of the credential.") var credential: String
        @Argument(help: ArgumentHelp("Server: https://host or http://host:port.", valueName: "server-url"))
        var server: String
        @Option(name: .long, help: "Name of the user; without it, the secret is a bearer token.")
        var user: String?
        @Option(name: .long, help: "File with the password or token; - is standard input.")
        var secretFile: String?
        @Option(name: .long, help: "Only for challenges of this realm.") var realm: String?
        @Option(name: .long, help: "basic, digest, ntlm, bearer, or default: the strongest that is offered.")
        var method: String?
        @Flag(name: .long, help: "Keep it for later sessions of the same name.") var permanent = false
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws {
            guard let url = try? WebURL.parse(server), url.path == "/", url.query == nil else {
                throw ValidationError("\"\(server)\" is no server: name https://host or http://host:port.")
            }
            var space = [
                JSON.Member("scheme", .string(url.scheme.rawValue)), JSON.Member("host", .string(url.host)),
                JSON.Member("port", .integer(Int64(url.port))),
            ]
            if let realm { space.append(.init("realm", .string(realm))) }
            if let method { space.append(.init("method", .string(method))) }
            var members = [
                JSON.Member("protection_space", .object(space)),
                JSON.Member("persistence", .string(permanent ? "permanent" : "for_session")),
            ]
            if let user { members.append(.init("user", .string(user))) }
            members.append(.init(user == nil ? "token" : "password", .string(try secret())))
            var writer = JSONWriter()
            writer.value(.object(members))
            let place = credentialPath(session, credential)
            let response = try client.service().send("PUT", place, body: writer.bytes)
            if client.json { return try Console.current.data(json: response.bytes) }
            for (name, value) in leaves(response.json) {
                try Console.current.data(line: "\(name):".padded(to: 44) + value)
            }
        }

        private func secret() throws -> String {
            if let secretFile { return try LocalFile.readSecret(secretFile) }
            let console = Console.current
            console.err(user == nil ? "Token: " : "Password: ")
            guard let secret = console.secret() else {
                throw ValidationError("Standard input is no terminal: name a file by --secret-file.")
            }
            return secret
        }
    }

    /// `ferry sessions credentials delete`.
    package struct Delete: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Removes a credential of a session.")
        @Argument(help: "Name of the session.") var session: String
        @Argument(help: "Name of the credential.") var credential: String
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws {
            _ = try client.service().send("DELETE", credentialPath(session, credential))
        }
    }
}

private func credentialPath(_ session: String, _ credential: String) -> String {
    sessionPath(session) + "/credentials/\(percentEncoded(credential))"
}
