import FerryCore
import FerryWebhooks
import Sys
import TestSupport
import Testing

@Suite("Requests shared between tenants")
struct TenantSharingTests {
    @Test("a delivery leased to a stopped sender is returned at once")
    func handedOverLate() throws {
        let credits = DeliveryCredits()
        let bench = try Bench { $0.credits = credits }
        #expect(eventually { credits.isOpen })
        let delivery = Delivery.example(7, url: "http://127.0.0.1:9/")
        #expect(credits.reserve(delivery))
        bench.sender.stop()
        var handed = LeasedDeliveries(leasedUntil: bench.clock.now() + 100_000)
        handed.deliveries = [delivery]
        credits.hand(handed)
        let tries = take(1, from: bench.queue.tries)
        #expect(tries.map(\.delivery) == [delivery.id] && tries.map(\.verdict) == [.returned])
    }

    @Test("silent receivers of one tenant do not delay other tenants")
    func tenants() throws {
        let (alive, silent) = (try Receiver(Receiver.status("200 OK")), try Receiver(.silence))
        // A try takes longer than the test waits.
        let bench = try Bench {
            $0.concurrency = 16
            $0.totalTimeout = 600_000
            $0.responseTimeout = 600_000
        }
        defer {
            bench.sender.stop(graceSeconds: 0)
            alive.stop()
            silent.stop()
        }
        let secret = try #require(serviceSecret)
        let keys = WebhookKeys(.init(secret: secret, seed: Array(repeating: 1, count: 32)))
        bench.queue.add(
            (0..<100 as Range<UInt64>).map { number in
                let endpoint = Delivery.Endpoint(
                    id: WebhookID(high: 9, low: number), revision: 1, keys: keys, format: .standard,
                    isOrdered: false, retryDelays: [3_600])
                return .example(number, url: silent.url, endpoint: endpoint, tenant: "many")
            })
        bench.sender.wake()
        #expect(take(12, from: silent.requests).count == 12)
        bench.queue.add(
            (200..<220 as Range<UInt64>).map { .example($0, url: alive.url, tenant: "few") })
        bench.sender.wake()
        // None of the silent ones has been given up yet.
        let tries = take(20, from: bench.queue.tries)
        #expect(tries.count == 20 && tries.allSatisfy { $0.verdict == .accepted })
    }
}
