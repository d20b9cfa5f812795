import FerryCore
import FerryWebhooks
import Synchronization
import TestSupport
import Testing

@Suite("Retries of failed deliveries")
struct RetryTests {
    @Test("a short retry delay is met without waiting for the next poll")
    func shortDelay() throws {
        let count = Atomic<Int>(0)
        let origin = try ScriptedOrigin.answering { _, _ in
            let isFirst = count.add(1, ordering: .relaxed).oldValue == 0
            return Array("HTTP/1.1 \(isFirst ? "500 Oops" : "204 Fine")\r\nContent-Length: 0\r\n\r\n".utf8)
        }
        // Only a delivery that is due makes it look.
        let bench = try Bench { $0.pollSeconds = 1_000 }
        defer {
            bench.sender.stop(graceSeconds: 0)
            origin.stop()
        }
        let secret = try #require(serviceSecret)
        let endpoint = Delivery.Endpoint(
            id: WebhookID(high: 9, low: 1), revision: 1,
            keys: WebhookKeys(.init(secret: secret, seed: Array(repeating: 1, count: 32))),
            format: .standard, isOrdered: false, retryDelays: [1, 1])
        let failed = bench.deliver([.example(1, url: "\(origin.url)/", endpoint: endpoint)])
        #expect(failed.map(\.verdict) == [.retry(at: bench.clock.now() + 1)])
        bench.clock.advance(1.5)
        let accepted = take(1, from: bench.queue.tries)
        #expect(accepted.map(\.verdict) == [.accepted] && accepted.first?.number == 2)
    }
}
