import FerryCore
import FerryEngine
import Sys
import TestSupport
import TestThreads
import Testing

/// Servers that are slow, broken, lying or odd.
@Suite(.serialized, .onOwnThread) struct OriginTests {
    private static func answer(_ text: String, keepsOpen: Bool = false) throws -> ScriptedOrigin {
        try ScriptedOrigin { connection in
            _ = connection.readRequest()
            connection.send(text.replacing("\n", with: "\r\n"))
            if keepsOpen { _ = connection.waitUntilClosed() }
        }
    }

    private static func run(
        _ origin: ScriptedOrigin, _ kind: JobKind = .download, path: String = "/",
        _ change: (inout Draft) -> Void = { _ in }
    ) throws -> AttemptResult {
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        let ended = fixture.run(kind, origin.url + path, change)
        let result = try #require(ended)
        #expect(eventually { fixture.files().allSatisfy { !$0.contains(".part") } })
        return result
    }

    @Test("a cut body, by length or by chunks, is incomplete_body and retried")
    func cut() throws {
        for text in [
            "HTTP/1.1 200 OK\nContent-Length: 100\n\nabc",
            "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n5\nab",
        ] {
            let error = try #require(try Self.run(try Self.answer(text)).failure)
            #expect(error.code == .incompleteBody)
            #expect(error.phase == .receiving && error.isRetryable)
        }
    }

    @Test("chunked bodies with trailers are complete; bodies that end with the connection are not verified")
    func framing() throws {
        let chunked = try Self.run(
            try Self.answer("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n3\nabc\n0\nX-Trailer: 1\n\n"))
        #expect(chunked.success?.size == 3 && chunked.success?.verified == .length)
        #expect(chunked.response?.headers.count == 1)
        let open = try Self.run(try Self.answer("HTTP/1.0 200 OK\n\nabcd"))
        #expect(open.success?.size == 4 && open.success?.verified == TransferResult.Verification.none)
    }

    @Test("bytes beyond the announced length are not stored")
    func surplus() throws {
        #expect(
            try Self.run(try Self.answer("HTTP/1.1 200 OK\nContent-Length: 3\n\nabcdef")).success?.size == 3)
    }

    @Test(
        "a response that is not HTTP is response_invalid",
        arguments: [
            "SSH-2.0-OpenSSH\n", "HTTP/1.1 200 OK\nContent-Length : 0\n\n",
            "HTTP/1.1 200 OK\nContent-Length: 0\n 0\n\n",
        ])
    func garbage(text: String) throws {
        #expect(try Self.run(try Self.answer(text)).failure?.code == .responseInvalid)
    }

    @Test(
        "a head that libcurl rejects fails with the rule, and is not tried again",
        arguments: [
            ("SSH-2.0-OpenSSH\n", "RFC 9112 §4"), ("HTTP/1.1 20 OK\n\n", "RFC 9112 §4"),
            ("HTTP/1.1 2000 OK\n\n", "RFC 9112 §4"), ("HTTP/7.1 200 OK\n\n", "RFC 9112 §4"),
            ("HTTP/1.1 200 OK\nnothing\n\n", "no colon (RFC 9112 §5)"),
            ("HTTP/1.1 200 OK\nX: a\u{0}b\n\n", "NUL (RFC 9110 §5.5)"),
            ("HTTP/1.1 200 OK\n folded: x\nContent-Length: 0\n\n", "RFC 9112 §2.2"),
            ("HTTP/1.1 200 OK\nContent-Length: -1\n\n", "RFC 9112 §6.3"),
            ("HTTP/1.1 200 OK\nContent-Length:\n\n", "RFC 9112 §6.3"),
            ("HTTP/1.1 200 OK\nContent-Length: abc\n\n", "RFC 9112 §6.3"),
        ])
    func rules(text: String, rule: String) throws {
        for segments in [1, 2] {
            let error = try #require(
                try Self.run(try Self.answer(text)) { $0.spec.segmentCountMax = segments }.failure)
            #expect(error.code == .responseInvalid && !error.isRetryable && error.phase == .waiting)
            #expect(
                error.message.contains("The server's answer is not HTTP.") && error.message.contains(rule))
        }
    }

    @Test(
        "chunks win over a length that is no number, in this response only",
        arguments: ["abc", "-1", "", "5, x"])
    func lengthBesideChunks(length: String) throws {
        let chunked = "Transfer-Encoding: chunked\nContent-Length: \(length)\n\n3\nabc\n0\n\n"
        #expect(try Self.run(try Self.answer("HTTP/1.1 200 OK\n" + chunked)).success?.size == 3)
        let interim = "HTTP/1.1 103 x\nTransfer-Encoding: chunked\n\n"
        let plain = interim + "HTTP/1.1 200 OK\nContent-Length: 3\n\nabcdef"
        #expect(try Self.run(try Self.answer(plain, keepsOpen: true)).success?.size == 3)
    }

    @Test("a head beyond its limit is too large")
    func largeHead() throws {
        let text = "HTTP/1.1 200 OK\nX: " + String(repeating: "x", count: 70_000) + "\n\n"
        let error = try #require(try Self.run(try Self.answer(text)).failure)
        #expect(error.code == .responseTooLarge && error.phase == .waiting && !error.isRetryable)
    }

    @Test("a connection that ends without a response is connection_lost in its phase")
    func noAnswer() throws {
        let origin = try ScriptedOrigin { _ = $0.readRequest() }
        let error = try #require(try Self.run(origin).failure)
        #expect(error.code == .connectionLost && error.phase == .waiting && error.isRetryable)
    }

    @Test("a closed port is could_not_connect")
    func refused() throws {
        let fixture = try Fixture()
        defer { fixture.stop() }
        let error = try #require(fixture.run(.download, "http://127.0.0.1:\(try FreePort.find())/")?.failure)
        #expect(error.code == .couldNotConnect && error.phase == .connecting && error.isRetryable)
    }

    @Test("a host name that does not exist is host_not_found")
    func unknownHost() throws {
        let fixture = try Fixture()
        defer { fixture.stop() }
        let error = try #require(fixture.run(.download, "http://ferry.invalid/")?.failure)
        #expect(error.code == .hostNotFound && error.phase == .resolving && error.isRetryable)
    }

    /// Place at which a server drips: at its head's lines, or its body's bytes.
    enum Place: CaseIterable { case head, body }

    /// Sends a piece every 100 ms, so many or until the other end leaves; a body of as many bytes is then
    /// whole. `pauses`: how long it was silent before each, the first time from now on; nanoseconds.
    private static func dripping(
        _ place: Place, count: Int = 100_000, left: Signal<Void> = Signal(), pauses: Signal<Int64>
    ) throws -> ScriptedOrigin {
        let began = monotonicNanoseconds()
        return try ScriptedOrigin { connection in
            var last = began
            _ = connection.readRequest()
            let start = "HTTP/1.1 200 OK\r\nContent-Length: \(count)\r\n"
            let body = String(repeating: "b", count: count)
            connection.send(place == .head ? start : start + "\r\n")
            for _ in 0..<count {
                let isLeft = connection.waitUntilClosed(milliseconds: 100)
                let now = monotonicNanoseconds()
                pauses.fire(now - last)
                last = now
                guard !isLeft else { return left.fire(()) }
                connection.send(place == .head ? "X-Drip: 1\r\n" : "b")
            }
            if place == .head { connection.send("\r\n" + body) }
        }
    }

    @Test("a slow drip of bytes does not time out", arguments: Place.allCases)
    func drip(place: Place) throws {
        let (began, pauses) = (monotonicNanoseconds(), Signal<Int64>())
        let result = try Self.run(try Self.dripping(place, count: 55, pauses: pauses)) {
            $0.spec.request.timeoutForRequest = 4
        }
        // Only a thread that was not scheduled for so long causes a timeout.
        let longest = pauses.wait(seconds: 0).max() ?? 0
        guard result.success?.size == 55 else {
            #expect(result.failure?.code == .timedOut && longest > 3_000_000_000, "\(result), \(longest)")
            return
        }
        #expect(monotonicNanoseconds() - began > 5_000_000_000, "more than the timeout")
    }

    @Test("an endless drip ends with the job's resource timeout", arguments: Place.allCases)
    func endlessDrip(place: Place) throws {
        let (left, pauses) = (Signal<Void>(), Signal<Int64>())
        let origin = try Self.dripping(place, left: left, pauses: pauses)
        let error = try #require(
            try Self.run(origin) {
                $0.spec.request.timeoutForRequest = 60
                $0.spec.schedule.timeoutForResource = 4
            }.failure)
        #expect(error.code == .resourceTimeout && !error.isRetryable)
        #expect(error.phase == (place == .head ? .waiting : .receiving))
        #expect(left.wait(for: 1).count == 1)
        #expect(pauses.wait(seconds: 0).count > 1, "it dripped")
    }

    @Test("an endless header line times out")
    func endlessLine() throws {
        let origin = try ScriptedOrigin { connection in
            _ = connection.readRequest()
            connection.send("HTTP/1.1 200 OK\r\nX-Drip: ")
            while !connection.waitUntilClosed(milliseconds: 100) { connection.send("x") }
        }
        let error = try #require(try Self.run(origin) { $0.spec.request.timeoutForRequest = 1 }.failure)
        #expect(error.code == .timedOut && error.phase == .waiting && error.isRetryable)
    }

    @Test("an attempt without a byte ends after the request's timeout")
    func stall() throws {
        let silent = try Self.answer("HTTP/1.1 200 OK\nContent-Length: 9\n\nabc", keepsOpen: true)
        let error = try #require(try Self.run(silent) { $0.spec.request.timeoutForRequest = 5 }.failure)
        #expect(error.code == .timedOut && error.phase == .receiving && error.isRetryable)
    }

    @Test("the job's resource timeout ends the attempt without a retry")
    func resourceTimeout() throws {
        let silent = try Self.answer("HTTP/1.1 200 OK\nContent-Length: 9\n\nabc", keepsOpen: true)
        let error = try #require(try Self.run(silent) { $0.spec.schedule.timeoutForResource = 0.5 }.failure)
        #expect(error.code == .resourceTimeout && !error.isRetryable)
    }

    @Test(
        "failures that may pass are retried, and every one with Retry-After but a challenge",
        arguments: [
            (400, false), (401, false), (404, false), (408, true), (410, false), (425, true), (429, true),
            (500, true), (501, false), (503, true), (522, true),
        ])
    func statuses(status: Int, mayPass: Bool) throws {
        for retryAfter in ["", "Retry-After: 7\n"] {
            try Self.expect(
                status, retryAfter, isRetryable: mayPass || !retryAfter.isEmpty && status != 401)
        }
    }

    private static func expect(_ status: Int, _ retryAfter: String, isRetryable: Bool) throws {
        let text = "HTTP/1.1 \(status) No\n\(retryAfter)Content-Length: 2\n\nno"
        let result = try Self.run(try Self.answer(text))
        #expect(result.failure?.code == (status == 401 ? .authenticationRequired : .unacceptableStatus))
        #expect(result.failure?.isRetryable == isRetryable)
        #expect(result.retryAfter == (isRetryable && !retryAfter.isEmpty ? 7 : nil))
        #expect(result.response?.status == status)
    }

    @Test("a POST that may have reached the server is not repeated unless the job says so")
    func nonIdempotent() throws {
        for (repeats, expected) in [(false, false), (true, true)] {
            let origin = try ScriptedOrigin { _ = $0.readRequest() }
            let result = try Self.run(origin, .data) {
                $0.spec.request.method = "POST"
                $0.payload = [1]
                $0.spec.retry.repeatsNonIdempotent = repeats
            }
            #expect(result.failure?.isRetryable == expected)
        }
    }

    @Test("a data job succeeds with any status, its body in memory, or in a file when it is long")
    func data() throws {
        let small = try Self.run(
            try Self.answer("HTTP/1.1 404 No\nContent-Type: application/json\nContent-Length: 2\n\n{}"), .data
        )
        #expect(small.success?.body == Array("{}".utf8))
        #expect(small.success?.sha256 == sha256(Array("{}".utf8)))
        #expect(small.response?.mimeType == "application/json")
        let bytes = patternBytes(Limits.inlineBodyByteCountMax + 1)
        let origin = try ScriptedOrigin.answering { _, _ in
            Array("HTTP/1.1 200 OK\r\nContent-Length: \(bytes.count)\r\n\r\n".utf8) + bytes
        }
        let long = try Self.run(origin, .data)
        #expect(long.success?.body == nil && long.success?.location == .managedFile)
        #expect(long.success?.sha256 == sha256(bytes))
    }

    @Test("a data job sends its payload with the type of its form, secrets included")
    func payload() throws {
        let origin = try ScriptedOrigin.answering { _, body in
            Array("HTTP/1.1 200 OK\r\nContent-Length: \(body.count)\r\n\r\n".utf8) + body
        }
        let result = try Self.run(origin, .data) {
            $0.spec.request.method = "POST"
            $0.spec.request.body = .init(form: .json, byteCount: 2)
            $0.payload = Array("{}".utf8)
            $0.spec.request.headers = [.init("Authorization", ""), .init("X-Test", "1")]
            $0.secrets.headers = [.init("Authorization", "Bearer s")]
        }
        #expect(result.success?.body == Array("{}".utf8))
        let request = try #require(origin.requests.first)
        #expect(request.method == "POST")
        #expect(request.header("content-type") == "application/json")
        #expect(request.header("authorization") == "Bearer s")
        #expect(request.header("x-test") == "1")
        #expect(request.header("user-agent") == "ferry-test")
        #expect(request.header("accept-encoding") == "identity")
    }

    @Test("a repeatable request survives a dead kept connection within its attempt")
    func deadConnections() throws {
        // Every connection serves one request with a promise to stay, and goes at the next one.
        let origin = try ScriptedOrigin { connection in
            guard connection.readRequest() != nil else { return }
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")
            _ = connection.readRequest()
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        for _ in 0..<4 { #expect(fixture.run(.data, origin.url)?.success != nil) }
        #expect(origin.connectionCount == 4)
    }
}
