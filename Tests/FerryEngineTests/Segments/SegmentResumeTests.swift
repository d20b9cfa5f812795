import FerryCore
import FerryEngine
import Synchronization
import TestSupport
import TestThreads
import Testing

private let size = 8 << 20
private let bytes = patternBytes(size, seed: 11)

@Suite(.serialized, .onOwnThread) struct SegmentResumeTests {
    /// While `isCutting`, the first four answers end after 200 kB, and the others before their bodies.
    private final class CuttingOrigin: Sendable {
        let isCutting = Atomic<Bool>(true)
    }

    private static func with(
        tag: @escaping @Sendable (Bool) -> String = { _ in "\"one\"" },
        _ body: (RangeOrigin, CuttingOrigin, String) throws -> Void
    ) throws {
        let place = try TemporaryDirectory.make("segments")
        defer { TemporaryDirectory.remove(place) }
        let cutting = CuttingOrigin()
        let origin = try RangeOrigin(bytes) { answer, asked, number in
            let isCutting = cutting.isCutting.load(ordering: .sequentiallyConsistent)
            answer = RangeOrigin.proper(bytes, tag(isCutting), asked)
            if isCutting { answer.cutAfter = number < 4 ? 200_000 : 0 }
        }
        defer { origin.stop() }
        try body(origin, cutting, place)
    }

    private static func run(
        _ origin: RangeOrigin, _ fixture: Fixture, job: JobID? = nil, number: Int32,
        _ change: (inout Draft) -> Void = { _ in }
    ) throws -> AttemptResult {
        try #require(
            fixture.run(.download, origin.url, job: job, number: number) {
                $0.to("file")
                $0.spec.segmentCountMax = 4
                change(&$0)
            })
    }

    private static func expectWhole(_ result: AttemptResult, _ fixture: Fixture) {
        #expect(result.success?.sha256 == sha256(bytes))
        let isSame = readFile(fixture.root + "/file") == bytes
        #expect(isSame)
        #expect(fixture.files() == ["tenant/file"])
    }

    @Test(
        "a later attempt, also of another process, asks only for what is missing", arguments: [false, true])
    func goesOn(isSynced: Bool) throws {
        try Self.with { origin, cutting, place in
            let first = try Fixture(at: place) { $0.fileSync = isSynced ? .full : .none }
            let failed = try Self.run(origin, first, number: 1)
            #expect(failed.failure?.code == .incompleteBody && failed.failure?.isRetryable == true)
            let there = failed.bytesReceived
            #expect(there >= 400_000 && there < Int64(size))
            first.engine.stop()
            cutting.isCutting.store(false, ordering: .sequentiallyConsistent)
            let before = origin.requests.count

            let second = try Fixture(at: place) { $0.fileSync = isSynced ? .full : .none }
            defer { second.engine.stop() }
            let result = try Self.run(origin, second, job: failed.attempt.job, number: 2)
            Self.expectWhole(result, second)
            #expect(result.bytesReceived == Int64(size))
            #expect(result.response?.status == 206)
            // Not one byte comes twice.
            #expect(second.engine.snapshot.bytesReceived == Int64(size) - there)
            let asked = origin.requests.dropFirst(before)
            #expect(asked.allSatisfy { $0.ifRange == "\"one\"" && $0.range?.lowerBound != 0 })
        }
    }

    @Test(
        "an attempt stopped before its file is published keeps the bytes, unless it is cancelled",
        arguments: [1, 4], [AttemptStop.suspend, .cancelKeepingBytes, .cancel])
    func stoppedAtTheEnd(segments: Int, how: AttemptStop) throws {
        let (origin, gate, answers) = (try RangeOrigin(bytes), Gate(), Gate())
        let later = try RangeOrigin(bytes) { answer, _, _ in answer.beforeHead = { _ = answers.pass() } }
        let fixture = try Fixture { $0.fileThreadCount = 1 }
        defer {
            answers.open()
            gate.open()
            origin.stop()
            later.stop()
            fixture.stop()
        }
        let attempt = fixture.attempt(.download, later.url) {
            $0.to("file")
            $0.spec.segmentCountMax = segments
        }
        fixture.engine.begin([attempt])
        #expect(eventually { later.requests.count == 1 })
        fixture.lease.gate.withLock { $0 = gate }
        let first = fixture.attempt(.download, origin.url) { $0.to("first") }
        fixture.engine.begin([first])
        #expect(fixture.lease.asked.wait().count == 1)
        // The only file thread is busy with that one's.
        answers.open()
        #expect(eventually { fixture.engine.snapshot.bytesReceived == 2 * Int64(size) })
        fixture.engine.stop(attempt.job, how)
        let isStopped = Signal<Bool>()
        fixture.engine.snapshot(of: attempt.job) { isStopped.fire($0 != nil) }
        #expect(isStopped.wait() == [true])
        fixture.lease.gate.withLock { $0 = nil }
        gate.open()
        let results = fixture.sink.arrived.wait(for: 2)
        let stopped = try #require(results.first { $0.attempt.job == attempt.job })
        #expect(stopped.success == nil && stopped.failure == nil)
        #expect(
            stopped.partialDownload?.byteCount == (how == .cancel ? nil : Int64(size)), "\(stopped.outcome)")
        fixture.engine.removePartialFiles(of: [first.job] + (how == .cancel ? [attempt.job] : []))
        #expect(eventually { fixture.files().count == (how == .cancel ? 1 : 3) }, "\(fixture.files())")
    }

    @Test("if the file has changed meanwhile, all of it is fetched again")
    func changed() throws {
        try Self.with(tag: { $0 ? "\"old\"" : "\"one\"" }) { origin, cutting, place in
            let fixture = try Fixture(at: place)
            defer { fixture.engine.stop() }
            let failed = try Self.run(origin, fixture, number: 1)
            #expect(failed.failure != nil && failed.bytesReceived > 0)
            cutting.isCutting.store(false, ordering: .sequentiallyConsistent)
            let result = try Self.run(origin, fixture, job: failed.attempt.job, number: 2)
            Self.expectWhole(result, fixture)
        }
    }

    @Test(
        "without a validator a job resumes only if it allows that and the length is the same",
        arguments: [false, true])
    func byLength(takesRisk: Bool) throws {
        let place = try TemporaryDirectory.make("segments")
        defer { TemporaryDirectory.remove(place) }
        let cutting = CuttingOrigin()
        let origin = try RangeOrigin(bytes) { answer, asked, _ in
            answer = RangeOrigin.proper(bytes, nil, asked)
            if cutting.isCutting.load(ordering: .sequentiallyConsistent) { answer.cutAfter = 3_000_000 }
        }
        defer { origin.stop() }
        let fixture = try Fixture(at: place)
        defer { fixture.engine.stop() }
        let rule: (inout Draft) -> Void = { $0.spec.retry.resumesWithoutValidator = takesRisk }
        let failed = try Self.run(origin, fixture, number: 1, rule)
        #expect(failed.failure != nil && failed.leavesBytes == takesRisk)
        let before = (origin.requests.count, fixture.engine.snapshot.bytesReceived)
        cutting.isCutting.store(false, ordering: .sequentiallyConsistent)
        let result = try Self.run(origin, fixture, job: failed.attempt.job, number: 2, rule)
        Self.expectWhole(result, fixture)
        let received = fixture.engine.snapshot.bytesReceived - before.1
        #expect(received == Int64(size) - (takesRisk ? failed.bytesReceived : 0))
        let asked = origin.requests.dropFirst(before.0)
        #expect(asked.allSatisfy { $0.ifRange == nil && ($0.range?.lowerBound != 0) == takesRisk })
    }

    @Test("a mirror with the same tag continues the bytes from the request's own URL")
    func mirror() throws {
        try Self.with { origin, _, place in
            let mirror = try RangeOrigin(bytes)
            defer { mirror.stop() }
            let fixture = try Fixture(at: place)
            defer { fixture.engine.stop() }
            let failed = try Self.run(origin, fixture, number: 1)
            let before = fixture.engine.snapshot.bytesReceived
            origin.stop()
            let result = try Self.run(origin, fixture, job: failed.attempt.job, number: 2) {
                $0.spec.mirrors = [mirror.url]
            }
            Self.expectWhole(result, fixture)
            #expect(result.response?.url == mirror.url)
            #expect(fixture.engine.snapshot.bytesReceived - before == Int64(size) - failed.bytesReceived)
        }
    }

    @Test("bytes of an earlier attempt that turn out wrong do not spoil the next file")
    func wrong() throws {
        try Self.with { origin, cutting, place in
            let fixture = try Fixture(at: place)
            defer { fixture.engine.stop() }
            let failed = try Self.run(origin, fixture, number: 1)
            let partial = try #require(fixture.files().first { $0.hasSuffix(".part") })
            var spoiled = try #require(readFile(place + "/" + partial))
            spoiled[10] ^= 1
            try writeFile(place + "/" + partial, spoiled)
            cutting.isCutting.store(false, ordering: .sequentiallyConsistent)
            let result = try Self.run(origin, fixture, job: failed.attempt.job, number: 2) {
                $0.spec.integrity.sha256 = sha256(bytes)
            }
            Self.expectWhole(result, fixture)
        }
    }
}
