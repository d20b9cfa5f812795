import FerryCore
import FerryScheduler
import Testing

@Suite("How many a second one host gets")
struct RequestPaceTests {
    private func gate(_ rate: Double, burst: Double, _ status: Int = 503, latency: Double = 0.02)
        -> SimulatedGate
    {
        var gate = SimulatedGate(rate: rate)
        gate.burst = burst
        gate.latency = latency
        gate.refusal = .throttled(status: status, retryAfter: nil)
        return gate
    }

    @Test(
        "a host that counts requests gets nearly what it allows, and refuses little",
        arguments: [(1_000, 0.002), (100, 0.005), (100, 0.05), (10, 0.2), (5, 0.02)], [429, 503])
    func counting(host: (rate: Double, latency: Double), status: Int) {
        var gate = gate(host.rate, burst: max(3, host.rate / 10), status, latency: host.latency)
        gate.run(seconds: 150)
        let good = gate.answeredPerSecond(last: 90) / host.rate
        // With 429 a limit of what is in flight may do as well, one of 1 where 2 are too many.
        #expect(good >= (status == 429 ? 0.45 : 0.75) && good <= 1.02, "\(good)")
        #expect(gate.refusedPart(last: 90) <= 0.05, "\(gate.refusedPart(last: 90))")
    }

    @Test("one that allows nothing at once, but one after the other", arguments: [429, 503])
    func strict(status: Int) {
        var gate = gate(100, burst: 1, status, latency: 0.005)
        gate.run(seconds: 180)
        #expect(gate.answeredPerSecond(last: 120) >= 55, "\(gate.answeredPerSecond(last: 120))")
        #expect(gate.refusedPart(last: 120) <= 0.08)
    }

    @Test("within seconds it is no longer driven: of what came first only so many are refused")
    func soon() throws {
        var gate = gate(100, burst: 10)
        gate.run(seconds: 3)
        let before = gate.refused.reduce(0, +)
        gate.run(seconds: 30)
        #expect(gate.refused.reduce(0, +) - before < 300, "\(gate.refused)")
        let first = try #require(gate.decisions.first { $0.kind == .paced })
        #expect(first.rateBefore == nil && first.rateAfter ?? 0 > 50 && first.rateAfter ?? 0 < 200)
        #expect(first.sentence.contains("transfers a second") && first.sentence.contains("asked to slow"))
        #expect(gate.host.state(at: gate.now) == .limited && gate.host.connectionLimit ?? 0 >= 4)
        #expect(HostCondition(json: gate.host.json) == gate.host)
    }

    @Test("more that is allowed is found, and so is less", arguments: [400.0, 25, 10])
    func another(rate: Double) {
        var gate = gate(100, burst: 10)
        gate.run(seconds: 100)
        gate.rate = rate
        gate.run(seconds: 120)
        #expect(!gate.decisions.contains { $0.sentence.contains("fewer were refused") }, "it is the pace")
        let good = gate.answeredPerSecond(last: 30) / rate
        #expect(good >= 0.85 && good <= 1.05, "\(good)")
        #expect(gate.refusedPart(last: 30) <= 0.06)
    }

    @Test("one that refuses everything for a while is asked now and then, and has its pace again at once")
    func outage() {
        var gate = gate(100, burst: 10)
        gate.run(seconds: 30)
        gate.troubleShare = 1
        gate.run(seconds: 60)
        #expect(gate.refused.suffix(30).reduce(0, +) <= 10, "\(gate.refused.suffix(60))")
        gate.troubleShare = 0
        gate.run(seconds: 20)
        #expect(gate.answeredPerSecond(last: 5) >= 85, "\(gate.answered.suffix(20))")
    }

    @Test("what is refused at any pace takes none")
    func broken() {
        var gate = gate(1e6, burst: 1e6, latency: 0.05)
        gate.troubleShare = 0.5
        gate.run(seconds: 120)
        // 64 at once of 0.05 s, half of them refused at once.
        #expect(gate.answeredPerSecond(last: 60) >= 600, "\(gate.answeredPerSecond(last: 60))")
        #expect(gate.host.requestRateLimit == nil)
        var other = self.gate(100, burst: 10)
        other.troubleShare = 0.1
        other.run(seconds: 120)
        #expect(other.answeredPerSecond(last: 60) >= 70, "\(other.answeredPerSecond(last: 60))")
        #expect(other.refusedPart(last: 60) <= 0.4)
    }

    @Test("one that fails now and then is soon given all that there is, however little", arguments: 1...6)
    func little(demand: Int) {
        var gate = gate(1e6, burst: 1e6, latency: 0.02)
        gate.troubleShare = 0.1
        gate.demand = demand
        gate.run(seconds: 90)
        #expect(gate.answeredPerSecond(last: 60) >= 40 * Double(demand), "\(gate.answered)")
        for one in gate.decisions where one.kind == .raised {
            #expect(one.limitAfter ?? .max > one.limitBefore ?? 0, "\(one.sentence)")
        }
        #expect(gate.decisions.first?.sentence.contains(": 1 answer asked to") ?? false)
    }

    @Test(
        "one that refuses some whatever it is asked, and says for how long each time, is not given up on",
        arguments: [0.1, 0.2, 0.3], [2, 5, 20])
    func usual(share: Double, demand: Int) {
        let runs = (1...5).map { (seed: UInt64) in
            var gate = SimulatedGate(rate: 1e6, seed: seed)
            gate.burst = 1e6
            gate.latency = 0.05
            gate.refusal = .throttled(status: 429, retryAfter: 1)
            gate.troubleShare = share
            gate.demand = demand
            gate.run(seconds: 300)
            return gate.answeredPerSecond(last: 200)
        }
        // A pause of a second for each refusal, and what is answered between two of them.
        #expect(runs.allSatisfy { $0 >= 0.4 * (1 - share) / share }, "\(runs)")
    }

    @Test("however little it allows, it is noticed when it allows more")
    func slowest() {
        var gate = gate(0.15, burst: 1, 429, latency: 0.005)
        gate.run(seconds: 400)
        #expect(gate.refusedPart(last: 200) <= 0.4, "\(gate.decisions.map(\.sentence))")
        gate.rate = 50
        gate.burst = 5
        gate.run(seconds: 400)
        #expect(gate.answeredPerSecond(last: 60) >= 25, "\(gate.decisions.map(\.sentence))")
    }

    @Test("one that says for how long, each second or each ten, is left alone for that and used otherwise")
    func told() {
        var gate = SimulatedGate(rate: 100)
        gate.burst = 10
        gate.refusal = .throttled(status: 429, retryAfter: 1)
        gate.run(seconds: 120)
        #expect(gate.answeredPerSecond(last: 60) >= 85, "\(gate.answeredPerSecond(last: 60))")
        var other = SimulatedGate(rate: 10)
        other.period = 10
        other.refusal = .throttled(status: 429, retryAfter: 5)
        other.run(seconds: 120)
        #expect(other.answeredPerSecond(last: 60) >= 8, "\(other.answeredPerSecond(last: 60))")
    }

    @Test("one that is away for a while and says so has no pace afterwards, and half of what it had at least")
    func maintenance() {
        var gate = SimulatedGate(rate: 1e6)
        gate.burst = 1e6
        gate.refusal = .throttled(status: 503, retryAfter: 10)
        gate.run(seconds: 10)
        gate.troubleShare = 1
        gate.run(seconds: 30)
        gate.troubleShare = 0
        gate.run(seconds: 40)
        #expect(gate.host.requestRateLimit == nil && gate.refused.reduce(0, +) < 300, "\(gate.refused)")
        #expect(gate.answeredPerSecond(last: 5) > 0.5 * Double(gate.answered[5]), "\(gate.answered)")
    }

    @Test("a pace that nobody needs goes after ten minutes, and the condition with it")
    func unneeded() {
        var gate = gate(100, burst: 10)
        gate.run(seconds: 30)
        #expect(gate.host.requestRateLimit != nil)
        var now = gate.now
        for _ in 0..<200 {
            now = now + 60
            _ = gate.host.take(HostReport(), inFlight: 0, now: now, jitter: 0.5)
        }
        #expect(gate.host.requestRateLimit == nil)
        #expect(gate.host.isForgettable(at: now))
    }

    @Test("an operator's rate holds without trouble, and above it nothing is learned")
    func operators() {
        var gate = gate(100, burst: 10)
        var settings = HostSettings()
        settings.requestsPerSecondMax = 20
        _ = gate.host.configure(settings, backoffUntil: nil, now: gate.now)
        #expect(gate.host.requestRateLimit == 20 && gate.host.state(at: gate.now) == .limited)
        #expect(!gate.host.isForgettable(at: gate.now + 1_000))
        gate.run(seconds: 60)
        #expect(abs(gate.answeredPerSecond(last: 50) - 20) < 1 && gate.refused.reduce(0, +) == 0)
        #expect(gate.decisions.isEmpty)
    }
}
