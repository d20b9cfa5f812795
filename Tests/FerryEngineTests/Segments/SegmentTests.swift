import FerryCore
import FerryEngine
import Glibc
import Synchronization
import Sys
import TestSupport
import TestThreads
import Testing

/// Of the file that `SegmentTests` fetch.
let segmentedSize = 8 << 20
let segmentedBytes = patternBytes(segmentedSize, seed: 7)
private let size = segmentedSize
private let bytes = segmentedBytes

@Suite(.serialized, .onOwnThread) struct SegmentTests {
    /// Runs one download in four parts; nothing stays beside the file.
    static func fetch(
        _ origin: RangeOrigin, segments: Int = 4, _ change: (inout Draft) -> Void = { _ in },
        check: (AttemptResult, Fixture) throws -> Void
    ) throws {
        defer { origin.stop() }
        let fixture = try Fixture()
        defer { fixture.stop() }
        let result = try #require(
            fixture.run(.download, origin.url) {
                $0.to("file")
                $0.spec.segmentCountMax = segments
                change(&$0)
            })
        // Bytes for a later attempt are removed with the job.
        if result.success == nil { fixture.engine.removePartialFiles(of: [result.attempt.job]) }
        try check(result, fixture)
        #expect(eventually { fixture.files().allSatisfy { !$0.contains(".part") } })
        #expect(fixture.engine.snapshot.live == 0)
    }

    static func expectWhole(
        _ result: AttemptResult, _ fixture: Fixture, _ bytes: [UInt8] = segmentedBytes, _ note: Comment? = nil
    ) {
        #expect(result.success?.sha256 == sha256(bytes), note)
        if let failure = result.failure { Issue.record("\(failure)") }
        #expect(result.success?.size == Int64(bytes.count))
        let isSame = readFile(fixture.root + "/file") == bytes
        #expect(isSame, note)
        #expect(result.bytesReceived == Int64(bytes.count))
    }

    @Test(
        "parts send the octets of the entity tag", arguments: [[0xC3, 0xA9], [0xE9]] as [[UInt8]])
    func tagOctets(word: [UInt8]) throws {
        let tag = [0x22] + word + [0x22]
        let origin = try ScriptedOrigin { connection in
            while let request = connection.readRequest() {
                let ends = request.header("range")?.dropFirst(6).split(separator: "-").compactMap { Int($0) }
                let isSame = request.octets("if-range").map { $0 == tag } ?? true
                let first = isSame ? ends?.first ?? 0 : 0
                let end = isSame && ends?.count == 2 ? (ends?.last ?? 0) + 1 : size
                let range = "Content-Range: bytes \(first)-\(end - 1)/\(size)\r\n"
                let status = isSame && ends != nil ? "206 x\r\n\(range)" : "200 OK\r\n"
                let length = "Content-Length: \(end - first)\r\n"
                let head = "HTTP/1.1 \(status)Accept-Ranges: bytes\r\n\(length)ETag: "
                guard connection.send(Array(head.utf8) + tag + Array("\r\n\r\n".utf8)),
                    connection.send(Array(bytes[first..<end]))
                else { return }
            }
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        let result = fixture.run(.download, origin.url + "/f") {
            $0.to("file")
            $0.spec.segmentCountMax = 4
        }
        #expect(result?.success?.sha256 == sha256(bytes))
        let sent = origin.requests.compactMap { $0.octets("if-range") }
        #expect(!sent.isEmpty && sent.allSatisfy { $0 == tag })
    }

    @Test("four parts are asked for once each, all but the first with If-Range, and make one file")
    func parts() throws {
        let origin = try RangeOrigin(bytes)
        try Self.fetch(origin) { result, fixture in
            Self.expectWhole(result, fixture)
            #expect(result.success?.verified == .length)
            let requests = origin.requests
            #expect(requests.first?.range == 0..<size && requests.first?.ifRange == nil)
            #expect(requests.dropFirst().allSatisfy { $0.ifRange == "\"one\"" && $0.range != nil })
            let quarter = size / 4
            let begun = Set(requests.compactMap { $0.range?.lowerBound })
            #expect(begun.isSuperset(of: [0, quarter, 2 * quarter, 3 * quarter]))
            #expect(requests.count <= fixture.most(12))
        }
    }

    @Test(
        "small and empty files arrive completely, without needless requests",
        arguments: [0, 1, 100_000, 1_500_000])
    func small(count: Int) throws {
        let some = Array(bytes.prefix(count))
        let origin = try RangeOrigin(some) { answer, asked, _ in
            if count == 0, asked.range == nil, asked.ifRange == nil { answer.headers["Content-Length"] = "0" }
        }
        try Self.fetch(origin, segments: 8) { result, fixture in
            Self.expectWhole(result, fixture, some)
            #expect(origin.requests.count <= fixture.most(1))
        }
    }

    @Test("416 to the first range, as for an empty file, is followed by a plain request")
    func unsatisfiable() throws {
        let origin = try RangeOrigin([]) { answer, _, number in
            if number == 0 { (answer.status, answer.headers) = (416, ["Content-Range": "bytes */0"]) }
        }
        try Self.fetch(origin) { result, fixture in
            Self.expectWhole(result, fixture, [])
            #expect(origin.requests.count == 2)
        }
    }

    /// Property that makes a server unfit for parts.
    enum Unfit: CaseIterable {
        case ignoresRanges, noTag, weakTag, encoded, chunked, noTotal
    }

    @Test("a server without ranges is asked for one stream in one request", arguments: Unfit.allCases)
    func oneStream(unfit: Unfit) throws {
        let tag = unfit == .noTag ? nil : unfit == .weakTag ? "W/\"one\"" : "\"one\""
        let origin = try RangeOrigin(bytes, tag: tag) { answer, _, _ in
            switch unfit {
            case .noTag, .weakTag: break
            case .ignoresRanges:
                answer.status = 200
                answer.headers["Content-Range"] = nil
            case .encoded: answer.headers["Content-Encoding"] = "zstd"
            case .chunked:
                answer.status = 200
                answer.headers["Content-Range"] = nil
                answer.headers["Transfer-Encoding"] = "chunked"
            case .noTotal:
                if answer.status == 206 { answer.headers["Content-Range"] = "bytes 0-\(size - 1)/*" }
            }
        }
        try Self.fetch(origin) { result, fixture in
            Self.expectWhole(result, fixture)
            // Without its length a range proves nothing; then the whole is asked for.
            #expect(origin.requests.count == (unfit == .noTotal ? 2 : 1))
        }
    }

    @Test("later requests that are refused leave everything to the first stream", arguments: [429, 503, 403])
    func refused(status: Int) throws {
        let others = Countdown(3)
        let origin = try RangeOrigin(bytes) { answer, _, number in
            if number > 0 { (answer.status, answer.body) = (status, [1, 2, 3]) }
            Self.holdFirst(&answer, number, until: others)
        }
        try Self.fetch(origin) { result, fixture in
            Self.expectWhole(result, fixture)
            #expect((2...4).contains(origin.requests.count))
        }
    }

    /// Wrong answer of a server to a range.
    enum Lie: CaseIterable {
        case shiftedStart, otherTotal, longerRange, whole, otherTag, multipart, nothing
    }

    @Test(
        "a response that is not exactly the requested range costs only that request",
        arguments: Lie.allCases)
    func lies(lie: Lie) throws {
        let origin = try RangeOrigin(bytes) { answer, asked, _ in
            guard let range = asked.range, range.lowerBound > 0 else { return }
            let (first, last) = (range.lowerBound, range.upperBound - 1)
            switch lie {
            case .shiftedStart: answer.headers["Content-Range"] = "bytes \(first - 1)-\(last - 1)/\(size)"
            case .otherTotal: answer.headers["Content-Range"] = "bytes \(first)-\(last)/\(size + 1)"
            case .longerRange: answer.headers["Content-Range"] = "bytes \(first)-\(size - 1)/\(size)"
            case .whole: (answer.status, answer.body) = (200, bytes[...])
            case .otherTag: answer.headers["ETag"] = "\"two\""
            case .multipart: answer.headers["Content-Type"] = "multipart/byteranges; boundary=x"
            case .nothing: answer.headers["Content-Range"] = nil
            }
        }
        try Self.fetch(origin) { result, fixture in
            Self.expectWhole(result, fixture, bytes, "\(lie)")
            #expect(origin.requests.count <= fixture.most(12), "\(lie)")
        }
    }

    @Test("responses shorter than requested are used; too many of them fail the source")
    func shortAnswers() throws {
        let origin = try RangeOrigin(bytes) { answer, asked, _ in
            guard let range = asked.range, range.count > 1_200_000 else { return }
            let end = range.lowerBound + 1_200_000
            answer.body = bytes[range.lowerBound..<end]
            answer.headers["Content-Range"] = "bytes \(range.lowerBound)-\(end - 1)/\(size)"
        }
        try Self.fetch(origin) { result, fixture in
            Self.expectWhole(result, fixture)
            #expect(origin.requests.count <= fixture.most(30))
        }
        let miser = try RangeOrigin(bytes) { answer, asked, number in
            guard let range = asked.range else { return }
            answer.body = bytes[range.lowerBound..<(range.lowerBound + 1)]
            answer.headers["Content-Range"] = "bytes \(range.lowerBound)-\(range.lowerBound)/\(size)"
        }
        try Self.fetch(miser) { result, _ in
            #expect(result.failure?.code == .incompleteBody)
            #expect(result.failure?.isRetryable == true)
            #expect(miser.requests.count <= 40)
        }
    }

    @Test("a part that is cut is requested again from where it ended")
    func cut() throws {
        let origin = try RangeOrigin(bytes) { answer, _, number in
            if number % 2 == 1, number < 6 { answer.cutAfter = 300_000 }
        }
        try Self.fetch(origin) { result, fixture in
            Self.expectWhole(result, fixture)
            #expect(origin.requests.count <= fixture.most(16))
            #expect(origin.requests.dropFirst().allSatisfy { $0.ifRange == "\"one\"" })
        }
    }

    @Test("a server that cuts every answer after 64 KiB is completed in one attempt")
    func alwaysCut() throws {
        let origin = try RangeOrigin(bytes) { answer, _, _ in answer.cutAfter = 64 << 10 }
        try Self.fetch(origin) { result, fixture in
            Self.expectWhole(result, fixture)
            #expect(origin.requests.count >= size / (64 << 10))
        }
    }

    @Test("a server that sends no byte fails the attempt after a bounded number of requests")
    func neverSends() throws {
        let origin = try RangeOrigin(bytes) { answer, _, _ in answer.cutAfter = 0 }
        try Self.fetch(origin) { result, fixture in
            #expect(result.failure?.code == .incompleteBody)
            #expect(result.failure?.isRetryable == true && result.failure?.cost == .attempt)
            #expect(origin.requests.count <= 16)
            #expect(eventually { fixture.files().isEmpty })
        }
    }

    /// Sends no byte of the first answer's body before the client has turned the other three answers down,
    /// which the close of their connections shows. Sooner the first stream could reach the end of its own
    /// part, and would end there.
    static func holdFirst(_ answer: inout RangeOrigin.Answer, _ number: Int, until others: Countdown) {
        if number == 0 {
            answer.halfway = (after: 0, body: { others.wait() })
        } else {
            answer.whenClosed = { others.arrive() }
        }
    }

    @Test("wrong bytes in a part are found by the digest of the whole")
    func wrongBytes() throws {
        let origin = try RangeOrigin(bytes) { answer, _, number in
            if number >= 2 { answer.body = patternBytes(answer.body.count, seed: 9)[...] }
        }
        try Self.fetch(origin, { $0.spec.integrity.sha256 = sha256(bytes) }) { result, fixture in
            #expect(result.failure?.code == .digestMismatch)
            #expect(eventually { fixture.files().isEmpty })
        }
    }

    @Test("the job's own speed limit holds for all parts together")
    func pace() throws {
        let some = Array(bytes.prefix(4 << 20))
        let origin = try RangeOrigin(some)
        let start = monotonicNanoseconds()
        try Self.fetch(origin, { $0.spec.bytesPerSecondMax = 4 << 20 }) { result, fixture in
            Self.expectWhole(result, fixture, some)
            #expect(monotonicNanoseconds() - start > 800_000_000)
        }
    }

    @Test("cancelling closes all connections and removes the file, and so does a drain")
    func cancel() throws {
        for isCancelled in [true, false] {
            let running = Signal<Void>()
            let gate = Gate()
            let origin = try RangeOrigin(bytes) { answer, _, _ in
                answer.halfway = (
                    after: 50_000,
                    body: {
                        running.fire(())
                        _ = gate.pass()
                    }
                )
            }
            defer { origin.stop() }
            defer { gate.open() }
            let fixture = try Fixture()
            defer { fixture.stop() }
            let attempt = fixture.attempt(.download, origin.url) {
                $0.to("file")
                $0.spec.segmentCountMax = 4
            }
            fixture.engine.begin([attempt])
            #expect(running.wait(for: 4).count == 4)
            if isCancelled {
                fixture.engine.stop(attempt.job, .cancel)
            } else {
                fixture.engine.drain(seconds: 0)
            }
            let result = try #require(fixture.sink.arrived.wait().first)
            #expect(isCancelled ? result.isCancelled : result.isReleased)
            if !isCancelled { fixture.engine.removePartialFiles(of: [attempt.job]) }
            #expect(eventually { fixture.files().isEmpty })
        }
    }

    @Test("a part without a byte for the request's timeout is asked for again")
    func idle() throws {
        let stuck = Signal<Void>()
        let origin = try RangeOrigin(bytes) { answer, _, number in
            if number == 1 { answer.halfway = (after: 100_000, body: { _ = stuck.wait(seconds: 600) }) }
        }
        defer { stuck.fire(()) }
        let fixture = try Fixture()
        defer { fixture.stop() }
        let result = try #require(
            fixture.run(.download, origin.url) {
                $0.to("file")
                $0.spec.segmentCountMax = 4
                $0.spec.request.timeoutForRequest = 3
            })
        Self.expectWhole(result, fixture)
        stuck.fire(())
        origin.stop()
    }

    @Test("the first part follows redirects, and the others go where they led")
    func redirect() throws {
        let target = try RangeOrigin(bytes)
        let targetURL = target.url
        let first = try ScriptedOrigin.answering { _, _ in
            Array("HTTP/1.1 302 Found\r\nLocation: \(targetURL)\r\nContent-Length: 0\r\n\r\n".utf8)
        }
        defer { first.stop() }
        let fixture = try Fixture()
        defer { fixture.stop() }
        let result = try #require(
            fixture.run(.download, first.url + "/x") {
                $0.to("file")
                $0.spec.segmentCountMax = 4
            })
        Self.expectWhole(result, fixture)
        #expect(result.response?.url == target.url)
        #expect(first.requests.count == 1 && target.requests.count >= 4)
        target.stop()
    }

    @Test("every part answers a Digest challenge by itself")
    func digest() throws {
        let some = Array(bytes.prefix(3 << 20))
        let origin = try DigestOrigin("MD5") { request, _ in RangeOrigin.answer(to: request, some) }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        let result = try #require(
            fixture.run(.download, origin.url + "/x") {
                $0.to("file")
                $0.authenticate(.digest)
                $0.spec.segmentCountMax = 2
            })
        Self.expectWhole(result, fixture, some)
        #expect(origin.seen.count { $0.isAuthorized } >= 2)
    }

    @Test("under random faults a file is right or its error clear, in a bounded number of requests")
    func chaos() throws {
        let some = Array(bytes.prefix(3 << 20))
        for seed in 0..<12 {
            let random = Mutex(SeededRandom(seed: UInt64(seed)))
            let origin = try RangeOrigin(some) { answer, asked, _ in
                let (fault, cut) = random.withLock { ($0.next() % 12, Int($0.next() % 1_500_000)) }
                switch fault {
                case 0, 1: answer.cutAfter = cut
                case 2: (answer.status, answer.body) = (503, [])
                case 3: answer.headers["Content-Range"] = "bytes 5-6/7"
                case 4: (answer.status, answer.body) = (200, some[...])
                case 5: answer.headers["ETag"] = nil
                case 6: answer.pause = 500
                default: break
                }
            }
            try Self.fetch(origin, segments: 6, { $0.spec.integrity.sha256 = sha256(some) }) {
                result, fixture in
                if result.success == nil {
                    #expect(result.failure?.isRetryable == true, "seed \(seed)")
                    #expect(eventually { fixture.files().isEmpty })
                } else {
                    Self.expectWhole(result, fixture, some, "seed \(seed)")
                }
                #expect(origin.requests.count <= 100, "seed \(seed)")
            }
        }
    }
}
