import Curl
import Glibc
import Sys
import TestSupport
import TestThreads
import Testing

@Suite(.serialized, .onOwnThread) struct TransferTests {
    private static func withLoop(_ body: (CurlLoop) throws -> Void) throws {
        let loop = try CurlLoop(name: "test-curl", keptConnections: 256)
        defer { loop.stop() }
        try body(loop)
    }

    private static func withNginx(_ body: (Nginx, CurlLoop) throws -> Void) throws {
        let nginx = try Nginx()
        defer { nginx.stop() }
        try withLoop { try body(nginx, $0) }
    }

    @Test("the loaded libcurl is new enough, and HTTP/2 is safe from 8.2.1 on")
    func runtime() throws {
        let runtime = try CurlRuntime.loaded.get()
        #expect(runtime.versionNumber >= 0x07_5500)
        #expect(!runtime.supportsSafeHTTP2 || runtime.versionNumber >= 0x08_0201)
    }

    @Test("a download delivers each byte once with its measurements")
    func download() throws {
        try Self.withNginx { nginx, loop in
            let bytes = patternBytes(3_000_000)
            try nginx.serve("file", bytes)
            let running = Running(loop, TransferRequest(url: nginx.url + "/file"))
            let outcome = try #require(running.outcome())
            #expect(outcome.error == nil)
            #expect(running.recorder.received == bytes)
            #expect(running.recorder.headerLines.first == "HTTP/1.1 200 OK")
            #expect(running.recorder.headerLines.last == "")
            #expect(outcome.info.status == 200)
            #expect(outcome.info.httpVersion == "1.1")
            #expect(outcome.info.remoteAddress == "127.0.0.1")
            #expect(outcome.info.remotePort == Int(nginx.port))
            #expect(outcome.info.newConnections == 1)
            #expect(outcome.info.bodyBytesReceived == 3_000_000)
            #expect(outcome.info.timings.total >= outcome.info.timings.startTransfer)
        }
    }

    @Test("a kept connection is reused and not counted as new")
    func reuse() throws {
        try Self.withNginx { nginx, loop in
            try nginx.serve("file", [1, 2, 3])
            let counts = try (0..<20).map { _ in
                try #require(Running(loop, TransferRequest(url: nginx.url + "/file")).outcome()).info
                    .newConnections
            }
            #expect(counts == [1] + Array(repeating: 0, count: 19))
        }
    }

    @Test("a busy connection is not reused after its maximum age")
    func lifetime() throws {
        try Self.withNginx { nginx, loop in
            try nginx.serve("file", [1, 2, 3])
            var request = TransferRequest(url: nginx.url + "/file")
            request.maxConnectionAge = 1
            var connectionCount = 0
            let began = monotonicNanoseconds()
            let isReplaced = eventually {
                connectionCount += Running(loop, request).outcome()?.info.newConnections ?? 0
                return connectionCount >= 2
            }
            #expect(isReplaced && monotonicNanoseconds() - began >= 1_000_000_000)
        }
    }

    @Test("idleTimeout ends a transfer without bytes, before the head or in the body, and no slow one")
    func idle() throws {
        let gate = Gate()
        let origin = try ScriptedOrigin { connection in
            guard let request = connection.readRequest() else { return }
            if request.path != "/silent" { connection.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\na") }
            if request.path == "/slow" {
                for _ in 0..<4 {
                    poll(nil, 0, 700)
                    connection.send("b")
                }
            }
            _ = gate.pass()
        }
        defer {
            gate.open()
            origin.stop()
        }
        try Self.withLoop { loop in
            var request = TransferRequest(url: origin.url + "/silent")
            request.idleTimeout = 2
            for path in ["/silent", "/stops"] {
                request.url = origin.url + path
                let outcome = try #require(Running(loop, request).outcome())
                #expect(outcome.error?.code == CurlError.operationTimedOut, "\(path): \(outcome)")
            }
            request.url = origin.url + "/slow"
            let slow = Running(loop, request)
            #expect(try #require(slow.outcome()).error == nil)
            #expect(slow.recorder.received == Array("abbbb".utf8))
        }
    }

    @Test("a transfer that fails before connecting does not affect later transfers")
    func failureBeforeConnection() throws {
        try Self.withNginx { nginx, loop in
            try nginx.serve("file", [1, 2, 3])
            for _ in 0..<3 {
                let failed = try #require(
                    Running(loop, TransferRequest(url: "http://ferry.invalid/")).outcome())
                #expect(failed.error?.code == CurlError.couldNotResolveHost)
                let next = try #require(Running(loop, TransferRequest(url: nginx.url + "/file")).outcome())
                #expect(next.error == nil)
            }
        }
    }

    @Test("an upload arrives complete, with its length and without waiting for 100 Continue")
    func upload() throws {
        try Self.withNginx { nginx, loop in
            let bytes = patternBytes(700_000)
            var request = TransferRequest(url: nginx.url + "/put/a")
            request.method = "PUT"
            request.body = .known(Int64(bytes.count))
            let outcome = try #require(Running(loop, request, .init(upload: bytes)).outcome())
            #expect(outcome.error == nil)
            #expect(outcome.info.status == 201)
            #expect(outcome.info.bodyBytesSent == 700_000)
            #expect(readFile(nginx.root + "/put/a") == bytes)
        }
    }

    @Test("a body of unknown length is sent chunked, small bodies without Expect and large ones with it")
    func uploadHeads() throws {
        let origin = try ScriptedOrigin.answering { _, body in
            Array("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Got: \(body.count)\r\n\r\n".utf8)
        }
        defer { origin.stop() }
        try Self.withLoop { loop in
            for (size, body) in [
                (5, TransferRequest.Body.unknown), (5, .known(5)), (2 << 20, .known(2 << 20)), (0, .known(0)),
            ] {
                var request = TransferRequest(url: origin.url)
                request.method = "POST"
                request.body = body
                let running = Running(loop, request, .init(upload: patternBytes(size)))
                #expect(running.outcome()?.error == nil)
                #expect(running.recorder.headerLines.contains("X-Got: \(size)"))
            }
        }
        #expect(origin.requests.map { $0.header("transfer-encoding") } == ["chunked", nil, nil, nil])
        #expect(origin.requests.map { $0.header("content-length") } == [nil, "5", "2097152", "0"])
        #expect(origin.requests.dropFirst().map { $0.header("expect") } == [nil, "100-continue", nil])
        #expect(origin.requests.allSatisfy { $0.header("content-type") == nil })
    }

    @Test("a body is rewound when a kept connection turns out to be dead")
    func rewind() throws {
        // The origin answers once, then reads the next body and closes: the second request must start again
        // on a new connection.
        let origin = try ScriptedOrigin { connection in
            guard let first = connection.readRequest() else { return }
            let body = connection.readBody(of: first)
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-Got: \(body.count)\r\n\r\n")
            // The whole body: libcurl takes a reset during sending as a failure, and a later one as a dead
            // connection.
            if let second = connection.readRequest() { _ = connection.readBody(of: second) }
            connection.reset()
        }
        defer { origin.stop() }
        try Self.withLoop { loop in
            for turn in 0..<2 {
                var request = TransferRequest(url: origin.url)
                request.method = "PUT"
                request.body = .known(300_000)
                let running = Running(loop, request, .init(upload: patternBytes(300_000)))
                #expect(running.outcome()?.error == nil)
                #expect(running.recorder.headerLines.contains("X-Got: 300000"))
                #expect(running.recorder.rewinds == turn)
            }
        }
    }

    @Test("a cancelled transfer closes its socket at once and makes no further callbacks")
    func cancel() throws {
        let closed = Signal<Void>()
        let origin = try ScriptedOrigin { connection in
            _ = connection.readRequest()
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nabc")
            if connection.waitUntilClosed() { closed.fire(()) }
        }
        defer { origin.stop() }
        try Self.withLoop { loop in
            let running = Running(loop, TransferRequest(url: origin.url))
            #expect(!running.recorder.firstByte.wait().isEmpty)
            running.command { $0.cancel() }
            running.command { $0.cancel() }
            // Without the cancellation the connection would stay open.
            #expect(!closed.wait().isEmpty)
            #expect(running.recorder.ended.wait(seconds: 0.05).isEmpty)
        }
    }

    @Test("a paused transfer reads nothing until resumed and loses no bytes")
    func pause() throws {
        try Self.withNginx { nginx, loop in
            let bytes = patternBytes(5_000_000)
            try nginx.serve("file", bytes)
            let running = Running(loop, TransferRequest(url: nginx.url + "/file"), .init(pausesAt: 1_000_000))
            #expect(!running.recorder.paused.wait().isEmpty)
            #expect(running.recorder.ended.wait(seconds: 0.1).isEmpty)
            running.command { $0.resume() }
            #expect(running.outcome()?.error == nil)
            #expect(running.recorder.received == bytes)
        }
    }

    @Test("a refused address is reported on new and kept connections")
    func blocked() throws {
        try Self.withNginx { nginx, loop in
            try nginx.serve("file", [1])
            let expected = SocketAddress(ipv4: 0x7F00_0001, port: nginx.port)
            let request = TransferRequest(url: nginx.url + "/file")
            let atConnect = try #require(Running(loop, request, .init(refusesConnect: true)).outcome())
            #expect(atConnect.blockedAddress == expected)
            #expect(atConnect.error?.code == CurlError.couldNotConnect)
            #expect(Running(loop, request).outcome()?.error == nil)
            let atReuse = try #require(Running(loop, request, .init(refusesSend: true)).outcome())
            #expect(atReuse.blockedAddress == expected)
            #expect(atReuse.error?.code == CurlError.abortedByCallback)
        }
    }

    @Test(
        "methods and fields with line breaks are rejected before sending",
        arguments: ["X-A\r\nX-B", "", "X A"])
    func injection(name: String) throws {
        try Self.withLoop { loop in
            var request = TransferRequest(url: "http://127.0.0.1:1/")
            request.headers = [.init(name, "v")]
            #expect(Running(loop, request).startError()?.code == CurlError.badFunctionArgument)
            request.headers = [.init("X", "a\nb")]
            #expect(Running(loop, request).startError()?.code == CurlError.badFunctionArgument)
        }
    }

    @Test("2,000 slow transfers at once use a small part of a core")
    func manySlow() throws {
        try Self.withNginx { nginx, loop in
            try nginx.serve("file", patternBytes(1_000_000))
            let request = TransferRequest(url: nginx.url + "/slow/file")
            let clock = Signal<(cpu: Int64, wall: Int64)>()
            let read = { @Sendable in clock.fire((threadNanoseconds(), monotonicNanoseconds())) }
            loop.perform { _ in read() }
            let all = (0..<2_000).map { _ in Running(loop, request) }
            for running in all { #expect(!running.recorder.firstByte.wait().isEmpty) }
            loop.perform { _ in read() }
            for _ in 1...4 {
                #expect(all[0].recorder.ended.wait(seconds: 1).isEmpty)
                loop.perform { _ in read() }
            }
            let readings = clock.wait(for: 6)
            // The cost is compared with that of starting the transfers on this machine and build. The
            // cheapest second counts, because other processes can only increase the cost.
            let begun = Double(readings[1].cpu - readings[0].cpu)
            let costs = zip(readings[1...], readings[2...]).map { from, to in
                Double(to.cpu - from.cpu) / (Double(to.wall - from.wall) / 1e9)
            }
            let second = try #require(costs.min())
            #expect(second < begun / 2, "\(second / 1e6) ms a second, \(begun / 1e6) ms to begin them")
            #expect(eventually { monotonicNanoseconds() - loop.lastTurnNanoseconds < 5_000_000_000 })
        }
    }

    @Test("transfers beyond one multi handle complete and reuse earlier connections")
    func severalHandles() throws {
        try Self.withNginx { nginx, loop in
            try nginx.serve("file", patternBytes(1_000_000))
            let small = patternBytes(50_000)
            try nginx.serve("small", small)
            let slow = (0..<600).map { _ in
                Running(loop, TransferRequest(url: nginx.url + "/slow/file"))
            }
            for running in slow { #expect(!running.recorder.firstByte.wait().isEmpty) }
            let many = (0..<700).map { _ in Running(loop, TransferRequest(url: nginx.url + "/small")) }
            for running in many {
                #expect(running.outcome()?.error == nil)
                let isSame = running.recorder.received == small
                #expect(isSame)
            }
            let counts = try (0..<20).map { _ in
                try #require(Running(loop, TransferRequest(url: nginx.url + "/small")).outcome()).info
                    .newConnections
            }
            #expect(counts == Array(repeating: 0, count: 20))
        }
    }

    @Test("stopping the loop ends all transfers once and refuses new ones")
    func stopping() throws {
        let origin = try ScriptedOrigin { _ = $0.waitUntilClosed() }
        defer { origin.stop() }
        let loop = try CurlLoop(name: "test-curl", keptConnections: 8)
        let running = (0..<5).map { _ in Running(loop, TransferRequest(url: origin.url)) }
        loop.stop()
        loop.stop()
        for one in running { #expect(one.outcome()?.error?.code == CurlError.abortedByCallback) }
        #expect(!loop.perform { _ in })
    }
}

func threadNanoseconds() -> Int64 {
    var time = timespec()
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
}
