import FerryCore
import FerryEngine
import TestSupport
import TestThreads
import Testing

private let bytes = patternBytes(8 << 20, seed: 7)

@Suite("The last part of a file", .onOwnThread) struct SlowSegmentTests {
    private static func expectWhole(_ result: AttemptResult, _ fixture: Fixture) {
        if let failure = result.failure { Issue.record("\(failure)") }
        #expect(result.attempt.number == 1 && result.success?.sha256 == sha256(bytes))
        let isSame = readFile(fixture.root + "/file") == bytes
        #expect(isSame)
    }

    /// Opens the gate when no byte has moved for a second: the stalled part was given up by then.
    private static func fetch(_ origin: RangeOrigin, segments: Int, until gate: Gate) throws {
        let fixture = try Fixture { $0.stallSeconds = 1 }
        defer {
            gate.open()
            origin.stop()
            fixture.stop()
        }
        let attempt = fixture.attempt(.download, origin.url) {
            $0.to("file")
            $0.spec.segmentCountMax = segments
            $0.spec.request.timeoutForRequest = 600
        }
        fixture.engine.begin([attempt])
        #expect(fixture.sink.lendings.wait() == [attempt.job])
        gate.open()
        expectWhole(try #require(fixture.sink.arrived.wait().first), fixture)
    }

    @Test(
        "a stalled connection is given up long before its timeout if nothing else is left to fetch",
        arguments: [2, 4], [false, true])
    func stopped(segments: Int, hasMirror: Bool) throws {
        let gate = Gate()
        let origin = try RangeOrigin(bytes) { answer, _, number in
            if number == 0 { answer.halfway = (300_000, { _ = gate.pass(seconds: 600) }) }
        }
        let mirror = try RangeOrigin(bytes)
        let fixture = try Fixture { $0.stallSeconds = 1 }
        defer {
            gate.open()
            origin.stop()
            mirror.stop()
            fixture.stop()
        }
        let result = try #require(
            fixture.run(.download, origin.url) {
                $0.to("file")
                $0.spec.segmentCountMax = segments
                if hasMirror { $0.spec.mirrors = [mirror.url] }
                $0.spec.request.timeoutForRequest = 600
            })
        Self.expectWhole(result, fixture)
        #expect(origin.requests.count + mirror.requests.count <= 40)
    }

    @Test("a mirror is asked for the rest if the only connection stalls", arguments: [1, 4])
    func stoppedAlone(segments: Int) throws {
        let gate = Gate()
        let origin = try RangeOrigin(bytes) { answer, _, number in
            if number == 0 { answer.halfway = (300_000, { _ = gate.pass(seconds: 600) }) }
            if number > 0 { (answer.status, answer.body) = (503, []) }
        }
        let result = try Self.fetchBesideMirror(origin, segments: segments, until: gate) { mirror, result in
            let first = mirror.requests.compactMap { $0.range?.lowerBound }.min() ?? 0
            // If the origin's thread was not scheduled, no byte has come, and the mirror responds first.
            let hasOriginAnswered = result.response?.url == origin.url
            #expect(first > 0 || !hasOriginAnswered, "what had come is not fetched again")
        }
        #expect(result.bytesReceived == Int64(bytes.count))
        #expect(segments > 1 || origin.requests.count <= 1)
    }

    @Test("a mirror is asked if the first source does not respond", arguments: [1, 4])
    func unansweredAlone(segments: Int) throws {
        let gate = Gate()
        let origin = try RangeOrigin(bytes) { _, _, _ in _ = gate.pass(seconds: 600) }
        _ = try Self.fetchBesideMirror(origin, segments: segments, until: gate)
        #expect(segments > 1 || origin.requests.count <= 1)
    }

    @Test("a source that is only slow is asked again and waited for if the mirrors do not have the file")
    func slow() throws {
        let (first, second) = (Gate(), Gate())
        let origin = try RangeOrigin(bytes) { _, _, number in
            _ = (number == 0 ? first : second).pass(seconds: 600)
        }
        let mirror = try RangeOrigin(bytes) { answer, _, _ in (answer.status, answer.body) = (404, []) }
        let fixture = try Fixture { $0.stallSeconds = 1 }
        defer {
            first.open()
            second.open()
            origin.stop()
            mirror.stop()
            fixture.stop()
        }
        let attempt = fixture.attempt(.download, origin.url) {
            $0.to("file")
            $0.spec.mirrors = [mirror.url]
            $0.spec.request.timeoutForRequest = 600
        }
        fixture.engine.begin([attempt])
        #expect(fixture.sink.lendings.wait(for: 2) == [attempt.job, attempt.job])
        #expect(eventually { origin.requests.count == 2 && mirror.requests.count == 1 })
        second.open()
        Self.expectWhole(try #require(fixture.sink.arrived.wait().first), fixture)
        #expect(origin.requests.count == 2)
    }

    /// With a mirror that has the same file.
    private static func fetchBesideMirror(
        _ origin: RangeOrigin, segments: Int, until gate: Gate,
        _ check: (RangeOrigin, AttemptResult) -> Void = { _, _ in }
    ) throws -> AttemptResult {
        let mirror = try RangeOrigin(bytes)
        let fixture = try Fixture { $0.stallSeconds = 1 }
        defer {
            gate.open()
            origin.stop()
            mirror.stop()
            fixture.stop()
        }
        let result = try #require(
            fixture.run(.download, origin.url) {
                $0.to("file")
                $0.spec.segmentCountMax = segments
                $0.spec.mirrors = [mirror.url]
                $0.spec.request.timeoutForRequest = 600
            })
        expectWhole(result, fixture)
        check(mirror, result)
        return result
    }

    @Test("a request without a response yet is waited for")
    func unanswered() throws {
        let gate = Gate()
        let origin = try RangeOrigin(bytes) { _, _, number in
            if number > 0 { _ = gate.pass(seconds: 600) }
        }
        try Self.fetch(origin, segments: 4, until: gate)
        let asked = origin.requests.compactMap { $0.range?.lowerBound }
        #expect(Set(asked).count == asked.count, "each part was asked for once: \(asked)")
    }

    @Test("the only connection that a host accepts is waited for")
    func refused() throws {
        let gate = Gate()
        let origin = try RangeOrigin(bytes) { answer, _, number in
            if number == 0 { answer.halfway = (300_000, { _ = gate.pass(seconds: 600) }) }
            if number > 0 { (answer.status, answer.body) = (403, []) }
        }
        try Self.fetch(origin, segments: 4, until: gate)
    }

    @Test("a stalled connection without an alternative ends by its timeout", arguments: [1, 4])
    func alone(segments: Int) throws {
        let gate = Gate()
        // Without ranges there is one stream.
        let origin = try RangeOrigin(bytes) { answer, asked, number in
            answer = RangeOrigin.proper(bytes, nil, asked)
            if number == 0 { answer.halfway = (300_000, { _ = gate.pass(seconds: 600) }) }
        }
        try Self.fetch(origin, segments: segments, until: gate)
        #expect(origin.requests.count == 1)
    }
}
