package import ArgumentParser
import FerryCore

/// `ferry change`: changes a job that has not ended.
package struct Change: ParsableCommand {
    package static let configuration = CommandConfiguration(
        abstract: "Changes an unfinished job, by options or by a merge patch in JSON (RFC 7396).",
        discussion: """
            EXAMPLES
              ferry change job_0123456789abcdefghjkmnpqrs --priority 0.9
              echo '{"request":{"url":"https://example.com/new"}}' | ferry change job_… -
            """)
    @Argument(help: "Identifier of the job.") var id: String
    @Argument(help: "File with the patch; - is standard input.") var file: String?
    @Option(help: "Priority, from 0.0 to 1.0.") var priority: Double?
    @Option(help: "Description for people.") var description: String?
    @Option(help: "Time by which the job must have ended (RFC 3339); none removes it.") var deadline: String?
    @Option(name: .customLong("target"), help: "URL of the request.") var target: String?
    @OptionGroup var client: ClientOptions

    package init() {}

    private var hasOptions: Bool {
        priority != nil || description != nil || deadline != nil || target != nil
    }

    package mutating func validate() throws {
        guard (file != nil) != hasOptions else {
            throw ValidationError("Give either a file with a patch, or options for the changes.")
        }
    }

    package func run() throws {
        let patch = try file.map { try LocalFile.readJSON($0, byteCountMax: Limits.submissionByteCountMax) }
        let response = try client.service().send(
            "PATCH", "/v1/jobs/\(percentEncoded(id))", body: patch ?? optionsPatch())
        if client.json { return try Console.current.data(json: response.bytes) }
        try Console.current.data(line: "\(id)\t\(response.json["state"]?.string ?? "?")")
    }

    /// Returns the merge patch that the options describe.
    private func optionsPatch() -> [UInt8] {
        var writer = JSONWriter()
        writer.beginObject()
        if let description { writer.member("description", description) }
        if let target {
            writer.name("request")
            writer.beginObject()
            writer.member("url", target)
            writer.endObject()
        }
        if priority != nil || deadline != nil {
            writer.name("schedule")
            writer.beginObject()
            if let priority { writer.member("priority", priority) }
            if let deadline {
                writer.name("deadline_at")
                writer.value(deadline == "none" ? JSON.null : .string(deadline))
            }
            writer.endObject()
        }
        writer.endObject()
        return writer.bytes
    }
}

/// `ferry delete`: deletes ended jobs with their files.
package struct Delete: ParsableCommand {
    package static let configuration = CommandConfiguration(
        abstract: "Deletes jobs that have ended, with the files that the service keeps for them.",
        discussion: """
            A file at the destination of a job stays.

            EXAMPLES
              ferry delete job_0123456789abcdefghjkmnpqrs
            """)
    @Argument(help: "Identifiers of the jobs.") var ids: [String]
    @OptionGroup var client: ClientOptions

    package init() {}

    package func run() throws {
        let service = try client.service()
        try forEach(ids) { id throws(ClientFailure) in
            _ = try service.send("DELETE", "/v1/jobs/\(percentEncoded(id))")
        }
    }
}
