import FerryCore
import FerryWebhooks
import TestSupport
import Testing

@Suite("Response timeout of receivers")
struct ResponseTimeoutTests {
    /// Reads a request, sends the beginning of an answer, waits for the gate, and sends the end.
    private func receiver(_ beginning: String, _ gate: Gate, _ end: String) throws -> ScriptedOrigin {
        try ScriptedOrigin { connection in
            guard let request = connection.readRequest() else { return }
            _ = connection.readBody(of: request)
            connection.send(beginning)
            guard gate.pass() else { return }
            connection.send(end)
        }
    }

    @Test("a response must begin in time and may end later; interim responses do not count")
    func answer() throws {
        let (never, late) = (Gate(), Gate())
        let silent = try receiver("", never, "")
        let interim = try receiver("HTTP/1.1 102 Processing\r\n\r\n", never, "")
        let slow = try receiver(
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\nno", late, "pe")
        let bench = try Bench {
            $0.responseTimeout = 5_000
            $0.totalTimeout = 600_000
        }
        defer {
            never.open()
            late.open()
            bench.sender.stop(graceSeconds: 0)
            for origin in [silent, interim, slow] { origin.stop() }
        }
        bench.queue.add([.example(1, url: "\(slow.url)/")])
        bench.sender.wake()
        #expect(eventually { slow.requests.count == 1 })
        // They begin later, so that whoever ends them has looked at the first one as well.
        let timedOut = bench.deliver([
            .example(2, url: "\(silent.url)/"), .example(3, url: "\(interim.url)/"),
        ])
        #expect(timedOut.map(\.error) == ["timed_out", "timed_out"])
        #expect(Set(timedOut.map(\.delivery.low)) == [2, 3])
        #expect(timedOut.allSatisfy { $0.verdict == .retry(at: bench.clock.now() + 5) })
        late.open()
        let answered = take(1, from: bench.queue.tries)
        #expect(answered.map(\.status) == [500] && answered.map(\.responseExcerpt) == ["nope"])
    }
}
