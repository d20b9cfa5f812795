import FerryCore
import FerryScheduler
import Testing

@Suite("Whether a node is cut off") struct NodeReachTests {
    private let start = Timestamp(microseconds: 1_000_000_000_000)

    @Test("it looks less and less often for the host that it missed, one look at a time")
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
            #expect(looks == ["https://a:443", nil], "one is under way")
            let isBack = reach.looked(isReached: false, at: now)
            #expect(!isBack)
        }
        #expect(waits == [1, 2, 4, 8, 15])
    }

    @Test("it is back when it reaches that host, or when it is told to end")
    func back() {
        var reach = PartitionDetector()
        reach.begin("https://a:443", at: start)
        let origin = reach.look(at: start + 1)
        let isBack = reach.looked(isReached: true, at: start + 1)
        #expect(origin != nil && isBack && !reach.isCutOff && reach.dueAt == nil)
        let isBackAgain = reach.looked(isReached: true, at: start + 2)
        #expect(!isBackAgain, "nobody waits for that look any more")
        reach.begin("https://a:443", at: start)
        reach.end()
        #expect(!reach.isCutOff)
    }

    @Test("it tries transfers again, later each time, until it has reached somebody")
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

    @Test("what it tried long ago makes it no more patient")
    func longAgo() {
        var reach = PartitionDetector()
        reach.begin("https://a:443", at: start)
        _ = reach.triesAgain(at: start + 30)
        reach.begin("https://a:443", at: start + 400)
        let triesSoon = reach.triesAgain(at: start + 430)
        #expect(triesSoon)
    }

    @Test("misses are in a row until somebody answers, or nobody was missed for a while")
    func misses() {
        let second: Int64 = 1_000_000_000
        let miss = HostSignal.unreachable(.hostNotFound)
        let missed = { (signals: [(Int64, HostSignal)]) in
            var misses = UnreachableNodes()
            for (at, signal) in signals { misses.note(signal, at: at * second) }
            return misses
        }
        #expect(missed([]).hasReached && missed([(1, miss), (2, miss)]).seconds(at: 9 * second) == nil)
        let three = missed([(1, miss), (2, .lost), (2, .silent), (3, miss), (4, .none), (5, miss)])
        #expect(three.seconds(at: 9 * second) == 8 && !three.hasReached, "lost connections say nothing")
        for answer in [HostSignal.answered, .throttled(status: 429, retryAfter: nil)] {
            let reached = missed([(1, miss), (2, miss), (3, miss), (4, answer)])
            #expect(reached.hasReached && reached.seconds(at: 9 * second) == nil)
        }
        let apart = missed([(1, miss), (2, miss), (3, miss), (19, miss)])
        #expect(apart.seconds(at: 20 * second) == nil && !apart.hasReached)
    }
}
