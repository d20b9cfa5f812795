package import ArgumentParser
import FerryCore
import Glibc

/// `ferry get`: downloads a URL and saves the file locally, unless it stays with the service.
package struct Get: ParsableCommand {
    package static let configuration = CommandConfiguration(
        abstract: "Downloads a URL through the service.",
        discussion: """
            EXAMPLES
              ferry get https://example.com/data.csv                 # into ./data.csv
              ferry get https://example.com/data.csv -o -            # to standard output
              ferry get https://example.com/data.csv -o - --follow   # while the bytes arrive
              ferry get https://example.com/data.csv --stored in/data.csv   # kept by the service
              ferry get https://example.com/query --method POST --body 'id=7' --stored in/7.json
              ferry get https://example.com/data.csv --no-wait       # prints the job's identifier

            Ctrl-C leaves the job running.
            """)

    @Argument(help: "URL to download.")
    var source: String

    @Option(name: .shortAndLong, help: "File or directory to write to; - is standard output.")
    var output: String?

    @Flag(
        name: .long,
        help: "Write the bytes while they arrive, before they are verified; needs --output -.")
    var follow = false

    @Option(name: .long, help: "Keep the file at this path of the service's storage root instead.")
    var stored: String?

    @Option(name: .long, help: "Action if the path exists: replace, fail or rename; needs --stored.")
    var ifExists: String?

    @Option(name: .long, help: "Expected SHA-256 of the file, in hexadecimal.")
    var sha256: String?

    @Option(name: .long, help: "Parts to download at once if the server supports ranges, at most 64.")
    var segments: Int?

    @Option(
        name: .long, help: ArgumentHelp("Another URL of the same file; repeatable.", valueName: "url"))
    var mirror: [String] = []

    @Flag(name: .long, help: "Begin only after 'ferry resume JOB'.")
    var suspended = false

    @Option(name: .long, help: "Method of the request, such as POST.")
    var method: String?

    @Option(
        name: .long, help: ArgumentHelp("Text to send with the request; needs --method.", valueName: "text"))
    var body: String?

    @OptionGroup var job: JobOptions
    @OptionGroup var waiting: WaitOptions
    @OptionGroup var client: ClientOptions

    package init() {}

    package mutating func validate() throws {
        if output != nil, stored != nil { throw ValidationError("--output excludes --stored.") }
        if output != nil, !waiting.wait {
            throw ValidationError(
                "--output needs --wait: with --no-wait there is no file to write yet.")
        }
        if follow, output != "-" { throw ValidationError("--follow needs --output -.") }
        if follow, waiting.timeout != nil { throw ValidationError("--follow excludes --timeout.") }
        if output == "-", client.json { throw ValidationError("-o - excludes --json.") }
        if body != nil, method == nil { throw ValidationError("--body needs --method.") }
        if ifExists != nil, stored == nil { throw ValidationError("--if-exists needs --stored.") }
    }

    package func run() throws {
        let console = Console.current
        let service = try client.service()
        let file = waiting.wait && stored == nil ? try SavedFile(output) : nil
        let submission = try job.body(
            kind: "download", url: source, method: method, sending: body
        ) { writer in
            if let stored {
                writer.name("destination")
                writer.beginObject()
                writer.member("path", stored)
                if let ifExists { writer.member("if_exists", ifExists) }
                writer.endObject()
            }
            if suspended { writer.member("suspended", .bool(true)) }
            if let segments { writer.member("segments", segments) }
            if !mirror.isEmpty { writer.member("mirrors", .array(mirror.map { .string($0) })) }
            if let sha256 { writer.member("integrity", .object([.init("sha256", .string(sha256))])) }
        }
        let created = try job.submit(submission, to: service)
        let id = try identifier(of: created.json)
        guard waiting.wait else {
            return try client.json ? console.data(json: created.bytes) : console.data(line: id)
        }
        if follow { return try stream(id, service: service, console: console) }
        let watch = JobWatch(service: service, console: console, timeout: waiting.timeout)
        let ended = try watch.end(of: id)
        guard ended.json["state"]?.string == "succeeded" else {
            if client.json { try console.data(json: ended.bytes) }
            throw ClientFailure(.failed, failureText(ended.json))
        }
        if let file {
            try Content.save(ended.json, id: id, in: file, service: service, console: console)
        } else {
            let result = ended.json["result"]
            console.message(
                "\(id): \(byteCountText(result?["size"]?.integer ?? 0)) at \(result?["path"]?.string ?? "?")."
            )
        }
        if client.json { try console.data(json: ended.bytes) }
    }

    /// Writes the content to standard output while it arrives. Throws if it did not come whole; the bytes
    /// that were written are to be dropped then.
    private func stream(_ id: String, service: ServiceClient, console: Console) throws {
        let content = Content(
            service: service, path: "/v1/jobs/\(percentEncoded(id))/content?follow=true", byteCount: nil,
            isComplete: false)
        while true {
            var byteCount = 0
            let broken: ClientFailure
            do throws(ClientFailure) {
                return try content.fetch { bytes in
                    byteCount += bytes.count
                    return console.out(bytes)
                }
            } catch {
                broken = error
            }
            // The connection also closes if the job has failed: the job tells why.
            let job = try service.send("GET", "/v1/jobs/\(percentEncoded(id))").json
            let state = job["state"]?.string.flatMap { JobState(rawValue: $0) }
            if state == .failed || state == .cancelled { throw ClientFailure(.failed, failureText(job)) }
            // A response without bytes ends after some minutes, and when the job begins on another node.
            let mayContinue = broken.kind == .unreachable && byteCount == 0 && state?.isTerminal == false
            guard mayContinue else { throw broken }
            poll(nil, 0, 250)
        }
    }
}
