import FerryCore
import FerryEngine
import TestSupport
import TestThreads
import Testing

private let size = segmentedSize
private let bytes = segmentedBytes

@Suite("Parts of a file that changes", .serialized, .onOwnThread) struct SegmentChangeTests {
    /// Makes the answer one with the whole of another file, which ignores the range that was asked for.
    private static func change(_ answer: inout RangeOrigin.Answer, to other: [UInt8]) {
        (answer.status, answer.body) = (200, other[...])
        answer.headers["ETag"] = "\"two\""
        answer.headers["Content-Range"] = nil
    }

    @Test("if the server's file changes, the running stream finishes the old one")
    func changed() throws {
        let other = patternBytes(size, seed: 8)
        let others = Countdown(3)
        let origin = try RangeOrigin(bytes) { answer, _, number in
            if number > 0 { Self.change(&answer, to: other) }
            SegmentTests.holdFirst(&answer, number, until: others)
        }
        try SegmentTests.fetch(origin) { result, fixture in
            SegmentTests.expectWhole(result, fixture)
            #expect(origin.requests.count == 4)
        }
    }

    @Test("if the file changes after the first stream ended with its part, the new one is fetched")
    func changedAfterFirstPart() throws {
        let other = patternBytes(size, seed: 8)
        let isFirstPartDone = Gate()
        let origin = try RangeOrigin(bytes) { answer, _, number in
            guard number > 0 else {
                // The rest of the file is the other parts': the client closes this connection.
                answer.whenClosed = { isFirstPartDone.open() }
                return
            }
            Self.change(&answer, to: other)
            answer.beforeHead = { _ = isFirstPartDone.pass() }
        }
        try SegmentTests.fetch(origin) { result, fixture in SegmentTests.expectWhole(result, fixture, other) }
    }

    @Test("if no stream of the old file runs, the new one is fetched from byte 0")
    func changedForGood() throws {
        let other = patternBytes(size - 1_000_000, seed: 8)
        let origin = try RangeOrigin(bytes) { answer, asked, number in
            guard number > 0 else {
                answer.cutAfter = 100_000
                return
            }
            answer = RangeOrigin.proper(other, "\"two\"", asked)
        }
        try SegmentTests.fetch(origin) { result, fixture in
            SegmentTests.expectWhole(result, fixture, other)
            #expect(origin.requests.count <= fixture.most(16))
        }
    }

    @Test("a file that changes with each request ends in a clear error")
    func everChanging() throws {
        let origin = try RangeOrigin(bytes) { answer, asked, number in
            answer = RangeOrigin.proper(patternBytes(size, seed: UInt64(number)), "\"\(number)\"", asked)
            answer.cutAfter = 100_000
        }
        try SegmentTests.fetch(origin) { result, _ in
            #expect(result.failure?.isRetryable == true)
            #expect([.sourceChanged, .incompleteBody].contains(result.failure?.code))
            #expect(origin.requests.count <= 40)
        }
    }
}
