import FerryCore
import Logging
import Synchronization
import Sys
import TestSupport
import Testing

@testable import FerryEngine

@Suite struct FailureLogTests {
    private struct Keeper: LogHandler {
        var metadata: Logger.Metadata = [:]
        var logLevel = Logger.Level.info
        let lines: Mailbox<Logger.Metadata>
        subscript(metadataKey key: String) -> Logger.Metadata.Value? {
            get { metadata[key] }
            set { metadata[key] = newValue }
        }
        func log(event: LogEvent) { lines.send(event.metadata ?? [:]) }
    }

    private static func result(_ fixture: Fixture, _ outcome: AttemptResult.Outcome) -> AttemptResult {
        let time = Timestamp(microseconds: 0)
        return AttemptResult(
            attempt: fixture.attempt(.data, "http://a.example/secret?token=1"), outcome: outcome,
            response: nil, bytesReceived: 0, bytesSent: 0,
            trace: AttemptTrace(
                startedAt: time, finishedAt: time,
                diagnostics: .init(curlCode: 7, curlMessage: "Failed to connect", osError: 111)))
    }

    @Test("a failed attempt is one log line with details for operators and without the URL")
    func line() throws {
        let fixture = try Fixture()
        defer { fixture.stop() }
        let lines = Mailbox<Logger.Metadata>()
        let log = FailureLog(Logger(label: "test") { _ in Keeper(lines: lines) })
        let error = TransferError(.couldNotConnect, "No.", phase: .connecting, isRetryable: true)
        log.note(Self.result(fixture, .failed(error, retryAfter: nil)))
        log.note(Self.result(fixture, .cancelled))
        let all = lines.take()
        try #require(all.count == 1)
        #expect(all[0]["code"] == "could_not_connect" && all[0]["phase"] == "connecting")
        #expect(all[0]["curl.code"] == "7" && all[0]["os.error"] == "Connection refused")
        #expect(all[0]["origin"] == "http://a.example:80" && all[0]["job.id"] != nil)
        #expect(!"\(all[0])".contains("token"))
    }

    @Test("many failures are cut to some lines a second, and the next line has the number left out")
    func storm() throws {
        let fixture = try Fixture()
        defer { fixture.stop() }
        let lines = Mailbox<Logger.Metadata>()
        let log = FailureLog(Logger(label: "test") { _ in Keeper(lines: lines) })
        let error = TransferError(.timedOut, "Late.", phase: .waiting, isRetryable: true)
        let failed = Self.result(fixture, .failed(error, retryAfter: nil))
        // `told` is what `count` was at the last line.
        var (count, told) = (0, 0)
        var all: [Logger.Metadata] = []
        func note() -> Bool {
            log.note(failed)
            count += 1
            let new = lines.take()
            if !new.isEmpty { told = count }
            all += new
            return all.contains { $0["suppressed"] != nil }
        }
        let began = monotonicNanoseconds()
        // More than fit into a second, at once: notes one by one may be delayed for seconds.
        for _ in 0..<100 { _ = note() }
        let isTold = eventually { note() }
        #expect(isTold)
        let seconds = Int((monotonicNanoseconds() - began) / 1_000_000_000) + 2
        let suppressed = all.compactMap { line in line["suppressed"].flatMap { Int("\($0)") } }.reduce(0, +)
        #expect(all.count + suppressed == told)
        #expect(all.count <= seconds * FailureLog.linesPerSecondMax && suppressed > 0)
    }
}
