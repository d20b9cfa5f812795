import FerryCore
import FerryScheduler
import Testing

@Suite("Host control")
struct HostControlTests {
    private let start = Timestamp(microseconds: 1_700_000_000_000_000)
    private let path = HostScope(tenant: "a", path: "x")
    private let busy = HostSignal.throttled(status: 503, retryAfter: nil)

    private func job(_ number: UInt64) -> JobID { JobID(high: 1, low: number) }

    /// Returns a report in which each signal is of another job.
    private func report(_ signals: HostSignal...) -> ScopeReport {
        var report = ScopeReport()
        for (index, signal) in signals.enumerated() {
            report.add(signal, job: job(UInt64(index)), seconds: 0.1, bytes: 10)
        }
        return report
    }

    private func report(answered: Int = 0, failed: Int = 0, seconds: Double = 0.1) -> ScopeReport {
        var report = ScopeReport()
        for index in 0..<answered { report.add(.answered, job: job(UInt64(index)), seconds: seconds) }
        for index in 0..<failed { report.add(busy, job: job(UInt64(index)), seconds: 0.01) }
        return report
    }

    // MARK: Holds

    private func told(_ seconds: Double) -> HostSignal { .throttled(status: 429, retryAfter: seconds) }

    @Test("Retry-After of two jobs holds their path for the shorter time; that of one job holds nothing")
    func hold() {
        var host = HostControl()
        var one = ScopeReport()
        for _ in 0..<5 { one.add(told(60), job: job(1)) }
        #expect(host.take([path: one], inFlight: [path: 3], now: start).isEmpty)
        let decisions = host.take(
            [path: report(told(20), told(30))], inFlight: [path: 3], now: start + 1)
        #expect(decisions.map(\.kind) == [.backedOff] && decisions.first?.scope == path)
        #expect(host.limits(at: start + 2)[path]?.blockedUntil == start + 21)
        #expect(host.state(of: path, at: start + 2) == .backingOff && host.state(at: start + 2) == .normal)
        // A response to a request from before the hold does not extend it.
        #expect(
            host.take([path: report(told(90), told(90))], inFlight: [path: 1], now: start + 5)
                .isEmpty)
        _ = host.dueActions(at: start + 21)
        #expect(host.limits(at: start + 21)[path]?.blockedUntil == nil)
        #expect(host.limits(at: start + 21)[path]?.connectionLimit == 1, "slow start")
        #expect(host.limits(at: start + 2)[.origin] == nil)
    }

    @Test("a successful response between two Retry-After prevents a hold")
    func answerBetween() {
        var host = HostControl()
        _ = host.take([path: report(told(20))], inFlight: [path: 3], now: start)
        _ = host.take([path: report(.answered)], inFlight: [path: 3], now: start + 1)
        var other = ScopeReport()
        other.add(told(20), job: job(9))
        #expect(host.take([path: other], inFlight: [path: 3], now: start + 3).isEmpty)
        #expect(host.limits(at: start + 3).isEmpty)
    }

    @Test("a hold lasts at most an hour")
    func longest() {
        var host = HostControl()
        _ = host.take([path: report(told(1e9), told(1e9))], inFlight: [:], now: start)
        #expect(host.limits(at: start)[path]?.blockedUntil == start + HostControl.holdSecondsMax)
    }

    @Test("a wider scope is held if at least two scopes in it are in use and all of them are held")
    func wideHold() {
        var host = HostControl()
        let (second, other) = (HostScope(tenant: "a", path: "y"), HostScope(tenant: "b", path: "x"))
        _ = host.take(
            [path: report(told(20), told(20))], inFlight: [path: 1, other: 1], now: start)
        #expect(host.limits(at: start).keys.sorted { $0.path < $1.path } == [path])
        let decisions = host.take(
            [second: report(told(10), told(10))], inFlight: [path: 1, second: 1, other: 1], now: start + 1)
        #expect(decisions.map(\.scope) == [second, HostScope(tenant: "a")])
        #expect(
            host.limits(at: start + 1)[HostScope(tenant: "a")]?.blockedUntil == start + 11, "the shorter one")
        #expect(host.limits(at: start + 1)[.origin] == nil, "another tenant uses the origin")
        _ = host.take([other: report(told(5), told(5))], inFlight: [other: 1], now: start + 2)
        #expect(host.limits(at: start + 2)[.origin]?.blockedUntil == start + 7)
    }

    // MARK: Failures

    @Test("the first failures limit window and rate to what the host has answered")
    func shown() {
        var host = HostControl()
        _ = host.take([path: report(answered: 0, failed: 1)], inFlight: [path: 10], now: start)
        let decisions = host.take(
            [path: report(answered: 40, failed: 30)], inFlight: [path: 10], now: start + 1)
        #expect(decisions.map(\.kind) == [.limited])
        let limit = host.limits(at: start + 1)[path]
        #expect(limit?.requestRate == 40)
        #expect((5...10).contains(limit?.connectionLimit ?? 0), "40 per second of 0.1 s, with their overhead")
        #expect(host.reason(of: path, at: start + 1)?.contains("/x") ?? false)
    }

    @Test("failures of a single job set no limit")
    func oneJob() {
        var host = HostControl()
        var one = ScopeReport()
        for _ in 0..<20 { one.add(busy, job: job(1)) }
        for second in 0..<5 {
            #expect(
                host.take([path: one], inFlight: [path: 1], now: start + Double(second)).isEmpty)
        }
    }

    @Test(
        "a host without answers gets one request per second, later one in 10 s, then slow start"
    )
    func unanswered() {
        var host = HostControl()
        var now = start
        for _ in 0..<2 {
            _ = host.take([path: report(failed: 50)], inFlight: [path: 50], now: now)
            now = now + 1
        }
        #expect(host.limits(at: now)[path] == HostLimit(connectionLimit: 1, requestRate: 1))
        for _ in 0..<120 {
            _ = host.take([path: report(failed: 1)], inFlight: [path: 0], now: now)
            now = now + 1
        }
        #expect(host.limits(at: now)[path]?.requestRate == TokenBucket.rateMin)
        var rates: [Double?] = []
        for _ in 0..<12 {
            _ = host.take([path: report(answered: 5)], inFlight: [path: 1], now: now)
            rates.append(host.limits(at: now)[path]?.requestRate)
            now = now + 1
        }
        #expect(rates[..<5] == [8, 16, 32, 64, 128], "from 4 per second, doubled each time")
        #expect(host.limits(at: now).isEmpty, "slow start ends without a limit, as before")
    }

    @Test("a path is limited after failures of two jobs, a tenant of two paths, an origin of two tenants")
    func widening() {
        func acting(_ reports: [HostScope: ScopeReport]) -> Set<HostScope> {
            var host = HostControl()
            let inFlight = reports.mapValues { _ in 5 }
            _ = host.take(reports, inFlight: inFlight, now: start)
            let decisions = host.take(reports, inFlight: inFlight, now: start + 1)
            return Set(decisions.map(\.scope))
        }
        let (ax, ay) = (path, HostScope(tenant: "a", path: "y"))
        let (bx, cx) = (HostScope(tenant: "b", path: "x"), HostScope(tenant: "c", path: "x"))
        let (bad, good) = (report(answered: 1, failed: 20), report(answered: 20))
        #expect(acting([ax: bad]) == [ax])
        #expect(acting([ax: bad, ay: good]) == [ax])
        #expect(acting([ax: bad, ay: bad]) == [HostScope(tenant: "a")])
        #expect(acting([ax: bad, bx: bad]) == [.origin])
        #expect(acting([ax: bad, bx: bad, cx: good]) == [ax, bx])
        #expect(acting([ax: bad, ay: bad, cx: good]) == [HostScope(tenant: "a")])
        var each: [HostScope: ScopeReport] = [:]
        for index in 0..<30 { each[HostScope(tenant: "a", path: "p\(index)")] = report(failed: 1) }
        for (index, scope) in each.keys.enumerated() {
            each[scope] = ScopeReport()
            each[scope]?.add(busy, job: job(UInt64(index)))
        }
        #expect(acting(each) == [HostScope(tenant: "a")], "one request each")
    }

    // MARK: Silence

    private func silent(_ count: Int) -> ScopeReport {
        var report = ScopeReport()
        for index in 0..<count { report.add(.unanswered, job: job(UInt64(index))) }
        return report
    }

    @Test("with one request per path, a single answered request does not keep the tenant from being limited")
    func onePathEach() {
        var host = HostControl()
        var number: UInt64 = 0
        var decisions: [HostDecision] = []
        for second in 0..<2 {
            var reports: [HostScope: ScopeReport] = [:]
            for index in 0..<30 {
                number += 1
                var report = ScopeReport()
                report.add(index < 3 ? .answered : busy, job: job(number), seconds: 0.01)
                reports[HostScope(tenant: "a", path: "p\(number)")] = report
            }
            decisions += host.take(reports, inFlight: [:], now: start + Double(second))
        }
        #expect(decisions.map(\.kind) == [.limited] && decisions.first?.scope == HostScope(tenant: "a"))
    }

    @Test(
        "a silent scope is limited to one more than in flight, then one more each 15 s until a response"
    )
    func silence() {
        var host = HostControl()
        #expect(host.take([path: silent(2)], inFlight: [path: 10], now: start).isEmpty)
        let limited = host.take([path: silent(3)], inFlight: [path: 10], now: start + 1)
        #expect(limited.map(\.kind) == [.limited] && limited.first?.limitAfter == 11)
        #expect(limited.first?.scope == path && host.state(of: path, at: start + 1) == .limited)
        #expect(host.reason(of: path, at: start + 1)?.contains("answers none") ?? false)
        _ = host.take([path: silent(3)], inFlight: [path: 11], now: start + 10)
        #expect(host.limits(at: start)[path]?.connectionLimit == 11)
        #expect(host.dueAt(start + 10).map { $0 <= start + 16 } ?? false)
        _ = host.take([:], inFlight: [path: 9], now: start + 20)
        #expect(
            host.limits(at: start)[path]?.connectionLimit == 11, "an ended attempt makes room below the limit"
        )
        _ = host.take([:], inFlight: [path: 11], now: start + 21)
        #expect(host.limits(at: start)[path]?.connectionLimit == 12)
        let answered = host.take([path: report(.answered)], inFlight: [path: 12], now: start + 30)
        #expect(answered.map(\.kind) == [.released] && host.limits(at: start + 30).isEmpty)
        #expect(host.take([path: silent(3)], inFlight: [path: 12], now: start + 33).isEmpty)
        #expect(
            host.take([path: silent(3)], inFlight: [path: 2], now: start + 40).first?.limitAfter
                == 4)
        #expect(host.take([:], inFlight: [:], now: start + 41).map(\.kind) == [.released])
    }

    @Test("silence limits a tenant or an origin only if no scope in use in it is answered")
    func unansweredSpreads() {
        let (second, other) = (HostScope(tenant: "a", path: "y"), HostScope(tenant: "b", path: "x"))
        var host = HostControl()
        let inFlight = [path: 5, second: 5, other: 5]
        _ = host.take([other: report(.answered)], inFlight: inFlight, now: start)
        var decisions = host.take(
            [path: silent(3), second: silent(3)], inFlight: inFlight, now: start + 2)
        #expect(decisions.map(\.scope) == [HostScope(tenant: "a")])
        decisions = host.take([other: silent(3)], inFlight: inFlight, now: start + 20)
        #expect(decisions.map(\.scope) == [.origin] && decisions.first?.limitAfter == 16)
    }

    @Test("a host with long transfers counts as silent only after twice their mean duration")
    func usualUnanswered() {
        var host = HostControl()
        _ = host.take([path: report(answered: 2, seconds: 20)], inFlight: [path: 9], now: start)
        #expect(host.take([path: silent(3)], inFlight: [path: 9], now: start + 39).isEmpty)
        #expect(!host.take([path: silent(3)], inFlight: [path: 9], now: start + 41).isEmpty)
    }

    // MARK: Settings and storage

    @Test("an operator's settings apply, are stored and can be removed")
    func operators() throws {
        var host = HostControl()
        var settings = HostSettings()
        settings.connectionsMax = 7
        settings.requestsPerSecondMax = 2.5
        settings.isPaused = true
        settings.bytesPerSecondMax = 1_000_000
        #expect(host.configure(settings, backoffUntil: nil, now: start)?.kind == .configured)
        #expect(
            host.limits(at: start)[.origin]
                == HostLimit(
                    connectionLimit: 7, blockedUntil: .distantFuture, isPaused: true, requestRate: 2.5))
        #expect(
            host.state(at: start) == .paused && host.configure(settings, backoffUntil: nil, now: start) == nil
        )
        #expect(!host.isForgettable(at: start + 1_000_000))
        #expect(try #require(HostControl(json: host.json)) == host)
        _ = host.configure(HostSettings(), backoffUntil: .some(start + 50), now: start)
        #expect(host.state(at: start) == .backingOff && host.reason(at: start)?.contains("operator") ?? false)
        _ = host.configure(HostSettings(), backoffUntil: .some(nil), now: start)
        #expect(host.limits(at: start).isEmpty && host.state(at: start) == .normal)
    }

    @Test("the state of a host can be deleted 60 s after the last report, or after 600 s without failures")
    func forgotten() {
        var host = HostControl()
        _ = host.take([path: report(.lost)], inFlight: [path: 1], now: start)
        #expect(!host.isForgettable(at: start + 59) && host.isForgettable(at: start + 60))
        for second in 1..<600 {
            _ = host.take(
                [path: report(.answered)], inFlight: [path: 5], now: start + Double(second))
            #expect(!host.isForgettable(at: start + Double(second)))
        }
        #expect(
            host.dueAt(start + 599).map { $0 <= start + 600 } ?? false && host.isForgettable(at: start + 600))
    }

    @Test("a limit that was not used for 10 minutes is removed")
    func unneeded() {
        var host = HostControl()
        for second in 0..<3 {
            _ = host.take(
                [path: report(answered: 40, failed: 30)], inFlight: [path: 10], now: start + Double(second))
        }
        #expect(host.limits(at: start)[path] != nil)
        for second in 3..<620 {
            _ = host.take(
                [path: report(answered: 1)], inFlight: [path: 1], now: start + Double(second))
        }
        #expect(host.limits(at: start).isEmpty)
    }

    @Test("paths beyond 64 per tenant and scopes beyond 512 are merged into the next wider scope")
    func folding() {
        var host = HostControl()
        for round in 0..<3 {
            var reports: [HostScope: ScopeReport] = [:]
            for tenant in 0..<20 {
                for path in 0..<100 {
                    let scope = HostScope(tenant: "t\(tenant)", path: "p\(path)")
                    reports[scope, default: ScopeReport()].add(busy, job: job(UInt64(tenant * 100 + path)))
                    reports[scope, default: ScopeReport()].add(.answered, job: job(0))
                }
            }
            _ = host.take(
                reports, inFlight: reports.mapValues { _ in 1 }, now: start + Double(round))
        }
        #expect(host.json.count < 512 * 400 && HostControl(json: host.json) == host)
        #expect(host.limits(at: start + 2).count <= HostControl.scopeCountMax)
        let origin = host.limits(at: start + 2)[.origin]
        #expect((origin?.requestRate ?? 0) >= 1_000, "every answered request is counted")
    }

    @Test("after random reports, limits stay in their ranges and the JSON restores the state")
    func codec() throws {
        var random = Seeded(7)
        let signals: [HostSignal] = [
            .answered, .answered, .answered, .lost, .none, .unanswered, busy,
            .throttled(status: 429, retryAfter: 2),
            .throttled(status: 503, retryAfter: 1e12), .unreachable(.couldNotConnect),
        ]
        for _ in 0..<25 {
            var host = HostControl()
            var now = start
            for _ in 0..<60 {
                now = now + Double(random.next() % 3_000) / 1_000
                var reports: [HostScope: ScopeReport] = [:]
                var inFlight: [HostScope: Int] = [:]
                for _ in 0..<(random.next() % 4) {
                    let scope = HostScope(tenant: "t\(random.next() % 3)", path: "p\(random.next() % 3)")
                    for _ in 0..<(random.next() % 12) {
                        reports[scope, default: ScopeReport()].add(
                            signals[Int(random.next() % 10)], job: job(random.next() % 3),
                            seconds: Double(random.next() % 100) / 8, bytes: Int64(random.next() % 1_000))
                    }
                    inFlight[scope] = Int(random.next() % 64)
                }
                _ = host.take(reports, inFlight: inFlight, now: now)
                let dueActions = host.dueActions(at: now)
                if dueActions.probes { _ = host.probed(random.next() % 2 == 0 ? nil : .timedOut, at: now) }
                if dueActions.releases > 0 { host.released(Int(random.next() % 5), of: dueActions.releases) }
                for (scope, limit) in host.limits(at: now) {
                    #expect(limit.connectionLimit ?? 1 >= 1 && limit.requestRate ?? 1 >= TokenBucket.rateMin)
                    #expect(limit.blockedUntil ?? now <= now + HostControl.holdSecondsMax)
                    #expect(host.reason(of: scope, at: now)?.hasSuffix(".") ?? false)
                }
                let kept = try #require(HostControl(json: host.json))
                #expect(kept == host)
            }
        }
        #expect(HostControl(json: Array("[1]".utf8)) == nil && HostControl(json: []) == nil)
    }
}
