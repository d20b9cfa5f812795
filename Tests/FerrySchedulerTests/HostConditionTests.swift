import FerryCore
import FerryScheduler
import Testing

@Suite("How a host does")
struct HostConditionTests {
    private let start = Timestamp(microseconds: 1_700_000_000_000_000)

    private func report(_ signals: HostSignal...) -> HostReport {
        var report = HostReport()
        for signal in signals { report.add(signal) }
        return report
    }

    @Test("Retry-After holds the host for as long as it says, and a shorter one does not shorten it")
    func retryAfter() {
        var host = HostCondition()
        let decisions = host.take(
            report(.throttled(status: 503, retryAfter: 20)), inFlight: 79, now: start, jitter: 0.5)
        #expect(decisions.map(\.kind) == [.limited, .backedOff])
        #expect(host.blockedUntil == start + 20 && host.state(at: start + 19) == .backingOff)
        let again = host.take(
            report(.throttled(status: 429, retryAfter: 3)), inFlight: 10, now: start + 1, jitter: 0.5)
        #expect(again.isEmpty && host.blockedUntil == start + 20)
        #expect(host.connectionLimit == 5, "a few first: an eighth of 40")
        _ = host.errands(at: start + 20)
        #expect(host.blockedUntil == nil && host.state(at: start + 20) == .limited)
        var now = start + 20
        while (host.connectionLimit ?? 0) < 40, now - start < 60 {
            now = now + 1
            var seen = report()
            seen.answered = 200
            seen.seconds = 10
            _ = host.take(seen, inFlight: host.connectionLimit ?? 0, now: now, jitter: 0.5)
        }
        #expect(host.connectionLimit == 40 && now - start < 30, "then twice as many each time")
    }

    @Test("429 without Retry-After makes pauses that double; an answer ends the series; 503 alone makes none")
    func pauses() {
        var host = HostCondition()
        var now = start
        var pauses: [Double] = []
        for _ in 0..<8 {
            _ = host.take(
                report(.throttled(status: 429, retryAfter: nil)), inFlight: 1, now: now, jitter: 0.5)
            let until = host.blockedUntil ?? now
            pauses.append(until - now)
            now = until
            _ = host.errands(at: now)
        }
        #expect(pauses == [1, 2, 4, 8, 16, 32, 60, 60])
        #expect(host.requestRateLimit == nil, "it is away")
        _ = host.take(report(.answered), inFlight: 1, now: now, jitter: 0.5)
        _ = host.take(report(.throttled(status: 429, retryAfter: nil)), inFlight: 1, now: now, jitter: 0.5)
        #expect((host.blockedUntil ?? now) - now == 1)
        var other = HostCondition()
        _ = other.take(report(.throttled(status: 503, retryAfter: nil)), inFlight: 9, now: now, jitter: 0.5)
        #expect(other.blockedUntil == nil && other.connectionLimit == 5)
    }

    @Test("a host may ask for an hour at most")
    func longest() {
        var host = HostCondition()
        _ = host.take(report(.throttled(status: 429, retryAfter: 1e9)), inFlight: 1, now: start, jitter: 0.5)
        #expect(host.blockedUntil == start + HostCondition.backoffSecondsMax)
    }

    @Test("one probe at a time, with growing pauses; when it succeeds jobs are let go few by few")
    func unreachable() {
        var host = HostCondition()
        let decisions = host.take(
            report(.unreachable(.couldNotConnect), .unreachable(.couldNotConnect)), inFlight: 8, now: start,
            jitter: 0.5)
        #expect(decisions.map(\.kind) == [.unreachable] && host.state(at: start) == .unreachable)
        var now = start
        var pauses: [Double] = []
        for _ in 0..<8 {
            let next = host.nextProbeAt ?? now
            #expect(!host.errands(at: next + -0.001).probes)
            pauses.append(next - now)
            now = next
            #expect(host.errands(at: now).probes)
            #expect(!host.errands(at: now + 1).probes, "the probe that runs is the only one")
            #expect(host.probed(.couldNotConnect, at: now) == nil)
        }
        #expect(pauses == [1, 2, 4, 8, 16, 32, 60, 60])
        #expect(host.probed(nil, at: now)?.kind == .reachable && host.state(at: now) == .recovering)
        var released: [Int] = []
        for index in 0..<8 {
            let count = host.errands(at: now).releases
            released.append(count)
            host.released(count, of: count)
            #expect(host.errands(at: now).releases == 0)
            // Two times nobody has seen an answer by then: no more than before are let go.
            if index != 1, index != 4 { _ = host.take(report(.answered), inFlight: 1, now: now, jitter: 0) }
            now = now + 0.5
        }
        #expect(released == [2, 4, 4, 8, 16, 16, 32, 64])
        host.released(3, of: host.errands(at: now).releases)
        #expect(host.state(at: now) == .normal && host.dueAt(now) ?? now > now)
    }

    @Test("a probe that nobody reports on is made again; a relapse keeps the pauses long")
    func relapse() {
        var host = HostCondition()
        let trouble = report(.unreachable(.hostNotFound), .unreachable(.hostNotFound))
        _ = host.take(trouble, inFlight: 0, now: start, jitter: 0)
        #expect(!host.errands(at: start + 1, mayProbe: false).probes)
        #expect(host.errands(at: start + 1).probes, "nobody has leased it")
        #expect(host.errands(at: start + 1 + HostCondition.probeLeaseSeconds).probes)
        _ = host.probed(.hostNotFound, at: start + 70)
        _ = host.probed(.hostNotFound, at: start + 80)
        _ = host.probed(nil, at: start + 90)
        #expect(host.errands(at: start + 90).releases == 2)
        _ = host.take(trouble, inFlight: 0, now: start + 94, jitter: 0)
        #expect(host.state(at: start + 94) == .recovering, "a probe has just reached it")
        _ = host.take(trouble, inFlight: 0, now: start + 95, jitter: 0)
        #expect(host.state(at: start + 95) == .unreachable)
        #expect(host.nextProbeAt == start + 99, "as after the probes before")
    }

    @Test("a probe that nobody waits for is made once more while attempts have just ended, then no more")
    func unawaited() {
        var host = HostCondition()
        _ = host.take(report(.unreachable(.couldNotConnect)), inFlight: 1, now: start, jitter: 0)
        for seconds in 1...4 {
            #expect(host.errands(at: start + Double(seconds)).probes)
            host.stopProbing(at: start + Double(seconds))
            #expect(host.state(at: start) == .unreachable)
        }
        #expect(host.errands(at: start + 5).probes)
        host.stopProbing(at: start + 5)
        #expect(host.state(at: start + 5) == .normal && !host.errands(at: start + 70).probes)
    }

    @Test("a host that lets some in is there, whoever comes first")
    func picky() {
        var host = HostCondition()
        let trouble = report(.unreachable(.tlsFailed), .unreachable(.tlsFailed))
        // Those that are turned away end before the others.
        #expect(host.take(trouble, inFlight: 9, now: start, jitter: 0).isEmpty)
        _ = host.take(report(.answered), inFlight: 9, now: start + 1, jitter: 0)
        for seconds in [2.0, 3, 5.9] {
            #expect(host.take(trouble, inFlight: 8, now: start + seconds, jitter: 0).isEmpty)
        }
        #expect(HostCondition(json: host.json) == host)
        #expect(host.take(trouble, inFlight: 8, now: start + 6, jitter: 0).map(\.kind) == [.unreachable])
    }

    @Test("a host that swallows connections one after the other is not there, however many still wait for it")
    func swallowing() {
        var host = HostCondition()
        let trouble = report(.unreachable(.timedOut))
        for seconds in [0.0, 1, 2, 3, 4, 4.9] {
            #expect(host.take(trouble, inFlight: 240, now: start + seconds, jitter: 0).isEmpty)
        }
        #expect(HostCondition(json: host.json) == host)
        #expect(host.take(trouble, inFlight: 240, now: start + 5, jitter: 0).map(\.kind) == [.unreachable])
    }

    @Test("answers among failures say that the host is there")
    func mixed() {
        var host = HostCondition()
        _ = host.take(report(.answered, .unreachable(.couldNotConnect)), inFlight: 3, now: start, jitter: 0)
        #expect(host.unreachableSince == nil)
    }

    @Test("one that answers nobody gets no more than it has, and one each 15 s, until somebody is answered")
    func silence() {
        var host = HostCondition()
        let silent = report(.silent, .silent, .silent)
        #expect(host.take(report(.silent, .silent), inFlight: 10, now: start, jitter: 0.5).isEmpty)
        #expect(host.connectionLimit == nil, "two are no reason")
        let limited = host.take(silent, inFlight: 10, now: start + 1, jitter: 0.5)
        #expect(limited.map(\.kind) == [.limited] && limited.first?.limitAfter == 11)
        #expect(host.connectionLimit == 11 && host.state(at: start + 1) == .limited && host.isHeldBySilence)
        #expect(HostCondition(json: host.json) == host)
        _ = host.take(silent, inFlight: 11, now: start + 10, jitter: 0.5)
        #expect(host.connectionLimit == 11)
        #expect(host.dueAt(start + 10).map { $0 <= start + 16 } ?? false)
        _ = host.take(report(), inFlight: 9, now: start + 20, jitter: 0.5)
        #expect(host.connectionLimit == 11, "who ends makes room")
        _ = host.take(report(), inFlight: 11, now: start + 21, jitter: 0.5)
        #expect(host.connectionLimit == 12)
        let answered = host.take(report(.answered), inFlight: 12, now: start + 30, jitter: 0.5)
        #expect(answered.map(\.kind) == [.released] && host.connectionLimit == nil)
        // Somebody has just been answered.
        #expect(host.take(silent, inFlight: 12, now: start + 33, jitter: 0.5).isEmpty)
        #expect(host.take(silent, inFlight: 2, now: start + 40, jitter: 0.5).first?.limitAfter == 4)
        #expect(host.take(report(), inFlight: 0, now: start + 41, jitter: 0.5).map(\.kind) == [.released])
        #expect(host.isForgettable(at: start + 110))
    }

    @Test("those that say so one by one count together, until somebody is answered")
    func silenceOneByOne() {
        var host = HostCondition()
        for second in 0..<2 {
            #expect(host.take(report(.silent), inFlight: 5, now: start + Double(second), jitter: 0.5).isEmpty)
        }
        #expect(HostCondition(json: host.json) == host)
        #expect(host.take(report(.silent, .answered), inFlight: 5, now: start + 2, jitter: 0.5).isEmpty)
        for second in 3..<6 {
            #expect(host.take(report(.silent), inFlight: 5, now: start + Double(second), jitter: 0.5).isEmpty)
        }
        // It had just answered; nobody tells anything more.
        #expect(host.dueAt(start + 5).map { $0 <= start + 10 } ?? false)
        #expect(host.take(report(), inFlight: 5, now: start + 10, jitter: 0.5).map(\.kind) == [.limited])
        var idle = HostCondition()
        for second in 0..<9 {
            _ = idle.take(report(.silent), inFlight: 0, now: start + Double(second), jitter: 0.5)
        }
        #expect(idle.connectionLimit == nil, "nobody waits for an answer")
    }

    @Test("a busy one is forgotten as well when it has been without trouble for long")
    func healthy() {
        var host = HostCondition()
        _ = host.take(report(.lost), inFlight: 5, now: start, jitter: 0.5)
        for second in 1..<600 {
            _ = host.take(report(.answered), inFlight: 5, now: start + Double(second), jitter: 0.5)
            #expect(!host.isForgettable(at: start + Double(second)))
        }
        #expect(HostCondition(json: host.json) == host)
        #expect(host.dueAt(start + 599).map { $0 <= start + 600 } ?? false)
        #expect(host.isForgettable(at: start + 600))
        _ = host.take(report(.lost), inFlight: 5, now: start + 600, jitter: 0.5)
        #expect(!host.isForgettable(at: start + 601))
    }

    @Test("one whose transfers take long is silent for as long as usual")
    func usualSilence() {
        var host = HostCondition()
        let silent = report(.silent, .silent, .silent)
        var slow = report(.answered, .answered)
        slow.seconds = 40
        _ = host.take(slow, inFlight: 9, now: start, jitter: 0.5)
        #expect(host.take(silent, inFlight: 9, now: start + 39, jitter: 0.5).isEmpty)
        #expect(host.take(silent, inFlight: 9, now: start + 41, jitter: 0.5).map(\.kind) == [.limited])
    }

    @Test("what limits a host besides holds while it is silent, and afterwards")
    func silenceOfLimited() {
        var host = HostCondition()
        var settings = HostSettings()
        settings.connectionsMax = 3
        _ = host.configure(settings, backoffUntil: nil, now: start)
        let silent = report(.silent, .silent, .silent)
        #expect(host.take(silent, inFlight: 3, now: start + 1, jitter: 0.5).isEmpty)
        #expect(host.connectionLimit == 3)
        #expect(host.take(report(.answered), inFlight: 3, now: start + 2, jitter: 0.5).isEmpty)
        settings.connectionsMax = nil
        _ = host.configure(settings, backoffUntil: nil, now: start + 3)
        let lost = report(.lost, .lost, .lost)
        #expect(host.take(lost, inFlight: 13, now: start + 10, jitter: 0.5).map(\.kind) == [.limited])
        #expect(host.connectionLimit == 8)
        #expect(host.take(silent, inFlight: 5, now: start + 11, jitter: 0.5).first?.limitAfter == 6)
        let answered = host.take(report(.answered), inFlight: 5, now: start + 12, jitter: 0.5)
        #expect(answered.map(\.kind) == [.released] && host.connectionLimit == 8)
    }

    @Test("what an operator says holds, is kept and can be taken back")
    func operators() throws {
        var host = HostCondition()
        var settings = HostSettings()
        settings.connectionsMax = 7
        settings.isPaused = true
        settings.bytesPerSecondMax = 1_000_000
        #expect(host.configure(settings, backoffUntil: nil, now: start)?.kind == .configured)
        #expect(host.connectionLimit == 7 && host.blockedUntil == .distantFuture)
        #expect(host.configure(settings, backoffUntil: nil, now: start) == nil, "nothing has changed")
        #expect(!host.isForgettable(at: start + 1_000_000))
        let kept = try #require(HostCondition(json: host.json))
        #expect(kept == host)
        _ = host.take(report(.throttled(status: 429, retryAfter: 50)), inFlight: 7, now: start, jitter: 0)
        settings = HostSettings()
        _ = host.configure(settings, backoffUntil: .some(nil), now: start)
        #expect(host.blockedUntil == nil && host.state(at: start) == .limited)
    }

    @Test("a condition that says nothing is forgotten after a while, and not before")
    func forgotten() {
        var host = HostCondition()
        _ = host.take(report(.lost), inFlight: 1, now: start, jitter: 0)
        #expect(!host.isForgettable(at: start + 59) && host.isForgettable(at: start + 60))
        _ = host.take(report(.throttled(status: 429, retryAfter: 5)), inFlight: 4, now: start, jitter: 0)
        #expect(!host.isForgettable(at: start + 100))
    }

    @Test("whatever happens to a host, what is kept of it is all of it")
    func codec() throws {
        var random = Seeded(7)
        for _ in 0..<200 {
            var host = HostCondition()
            var now = start
            for _ in 0..<40 {
                now = now + Double(random.next() % 3_000) / 1_000
                var seen = HostReport()
                for _ in 0..<(random.next() % 12) { seen.add(signals[Int(random.next() % 8)]) }
                seen.bytes = Int64(random.next() % 1_000_000)
                seen.seconds = Double(random.next() % 100) / 8
                if random.next() % 6 == 0 { seen = report(.silent, .silent, .silent) }
                let inFlight = Int(random.next() % 64)
                _ = host.take(seen, inFlight: inFlight, now: now, jitter: Double(random.next() % 9) / 8)
                let errands = host.errands(at: now)
                if errands.probes { _ = host.probed(random.next() % 2 == 0 ? nil : .timedOut, at: now) }
                if errands.releases > 0 { host.released(Int(random.next() % 5), of: errands.releases) }
                #expect((host.connectionLimit ?? 1) >= 1)
                let kept = try #require(HostCondition(json: host.json))
                #expect(kept == host)
            }
        }
        #expect(HostCondition(json: Array("[1]".utf8)) == nil && HostCondition(json: []) == nil)
    }

    private let signals: [HostSignal] = [
        .answered, .answered, .answered, .lost, .none, .throttled(status: 429, retryAfter: nil),
        .throttled(status: 503, retryAfter: 2), .unreachable(.couldNotConnect),
    ]
}
