import FerryCore
import FerryWebhooks
import TestSupport
import Testing

@Suite("Heads of receivers' responses")
struct LargeResponseTests {
    /// A receiver that sends the pieces and then, if it is to, the last one until the connection ends.
    private func receiver(_ pieces: [String], repeats: Bool = false) throws -> ScriptedOrigin {
        try ScriptedOrigin { connection in
            guard let request = connection.readRequest() else { return }
            _ = connection.readBody(of: request)
            for piece in pieces { connection.send(piece) }
            guard repeats, let last = pieces.last else { return }
            while connection.send(last) {}
        }
    }

    private func tries(at receiver: ScriptedOrigin) throws -> DeliveryTry? {
        let bench = try Bench {
            $0.responseTimeout = 5_000
            $0.totalTimeout = 5_000
        }
        defer {
            receiver.stop()
            bench.sender.stop(graceSeconds: 0)
        }
        let tries = bench.deliver([.example(1, url: "\(receiver.url)/")])
        #expect(tries.allSatisfy { $0.verdict == .retry(at: bench.clock.now() + 5) })
        return tries.first
    }

    private static let start = "HTTP/1.1 200 OK\r\n"

    @Test(
        "a 2xx with a head that is too large or endless is retried",
        arguments: [
            [start, "A: x\r\n"], [start, "A: " + String(repeating: "x", count: 8_000) + "\r\n"],
            [start, "A: ", String(repeating: "x", count: 60_000)],
            ["HTTP/1.1 103 Early Hints\r\nA: x\r\n\r\n"],
        ])
    func endless(pieces: [String]) throws {
        let one = try tries(at: try receiver(pieces, repeats: true))
        #expect(one?.error == "response_too_large" && one?.status == nil)
    }

    @Test("a 2xx whose head is not complete in time is a failed attempt")
    func slow() throws {
        let origin = try ScriptedOrigin { connection in
            guard let request = connection.readRequest() else { return }
            _ = connection.readBody(of: request)
            connection.send(Self.start + "A: b\r\n")
            _ = connection.waitUntilClosed()
        }
        #expect(try tries(at: origin)?.error == "timed_out")
    }

    @Test("a 2xx whose head is cut short by the connection's end is a failed attempt")
    func cut() throws {
        #expect(try tries(at: try receiver([Self.start, "A: b\r\n"]))?.error == "connection_lost")
    }
}
