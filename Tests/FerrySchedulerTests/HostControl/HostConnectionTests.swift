import FerryCore
import FerryScheduler
import Testing

@Suite("Connections of host control")
struct HostConnectionTests {
    private let start = Timestamp(microseconds: 1_700_000_000_000_000)
    private let path = HostScope(tenant: "a", path: "x")

    private func job(_ number: UInt64) -> JobID { JobID(high: 1, low: number) }

    private var answered: ScopeReport {
        var report = ScopeReport()
        report.add(.answered, job: job(1), seconds: 0.1)
        return report
    }

    private func unreachable(_ count: Int, _ code: TransferError.Code = .couldNotConnect) -> ScopeReport {
        var report = ScopeReport()
        for index in 0..<count { report.add(.unreachable(code), job: job(UInt64(index))) }
        return report
    }

    @Test(
        "probes run one at a time with growing pauses; after a success jobs are released in growing numbers")
    func probes() {
        var host = HostControl()
        let decisions = host.take([path: unreachable(2)], inFlight: [path: 8], now: start)
        #expect(decisions.map(\.kind) == [.unreachable] && host.state(at: start) == .unreachable)
        var now = start
        var pauses: [Double] = []
        for _ in 0..<8 {
            let next = host.nextProbeAt ?? now
            #expect(!host.dueActions(at: next + -0.001).probes)
            pauses.append(next - now)
            now = next
            #expect(!host.dueActions(at: now, mayProbe: false).probes)
            #expect(host.dueActions(at: now).probes)
            #expect(!host.dueActions(at: now + 1).probes, "one probe at a time")
            #expect(host.probed(.couldNotConnect, at: now) == nil)
        }
        #expect(pauses == [1, 2, 4, 8, 16, 32, 60, 60])
        #expect(host.probed(nil, at: now)?.kind == .reachable && host.state(at: now) == .recovering)
        var released: [Int] = []
        for index in 0..<8 {
            let count = host.dueActions(at: now).releases
            released.append(count)
            host.released(count, of: count)
            #expect(host.dueActions(at: now).releases == 0)
            if index != 1, index != 4 {
                _ = host.take([path: answered], inFlight: [path: 1], now: now)
            }
            now = now + 0.5
        }
        #expect(released == [2, 4, 4, 8, 16, 16, 32, 64], "doubled only after a response")
        host.released(3, of: host.dueActions(at: now).releases)
        #expect(host.state(at: now) == .normal && host.dueAt(now) ?? now > now)
    }

    @Test("a probe without a result is repeated; a relapse keeps the pause between probes")
    func relapse() {
        var host = HostControl()
        _ = host.take([path: unreachable(2, .hostNotFound)], inFlight: [:], now: start)
        #expect(host.dueActions(at: start + 1).probes)
        #expect(host.dueActions(at: start + 1 + CircuitBreaker.probeLeaseSeconds).probes)
        _ = host.probed(.hostNotFound, at: start + 70)
        _ = host.probed(.hostNotFound, at: start + 80)
        _ = host.probed(nil, at: start + 90)
        #expect(host.dueActions(at: start + 90).releases == 2)
        _ = host.take([path: unreachable(2)], inFlight: [:], now: start + 94)
        #expect(host.state(at: start + 94) == .recovering, "a probe has just reached it")
        _ = host.take([path: unreachable(2)], inFlight: [:], now: start + 95)
        #expect(host.state(at: start + 95) == .unreachable && host.nextProbeAt == start + 99)
    }

    @Test("failed connections make a host unreachable only after 5 s without a response")
    func partlyReached() {
        var host = HostControl()
        #expect(host.take([path: unreachable(2)], inFlight: [path: 9], now: start).isEmpty)
        _ = host.take([path: answered], inFlight: [path: 9], now: start + 1)
        for seconds in [2.0, 3, 5.9] {
            #expect(
                host.take([path: unreachable(2)], inFlight: [path: 8], now: start + seconds)
                    .isEmpty)
        }
        let decisions = host.take([path: unreachable(2)], inFlight: [path: 8], now: start + 6)
        #expect(decisions.map(\.kind) == [.unreachable])
        var slow = HostControl()
        for seconds in [0.0, 1, 2, 3, 4, 4.9] {
            #expect(
                slow.take([path: unreachable(1)], inFlight: [path: 240], now: start + seconds)
                    .isEmpty)
        }
        #expect(!slow.take([path: unreachable(1)], inFlight: [path: 240], now: start + 5).isEmpty)
    }

    @Test("without waiting jobs, probes end 5 s after the last attempt")
    func unawaited() {
        var host = HostControl()
        _ = host.take([path: unreachable(1)], inFlight: [path: 1], now: start)
        for seconds in 1...4 {
            #expect(host.dueActions(at: start + Double(seconds)).probes)
            host.stopProbing(at: start + Double(seconds))
            #expect(host.state(at: start) == .unreachable)
        }
        #expect(host.dueActions(at: start + 5).probes)
        host.stopProbing(at: start + 5)
        #expect(host.state(at: start + 5) == .normal && !host.dueActions(at: start + 70).probes)
    }

    @Test("a response to one node proves to the others that the host can be reached")
    func witness() {
        var host = HostControl()
        let (here, there) = (NodeID(high: 1, low: 1), NodeID(high: 1, low: 2))
        _ = host.take([path: answered], by: there, inFlight: [:], now: start + 5)
        #expect(host.isReached(byOthersThan: here, after: start + 4))
        #expect(!host.isReached(byOthersThan: here, after: start + 5))
        #expect(!host.isReached(byOthersThan: there, after: start + 4))
        var report = unreachable(3)
        report.add(.unanswered, job: job(1))
        report.add(.lost, job: job(1))
        let other = report.withoutFailedConnections
        #expect(other.unreachable == 0 && other.silent == 0 && other.lost == 1)
    }
}
