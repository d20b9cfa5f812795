import FerryCore
import FerryEngine
import Synchronization
import TestSupport
import TestThreads
import Testing

private let bytes = patternBytes(3_000_000, seed: 41)
private let dates = [
    "Last-Modified": "Sun, 06 Nov 1994 08:49:37 GMT", "Date": "Sun, 06 Nov 1994 08:49:39 GMT",
]

/// A second attempt whose job or server differs from that of the first one.
@Suite(.serialized, .onOwnThread) struct ResumeRuleTests {
    private final class Phase: Sendable {
        let isCutting = Atomic<Bool>(true)
    }

    /// Until `attempts` runs the second one, the first answer is cut after 100 kB, and the others before
    /// their bodies. `answers` may change what is answered, and is
    /// told whether it is the rest that the second one asks for.
    private static func attempts(
        segments: Int = 1, _ answers: @escaping @Sendable (inout RangeOrigin.Answer, Bool) -> Void,
        first: (inout Draft) -> Void = { _ in }, second: (inout Draft) -> Void = { _ in },
        check: (AttemptResult, RangeOrigin, Fixture) throws -> Void
    ) throws {
        let phase = Phase()
        let origin = try RangeOrigin(bytes) { answer, asked, number in
            answer = RangeOrigin.proper(bytes, "\"one\"", asked.unconditional)
            let isCutting = phase.isCutting.load(ordering: .sequentiallyConsistent)
            answers(&answer, !isCutting && asked.range.map { $0.lowerBound > 0 } ?? false)
            if isCutting { answer.cutAfter = number == 0 ? 100_000 : 0 }
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        func run(_ number: Int32, _ job: JobID? = nil, _ change: (inout Draft) -> Void) throws
            -> AttemptResult
        {
            try #require(
                fixture.run(.download, origin.url, job: job, number: number) {
                    $0.to("file")
                    $0.spec.segmentCountMax = segments
                    change(&$0)
                })
        }
        let failed = try run(1, nil, first)
        #expect(failed.failure?.code == .incompleteBody && failed.leavesBytes)
        phase.isCutting.store(false, ordering: .sequentiallyConsistent)
        let before = (origin.requests.count, fixture.engine.snapshot.bytesReceived)
        let result = try run(2, failed.attempt.job, second)
        #expect(origin.requests.dropFirst(before.0).first?.range.map { $0.lowerBound > 0 } == true)
        // An attempt that resumes fetches no byte twice.
        if result.success?.resumedAtOffset ?? 0 > 0 {
            let received = fixture.engine.snapshot.bytesReceived - before.1
            #expect(received == Int64(bytes.count) - failed.bytesReceived)
        }
        try check(result, origin, fixture)
    }

    private static func expectWhole(_ result: AttemptResult, _ status: Int) {
        if let failure = result.failure { Issue.record("\(failure)") }
        #expect(result.success?.sha256 == sha256(bytes) && result.response?.status == status)
        #expect((result.success?.resumedAtOffset ?? 0 > 0) == (status == 206))
    }

    /// Media type in the answer to a range, which need not repeat it (RFC 9110 §15.3.7).
    enum Naming: CaseIterable { case repeated, leftOut }

    @Test(
        "a type that the job no longer accepts is refused; an accepted one is continued",
        arguments: [1, 4], Naming.allCases)
    func type(segments: Int, naming: Naming) throws {
        let answers: @Sendable (inout RangeOrigin.Answer, Bool) -> Void = { answer, isRest in
            answer.headers["Content-Type"] = isRest && naming == .leftOut ? nil : "text/html"
        }
        try Self.attempts(
            segments: segments, answers, second: { $0.spec.accept.contentTypes = ["image/*"] }
        ) { result, _, _ in
            #expect(result.failure?.code == .unacceptableContentType)
            #expect(result.failure?.isRetryable == false)
        }
        try Self.attempts(
            segments: segments, answers, second: { $0.spec.accept.contentTypes = ["text/*"] }
        ) { result, _, _ in Self.expectWhole(result, 206) }
    }

    @Test(
        "the status is judged as 200, whatever status a part has",
        arguments: [1, 4], ["404", "200", "2xx"])
    func status(segments: Int, accepted: String) throws {
        try Self.attempts(
            segments: segments, { _, _ in }, second: { $0.spec.accept.status = [StatusPattern(accepted)] }
        ) {
            result, _, _ in
            guard accepted == "404" else { return Self.expectWhole(result, 206) }
            #expect(result.failure?.code == .unacceptableStatus && result.failure?.isRetryable == false)
        }
    }

    /// Answer of a server that identifies its file by a date.
    enum Dated: CaseIterable { case leftOut, repeated, otherDate, otherTotal, tagged, renewed }

    @Test(
        "the same URL may omit the date; any other difference restarts the file",
        arguments: [1, 4], Dated.allCases)
    func dated(segments: Int, case dated: Dated) throws {
        try Self.attempts(
            segments: segments,
            { answer, isRest in
                answer.headers["ETag"] = isRest && dated == .tagged ? "\"one\"" : nil
                answer.headers.merge(dates) { $1 }
                guard isRest else { return }
                if dated != .repeated { answer.headers["Last-Modified"] = nil }
                if dated == .otherDate { answer.headers["Last-Modified"] = dates["Date"] }
                if dated == .otherTotal {
                    answer.headers["Content-Range"]?.replace("/\(bytes.count)", with: "/*")
                }
            },
            second: {
                // As a change of the link leaves it.
                guard dated == .renewed else { return }
                $0.spec.request.original = OriginalRequest(url: $0.spec.request.url, headers: [])
                try? $0.spec.request.setURL($0.spec.request.url + "?renewed")
            }
        ) { result, _, _ in
            let goesOn = dated == .leftOut || dated == .repeated
            // In parts a new file's first answer is a 206 as well.
            guard segments == 1 || goesOn else {
                #expect(result.success?.sha256 == sha256(bytes) && result.success?.resumedAtOffset == 0)
                return
            }
            Self.expectWhole(result, goesOn ? 206 : 200)
        }
    }

    @Test(
        "after a change of the destination the bytes move along, and none stay behind",
        arguments: [1, 4],
        [("old/file", "new/deep/file"), (nil, "file"), ("file", nil)] as [(String?, String?)])
    func destination(segments: Int, places: (String?, String?)) throws {
        func place(_ path: String?) -> (inout Draft) -> Void {
            { draft in draft.spec.destination = path.map { .init(path: $0, ifExists: .fail) } }
        }
        try Self.attempts(
            segments: segments, { _, _ in }, first: place(places.0), second: place(places.1)
        ) { result, _, fixture in
            Self.expectWhole(result, 206)
            fixture.engine.removePartialFiles(of: [result.attempt.job])
            #expect(eventually { fixture.files().count == 1 }, "\(fixture.files())")
            if let path = places.1 { #expect(fixture.files() == ["tenant/\(path)"]) }
        }
    }

    @Test("after a change of the destination, useless bytes are removed at the old place")
    func destinationAnew() throws {
        let origin = try RangeOrigin(bytes) { answer, _, number in
            if number < 2 { answer.cutAfter = number == 0 ? 500_000 : 0 }
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        let failed = try #require(fixture.run(.download, origin.url) { $0.to("old/file") })
        #expect(failed.leavesBytes)
        let result = fixture.run(.download, origin.url, job: failed.attempt.job, number: 2) {
            $0.to("new/file")
            $0.spec.request.headers = [.init("Accept-Language", "eo")]
        }
        #expect(result?.response?.status == 200)
        #expect(eventually { fixture.files() == ["tenant/new/file"] }, "\(fixture.files())")
    }
}
