import FerryCore
import TestSupport
import TestThreads
import Testing

@testable import FerryEngine

/// Limits that are set, changed and removed while transfers run.
@Suite("Changes of limits", .onOwnThread) struct LimitChangeTests {
    @Test("a transfer without limits is not paced, whatever limits others have")
    func unconcerned() throws {
        let fixture = try Fixture()
        defer { fixture.stop() }
        let attempt = fixture.attempt(.download, "http://a.example/")
        let (own, other) = (try WebURL.parse("http://a.example/"), try WebURL.parse("http://b.example/"))
        let rates = SharedRateLimits()
        #expect(rates.set([SessionKey(tenant: "tenant", name: "slow"): 1_000]))
        #expect(rates.set(hosts: [other.origin: 1_000]))
        #expect(rates.pacing(of: attempt, at: own, job: nil) == nil)
        #expect(rates.pacing(of: attempt, at: other, job: nil) != nil)
        let job = TokenBucket(bytesPerSecond: 1_000, now: 0)
        #expect(rates.pacing(of: attempt, at: own, job: job) != nil)
        _ = rates.set(TransferLimits(bytesSentPerSecondMax: 1_000), RateShares())
        #expect(rates.pacing(of: attempt, at: own, job: nil) != nil)
    }

    @Test("a job counts once under a limit, also if its own limit changed while it waited")
    func demand() throws {
        let nginx = try Nginx()
        let fixture = try Fixture()
        defer {
            fixture.stop()
            nginx.stop()
        }
        try nginx.serve("file", patternBytes(1_000_000))
        // Its second step waits for a quarter of an hour.
        fixture.engine.setLimits(TransferLimits(bytesReceivedPerSecondMax: 1), shares: RateShares())
        let attempt = fixture.attempt(.download, nginx.url + "/file")
        fixture.engine.begin([attempt])
        #expect(eventually { (fixture.engine.progress(of: attempt.job)?.bytesReceived ?? 0) > 0 })
        fixture.engine.adopt(attempt.edit { spec, _ in spec.bytesPerSecondMax = 1_000_000 }, of: attempt.job)
        let isChanged = Signal<Bool>()
        fixture.engine.snapshot(of: attempt.job) { isChanged.fire($0 != nil) }
        #expect(isChanged.wait() == [true])
        _ = fixture.engine.takeRateDemand()
        #expect(eventually { fixture.engine.takeRateDemand()[.received] == 1 })
    }

    @Test("a stalled transfer times out, however often limits change", arguments: [1, 2])
    func silence(segments: Int) throws {
        let gate = Gate()
        let origin = try ScriptedOrigin { connection in
            _ = connection.readRequest()
            _ = gate.pass(seconds: 600)
        }
        let fixture = try Fixture()
        defer {
            gate.open()
            fixture.stop()
            origin.stop()
        }
        fixture.engine.begin([
            fixture.attempt(.download, origin.url) {
                $0.spec.segmentCountMax = segments
                $0.spec.request.timeoutForRequest = 1
            }
        ])
        var rate: Int64 = 1_000_000
        var results: [AttemptResult] = []
        _ = eventually {
            rate += 1
            fixture.engine.setLimits(TransferLimits(bytesReceivedPerSecondMax: rate), shares: RateShares())
            results = fixture.sink.arrived.wait(seconds: 0.05)
            return !results.isEmpty
        }
        #expect(results.first?.failure?.code == .timedOut)
    }
}
