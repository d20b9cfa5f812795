import Curl
import TestSupport
import Testing

@Suite struct BufferedRequestTests {
    private static func run(_ exchange: BufferedRequest) throws -> Result<
        BufferedRequest.Response, BufferedRequest.Failure
    > {
        let loop = try CurlLoop(name: "test-exchange", keptConnections: 8)
        defer { loop.stop() }
        let answer = Signal<Result<BufferedRequest.Response, BufferedRequest.Failure>>()
        exchange.start(on: loop) { answer.fire($0) }
        return try #require(answer.wait().first)
    }

    private static func echo() throws -> ScriptedOrigin {
        try ScriptedOrigin.answering { request, body in
            let head =
                "HTTP/1.1 201 Created\r\nContent-Length: \(body.count)\r\nX-Method: \(request.method)\r\n\r\n"
            return Array(head.utf8) + body
        }
    }

    @Test("a buffered request returns status, fields and body, blocking or not")
    func answer() throws {
        let origin = try Self.echo()
        defer { origin.stop() }
        var exchange = BufferedRequest(url: origin.url)
        exchange.method = "POST"
        exchange.body = Array("hello".utf8)
        for result in [try Self.run(exchange), .success(try exchange.perform())] {
            let answer = try result.get()
            #expect(answer.status == 201)
            #expect(answer.header("x-method") == "POST")
            #expect(answer.body == Array("hello".utf8))
            #expect(!answer.isTruncated)
        }
    }

    @Test("a body above the byte limit is truncated, and the response says so")
    func byteLimit() throws {
        let origin = try Self.echo()
        defer { origin.stop() }
        var exchange = BufferedRequest(url: origin.url)
        exchange.method = "POST"
        exchange.body = patternBytes(500_000)
        exchange.byteLimit = 1_000
        let answer = try Self.run(exchange).get()
        #expect(answer.status == 201)
        #expect(answer.body == Array(patternBytes(500_000).prefix(1_000)))
        #expect(answer.isTruncated)
    }

    @Test("a request without a response ends at its deadline")
    func deadline() throws {
        let origin = try ScriptedOrigin { _ = $0.waitUntilClosed() }
        defer { origin.stop() }
        var exchange = BufferedRequest(url: origin.url)
        exchange.deadline = 200
        guard case .failure(.failed(let error, let info)) = try Self.run(exchange) else {
            Issue.record("it ended otherwise")
            return
        }
        #expect(error.code == CurlError.operationTimedOut)
        #expect(info.timings.total >= 150_000)
    }

    @Test("an address that is not allowed receives no byte")
    func blocked() throws {
        let origin = try Self.echo()
        defer { origin.stop() }
        var exchange = BufferedRequest(url: origin.url)
        exchange.allowsAddress = { !$0.host.hasPrefix("127.") }
        guard case .failure(.blocked(let address)) = try Self.run(exchange) else {
            Issue.record("it ended otherwise")
            return
        }
        #expect(address.host == "127.0.0.1")
        #expect(origin.connectionCount == 0)
    }
}
