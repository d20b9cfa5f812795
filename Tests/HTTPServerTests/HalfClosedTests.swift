import Glibc
import HTTPServer
import Synchronization
import Sys
import Testing

/// A stream that sends "tick" after its client has stopped sending, and the bytes that it is given.
private final class TickingStream: ResponseStream {
    private struct State {
        var waker: StreamWaker?
        var text: [UInt8]
        var isOver = false
        var cancelled = 0
    }
    private let state: Mutex<State>

    init(_ text: String) { state = Mutex(State(text: Array(text.utf8))) }
    var cancelledTimes: Int { state.withLock { $0.cancelled } }
    func attach(_ waker: StreamWaker) { state.withLock { $0.waker = waker } }
    func read(into buffer: UnsafeMutableRawBufferPointer) -> StreamStep {
        state.withLock { state in
            guard !state.text.isEmpty else { return state.isOver ? .end : .wait }
            buffer.copyBytes(from: state.text)
            defer { state.text = [] }
            return .bytes(state.text.count)
        }
    }
    func clientStoppedSending() -> Bool {
        say("tick")
        return true
    }
    func cancelled() { state.withLock { $0.cancelled += 1 } }
    func say(_ text: String, isLast: Bool = false) {
        state.withLock { state in
            state.text += Array(text.utf8)
            state.isOver = isLast
            return state.waker
        }?.wake()
    }
}

/// Clients that send a request and close their sending side (shutdown(2), SHUT_WR).
@Suite struct HalfClosedTests {
    private static let requests = [
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    ]

    @Test("a half-closed client gets an immediate response", arguments: requests)
    func atOnce(request: String) throws {
        let handler = ScriptedHandler { _, responder in responder.send(Response(status: 200)) }
        try serving(handler) { server in
            let client = try Client(server)
            try client.send(request)
            client.stopSending()
            #expect(try client.response().status == 200)
            #expect(client.isClosed())
        }
    }

    @Test(
        "a half-closed client gets a later response, whenever it has closed",
        arguments: requests, [true, false])
    func later(request: String, closesAtOnce: Bool) throws {
        let kept = Mailbox<Responder>()
        try serving(ScriptedHandler { _, responder in kept.send(responder) }) { server in
            let client = try Client(server)
            try client.send(request)
            if closesAtOnce { client.stopSending() }
            let responder = try #require(kept.wait(milliseconds: 120_000).first)
            if !closesAtOnce { client.stopSending() }
            // The server checks suspended connections twice a second.
            #expect(client.isSilent(milliseconds: 700))
            #expect(responder.send(Response(status: 201, body: .bytes(Array("later".utf8)))))
            let response = try client.response()
            #expect(response.status == 201 && response.text == "later")
            #expect(client.isClosed())
        }
    }

    @Test("a half-closed client gets all responses to its pipelined requests")
    func pipelined() throws {
        let kept = Mailbox<(Request, Responder)>()
        let answers = Thread(name: "answers") {
            while !kept.isClosed {
                for (request, responder) in kept.wait(milliseconds: -1) {
                    responder.send(Response(status: 200, body: .bytes(Array(request.head.path.utf8))))
                }
            }
        }
        defer {
            kept.close()
            answers.join()
        }
        try serving(ScriptedHandler { kept.send(($0, $1)) }) { server in
            let client = try Client(server)
            try client.send((0..<50).map { "GET /\($0) HTTP/1.1\r\nHost: a\r\n\r\n" }.joined())
            client.stopSending()
            for number in 0..<50 { #expect(try client.response().text == "/\(number)") }
            #expect(client.isClosed())
        }
    }

    @Test("a half-closed client gets large bodies and files completely")
    func large() throws {
        let bytes = [UInt8](repeating: 7, count: 3_000_000)
        let kept = Mailbox<Responder>()
        try serving(ScriptedHandler { _, responder in kept.send(responder) }) { server in
            for isFile in [false, true] {
                let client = try Client(server)
                try client.send(Self.requests[0])
                client.stopSending()
                let responder = try #require(kept.wait(milliseconds: 120_000).first)
                let body: Response.Body =
                    isFile
                    ? .file(FileBody(descriptor: temporaryFile(bytes), offset: 0, length: 3_000_000))
                    : .bytes(bytes)
                responder.send(Response(status: 200, body: body))
                #expect(try client.response().body == bytes)
            }
        }
    }

    @Test("a half-closed client gets a whole stream, which is notified once")
    func stream() throws {
        let stream = TickingStream("first")
        let handler = ScriptedHandler { _, responder in
            responder.send(Response(status: 200, body: .stream(stream)))
        }
        try serving(handler) { server in
            let client = try Client(server)
            try client.send(Self.requests[0])
            #expect(try client.head().status == 200)
            #expect(try client.chunk() == Array("first".utf8))
            client.stopSending()
            #expect(try client.chunk() == Array("tick".utf8))
            #expect(client.isSilent(milliseconds: 1_200) && stream.cancelledTimes == 0)
            stream.say("last", isLast: true)
            #expect(try client.chunk() == Array("last".utf8))
            #expect(try client.chunk().isEmpty && client.isClosed())
        }
        #expect(stream.cancelledTimes == 1)
    }

    @Test("the next bytes of a stream reveal a closed connection")
    func closedStream() throws {
        let stream = TickingStream("first")
        let handler = ScriptedHandler { _, responder in
            responder.send(Response(status: 200, body: .stream(stream)))
        }
        try serving(handler) { server in
            var client: Client? = try Client(server)
            try client?.send(Self.requests[0])
            #expect(try client?.head().status == 200)
            #expect(try client?.chunk() == Array("first".utf8))
            client = nil
            #expect(eventually { stream.cancelledTimes == 1 && server.connections == 0 })
        }
    }

    @Test("a reset of a half-closed connection is noticed while it is suspended")
    func reset() throws {
        let kept = Mailbox<Responder>()
        try serving(ScriptedHandler { _, responder in kept.send(responder) }) { server in
            var client: Client? = try Client(server)
            try client?.send(Self.requests[0])
            client?.stopSending()
            let responder = try #require(kept.wait(milliseconds: 120_000).first)
            client?.reset()
            client = nil
            #expect(eventually { server.connections == 0 && server.inFlight == 0 })
            #expect(!responder.send(Response(status: 200)))
        }
    }

    @Test("a client that half-closes within its request is disconnected", arguments: requests)
    func incomplete(request: String) throws {
        try serving(ScriptedHandler()) { server in
            let client = try Client(server)
            try client.send(String(request.dropLast(1)))
            client.stopSending()
            #expect(client.isClosed())
            #expect(eventually { server.connections == 0 && server.inFlight == 0 })
        }
    }
}
