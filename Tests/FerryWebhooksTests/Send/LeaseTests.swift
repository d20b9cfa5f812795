import FerryCore
import FerryWebhooks
import Synchronization
import Sys
import TestSupport
import Testing

@Suite("Lease of the sender's node")
struct LeaseTests {
    private final class Lease: Sendable {
        private let state = Mutex<Int?>(1)
        var number: Int? { state.withLock { $0 } }
        func set(_ number: Int?) { state.withLock { $0 = number } }
    }

    /// Four requests are on their way and six deliveries wait when the lease becomes another one, or none:
    /// those go back.
    private func loses(_ lease: Lease, _ next: Int?, _ bench: Bench, _ receiver: Receiver) {
        bench.queue.add((1...10).map { Delivery.example($0, url: receiver.url) })
        bench.sender.wake()
        #expect(take(4, from: receiver.requests).count == 4)
        lease.set(next)
        let returned = take(6, from: bench.queue.tries)
        #expect(returned.count == 6 && returned.allSatisfy { $0.verdict == .returned })
    }

    @Test("waiting deliveries are returned and claimed again when their endpoint changes")
    func changedEndpoint() throws {
        let receiver = try Receiver(.silence)
        let bench = try Bench { ($0.totalTimeout, $0.responseTimeout) = (600_000, 600_000) }
        defer {
            bench.sender.stop(graceSeconds: 0)
            receiver.stop()
        }
        let secret = try #require(serviceSecret)
        let revisions = (1...2 as ClosedRange<Int32>).map { revision in
            Delivery.Endpoint(
                id: WebhookID(high: 9, low: 1), revision: revision,
                keys: WebhookKeys(.init(secret: secret, seed: Array(repeating: 1, count: 32))),
                format: .standard, isOrdered: false, retryDelays: [1])
        }
        bench.queue.add((1...10).map { .example($0, url: receiver.url, endpoint: revisions[0]) })
        bench.sender.wake()
        #expect(take(4, from: receiver.requests).count == 4)
        bench.queue.change(revisions[1])
        bench.sender.wake()
        let returned = take(6, from: bench.queue.tries)
        #expect(returned.count == 6 && returned.allSatisfy { $0.verdict == .returned })
    }

    @Test("an expired lease cancels requests and returns waiting deliveries; then sending resumes")
    func unconfirmedLease() throws {
        let receiver = try Receiver(.silence)
        let lease = Lease()
        let bench = try Bench { $0.lease = { lease.number } }
        defer {
            bench.sender.stop()
            receiver.stop()
        }
        loses(lease, nil, bench, receiver)
        #expect(eventually { bench.sender.metrics.inFlightCount == 0 })
        let claimCount = bench.queue.claimCount
        bench.sender.wake()
        lease.set(2)
        // What was cut off is due when its lease is over; nothing is known of it.
        let other = try Receiver(Receiver.status("200 OK"))
        defer { other.stop() }
        let last = try #require(bench.deliver([.example(99, url: other.url)]).first { $0.delivery.low == 99 })
        #expect(last.verdict == .accepted)
        #expect(bench.queue.claimCount > claimCount)
        #expect(bench.queue.tries.take().allSatisfy { $0.verdict == .returned })
    }

    @Test("after a lapse, a renewed lease does not continue earlier claims")
    func lapsed() throws {
        let receiver = try Receiver(.silence)
        let lease = Lease()
        let bench = try Bench { $0.lease = { lease.number } }
        defer {
            bench.sender.stop()
            receiver.stop()
        }
        loses(lease, 2, bench, receiver)
        #expect(take(4, from: receiver.requests).count == 4, "claimed again, under the new one")
        #expect(bench.queue.tries.take().allSatisfy { $0.verdict == .returned })
    }
}
