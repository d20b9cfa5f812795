import FerryCore
import Glibc
import HTTPServer
import Synchronization
import Testing

@testable import FerryAPI

/// The API behind `HTTPServer`, over sockets.
@Suite("API over HTTP")
struct ServerTests {
    private func exchange(_ port: UInt16, _ text: String) throws -> String {
        let connection = try RawConnection(port)
        try connection.send(text)
        return connection.rest()
    }

    private func request(_ line: String, _ headers: String = "", _ body: String = "") -> String {
        "\(line) HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
            + "Authorization: Bearer \(Fixture.adminKey)\r\n\(headers)"
            + (body.isEmpty ? "" : "Content-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n")
            + "\r\n\(body)"
    }

    private func serving(_ body: (UInt16, Fixture) throws -> Void) throws {
        let fixture = Fixture()
        let server = try Server(address: "127.0.0.1", port: 0, handler: fixture.api)
        try server.start()
        defer { server.stop() }
        try body(server.port, fixture)
    }

    @Test("a job is submitted and read, and its requests are counted")
    func submit() throws {
        try serving { port, fixture in
            let response = try exchange(port, request("POST /v1/jobs", "X-Request-Id: mine\r\n", small()))
            #expect(response.hasPrefix("HTTP/1.1 201 "))
            #expect(response.contains("X-Request-Id: mine\r\n"))
            let id = try #require(fixture.store.state.withLock { $0.jobs.keys.first })
            #expect(try exchange(port, request("GET /v1/jobs/\(id)")).contains("\"state\":\"queued\""))
            let head = try exchange(port, request("HEAD /v1/jobs/\(id)"))
            #expect(head.hasPrefix("HTTP/1.1 200 ") && head.hasSuffix("\r\n\r\n"))
        }
    }

    @Test("a body that is too large, of another type or truncated gets a problem document")
    func problems() throws {
        try serving { port, _ in
            let large = try exchange(
                port,
                request("POST /v1/jobs", "Content-Type: application/json\r\nContent-Length: 2000000\r\n"))
            #expect(large.hasPrefix("HTTP/1.1 413 ") && large.contains("application/problem+json"))
            let early = try exchange(
                port,
                "POST /v1/jobs HTTP/1.1\r\nHost: a\r\nContent-Length: 900000\r\nExpect: 100-continue\r\n\r\n")
            #expect(early.hasPrefix("HTTP/1.1 401 "))
            let options = try exchange(port, request("OPTIONS /v1/jobs"))
            #expect(options.hasPrefix("HTTP/1.1 204 ") && options.contains("Allow: GET, HEAD, OPTIONS, POST"))
            #expect(try exchange(port, request("PATCH /v1/jobs", "", "{}")).hasPrefix("HTTP/1.1 405 "))
            #expect(try exchange(port, request("GET /nothing")).hasPrefix("HTTP/1.1 404 "))
            #expect(try exchange(port, request("GET /readyz")).hasSuffix("ok\n"))
        }
    }

    @Test("a range of a content is sent from its file")
    func file() throws {
        try serving { port, fixture in
            let id = try fixture.submit()
            var template = Array("/tmp/ferry-content-XXXXXX".utf8CString)
            let descriptor = mkstemp(&template)
            let path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
            defer {
                close(descriptor)
                unlink(path)
            }
            #expect(write(descriptor, "0123456789", 10) == 10)
            let result = TransferResult(
                location: .managedFile, size: 10, sha256: String(repeating: "00", count: 32),
                verified: .length)
            fixture.store.finish(id, .succeeded) { $0.storedResult = Stored(result) }
            let content = try #require(ContentInFile(path))
            fixture.store.state.withLock { $0.contents[id] = content }
            let part = try exchange(port, request("GET /v1/jobs/\(id)/content", "Range: bytes=3-5\r\n"))
            #expect(part.hasPrefix("HTTP/1.1 206 ") && part.hasSuffix("\r\n\r\n345"))
            let head = try exchange(port, request("HEAD /v1/jobs/\(id)/content"))
            #expect(head.contains("Content-Length: 10\r\n") && head.hasSuffix("\r\n\r\n"))
        }
    }

    @Test("a content in no file is sent as it comes, and is cut off where it cannot be read")
    func distant() throws {
        try serving { port, fixture in
            let id = try fixture.submit()
            let result = TransferResult(
                location: .managedFile, size: 10, sha256: String(repeating: "00", count: 32),
                verified: .length)
            fixture.store.finish(id, .succeeded) { $0.storedResult = Stored(result) }
            func set(readable: Int?) {
                fixture.store.state.withLock {
                    $0.contents[id] = DistantContent(Array("0123456789".utf8), readable: readable)
                }
            }
            let get = "GET /v1/jobs/\(id)/content"
            set(readable: nil)
            let part = try exchange(port, request(get, "Range: bytes=3-5\r\n"))
            #expect(part.hasPrefix("HTTP/1.1 206 ") && part.hasSuffix("\r\n\r\n345"))
            set(readable: nil)
            let followed = try exchange(port, request(get + "?follow=true"))
            #expect(followed.contains("\r\n9\r\n") && followed.contains("X-Ferry-State: succeeded"))
            set(readable: 4)
            let short = try exchange(port, request(get))
            #expect(short.contains("Content-Length: 10\r\n") && short.hasSuffix("\r\n\r\n0123"))
            set(readable: 4)
            #expect(try !exchange(port, request(get + "?follow=true")).contains("X-Ferry-State: succeeded"))
        }
    }
}

/// A client's connection. Reads wait for at most 30 s.
final class RawConnection {
    private let descriptor: Int32

    init(_ port: UInt16) throws {
        descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        var timeout = timeval(tv_sec: 30, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &timeout, socklen_t(MemoryLayout<timeval>.size))
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
        let result = withUnsafePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
            }
        }
        try #require(result == 0)
    }

    deinit { close(descriptor) }

    func send(_ text: String) throws {
        let bytes = Array(text.utf8)
        try #require(Glibc.send(descriptor, bytes, bytes.count, Int32(MSG_NOSIGNAL)) == bytes.count)
    }

    /// Returns all bytes until the server closes the connection.
    func rest() -> String {
        var response: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: 65_536)
        while case let count = read(descriptor, &chunk, chunk.count), count > 0 {
            response += chunk[..<count]
        }
        return String(decoding: response, as: UTF8.self)
    }
}
