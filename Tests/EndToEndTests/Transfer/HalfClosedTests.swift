import FerryCore
import Glibc
import Sys
import TestSupport
import TestThreads
import Testing

/// Clients that close their sending side after the request (shutdown(2), SHUT_WR).
@Suite("Half-closed clients", .onOwnThread)
struct HalfClosedTests {
    private let ferry: FerryProcess

    init() throws { ferry = try FerryProcess.shared.get().ferry }

    @Test("a half-closed client gets responses of every kind of route: direct, database, wait and content")
    func everyRoute() throws {
        let origin = try ScriptedOrigin.answering { _, _ in
            Array("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".utf8)
        }
        defer { origin.stop() }
        func job(_ name: String) -> String {
            #"{"kind":"download","request":{"url":"\#(origin.url)/"},"destination":{"path":"half/\#(name)"}}"#
        }
        let done = try ferry.run(job("done"))
        let id = try #require(done["id"]?.string)
        let waiting =
            #"{"kind":"data","session":"half","request":{"url":"\#(origin.url)/"},"#
            + #""schedule":{"earliest_begin_at":"2099-01-01T00:00:00Z"}}"#
        let waitingID = try ferry.submit(waiting)
        let routes: [(request: String, status: Int, words: String)] = [
            ("GET /livez", 200, ""), ("GET /metrics", 200, "ferry_event_streams"),
            ("GET /none", 404, "not_found"),
            ("GET /v1/jobs/\(id)", 200, id), ("GET /v1/jobs?limit=1", 200, "next_cursor"),
            ("GET /v1/events?limit=1", 200, "next_cursor"),
            ("GET /v1/jobs/\(id)/events", 200, "job.succeeded"),
            ("GET /v1/admin/status", 200, "heartbeat_age_seconds"), ("GET /v1/admin/hosts", 200, "data"),
            ("GET /v1/sessions", 200, "data"), ("GET /v1/jobs/\(id)/content", 200, "ok"),
            ("POST /v1/jobs\n\(job("submitted"))", 201, "half/submitted"),
            ("POST /v1/jobs/batch\n{\"jobs\":[\(job("batch"))]}", 201, "data"),
            ("PUT /v1/sessions/half-closed\n{}", 201, "half-closed"),
            ("POST /v1/jobs/\(waitingID)/cancel\n{}", 200, "cancelled"),
            ("POST /v1/jobs Prefer: wait=60\n\(job("waited"))", 201, "succeeded"),
            ("GET /v1/jobs/\(id) Prefer: wait=1", 200, "succeeded"),
        ]
        for route in routes {
            let response = try halfClosed(route.request)
            #expect(
                response.hasPrefix("HTTP/1.1 \(route.status) "), "\(route.request): \(response.prefix(400))")
            #expect(response.contains(route.words), "\(route.request): \(response.prefix(400))")
        }
    }

    @Test("an event stream continues after the client has closed its sending side")
    func stream() throws {
        let listener = try EventListener(ferry, "/v1/events?session=half-stream", stopsSending: true)
        defer { listener.stop() }
        #expect(listener.head.wait().first?.contains(" 200 ") == true)
        let begin = try #require(listener.messages.wait().first)
        #expect(begin.event != nil || begin.id != nil)
        // The server has seen the end of the input and writes a comment to find out whether the client still
        // reads.
        #expect(listener.messages.wait().first.map { $0.event == nil && $0.id == nil } == true)
        _ = try ferry.submit(
            #"{"kind":"data","session":"half-stream","request":{"url":"http://127.0.0.1:1/"},"#
                + #""schedule":{"earliest_begin_at":"2099-01-01T00:00:00Z"}}"#)
        #expect(listener.events(1).first?.event == "job.created")
    }

    /// Returns all bytes until the server closes. `request` has a method, a path and an optional field, and
    /// in a second line an optional body.
    private func halfClosed(_ request: String) throws -> String {
        let parts = request.split(separator: "\n", maxSplits: 1).map(String.init)
        let words = parts[0].split(separator: " ", maxSplits: 2).map(String.init)
        var text =
            "\(words[0]) \(words[1]) HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer \(adminKey)\r\n"
        if words.count > 2 { text += "\(words[2])\r\n" }
        if parts.count > 1 {
            text += "Content-Type: application/json\r\nContent-Length: \(parts[1].utf8.count)\r\n"
        }
        text += "\r\n" + (parts.count > 1 ? parts[1] : "")
        let descriptor = try EventListener.connected(to: ferry.port)
        defer { close(descriptor) }
        var timeout = timeval(tv_sec: 120, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &timeout, socklen_t(MemoryLayout<timeval>.size))
        let bytes = Array(text.utf8)
        guard send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL)) == bytes.count else {
            throw SystemError("send")
        }
        shutdown(descriptor, Int32(SHUT_WR))
        var response: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while case let count = recv(descriptor, &buffer, buffer.count, 0), count > 0 {
            response += buffer[..<count]
        }
        return String(decoding: response, as: UTF8.self)
    }
}
