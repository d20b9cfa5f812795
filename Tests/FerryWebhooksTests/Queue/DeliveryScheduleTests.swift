import FerryCore
import FerryWebhooks
import Testing

@Suite("Delivery schedule")
struct DeliveryScheduleTests {
    private let now = Timestamp(microseconds: 1_790_000_000_000_000)

    private func verdict(_ number: Int32, _ response: DeliveryResponse, jitter: Double = 0.5)
        -> DeliveryTry.Verdict
    {
        DeliverySchedule.verdict(tryNumber: number, response: response, now: now, jitter: jitter)
    }

    @Test("only 2xx responses are accepted")
    func accepted() {
        for status in 100...599 {
            let isAccepted = verdict(1, .status(status, retryAfter: nil)) == .accepted
            #expect(isAccepted == (200..<300).contains(status))
        }
        for failure in DeliveryFailure.allCases { #expect(verdict(1, .failure(failure)) != .accepted) }
    }

    @Test("410 and unsendable deliveries are given up at once")
    func givenUp() {
        #expect(verdict(1, .status(410, retryAfter: 5)) == .givenUp)
        #expect(verdict(1, .failure(.requestInvalid)) == .givenUp)
    }

    @Test("retry delays grow from 5 s to 24 h, and the tenth failure is the last")
    func pauses() {
        let delays: [Double] = [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400]
        for (index, delay) in delays.enumerated() {
            #expect(verdict(Int32(index + 1), .status(500, retryAfter: nil)) == .retry(at: now + delay))
            #expect(verdict(Int32(index + 1), .failure(.timedOut)) == .retry(at: now + delay))
        }
        #expect(verdict(10, .status(500, retryAfter: 10)) == .givenUp)
        #expect(verdict(11, .failure(.couldNotConnect)) == .givenUp)
    }

    @Test("jitter spreads a delay by 20 % in both directions")
    func jitter() {
        #expect(verdict(2, .failure(.timedOut), jitter: 0) == .retry(at: now + 240))
        #expect(verdict(2, .failure(.timedOut), jitter: 1) == .retry(at: now + 360))
    }

    @Test("Retry-After lengthens a delay up to a day and never shortens it")
    func retryAfter() {
        #expect(verdict(1, .status(503, retryAfter: 120)) == .retry(at: now + 120))
        #expect(verdict(2, .status(503, retryAfter: 1)) == .retry(at: now + 300))
        #expect(verdict(1, .status(503, retryAfter: 1e12)) == .retry(at: now + 86_400))
        #expect(verdict(1, .status(429, retryAfter: nil)) == .retry(at: now + 60))
        #expect(verdict(1, .status(429, retryAfter: 90)) == .retry(at: now + 90))
    }
}
