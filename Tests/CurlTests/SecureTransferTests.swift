import Curl
import TestSupport
import TestThreads
import Testing

@Suite("TLS and HTTP/2", .serialized, .onOwnThread) struct SecureTransferTests {
    private static func with(_ body: (TestAuthority, SecureNginx, CurlLoop) throws -> Void) throws {
        let authority = try TestAuthority.shared.get()
        let nginx = try SecureNginx(authority)
        defer { nginx.stop() }
        let loop = try CurlLoop(name: "test-curl", keptConnections: 64)
        defer { loop.stop() }
        try body(authority, nginx, loop)
    }

    /// Returns the processor time in seconds that a loop spends on `count` handshakes.
    private static func seconds(_ count: Int, _ loop: CurlLoop, _ nginx: SecureNginx) throws -> Double {
        let clock = Signal<Int64>()
        loop.perform { _ in clock.fire(threadNanoseconds()) }
        for _ in 0..<count {
            let outcome = try #require(Running(loop, TransferRequest(url: nginx.url() + "/echo")).outcome())
            // The certificates of the system do not include the authority, so libcurl has read them.
            #expect(outcome.error?.code == CurlError.peerFailedVerification)
        }
        loop.perform { _ in clock.fire(threadNanoseconds()) }
        let readings = clock.wait(for: 2)
        try #require(readings.count == 2)
        return Double(readings[1] - readings[0]) / 1e9
    }

    @Test("a thousand handshakes parse the system's certificates once")
    func cachedAuthorities() throws {
        try Self.with { _, nginx, loop in
            let thousand = try Self.seconds(1_000, loop, nginx)
            var first = 0.0
            for _ in 0..<20 {
                let fresh = try CurlLoop(name: "test-curl", keptConnections: 64)
                defer { fresh.stop() }
                first += try Self.seconds(1, fresh, nginx) / 20
            }
            // Parsing takes 20 ms, a handshake one or two, also in a debug build. On a slow machine the first
            // handshake of a loop is slower as well.
            #expect(thousand / 1_000 < first / 3, "\(thousand) s for a thousand, \(first) s for a first one")
        }
    }

    @Test("HTTP/2 is used if requested and offered, with many requests on one connection")
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
            // Older versions of libcurl may stall streams that share a connection, so they do not use HTTP/2.
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

    @Test("connections are not shared between different TLS settings")
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
