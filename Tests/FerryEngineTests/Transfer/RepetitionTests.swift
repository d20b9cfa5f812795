import FerryCore
import FerryEngine
import Glibc
import Synchronization
import Sys
import TestSupport
import TestThreads
import Testing

/// When a body goes out again, and when a request must not.
@Suite(.serialized, .onOwnThread) struct RepetitionTests {
    private static func with(
        _ script: @escaping @Sendable (OriginConnection) -> Void,
        _ body: (ScriptedOrigin, Fixture) throws -> Void
    ) throws {
        let origin = try ScriptedOrigin(script)
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        try body(origin, fixture)
    }

    private static func post(_ draft: inout Draft) {
        draft.spec.request.method = "POST"
        draft.payload = [1, 2, 3]
    }

    @Test("a failure after a POST was redirected to its outcome does not repeat the POST")
    func actedOn() throws {
        for (status, allows, expected) in [
            (503, false, false), (429, false, false), (503, true, true), (0, false, false), (0, true, true),
        ] {
            try Self.with { connection in
                while let request = connection.readRequest() {
                    _ = connection.readBody(of: request)
                    if request.method == "POST" {
                        connection.send("HTTP/1.1 303 x\r\nLocation: /end\r\nContent-Length: 0\r\n\r\n")
                    } else if status > 0 {
                        connection.send("HTTP/1.1 \(status) x\r\nContent-Length: 0\r\n\r\n")
                    } else {
                        return
                    }
                }
            } _: { origin, fixture in
                let result = fixture.run(.upload, origin.url) {
                    Self.post(&$0)
                    $0.spec.source = .inline(.init(form: .base64, byteCount: 3))
                    $0.spec.retry.repeatsNonIdempotent = allows
                    ($0.spec.retry.delayInitial, $0.spec.retry.multiplier) = (0.01, 1)
                }
                let error = try #require(result?.failure)
                #expect(error.isRetryable == expected, "\(status) \(allows): \(error)")
                #expect(origin.requests.filter { $0.method == "POST" }.count == 1)
            }
        }
    }

    @Test("a throttled result of a POST is requested again, also after more than 5 s, and the POST is not")
    func throttledResult() throws {
        for (waits, isReady) in [([1, 6], true), ([0, 0, 0], false)] {
            let left = Mutex(waits)
            let origin = try ScriptedOrigin.answering { request, _ in
                if request.method == "POST" {
                    return Array("HTTP/1.1 303 x\r\nLocation: /end\r\nContent-Length: 0\r\n\r\n".utf8)
                }
                let wait = left.withLock { $0.isEmpty ? nil : $0.removeFirst() }
                let head = wait.map { "429 x\r\nRetry-After: \($0)" } ?? "200 OK"
                return Array("HTTP/1.1 \(head)\r\nContent-Length: 2\r\n\r\nok".utf8)
            }
            let fixture = try Fixture()
            defer {
                fixture.stop()
                origin.stop()
            }
            let result = fixture.run(.data, origin.url) {
                $0.spec.request.method = "POST"
                $0.spec.accept.status = ["200"]
                $0.spec.retry.attemptCountMax = 3
            }
            #expect((result?.success != nil) == isReady)
            if !isReady { #expect(result?.failure?.isRetryable == false) }
            #expect(origin.requests.map(\.method) == ["POST"] + Array(repeating: "GET", count: 3))
        }
    }

    @Test(
        "a result of a POST that is cut in its body is requested again, and the POST is not",
        arguments: [JobKind.data, .download, .upload], [2, 3])
    func cutResult(kind: JobKind, cutCount: Int) throws {
        let bytes = patternBytes(300_000)
        let left = Mutex(cutCount)
        try Self.with { connection in
            while let request = connection.readRequest() {
                _ = connection.readBody(of: request)
                if request.method == "POST" {
                    connection.send("HTTP/1.1 303 x\r\nLocation: /end\r\nContent-Length: 0\r\n\r\n")
                    continue
                }
                let isCut = left.withLock { left in
                    left -= 1
                    return left >= 0
                }
                connection.send("HTTP/1.1 200 OK\r\nETag: \"a\"\r\nContent-Length: 300000\r\n\r\n")
                connection.send(isCut ? Array(bytes.prefix(200_000)) : bytes)
                if isCut { return }
            }
        } _: { origin, fixture in
            let result = fixture.run(kind, origin.url) {
                Self.post(&$0)
                if kind == .upload { $0.spec.source = .inline(.init(form: .base64, byteCount: 3)) }
                if kind == .download { $0.to("f") }
                $0.spec.retry.attemptCountMax = 3
                ($0.spec.retry.delayInitial, $0.spec.retry.multiplier) = (0.01, 1)
            }
            #expect(origin.requests.map(\.method) == ["POST", "GET", "GET", "GET"])
            guard cutCount == 2 else {
                #expect(result?.failure?.code == .incompleteBody && result?.failure?.isRetryable == false)
                return
            }
            let received = kind == .upload ? result?.success?.content?.sha256 : result?.success?.sha256
            #expect(received == sha256(bytes), "\(String(describing: result?.failure))")
            #expect(result?.bytesReceived == Int64(bytes.count))
        }
    }

    @Test("a POST whose response cannot be stored is not repeated")
    func answerRefused() throws {
        try Self.with { connection in
            _ = connection.readRequest()
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc")
        } _: { origin, fixture in
            let result = fixture.run(.data, origin.url) {
                Self.post(&$0)
                $0.spec.integrity.sha256 = sha256([])
            }
            #expect(result?.failure?.code == .digestMismatch && result?.failure?.isRetryable == false)
        }
    }

    @Test("a POST that reached no server is retried, also after a timeout")
    func reachedNobody() throws {
        let fixture = try Fixture()
        defer { fixture.stop() }
        let url = "http://127.0.0.1:\(try FreePort.find())/"
        let refused = fixture.run(.data, url) { Self.post(&$0) }
        #expect(refused?.failure?.code == .couldNotConnect && refused?.failure?.isRetryable == true)
    }

    @Test("a POST that is stopped after it was sent is not queued again")
    func released() throws {
        let arrived = Signal<Void>()
        try Self.with { connection in
            _ = connection.readRequest()
            arrived.fire(())
            _ = connection.waitUntilClosed()
        } _: { origin, fixture in
            let attempts = [
                fixture.attempt(.data, origin.url) { Self.post(&$0) }, fixture.attempt(.data, origin.url),
            ]
            fixture.engine.begin(attempts)
            #expect(arrived.wait(for: 2).count == 2)
            fixture.engine.drain(seconds: 0)
            let results = fixture.sink.arrived.wait(for: 2)
            let post = try #require(results.first { $0.attempt.spec.request.method == "POST" })
            let get = try #require(results.first { $0.attempt.spec.request.method == "GET" })
            #expect(post.failure == .outcomeUnknown)
            #expect(get.isReleased)
        }
    }

    @Test("a POST that was sent is not suspended, and ends as if nothing had been asked")
    func suspended() throws {
        let (arrived, answers) = (Signal<Void>(), Gate())
        try Self.with { connection in
            guard let request = connection.readRequest() else { return }
            _ = connection.readBody(of: request)
            arrived.fire(())
            _ = answers.pass()
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")
        } _: { origin, fixture in
            let attempt = fixture.attempt(.data, origin.url) { Self.post(&$0) }
            fixture.engine.begin([attempt])
            #expect(arrived.wait().count == 1)
            fixture.engine.stop(attempt.job, .suspend)
            let seen = Signal<Bool>()
            fixture.engine.snapshot(of: attempt.job) { seen.fire($0 != nil) }
            #expect(seen.wait() == [true])
            answers.open()
            #expect(fixture.sink.arrived.wait().first?.success != nil)
        }
    }

    @Test("a dead kept connection costs a GET no attempt, and a POST never uses a kept connection")
    func keptConnections() throws {
        try Self.with { connection in
            guard let request = connection.readRequest() else { return }
            _ = connection.readBody(of: request)
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")
            // The next one is read and not answered.
            _ = connection.readRequest()
        } _: { origin, fixture in
            #expect(fixture.run(.data, origin.url)?.success != nil)
            #expect(fixture.run(.data, origin.url) { Self.post(&$0) }?.success != nil)
            #expect(origin.requests.filter { $0.method == "POST" }.count == 1)
            #expect(fixture.run(.data, origin.url)?.success != nil)
        }
    }

    @Test("each attempt sends a request that is not idempotent once, also if the job allows to repeat it")
    func onceEachAttempt() throws {
        try Self.with { connection in
            guard let request = connection.readRequest() else { return }
            _ = connection.readBody(of: request)
            connection.send("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")
            // The next one on this connection is read and not answered.
            _ = connection.readRequest()
        } _: { origin, fixture in
            for number in 1...3 as ClosedRange<Int32> {
                let result = fixture.run(.upload, origin.url, number: number) {
                    Self.post(&$0)
                    $0.spec.source = .inline(.init(form: .base64, byteCount: 3))
                    $0.spec.retry.repeatsNonIdempotent = true
                }
                #expect(result?.failure?.isRetryable == true && result?.trace?.transactions.count == 1)
                #expect(origin.requests.count == Int(number))
            }
        }
    }

    @Test("a large body does not wait for a 100 that never comes for longer than a second")
    func noContinue() throws {
        try Self.with { connection in
            guard let request = connection.readRequest() else { return }
            #expect(request.header("expect") == "100-continue")
            let body = connection.readBody(of: request)
            connection.send("HTTP/1.1 200 OK\r\nX-Got: \(body.count)\r\nContent-Length: 0\r\n\r\n")
        } _: { origin, fixture in
            try writeFile(fixture.root + "/source", patternBytes(2_000_000))
            let result = fixture.run(.upload, origin.url) { $0.spec.source = .path("source") }
            // Who waited for the 100 would meet the request's timeout.
            #expect(result?.success?.size == 2_000_000, "\(String(describing: result))")
        }
    }

    @Test("a refusal in the middle of a body is the error, and stops the body")
    func refusedMidway() throws {
        let closed = Signal<Bool>()
        try Self.with { connection in
            guard connection.readRequest() != nil else { return }
            connection.send("HTTP/1.1 100 Continue\r\n\r\n")
            _ = connection.read(300_000)
            connection.send("HTTP/1.1 413 No\r\nContent-Length: 2\r\n\r\nno")
            closed.fire(connection.waitUntilClosed())
        } _: { origin, fixture in
            try writeFile(fixture.root + "/source", patternBytes(50_000_000))
            let result = fixture.run(.upload, origin.url) { $0.spec.source = .path("source") }
            #expect(result?.failure?.code == .unacceptableStatus, "\(String(describing: result))")
            #expect(result?.response?.status == 413 && result?.bytesSent ?? .max < 50_000_000)
            #expect(closed.wait().first == true)
        }
    }

    @Test("a file that changed before it is sent again is not sent again")
    func changedBetween() throws {
        let arrived = Signal<Void>()
        let goOn = Signal<Void>()
        try Self.with { connection in
            while let request = connection.readRequest() {
                _ = connection.readBody(of: request)
                arrived.fire(())
                _ = goOn.wait()
                connection.send("HTTP/1.1 307 x\r\nLocation: /again\r\nContent-Length: 0\r\n\r\n")
            }
        } _: { origin, fixture in
            let path = fixture.root + "/source"
            try writeFile(path, patternBytes(100_000))
            fixture.engine.begin([fixture.attempt(.upload, origin.url) { $0.spec.source = .path("source") }])
            #expect(arrived.wait().count == 1)
            truncate(path, 99_999)
            goOn.fire(())
            #expect(fixture.sink.arrived.wait().first?.failure?.code == .sourceChanged)
            #expect(origin.requests.count == 1)
        }
    }

    @Test("an upload that a redirect turned into a GET reports the digest of the sent bytes")
    func seeOther() throws {
        try Self.with { connection in
            while let request = connection.readRequest() {
                _ = connection.readBody(of: request)
                connection.send(
                    request.method == "POST"
                        ? "HTTP/1.1 303 x\r\nLocation: /done\r\nContent-Length: 0\r\n\r\n"
                        : "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            }
        } _: { origin, fixture in
            let bytes = patternBytes(50_000)
            try writeFile(fixture.root + "/source", bytes)
            let result = fixture.run(.upload, origin.url) {
                $0.spec.request.method = "POST"
                $0.spec.request.headers = [.init("Content-Type", "text/csv"), .init("X-Test", "1")]
                $0.spec.source = .path("source")
            }
            #expect(result?.success?.sha256 == sha256(bytes), "\(String(describing: result))")
            let last = try #require(origin.requests.last)
            #expect(
                last.method == "GET" && last.header("content-type") == nil && last.header("x-test") == "1")
            #expect(last.header("content-length") == nil)
        }
    }

    @Test("an upload with a response before its body was sent fails")
    func answeredEarly() throws {
        try Self.with { connection in
            guard connection.readRequest() != nil else { return }
            connection.send("HTTP/1.1 303 x\r\nLocation: /done\r\nContent-Length: 0\r\n\r\n")
            guard connection.readRequest() != nil else { return }
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        } _: { origin, fixture in
            try writeFile(fixture.root + "/source", patternBytes(5_000_000))
            let result = fixture.run(.upload, origin.url) { $0.spec.source = .path("source") }
            #expect(result?.success == nil && result?.failure != nil, "\(String(describing: result))")
        }
    }
}
