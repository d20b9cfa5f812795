import Glibc
import HTTPServer
import Synchronization
import Testing

/// Accepts a few bytes at a time, and only when the test allows it.
private final class SlowSink: RequestSink {
    struct State: Sendable {
        var capacity = 0
        var taken = 0
        var calls = 0
        var waker: StreamWaker?
        var isCancelled = 0
        var isFinished = 0
    }
    let state = Mutex(State())

    func attach(_ waker: StreamWaker) { state.withLock { $0.waker = waker } }
    func receive(_ bytes: UnsafeRawBufferPointer) -> Int {
        state.withLock { state in
            let count = min(state.capacity, bytes.count)
            state.capacity -= count
            state.taken += count
            state.calls += 1
            return count
        }
    }
    func finish(_ responder: Responder) {
        let taken = state.withLock { state in
            state.isFinished += 1
            return state.taken
        }
        responder.send(Response(status: 200, body: .bytes(Array("\(taken)".utf8))))
    }
    func cancelled() { state.withLock { $0.isCancelled += 1 } }
    func give(_ capacity: Int) {
        state.withLock { state in
            state.capacity += capacity
            return state.waker
        }?.wake()
    }
}

/// Decides about its body when the test says so, and counts it.
private final class AskedSink: RequestSink {
    private struct State: Sendable {
        var start = SinkStart.wait
        var refusal: Response?
        var waker: StreamWaker?
        var taken = 0
        var cancelled = 0
    }
    private let state = Mutex(State())
    var cancelledCount: Int { state.withLock { $0.cancelled } }
    var takenCount: Int { state.withLock { $0.taken } }

    func attach(_ waker: StreamWaker) { state.withLock { $0.waker = waker } }
    func begin() -> SinkStart { state.withLock { $0.start } }
    func refusal() -> Response? { state.withLock { $0.refusal } }
    func receive(_ bytes: UnsafeRawBufferPointer) -> Int {
        state.withLock { $0.taken += bytes.count }
        return bytes.count
    }
    func finish(_ responder: Responder) {
        responder.send(Response(status: 200, body: .bytes(Array("\(takenCount)".utf8))))
    }
    func cancelled() { state.withLock { $0.cancelled += 1 } }
    func decide(_ start: SinkStart) {
        state.withLock { state in
            state.start = start
            return state.waker
        }?.wake()
    }
    func refuse(_ response: Response) { state.withLock { $0.refusal = response } }
}

@Suite struct BodyTests {
    private static let interim = InterimResponse(
        status: 104, reason: "Upload Resumption Supported", fields: HTTPFields([("Location", "/x")]))

    @Test("a sink that is not ready holds back 100 Continue, and an interim response comes before it")
    func beginning() throws {
        let sink = AskedSink()
        try serving(ScriptedHandler(plan: { _ in .stream(sink) })) { server in
            let client = try Client(server)
            try post(client, length: 3, "Expect: 100-continue\r\n")
            sink.decide(.ready(interim: Self.interim))
            let interim = try client.response()
            #expect(interim.status == 104 && interim.fields["Location"] == "/x")
            #expect(try client.response().status == 100)
            try client.send("abc")
            #expect(try client.response().text == "3")
            // The connection goes on; the sink is ready at once now.
            try post(client, length: 2)
            try client.send("ab")
            #expect(try client.response().status == 104)
            #expect(try client.response().text == "5")
            #expect(sink.cancelledCount == 0)
        }
    }

    @Test("an interim response is not sent to an HTTP/1.0 client")
    func noInterim() throws {
        let sink = AskedSink()
        try serving(ScriptedHandler(plan: { _ in .stream(sink) })) { server in
            sink.decide(.ready(interim: Self.interim))
            let client = try Client(server)
            try client.send("POST / HTTP/1.0\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
            #expect(try client.response().text == "3")
        }
    }

    @Test("a sink that refuses after a wait sends its response instead of 100 Continue")
    func refusedLater() throws {
        let sink = AskedSink()
        try serving(ScriptedHandler(plan: { _ in .stream(sink) })) { server in
            let client = try Client(server)
            try post(client, length: 3, "Expect: 100-continue\r\n")
            sink.decide(.refuse(Response(status: 409)))
            #expect(try client.response().status == 409)
            #expect(client.isClosed())
            #expect(eventually { sink.cancelledCount == 1 } && sink.takenCount == 0)
        }
    }

    @Test("a sink that refuses within a body ends the request before the end of the body")
    func refusedWithin() throws {
        let sink = AskedSink()
        try serving(ScriptedHandler(plan: { _ in .stream(sink) })) { server in
            sink.decide(.ready())
            let client = try Client(server)
            try post(client, length: 100_000_000)
            try client.send("abc")
            #expect(eventually { sink.takenCount == 3 })
            sink.refuse(Response(status: 507))
            // The server may have closed the connection before all is sent.
            try? client.send([UInt8](repeating: 1, count: 500_000))
            #expect(try client.response().status == 507)
            #expect(client.isClosed())
            #expect(sink.takenCount == 3 && sink.cancelledCount == 1)
        }
    }

    private func post(_ client: Client, length: Int, _ more: String = "") throws {
        try client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \(length)\r\n\(more)\r\n")
    }

    @Test("a body arrives complete with either framing", arguments: [1, 1_000, 300_000])
    func whole(size: Int) throws {
        try serving(ScriptedHandler(plan: { _ in .collect(limit: 1_000_000) })) { server in
            let client = try Client(server)
            let body = (0..<size).map { UInt8(truncatingIfNeeded: $0 &* 31) }
            try post(client, length: size)
            try client.send(body)
            #expect(try client.response().body == body)
            try client.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
            for start in stride(from: 0, to: size, by: 777) {
                let piece = body[start..<min(start + 777, size)]
                try client.send(Array("\(String(piece.count, radix: 16))\r\n".utf8) + piece + [13, 10])
            }
            try client.send("0\r\n\r\n")
            #expect(try client.response().body == body)
        }
    }

    @Test("a body slightly above the limit gets 413 and keeps the connection")
    func tooLarge() throws {
        try serving(ScriptedHandler(plan: { _ in .collect(limit: 10) })) { server in
            let client = try Client(server)
            try post(client, length: 11)
            try client.send("12345678901")
            let response = try client.response()
            #expect(response.status == 413 && response.text.contains("body_too_large"))
            try client.send(
                "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                    + "b\r\n12345678901\r\n0\r\n\r\n"
            )
            #expect(try client.response().status == 413)
            try post(client, length: 10)
            try client.send("1234567890")
            #expect(try client.response().text == "1234567890")
        }
    }

    @Test("a body far above the limit gets 413 without being read, and the client receives it")
    func farTooLarge() throws {
        try serving(ScriptedHandler(plan: { _ in .collect(limit: 10) })) { server in
            let announced = try Client(server)
            try post(announced, length: 100_000_000)
            // On a slow machine the server may already have closed the connection; the response arrives all
            // the same.
            try? announced.send([UInt8](repeating: 1, count: 500_000))
            let response = try announced.response()
            #expect(response.status == 413 && response.fields["Connection"] == "close")
            #expect(announced.isClosed())

            let chunked = try Client(server)
            try chunked.send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
            let chunk = Array("10000\r\n".utf8) + [UInt8](repeating: 1, count: 65_536) + [13, 10]
            for _ in 0..<8 { try? chunked.send(chunk) }
            let other = try chunked.response()
            #expect(other.status == 413 && other.text.contains("body_too_large"))
            #expect(other.fields["X-Request-Id"] != nil)
            #expect(chunked.isClosed())
        }
    }

    @Test("a client that waits for 100 Continue gets it before its body")
    func expectContinue() throws {
        try serving(ScriptedHandler()) { server in
            let client = try Client(server)
            try post(client, length: 3, "Expect: 100-continue\r\n")
            #expect(try client.response().status == 100)
            try client.send("abc")
            #expect(try client.response().text == "abc")
        }
    }

    @Test("a refused request gets its response instead of 100 Continue")
    func refused() throws {
        let handler = ScriptedHandler(plan: { _ in .refuse(Response(status: 401)) })
        try serving(handler) { server in
            let client = try Client(server)
            try post(client, length: 3, "Expect: 100-continue\r\n")
            #expect(try client.response().status == 401)
            #expect(client.isClosed())
            let other = try Client(server)
            try post(other, length: 3)
            try other.send("abc")
            #expect(try other.response().status == 401)
            #expect(try other.get("/").status == 401)
        }
    }

    @Test("a sink that takes fewer bytes suspends the client until it wakes the connection")
    func sink() throws {
        let sink = SlowSink()
        try serving(ScriptedHandler(plan: { _ in .stream(sink) })) { server in
            let client = try Client(server)
            try post(client, length: 100_000)
            try client.send([UInt8](repeating: 7, count: 100_000))
            #expect(eventually { sink.state.withLock { $0.calls > 0 } })
            for round in 1...10 {
                sink.give(9_999)
                #expect(eventually { sink.state.withLock { $0.taken == round * 9_999 } })
            }
            #expect(client.isSilent(milliseconds: 20))
            sink.give(10_000)
            #expect(try client.response().text == "100000")
            #expect(sink.state.withLock { $0.isFinished == 1 && $0.isCancelled == 0 && $0.calls < 60 })
        }
    }

    @Test("a sink receives a chunked body with back-pressure")
    func chunkedSink() throws {
        let sink = SlowSink()
        try serving(ScriptedHandler(plan: { _ in .stream(sink) })) { server in
            let client = try Client(server)
            try client.send("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
            for _ in 0..<100 { try client.send("a\r\n0123456789\r\n") }
            try client.send("0\r\n\r\n")
            for round in 1...10 {
                #expect(eventually { sink.state.withLock { $0.calls >= round } })
                sink.give(100)
            }
            #expect(try client.response().text == "1000")
        }
    }

    @Test("a sink whose client leaves is cancelled once, suspended or not", arguments: [0, 5])
    func sinkCancelled(capacity: Int) throws {
        let sink = SlowSink()
        sink.give(capacity)
        try serving(ScriptedHandler(plan: { _ in .stream(sink) })) { server in
            var client: Client? = try Client(server)
            try client.map { try post($0, length: 10) }
            try client?.send("12345")
            #expect(eventually { sink.state.withLock { $0.calls > 0 } })
            client?.reset()
            client = nil
            #expect(eventually { sink.state.withLock { $0.isCancelled == 1 } })
            #expect(eventually { server.inFlight == 0 && server.connections == 0 })
        }
        #expect(sink.state.withLock { $0.isCancelled == 1 && $0.isFinished == 0 })
    }

    @Test("a body below the minimum rate is cut off")
    func drip() throws {
        var limits = ServerLimits()
        limits.bodyGraceSeconds = 0
        limits.minimumBodyRate = 1_000
        try serving(ScriptedHandler(), limits: limits) { server in
            let client = try Client(server)
            try post(client, length: 100)
            try client.send("1")
            #expect(client.isClosed())
        }
    }

    @Test("a head that arrives byte by byte is cut off after the idle timeout")
    func headDrip() throws {
        var limits = ServerLimits()
        limits.idleTimeoutSeconds = 3
        try serving(ScriptedHandler(), limits: limits) { server in
            var served: Client?
            // The idle timeout may close a connection if the thread is delayed between connecting and
            // sending.
            let isServed = eventually {
                served = try? Client(server)
                return (try? served?.get("/").status) == 200
            }
            #expect(isServed)
            let client = try #require(served)
            var isCut = false
            for byte in "GET / HTTP/1.1\r\nHost: a\r\nX: 123456789012345678901234567890".utf8 {
                isCut = !client.isSilent(milliseconds: 250) || (try? client.send([byte])) == nil
                if isCut { break }
            }
            // The connection was closed while bytes arrived. Without bytes, the idle timeout would close it
            // as well.
            #expect(isCut && client.isClosed())
            #expect(eventually { server.connections == 0 })
        }
    }
}
