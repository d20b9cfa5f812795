import Curl
import TestSupport
import Testing

@Suite("TLS and HTTP/2", .serialized) struct SecureTransferTests {
    private static func with(_ body: (TestAuthority, SecureNginx, CurlLoop) throws -> Void) throws {
        let authority = try TestAuthority.shared.get()
        let nginx = try SecureNginx(authority)
        defer { nginx.stop() }
        let loop = try CurlLoop(name: "test-curl", keptConnections: 64)
        defer { loop.stop() }
        try body(authority, nginx, loop)
    }

    @Test("a thousand handshakes parse the system's certificates once")
    func cachedAuthorities() throws {
        try Self.with { _, nginx, loop in
            func seconds(_ count: Int) throws -> Double {
                let clock = Signal<Int64>()
                loop.perform { _ in clock.fire(threadNanoseconds()) }
                for _ in 0..<count {
                    let outcome = try #require(
                        Running(loop, TransferRequest(url: nginx.url() + "/echo")).outcome())
                    // The system does not know the authority: it has looked.
                    #expect(outcome.error?.code == CurlError.peerFailedVerification)
                }
                loop.perform { _ in clock.fire(threadNanoseconds()) }
                let readings = clock.wait(for: 2)
                return Double(readings[1] - readings[0]) / 1e9
            }
            let first = try seconds(1)
            let thousand = try seconds(1_000)
            // Parsing takes 20 ms each time; a handshake takes one or two, in a debug build as well.
            #expect(thousand < 8, "\(thousand) s for a thousand, \(first) s for the first")
        }
    }

    @Test("HTTP/2 is spoken when it is asked for and offered, many requests over one connection")
    func http2() throws {
        let runtime = try CurlRuntime.loaded.get()
        try #require(runtime.hasHTTP2)
        try Self.with { authority, nginx, loop in
            let bytes = patternBytes(100_000)
            try nginx.serve("file", bytes)
            var request = TransferRequest(url: nginx.url() + "/file")
            request.tls = TransferRequest.TLS()
            request.tls?.authorities = authority.certificate
            request.httpVersion = .http2
            let first = Running(loop, request)
            #expect(first.outcome()?.info.httpVersion == "2")
            #expect(first.recorder.headerLines.first?.hasPrefix("HTTP/2 200") == true)
            // Older ones may stall streams that share a connection, and are not asked for HTTP/2.
            let atOnce = runtime.supportsSafeHTTP2 ? 50 : 1
            for _ in 0..<50 / atOnce {
                for running in (0..<atOnce).map({ _ in Running(loop, request) }) {
                    let outcome = try #require(running.outcome())
                    #expect(outcome.error == nil && outcome.info.httpVersion == "2")
                    #expect(outcome.info.newConnections == 0)
                    #expect(running.recorder.received == bytes)
                }
            }
            request.httpVersion = .http1
            #expect(Running(loop, request).outcome()?.info.httpVersion == "1.1")
        }
    }

    @Test("kept connections are told apart by authorities, pins, client certificates and versions")
    func reuse() throws {
        try Self.with { authority, nginx, loop in
            var plain = TransferRequest.TLS()
            plain.authorities = authority.certificate
            var variants = [plain, plain, plain, plain]
            variants[1].pins = [authority.server.pin]
            variants[2].clientCertificate = authority.alice.certificate
            variants[2].clientKey = authority.alice.key
            variants[3].maximumVersion = "1.2"
            for turn in 0..<2 {
                for (index, tls) in variants.enumerated() {
                    var request = TransferRequest(url: nginx.url() + "/echo")
                    request.tls = tls
                    let outcome = try #require(Running(loop, request).outcome())
                    #expect(outcome.error == nil, "\(index): \(String(describing: outcome.error))")
                    #expect(outcome.info.newConnections == (turn == 0 ? 1 : 0), "\(index), turn \(turn)")
                }
            }
        }
    }
}
