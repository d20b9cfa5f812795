import HTTPServer
import Synchronization
import Testing

@Suite struct RequestTests {
    /// Responds with the request as the handler received it.
    private static let mirror = ScriptedHandler { request, responder in
        let head = request.head
        let segments = (try? head.pathSegments()).map { $0.joined(separator: "|") } ?? "bad"
        let query = (try? head.queryItems()).map {
            $0.map { "\($0.name)=\($0.value)" }.joined(separator: "|")
        }
        let text = "\(head.method) \(head.path) \(segments) \(query ?? "bad") \(head.remoteAddress)"
        responder.send(Response(status: 200, body: .bytes(Array(text.utf8))))
    }

    @Test("a connection serves one request after the other")
    func keepAlive() throws {
        try serving(ScriptedHandler()) { server in
            let client = try Client(server)
            for number in 0..<3 {
                let body = "number \(number)"
                try client.send(
                    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)")
                let response = try client.response()
                #expect(response.status == 200 && response.text == body)
                #expect(response.fields["Connection"] == nil)
            }
            #expect(server.connections == 1)
        }
    }

    @Test("responses to pipelined requests are in order")
    func pipelining() throws {
        try serving(ScriptedHandler()) { server in
            let client = try Client(server)
            let one = "POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\n"
            try client.send((0..<10).map { "\(one)\($0)" }.joined())
            for number in 0..<10 { #expect(try client.response().text == "\(number)") }
        }
    }

    @Test("the response to HEAD has the body's length and no body")
    func head() throws {
        try serving(
            ScriptedHandler { _, responder in
                responder.send(Response(status: 200, body: .bytes([1, 2, 3])))
            }
        ) { server in
            let client = try Client(server)
            try client.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
            let response = try client.response(toHead: true)
            #expect(response.status == 200 && response.fields["Content-Length"] == "3")
            #expect(try client.get("/").body == [1, 2, 3])
        }
    }

    @Test("an escaped slash is part of its segment, and a plus is a plus")
    func escapes() throws {
        try serving(Self.mirror) { server in
            let client = try Client(server)
            #expect(
                try client.get("/a%2Fb/%c3%A9?x=1%262+3&&y").text
                    == "GET /a%2Fb/%c3%A9 a/b|é x=1&2+3|y= 127.0.0.1")
            #expect(try client.get("/a%00b?%zz").text == "GET /a%00b bad bad 127.0.0.1")
            #expect(try client.get("/a%2").text == "GET /a%2 bad  127.0.0.1")
            #expect(try client.get("/%2e%2E/x/").text == "GET /%2e%2E/x/ ..|x|  127.0.0.1")
        }
    }

    @Test("an absolute target is accepted if its host equals the Host header")
    func absoluteForm() throws {
        try serving(Self.mirror) { server in
            let client = try Client(server)
            try client.send("GET http://Example:80/x?y=1 HTTP/1.1\r\nHost: example:80\r\n\r\n")
            #expect(try client.response().text == "GET /x x y=1 127.0.0.1")
            try client.send("GET HTTP://a?q HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try client.response().text == "GET /  q= 127.0.0.1")
            try client.send("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n")
            #expect(try client.response().text == "OPTIONS * *  127.0.0.1")
        }
    }

    @Test("a valid request ID is repeated, and an invalid one is replaced")
    func requestID() throws {
        try serving(ScriptedHandler()) { server in
            let client = try Client(server)
            #expect(try client.get("/", "X-Request-Id: abc-1\r\n").fields["x-request-id"] == "abc-1")
            let long = String(repeating: "x", count: 129)
            let replaced = try client.get("/", "X-Request-Id: \(long)\r\n").fields["X-Request-Id"]
            let other = try client.get("/", "X-Request-Id: a b\r\n").fields["X-Request-Id"]
            #expect(replaced?.hasPrefix("r-") == true && replaced?.utf8.count == 15 && replaced != other)
        }
    }

    @Test("field names compare without case, and no value can start another field")
    func fields() {
        var fields = HTTPFields([("A", "1"), ("b", "2"), ("a", "3")])
        #expect(fields["a"] == "1" && fields.all("A") == ["1", "3"] && fields["c"] == nil)
        fields["A"] = "4"
        #expect(fields.pairs.map { $0.name + $0.value } == ["b2", "A4"])
        fields.append("X", "a\r\nY: b\0")
        #expect(fields["x"] == "a  Y: b " && fields["y"] == nil)
    }

    @Test("more fields than the limit are refused")
    func manyFields() throws {
        var limits = ServerLimits()
        limits.fields = 10
        try serving(ScriptedHandler(), limits: limits) { server in
            let client = try Client(server)
            let more = (0..<10).map { "X-\($0): 1\r\n" }.joined()
            #expect(try client.get("/", more).status == 431)
            #expect(client.isClosed())
        }
    }

    @Test(
        "a head above its limit is refused with a request ID",
        arguments: [
            (40_000, 0, 414, "uri_too_long"), (45_000, 10, 414, "uri_too_long"),
            (1, 400, 431, "headers_too_large"), (20_000, 150, 431, "headers_too_large"),
            (16_000, 150, 200, ""),
        ])
    func largeHead(target: Int, field: Int, status: Int, code: String) throws {
        try serving(ScriptedHandler()) { server in
            let client = try Client(server)
            let value = String(repeating: "v", count: field)
            let more = (0..<98).map { "X-\($0): \(value)\r\n" }.joined()
            let answer = try client.get("/" + String(repeating: "t", count: target), more)
            #expect(answer.status == status)
            let id = try #require(answer.fields["X-Request-Id"])
            guard status != 200 else { return }
            #expect(answer.text == #"{"code":"\#(code)","request_id":"\#(id)"}"#)
            #expect(client.isClosed())
        }
    }

    @Test("an HTTP/1.0 request needs no Host and closes its connection")
    func old() throws {
        try serving(Self.mirror) { server in
            let client = try Client(server)
            try client.send("GET /x HTTP/1.0\r\n\r\n")
            #expect(try client.response().text == "GET /x x  127.0.0.1")
            #expect(client.isClosed())
        }
    }
}
