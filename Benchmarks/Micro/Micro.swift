import FerryCore
import OpenSSL
import Sys

let seal = {
    let box = SecretBox(key: Array(0..<32))
    return SecretSeal(seal: { box.seal($0) }, open: { try? box.open($0) })
}()

/// Times the hot pieces in one process: `swift run -c release microbench`. Prints nanoseconds an operation:
/// the least disturbed of several rounds, or one round of the loop (with nginx), of cancelling, and of the
/// claim (with PostgreSQL). Compare figures of one run only.
@main
struct Micro {
    static func main() throws {
        if CommandLine.arguments.count > 1 { return try printQueueFigures() }
        try measure("JSON: read a job body of \(body.count) bytes") { _ = try JSONView(parsing: body) }
        let json = try JSONView(parsing: body)
        let job = try JobRequest(json) { _ in nil }
        let stored = job.spec.encodeStored()
        try measure("job: validate it") { _ = try JobRequest(json) { _ in nil } }
        measure("job: write the shown form") { _ = job.spec.encode() }
        measure("job: write the stored form") { _ = job.spec.encodeStored() }
        measure("job: write the stored form with a sealed URL") { _ = job.spec.encodeStored(seal) }
        var response = TransferResponse(
            status: 200, url: "https://files.example.com/exports/part-00017.parquet",
            headers: [
                .init("Server", "nginx"), .init("Date", "Sat, 21 Nov 2026 22:00:00 GMT"),
                .init("Content-Type", "application/octet-stream"), .init("Content-Length", "1024"),
                .init("Last-Modified", "Sat, 21 Nov 2026 21:00:00 GMT"), .init("ETag", "\"6741c2-400\""),
                .init("Accept-Ranges", "bytes"), .init("Connection", "keep-alive"),
            ], mimeType: "application/octet-stream", suggestedFilename: "part-00017.parquet",
            expectedContentLength: 1_024)
        measure("response: write the stored form of 8 harmless fields") { _ = Stored(response, seal) }
        response.headers.append(.init("Set-Cookie", "session=0123456789abcdef"))
        measure("response: the same with a sealed field") { _ = Stored(response, seal) }
        try measure("job: read the stored form of \(stored.count) bytes") {
            _ = try JobSpec(storedJSON: stored)
        }
        let generator = IdentifierGenerator { Timestamp(microseconds: wallMicroseconds()) }
        measure("identifier: make and write") { _ = generator.make(JobKindTag.self).utf8 }
        measure("timestamp: write") { _ = Timestamp(microseconds: 1_795_000_000_000_000).utf8 }
        measure("attempt: pack it with one request") { _ = packedAttempt() }
        let mailbox = Mailbox<Int>()
        measure("mailbox: send and take") {
            mailbox.send(1)
            _ = mailbox.take()
        }
        try LoopFigures.print(atOnce: 64)
        try LoopFigures.printCancelling()
        let nanoseconds = try QueueFigures.claimed(queued: 0)
        print("\(nanoseconds) ns  store: claim and finish a job")
    }

    /// `microbench all`, or names of figures, each with a number of rows, milliseconds or seconds if it is to
    /// be another.
    private static func printQueueFigures() throws {
        let words = CommandLine.arguments.dropFirst()
        for word in words.first == "all" ? QueueFigures.all[...] : words {
            let parts = word.split(separator: "=")
            try QueueFigures.print(
                String(parts[0]), count: parts.count > 1 ? Int(parts[1]) ?? 0 : 0)
        }
    }

    /// Returns the packed attempt of a small download for `/attempts`.
    private static func packedAttempt() -> [UInt8] {
        var metrics = TransactionMetrics(fetchStart: 80)
        metrics.status = 200
        metrics.networkProtocol = .http11
        metrics.moments[.connectStart] = 30
        metrics.moments[.connectEnd] = 250
        metrics.moments[.requestStart] = 290
        metrics.moments[.requestEnd] = 290
        metrics.moments[.responseStart] = 700
        metrics.moments[.responseEnd] = 740
        metrics.local = .init(address: "127.0.0.1", port: 40_000)
        metrics.remote = .init(address: "127.0.0.1", port: 8_080)
        metrics.byteCounts.requestHeader = 180
        metrics.byteCounts.responseHeader = 240
        metrics.byteCounts.responseBody = 1_024
        metrics.byteCounts.decodedBody = 1_024
        var transactions = TransactionLog()
        transactions.append(metrics)
        let start = Timestamp(microseconds: 1_795_298_400_000_000)
        let trace = AttemptTrace(startedAt: start, finishedAt: start + 0.001, transactions: transactions)
        return AttemptRecord.packed(number: 1, node: nil, trace, .succeeded, error: nil, seal)
    }

    static let body = Array(
        #"""
        {"kind":"download","session":"reports","description":"nightly","metadata":{"team":"data","run":"2026-11-21"},
        "request":{"url":"https://files.example.com/exports/2026/11/21/part-00017.parquet?sig=abcdef0123456789",
        "headers":{"Accept":"application/octet-stream"},"timeout_for_request":30},
        "destination":{"path":"exports/2026/11/21/part-00017.parquet","if_exists":"replace"},
        "integrity":{"sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        "schedule":{"priority":0.7},"retry":{"max_attempts":5,"initial_delay":2},
        "webhook":{"url":"https://hooks.example.com/ferry"}}
        """#.utf8)

    /// Runs `work` in rounds of about 20 ms and prints the best round.
    static func measure<Failure: Error>(_ name: String, _ work: () throws(Failure) -> Void) throws(Failure) {
        var count = 16
        var best = Double.infinity
        for round in 0..<12 {
            let begin = monotonicNanoseconds()
            for _ in 0..<count { try work() }
            let took = Double(monotonicNanoseconds() - begin)
            if round >= 2 { best = min(best, took / Double(count)) }
            if took < 2e7 { count *= 2 }
        }
        print("\(Int(best.rounded())) ns  \(name)")
    }
}
