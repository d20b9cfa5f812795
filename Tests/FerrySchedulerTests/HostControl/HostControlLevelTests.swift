import FerryCore
import FerryScheduler
import Testing

@Suite("Levels of host control")
struct HostControlLevelTests {
    @Test("a window decreases to what the host served and increases by a sixteenth, an eighth, and so on")
    func window() {
        var window = AIMDWindow(size: 200)
        window.decrease(to: 79.5)
        #expect(window.size == 80 && !window.hasIncreased)
        var sizes: [Int] = []
        for _ in 0..<4 {
            window.increase()
            sizes.append(window.size)
        }
        #expect(sizes == [85, 95, 118, 177])
        window.revert(to: 90)
        #expect(window.size == 118, "not below the size before the increase")
        window.decrease(to: 0)
        #expect(window.size == 1)
        window.increase()
        #expect(window.size == 2 && window.isUsed(by: 2) && !window.isUsed(by: 1))
    }

    @Test("a bucket follows the rate of answers and never goes below the minimum")
    func bucket() {
        var bucket = TokenBucket(rate: 100)
        bucket.decrease(to: 80)
        #expect(bucket.rate == 80 && bucket.isUsed(by: 70, seconds: 1) && !bucket.isUsed(by: 60, seconds: 1))
        bucket.increase()
        #expect(bucket.rate == 85 && bucket.hasIncreased)
        bucket.revert(to: 10)
        #expect(bucket.rate == 80)
        bucket.decrease(to: 0)
        #expect(bucket.rate == TokenBucket.rateMin)
    }

    @Test("an answered attempt ends the silence and the Retry-After of the other report")
    func reports() {
        let jobs = (0..<3).map { JobID(high: 1, low: $0) }
        var first = ScopeReport()
        first.add(.throttled(status: 429, retryAfter: 9), job: jobs[0])
        first.add(.unanswered, job: jobs[0])
        #expect(first.retryAfterJobs == .one(jobs[0]) && first.isTrouble)
        var second = ScopeReport()
        second.add(.throttled(status: 429, retryAfter: 5), job: jobs[1])
        var both = first
        both.add(second)
        #expect(both.retryAfter == 5 && both.retryAfterJobs == .several)
        #expect(both.throttled == 2 && both.failedJobs == .several && both.silent == 1)
        var answered = ScopeReport()
        answered.add(.answered, job: jobs[2], seconds: 2, bytes: 7)
        both.add(answered)
        #expect(both.retryAfter == nil && both.silent == 0 && both.answered == 1 && both.bytes == 7)
        #expect(both.throttled == 2 && !both.isEmpty && ScopeReport().isEmpty)
    }
}
