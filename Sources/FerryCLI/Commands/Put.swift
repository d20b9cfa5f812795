package import ArgumentParser
import FerryCore

/// `ferry put`: uploads local files of any size, or a file of the service.
package struct Put: ParsableCommand {
    package static let configuration = CommandConfiguration(
        abstract: "Uploads files to a URL through the service.",
        usage: """
            ferry put FILE... URL [options]
            ferry put --stored PATH URL [options]
            ferry put --job JOB URL [options]
            """,
        discussion: """
            If URL ends with a slash, the name of the file is appended. Several files need such a URL. A \
            file of up to 512 KiB is sent inside the request; a larger one is sent to the service first. \
            After an interruption, the same command continues where it stopped. --stored sends a file of \
            the service's storage root, and --job the result of a finished job. With --form or --field \
            the file is sent as multipart/form-data, and the URL stays as it is.

            EXAMPLES
              ferry put report.json https://example.com/reports/1 -H 'Content-Type: application/json'
              ferry put *.iso https://example.com/images/ --parallel 2
              tar c photos | ferry put - https://example.com/photos.tar
              ferry put --stored out/big.iso https://example.com/big.iso
              ferry put photo.png https://example.com/photos --field photo --form title=Harbour
            """)

    @Argument(
        help: ArgumentHelp(
            "Files and URL; only URL with --stored or --job. A single FILE may be - for standard input.",
            valueName: "file url"))
    var operands: [String]

    @Option(name: .long, help: "Send this file of the service's storage root.")
    var stored: String?

    @Option(name: .customLong("job"), help: "Send the result of this job.")
    var sourceJob: String?

    @Option(name: .long, help: "Method: PUT, POST or PATCH.")
    var method: String?

    @Option(
        name: [.customShort("F"), .long],
        help: ArgumentHelp("Form field to send with the file; repeatable.", valueName: "name=value"))
    var form: [String] = []

    @Option(name: .long, help: "Name of the file's form field (default \"file\").")
    var field: String?

    @Option(name: .long, help: "Files to send at once, from 1 to 64.")
    var parallel = 4

    @OptionGroup var job: JobOptions
    @OptionGroup var waiting: WaitOptions
    @OptionGroup var client: ClientOptions

    package init() {}

    package mutating func validate() throws {
        guard stored == nil || sourceJob == nil else {
            throw ValidationError("--stored and --job cannot be used together.")
        }
        guard sendsLocalFiles ? operands.count >= 2 : operands.count == 1 else {
            throw ValidationError(
                sendsLocalFiles ? "FILE and URL are required." : "With --stored or --job, give only URL.")
        }
        for entry in form where JobOptions.pair(entry, separator: "=") == nil {
            throw ValidationError("\"\(entry)\" is not a form field. Write it as name=value.")
        }
        guard (1...64).contains(parallel) else { throw ValidationError("--parallel must be from 1 to 64.") }
        if sendsLocalFiles, files.contains("-"), job.connection.inputCount > 0 {
            throw ValidationError("Standard input cannot be both the file and a secret.")
        }
        guard files.count > 1 else { return }
        guard !files.contains("-") else {
            throw ValidationError("Standard input (-) cannot be sent with other files.")
        }
        guard sendsForm || url.hasSuffix("/") else {
            throw ValidationError("To send several files, give a URL that ends with a slash.")
        }
        if job.idempotencyKey != nil { throw ValidationError("--idempotency-key is for one file.") }
    }

    private var files: [String] { operands.dropLast() }
    private var url: String { operands.last ?? "" }
    private var sendsLocalFiles: Bool { stored == nil && sourceJob == nil }
    private var sendsForm: Bool { field != nil || !form.isEmpty }

    package func run() throws {
        let targets =
            sendsLocalFiles
            ? try PutTarget.all(files, url: url, isHandler: sendsForm) : [PutTarget(file: "-", url: url)]
        let body = try job.body(kind: "upload", url: url, method: method ?? (sendsForm ? "POST" : nil)) { _ in
        }
        let plan = PutPlan(
            service: try client.service(), template: try JSON.parse(body),
            form: sendsForm ? formMembers : nil,
            idempotencyKey: job.idempotencyKey, waits: waiting.wait,
            timeout: waiting.timeout, submissionWait: waiting.wait && targets.count > 1 ? 1 : nil)
        let source =
            stored.map { JSON.Member("path", .string($0)) }
            ?? sourceJob.map { JSON.Member("job", .string($0)) }
        try PutRun(plan, targets, source: source, asJSON: client.json, console: .current)
            .run(parallel: parallel)
    }

    private var formMembers: [JSON.Member] {
        let fields = form.compactMap { JobOptions.pair($0, separator: "=") }
        let members = [JSON.Member("fields", .object(fields.map { .init($0.0, .string($0.1)) }))]
        return members + (field.map { [.init("field", .string($0))] } ?? [])
    }
}
