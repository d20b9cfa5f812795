import FerryCore
import FerryScheduler
import Testing

@Suite("How much at once one host gets")
struct ConcurrencyControllerTests {
    @Test("a host without trouble has no limit, whatever it does")
    func untroubled() {
        var host = SimulatedHost(capacity: 1_000)
        host.run(seconds: 1_000)
        #expect(host.controller.limit == nil && host.decisions.isEmpty)
    }

    @Test("the first trouble makes a limit of half of what was in flight")
    func first() throws {
        var host = SimulatedHost(capacity: 120)
        host.run(seconds: 1)
        // What is refused at once is told at once: four of eighty.
        #expect(host.controller.limit == 62)
        let decision = try #require(host.decisions.first)
        #expect(decision.kind == .limited && decision.limitBefore == nil && decision.limitAfter == 62)
        #expect(decision.sentence.contains("in flight") && decision.throttled == 4)
    }

    @Test("trouble of a single attempt does not make all others go one by one")
    func single() throws {
        var controller = ConcurrencyController()
        let now = Timestamp(microseconds: 1_790_000_000_000_000)
        var report = HostReport()
        report.throttled = 1
        report.throttleStatus = 503
        let decision = controller.take(report, inFlight: 0, bounds: .init(), now: now)
        #expect(decision?.limitAfter == 4 && controller.limit == 4)
        var strict = ConcurrencyController()
        _ = strict.take(report, inFlight: 0, bounds: .init(most: 2), now: now)
        #expect(strict.limit == 2)
        // More of it takes more.
        for seconds in [10.0, 20, 30, 40] {
            _ = controller.take(report, inFlight: 4, bounds: .init(), now: now + seconds)
        }
        #expect(controller.limit == 1)
    }

    @Test(
        "it settles near a capacity that nobody has told it", arguments: [3, 10, 40, 130], [429, 503])
    func convergesWhenRefused(capacity: Int, status: Int) {
        var host = SimulatedHost(capacity: capacity)
        host.refusal = .throttled(status: status, retryAfter: nil)
        host.run(seconds: 900)
        let mean = host.meanLimit(last: 300)
        #expect(mean >= Double(capacity) * 0.7, "\(mean): \(host.decisions.suffix(5).map(\.sentence))")
        #expect(mean <= Double(capacity) * 1.1 + 1, "\(mean)")
        let before = host.throttledCount
        host.run(seconds: 600)
        #expect(host.throttledCount - before <= max(30, host.answeredCount / 100), "it hurts the host")
    }

    @Test("more at once that does not pay is taken back", arguments: [4, 20, 60])
    func convergesWhenSlow(capacity: Int) {
        var host = SimulatedHost(capacity: capacity, manner: .slowsDown)
        host.demand = 12
        host.run(seconds: 5)
        host.refuseOne()
        host.demand = 200
        // Not so long that the limit goes.
        host.run(seconds: 590)
        let mean = host.meanLimit(last: 150)
        #expect(mean >= Double(capacity) * 0.8 && mean <= Double(capacity) * 1.6 + 2, "\(mean)")
        #expect(host.decisions.contains { $0.kind == .reverted })
    }

    @Test(
        "what long transfers say is awaited, and short ones decide sooner",
        arguments: [0.05, 2, 15, 60] as [Double])
    func windows(seconds: Double) throws {
        var host = SimulatedHost(capacity: 40)
        host.serviceSeconds = seconds
        host.run(seconds: Int(seconds * 40) + 120)
        // A raise is judged by what began after it, so that two are never nearer than two transfers are long.
        let raises = host.decisions.filter { $0.kind == .raised }.map(\.at)
        #expect(raises.count >= 3, "\(host.decisions.map(\.sentence))")
        let gaps = zip(raises, raises.dropFirst()).map { $1 - $0 }
        #expect(gaps.allSatisfy { $0 >= 2 * seconds }, "\(gaps)")
        let shortest = try #require(gaps.min())
        #expect(shortest <= max(10, 8 * seconds + 2), "\(gaps)")
    }

    @Test("a window has an end where transfers take hours")
    func longestWindow() {
        var host = SimulatedHost(capacity: 40)
        host.serviceSeconds = 3_600
        host.run(seconds: 7_000)
        host.demand = 10
        let limit = host.controller.limit
        // Two transfers last two hours. Who waited for so long would not see that nobody needs the limit.
        host.run(seconds: 6_000)
        #expect(limit != nil && host.controller.limit == nil, "\(host.decisions.map(\.sentence))")
    }

    @Test("it finds out when the host can do more, and less")
    func moves() {
        var host = SimulatedHost(capacity: 15)
        host.run(seconds: 600)
        #expect(host.meanLimit(last: 100) <= 17)
        host.capacity = 90
        host.run(seconds: 900)
        #expect(host.meanLimit(last: 100) >= 60, "\(host.decisions.suffix(5).map(\.sentence))")
        host.capacity = 10
        host.run(seconds: 120)
        #expect(host.meanLimit(last: 60) <= 12, "\(host.meanLimit(last: 60))")
    }

    @Test("a host that refuses everything still gets one at a time, and comes back")
    func neverStarves() {
        var host = SimulatedHost(capacity: 0)
        host.run(seconds: 600)
        #expect(host.limits.allSatisfy { ($0 ?? 1) >= 1 } && host.controller.limit == 1)
        host.capacity = 50
        host.run(seconds: 1_800)
        #expect(host.meanLimit(last: 100) >= 30, "\(host.decisions.suffix(5).map(\.sentence))")
    }

    @Test("nothing is raised that nobody uses, and a limit that nobody needed goes")
    func quiet() throws {
        var host = SimulatedHost(capacity: 50)
        host.run(seconds: 60)
        host.demand = 5
        let count = host.decisions.count
        host.run(seconds: 590)
        #expect(host.decisions[count...].allSatisfy { $0.kind != .raised })
        host.run(seconds: 60)
        #expect(host.controller.limit == nil && host.decisions.last?.kind == .released)
        host.run(seconds: 100)
        #expect(host.controller.limit == nil)
    }

    @Test("an operator's bounds hold, also against the measured limit")
    func bounds() {
        var host = SimulatedHost(capacity: 100)
        host.bounds = .init(least: 4, most: 20)
        host.run(seconds: 300)
        #expect(host.limits.allSatisfy { (4...20).contains($0 ?? 4) } && host.controller.limit == 20)
        host.capacity = 1
        host.run(seconds: 100)
        #expect(host.controller.limit == 4)
        host.bounds = .init(least: 8, most: 8)
        host.run(seconds: 1)
        #expect(host.controller.limit == 8)
    }

    @Test("smaller files are no reason to take a raise back")
    func sizes() {
        var host = SimulatedHost(capacity: 1_000)
        host.demand = 8
        host.run(seconds: 3)
        host.refuseOne()
        host.demand = 1_000
        while host.decisions.last?.kind != .raised { host.run(seconds: 1) }
        // A tenth of the size in the same time: bytes a second fall, and answers do not rise.
        host.bytes = 10_000
        host.capacity = host.controller.limit ?? 1
        let count = host.decisions.count
        host.run(seconds: 10)
        #expect(host.decisions[count...].first?.kind != .reverted)
    }

    @Test("a burst of lost transfers is trouble, a lost one among many is not")
    func losses() {
        var controller = ConcurrencyController()
        var now = Timestamp(microseconds: 1_700_000_000_000_000)
        var report = HostReport()
        for _ in 0..<100 { report.add(.answered) }
        for _ in 0..<4 { report.add(.lost) }
        #expect(controller.take(report, inFlight: 50, bounds: .init(), now: now) == nil)
        controller = ConcurrencyController()
        report = HostReport()
        for _ in 0..<4 { report.add(.lost) }
        now = now + 1
        let decision = controller.take(report, inFlight: 46, bounds: .init(), now: now)
        #expect(decision?.limitAfter == 25 && decision?.sentence.contains("lost") == true)
    }

    @Test(
        "trouble that is as frequent with fewer at once is the host's own, and costs it nothing for long",
        arguments: [0.01, 0.05, 0.2, 0.4], [HostSignal.lost, .throttled(status: 503, retryAfter: nil)])
    func indifferent(share: Double, trouble: HostSignal) {
        var host = SimulatedHost(capacity: 1_000)
        host.demand = 64
        (host.troubleShare, host.trouble) = (share, trouble)
        host.run(seconds: 1_200)
        #expect(host.meanLimit(last: 600) >= 60, "\(host.decisions.prefix(12).map(\.sentence))")
        #expect(host.limits.count { ($0 ?? host.demand) < 32 } <= 90)
        // That it asks for less is something else.
        (host.trouble, host.troubleShare) = (.throttled(status: 429, retryAfter: nil), 0.1)
        host.run(seconds: 60)
        #expect(host.meanLimit(last: 10) < 16)
    }

    @Test(
        "a host that has some trouble of its own settles near its capacity all the same",
        arguments: [10, 40, 130], [0.01, 0.05, 0.2])
    func indifferentBelowCapacity(capacity: Int, share: Double) {
        var host = SimulatedHost(capacity: capacity)
        (host.troubleShare, host.trouble) = (share, .throttled(status: 503, retryAfter: nil))
        host.refusal = host.trouble
        host.run(seconds: 1_800)
        let mean = host.meanLimit(last: 900)
        // What happens once in a hundred answers takes long to judge where few are in flight.
        let least = share < 0.05 && capacity == 10 ? 0.4 : 0.9
        #expect(mean >= Double(capacity) * least, "\(mean): \(host.decisions.suffix(5).map(\.sentence))")
        // As much trouble again is usual as well.
        #expect(mean <= Double(capacity) * 1.4, "\(mean)")
    }

    @Test("connects that take ten times longer are trouble")
    func connects() {
        var controller = ConcurrencyController()
        var now = Timestamp(microseconds: 1_700_000_000_000_000)
        func report(_ seconds: Double) -> HostReport {
            var report = HostReport()
            for _ in 0..<10 { report.add(.answered) }
            report.connections = 10
            report.connectSeconds = 10 * seconds
            return report
        }
        for _ in 0..<10 {
            now = now + 1
            #expect(controller.take(report(0.2), inFlight: 40, bounds: .init(), now: now) == nil)
        }
        now = now + 1
        let decision = controller.take(report(2.5), inFlight: 40, bounds: .init(), now: now)
        #expect(decision?.limitAfter == 20 && decision?.sentence.contains("connecting") == true)
    }

    @Test("connects that stay slow for good are what is usual there in a minute or two, and no sooner")
    func connectsForGood() throws {
        var controller = ConcurrencyController()
        var now = Timestamp(microseconds: 1_700_000_000_000_000)
        var decisions: [HostDecision] = []
        func run(_ count: Int, connecting seconds: Double) {
            for _ in 0..<count {
                now = now + 1
                let inFlight = controller.limit ?? 80
                var report = HostReport()
                for _ in 0..<(5 * inFlight) { report.add(.answered) }
                report.seconds = Double(report.answered) * (seconds + 0.1)
                report.connections = report.answered
                report.connectSeconds = Double(report.answered) * seconds
                let decision = controller.take(report, inFlight: inFlight, bounds: .init(), now: now)
                if let decision { decisions.append(decision) }
            }
        }
        run(20, connecting: 0.02)
        #expect(controller.limit == nil)
        run(30, connecting: 2)
        let lowest = try #require(controller.limit)
        #expect(lowest <= 20 && decisions.allSatisfy { $0.kind == .limited || $0.kind == .lowered })
        run(90, connecting: 2)
        let count = decisions.count
        run(300, connecting: 2)
        #expect(!decisions[count...].contains { $0.kind == .lowered || $0.kind == .limited })
        #expect((controller.limit ?? .max) > lowest * 2, "\(decisions.suffix(5).map(\.sentence))")
    }
}
