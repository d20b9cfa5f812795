package import ArgumentParser
import FerryCore

extension Admin {
    /// `ferry admin windows`: off-peak windows.
    package struct Windows: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Shows and changes the windows for discretionary jobs and rates.",
            subcommands: [Show.self, Set.self], defaultSubcommand: Show.self)

        package init() {}

        /// `ferry admin windows show`.
        package struct Show: ParsableCommand {
            package static let configuration = CommandConfiguration(
                abstract: "Shows the windows and whether one is open.")
            @OptionGroup var client: ClientOptions

            package init() {}

            package func run() throws {
                try show(try client.service().send("GET", "/v1/admin/windows"), client)
            }
        }

        /// `ferry admin windows set`.
        package struct Set: ParsableCommand {
            package static let configuration = CommandConfiguration(
                abstract: "Changes the windows by a merge patch in JSON.",
                discussion: """
                    EXAMPLES
                      echo '{"windows":[]}' | ferry admin windows set -
                    """)
            @Argument(help: "File with the patch; - is standard input.") var file: String
            @OptionGroup var client: ClientOptions

            package init() {}

            package func run() throws {
                let patch = try LocalFile.readJSON(file, byteCountMax: 65_536)
                try show(try client.service().send("PATCH", "/v1/admin/windows", body: patch), client)
            }
        }
    }
}

private func show(_ response: ServiceClient.Response, _ client: ClientOptions) throws {
    if client.json { return try Console.current.data(json: response.bytes) }
    for (name, value) in leaves(response.json) {
        try Console.current.data(line: "\(name):".padded(to: 44) + value)
    }
}
