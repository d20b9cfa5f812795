import Glibc
import HTTPServer
import Synchronization
import TestSupport
import Testing

/// Request heads (RFC 9112), each with two results: sent to the server, and through the proxy of `deploy`.
@Suite struct HeadTests {
    /// Bytes after a malformed request that must not count as a request.
    private static let smuggled = Array("GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n".utf8)

    @Test("a malformed head is refused and its connection closed; a valid one is accepted")
    func direct() throws {
        let requests = Mutex<[Request]>([])
        let handler = ScriptedHandler { request, responder in
            requests.withLock { $0.append(request) }
            responder.send(Response(status: 200))
        }
        try serving(handler) { server in
            for row in HeadCase.all {
                let client = try Client(server)
                try client.send(row.request + (row.isRefused ? Self.smuggled : []))
                try expect(row, client)
                let bodies = requests.withLock { requests in
                    defer { requests = [] }
                    return requests.map { String(decoding: $0.body, as: UTF8.self) }
                }
                switch row.direct {
                case .accepted(let body): #expect(bodies == [body], "\(row.name)")
                case .undetected: #expect(bodies.count == 1, "\(row.name)")
                case .refused, .closed: #expect(bodies.isEmpty, "\(row.name)")
                }
            }
        }
    }

    /// Expects the response of the case, if any, and the state of the connection.
    private func expect(_ row: HeadCase, _ client: Client) throws {
        switch row.direct {
        case .accepted, .undetected:
            let status = try client.response().status
            #expect(status == 200, "\(row.name)")
        case .refused(let status):
            let head = try client.head()
            #expect(head.status == status, "\(row.name)")
            #expect(head.fields["Connection"]?.lowercased() == "close", "\(row.name)")
            // If a server keeps the connection by mistake, the test must not wait for it.
            if head.status != status { client.stopSending() }
            #expect(!String(decoding: try client.rest(), as: UTF8.self).contains("HTTP/1.1 2"), "\(row.name)")
        case .closed:
            let bytes = try client.rest()
            #expect(bytes.isEmpty, "\(row.name): \(String(decoding: bytes, as: UTF8.self))")
        }
    }

    @Test("through the proxy, a malformed head is refused, or arrives as one well-formed request")
    func proxied() throws {
        let upstream = try StrictUpstream()
        defer { upstream.stop() }
        let proxy = try FerryProxy(upstream: upstream.port)
        defer { proxy.stop() }
        for row in HeadCase.all {
            let client = try Client(proxy.port)
            try client.send(row.request)
            let status = try? client.head().status
            let arrivals = upstream.take()
            let result = "\(row.name): \(status ?? 0) \(arrivals)"
            switch row.proxied {
            case .forwarded: #expect(status == 200 && arrivals == [.request], "\(result)")
            case .refused(let expected): #expect(status == expected && arrivals.isEmpty, "\(result)")
            case .refusedBehind:
                guard case .malformed? = arrivals.first, status == 400, row.direct == .refused(400) else {
                    Issue.record("\(result)")
                    continue
                }
            // An HTTP/0.9 response has no status.
            case .withoutHost: #expect(status ?? 400 == 400 && arrivals == [.withoutHost], "\(result)")
            }
        }
    }
}
