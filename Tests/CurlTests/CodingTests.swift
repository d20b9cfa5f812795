import Curl
import TestSupport
import TestThreads
import Testing

/// Content codings, which libcurl leaves in place, and codings that end the transfer before the body is read.
@Suite(.serialized, .onOwnThread) struct CodingTests {
    private static let plain = patternBytes(1_000)

    /// Runs a request that asks for `codings`. The response has these lines in its head and this body.
    private static func run(
        _ lines: String, _ body: [UInt8], asking codings: String?
    ) throws -> (error: CurlError?, received: [UInt8]) {
        let origin = try ScriptedOrigin { connection in
            guard connection.readRequest() != nil else { return }
            connection.send("HTTP/1.1 200 OK\r\n\(lines)\r\nConnection: close\r\n\r\n")
            connection.send(body)
        }
        let loop = try CurlLoop(name: "test-codings", keptConnections: 8)
        defer {
            loop.stop()
            origin.stop()
        }
        var request = TransferRequest(url: origin.url)
        request.acceptEncoding = codings
        let running = Running(loop, request)
        let outcome = try #require(running.outcome())
        return (outcome.error, running.recorder.received)
    }

    private static func chunked(_ bytes: [UInt8]) -> [UInt8] {
        Array("\(String(bytes.count, radix: 16))\r\n".utf8) + bytes + Array("\r\n0\r\n\r\n".utf8)
    }

    @Test(
        "an unrequested transfer coding ends the transfer",
        arguments: [
            "Transfer-Encoding: gzip, chunked", "transfer-encoding:\tGZIP,chunked",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip", "Transfer-Encoding: x-gzip,,chunked",
        ])
    func transferCodings(_ lines: String) throws {
        let body = Self.chunked(Coded.gzip(Self.plain))
        for codings in [nil, "gzip"] {
            let ended = try Self.run(lines, body, asking: codings)
            #expect(ended.error == .unrequestedCoding && ended.received.isEmpty, "\(ended)")
        }
    }

    @Test("an unrequested coding in an interim response ends the transfer")
    func interim() throws {
        let origin = try ScriptedOrigin { connection in
            guard connection.readRequest() != nil else { return }
            connection.send(
                "HTTP/1.1 103 Hints\r\nTransfer-Encoding: gzip\r\n\r\n"
                    + "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")
        }
        let loop = try CurlLoop(name: "test-codings", keptConnections: 8)
        defer {
            loop.stop()
            origin.stop()
        }
        let outcome = try #require(Running(loop, TransferRequest(url: origin.url)).outcome())
        #expect(outcome.error == .unrequestedCoding)
    }

    @Test("chunked and unencoded bodies need no request")
    func framing() throws {
        let chunked = try Self.run("Transfer-Encoding:  Chunked ", Self.chunked(Self.plain), asking: "gzip")
        #expect(chunked.error == nil && chunked.received == Self.plain)
        let identity = try Self.run("Transfer-Encoding: identity", Self.plain, asking: nil)
        #expect(identity.error == nil && identity.received == Self.plain)
    }

    @Test(
        "several content codings or an unrequested one end the transfer",
        arguments: [
            "Content-Encoding: gzip, gzip", "content-encoding: gzip\r\nCONTENT-ENCODING:\tgzip",
            "Content-Encoding: br", "Content-Encoding: identity, gzip, zstd", "Content-Encoding: none",
        ])
    func contentCodings(_ lines: String) throws {
        let body = Coded.gzip(Coded.gzip(Self.plain))
        let asking = try Self.run(lines, body, asking: "gzip")
        #expect(asking.error == .unrequestedCoding && asking.received.isEmpty, "\(asking)")
        // Without requested codings the body is not decoded.
        let silent = try Self.run(lines, body, asking: nil)
        #expect(silent.error == nil && silent.received == body)
    }

    @Test(
        "a body with a requested content coding is passed on as it was sent",
        arguments: [
            "Content-Encoding: gzip", "content-encoding:X-GZIP", "Content-Encoding: identity, gzip",
            "X: 1\r\nContent-Encoding: identity\r\nContent-Encoding:\t gzip ,",
        ])
    func kept(_ lines: String) throws {
        let ended = try Self.run(lines, Coded.gzip(Self.plain), asking: "gzip, br")
        #expect(ended.error == nil && ended.received == Coded.gzip(Self.plain))
    }

    @Test("a buffered request ends with the same error")
    func exchange() throws {
        let origin = try ScriptedOrigin.answering { _, _ in
            Array("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n".utf8)
        }
        defer { origin.stop() }
        do throws(BufferedRequest.Failure) {
            let answer = try BufferedRequest(url: origin.url).perform()
            Issue.record("it has an answer: \(answer)")
        } catch {
            guard case .failed(let cause, _) = error else {
                Issue.record("it ended otherwise: \(error)")
                return
            }
            #expect(cause == .unrequestedCoding)
        }
    }
}
