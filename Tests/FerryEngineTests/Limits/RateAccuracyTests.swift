import FerryCore
import FerryEngine
import Glibc
import Sys
import TestSupport
import TestThreads
import Testing

/// Limits with real sockets, several at once, by the bytes that have come and the clock at which they had.
///
/// The machine may stand still for seconds, and what a limit does not let through then is lost: so it is
/// watched for minutes if need be, until ten seconds in a row have carried enough. What they may carry at
/// most holds for all of them.
@Suite(.serialized, .onOwnThread) struct RateAccuracyTests {
    /// Nanoseconds over which a limit is kept.
    private static let window: Int64 = 10_000_000_000

    /// Bytes that have moved under one limit.
    private struct Course {
        let name: String
        let rate: Double
        let byteCount: () -> Int64
        var samples: [(at: Int64, byteCount: Int64)] = []
        /// Of the fullest window, as a part of the limit.
        private(set) var most = 0.0
        private var first = 0

        init(_ name: String, _ rate: Int64, _ byteCount: @escaping () -> Int64) {
            self.name = name
            self.rate = Double(rate)
            self.byteCount = byteCount
        }

        mutating func sample() {
            let before = monotonicNanoseconds()
            let count = byteCount()
            let now = monotonicNanoseconds()
            // Nobody knows when that was true.
            guard now - before < 10_000_000 else { return }
            samples.append((now, count))
            while first + 1 < samples.count, now - samples[first + 1].at >= RateAccuracyTests.window {
                first += 1
            }
            guard now - samples[first].at >= RateAccuracyTests.window else { return }
            let part =
                Double(count - samples[first].byteCount) / Double(now - samples[first].at) * 1e9 / rate
            most = max(most, part)
        }
    }

    /// More than any test fetches, and nearly nothing on the disk.
    private static func makeLargeFile(_ path: String) throws {
        try writeFile(path, [])
        #expect(truncate(path, 2_000_000_000) == 0)
    }

    @Test("the limits of job, session, host and service are kept to five percent over ten seconds")
    func accuracy() throws {
        let (plain, limited) = (try Nginx(), try Nginx())
        let fixture = try Fixture()
        defer {
            fixture.stop()
            plain.stop()
            limited.stop()
        }
        for nginx in [plain, limited] { try Self.makeLargeFile(nginx.root + "/file") }
        try Self.makeLargeFile(fixture.root + "/source")
        let engine = fixture.engine
        engine.setLimits(
            TransferLimits(bytesReceivedPerSecondMax: 6_000_000, bytesSentPerSecondMax: 1_500_000),
            shares: RateShares())
        engine.setSessionRates([SessionKey(tenant: "tenant", name: "slow"): 1_000_000])
        engine.setHostRates([limited.url: 800_000])
        let download = { (url: String, change: (inout Draft) -> Void) in
            fixture.attempt(.download, url + "/file", change)
        }
        let job = download(plain.url) { $0.spec.bytesPerSecondMax = 500_000 }
        let session = (0..<3).map { _ in download(plain.url) { $0.spec.session = "slow" } }
        let host = (0..<2).map { _ in download(limited.url) { _ in } }
        let others = [download(plain.url) { _ in }, download(plain.url) { $0.spec.segmentCountMax = 4 }]
        let upload = fixture.attempt(.upload, plain.url + "/put/x") { $0.spec.source = .path("source") }
        let received = { (attempts: [Attempt]) in
            { attempts.reduce(0) { $0 + (engine.progress(of: $1.job)?.bytesReceived ?? 0) } }
        }
        engine.begin([job, upload] + session + host + others)
        var courses = [
            Course("job", 500_000, received([job])), Course("session", 1_000_000, received(session)),
            Course("host", 800_000, received(host)),
            Course("service", 6_000_000, received([job] + session + host + others)),
            Course("sent", 1_500_000) { engine.progress(of: upload.job)?.bytesSent ?? 0 },
        ]
        #expect(eventually { courses.allSatisfy { $0.byteCount() > 0 } })
        _ = eventually(seconds: 300) {
            for index in courses.indices { courses[index].sample() }
            return courses.allSatisfy { $0.most > 0.95 }
        }
        for course in courses {
            #expect(abs(course.most - 1) < 0.05, "\(course.name): \(course.most) of its limit")
        }
        #expect(fixture.sink.arrived.wait(for: 1, seconds: 0).isEmpty, "nothing has ended meanwhile")
    }

    @Test("a download in eight parts gets the same share of a limit as one in a single stream")
    func parts() throws {
        let nginx = try Nginx()
        let fixture = try Fixture()
        defer {
            fixture.stop()
            nginx.stop()
        }
        try Self.makeLargeFile(nginx.root + "/file")
        fixture.engine.setLimits(TransferLimits(bytesReceivedPerSecondMax: 4_000_000), shares: RateShares())
        let attempts = [8, 1].map { count in
            fixture.attempt(.download, nginx.url + "/file") { $0.spec.segmentCountMax = count }
        }
        fixture.engine.begin(attempts)
        let received = { attempts.map { fixture.engine.progress(of: $0.job)?.bytesReceived ?? 0 } }
        let connections = {
            let answer = Signal<Int>()
            fixture.engine.snapshot(of: attempts[0].job) { answer.fire($0?.transactions.count ?? 0) }
            return answer.wait().first ?? 0
        }
        #expect(eventually { connections() == 8 && received().allSatisfy { $0 > 0 } })
        // While a thread stands still the other's job may have more.
        var ratio = 0.0
        let isFair = eventually(seconds: 300) {
            let before = received()
            _ = eventually { zip(received(), before).map { $0 - $1 }.reduce(0, +) > 6_000_000 }
            let moved = zip(received(), before).map { Double($0 - $1) }
            ratio = moved[0] / moved[1]
            return (0.8...1.25).contains(ratio)
        }
        #expect(isFair, "\(ratio) times as much")
        #expect(connections() == 8)
    }
}
