import FerryCore
import FerryEngine
import Glibc
import TestSupport
import TestThreads
import Testing

@Suite("Transfers over TLS", .serialized, .onOwnThread) struct SecureTests {
    private static func with(_ body: (TestAuthority, SecureNginx, Fixture) throws -> Void) throws {
        let authority = try TestAuthority.shared.get()
        let nginx = try SecureNginx(authority)
        defer { nginx.stop() }
        let fixture = try Fixture()
        defer { fixture.stop() }
        try body(authority, nginx, fixture)
    }

    @Test("a job's own authority is trusted, and a file arrives whole over TLS in both directions")
    func ownAuthority() throws {
        try Self.with { authority, nginx, fixture in
            let bytes = patternBytes(3_000_000)
            try nginx.serve("file", bytes)
            let download = fixture.run(.download, nginx.url() + "/file") {
                $0.trust(authority.certificate)
                $0.to("file")
            }
            #expect(download?.success?.sha256 == sha256(bytes))
            let upload = fixture.run(.upload, nginx.url() + "/put/x") {
                $0.trust(authority.certificate)
                $0.spec.source = .path("file")
            }
            #expect(upload?.success?.size == 3_000_000)
            #expect(readFile(nginx.root + "/put/x") == bytes)
        }
    }

    @Test("each kind of bad certificate has its own message, and none is retried")
    func badCertificates() throws {
        try Self.with { authority, nginx, fixture in
            let cases: [(SecureNginx.Kind, String, String)] = [
                (.expired, authority.certificate, "expired"),
                (.elsewhere, authority.certificate, "another host"),
                (.valid, authority.stranger, "not trusted"),
            ]
            for (kind, trusted, word) in cases {
                let error = fixture.run(.data, nginx.url(kind) + "/echo") { $0.trust(trusted) }?.failure
                #expect(error?.code == .certificateInvalid && error?.phase == .securing, "\(kind)")
                #expect(error?.isRetryable == false && error?.errorClass == .tls)
                #expect(error?.message.contains(word) == true, "\(kind): \(error?.message ?? "none")")
            }
            // The system's authorities do not know it either.
            let plain = fixture.run(.data, nginx.url() + "/echo")?.failure
            #expect(plain?.code == .certificateInvalid && plain?.message.contains("not trusted") == true)
        }
    }

    @Test("one matching pin is enough, and without one the certificate counts as invalid")
    func pins() throws {
        try Self.with { authority, nginx, fixture in
            for (pins, isMatching) in [
                ([authority.server.pin], true), ([authority.alice.pin, authority.server.pin], true),
                ([authority.alice.pin], false),
            ] {
                let result = fixture.run(.data, nginx.url() + "/echo") {
                    $0.trust(authority.certificate) { $0.pins = pins }
                }
                #expect((result?.success != nil) == isMatching, "\(pins)")
                if isMatching { continue }
                #expect(result?.failure?.code == .certificateInvalid && result?.failure?.isRetryable == false)
                #expect(result?.failure?.message.contains("pinned") == true)
            }
        }
    }

    @Test("only TLS versions that the job allows are used")
    func versions() throws {
        try Self.with { authority, nginx, fixture in
            let cases: [(SecureNginx.Kind, ConnectionRules.TLS.Version, ConnectionRules.TLS.Version?, Bool)] =
                [
                    (.old, .v12, nil, true), (.new, .v12, nil, true), (.old, .v13, nil, false),
                    (.new, .v12, .v12, false), (.valid, .v12, .v12, true), (.valid, .v13, .v13, true),
                ]
            for (kind, least, most, isAllowed) in cases {
                let result = fixture.run(.data, nginx.url(kind) + "/echo") {
                    $0.trust(authority.certificate) {
                        $0.versionMin = least
                        $0.versionMax = most
                    }
                }
                #expect((result?.success != nil) == isAllowed, "\(kind) \(least)")
                if isAllowed { continue }
                #expect(result?.failure?.code == .tlsFailed && result?.failure?.isRetryable == false)
            }
        }
    }

    /// Answers of a server to a handshake before it hangs up, and the expected interpretation.
    private static let refusals: [(said: [UInt8], isRefusal: Bool, word: String)] = [
        (Array("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n".utf8), true, "does not speak TLS"),
        (Array("220 smtp.example ESMTP\r\n".utf8), true, "does not speak TLS"),
        // Fatal alerts (RFC 8446 §6.2): handshake_failure, internal_error, unrecognized_name.
        ([0x15, 3, 3, 0, 2, 2, 40], true, "refused"), ([0x15, 3, 3, 0, 2, 2, 80], true, "refused"),
        ([0x15, 3, 3, 0, 2, 2, 112], true, "refused"), ([], false, "failed"),
    ]

    @Test("a server that refuses TLS counts as reached, one that closes does not", arguments: refusals)
    func refusal(_ said: [UInt8], isRefusal: Bool, word: String) throws {
        let origin = try ScriptedOrigin { connection in
            // The ClientHello: a record (RFC 8446 §5.1).
            let head = connection.read(5)
            guard head.count == 5 else { return }
            _ = connection.read(Int(head[3]) << 8 | Int(head[4]))
            guard !said.isEmpty else { return }
            connection.send(said)
            _ = connection.waitUntilClosed()
        }
        defer { origin.stop() }
        let fixture = try Fixture()
        defer { fixture.stop() }
        let url = "https://127.0.0.1:\(origin.port)/"
        let error = try #require(fixture.run(.data, url)?.failure)
        #expect([.tlsFailed, .connectionLost].contains(error.code) && error.phase == .securing, "\(error)")
        #expect(error.isRetryable && error.isRefusal == isRefusal, "\(error)")
        #expect(!isRefusal || error.message.contains(word), "\(error)")
    }

    @Test("a client certificate is sent to the job's origin, and not after a redirect to another")
    func clientCertificate() throws {
        try Self.with { authority, nginx, fixture in
            let own = fixture.run(.data, nginx.url(.mutual) + "/echo") {
                $0.trust(authority.certificate)
                $0.show(authority.alice)
            }
            #expect(own?.text?.hasPrefix("CN=alice||HTTP/") == true, "\(own?.text ?? "")")
            for (sends, expected) in [(false, "||HTTP/"), (true, "CN=alice||HTTP/")] {
                let target = nginx.url(.mutual) + "/to?url=" + nginx.url(.valid) + "/echo"
                let away = fixture.run(.data, target) {
                    $0.trust(authority.certificate)
                    $0.show(authority.alice)
                    $0.spec.redirects.sendsCredentialsAcrossOrigins = sends
                }
                #expect(
                    away?.text?.hasPrefix(expected) == true,
                    "\(away?.text ?? "\(String(describing: away?.failure))")")
            }
        }
    }

    @Test("a kept connection is not reused with other credentials")
    func identitiesStayApart() throws {
        try Self.with { authority, nginx, fixture in
            for identity in [authority.alice, authority.bob, nil, authority.alice, nil, authority.bob] {
                let result = fixture.run(.data, nginx.url(.valid) + "/echo") {
                    $0.trust(authority.certificate)
                    if let identity { $0.show(identity) }
                }
                let name =
                    switch identity?.pin {
                    case authority.alice.pin?: "CN=alice"
                    case authority.bob.pin?: "CN=bob"
                    default: ""
                    }
                #expect(result?.text?.hasPrefix("\(name)||HTTP/") == true)
            }
            #expect(fixture.engine.snapshot.connectionsReused >= 3)
            // Nor does one that was trusted help a job that does not trust it, or that pins another key.
            let distrusting = fixture.run(.data, nginx.url(.valid) + "/echo") { $0.trust(authority.stranger) }
            #expect(distrusting?.failure?.code == .certificateInvalid)
            let pinning = fixture.run(.data, nginx.url(.valid) + "/echo") {
                $0.trust(authority.certificate) { $0.pins = [authority.bob.pin] }
            }
            #expect(pinning?.failure?.code == .certificateInvalid)
        }
    }

    @Test(
        "a server that requires a client certificate is told apart from a broken handshake",
        arguments: [
            "-tls1_3", "-tls1_2",
        ])
    func certificateRequired(version: String) throws {
        let authority = try TestAuthority.shared.get()
        let fixture = try Fixture()
        defer { fixture.stop() }
        let server = try InsistingServer(authority, version)
        defer { server.stop() }
        let without = fixture.run(.data, server.url) { $0.trust(authority.certificate) }?.failure
        // TLS 1.2 has no alert for it (RFC 5246 §7.4.6: handshake_failure).
        let expected: TransferError.Code = version == "-tls1_3" ? .clientCertificateRequired : .tlsFailed
        #expect(without?.code == expected && without?.phase == .securing, "\(String(describing: without))")
        let with = fixture.run(.data, server.url) {
            $0.trust(authority.certificate)
            $0.show(authority.alice)
        }
        #expect(with?.response?.status == 200, "\(String(describing: with?.failure))")
    }

    @Test("a redirect that leaves https is refused to a job with TLS settings")
    func downgrade() throws {
        try Self.with { authority, nginx, fixture in
            let plain = try Nginx()
            defer { plain.stop() }
            let result = fixture.run(.data, nginx.url() + "/to?url=" + plain.url + "/echo-headers") {
                $0.trust(authority.certificate)
            }
            #expect(result?.failure?.code == .redirectInvalid)
            #expect(result?.failure?.message.contains("https") == true)
        }
    }
}

/// `openssl s_server` that ends the handshake with a client without a certificate.
private final class InsistingServer {
    let url: String
    private let directory: String
    private let pid: pid_t

    init(_ authority: TestAuthority, _ version: String) throws {
        directory = try TemporaryDirectory.make("s_server")
        let port = try FreePort.find()
        url = "https://127.0.0.1:\(port)/"
        try writeFile(directory + "/ca.pem", Array(authority.certificate.utf8))
        try writeFile(directory + "/server.pem", Array(authority.server.certificate.utf8))
        try writeFile(directory + "/server.key", Array(authority.server.key.utf8))
        pid = try ChildProcess.start([
            "openssl", "s_server", "-accept", "127.0.0.1:\(port)", "-cert", directory + "/server.pem", "-key",
            directory + "/server.key", "-CAfile", directory + "/ca.pem", "-Verify", "1",
            "-verify_return_error", "-www", version,
        ])
        guard FreePort.waitUntilOpen(port) else {
            ChildProcess.end(pid)
            throw TestSupportError("s_server does not listen")
        }
    }

    func stop() {
        ChildProcess.end(pid)
        TemporaryDirectory.remove(directory)
    }
}
