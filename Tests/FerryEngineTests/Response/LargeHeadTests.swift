import FerryCore
import FerryEngine
import TestSupport
import TestThreads
import Testing

/// Response heads beyond the bounds of Ferry and of libcurl.
@Suite("Large response heads", .serialized, .onOwnThread) struct LargeHeadTests {
    /// Head that a server sends in pieces, and the place of its excess.
    struct Case: Sendable, CustomTestStringConvertible {
        let name: String
        let pieces: [String]
        var phase = TransferError.Phase.waiting
        var testDescription: String { name }
    }

    private static let start = "HTTP/1.1 200 OK\r\n"
    private static let chunked = start + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n"

    private static func field(_ byteCount: Int, _ name: String = "A") -> String {
        "\(name): " + String(repeating: "x", count: byteCount) + "\r\n"
    }

    private static let cases = [
        Case(name: "a field of 101 KiB", pieces: [start, field(103_500), "\r\n"]),
        Case(name: "a field of 1 MiB", pieces: [start, field(1 << 20), "\r\n"]),
        Case(name: "a field of 70 KiB", pieces: [start, field(70_000), "\r\n"]),
        Case(name: "400 KiB of fields", pieces: [start] + (0..<40).map { _ in field(10_000) } + ["\r\n"]),
        Case(name: "2,000 fields", pieces: [start] + (0..<2_000).map { _ in field(1) } + ["\r\n"]),
        Case(name: "a status line of 101 KiB", pieces: ["HTTP/1.1 200 " + field(103_500), "\r\n"]),
        Case(name: "no line end", pieces: ["HTTP/1.1 200 " + String(repeating: "x", count: 110_000)]),
        Case(
            name: "interim responses of 400 KiB",
            pieces: (0..<40).map { _ in "HTTP/1.1 103 Early Hints\r\n" + field(10_000, "Link") + "\r\n" }
                + [start, "\r\n"]),
        Case(
            name: "a field of 101 KiB in an interim response",
            pieces: ["HTTP/1.1 103 Early Hints\r\n", field(103_500, "Link"), "\r\n", start, "\r\n"]),
        Case(
            name: "a Location of 101 KiB",
            pieces: ["HTTP/1.1 302 Found\r\n", "Location: /" + field(103_500), "\r\n"]),
        Case(name: "a trailer of 5 KiB", pieces: [chunked, field(5_000), "\r\n"], phase: .receiving),
        Case(name: "a trailer of 101 KiB", pieces: [chunked, field(103_500), "\r\n"], phase: .receiving),
    ]

    private static func origin(_ pieces: [String]) throws -> ScriptedOrigin {
        try ScriptedOrigin { connection in
            guard connection.readRequest() != nil else { return }
            for piece in pieces where !connection.send(piece) { return }
        }
    }

    @Test("a response head beyond a bound is response_too_large and is not retried", arguments: cases)
    func whole(_ one: Case) throws {
        let fixture = try Fixture()
        defer { fixture.stop() }
        for kind in [JobKind.data, .download] {
            let origin = try Self.origin(one.pieces)
            defer { origin.stop() }
            let error = try #require(fixture.run(kind, origin.url + "/")?.failure)
            #expect(error.code == .responseTooLarge && error.phase == one.phase, "\(error)")
            #expect(!error.isRetryable && error.message.contains("server"))
            #expect(origin.requests.count == 1)
        }
    }

    @Test("many small trailers count with the head")
    func trailers() throws {
        let fixture = try Fixture()
        defer { fixture.stop() }
        let origin = try Self.origin([Self.chunked] + (0..<40).map { _ in Self.field(3_000) } + ["\r\n"])
        defer { origin.stop() }
        let error = try #require(fixture.run(.data, origin.url + "/")?.failure)
        #expect(error.code == .responseTooLarge && !error.isRetryable)
    }

    @Test("the head after a redirect has the same bounds")
    func afterRedirect() throws {
        let fixture = try Fixture()
        defer { fixture.stop() }
        let origin = try ScriptedOrigin { connection in
            while let request = connection.readRequest() {
                if request.path == "/" {
                    connection.send(
                        "HTTP/1.1 302 Found\r\nLocation: /next\r\nContent-Length: 0\r\n\r\n")
                } else {
                    connection.send(Self.start + Self.field(103_500) + "\r\n")
                }
            }
        }
        defer { origin.stop() }
        let error = try #require(fixture.run(.data, origin.url + "/")?.failure)
        #expect(error.code == .responseTooLarge && error.phase == .waiting && !error.isRetryable)
        #expect(origin.requests.map(\.path) == ["/", "/next"])
    }

    @Test("a part of a file has the same bounds", arguments: [70_000, 103_500])
    func parts(byteCount: Int) throws {
        let fixture = try Fixture()
        defer { fixture.stop() }
        let origin = try Self.origin([Self.start, Self.field(byteCount), "\r\n"])
        defer { origin.stop() }
        let error = try #require(
            fixture.run(.download, origin.url + "/") { $0.spec.segmentCountMax = 4 }?.failure)
        #expect(error.code == .responseTooLarge && !error.isRetryable, "\(error)")
    }

    @Test(
        "a proxy's response to CONNECT beyond libcurl's bounds is told apart from the server's",
        arguments: [(17_000, 1), (10_000, 40)])
    func connect(byteCount: Int, fieldCount: Int) throws {
        let fixture = try Fixture()
        defer { fixture.stop() }
        let fields = (0..<fieldCount).map { _ in Self.field(byteCount) }
        let proxy = try Self.origin(["HTTP/1.1 200 OK\r\n"] + fields + ["\r\n"])
        defer { proxy.stop() }
        let error = try #require(
            fixture.run(.download, "https://localhost:1/") { try? $0.pass(proxy.url) }?.failure)
        #expect(error.code == .responseTooLarge && error.phase == .connecting, "\(error)")
        #expect(!error.isRetryable && error.message.contains("proxy"))
    }

    @Test("chunk extensions are skipped; endless ones end as a response that brings no byte")
    func extensions() throws {
        let fixture = try Fixture()
        defer { fixture.stop() }
        let text = String(repeating: "x", count: 400_000)
        let long = try Self.origin([
            Self.start + "Transfer-Encoding: chunked\r\n\r\n", "5;a=\(text)\r\nhello\r\n0\r\n\r\n",
        ])
        defer { long.stop() }
        #expect(fixture.run(.data, long.url + "/")?.text == "hello")
        let endless = try ScriptedOrigin { connection in
            guard connection.readRequest() != nil else { return }
            connection.send(Self.start + "Transfer-Encoding: chunked\r\n\r\n5;a=")
            while connection.send(text) {}
        }
        defer { endless.stop() }
        let error = fixture.run(.data, endless.url + "/") { $0.spec.request.timeoutForRequest = 1 }?.failure
        #expect(error?.code == .timedOut && error?.phase == .receiving)
    }
}
