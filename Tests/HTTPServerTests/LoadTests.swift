import Glibc
import HTTPServer
import Synchronization
import Sys
import TestThreads
import Testing

/// Clients on one thread that each send their next request after the response to the last one.
private struct ClosedLoop {
    let sockets: [Int32]
    private let request: [UInt8]

    init(_ server: Server, clients: Int, body: String) throws {
        sockets = try (0..<clients).map { _ in try connected(to: server.port) }
        let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \(body.utf8.count)\r\n\r\n"
        request = Array((head + body).utf8)
    }

    func close() { for socket in sockets { Glibc.close(socket) } }

    /// Runs until `total` responses have arrived, or none arrives for two minutes. Returns their number.
    func run(total: Int, ending: [UInt8]) -> Int {
        var pending = sockets.map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
        var buffers = sockets.map { _ in [UInt8]() }
        var sent = 0
        var answered = 0
        func ask(_ socket: Int32) {
            guard sent < total else { return }
            sent += 1
            _ = send(socket, request, request.count, Int32(MSG_NOSIGNAL))
        }
        for socket in sockets { ask(socket) }
        var chunk = [UInt8](repeating: 0, count: 4_096)
        while answered < total {
            guard poll(&pending, nfds_t(pending.count), 120_000) > 0 else { return answered }
            for index in pending.indices where pending[index].revents != 0 {
                let count = read(sockets[index], &chunk, chunk.count)
                guard count > 0 else { return answered }
                buffers[index] += chunk[..<count]
                guard buffers[index].suffix(ending.count) == ending[...] else { continue }
                buffers[index] = []
                answered += 1
                ask(sockets[index])
            }
        }
        return answered
    }
}

@Suite(.serialized, .onOwnThread) struct LoadTests {
    private static let response = Response(status: 200, body: .bytes(Array("answer".utf8)))

    /// Two threads that send responses: one at once, one in batches after a pause.
    private final class Answerers: Sendable {
        let boxes = [Mailbox<Responder>(), Mailbox<Responder>()]
        let served = Atomic(0)
        private let threads = Mutex<[Thread]>([])

        init() {
            for (index, box) in boxes.enumerated() {
                let thread = Thread(name: "answers") { [self] in
                    while !box.isClosed {
                        for responder in box.wait(milliseconds: -1) {
                            responder.send(LoadTests.response)
                            served.add(1, ordering: .releasing)
                        }
                        // The second thread collects requests, so that they are suspended before the
                        // response.
                        if index == 1 { _ = poll(nil, 0, 1) }
                    }
                }
                threads.withLock { $0.append(thread) }
            }
        }

        func stop() {
            for box in boxes { box.close() }
            for thread in threads.withLock({ $0 }) { thread.join() }
        }
    }

    @Test("10,000 responses from other threads all arrive, before and after suspension")
    func bothOrders() throws {
        let answerers = Answerers()
        defer { answerers.stop() }
        let number = Atomic(0)
        let handler = ScriptedHandler { _, responder in
            switch number.add(1, ordering: .relaxed).newValue % 4 {
            case 0: answerers.boxes[1].send(responder)
            case 1: responder.send(LoadTests.response)
            case 2: answerers.boxes[0].send(responder)
            default:
                let before = answerers.served.load(ordering: .acquiring)
                answerers.boxes[0].send(responder)
                // Gives the other thread time to respond before this one suspends the request.
                for _ in 0..<1_000 where answerers.served.load(ordering: .acquiring) == before {
                    sched_yield()
                }
            }
        }
        try serving(handler) { server in
            let loop = try ClosedLoop(server, clients: 64, body: "x")
            defer { loop.close() }
            #expect(loop.run(total: 10_000, ending: Array("answer".utf8)) == 10_000)
            #expect(eventually { server.inFlight == 0 && handler.ended.withLock { $0.count } == 10_000 })
        }
    }

    @Test(
        "128 and 256 clients in a closed loop never hang, with immediate or later responses",
        arguments: [128, 256], [true, false])
    func multiples(clients: Int, isDirect: Bool) throws {
        let answerers = Answerers()
        defer { answerers.stop() }
        let handler = ScriptedHandler { _, responder in
            if isDirect { responder.send(LoadTests.response) } else { answerers.boxes[0].send(responder) }
        }
        try serving(handler) { server in
            let loop = try ClosedLoop(server, clients: clients, body: "0123456789")
            defer { loop.close() }
            #expect(loop.run(total: 6_000, ending: Array("answer".utf8)) == 6_000)
        }
    }
}
