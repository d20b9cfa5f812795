package import ArgumentParser
import FerryCore

/// Options of all client commands.
package struct ClientOptions: ParsableArguments {
    @Option(name: .long, help: "URL of the service (FERRY_URL; default http://127.0.0.1:8080).")
    /// URL of the service; `nil` uses FERRY_URL or the default.
    package var url: String?

    @Option(name: .long, help: "File with the API key (FERRY_KEY_FILE). FERRY_KEY is the key itself.")
    /// Path of a file with the API key; `nil` uses FERRY_KEY or FERRY_KEY_FILE.
    package var keyFile: String?

    @Flag(name: .long, help: "Print the service's JSON on standard output.")
    /// `true` to print JSON.
    package var json = false

    package init() {}

    /// Returns the client of the service that options and environment name; options override. There is no
    /// option for the key itself: other users of the machine could see it.
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
        if let path = keyFile { return try key(inFile: path, named: "--key-file") }
        if let key = environmentValue("FERRY_KEY"), !key.isEmpty {
            return try Self.key(key, named: "FERRY_KEY")
        }
        if let path = environmentValue("FERRY_KEY_FILE"), !path.isEmpty {
            return try key(inFile: path, named: "FERRY_KEY_FILE")
        }
        return nil
    }

    private func key(inFile path: String, named name: String) throws -> String {
        let bytes = try LocalFile.read(path, byteCountMax: 4_096)
        return try Self.key(String(decoding: bytes, as: UTF8.self), named: "\(name) (\(path))")
    }

    /// Returns the key without white space at its ends. Throws `usage` if no key remains, or one that a
    /// header field cannot contain. `name`: the source of the key.
    static func key(_ text: String, named name: String) throws(ClientFailure) -> String {
        let isSpace = { (scalar: Unicode.Scalar) in scalar.properties.isWhitespace || scalar == "\u{FEFF}" }
        var key = text.unicodeScalars[...]
        key = key.drop(while: isSpace)
        while let last = key.last, isSpace(last) { key.removeLast() }
        guard !key.isEmpty else { throw ClientFailure(.usage, "\(name) contains no key.") }
        guard key.allSatisfy({ (0x21...0x7E).contains($0.value) }) else {
            throw ClientFailure(
                .usage, "\(name): a key has no white space, control characters or non-ASCII characters.")
        }
        return String(key)
    }
}

/// Options that control waiting for a job.
struct WaitOptions: ParsableArguments {
    @Flag(inversion: .prefixedNo, help: "Wait until the job has ended.")
    var wait = true

    @Option(name: .long, help: "Longest time to wait in seconds; then exit status 4. The job continues.")
    var timeout: Double?

    /// Largest timeout in seconds: as nanoseconds it fits into 64 bits.
    private static let timeoutMax = 1e9

    mutating func validate() throws { try Self.check(timeout, wait: wait) }

    /// Throws if the timeout is out of range, or is given without waiting.
    static func check(_ timeout: Double?, wait: Bool) throws {
        guard let timeout else { return }
        // Also rejects NaN, for which all comparisons are false.
        guard timeout > 0, timeout <= timeoutMax else {
            throw ValidationError(
                "--timeout must be above 0 and at most \(decimalText(timeoutMax)) seconds.")
        }
        guard wait else { throw ValidationError("--timeout needs --wait.") }
    }
}
