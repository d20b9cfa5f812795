import FerryCore
import FerryEngine
import Synchronization
import TestSupport
import TestThreads
import Testing

private let bytes = patternBytes(4 << 20, seed: 21)
/// Of the same length.
private let others = patternBytes(4 << 20, seed: 22)
private let modified = "Sun, 06 Nov 1994 08:49:37 GMT"

/// Mark by which a server identifies its file.
private enum Mark: CaseIterable {
    case nothing, weakTag, otherTag, otherDate, tag, date

    var headers: [String: String] {
        switch self {
        case .nothing: [:]
        case .weakTag: ["ETag": "W/\"two\""]
        case .otherTag: ["ETag": "\"two\""]
        case .otherDate: ["Last-Modified": "Sun, 06 Nov 1994 08:49:36 GMT", "Date": later]
        case .tag: ["ETag": "\"one\""]
        case .date: ["Last-Modified": modified, "Date": later]
        }
    }

    private var later: String { "Sun, 06 Nov 1994 09:00:00 GMT" }
}

/// Servers that answer 206 whatever `If-Range` says: the answer has to prove that the file is the same.
@Suite(.serialized, .onOwnThread) struct MirrorProofTests {
    /// A server that does not know `If-Range`; `change` as in `RangeOrigin`.
    private static func origin(
        _ bytes: [UInt8], _ mark: Mark,
        _ change: @escaping @Sendable (inout RangeOrigin.Answer, Int) -> Void = { _, _ in }
    ) throws -> RangeOrigin {
        try RangeOrigin(bytes) { answer, asked, number in
            answer = RangeOrigin.proper(bytes, nil, asked.unconditional)
            answer.headers.merge(mark.headers) { $1 }
            change(&answer, number)
        }
    }

    private static func run(
        _ fixture: Fixture, _ url: String, mirrors: [String] = [], segments: Int, job: JobID? = nil,
        number: Int32 = 1
    ) throws -> AttemptResult {
        try #require(
            fixture.run(.download, url, job: job, number: number) {
                $0.to("file")
                $0.spec.mirrors = mirrors
                $0.spec.segmentCountMax = segments
            })
    }

    private static func expect(_ whole: [UInt8], _ result: AttemptResult, _ fixture: Fixture) {
        if let failure = result.failure { Issue.record("\(failure)") }
        let isSame = readFile(fixture.root + "/file") == whole
        #expect(isSame && result.success?.sha256 == sha256(whole))
    }

    @Test(
        "a mirror of another file provides no part, however it treats If-Range",
        arguments: [Mark.tag, .date], Mark.allCases)
    fileprivate func inParts(own: Mark, mirror: Mark) throws {
        guard own != mirror else { return }
        let first = try Self.origin(bytes, own) { answer, _ in answer.pause = 1_000 }
        let second = try Self.origin(others, mirror)
        let fixture = try Fixture()
        defer {
            fixture.stop()
            second.stop()
            first.stop()
        }
        let result = try Self.run(fixture, first.url, mirrors: [second.url], segments: 4)
        Self.expect(bytes, result, fixture)
        #expect(second.requests.map { $0.range != nil } == [true])
    }

    @Test(
        "a mirror with the same strong tag or date provides parts",
        arguments: [Mark.tag, .date])
    fileprivate func same(mark: Mark) throws {
        let first = try Self.origin(bytes, mark) { answer, _ in answer.pause = 50_000 }
        let second = try Self.origin(bytes, mark)
        let fixture = try Fixture()
        defer {
            fixture.stop()
            second.stop()
            first.stop()
        }
        let result = try Self.run(fixture, first.url, mirrors: [second.url], segments: 2)
        Self.expect(bytes, result, fixture)
        #expect(second.requests.count >= 2)
    }

    @Test(
        "if a server fails midway, the next one continues only the same file",
        arguments: [1, 4], [Mark.nothing, .weakTag, .otherTag, .tag])
    fileprivate func failover(segments: Int, mirror: Mark) throws {
        let first = try Self.origin(bytes, .tag) { answer, number in
            if number == 0 {
                answer.cutAfter = 1_500_000
            } else {
                (answer.status, answer.body) = (503, [])
            }
        }
        let whole = mirror == .tag ? bytes : others
        let second = try Self.origin(whole, mirror)
        let fixture = try Fixture()
        defer {
            fixture.stop()
            second.stop()
            first.stop()
        }
        let result = try Self.run(fixture, first.url, mirrors: [second.url], segments: segments)
        Self.expect(whole, result, fixture)
        #expect(second.requests.first?.range != nil)
        // What there was is not fetched again where the file is the same.
        let isContinued = second.requests.allSatisfy { $0.range.map { $0.lowerBound > 0 } ?? false }
        #expect(isContinued || mirror != .tag)
    }

    @Test(
        "a later attempt continues only the same file, also behind a redirect or from a mirror",
        arguments: [false, true], [Mark.nothing, .weakTag, .otherTag, .tag])
    fileprivate func resumed(fromMirror: Bool, sequel: Mark) throws {
        let state = Shared(isFirst: true)
        let whole = sequel == .tag ? bytes : others
        let target = try RangeOrigin(bytes) { answer, asked, number in
            let isFirst = state.isFirst.load(ordering: .sequentiallyConsistent)
            answer = RangeOrigin.proper(isFirst ? bytes : whole, nil, asked.unconditional)
            answer.headers.merge((isFirst ? Mark.tag : sequel).headers) { $1 }
            if isFirst { answer.cutAfter = number == 0 ? 200_000 : 0 }
        }
        let mirror = try Self.origin(whole, sequel)
        let targetURL = target.url
        let front = try ScriptedOrigin.answering { _, _ in
            let isHere = !fromMirror || state.isFirst.load(ordering: .sequentiallyConsistent)
            let answer = isHere ? "302 Found\r\nLocation: \(targetURL)" : "503 Away"
            return Array("HTTP/1.1 \(answer)\r\nContent-Length: 0\r\n\r\n".utf8)
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            front.stop()
            mirror.stop()
            target.stop()
        }
        let failed = try Self.run(fixture, front.url + "/x", segments: 4)
        #expect(failed.failure?.code == .incompleteBody && failed.leavesBytes)
        state.isFirst.store(false, ordering: .sequentiallyConsistent)
        let before = fixture.engine.snapshot.bytesReceived
        let result = try Self.run(
            fixture, front.url + "/x", mirrors: fromMirror ? [mirror.url] : [], segments: 4,
            job: failed.attempt.job, number: 2)
        Self.expect(whole, result, fixture)
        let received = fixture.engine.snapshot.bytesReceived - before
        #expect(received == Int64(whole.count) - (sequel == .tag ? failed.bytesReceived : 0))
    }

    private final class Shared: Sendable {
        let isFirst: Atomic<Bool>
        init(isFirst: Bool) { self.isFirst = Atomic(isFirst) }
    }
}
