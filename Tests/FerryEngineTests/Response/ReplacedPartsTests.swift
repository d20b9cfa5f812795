import FerryCore
import TestSupport
import TestThreads
import Testing

@testable import FerryEngine

@Suite("Parts that replace each other", .onOwnThread)
struct ReplacedPartsTests {
    private static func head(_ type: String) -> ResponseHead {
        var head = ResponseHead(status: 200, isHTTP1: true)
        head.append("Content-Type", type)
        return head
    }

    private static func parts(_ boundary: String = "b", limit: Int = 1_000) throws -> ReplacedParts {
        try #require(
            ReplacedParts(head("multipart/x-mixed-replace; boundary=\(boundary)"), byteCountMax: limit))
    }

    /// `first`: the size of the first piece, if it differs.
    private static func feed(_ parts: ReplacedParts, _ text: String, by size: Int, first: Int? = nil) throws {
        let bytes = Array(text.utf8)
        var start = 0
        while start < bytes.count {
            let end = min(start + (start == 0 ? first ?? size : size), bytes.count)
            try bytes[start..<end].withUnsafeBytes { try parts.take($0) }
            start = end
        }
    }

    struct Row: Sendable, CustomTestStringConvertible {
        let name: String
        var boundary = "b"
        let text: String
        let count: Int64
        let last: String?
        var mimeType: String? = "text/plain"
        var testDescription: String { name }
    }

    static let rows = [
        Row(
            name: "two parts and the end",
            text: "--b\r\nContent-Type: text/plain\r\n\r\none\r\n--b\r\ncontent-type: Text/Plain; x=y\r\n\r\n"
                + "two\r\n--b--\r\nrest --b\r\n", count: 2, last: "two"),
        Row(
            name: "a preamble, padding, no type, an empty part",
            text: "hello\r\n--b \t\r\n\r\n\r\n--b--", count: 1, last: "", mimeType: nil),
        Row(
            name: "what only looks like a delimiter",
            text: "--b\nContent-Type: text/plain\n\nx--b\n-b\n--c\n\r\n--b--", count: 1,
            last: "x--b\n-b\n--c\n"),
        Row(
            name: "hyphens within the boundary", boundary: "\"--b\"",
            text: "--b\r\nContent-Type: text/plain\r\n\r\none\r\n--b\r\n", count: 1, last: "one"),
        Row(
            name: "the last one is not whole",
            text: "--b\r\nContent-Type: text/plain\r\n\r\none\r\n--b\r\n\r\ntw", count: 1, last: "one"),
        Row(
            name: "the last one is whole by its own length",
            text: "--b\r\n\r\none\r\n--b\r\nContent-Length: 3\r\nContent-Type: text/plain\r\n\r\ntwo",
            count: 2, last: "two"),
        Row(name: "no part", text: "--b\r\nContent-Type: text/plain\r\n\r\non", count: 0, last: nil),
        Row(name: "nothing at all", text: "", count: 0, last: nil),
    ]

    @Test(
        "the last complete part is the result, however bytes are split", arguments: rows, [1, 2, 7, 10_000])
    func last(_ row: Row, size: Int) throws {
        let parts = try Self.parts(row.boundary)
        try Self.feed(parts, row.text, by: size)
        guard let last = row.last else {
            let error = #expect(throws: TransferError.self) { try parts.finish() }
            #expect(error?.code == .incompleteBody)
            return
        }
        let part = try parts.finish()
        #expect(part == .init(mimeType: row.mimeType, bytes: Array(last.utf8)))
        #expect(parts.count == row.count && parts.byteCount == Int64(row.text.utf8.count))
    }

    @Test(
        "a part that is too long, or a head without an end, is refused while it comes", arguments: [1, 999])
    func tooLong(size: Int) throws {
        let fits = try Self.parts(limit: 100)
        try Self.feed(
            fits, "--b\r\n\r\n" + String(repeating: "x", count: 100) + "\r\n--b\r\n", by: size)
        #expect(try fits.finish().bytes.count == 100)
        for text in [
            "--b\r\n\r\n" + String(repeating: "x", count: 110), String(repeating: "x", count: 40_000),
            "--b\r\n" + String(repeating: "x", count: 40_000),
        ] {
            // Below the limit of a head in one piece: each later one has the head read from its start again.
            let first = text.utf8.count > 16_000 ? 16_000 : size
            let error = #expect(throws: TransferError.self) {
                try Self.feed(try Self.parts(limit: 100), text, by: size, first: first)
            }
            #expect(error?.code == .responseTooLarge)
        }
    }

    @Test(
        "other media types are not parsed as replaced parts",
        arguments: ["multipart/mixed; boundary=b", "multipart/x-mixed-replace", "text/plain; boundary=b"])
    func others(_ type: String) {
        #expect(ReplacedParts(Self.head(type), byteCountMax: 1) == nil)
    }

    @Test("a data job's body is the last part; a download stores the body byte for byte")
    func jobs() throws {
        let body =
            "--b\r\nContent-Type: image/png\r\n\r\none\r\n--b\r\nContent-Type: image/png\r\n\r\ntwo\r\n--b--"
        let origin = try ScriptedOrigin { connection in
            while connection.readRequest() != nil {
                connection.send(
                    "HTTP/1.1 200 OK\r\nContent-Type: multipart/x-mixed-replace;boundary=b\r\n"
                        + "Content-Length: \(body.utf8.count)\r\n\r\n")
                connection.send(body)
            }
        }
        defer { origin.stop() }
        let fixture = try Fixture()
        defer { fixture.stop() }
        let data = try #require(fixture.run(.data, origin.url) { _ in })
        #expect(data.success?.body == Array("two".utf8), "\(data.outcome)")
        #expect(data.success?.parts == .init(count: 2, mimeType: "image/png"))
        #expect(data.success?.sha256 == sha256(Array("two".utf8)))
        #expect(data.bytesReceived == Int64(body.utf8.count))
        let download = try #require(fixture.run(.download, origin.url) { $0.to("all") })
        #expect(download.success?.parts == nil)
        let isSame = readFile(fixture.root + "/all") == Array(body.utf8)
        #expect(isSame)
    }
}
