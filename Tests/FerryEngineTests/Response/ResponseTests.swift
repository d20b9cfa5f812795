import FerryCore
import FerryEngine
import TestSupport
import TestThreads
import Testing

/// Every way in which an answer can be delimited, and some in which it cannot.
@Suite(.serialized, .onOwnThread) struct ResponseTests {
    struct Row: Sendable, CustomTestStringConvertible {
        let name: String
        var method = "GET"
        let answer: String
        var body: String?
        var verified = TransferResult.Verification.length
        var failure: TransferError.Code?
        var testDescription: String { name }
    }

    private static let rows = [
        Row(name: "a length", answer: "HTTP/1.1 200 OK\nContent-Length: 3\n\nabc", body: "abc"),
        Row(name: "a length of nothing", answer: "HTTP/1.1 200 OK\nContent-Length: 0\n\n", body: ""),
        Row(name: "HEAD", method: "HEAD", answer: "HTTP/1.1 200 OK\nContent-Length: 9\n\n", body: ""),
        Row(name: "HEAD without a length", method: "HEAD", answer: "HTTP/1.1 200 OK\n\n", body: ""),
        Row(name: "204", answer: "HTTP/1.1 204 No\n\n", body: ""),
        Row(name: "204 with a body", answer: "HTTP/1.1 204 No\nContent-Length: 3\n\nabc", body: ""),
        Row(name: "205", answer: "HTTP/1.1 205 Reset\nContent-Length: 0\n\n", body: ""),
        Row(name: "304", answer: "HTTP/1.1 304 Same\nContent-Length: 900000\n\n", body: ""),
        Row(
            name: "interim answers",
            answer: "HTTP/1.1 103 Early Hints\nLink: </a>\n\nHTTP/1.1 102 Processing\n\n"
                + "HTTP/1.1 100 Continue\n\nHTTP/1.1 200 OK\nContent-Length: 1\n\na", body: "a"),
        Row(
            name: "chunks and trailers",
            answer:
                "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\nTrailer: X\n\n3\nabc\n2;x=y\nde\n0\nX: 1\n\n",
            body: "abcde"),
        Row(
            name: "a chunk cut short", answer: "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n5\nab",
            failure: .incompleteBody),
        Row(
            name: "no last chunk", answer: "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n2\nab\n",
            failure: .incompleteBody),
        Row(
            name: "a chunk size that is none",
            answer: "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\nzz\nab\n0\n\n", failure: .incompleteBody),
        Row(
            name: "a transfer coding that was not asked for",
            answer: "HTTP/1.1 200 OK\nTransfer-Encoding: x-new\n\nabc", failure: .responseInvalid),
        Row(
            name: "too long a length", answer: "HTTP/1.1 200 OK\nContent-Length: 9\n\nabc",
            failure: .incompleteBody),
        Row(name: "too short a length", answer: "HTTP/1.1 200 OK\nContent-Length: 2\n\nabc", body: "ab"),
        Row(
            name: "the same length twice",
            answer: "HTTP/1.1 200 OK\nContent-Length: 3\nContent-Length: 3\n\nabc", body: "abc"),
        Row(
            name: "two lengths", answer: "HTTP/1.1 200 OK\nContent-Length: 3\nContent-Length: 2\n\nabc",
            failure: .responseInvalid),
        Row(
            name: "two lengths in one field", answer: "HTTP/1.1 200 OK\nContent-Length: 3, 2\n\nabc",
            failure: .responseInvalid),
        Row(
            name: "a negative length", answer: "HTTP/1.1 200 OK\nContent-Length: -3\n\nabc",
            failure: .responseInvalid),
        Row(
            name: "a length in words", answer: "HTTP/1.1 200 OK\nContent-Length: three\n\nabc",
            failure: .responseInvalid),
        Row(
            name: "a length with a sign", answer: "HTTP/1.1 200 OK\nContent-Length: +3\n\nabc",
            failure: .responseInvalid),
        Row(
            name: "a length beyond all numbers",
            answer: "HTTP/1.1 200 OK\nContent-Length: 99999999999999999999\n\nabc",
            failure: .responseInvalid),
        Row(
            name: "the end of the connection", answer: "HTTP/1.1 200 OK\n\nabc", body: "abc",
            verified: .none),
        Row(name: "HTTP/1.0", answer: "HTTP/1.0 200 OK\n\nabc", body: "abc", verified: .none),
        Row(name: "HTTP/1.0 with a length", answer: "HTTP/1.0 200 OK\nContent-Length: 3\n\nabc", body: "abc"),
        Row(
            name: "chunks and a length",
            answer: "HTTP/1.1 200 OK\nContent-Length: 99\nTransfer-Encoding: chunked\n\n3\nabc\n0\n\n",
            body: "abc"),
        Row(
            name: "a protocol that was not asked for",
            answer: "HTTP/1.1 101 Switching\nUpgrade: x\nConnection: upgrade\n\nabc",
            failure: .responseInvalid),
        Row(name: "no HTTP", answer: "hello\n", failure: .responseInvalid),
    ]

    private static func run(_ row: Row, _ kind: JobKind) throws -> AttemptResult {
        let origin = try ScriptedOrigin { connection in
            _ = connection.readRequest()
            connection.send(row.answer.replacing("\n", with: "\r\n"))
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        let ended = fixture.run(kind, origin.url) {
            $0.spec.request.method = row.method
            // A body that is not there cannot be too long.
            $0.spec.accept.byteCountMax = 100
        }
        return try #require(ended)
    }

    @Test("a body ends where RFC 9112 §6.3 says, or the response is refused", arguments: rows)
    func framing(_ row: Row) throws {
        let result = try Self.run(row, .data)
        if let failure = row.failure {
            #expect(result.failure?.code == failure, "\(result.outcome)")
        } else {
            #expect(result.success?.body == row.body.map { Array($0.utf8) }, "\(result.outcome)")
            #expect(result.success?.verified == row.verified)
        }
    }
}
