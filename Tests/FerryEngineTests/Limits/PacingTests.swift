import FerryCore
import Glibc
import Sys
import TestSupport
import TestThreads
import Testing

@testable import FerryEngine

/// Transfers of a simulated loop: each moves one portion after the other, as fast as its limits let it.
private struct Simulation {
    var moved: [Int]
    private var wakes: [Int64]
    private let pacings: [Pacing]
    private let portions: [Int]
    private(set) var now: Int64 = 0
    private var random = SystemRandomNumberGenerator()
    /// Nanoseconds that a wake-up may come late.
    let lateness: Int64

    init(_ pacings: [Pacing], portions: [Int], lateness: Int64 = 0) {
        self.pacings = pacings
        self.portions = portions
        self.lateness = lateness
        moved = Array(repeating: 0, count: pacings.count)
        wakes = Array(repeating: 0, count: pacings.count)
    }

    mutating func run(seconds: Double, _ watch: (Int64, Int) -> Void = { _, _ in }) {
        let end = now + Int64(seconds * 1e9)
        while let next = wakes.indices.min(by: { wakes[$0] < wakes[$1] }), wakes[next] < end {
            now = wakes[next]
            let wait = pacings[next].take(portions[next], .receiving, now: now)
            if wait == 0 {
                moved[next] += portions[next]
                watch(now, portions[next])
                wakes[next] = now + 10_000
            } else {
                wakes[next] = now + wait + (lateness > 0 ? Int64.random(in: 0...lateness, using: &random) : 0)
            }
        }
        now = end
    }
}

@Suite struct PacingTests {
    private static func pacing(_ job: Int64?, _ service: TokenBucket?) -> Pacing {
        Pacing(
            job: job.map { TokenBucket(bytesPerSecond: $0, now: 0) }, host: nil, receiving: service,
            sending: nil)
    }

    @Test("a place whose time is long past at the new rate may be used now", arguments: [Int64(1), 50_000])
    func longPast(rate: Int64) {
        let bucket = TokenBucket(bytesPerSecond: (1 << 53) - 1, now: 0)
        let pacing = Self.pacing(nil, bucket)
        #expect(pacing.take(16_384, .receiving, now: 0) == 0)
        let later: Int64 = 3_600_000_000_000
        bucket.change(bytesPerSecond: rate, now: later)
        #expect(pacing.timeLeft(later) <= 0)
        #expect(pacing.take(1, .receiving, now: later) == 0)
    }

    @Test(
        "ten seconds carry the rate's bytes within five percent, in equal shares",
        arguments: [1, 3, 50], [0, 40_000_000] as [Int64])
    func accuracy(count: Int, lateness: Int64) {
        let rate: Int64 = 10_000_000
        let bucket = TokenBucket(bytesPerSecond: rate, now: 0)
        var simulation = Simulation(
            (0..<count).map { _ in Self.pacing(nil, bucket) },
            portions: Array(repeating: 16_384, count: count), lateness: lateness)
        simulation.run(seconds: 10)
        let total = Double(simulation.moved.reduce(0, +))
        #expect(abs(total / 1e8 - 1) < 0.05, "\(total)")
        // Who is late by chance asks less often.
        let spread = lateness == 0 ? 0.02 : 0.15
        for one in simulation.moved { #expect(abs(Double(one) * Double(count) / total - 1) < spread) }
    }

    @Test("no 100 ms carry more than 200 ms' bytes, also after a pause")
    func bursts() {
        let bucket = TokenBucket(bytesPerSecond: 1_000_000, now: 0)
        var times: [(at: Int64, count: Int)] = []
        var simulation = Simulation(
            (0..<5).map { _ in Self.pacing(nil, bucket) }, portions: [1_000, 2_000, 1_000, 500, 16_384])
        simulation.run(seconds: 3) { times.append(($0, $1)) }
        var later = Simulation([Self.pacing(nil, bucket)], portions: [1_000])
        later.run(seconds: 60)
        for (index, first) in times.enumerated() {
            var sum = 0
            for next in times[index...] {
                if next.at - first.at > 100_000_000 { break }
                sum += next.count
            }
            #expect(sum <= 200_000 + 16_384)
        }
    }

    @Test("a job below its share leaves the rest of the limit to the others")
    func hierarchy() {
        let bucket = TokenBucket(bytesPerSecond: 1_000_000, now: 0)
        let pacings = [Self.pacing(100_000, bucket), Self.pacing(nil, bucket), Self.pacing(nil, bucket)]
        var simulation = Simulation(pacings, portions: pacings.map(\.portion))
        simulation.run(seconds: 20)
        let (slow, fast) = (Double(simulation.moved[0]), simulation.moved[1...].map(Double.init))
        #expect(abs(slow / 2e6 - 1) < 0.05, "\(slow)")
        #expect(abs(slow + fast[0] + fast[1] - 2e7) < 1e6)
        #expect(abs(fast[0] / fast[1] - 1) < 0.05)
    }

    @Test("a job has one share however many connections it has, which take turns")
    func connections() {
        let bucket = TokenBucket(bytesPerSecond: 1_000_000, now: 0)
        let shared = JobPlaces()
        let many = (0..<8).map { _ in
            Pacing(shared, job: nil, host: nil, receiving: bucket, sending: nil)
        }
        let pacings = many + [Self.pacing(nil, bucket)]
        var simulation = Simulation(pacings, portions: pacings.map { _ in 10_000 }, lateness: 1_000_000)
        simulation.run(seconds: 40)
        #expect(bucket.takePeak() == 2)
        let (parts, single) = (simulation.moved[..<8].map(Double.init), Double(simulation.moved[8]))
        let all = parts.reduce(0, +)
        #expect(abs((all + single) / 4e7 - 1) < 0.05, "\(all + single)")
        #expect(abs(all / single - 1) < 0.1, "\(all) beside \(single)")
        for part in parts { #expect(abs(part * 8 / all - 1) < 0.1, "\(parts)") }
    }

    @Test("a job's connections to a slow host leave its other ones alone")
    func hosts() {
        let service = TokenBucket(bytesPerSecond: 1_000_000, now: 0)
        let slow = TokenBucket(bytesPerSecond: 20_000, now: 0)
        let shared = JobPlaces()
        let pacings = [slow, slow, nil, nil].map {
            Pacing(shared, job: nil, host: $0, receiving: service, sending: nil)
        }
        var simulation = Simulation(pacings, portions: pacings.map(\.portion))
        simulation.run(seconds: 20)
        let moved = simulation.moved.map(Double.init)
        #expect(abs((moved[0] + moved[1]) / 4e5 - 1) < 0.05, "\(moved)")
        #expect(abs((moved[2] + moved[3]) / (2e7 - 4e5) - 1) < 0.05, "\(moved)")
        #expect(abs(moved[2] / moved[3] - 1) < 0.05, "\(moved)")
    }

    @Test("a connection that ends does not block others, and an ended job is not counted")
    func abandoned() {
        let bucket = TokenBucket(bytesPerSecond: 1_000, now: 0)
        do {
            let shared = JobPlaces()
            let make = { Pacing(shared, job: nil, host: nil, receiving: bucket, sending: nil) }
            let (first, lost) = (make(), make())
            var ended: Pacing? = make()
            #expect(first.take(1_000, .receiving, now: 0) == 0)
            let wait = lost.take(1_000, .receiving, now: 0)
            #expect((800_000_000...1_000_000_000).contains(wait))
            // One place of the job's is given: these wait for it.
            #expect(ended?.take(1_000, .receiving, now: 0) == wait)
            ended = nil
            #expect(first.take(1_000, .receiving, now: 1) == wait - 1)
            // Its turn comes with the next place, though the one before it is never used.
            let next = first.take(1_000, .receiving, now: wait)
            #expect((900_000_000...1_000_000_000).contains(next))
            #expect(first.take(1_000, .receiving, now: wait + next) == 0)
            #expect(bucket.takePeak() == 1)
        }
        #expect(bucket.takePeak() == 1)
        #expect(bucket.takePeak() == 0)
    }

    @Test("a step is small at a low rate, and a change of the rate applies at once")
    func portions() {
        #expect(Self.pacing(1_000, nil).portion == 1_024)
        #expect(Self.pacing(100_000, nil).portion == 5_000)
        #expect(Self.pacing(100_000_000, nil).portion == 16_384)
        let bucket = TokenBucket(bytesPerSecond: 1, now: 0)
        let pacing = Self.pacing(nil, bucket)
        #expect(bucket.reserve(1_000_000, now: 0).time == 0)
        let waiting = bucket.reserve(1, now: 0)
        #expect(waiting.time > 1_000_000_000_000 && pacing.portion == 1_024)
        bucket.change(bytesPerSecond: 1_000_000_000, now: 5)
        #expect((1_000_000...1_000_010).contains(waiting.time) && pacing.portion == 16_384)
        #expect((waiting.time...1_000_020).contains(bucket.reserve(1, now: 5).time), "behind it")
    }

    @Test("a rate that keeps changing keeps the order of places and carries the right bytes")
    func changes() {
        let bucket = TokenBucket(bytesPerSecond: 500_000, now: 0)
        let pacings = (0..<200).map { _ in Self.pacing(nil, bucket) }
        // All of them once take six seconds and a half.
        var simulation = Simulation(pacings, portions: pacings.map { _ in 16_384 })
        for round in 1...100 {
            simulation.run(seconds: 3)
            bucket.change(bytesPerSecond: round % 2 == 0 ? 500_000 : 500_500, now: simulation.now)
        }
        let total = Double(simulation.moved.reduce(0, +))
        #expect(abs(total / (300 * 500_250) - 1) < 0.05, "\(total)")
        for one in simulation.moved { #expect(abs(Double(one) * 200 / total - 1) < 0.05, "\(one)") }
    }
}

/// The same with real sockets: generous bounds, because the machine is shared.
@Suite(.serialized, .onOwnThread) struct RateTests {
    private static func with(_ body: (Nginx, Fixture) throws -> Void) throws {
        let nginx = try Nginx()
        defer { nginx.stop() }
        let fixture = try Fixture()
        defer { fixture.stop() }
        try nginx.serve("file", patternBytes(1_000_000))
        try body(nginx, fixture)
    }

    private static func seconds(_ body: () throws -> Void) rethrows -> Double {
        let began = monotonicNanoseconds()
        try body()
        return Double(monotonicNanoseconds() - began) / 1e9
    }

    @Test("all transfers of all loops share the service's limit equally")
    func shared() throws {
        try Self.with { nginx, fixture in
            fixture.engine.setLimits(
                TransferLimits(bytesReceivedPerSecondMax: 4_000_000), shares: RateShares(nodeCount: 2))
            // A transfer that is left behind is so every time, unless its loop's thread was not scheduled.
            var isFair = false
            for _ in 0..<5 where !isFair { isFair = Self.isFair(nginx, fixture) }
            #expect(isFair)
        }
    }

    /// Whether of four transfers, when the first is done, the others have come more than half of the way.
    private static func isFair(_ nginx: Nginx, _ fixture: Fixture) -> Bool {
        // As bulk they are spread over the loops.
        let attempts = (0..<4).map { _ in
            fixture.attempt(.download, nginx.url + "/file") {
                $0.spec.schedule.expectedBytesToReceive = 5_000_000
            }
        }
        var received: [Int64] = []
        let took = seconds {
            fixture.engine.begin(attempts)
            // They end together: the first may not come alone.
            var results = fixture.sink.arrived.wait()
            received = attempts.map { fixture.engine.progress(of: $0.job)?.bytesReceived ?? 1_000_000 }
            results += fixture.sink.arrived.wait(for: 4 - results.count)
            #expect(results.count == 4 && results.allSatisfy { $0.success != nil })
        }
        // 4 MB at half of 4 MB/s.
        #expect(took >= 1.8, "\(took) s")
        return received.allSatisfy { $0 > 600_000 }
    }

    @Test("limits can be set, changed and taken away while transfers run")
    func changes() throws {
        try Self.with { nginx, fixture in
            let attempt = fixture.attempt(.download, nginx.url + "/file") {
                $0.spec.bytesPerSecondMax = 1_000
            }
            let progress = { fixture.engine.progress(of: attempt.job)?.bytesReceived ?? 0 }
            fixture.engine.begin([attempt])
            #expect(eventually { progress() > 0 })
            #expect(progress() < 100_000)
            fixture.engine.setLimits(
                TransferLimits(bytesPerSecondPerHostMax: 2_000), shares: RateShares(nodeCount: 1))
            fixture.engine.adopt(
                attempt.edit { spec, _ in spec.bytesPerSecondMax = 100_000_000 }, of: attempt.job)
            let before = progress()
            #expect(eventually { progress() > before + 2_000 })
            #expect(progress() < 500_000)
            fixture.engine.setLimits(TransferLimits(), shares: RateShares(nodeCount: 1))
            // Eight minutes, if the host's stayed.
            #expect(fixture.sink.arrived.wait().first?.success != nil)
        }
    }

    @Test("uploads keep the limit; other hosts and the other direction are not limited")
    func directions() throws {
        try Self.with { nginx, fixture in
            fixture.engine.setLimits(
                TransferLimits(bytesSentPerSecondMax: 1_000_000), shares: RateShares(nodeCount: 1))
            try writeFile(fixture.root + "/source", patternBytes(1_500_000))
            let up = Self.seconds {
                let result = fixture.run(.upload, nginx.url + "/put/x") { $0.spec.source = .path("source") }
                #expect(result?.success?.sha256 == sha256(patternBytes(1_500_000)))
            }
            #expect(up >= 1.2, "\(up) s")
            // Minutes, if it were concerned.
            fixture.engine.setLimits(
                TransferLimits(bytesSentPerSecondMax: 5_000), shares: RateShares(nodeCount: 1))
            let down = Self.seconds { #expect(fixture.run(.download, nginx.url + "/file")?.success != nil) }
            #expect(down < 60, "\(down) s")
            fixture.engine.setLimits(
                TransferLimits(bytesPerSecondPerHostMax: 1_000_000), shares: RateShares(nodeCount: 4))
            let host = Self.seconds { #expect(fixture.run(.download, nginx.url + "/file")?.success != nil) }
            #expect(host >= 0.7, "\(host) s")
        }
    }

    @Test("transfers of a session share the node's part of its limit; other sessions are not limited")
    func session() throws {
        try Self.with { nginx, fixture in
            let key = SessionKey(tenant: "tenant", name: "slow")
            fixture.engine.setLimits(TransferLimits(), shares: RateShares(nodeCount: 2))
            fixture.engine.setSessionRates([key: 4_000_000])
            let slow = Self.seconds {
                let result = fixture.run(.download, nginx.url + "/file") { $0.spec.session = "slow" }
                #expect(result?.success != nil)
            }
            #expect(slow >= 0.35, "\(slow) s")
            // Minutes, if others were concerned.
            fixture.engine.setSessionRates([key: 10_000])
            let free = Self.seconds { #expect(fixture.run(.download, nginx.url + "/file")?.success != nil) }
            #expect(free < 60, "\(free) s")
            fixture.engine.setSessionRates([:])
            let now = Self.seconds {
                let result = fixture.run(.download, nginx.url + "/file") { $0.spec.session = "slow" }
                #expect(result?.success != nil)
            }
            #expect(now < 60, "\(now) s")
        }
    }

    @Test("a host's limit applies where redirects lead, also to parts, and not where they start")
    func redirected() throws {
        try Self.with { nginx, fixture in
            let target = nginx.url + "/file"
            let origin = try ScriptedOrigin.answering { _, _ in
                Array("HTTP/1.1 302 F\r\nLocation: \(target)\r\nContent-Length: 0\r\n\r\n".utf8)
            }
            defer { origin.stop() }
            for segments in [1, 4] {
                let run = {
                    Self.seconds {
                        let result = fixture.run(.download, origin.url) {
                            $0.spec.segmentCountMax = segments
                        }
                        #expect(result?.success?.sha256 == sha256(patternBytes(1_000_000)))
                    }
                }
                fixture.engine.setHostRates([nginx.url: 1_000_000])
                let slow = run()
                #expect(slow >= 0.7, "\(slow) s in \(segments) parts")
                // Minutes, if it held.
                fixture.engine.setHostRates([origin.url: 2_000])
                let fast = run()
                #expect(fast < 60, "\(fast) s in \(segments) parts")
            }
        }
    }

    @Test("a decoded body is paced as well")
    func decoded() throws {
        let origin = try ScriptedOrigin.answering { _, _ in
            let bytes = Coded.gzip(patternBytes(1_000_000))
            return Array(
                "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: \(bytes.count)\r\n\r\n".utf8)
                + bytes
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        let took = Self.seconds {
            let result = fixture.run(.download, origin.url) {
                $0.spec.request.acceptEncoding = .gzip
                $0.spec.bytesPerSecondMax = 1_000_000
            }
            #expect(result?.success?.sha256 == sha256(patternBytes(1_000_000)))
        }
        #expect(took >= 0.7, "\(took) s")
    }
}
