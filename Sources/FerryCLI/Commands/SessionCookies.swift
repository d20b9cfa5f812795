package import ArgumentParser
import FerryCore

extension Sessions {
    /// `ferry sessions cookies`.
    package struct Cookies: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Lists and changes the cookies of a session.",
            discussion: """
                The table has no values: --json and --netscape show them. A FILE has one of these two forms; \
                - is standard input.
                """)
        @Argument(help: "Name of the session.") var session: String
        @Option(help: ArgumentHelp("Only cookies that are sent to this host.", valueName: "host"))
        var domain: String?
        @Option(help: "Only cookies with this name.") var name: String?
        @Flag(help: "Write the cookies in Netscape's format, as curl reads it.") var netscape = false
        @Option(help: ArgumentHelp("Add the cookies of a file.", valueName: "file")) var add: String?
        @Option(help: ArgumentHelp("Replace all cookies by those of a file.", valueName: "file"))
        var replace: String?
        @Flag(help: "Delete the cookies that match; all without --domain and --name.") var delete = false
        @OptionGroup var client: ClientOptions

        package init() {}

        package func validate() throws {
            let count = [netscape, add != nil, replace != nil, delete].count { $0 }
            if count > 1 {
                throw ValidationError("Use only one of --netscape, --add, --replace and --delete.")
            }
            if add != nil || replace != nil, domain != nil || name != nil {
                throw ValidationError("--domain and --name cannot be used with --add and --replace.")
            }
        }

        package func run() throws {
            let service = try client.service()
            if let file = add ?? replace { return try write(file, replace == nil ? "POST" : "PUT", service) }
            let query = [("domain", domain), ("name", name)].compactMap { key, value in
                value.map { "\(key)=\(percentEncoded($0))" }
            }
            let place = path + (query.isEmpty ? "" : "?" + query.joined(separator: "&"))
            if delete { return _ = try service.send("DELETE", place) }
            if netscape {
                let raw = try service.perform("GET", place, accept: "text/plain")
                guard raw.status == 200 else { throw ServiceClient.failure(raw.status, raw.body) }
                return try Console.current.data(raw.body)
            }
            try list(try Listing(place, of: service))
        }

        private var path: String { sessionPath(session) + "/cookies" }

        private func write(_ file: String, _ method: String, _ service: ServiceClient) throws {
            let bytes = try LocalFile.read(file, byteCountMax: Limits.cookieListByteCountMax)
            let first = bytes.first { ![0x09, 0x0A, 0x0D, 0x20].contains($0) }
            let type = first == UInt8(ascii: "{") ? "application/json" : "text/plain"
            _ = try service.parsed(try service.perform(method, path, body: bytes, mediaType: type))
        }

        private func list(_ listing: Listing) throws {
            let console = Console.current
            if client.json { return try console.data(json: listing.json) }
            let rows = listing.entries.map { cookie in
                let flags = [("secure", "Secure"), ("http_only", "HttpOnly"), ("host_only", "host only")]
                    .filter { cookie[$0.0]?.bool == true }.map(\.1)
                return [
                    cookie["domain"]?.string ?? "?", cookie["path"]?.string ?? "?",
                    cookie["name"]?.string ?? "?", cookie["expires_at"]?.string ?? "with the session",
                    flags.isEmpty ? "-" : flags.joined(separator: ", "),
                ]
            }
            let names = ["DOMAIN", "PATH", "NAME", "EXPIRES", "FLAGS"]
            let width = console.outIsTerminal ? console.width() : nil
            for line in tableLines(names, rows, terminalWidth: width) { try console.data(line: line) }
        }
    }
}
