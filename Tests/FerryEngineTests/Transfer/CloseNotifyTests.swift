import FerryCore
import FerryEngine
import TestSupport
import TestThreads
import Testing

/// A body over TLS that ends with its connection needs close_notify (RFC 9112 §9.8).
@Suite(.serialized, .onOwnThread) struct CloseNotifyTests {
    private static let bytes = patternBytes(40_000, seed: 9)
    private static let tag = "HTTP/1.1 200 OK\r\nETag: \"one\"\r\n"

    /// Sends the answer, and closes the connection with or without `close_notify`.
    private static func origin(
        _ head: String, _ body: [UInt8], saysGoodbye: Bool, isSecure: Bool = true
    ) throws -> ScriptedOrigin {
        let authority = try TestAuthority.shared.get()
        return try ScriptedOrigin(as: isSecure ? authority.server : nil) { connection in
            guard let request = connection.readRequest() else { return }
            _ = connection.readBody(of: request)
            connection.send(head + "\r\n")
            connection.send(body)
            if saysGoodbye { connection.sayGoodbye() }
        }
    }

    private static func run(
        _ kind: JobKind, _ head: String, _ body: [UInt8] = bytes, saysGoodbye: Bool, isSecure: Bool = true,
        _ change: (inout Draft) -> Void = { _ in }
    ) throws -> AttemptResult {
        let origin = try origin(head, body, saysGoodbye: saysGoodbye, isSecure: isSecure)
        let fixture = try Fixture { $0.fileSync = .none }
        defer {
            fixture.stop()
            origin.stop()
        }
        let authority = try TestAuthority.shared.get()
        let result = try #require(
            fixture.run(kind, origin.url) { draft in
                if kind == .download { draft.to("file") }
                if isSecure { draft.trust(authority.certificate) }
                change(&draft)
            })
        if result.failure != nil { #expect(readFile(fixture.root + "/file") == nil) }
        return result
    }

    @Test(
        "without close_notify a body that ends with its connection counts as cut and is retried",
        arguments: [JobKind.download, .data], [0, 100, 40_000])
    func cut(_ kind: JobKind, _ count: Int) throws {
        let body = Array(Self.bytes.prefix(count))
        let result = try Self.run(kind, Self.tag + "Connection: close\r\n", body, saysGoodbye: false)
        let error = try #require(result.failure)
        #expect(error.code == .incompleteBody && error.phase == .receiving && error.isRetryable)
        let trace = try #require(result.trace)
        #expect(trace.diagnostics?.curlMessage.contains("close_notify") == true)
        let transaction = try #require(TransactionTests.unpacked(trace.transactions).last)
        #expect(transaction.moments[.responseStart] != nil && transaction.moments[.responseEnd] == nil)
        let proper = try Self.run(kind, Self.tag + "Connection: close\r\n", body, saysGoodbye: true)
        #expect(proper.success?.verified == TransferResult.Verification.none, "\(proper.outcome)")
        #expect(proper.success?.sha256 == sha256(body))
    }

    @Test("a digest or size proves the bytes without close_notify")
    func proved() throws {
        let head = Self.tag + "Connection: close\r\n"
        let bytes = Self.bytes
        let sized = try Self.run(.download, head, saysGoodbye: false) { $0.spec.integrity.size = 40_000 }
        #expect(sized.success?.verified == .length, "\(sized.outcome)")
        let hashed = try Self.run(.download, head, saysGoodbye: false) {
            $0.spec.integrity.sha256 = sha256(bytes)
        }
        #expect(hashed.success?.verified == .digest, "\(hashed.outcome)")
        for field in ["Content-Length: 40000\r\n", "Content-Length: 40000\r\nConnection: close\r\n"] {
            let counted = try Self.run(.download, Self.tag + field, saysGoodbye: false)
            #expect(counted.success?.verified == .length, "\(counted.outcome)")
        }
        let chunks = Array("9c40\r\n".utf8) + bytes + Array("\r\n0\r\n\r\n".utf8)
        let chunked = try Self.run(
            .download, Self.tag + "Transfer-Encoding: chunked\r\n", chunks, saysGoodbye: false)
        #expect(chunked.success?.verified == .length, "\(chunked.outcome)")
        let empty = try Self.run(.data, "HTTP/1.1 204 No\r\n", [], saysGoodbye: false)
        #expect(empty.success != nil, "\(empty.outcome)")
    }

    @Test("a job with parts needs close_notify too if its body comes in one stream")
    func inParts() throws {
        for (saysGoodbye, size) in [(false, Int64?.none), (false, 40_000), (true, nil)] {
            let result = try Self.run(.download, "HTTP/1.1 200 OK\r\n", saysGoodbye: saysGoodbye) {
                $0.spec.segmentCountMax = 3
                $0.spec.integrity.size = size
            }
            let mayPass = saysGoodbye || size != nil
            #expect((result.success != nil) == mayPass, "\(result.outcome)")
            if !mayPass { #expect(result.failure?.isRetryable == true) }
        }
    }

    @Test("an upload succeeds by its response's head, without close_notify")
    func upload() throws {
        let result = try Self.run(.upload, "HTTP/1.1 200 OK\r\n", saysGoodbye: false) {
            $0.payload = [1, 2, 3]
        }
        #expect(result.success?.size == 3, "\(result.outcome)")
    }

    @Test("without TLS a body that ends with its connection is accepted and not verified")
    func plain() throws {
        let result = try Self.run(.download, Self.tag, saysGoodbye: false, isSecure: false)
        #expect(result.success?.verified == TransferResult.Verification.none, "\(result.outcome)")
    }
}
