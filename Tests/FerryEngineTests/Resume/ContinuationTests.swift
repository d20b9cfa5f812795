import FerryCore
import TestSupport
import TestThreads
import Testing

@testable import FerryEngine

private let bytes = patternBytes(1_000_000, seed: 51)
private let others = patternBytes(1_000_000, seed: 52)
private let dates = [
    "Last-Modified": "Sun, 06 Nov 1994 08:49:37 GMT", "Date": "Sun, 06 Nov 1994 08:49:39 GMT",
]

/// One attempt at a server that stops too early, or that answers ranges oddly.
@Suite(.serialized, .onOwnThread) struct ContinuationTests {
    private typealias Change = @Sendable (inout RangeOrigin.Answer, RangeOrigin.Asked, Int) -> Void

    /// Runs one attempt at an origin whose answers `change` changes.
    private static func attempt(
        segments: Int = 1, _ change: @escaping Change, _ draft: (inout Draft) -> Void = { _ in }
    ) throws -> (result: AttemptResult, requests: [RangeOrigin.Asked], file: [UInt8]?) {
        let origin = try RangeOrigin(bytes, change)
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        let result = try #require(
            fixture.run(.download, origin.url) {
                $0.to("file")
                $0.spec.segmentCountMax = segments
                draft(&$0)
            })
        return (result, origin.requests, readFile(fixture.root + "/file"))
    }

    /// Ignores the range that was asked for.
    private static func makeWhole(_ answer: inout RangeOrigin.Answer) {
        (answer.status, answer.body, answer.headers["Content-Range"]) = (200, bytes[...], nil)
    }

    /// The first byte that each request asks for; `nil` for the whole file.
    private static func starts(_ requests: [RangeOrigin.Asked]) -> [Int?] {
        requests.map { $0.range?.lowerBound }
    }

    @Test(
        "a server that cuts every answer is completed in one attempt", arguments: [1, 4], [64 << 10, 300_000])
    func cuts(segments: Int, size: Int) throws {
        let (result, requests, file) = try Self.attempt(segments: segments) { answer, _, _ in
            answer.cutAfter = size
        }
        #expect(file == bytes && result.success?.sha256 == sha256(bytes))
        #expect(requests.count == (bytes.count + size - 1) / size)
        let log = result.trace?.transactions
        #expect((log?.count ?? 0) + (log?.omittedCount ?? 0) == requests.count)
    }

    @Test("a body that is in memory is continued after a cut, from its validator on")
    func inMemory() throws {
        let short = Array(bytes.prefix(2_000))
        let origin = try RangeOrigin(short) { answer, _, number in if number == 0 { answer.cutAfter = 900 } }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        let result = try #require(
            fixture.run(.download, origin.url) {
                $0.to("file")
                $0.spec.retry.delayInitial = 0.01
            })
        #expect(result.success?.sha256 == sha256(short) && readFile(fixture.root + "/file") == short)
        #expect(Self.starts(origin.requests) == [nil, 900])
    }

    @Test(
        "a server that answers each range with at most 100 kB is completed in one attempt", arguments: [1, 4])
    func capped(segments: Int) throws {
        let (result, requests, file) = try Self.attempt(segments: segments) { answer, asked, number in
            guard let range = asked.range else {
                answer.cutAfter = 100_000
                return
            }
            let part = range.lowerBound..<min(range.upperBound, range.lowerBound + 100_000)
            answer.headers["Content-Range"] = "bytes \(part.lowerBound)-\(part.upperBound - 1)/\(bytes.count)"
            answer.body = bytes[part]
        }
        #expect(file == bytes && result.success != nil && requests.count == 10)
    }

    @Test("few bytes at a time are continued after growing delays, and then by a later attempt")
    func smallSteps() throws {
        let (result, requests, _) = try Self.attempt({ answer, _, _ in answer.cutAfter = 20_000 }) {
            $0.spec.retry.delayInitial = 0.01
            $0.spec.retry.multiplier = 10
            $0.spec.retry.delayMax = 100
        }
        // 0.01 s, 0.1 s and 1 s in the slot; not 10 s.
        #expect(result.failure?.code == .incompleteBody && requests.count == 4)
        #expect(result.failure?.cost == .reset && result.partialDownload?.byteCount == 80_000)
    }

    @Test(
        "after a refused range the whole file is requested; if that fails too, the bytes stay",
        arguments: [1, 4], [400, 403, 404, 405, 412, 416, 500, 501])
    func refused(segments: Int, status: Int) throws {
        for wholeIsRefused in [false, true] {
            let (result, requests, file) = try Self.attempt(segments: segments) { answer, asked, number in
                if number == 0 {
                    answer.cutAfter = 300_000
                } else if wholeIsRefused || asked.range != nil {
                    (answer.status, answer.headers, answer.body) = (status, [:], [])
                }
            }
            if wholeIsRefused {
                #expect(result.failure?.code == .unacceptableStatus && result.response != nil)
                #expect(result.partialDownload?.byteCount == 300_000)
            } else {
                #expect(file == bytes && result.success != nil, "\(result.outcome)")
            }
            #expect(Self.starts(requests).prefix(3) == [segments == 1 ? nil : 0, 300_000, nil])
        }
    }

    /// Behavior of the server after its first answer was cut.
    enum Oddity: CaseIterable {
        case early, earlyOther, ignoresCondition, exactLength, weak, gzip, date, star, otherTotal, silentTag
    }

    @Test(
        "odd answers to a range lead to the exact file in one or two more requests",
        arguments: Oddity.allCases)
    func odd(_ oddity: Oddity) throws {
        let (result, requests, file) = try Self.attempt { answer, asked, number in
            if oddity == .gzip { answer.headers["Content-Encoding"] = "x-gzip" }
            if oddity == .date {
                answer = RangeOrigin.proper(bytes, nil, asked.unconditional)
                answer.headers.merge(dates) { $1 }
            }
            guard number > 0 else {
                answer.cutAfter = 300_000
                return
            }
            guard asked.range != nil else {
                if oddity == .earlyOther { (answer.body, answer.headers["ETag"]) = (others[...], "\"two\"") }
                return
            }
            switch oddity {
            case .early, .earlyOther:
                let isOther = oddity == .earlyOther
                (answer.body, answer.headers["ETag"]) =
                    isOther ? (others[...], "\"two\"") : (bytes[...], "\"one\"")
                answer.headers["Content-Range"] = "bytes 0-\(bytes.count - 1)/\(bytes.count)"
            case .ignoresCondition: if asked.ifRange != nil { Self.makeWhole(&answer) }
            case .exactLength:
                (answer.status, answer.body) = (416, [])
                answer.headers["Content-Range"] = "bytes */\(bytes.count)"
            case .weak: answer.headers["ETag"] = "W/\"one\""
            case .silentTag: answer.headers["ETag"] = nil
            case .star: answer.headers["Content-Range"]?.replace("/\(bytes.count)", with: "/*")
            case .otherTotal: answer.headers["Content-Range"]?.replace("/\(bytes.count)", with: "/2000000")
            case .gzip, .date: break
            }
        }
        #expect(file == (oddity == .earlyOther ? others : bytes), "\(result.outcome)")
        let rest: [Int?] =
            switch oddity {
            case .early, .gzip, .date, .star: []
            case .ignoresCondition: [300_000]
            case .earlyOther, .exactLength, .weak, .otherTotal, .silentTag: [nil]
            }
        #expect(Self.starts(requests) == [nil, 300_000] + rest)
    }

    @Test(
        "joined bytes that a digest finds wrong are fetched again once, and never published",
        arguments: [1, 4])
    func wrongJoint(segments: Int) throws {
        for isHopeless in [false, true] {
            let (result, requests, file) = try Self.attempt(segments: segments) { answer, asked, number in
                if number == 0 { answer.cutAfter = 300_000 }
                let isRest = asked.range.map { $0.lowerBound > 0 } ?? false
                if isRest || isHopeless && number > 0 {
                    answer.body = others[answer.body.startIndex..<answer.body.endIndex]
                }
            } _: {
                $0.spec.integrity.sha256 = sha256(bytes)
            }
            #expect(isHopeless ? file == nil : file == bytes, "\(result.outcome)")
            #expect(result.failure?.code == (isHopeless ? .digestMismatch : nil))
            #expect(requests.count <= 6)
        }
    }

    @Test("with a digest, a file continues although each back end has another tag")
    func backEnds() throws {
        let (result, _, file) = try Self.attempt { answer, asked, number in
            answer = RangeOrigin.proper(bytes, "\"\(number)\"", asked.unconditional)
            if asked.ifRange != nil { Self.makeWhole(&answer) }
            answer.cutAfter = 300_000
        } _: {
            $0.spec.integrity.sha256 = sha256(bytes)
        }
        #expect(file == bytes && result.success?.verified == .digest, "\(result.outcome)")
    }

    @Test("a file whose tag changes with each answer is fetched anew and fails, instead of mixing")
    func changing() throws {
        let (result, requests, file) = try Self.attempt { answer, asked, number in
            answer = RangeOrigin.proper(bytes, "\"\(number)\"", asked.unconditional)
            answer.cutAfter = 100_000
        }
        #expect(result.failure?.code == .incompleteBody && file == nil)
        #expect(Self.starts(requests) == [nil, 100_000, nil])
    }

    @Test("behind a redirect, the job's own URL is requested again: what it leads to may have expired")
    func redirect() throws {
        let tally = Tally()
        let origin = try ScriptedOrigin { connection in
            while let request = connection.readRequest() {
                if request.path == "/file" {
                    let place = "/signed/\(tally.next("place"))"
                    connection.send("HTTP/1.1 302 F\r\nLocation: \(place)\r\nContent-Length: 0\r\n\r\n")
                } else if tally.next(request.path) > 0 {
                    connection.send("HTTP/1.1 403 Expired\r\nContent-Length: 0\r\n\r\n")
                } else {
                    let answer = RangeOrigin.answer(to: request, bytes)
                    connection.send(Array(answer.prefix(400_000)))
                    return
                }
            }
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        let result = fixture.run(.download, origin.url + "/file") { $0.to("file") }
        #expect(result?.success?.sha256 == sha256(bytes))
        #expect(origin.requests.count == 6)
    }

    @Test(
        "a range that is answered with a status without a file is followed by a request for the whole",
        arguments: [1, 4], [204, 205, 300, 302, 304, 404])
    func rangeWithoutFile(segments: Int, status: Int) throws {
        let (result, _, file) = try Self.attempt(segments: segments) { answer, asked, number in
            if number == 0 { answer.cutAfter = 500_000 }
            guard number > 0, asked.range != nil else { return }
            (answer.status, answer.body, answer.headers["Content-Range"]) = (status, [], nil)
        }
        #expect(file == bytes && result.success != nil, "\(result.outcome)")
    }

    @Test(
        "a part with the status 200 is not taken for the file", arguments: [1, 4],
        [["ETag"], ["Content-Range"], ["ETag", "Content-Range"]])
    func partAsWhole(segments: Int, fields: [String]) throws {
        let (result, _, file) = try Self.attempt(segments: segments) { answer, asked, number in
            if number == 0 { answer.cutAfter = 500_000 }
            guard asked.range?.lowerBound ?? 0 > 0 else { return }
            answer.status = 200
            for field in ["ETag", "Content-Range"] where !fields.contains(field) {
                answer.headers[field] = nil
            }
        }
        #expect(file == bytes && result.success != nil, "\(result.outcome)")
    }

    @Test("a GET that a POST was redirected to waits for Retry-After, and the POST is sent once")
    func outcomeOfPost() throws {
        let tally = Tally()
        let origin = try ScriptedOrigin.answering { request, _ in
            if request.method == "POST" {
                return Array("HTTP/1.1 303 x\r\nLocation: /end\r\nContent-Length: 0\r\n\r\n".utf8)
            }
            let isFirst = tally.next("end") == 0
            let head = isFirst ? "429 Slow\r\nRetry-After: 1" : "200 OK"
            return Array("HTTP/1.1 \(head)\r\nContent-Length: 0\r\n\r\n".utf8)
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        let result = fixture.run(.upload, origin.url) {
            $0.spec.request.method = "POST"
            $0.payload = [1, 2, 3]
            $0.spec.source = .inline(.init(form: .base64, byteCount: 3))
        }
        #expect(result?.success != nil, "\(String(describing: result?.outcome))")
        #expect(origin.requests.map(\.method) == ["POST", "GET", "GET"])
    }

    @Test("a connection below low_speed_limit is given up after low_speed_time", arguments: [1, 4])
    func lowSpeed(segments: Int) throws {
        let (result, requests, file) = try Self.attempt(segments: segments) { answer, _, number in
            // 80 kB a second.
            if number == 0 { answer.pause = 200_000 }
        } _: {
            $0.spec.lowSpeed = LowSpeed(bytesPerSecond: 1_000_000, seconds: 2)
        }
        #expect(file == bytes && result.success != nil, "\(result.outcome)")
        #expect(requests.count > 1)
    }

    @Test("the rate of a connection counts as curl counts it, without the time that Ferry held it back")
    func lowSpeedRule() {
        var watch = LowSpeedWatch(LowSpeed(bytesPerSecond: 100), LowSpeed(seconds: 3))
        func errors(_ counts: [Int], isPaused: Bool = false) -> [Bool] {
            counts.map { count in
                watch.moved(count)
                return watch.secondPassed(1, isPaused: isPaused, .receiving) != nil
            }
        }
        #expect(!errors(Array(repeating: 0, count: 29)).contains(true), "curl's 30 s if none are given")
        #expect(errors([0]) == [true])
        watch = LowSpeedWatch(LowSpeed(), LowSpeed(bytesPerSecond: 100, seconds: 3))
        #expect(errors([500, 0, 0, 0, 0]) == [false, false, false, false, false], "the average of 5 s")
        #expect(errors([0, 0, 0]) == [false, false, true])
        watch.restart()
        #expect(
            errors([0, 0]) + errors([0], isPaused: true) + errors([0, 0]) == Array(repeating: false, count: 5)
        )
        watch = LowSpeedWatch(LowSpeed(), LowSpeed())
        #expect(!errors(Array(repeating: 0, count: 1_000)).contains(true))
    }
}
