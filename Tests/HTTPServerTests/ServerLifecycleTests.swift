import Glibc
import HTTPServer
import Synchronization
import Sys
import TestSupport
import Testing

/// Stores responders, so that their requests stay suspended.
private final class Keeper: Sendable {
    let kept = Mutex<[Responder]>([])
    var handler: ScriptedHandler {
        ScriptedHandler { [self] _, responder in kept.withLock { $0.append(responder) } }
    }
    var count: Int { kept.withLock { $0.count } }
}

private final class SilentStream: ResponseStream {
    let cancelledTimes = Atomic(0)
    func attach(_ waker: StreamWaker) {}
    func read(into buffer: UnsafeMutableRawBufferPointer) -> StreamStep { .wait }
    func clientStoppedSending() -> Bool { false }
    func cancelled() { cancelledTimes.add(1, ordering: .relaxed) }
}

@Suite struct ServerLifecycleTests {
    private func ask(_ client: Client, _ path: String = "/") throws {
        try client.send("GET \(path) HTTP/1.1\r\nHost: a\r\n\r\n")
    }

    @Test("an overdue request gets 503, and the late response is dropped")
    func deadline() throws {
        var limits = ServerLimits()
        limits.responseDeadlineSeconds = 0
        let keeper = Keeper()
        try serving(keeper.handler, limits: limits) { server in
            let client = try Client(server)
            try ask(client)
            let response = try client.response()
            #expect(response.status == 503 && response.text.contains("response_deadline"))
            #expect(keeper.kept.withLock { $0.first?.send(Response(status: 200)) } == false)
            try ask(client)
            #expect(try client.response().status == 503)
        }
    }

    @Test("a client that leaves a waiting request frees its connection")
    func leaving() throws {
        let keeper = Keeper()
        let handler = keeper.handler
        try serving(handler) { server in
            var client: Client? = try Client(server)
            try client.map { try ask($0) }
            #expect(eventually { keeper.count == 1 })
            client?.reset()
            client = nil
            #expect(eventually { server.connections == 0 && server.inFlight == 0 })
            #expect(keeper.kept.withLock { $0.first?.send(Response(status: 200)) } == false)
            #expect(handler.ended.withLock { $0.count == 1 && $0[0].status == nil })
        }
    }

    @Test("draining accepts no new clients and waits for requests in flight")
    func drain() throws {
        let keeper = Keeper()
        let server = try Server(address: "127.0.0.1", port: FreePort.find(), handler: keeper.handler)
        try server.start()
        let client = try Client(server)
        try ask(client)
        #expect(eventually { keeper.count == 1 })
        #expect(!server.drain(deadlineSeconds: 0.01))
        #expect(throws: ClientError.self) { try Client(server) }
        let drained = Mailbox<Bool>()
        let thread = Thread(name: "drain") { drained.send(server.drain(deadlineSeconds: 120)) }
        keeper.kept.withLock { _ = $0[0].send(Response(status: 204)) }
        let response = try client.response()
        #expect(response.status == 204 && response.fields["Connection"] == "close")
        thread.join()
        #expect(drained.take() == [true])
        #expect(client.isClosed())
        server.stop()
    }

    @Test("stopping sends 503 to waiting requests and closes streams")
    func stop() throws {
        let keeper = Keeper()
        let stream = SilentStream()
        let handler = ScriptedHandler { request, responder in
            if request.head.path == "/stream" {
                responder.send(Response(status: 200, body: .stream(stream)))
            } else {
                keeper.kept.withLock { $0.append(responder) }
            }
        }
        let server = try Server(address: "127.0.0.1", port: FreePort.find(), handler: handler)
        try server.start()
        let waiting = try (0..<20).map { _ in try Client(server) }
        for client in waiting { try ask(client) }
        let streaming = try Client(server)
        try ask(streaming, "/stream")
        #expect(try streaming.head().status == 200)
        #expect(eventually { keeper.count == 20 })
        let idle = try Client(server)
        // Much longer than needed: a thread of the server may be delayed.
        server.stop(seconds: 60)
        for client in waiting {
            let response = try client.response()
            #expect(response.status == 503 && response.text.contains("shutting_down"))
            #expect(client.isClosed())
        }
        #expect(streaming.isClosed() && idle.isClosed())
        #expect(stream.cancelledTimes.load(ordering: .relaxed) == 1)
        #expect(keeper.kept.withLock { $0.allSatisfy { !$0.send(Response(status: 200)) } })
        #expect(handler.ended.withLock { $0.count } == 21 && server.inFlight == 0 && server.connections == 0)
        server.stop()
        try server.start()
        #expect(throws: ClientError.self) { try Client(server) }
    }

    @Test("stopping under load neither hangs nor crashes")
    func stopUnderLoad() throws {
        for _ in 0..<5 {
            let answers = Mailbox<Responder>()
            let thread = Thread(name: "answers") {
                while !answers.isClosed {
                    for responder in answers.wait(milliseconds: -1) { responder.send(Response(status: 200)) }
                }
            }
            let server = try Server(
                address: "127.0.0.1", port: 0,
                handler: ScriptedHandler { _, responder in answers.send(responder) })
            try server.start()
            let clients = try (0..<16).map { _ in try Client(server) }
            let pipeline = String(repeating: "GET / HTTP/1.1\r\nHost: a\r\n\r\n", count: 500)
            for client in clients { try client.send(pipeline) }
            #expect(try clients[0].response().status == 200)
            server.stop()
            answers.close()
            thread.join()
            #expect(server.inFlight == 0 && server.connections == 0)
        }
    }

    @Test("a used port, a foreign address and an invalid address are distinct errors")
    func addresses() throws {
        let handler = ScriptedHandler()
        try serving(handler) { server in
            #expect(throws: ServerError.addressInUse("127.0.0.1:\(server.port)")) {
                try Server(address: "127.0.0.1", port: server.port, handler: handler)
            }
        }
        #expect(throws: ServerError.addressNotAvailable("192.0.2.1:80")) {
            try Server(address: "192.0.2.1", port: 80, handler: handler)
        }
        #expect(throws: ServerError.invalidAddress("localhost")) {
            try Server(address: "localhost", port: 0, handler: handler)
        }
    }

    @Test("a port is free again as soon as its server has stopped")
    func reuse() throws {
        let handler = ScriptedHandler()
        let first = try Server(address: "127.0.0.1", port: FreePort.find(), handler: handler)
        try first.start()
        let client = try Client(first)
        #expect(try client.get("/").status == 200)
        first.stop()
        let second = try Server(address: "127.0.0.1", port: first.port, handler: handler)
        try second.start()
        let other = try Client(second)
        #expect(try other.get("/").status == 200)
        second.stop()
    }

    @Test("a server that never started releases its port")
    func neverStarted() throws {
        let handler = ScriptedHandler()
        let first = try Server(address: "127.0.0.1", port: FreePort.find(), handler: handler)
        first.stop()
        try first.start()
        let port = first.port
        // A child process of another test may hold the port until its exec.
        #expect(
            eventually {
                (try? Server(address: "127.0.0.1", port: port, handler: handler))?.stop() != nil
            })
    }
}
