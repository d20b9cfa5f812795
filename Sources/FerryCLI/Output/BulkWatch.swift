import FerryCore
import Glibc

/// Waits for a bulk operation and shows its progress.
struct BulkWatch {
    let service: ServiceClient
    let console: Console

    /// Milliseconds between two requests for the state: the first, and the largest.
    private static let pauses: (first: Int32, max: Int32) = (50, 1_000)

    /// Waits until the operation has ended, and prints it. Throws if jobs had an error. Ctrl-C ends the
    /// command; the operation continues.
    func finish(_ started: ServiceClient.Response, json: Bool) throws {
        var response = started
        let path = "/v1/operations/\(percentEncoded(try identifier(of: started.json)))"
        var pause = Self.pauses.first
        while response.json["state"]?.string == BulkOperationState.running.rawValue {
            if console.errIsTerminal, console.isCapable {
                console.err("\r\u{1B}[K\(printable(bulkLine(response.json)))")
            }
            poll(nil, 0, pause)
            pause = min(Self.pauses.max, pause * 2)
            response = try service.send("GET", path)
        }
        if console.errIsTerminal, console.isCapable { console.err("\r\u{1B}[K") }
        if json {
            try console.data(json: response.bytes)
        } else {
            try console.data(line: bulkLine(response.json))
        }
        guard response.json["state"]?.string == BulkOperationState.succeeded.rawValue else {
            throw ClientFailure(.failed, "The operation has not succeeded: \(bulkLine(response.json))")
        }
    }
}

/// Returns an operation as a line: identifier, state, and numbers of jobs.
func bulkLine(_ operation: JSON) -> String {
    let counts = ["matched", "changed", "skipped", "failed"].map { name in
        "\(name) \(operation[name]?.integer ?? 0)"
    }
    let reasons = (operation["reasons"]?.members ?? []).map { "\($0.name) \($0.value.integer ?? 0)" }
    let why = reasons.isEmpty ? "" : " (\(reasons.joined(separator: ", ")))"
    let text = counts.joined(separator: ", ") + why
    return "\(operation["id"]?.string ?? "")\t\(operation["state"]?.string ?? "?")\t\(text)"
}
