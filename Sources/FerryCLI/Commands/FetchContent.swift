package import ArgumentParser
import FerryCore

/// `ferry content`: saves the file of a finished download.
package struct FetchContent: ParsableCommand {
    package static let configuration = CommandConfiguration(
        commandName: "content",
        abstract: "Saves the file of a finished download that the service keeps.",
        discussion: """
            EXAMPLES
              ferry content JOB              # into the working directory, named by the server
              ferry content JOB -o data.csv
              ferry content JOB -o -         # to standard output
            """)

    @Argument(help: "Identifier of the job.")
    var id: String

    @Option(name: .shortAndLong, help: "File or directory to write to; - is standard output.")
    var output: String?

    @OptionGroup var client: ClientOptions

    package init() {}

    package mutating func validate() throws {
        if output == "-", client.json { throw ValidationError("-o - excludes --json.") }
    }

    package func run() throws {
        let console = Console.current
        let service = try client.service()
        let file = try SavedFile(output)
        let job = try service.send("GET", "/v1/jobs/\(percentEncoded(id))")
        let state = job.json["state"]?.string ?? "?"
        guard JobState(rawValue: state)?.isTerminal == true else {
            throw ClientFailure(
                .failed, "\(id) has not ended; it is \(state). To wait for it: ferry watch \(id)")
        }
        guard state == "succeeded" else { throw ClientFailure(.failed, failureText(job.json)) }
        // Uploads succeed without a suggested name; their content is the response's body.
        try Content.save(job.json, id: id, in: file, service: service, console: console)
        if client.json { try console.data(json: job.bytes) }
    }
}
