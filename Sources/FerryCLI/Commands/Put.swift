package import ArgumentParser
import FerryCore

/// `ferry put`: uploads a small local file, or a file of the service.
package struct Put: ParsableCommand {
    package static let configuration = CommandConfiguration(
        abstract: "Uploads a file to a URL through the service.",
        usage: """
            ferry put FILE URL [options]
            ferry put --stored PATH URL [options]
            ferry put --job JOB URL [options]
            """,
        discussion: """
            A local file is sent inside the request and may have at most 512 KiB. Put larger files into \
            the service's storage root (FERRY_STORAGE_ROOT) and use --stored; --job sends the result of \
            a finished job. With --form or --field the file is sent as multipart/form-data.

            EXAMPLES
              ferry put report.json https://example.com/reports/1 -H 'Content-Type: application/json'
              ferry put --stored out/big.iso https://example.com/big.iso
              ferry put photo.png https://example.com/photos --field photo --form title=Harbour
            """)

    /// Largest local file in bytes: as base64 it fits into a request of 1 MiB.
    static let inlineByteCountMax = 512 << 10

    @Argument(
        help: ArgumentHelp(
            "FILE and URL; only URL with --stored or --job. FILE may be - for standard input.",
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

    @OptionGroup var job: JobOptions
    @OptionGroup var waiting: WaitOptions
    @OptionGroup var client: ClientOptions

    package init() {}

    package mutating func validate() throws {
        guard stored == nil || sourceJob == nil else {
            throw ValidationError("--stored and --job cannot be used together.")
        }
        let expected = sendsLocalFile ? 2 : 1
        guard operands.count == expected else {
            throw ValidationError(
                sendsLocalFile ? "FILE and URL are required." : "With --stored or --job, give only URL.")
        }
        for entry in form where JobOptions.pair(entry, separator: "=") == nil {
            throw ValidationError("\"\(entry)\" is not a form field. Write it as name=value.")
        }
        if sendsLocalFile, operands[0] == "-", job.connection.inputCount > 0 {
            throw ValidationError("Standard input cannot be both the file and a secret.")
        }
    }

    private var sendsLocalFile: Bool { stored == nil && sourceJob == nil }
    private var sendsForm: Bool { field != nil || !form.isEmpty }

    package func run() throws {
        let console = Console.current
        let service = try client.service()
        let source = try source()
        let body = try job.body(
            kind: "upload", url: operands[operands.count - 1], method: method ?? (sendsForm ? "POST" : nil)
        ) { $0.member("source", .object(source)) }
        let created = try job.submit(body, to: service)
        let id = try identifier(of: created.json)
        guard waiting.wait else {
            return try client.json ? console.data(json: created.bytes) : console.data(line: id)
        }
        let watch = JobWatch(service: service, console: console, timeout: waiting.timeout)
        let ended = try watch.end(of: id)
        if client.json { try console.data(json: ended.bytes) }
        guard ended.json["state"]?.string == "succeeded" else {
            throw ClientFailure(.failed, failureText(ended.json))
        }
        let status = ended.json["response"]?["status"]?.integer.map { ", answered with \($0)" } ?? ""
        console.message("\(id): \(byteCountText(ended.json["result"]?["size"]?.integer ?? 0)) sent\(status).")
    }

    private func source() throws -> [JSON.Member] {
        let place: JSON.Member
        var fileName: String?
        if let stored {
            place = .init("path", .string(stored))
        } else if let sourceJob {
            place = .init("job", .string(sourceJob))
        } else {
            place = .init("base64", .string(Base64.encode(try inlineBytes())))
            fileName = operands[0] == "-" ? nil : LocalFile.safeName(LocalPath(operands[0]).text)
        }
        guard sendsForm else { return [place] }
        let fields = form.compactMap { JobOptions.pair($0, separator: "=") }
        var members: [JSON.Member] = [.init("fields", .object(fields.map { .init($0.0, .string($0.1)) }))]
        if let field { members.append(.init("field", .string(field))) }
        if let fileName { members.append(.init("file_name", .string(fileName))) }
        return [place, .init("form", .object(members))]
    }

    private func inlineBytes() throws -> [UInt8] {
        let file = operands[0]
        if file != "-", let count = try LocalFile.byteCount(file), count > Int64(Self.inlineByteCountMax) {
            throw ClientFailure(
                .usage,
                "\(LocalPath(file).text) has \(byteCountText(count)); a file in the request may have at "
                    + "most 512 KiB. Put it into the service's storage root (FERRY_STORAGE_ROOT) and use: "
                    + "ferry put --stored PATH URL"
            )
        }
        return try LocalFile.read(file, byteCountMax: Self.inlineByteCountMax)
    }
}
