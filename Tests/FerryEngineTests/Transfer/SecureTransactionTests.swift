import FerryCore
import FerryEngine
import TestSupport
import TestThreads
import Testing

/// Transactions of an attempt over TLS, through proxies, and with coded bodies.
@Suite(.serialized, .onOwnThread) struct SecureTransactionTests {
    private static func transactions(_ result: AttemptResult?) throws -> [TransactionMetrics] {
        TransactionTests.unpacked(try #require(result?.trace).transactions)
    }

    @Test("TLS shows its version and cipher on the first request and on a kept connection, and its times")
    func tls() throws {
        let authority = try TestAuthority.shared.get()
        let nginx = try SecureNginx(authority)
        let fixture = try Fixture()
        defer {
            fixture.stop()
            nginx.stop()
        }
        try nginx.serve("file", patternBytes(1_000))
        for (kind, version) in [(SecureNginx.Kind.new, "TLSv1.3"), (.old, "TLSv1.2")] {
            let run = {
                try Self.transactions(
                    fixture.run(.data, nginx.url(kind) + "/file") { $0.trust(authority.certificate) })
            }
            let first = try #require(try run().first)
            #expect(first.status == 200 && first.tls?.protocolVersion == version)
            #expect((first.tls?.cipherSuite.utf8.count ?? 0) > 10, "\(String(describing: first.tls))")
            let times = TransactionMetrics.Moment.allCases.compactMap { first.moments[$0] }
            #expect(times.count == 8 && times == times.sorted(), "\(times)")
            #expect(first.moments[.secureConnectionEnd] == first.moments[.connectEnd])
            let second = try #require(try run().first)
            #expect(second.isReusedConnection && second.tls == first.tls)
            #expect(second.moments[.secureConnectionStart] == nil && second.moments[.connectEnd] == nil)
        }
        let refused = fixture.run(.data, nginx.url(.expired)) { $0.trust(authority.certificate) }
        let failed = try #require(try Self.transactions(refused).first)
        let shown = [.connectStart, .secureConnectionStart, .connectEnd].compactMap { failed.moments[$0] }
        #expect(shown.count == 3 && shown == shown.sorted(), "\(shown)")
        #expect(failed.moments[.secureConnectionEnd] == nil)
        #expect(failed.moments[.requestStart] == nil && failed.tls == nil)
        #expect(refused?.trace?.diagnostics?.curlCode == 60)
    }

    @Test("a transaction through a proxy is marked and shows the proxy's address")
    func proxy() throws {
        let proxy = try TestProxy(.http)
        let nginx = try Nginx()
        let fixture = try Fixture()
        defer {
            fixture.stop()
            nginx.stop()
            proxy.stop()
        }
        try nginx.serve("file", [1, 2, 3])
        let url = "http://localhost:\(nginx.port)/file"
        let result = fixture.run(.data, url) { draft in
            #expect(throws: Never.self) { try draft.pass(proxy.url) }
        }
        let metrics = try #require(try Self.transactions(result).first)
        #expect(metrics.status == 200 && metrics.isProxyConnection)
        #expect(metrics.remote == .init(address: "127.0.0.1", port: proxy.port))
        #expect(try !#require(try Self.transactions(fixture.run(.data, nginx.url)).first).isProxyConnection)
    }

    @Test("a coded body is counted both as received and as decoded")
    func decoded() throws {
        let nginx = try Nginx()
        let fixture = try Fixture()
        defer {
            fixture.stop()
            nginx.stop()
        }
        try nginx.serve("file.txt", [UInt8](repeating: 65, count: 20_000))
        let result = fixture.run(.data, nginx.url + "/gzip/file.txt") {
            $0.spec.request.acceptEncoding = .gzip
        }
        let counts = try #require(try Self.transactions(result).first).byteCounts
        #expect(result?.success?.size == 20_000)
        #expect(counts.decodedBody == 20_000 && counts.responseBody > 0 && counts.responseBody < 1_000)
    }
}
