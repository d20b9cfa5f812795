package import ArgumentParser
import FerryCore

/// `ferry admin content-store`.
package struct AdminContentStore: ParsableCommand {
    package static let configuration = CommandConfiguration(
        commandName: "content-store",
        abstract: "Shows where results without a destination are, and what sweeps have removed.",
        subcommands: [Show.self, Accept.self], defaultSubcommand: Show.self)

    package init() {}

    /// `ferry admin content-store show`.
    package struct Show: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Shows the state of the content store.")
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws {
            try printMembers(of: client.service().send("GET", "/v1/admin/content-store"), client)
        }
    }

    /// `ferry admin content-store accept`.
    package struct Accept: ParsableCommand {
        package static let configuration = CommandConfiguration(
            abstract: "Accepts that the database was restored.",
            discussion: """
                Until then no object is removed. Afterwards, objects that no job needs are removed as usual: \
                accept only if no later backup of the database will be restored.
                """)
        @OptionGroup var client: ClientOptions

        package init() {}

        package func run() throws { try order("/v1/admin/content-store/accept", client) }
    }
}
