package import ArgumentParser
import FerryCore

/// What every client command understands.
package struct ClientOptions: ParsableArguments {
    @Option(name: .long, help: "The service's address (FERRY_URL; default http://127.0.0.1:8080).")
    package var url: String?

    @Option(name: .long, help: "A file with the API key (FERRY_KEY_FILE; FERRY_KEY holds the key itself).")
    package var keyFile: String?

    @Flag(name: .long, help: "JSON on standard output, as the service wrote it.")
    package var json = false

    package init() {}

    /// The service that flags and environment name, flags first. A key is never taken from a flag: other
    /// users of the machine could read it.
    func service() throws -> ServiceClient {
        let text =
            url ?? environmentValue("FERRY_URL").flatMap { $0.isEmpty ? nil : $0 } ?? "http://127.0.0.1:8080"
        do {
            return try ServiceClient(base: WebURL.parse(text), key: key())
        } catch let failure as WebURL.Failure {
            throw ValidationError("FERRY_URL is \"\(text)\". \(failure.message)")
        }
    }

    private func key() throws -> String? {
        if let path = keyFile { return try key(inFile: path) }
        if let key = environmentValue("FERRY_KEY"), !key.isEmpty { return key }
        if let path = environmentValue("FERRY_KEY_FILE"), !path.isEmpty { return try key(inFile: path) }
        return nil
    }

    private func key(inFile path: String) throws -> String {
        let bytes = try LocalFile.read(path, byteCountMax: 4_096)
        let key = String(decoding: bytes, as: UTF8.self).split(whereSeparator: \.isWhitespace).first
        guard let key else { throw ClientFailure(.usage, "\(path): the file holds no key.") }
        return String(key)
    }
}

/// How long a command waits for a job.
struct WaitOptions: ParsableArguments {
    @Flag(inversion: .prefixedNo, help: "Wait until the job has ended.")
    var wait = true

    @Option(name: .long, help: "Seconds to wait at most; then status 4. The job goes on.")
    var timeout: Double?

    /// Seconds: as nanoseconds they fit into 64 bits.
    private static let timeoutMax = 1e9

    mutating func validate() throws { try Self.check(timeout, wait: wait) }

    /// Throws when `--timeout` is no time to wait, or nothing waits.
    static func check(_ timeout: Double?, wait: Bool) throws {
        guard let timeout else { return }
        // Also not a number: it compares with nothing.
        guard timeout > 0, timeout <= timeoutMax else {
            throw ValidationError(
                "--timeout must be more than 0 seconds, and \(decimalText(timeoutMax)) at most.")
        }
        guard wait else { throw ValidationError("--timeout needs --wait.") }
    }
}
