package import ArgumentParser
import FerryCore

/// `ferry put`: an upload of a small local file or of a file in the service's storage root.
package struct Put: ParsableCommand {
    package static let configuration = CommandConfiguration(
        abstract: "Uploads a file to a URL through the service.",
        usage: """
            ferry put FILE URL [options]
            ferry put --stored PATH URL [options]
            """,
        discussion: """
            A local file travels inside the request and may have at most 512 KiB. Larger files belong into \
            the service's storage root (FERRY_STORAGE_ROOT), from which --stored sends them.

            EXAMPLES
              ferry put report.json https://example.com/reports/1 -H 'Content-Type: application/json'
              ferry put --stored out/big.iso https://example.com/big.iso
            """)

    /// Bytes; as base64 it fits into a submission's 1 MiB.
    static let inlineByteCountMax = 512 << 10

    @Argument(
        help: ArgumentHelp(
            "FILE and URL; only URL with --stored. FILE - is standard input.", valueName: "file url"))
    var operands: [String]

    @Option(name: .long, help: "Send this file below the service's storage root.")
    var stored: String?

    @Option(name: .long, help: "PUT, POST or PATCH.")
    var method: String?

    @OptionGroup var job: JobOptions
    @OptionGroup var waiting: WaitOptions
    @OptionGroup var client: ClientOptions

    package init() {}

    package mutating func validate() throws {
        let expected = stored == nil ? 2 : 1
        guard operands.count == expected else {
            throw ValidationError(
                stored == nil ? "FILE and URL are needed." : "With --stored, only URL is needed.")
        }
        if stored == nil, operands[0] == "-", job.connection.inputCount > 0 {
            throw ValidationError("Standard input cannot hold the file and a secret.")
        }
    }

    package func run() throws {
        let console = Console.current
        let service = try client.service()
        let bytes = stored == nil ? try inlineBytes() : []
        let body = try job.body(kind: "upload", url: operands[operands.count - 1], method: method) { writer in
            let source = stored.map { ("path", $0) } ?? ("base64", Base64.encode(bytes))
            writer.member("source", .object([.init(source.0, .string(source.1))]))
        }
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

    private func inlineBytes() throws -> [UInt8] {
        let file = operands[0]
        if file != "-", let count = try LocalFile.byteCount(file), count > Int64(Self.inlineByteCountMax) {
            throw ClientFailure(
                .usage,
                "\(file) has \(byteCountText(count)); a file in the request may have at most 512 KiB. "
                    + "Put it into the service's storage root (FERRY_STORAGE_ROOT) and use: "
                    + "ferry put --stored PATH URL"
            )
        }
        return try LocalFile.read(file, byteCountMax: Self.inlineByteCountMax)
    }
}
