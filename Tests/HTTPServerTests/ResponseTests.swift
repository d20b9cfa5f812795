import Glibc
import HTTPServer
import Synchronization
import Testing

/// Returns bytes as fast as the server reads, up to `total`, or waits for `give`.
private final class CountingStream: ResponseStream {
    struct State: Sendable {
        var ready: Int
        var given = 0
        var isOver = false
        var cancelled = 0
        var waker: StreamWaker?
    }
    let state: Mutex<State>
    private let total: Int

    init(total: Int, ready: Int) {
        self.total = total
        state = Mutex(State(ready: ready))
    }
    func attach(_ waker: StreamWaker) { state.withLock { $0.waker = waker } }
    func read(into buffer: UnsafeMutableRawBufferPointer) -> StreamStep {
        state.withLock { state in
            if state.given == total { return .end }
            if state.ready == 0 { return state.isOver ? .fail : .wait }
            let count = min(buffer.count, state.ready, total - state.given)
            for index in 0..<count { buffer[index] = UInt8(truncatingIfNeeded: (state.given + index) % 251) }
            state.given += count
            state.ready -= count
            return .bytes(count)
        }
    }
    func clientStoppedSending() -> Bool { false }
    func cancelled() { state.withLock { $0.cancelled += 1 } }
    func give(_ count: Int) {
        state.withLock { state in
            state.ready += count
            return state.waker
        }?.wake()
    }
    func fail() {
        state.withLock { state in
            state.isOver = true
            return state.waker
        }?.wake()
    }
    static func bytes(_ count: Int) -> [UInt8] { (0..<count).map { UInt8(truncatingIfNeeded: $0 % 251) } }
}

private func answering(_ response: @escaping @Sendable () -> Response) -> ScriptedHandler {
    ScriptedHandler { _, responder in responder.send(response()) }
}

private func isOpen(_ descriptor: Int32) -> Bool { fcntl(descriptor, F_GETFD) >= 0 }

@Suite struct ResponseTests {
    @Test("small and large arrays arrive complete", arguments: [0, 1, 262_144, 262_145, 3_000_000])
    func arrays(size: Int) throws {
        try serving(answering { Response(status: 200, body: .bytes(CountingStream.bytes(size))) }) { server in
            let client = try Client(server)
            for _ in 0..<2 {
                let response = try client.get("/")
                #expect(response.fields["Content-Length"] == "\(size)")
                #expect(response.body == CountingStream.bytes(size))
            }
        }
    }

    @Test("a part of a file is sent from its offset")
    func file() throws {
        let content = CountingStream.bytes(1_000_000)
        let descriptor = temporaryFile(content)
        defer { close(descriptor) }
        let handler = answering {
            Response(
                status: 206, fields: HTTPFields([("Content-Range", "bytes 100000-699999/1000000")]),
                body: .file(FileBody(descriptor: dup(descriptor), offset: 100_000, length: 600_000)))
        }
        try serving(handler) { server in
            let client = try Client(server)
            let response = try client.get("/")
            #expect(response.status == 206 && response.body == Array(content[100_000..<700_000]))
            try client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try client.response(toHead: true).fields["Content-Length"] == "600000")
            #expect(try client.get("/").body.count == 600_000)
        }
    }

    @Test("a file that shrinks while it is sent ends its connection, and no other")
    func shrinkingFile() throws {
        let total = 32 << 20
        let files = ["/whole": temporaryFile([]), "/cut": temporaryFile([])]
        defer { for descriptor in files.values { close(descriptor) } }
        for descriptor in files.values { #expect(ftruncate(descriptor, total) == 0) }
        let handler = ScriptedHandler { request, responder in
            let body = files[request.head.path].map {
                Response.Body.file(FileBody(descriptor: dup($0), offset: 0, length: Int64(total)))
            }
            responder.send(Response(status: 200, body: body ?? .empty))
        }
        var limits = ServerLimits()
        limits.threads = 1
        limits.idleTimeoutSeconds = 600
        try serving(handler, limits: limits) { server in
            let whole = try Client(server.port, receiveBuffer: 65_536)
            let cut = try Client(server.port, receiveBuffer: 65_536)
            for (client, path) in [(whole, "/whole"), (cut, "/cut")] {
                try client.send("GET \(path) HTTP/1.1\r\nHost: a\r\n\r\n")
                #expect(try client.head().status == 200)
            }
            // Most of the file is not sent yet: the sockets' buffers are smaller.
            try #require(files["/cut"].map { ftruncate($0, 4_096) } == 0)
            #expect(try Client(server).get("/").status == 200)
            // The client does not give up. The server must end the response, not its timeout of idle
            // connections.
            var rest: [UInt8]?
            let isOver = eventually {
                rest = try? cut.rest()
                return rest != nil
            }
            #expect(isOver && rest.map { $0.count < total } == true)
            #expect(eventually { handler.ended.withLock { $0.contains { $0.path == "/cut" } } })
            // The server has checked the other connections in the same pass.
            #expect(try whole.bytes(total).count == total)
        }
    }

    @Test("a file that is never sent is closed")
    func unsentFile() {
        var pair: [Int32] = [0, 0]
        pipe(&pair)
        defer { close(pair[0]) }
        var body: FileBody? = FileBody(descriptor: pair[1], offset: 0, length: 1)
        _ = consume body
        body = nil
        // Reading returns 0 only after all descriptors of the writing side are closed.
        var byte: UInt8 = 0
        #expect(read(pair[0], &byte, 1) == 0)
    }

    @Test("a stream of unknown length is chunked and waits for bytes")
    func chunked() throws {
        let stream = CountingStream(total: 30, ready: 10)
        try serving(answering { Response(status: 200, body: .stream(stream)) }) { server in
            let client = try Client(server)
            try client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try client.head().fields["Transfer-Encoding"] == "chunked")
            var body = try client.chunk()
            #expect(body.count == 10 && client.isSilent(milliseconds: 20))
            stream.give(20)
            body += try client.chunk()
            #expect(body == CountingStream.bytes(30))
            #expect(try client.chunk().isEmpty)
            #expect(eventually { stream.state.withLock { $0.cancelled == 1 } })
            #expect(server.connections == 1)
        }
    }

    @Test("a complete stream ends with its trailers; a failed one has neither last chunk nor trailers")
    func trailers() throws {
        let streams = Mutex([CountingStream(total: 10, ready: 10), CountingStream(total: 20, ready: 10)])
        let handler = ScriptedHandler { _, responder in
            let stream = streams.withLock { $0.removeFirst() }
            var response = Response(status: 200, body: .stream(stream))
            response.trailers = HTTPFields([("X-State", "done")])
            responder.send(response)
            if !streams.withLock({ $0.isEmpty }) { return }
            stream.fail()
        }
        try serving(handler) { server in
            let client = try Client(server)
            try client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try client.head().fields["Trailer"] == "X-State")
            #expect(try client.chunk().count == 10)
            #expect(try client.bytes(20) == Array("0\r\nX-State: done\r\n\r\n".utf8))
            try client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try client.head().status == 200)
            #expect(try client.chunk().count == 10)
            #expect(try client.rest().isEmpty)
        }
    }

    @Test("a stream is read no faster than its client reads")
    func backPressure() throws {
        let total = 64 << 20
        let stream = CountingStream(total: total, ready: total)
        try serving(answering { Response(status: 200, body: .stream(stream, length: 64 << 20)) }) { server in
            let client = try Client(server.port, receiveBuffer: 65_536)
            try client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try client.head().fields["Content-Length"] == "\(total)")
            var before = -1
            // No progress for 100 ms: the bytes read until then are in the sockets' buffers.
            while case let given = stream.state.withLock({ $0.given }), given != before {
                before = given
                _ = poll(nil, 0, 100)
            }
            #expect(before < total / 4)
            var read = 0
            while read < total { read += try client.bytes(min(1 << 16, total - read)).count }
            #expect(stream.state.withLock { $0.given == total })
        }
    }

    @Test("a stream whose client leaves is cancelled once")
    func clientLeaves() throws {
        let stream = CountingStream(total: 100, ready: 10)
        try serving(answering { Response(status: 200, body: .stream(stream)) }) { server in
            var client: Client? = try Client(server)
            try client?.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            let head = try client?.head()
            #expect(head?.status == 200)
            client = nil
            #expect(eventually { stream.state.withLock { $0.cancelled == 1 } })
            #expect(eventually { server.connections == 0 })
            stream.give(10)
        }
        #expect(stream.state.withLock { $0.cancelled == 1 })
    }

    @Test("a stream that fails, or ends before its length, cuts the connection", arguments: [true, false])
    func broken(isChunked: Bool) throws {
        let stream = CountingStream(total: isChunked ? 100 : 10, ready: 10)
        try serving(answering { Response(status: 200, body: .stream(stream, length: isChunked ? nil : 20)) })
        {
            let client = try Client($0)
            try client.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try client.head().status == 200)
            if isChunked {
                #expect(try client.chunk().count == 10)
                stream.fail()
                #expect(try client.rest().isEmpty)
            } else {
                #expect(try client.rest().count == 10)
            }
            #expect(eventually { stream.state.withLock { $0.cancelled == 1 } })
        }
    }

    @Test("the stream of a HEAD response is not read")
    func headStream() throws {
        let stream = CountingStream(total: 100, ready: 100)
        try serving(answering { Response(status: 200, body: .stream(stream)) }) { server in
            let client = try Client(server)
            try client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try client.response(toHead: true).status == 200)
            #expect(eventually { stream.state.withLock { $0.cancelled == 1 && $0.given == 0 } })
        }
    }

    @Test("204 and 304 responses have no body and keep the connection", arguments: [204, 304])
    func bodiless(status: Int) throws {
        try serving(answering { Response(status: status, fields: HTTPFields([("ETag", "\"1\"")])) }) {
            server in
            let client = try Client(server)
            for _ in 0..<2 {
                let response = try client.get("/")
                #expect(response.status == status && response.fields["ETag"] == "\"1\"")
            }
        }
    }

    @Test("only the first response is sent")
    func onlyOnce() throws {
        let results = Mutex<[Bool]>([])
        let stream = CountingStream(total: 1, ready: 1)
        let handler = ScriptedHandler { _, responder in
            let first = responder.send(Response(status: 201))
            let second = responder.send(Response(status: 500, body: .stream(stream)))
            results.withLock { $0 += [first, second] }
        }
        try serving(handler) { server in
            let client = try Client(server)
            #expect(try client.get("/").status == 201)
            #expect(results.withLock { $0 } == [true, false])
            #expect(stream.state.withLock { $0.cancelled == 1 })
            #expect(eventually { handler.ended.withLock { $0.first?.status == 201 } })
        }
    }
}
