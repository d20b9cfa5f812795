import ArgumentParser
import FerryCLI
import FerryServer
import Glibc
import Sys

/// The `ferry` program: the service, its maintenance commands and its client.
@main
struct Ferry: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "ferry",
        abstract:
            "Background transfers over HTTP, with retries and webhooks.",
        discussion: """
            All commands have --json, which prints JSON on standard output.

            Exit status: 0 success; 1 the job or a check failed, the service refused the request (such as \
            401, 403, 404, 409), or a local file cannot be read or written; 2 invalid arguments, or an \
            invalid request (400, 413, 415, 422); 3 the service cannot be reached (also 502, 503, 504); \
            4 the timeout of a wait has passed.
            """,
        version: ferryVersion,
        groupedSubcommands: [
            CommandGroup(name: "Service", subcommands: [Serve.self, Migrate.self, Check.self]),
            CommandGroup(name: "Client", subcommands: clientCommands),
        ])

    /// Exits with status 2 for invalid arguments, and with the command's own status for other errors.
    static func main() {
        StandardDescriptors.reserve()
        do {
            var command = try parseAsRoot(ArgumentBytes.all)
            try command.run()
        } catch {
            let status = exitStatus(for: error)
            let message = fullMessage(for: error)
            if !message.isEmpty {
                // Help and version are requested output: they go to standard output.
                let line = Array((message + "\n").utf8)
                let count = write(status == 0 ? STDOUT_FILENO : STDERR_FILENO, line, line.count)
                if status == 0, count != line.count { Glibc.exit(1) }
            }
            Glibc.exit(status)
        }
    }
}

/// Options of all commands that read the service's settings. They override the environment.
struct ServiceOptions: ParsableArguments {
    @Option(name: .long, help: "Address and port of the API (FERRY_LISTEN).") var listen: String?
    @Option(name: .long, help: "Data directory (FERRY_DATA_DIR).") var dataDir: String?
    @Option(name: .long, help: "File with settings, as NAME=value lines (FERRY_CONFIG).") var config: String?
    @Option(name: .long, help: "Lowest level to log, from trace to critical (FERRY_LOG_LEVEL).")
    var logLevel: String?

    /// `flags`: further settings, by the names of their variables.
    func load(_ flags: [String: String] = [:]) throws -> Configuration {
        var flags = flags
        flags["FERRY_LISTEN"] = listen
        flags["FERRY_DATA_DIR"] = dataDir
        flags["FERRY_CONFIG"] = config
        flags["FERRY_LOG_LEVEL"] = logLevel
        do {
            return try loadConfiguration(flags: flags)
        } catch {
            throw ValidationError(error.description)
        }
    }
}

struct Serve: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Runs the service until SIGTERM.")
    @OptionGroup var options: ServiceOptions
    @Flag(
        name: .long,
        help: "Hold jobs, deliveries, schedules and probes of all nodes until resumed (FERRY_PAUSED=true).")
    var paused = false
    @Flag(name: .long, help: "Report readiness as a JSON object on standard output.")
    var json = false

    func run() throws {
        let status = serve(try options.load(paused ? ["FERRY_PAUSED": "true"] : [:]), json: json)
        guard status == 0 else { throw ExitCode(status) }
    }
}

struct Migrate: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Brings the schema of the database up to date.")
    @OptionGroup var options: ServiceOptions
    @Flag(name: .long, help: "Print a JSON object on standard output.") var json = false

    func run() throws {
        let status = migrate(try options.load(), json: json)
        guard status == 0 else { throw ExitCode(status) }
    }
}

struct Check: ParsableCommand {
    static let configuration = CommandConfiguration(
        abstract: "Checks configuration, database, libraries and disk, and prints the results.")
    @OptionGroup var options: ServiceOptions
    @Flag(name: .long, help: "Also read all rows of the database and check that they are consistent.")
    var database = false
    @Flag(name: .long, help: "Print a JSON object on standard output.") var json = false

    func run() throws {
        let status = check(try options.load(), rows: database, json: json)
        guard status == 0 else { throw ExitCode(status) }
    }
}
