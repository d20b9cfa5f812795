import FerryCore
import FerryScheduler
import Testing

@Suite("Host control against simulated origins")
struct HostControlSimulations {
    private typealias Stream = SimulatedOrigin.Stream
    private static let busy = HostSignal.throttled(status: 503, retryAfter: nil)

    // MARK: One tenant does not slow another

    @Test(
        "a path that always fails does not delay another tenant's jobs",
        arguments: [
            busy, .throttled(status: 429, retryAfter: 3_600), .throttled(status: 503, retryAfter: 1), .lost,
        ])
    func failingPath(_ response: HostSignal) {
        var origin = SimulatedOrigin([
            Stream(tenant: "a", path: "bad", wanted: 64, count: 1, perSecond: 5, response: response),
            Stream(tenant: "b", path: "good", wanted: 64, count: 300, startsAt: 30),
        ])
        origin.run(seconds: 34)
        #expect(origin.sum(\.answered, seconds: 30..<34, tenant: "b") == 300)
        #expect(!origin.isHeld("b"))
        #expect(origin.counts[31...].allSatisfy { $0[1].answered == 0 }, "all of them in the first second")
    }

    @Test("a Retry-After of an hour for one job holds neither its path nor another tenant")
    func oneJob() {
        var origin = SimulatedOrigin([
            Stream(
                tenant: "a", path: "x", wanted: 1, count: 1,
                response: .throttled(status: 429, retryAfter: 3_600)),
            Stream(tenant: "a", path: "x", wanted: 8, count: 50, startsAt: 5),
            Stream(tenant: "b", path: "y", wanted: 64, count: 300, startsAt: 5),
        ])
        origin.run(seconds: 20)
        #expect(!origin.isHeld("a") && !origin.isHeld("b") && origin.sum(\.answered, seconds: 5..<20) == 350)
        #expect(origin.control.limits(at: origin.now).isEmpty)
    }

    @Test("one failing path of ten is limited and the others are not")
    func onePathOfTen() {
        var origin = SimulatedOrigin(
            (0..<10).map {
                Stream(
                    tenant: "a", path: "p\($0)", wanted: 8, count: 0, perSecond: 10,
                    response: $0 == 0 ? Self.busy : nil)
            })
        origin.run(seconds: 40)
        for index in 1..<10 {
            #expect(origin.counts.allSatisfy { $0[index].held == 0 })
        }
        #expect(Set(origin.decisions.map(\.scope)) == [HostScope(tenant: "a", path: "p0")])
        #expect(origin.counts[20...].reduce(0) { $0 + $1[0].failed } < 40, "few more requests")
    }

    @Test("a tenant whose paths all fail is limited as a whole, and no other tenant is")
    func quota() {
        var streams = (0..<10).map {
            Stream(tenant: "a", path: "p\($0)", wanted: 8, count: 0, perSecond: 5, response: Self.busy)
        }
        streams += (0..<3).map { Stream(tenant: "b\($0)", path: "q", wanted: 16, count: 0, perSecond: 40) }
        var origin = SimulatedOrigin(streams)
        origin.run(seconds: 40)
        #expect(origin.decisions.contains { $0.scope == HostScope(tenant: "a") })
        #expect(origin.decisions.allSatisfy { $0.scope.tenant == "a" })
        for tenant in ["b0", "b1", "b2"] { #expect(!origin.isHeld(tenant)) }
    }

    @Test("a tenant whose scopes fail in every way does not limit other tenants")
    func hostileTenant() {
        let responses: [HostSignal] = [
            Self.busy, .throttled(status: 429, retryAfter: 3_600), .lost,
            .throttled(status: 503, retryAfter: 2),
        ]
        var streams = (0..<40).map {
            Stream(
                tenant: "a", path: "p\($0)", wanted: 8, count: 2, perSecond: 1,
                response: responses[$0 % responses.count])
        }
        streams.append(Stream(tenant: "b", path: "q", wanted: 8, count: 0, perSecond: 1))
        streams.append(Stream(tenant: "c", path: "q", wanted: 64, count: 0, perSecond: 100))
        var origin = SimulatedOrigin(streams)
        origin.run(seconds: 60)
        #expect(!origin.isHeld("b") && !origin.isHeld("c"))
    }

    @Test("two failing tenants limit the origin only until a third one is answered")
    func twoHostileTenants() {
        var origin = SimulatedOrigin([
            Stream(tenant: "a", path: "x", wanted: 16, count: 0, perSecond: 5, response: Self.busy),
            Stream(tenant: "b", path: "x", wanted: 16, count: 0, perSecond: 5, response: Self.busy),
            Stream(tenant: "c", path: "x", wanted: 64, count: 300, startsAt: 30),
        ])
        origin.run(seconds: 30)
        #expect(
            origin.control.limits(at: origin.now)[.origin] != nil,
            "every request of the origin has failed so far")
        origin.run(seconds: 6)
        #expect(origin.sum(\.answered, seconds: 30..<36, tenant: "c") == 300)
        #expect(origin.decisions.contains { $0.scope.isOrigin && $0.kind == .released })
    }

    // MARK: Limits of the host

    /// Largest number of failures in 10 s, relative to what is allowed for an overloaded host: one per second
    /// or 2 %.
    private func worst(_ origin: SimulatedOrigin) -> Double {
        stride(from: 10, to: origin.counts.count - 9, by: 10).map { start in
            let failed = origin.sum(\.failed, seconds: start..<start + 10)
            let all = failed + origin.sum(\.answered, seconds: start..<start + 10)
            return Double(failed) / max(10, 0.02 * Double(all))
        }.max() ?? 0
    }

    @Test(
        "after 10 s, an overloaded host is used to 80 % and refuses at most 2 % of the requests",
        arguments: [(1, 64), (1, 1_000), (3, 64), (3, 1_000)], [(10, 0.5), (33, 0.1), (10, 5.0)])
    func overloaded(_ clients: (tenants: Int, wanted: Int), _ host: (capacity: Int, seconds: Double)) {
        // A single run can be an outlier, so the mean of two is judged. Long transfers need a longer run.
        let end = host.seconds > 1 ? 120 : 60
        let origins = [UInt64(1), 2].map { seed in
            var origin = SimulatedOrigin(
                (0..<clients.tenants).map {
                    Stream(
                        tenant: "t\($0)", path: "p", wanted: clients.wanted / clients.tenants,
                        seconds: host.seconds)
                }, seed: seed)
            origin.capacity = host.capacity
            origin.run(seconds: end)
            return origin
        }
        func mean(_ value: (SimulatedOrigin) -> Double) -> Double { origins.map(value).reduce(0, +) / 2 }
        let could = Double(host.capacity) / host.seconds
        let failed = mean { Double($0.sum(\.failed, seconds: 10..<end)) / Double(end - 10) }
        #expect(mean { $0.answeredPerSecond(10..<end) } >= 0.8 * could)
        #expect(failed <= max(1, 0.02 * could), "one a second or 2 %")
        #expect(mean(worst) <= 2.5, "while a higher level is tried")
    }

    @Test(
        "a host with a rate limit gets nearly that rate",
        arguments: [1.0, 3, 10, 100, 400],
        [busy, .throttled(status: 429, retryAfter: nil), .throttled(status: 429, retryAfter: 1)])
    func rateLimited(_ rate: Double, _ refusal: HostSignal) {
        var origin = SimulatedOrigin(
            [Stream(tenant: "t", path: "p", wanted: 64, seconds: 0.005)], ticks: 200, seed: 3)
        origin.rate = rate
        origin.burst = max(1, rate / 10)
        origin.refusal = refusal
        origin.run(seconds: 120)
        #expect(origin.answeredPerSecond(20..<120) >= (rate < 5 ? 0.65 : 0.85) * rate)
    }

    // MARK: Slow start

    @Test(
        "after an outage of 60 s, requests begin slowly and reach the full rate within 20 s",
        arguments: [true, false])
    func outage(_ asks: Bool) {
        var origin = SimulatedOrigin(
            (0..<2).map { Stream(tenant: "t\($0)", path: "p", wanted: 128, count: 500, perSecond: 400) })
        origin.outage = 10..<70
        if asks { origin.refusal = .throttled(status: 503, retryAfter: 10) }
        origin.run(seconds: 110)
        #expect(origin.sum(\.failed, seconds: 30..<70) <= 200, "few requests during the outage")
        let back = (70..<110).first { origin.answeredPerSecond($0..<$0 + 1) > 0 } ?? 110
        #expect(back <= 82)
        #expect(origin.answeredPerSecond(back..<back + 4) <= 50, "no burst")
        #expect(origin.answeredPerSecond(back + 20..<110) >= 700)
    }

    // MARK: Failures that fewer requests do not lower

    @Test(
        "random failures lower the throughput by at most 20 %",
        arguments: [0.01, 0.05, 0.2, 0.4], [busy, .throttled(status: 503, retryAfter: 1), .lost])
    func random(_ share: Double, _ failure: HostSignal) {
        func run(_ hasControl: Bool) -> Double {
            var origin = SimulatedOrigin(
                (0..<2).map { Stream(tenant: "t\($0)", path: "p", wanted: 32) }, seed: 5)
            origin.failureShare = share
            origin.failure = failure
            origin.hasControl = hasControl
            origin.run(seconds: hasControl ? 50 : 15)
            return origin.answeredPerSecond(hasControl ? 35..<50 : 5..<15)
        }
        #expect(run(true) >= 0.8 * run(false))
    }

    @Test(
        "the capacity of a host is found in spite of random failures", arguments: [0.01, 0.05, 0.2, 0.4],
        [40, 130])
    func randomAndOverloaded(_ share: Double, _ capacity: Int) {
        var origin = SimulatedOrigin(
            (0..<2).map { Stream(tenant: "t\($0)", path: "p", wanted: 100) }, seed: 5)
        origin.failureShare = share
        origin.capacity = capacity
        origin.run(seconds: 90)
        let could = Double(capacity) / 0.1 * (1 - share)
        #expect(origin.answeredPerSecond(60..<90) >= 0.7 * could)
    }

    // MARK: Silence

    @Test("a host that hung gets its full rate back after it responds again")
    func hang() {
        var origin = SimulatedOrigin((0..<2).map { Stream(tenant: "t\($0)", path: "p", wanted: 16) })
        origin.hang = 10..<40
        origin.run(seconds: 120)
        #expect(origin.answeredPerSecond(110..<120) >= 0.8 * 280)
    }
}
