import FerryCore
import FerryEngine
import Glibc
import TestSupport
import TestThreads
import Testing

@Suite(.serialized, .onOwnThread) struct UploadTests {
    private static func with(_ body: (Nginx, Fixture) throws -> Void) throws {
        let nginx = try Nginx()
        defer { nginx.stop() }
        let fixture = try Fixture()
        defer { fixture.stop() }
        try body(nginx, fixture)
    }

    @Test(
        "an upload arrives completely with its length, and its digest is reported",
        arguments: [0, 1, 100_000, 12_000_000])
    func sizes(size: Int) throws {
        try Self.with { nginx, fixture in
            let bytes = patternBytes(size)
            try writeFile(fixture.root + "/source", bytes)
            let result = try #require(
                fixture.run(.upload, nginx.url + "/put/x") { $0.spec.source = .path("source") })
            #expect(result.success?.size == Int64(size))
            #expect(result.success?.sha256 == sha256(bytes))
            #expect(result.bytesSent == Int64(size))
            #expect(result.response?.status == 201)
            #expect(readFile(nginx.root + "/put/x") == bytes)
        }
    }

    @Test("a source may have any modification time, also 1601, 2400 and out of range")
    func times() throws {
        try Self.with { nginx, fixture in
            try writeFile(fixture.root + "/source", [1])
            var identities: [FileIdentity] = []
            for second in [-11_644_473_600, 13_569_465_600, Int.max, Int.min] {
                // A file system takes the nearest one that it can keep.
                let times = [timespec](repeating: timespec(tv_sec: second, tv_nsec: 1), count: 2)
                try #require(utimensat(AT_FDCWD, fixture.root + "/source", times, 0) == 0)
                let result = fixture.run(.upload, nginx.url + "/put/x") { $0.spec.source = .path("source") }
                #expect(result?.success?.size == 1)
                var status = stat()
                status.st_mtim = times[0]
                identities.append(FileIdentity(status))
                #expect(identities.last.flatMap { FileIdentity($0.text) } == identities.last)
            }
            #expect(Set(identities.map(\.modified)).count == 4)
        }
    }

    @Test("an inline payload is sent like a file")
    func inline() throws {
        try Self.with { nginx, fixture in
            let result = fixture.run(.upload, nginx.url + "/put/x") {
                $0.payload = [1, 2, 3]
                $0.spec.source = .inline(.init(form: .base64, byteCount: 3))
            }
            #expect(result?.success?.size == 3)
            #expect(readFile(nginx.root + "/put/x") == [1, 2, 3])
        }
    }

    @Test(
        "only regular files below the root are accepted as sources",
        arguments: ["missing", "out/passwd", "dir", "fifo", "../x"])
    func sources(path: String) throws {
        try Self.with { nginx, fixture in
            symlink("/etc", fixture.root + "/out")
            mkdir(fixture.root + "/dir", 0o755)
            mkfifo(fixture.root + "/fifo", 0o644)
            try writeFile(fixture.directory + "/x", [1])
            let result = fixture.run(.upload, nginx.url + "/put/x") { $0.spec.source = .path(path) }
            #expect(result?.failure?.code == .sourceNotFound)
            #expect(result?.failure?.isRetryable == false)
        }
    }

    @Test("a source of another size is not sent; one of another digest is sent once")
    func integrity() throws {
        try Self.with { nginx, fixture in
            try writeFile(fixture.root + "/source", [1, 2, 3])
            let size = fixture.run(.upload, nginx.url + "/put/x") {
                $0.spec.source = .path("source")
                $0.spec.integrity.size = 4
            }
            #expect(size?.failure?.code == .sizeMismatch && size?.failure?.phase == .sending)
            #expect(size?.failure?.isRetryable == false && size?.trace?.transactions.count == 0)
            let digest = fixture.run(.upload, nginx.url + "/put/x") {
                $0.spec.source = .path("source")
                $0.spec.integrity.sha256 = sha256([1, 2, 4])
            }
            #expect(digest?.failure?.code == .digestMismatch && digest?.failure?.isRetryable == false)
        }
    }

    @Test("a source that changes while it is sent fails the attempt")
    func changed() throws {
        let began = Signal<Void>()
        let goOn = Signal<Void>()
        let origin = try ScriptedOrigin { connection in
            guard let request = connection.readRequest() else { return }
            connection.send("HTTP/1.1 100 Continue\r\n\r\n")
            _ = connection.read(1)
            began.fire(())
            _ = goOn.wait()
            _ = connection.readBody(of: request)
            connection.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        let path = fixture.root + "/source"
        try writeFile(path, patternBytes(30_000_000))
        fixture.engine.begin([fixture.attempt(.upload, origin.url) { $0.spec.source = .path("source") }])
        #expect(!began.wait().isEmpty)
        truncate(path, 29_000_000)
        goOn.fire(())
        #expect(fixture.sink.arrived.wait().first?.failure?.code == .sourceChanged)
    }

    @Test("an early refusal stops a large body before it is sent")
    func early() throws {
        let origin = try ScriptedOrigin { connection in
            _ = connection.readRequest()
            connection.send("HTTP/1.1 413 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            _ = connection.waitUntilClosed()
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        try writeFile(fixture.root + "/source", patternBytes(5_000_000))
        var result: AttemptResult?
        repeat {
            result = fixture.run(.upload, origin.url) { $0.spec.source = .path("source") }
        } while Self.wasAnsweredLate(result) && origin.requests.count < 5
        #expect(result?.failure?.code == .unacceptableStatus)
        #expect(result?.bytesSent == 0)
    }

    /// Whether the answer came when libcurl had waited its second for it: then it was no early one.
    private static func wasAnsweredLate(_ result: AttemptResult?) -> Bool {
        guard let log = result?.trace?.transactions,
            let moments = TransactionTests.unpacked(log).first?.moments,
            let sent = moments[.requestStart], let answered = moments[.responseStart]
        else { return false }
        return answered - sent >= 900_000
    }

    @Test("417 is answered by the same upload without Expect, redirects take the body along")
    func again() throws {
        let origin = try ScriptedOrigin { connection in
            while let request = connection.readRequest() {
                if request.header("expect") != nil {
                    connection.send("HTTP/1.1 417 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                    // Who did not wait long enough sends; closing under that would be a reset.
                    _ = connection.waitUntilClosed()
                    return
                }
                let body = connection.readBody(of: request)
                let answer =
                    request.path == "/end"
                    ? "HTTP/1.1 200 OK\r\nX-Got: \(body.count)\r\nContent-Length: 0\r\n\r\n"
                    : "HTTP/1.1 307 x\r\nLocation: /end\r\nContent-Length: 0\r\n\r\n"
                guard connection.send(answer) else { return }
            }
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        try writeFile(fixture.root + "/source", patternBytes(2_000_000))
        let result = try #require(fixture.run(.upload, origin.url) { $0.spec.source = .path("source") })
        #expect(result.success?.sha256 == sha256(patternBytes(2_000_000)), "\(result.outcome)")
        #expect(result.response?.headers.first { $0.name == "X-Got" }?.value == "2000000")
    }

    @Test("the status of a server that responds midway and closes the connection is never lost")
    func hangsUp() throws {
        let origin = try ScriptedOrigin { connection in
            guard connection.readRequest() != nil else { return }
            connection.send("HTTP/1.1 100 Continue\r\n\r\n")
            _ = connection.read(200_000)
            connection.send("HTTP/1.1 413 No\r\nContent-Length: 0\r\n\r\n")
            connection.reset()
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        try writeFile(fixture.root + "/source", patternBytes(20_000_000))
        for _ in 0..<30 {
            let result = try #require(fixture.run(.upload, origin.url) { $0.spec.source = .path("source") })
            #expect(result.failure?.code == .unacceptableStatus, "\(result.outcome)")
            #expect(result.response?.status == 413)
        }
    }
}
