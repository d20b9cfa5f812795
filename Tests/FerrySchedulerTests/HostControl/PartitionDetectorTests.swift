import FerryCore
import FerryScheduler
import Testing

@Suite("Partition detector") struct PartitionDetectorTests {
    private let start = Timestamp(microseconds: 1_000_000_000_000)

    @Test("a cut-off node looks for the unreachable host with growing delays, one look at a time")
    func looks() {
        var reach = PartitionDetector()
        let early = reach.look(at: start)
        #expect(early == nil && !reach.isCutOff && reach.dueAt == nil)
        reach.begin("https://a:443", at: start)
        reach.begin("https://b:443", at: start)
        #expect(reach.origin == "https://a:443")
        var now = start
        var waits: [Double] = []
        for _ in 0..<7 {
            let due = reach.dueAt ?? now
            waits.append(due - now)
            now = due
            if reach.triesAgain(at: now) { break }
            let looks = [reach.look(at: now), reach.look(at: now)]
            #expect(looks == ["https://a:443", nil], "one look at a time")
            let isBack = reach.looked(isReached: false, at: now)
            #expect(!isBack)
        }
        #expect(waits == [1, 2, 4, 8, 15])
    }

    @Test("a node is no longer cut off after it reaches the host or after end()")
    func back() {
        var reach = PartitionDetector()
        reach.begin("https://a:443", at: start)
        let origin = reach.look(at: start + 1)
        let isBack = reach.looked(isReached: true, at: start + 1)
        #expect(origin != nil && isBack && !reach.isCutOff && reach.dueAt == nil)
        let isBackAgain = reach.looked(isReached: true, at: start + 2)
        #expect(!isBackAgain, "the look is no longer expected")
        reach.begin("https://a:443", at: start)
        reach.end()
        #expect(!reach.isCutOff)
    }

    @Test("a cut-off node retries transfers with growing delays until it reaches a host")
    func tries() {
        var reach = PartitionDetector()
        for expected in [30.0, 60, 120, 240, 300, 300] {
            reach.begin("https://a:443", at: start)
            let isEarly = reach.triesAgain(at: start + (expected - 0.1))
            let isDue = reach.triesAgain(at: start + expected)
            #expect(!isEarly && isDue)
            #expect(!reach.isCutOff)
        }
        reach.begin("https://a:443", at: start)
        _ = reach.looked(isReached: true, at: start)
        reach.begin("https://a:443", at: start)
        let triesSoon = reach.triesAgain(at: start + 30)
        #expect(triesSoon)
    }

    @Test("tries from long ago do not lengthen the delay")
    func longAgo() {
        var reach = PartitionDetector()
        reach.begin("https://a:443", at: start)
        _ = reach.triesAgain(at: start + 30)
        reach.begin("https://a:443", at: start + 400)
        let triesSoon = reach.triesAgain(at: start + 430)
        #expect(triesSoon)
    }

    @Test("failures are consecutive until a host responds or 15 s pass")
    func misses() {
        let second: Int64 = 1_000_000_000
        let failed = HostSignal.unreachable(.hostNotFound)
        let after = { (signals: [(Int64, HostSignal)]) in
            var attempts = UnreachableAttempts()
            for (at, signal) in signals { attempts.note(signal, at: at * second) }
            return attempts
        }
        #expect(after([]).hasReached && after([(1, failed), (2, failed)]).seconds(at: 9 * second) == nil)
        let three = after([(1, failed), (2, .lost), (2, .unanswered), (3, failed), (4, .none), (5, failed)])
        #expect(three.seconds(at: 9 * second) == 8 && !three.hasReached, "lost connections do not count")
        for answer in [HostSignal.answered, .throttled(status: 429, retryAfter: nil)] {
            let reached = after([(1, failed), (2, failed), (3, failed), (4, answer)])
            #expect(reached.hasReached && reached.seconds(at: 9 * second) == nil)
        }
        let apart = after([(1, failed), (2, failed), (3, failed), (19, failed)])
        #expect(apart.seconds(at: 20 * second) == nil && !apart.hasReached)
    }
}
