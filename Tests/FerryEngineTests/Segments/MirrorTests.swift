import FerryCore
import FerryEngine
import Glibc
import Sys
import TestSupport
import TestThreads
import Testing

private let bytes = patternBytes(6 << 20, seed: 3)

@Suite(.serialized, .onOwnThread) struct MirrorTests {
    private static func fetch(
        _ url: String, mirrors: [String], segments: Int = 1, _ change: (inout Draft) -> Void = { _ in },
        check: (AttemptResult, Fixture) throws -> Void
    ) throws {
        let fixture = try Fixture()
        defer { fixture.stop() }
        let result = try #require(
            fixture.run(.download, url) {
                $0.to("file")
                $0.spec.mirrors = mirrors
                $0.spec.segmentCountMax = segments
                change(&$0)
            })
        // Bytes for a later attempt are removed with the job.
        if result.success == nil { fixture.engine.removePartialFiles(of: [result.attempt.job]) }
        try check(result, fixture)
        #expect(eventually { fixture.files().allSatisfy { !$0.contains(".part") } })
    }

    private static func expectWhole(_ result: AttemptResult, _ fixture: Fixture) {
        #expect(result.success?.sha256 == sha256(bytes))
        let isSame = readFile(fixture.root + "/file") == bytes
        #expect(isSame)
    }

    /// Fault of a first source.
    enum Fault: CaseIterable {
        case closed, notFound, unavailable, gone, cut, wrongSize
    }

    @Test("if one source fails, the next is tried within the same attempt", arguments: Fault.allCases)
    func next(fault: Fault) throws {
        let first = try RangeOrigin(bytes) { answer, _, _ in
            switch fault {
            case .closed: break
            case .notFound: (answer.status, answer.body) = (404, [])
            case .unavailable: (answer.status, answer.body) = (503, [])
            case .gone: answer.cutAfter = 0
            case .cut:
                answer.cutAfter = 500_000
                answer.headers["ETag"] = nil
            case .wrongSize: answer.body = bytes.prefix(1_000_000)
            }
        }
        if fault == .closed { first.stop() }
        let second = try RangeOrigin(bytes)
        defer { second.stop() }
        try Self.fetch(
            first.url, mirrors: [second.url], { $0.spec.integrity.size = Int64(bytes.count) }
        ) { result, fixture in
            Self.expectWhole(result, fixture)
            #expect(result.response?.url == second.url)
        }
        if fault != .closed { first.stop() }
    }

    @Test("bytes of a mirror that does not announce ranges are continued with a range")
    func unannounced() throws {
        let first = try RangeOrigin(bytes) { answer, _, _ in (answer.status, answer.body) = (404, []) }
        let second = try RangeOrigin(bytes) { answer, _, number in
            answer.headers["Accept-Ranges"] = nil
            if number == 0 { answer.cutAfter = 2_000_000 }
        }
        defer {
            first.stop()
            second.stop()
        }
        try Self.fetch(first.url, mirrors: [second.url]) { result, fixture in
            Self.expectWhole(result, fixture)
            #expect(second.requests.map { $0.range?.lowerBound ?? 0 > 0 } == [false, true])
        }
    }

    @Test("a mirror's redirect that asks for a long wait is followed by the next attempt")
    func delayedRedirect() throws {
        let first = try RangeOrigin(bytes) { answer, _, _ in (answer.status, answer.body) = (404, []) }
        let last = try RangeOrigin(bytes)
        let mirror = try RangeOrigin(bytes) { [url = last.url] answer, _, _ in
            (answer.status, answer.body) = (302, [])
            (answer.headers["Location"], answer.headers["Retry-After"]) = (url, "600")
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            for origin in [first, mirror, last] { origin.stop() }
        }
        let change = { (draft: inout Draft) in
            draft.to("file")
            draft.spec.mirrors = [mirror.url]
        }
        let waiting = try #require(fixture.run(.download, first.url, change))
        guard case .failed(_, 600) = waiting.outcome, let redirect = waiting.delayedRedirect else {
            Issue.record("\(waiting.outcome)")
            return
        }
        #expect(redirect.place == 1)
        fixture.engine.begin([
            fixture.attempt(
                .download, first.url, job: waiting.attempt.job, number: 2, after: redirect, change)
        ])
        Self.expectWhole(try #require(fixture.sink.arrived.wait().first), fixture)
        #expect(mirror.requests.count == 1)
    }

    @Test("bytes of a mirror are kept if the next one has the same file")
    func continued() throws {
        let first = try RangeOrigin(bytes) { answer, _, _ in answer.cutAfter = 2_000_000 }
        let second = try RangeOrigin(bytes)
        defer {
            first.stop()
            second.stop()
        }
        try Self.fetch(first.url, mirrors: [second.url]) { result, fixture in
            Self.expectWhole(result, fixture)
            #expect(result.response?.url == first.url)
            #expect(result.bytesReceived == Int64(bytes.count))
            // It went on by itself while that helped, then from the other one.
            #expect(first.requests.count + second.requests.count <= 8)
            #expect(first.requests.dropFirst().allSatisfy { $0.range != nil && $0.ifRange == "\"one\"" })
        }
    }

    @Test("if all sources fail, the retryable error is reported with its Retry-After, after one request each")
    func all() throws {
        let first = try RangeOrigin(bytes) { answer, _, _ in (answer.status, answer.body) = (404, []) }
        let second = try RangeOrigin(bytes) { answer, _, _ in
            (answer.status, answer.body) = (503, [])
            answer.headers["Retry-After"] = "17"
        }
        defer {
            first.stop()
            second.stop()
        }
        try Self.fetch(first.url, mirrors: [second.url]) { result, fixture in
            #expect(result.failure?.code == .unacceptableStatus)
            #expect(result.failure?.isRetryable == true)
            #expect(result.retryAfter == 17)
            #expect(first.requests.count == 1 && second.requests.count == 1)
            #expect(eventually { fixture.files().isEmpty })
        }
        let gone = try RangeOrigin(bytes) { answer, _, _ in (answer.status, answer.body) = (410, []) }
        defer { gone.stop() }
        try Self.fetch(first.url, mirrors: [gone.url]) { result, _ in
            #expect(result.failure?.isRetryable == false)
        }
    }

    @Test("a mirror with the wrong digest is dropped, and the file fetched again from another")
    func wrongDigest() throws {
        let bad = try RangeOrigin(patternBytes(bytes.count, seed: 4))
        let good = try RangeOrigin(bytes)
        defer {
            bad.stop()
            good.stop()
        }
        for segments in [1, 4] {
            try Self.fetch(
                bad.url, mirrors: [good.url], segments: segments, { $0.spec.integrity.sha256 = sha256(bytes) }
            ) { result, fixture in
                Self.expectWhole(result, fixture)
                #expect(result.success?.verified == .digest)
                #expect(result.response?.url == good.url)
            }
        }
        try Self.fetch(
            bad.url, mirrors: [bad.url + "?2"], { $0.spec.integrity.sha256 = sha256(bytes) }
        ) { result, fixture in
            #expect(result.failure?.code == .digestMismatch)
            #expect(eventually { fixture.files().isEmpty })
        }
    }

    @Test("credentials go to the request's own origin only")
    func credentials() throws {
        let own = try RangeOrigin(bytes) { answer, _, number in
            if number == 0 { (answer.status, answer.body) = (404, []) }
        }
        let other = try RangeOrigin(bytes) { answer, _, _ in (answer.status, answer.body) = (404, []) }
        defer {
            own.stop()
            other.stop()
        }
        try Self.fetch(
            own.url, mirrors: [other.url, own.url + "?again"],
            {
                $0.spec.request.headers = [.init("Authorization", "")]
                $0.secrets.headers = [.init("Authorization", "Bearer sesame")]
            }
        ) { result, fixture in
            Self.expectWhole(result, fixture)
            #expect(own.requests.allSatisfy { $0.authorization == "Bearer sesame" })
            #expect(own.requests.count == 2)
            #expect(other.requests.map(\.authorization) == [nil])
        }
    }

    @Test("mirrors that the egress policy forbids are not connected")
    func blocked() throws {
        let origin = try RangeOrigin(bytes) { answer, _, _ in (answer.status, answer.body) = (503, []) }
        defer { origin.stop() }
        try Self.fetch(origin.url, mirrors: ["http://169.254.169.254/file"]) { result, _ in
            #expect(result.failure?.code == .unacceptableStatus)
        }
        try Self.fetch("http://10.0.0.1/x", mirrors: ["http://169.254.169.254/file"]) { result, _ in
            #expect(result.failure?.code == .blockedAddress)
        }
    }

    @Test("parts come from several mirrors if size and tag agree, or a digest proves the file")
    func mixed() throws {
        for (tag, hasDigest, mixes) in [
            ("\"one\"", false, true), ("\"two\"", false, false), ("\"two\"", true, true),
        ] {
            // The second is done with its first part long before the first is, which takes 20 s.
            let first = try RangeOrigin(bytes) { answer, _, _ in answer.pause = mixes ? 100_000 : 0 }
            let second = try RangeOrigin(bytes, tag: tag)
            defer {
                first.stop()
                second.stop()
            }
            try Self.fetch(
                first.url, mirrors: [second.url], segments: 2,
                { if hasDigest { $0.spec.integrity.sha256 = sha256(bytes) } }
            ) { result, fixture in
                Self.expectWhole(result, fixture)
                #expect(result.response?.url == first.url)
                #expect(second.requests.allSatisfy { $0.range != nil })
                #expect(second.requests.dropFirst().allSatisfy { $0.ifRange == tag })
                #expect(
                    mixes ? second.requests.count >= 2 : second.requests.count == 1, "\(tag) \(hasDigest)")
            }
        }
    }

    @Test("a mirror with another size is not used, whatever the digest")
    func otherSize() throws {
        let first = try RangeOrigin(bytes) { answer, _, _ in answer.pause = 500 }
        let second = try RangeOrigin(bytes + [1])
        defer {
            first.stop()
            second.stop()
        }
        try Self.fetch(
            first.url, mirrors: [second.url], segments: 4, { $0.spec.integrity.sha256 = sha256(bytes) }
        ) { result, fixture in
            Self.expectWhole(result, fixture)
            #expect(second.requests.count == 1)
        }
    }

    @Test("a fast mirror takes over what a slow one has not delivered")
    func slow() throws {
        let fast = try RangeOrigin(bytes)
        // 6 MiB would take it more than half a minute.
        let slow = try RangeOrigin(bytes) { answer, _, _ in answer.pause = 100_000 }
        defer {
            slow.stop()
            fast.stop()
        }
        try Self.fetch(slow.url, mirrors: [fast.url], segments: 4) { result, fixture in
            Self.expectWhole(result, fixture)
            #expect(fast.sentByteCount > slow.sentByteCount)
            #expect(slow.requests.count + fast.requests.count <= 60)
        }
    }

    @Test("the better mirror is asked first the next time")
    func remembered() throws {
        let broken = try RangeOrigin(bytes) { answer, _, _ in (answer.status, answer.body) = (500, []) }
        let good = try RangeOrigin(bytes)
        defer {
            broken.stop()
            good.stop()
        }
        let fixture = try Fixture()
        defer { fixture.stop() }
        for _ in 0..<3 {
            let result = fixture.run(.download, broken.url) {
                $0.to("file")
                $0.spec.mirrors = [good.url]
            }
            #expect(result?.success != nil)
        }
        #expect(broken.requests.count == 1 && good.requests.count == 3)
    }
}

@Suite struct MirrorStatisticsTests {
    private static let second: Int64 = 1_000_000_000

    private static func places(_ statistics: MirrorStatistics, _ origins: [String], _ now: Int64) -> [Int] {
        statistics.order(origins, now: now).map(\.place)
    }

    @Test("mirrors are ordered: good ones by speed, unknown ones, failed ones; equal ones as given")
    func order() {
        let statistics = MirrorStatistics()
        let origins = ["bad", "unknown", "slow", "fast", "other unknown", "also fast"]
        #expect(Self.places(statistics, origins, 0) == [0, 1, 2, 3, 4, 5])
        statistics.note("bad") { $0.failed(now: 0) }
        statistics.note("slow") { $0.delivered(1_000_000, inSeconds: 10, now: 0) }
        statistics.note("fast") { $0.delivered(1_000_000, inSeconds: 0.01, now: 0) }
        statistics.note("also fast") { $0.delivered(1_010_000, inSeconds: 0.01, now: 0) }
        #expect(Self.places(statistics, origins, 0) == [3, 5, 2, 1, 4, 0])
    }

    @Test("failures fade with time and success, and measurements expire")
    func time() {
        var quality = MirrorQuality()
        #expect(quality.standing(now: 0) == .unknown)
        quality.failed(now: 0)
        #expect(quality.standing(now: 0) == .bad && quality.standing(now: 59 * Self.second) == .bad)
        #expect(quality.standing(now: 61 * Self.second) == .unknown)
        quality.failed(weight: 4, now: 61 * Self.second)
        #expect(quality.standing(now: 200 * Self.second) == .bad)
        quality.delivered(1_000_000, inSeconds: 1, now: 400 * Self.second)
        #expect(quality.standing(now: 400 * Self.second) == .good)
        #expect(quality.standing(now: 4_100 * Self.second) == .unknown)
    }

    @Test("latency counts as well as speed, and a short transfer does not measure speed")
    func latency() {
        var (near, far, trifle) = (MirrorQuality(), MirrorQuality(), MirrorQuality())
        near.answered(afterSeconds: 0.001, now: 0)
        far.answered(afterSeconds: 3, now: 0)
        for index in [0, 1] {
            near.delivered(8_000_000, inSeconds: 1, now: Int64(index))
            far.delivered(8_000_000, inSeconds: 1, now: Int64(index))
        }
        #expect(near.slowness < far.slowness)
        trifle.delivered(100, inSeconds: 0.000_001, now: 0)
        #expect(trifle.standing(now: 0) == .unknown)
    }
}
