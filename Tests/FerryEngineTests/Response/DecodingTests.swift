import Curl
import FerryCore
import FerryEngine
import OpenSSL
import TestSupport
import TestThreads
import Testing

/// Content codings: asked for, undone, or kept.
@Suite(.serialized, .onOwnThread) struct DecodingTests {
    private static func with(
        _ answer: @escaping @Sendable (ScriptedOrigin.Request) -> (lines: String, bytes: [UInt8]),
        _ test: (ScriptedOrigin, Fixture) throws -> Void
    ) throws {
        let origin = try ScriptedOrigin.answering { request, _ in
            let (lines, bytes) = answer(request)
            return Array("HTTP/1.1 200 OK\r\n\(lines)\r\nContent-Length: \(bytes.count)\r\n\r\n".utf8) + bytes
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        try test(origin, fixture)
        #expect(eventually { fixture.files().allSatisfy { !$0.contains(".part") } })
    }

    @Test("the request asks for the job's codings, and without any for identity")
    func asked() throws {
        try Self.with({ _ in ("X: 1", [1]) }) { origin, fixture in
            for choice in JobSpec.AcceptEncoding.allCases {
                _ = fixture.run(.data, origin.url) { $0.spec.request.acceptEncoding = choice }
            }
            #expect(
                origin.requests.map { $0.header("accept-encoding") } == [
                    "identity", "gzip", "br", "gzip, deflate, br",
                ])
        }
    }

    @Test(
        "each requested coding is decoded, and sizes and digests are those of the decoded bytes",
        arguments: [
            ("gzip", JobSpec.AcceptEncoding.gzip), ("x-gzip", .gzip), ("GZIP", .any), ("deflate", .any),
            ("br", .br), ("br", .any), ("identity", .gzip),
        ])
    func undone(_ coding: String, _ choice: JobSpec.AcceptEncoding) throws {
        for size in [5, 100_000, 3_000_000] {
            let bytes = patternBytes(size)
            let coded: [UInt8]
            switch coding.lowercased() {
            case "gzip", "x-gzip": coded = Coded.gzip(bytes)
            case "deflate": coded = Coded.deflate(bytes)
            case "br": coded = Coded.brotli(bytes)
            default: coded = bytes
            }
            try Self.with({ _ in ("Content-Encoding: \(coding)", coded) }) { origin, fixture in
                let result = try #require(
                    fixture.run(.download, origin.url) {
                        $0.to("x")
                        $0.spec.request.acceptEncoding = choice
                        $0.spec.integrity.size = Int64(size)
                    })
                #expect(result.success?.size == Int64(size), "\(result.outcome)")
                #expect(result.success?.sha256 == sha256(bytes))
                #expect(result.success?.verified == .length)
                #expect(readFile(fixture.root + "/x") == bytes)
                #expect(result.bytesReceived == Int64(size))
                #expect(result.response?.headers.first?.name == "Content-Encoding")
                #expect(origin.requests.count == 1)
            }
        }
    }

    @Test(
        "a coding that was not asked for is requested again without codings, and stored if it comes again",
        arguments: [
            ("br", JobSpec.AcceptEncoding.gzip), ("zstd", .gzip), ("gzip, br", .gzip), ("gzip", .br),
            ("compress", .any), ("gzip", .identity), ("zstd", .any), ("gzip, br", .any),
            ("gzip, gzip", .gzip),
        ])
    func kept(_ coding: String, _ choice: JobSpec.AcceptEncoding) throws {
        let bytes = Coded.gzip(patternBytes(100_000))
        let digest = Base64.encode(Digest.of(bytes))
        try Self.with({ _ in ("Content-Encoding: \(coding)\r\nRepr-Digest: sha-256=:\(digest):", bytes) }) {
            origin, fixture in
            let result = try #require(
                fixture.run(.download, origin.url) {
                    $0.to("x")
                    $0.spec.request.acceptEncoding = choice
                })
            #expect(result.success?.verified == .digest, "\(result.outcome)")
            #expect(readFile(fixture.root + "/x") == bytes)
            #expect(result.response?.headers.first?.value == coding)
            #expect(origin.requests.last?.header("accept-encoding") == "identity")
            #expect(origin.requests.count == (choice == .identity ? 1 : 2))
        }
    }

    @Test("a redirect or refusal with an unrequested coding is requested again without codings")
    func pages() throws {
        let origin = try ScriptedOrigin.answering { request, _ in
            let isAsked = request.header("accept-encoding") != "identity"
            let coding = isAsked ? "Content-Encoding: zstd\r\n" : ""
            let head = request.path == "/gone" ? "404 Gone\r\n" : "302 x\r\nLocation: /gone\r\n"
            return Array("HTTP/1.1 \(head)\(coding)Content-Length: 2\r\n\r\nno".utf8)
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        let result = fixture.run(.download, origin.url + "/") { $0.spec.request.acceptEncoding = .any }
        #expect(result?.failure?.code == .unacceptableStatus && result?.response?.status == 404)
        #expect(origin.requests.map(\.path) == ["/", "/", "/gone"])
    }

    @Test(
        "a transfer coding that was not asked for is not decoded",
        arguments: ["200 OK", "302 x\r\nLocation: /", "404 No", "401 No\r\nWWW-Authenticate: Basic"])
    func transferCoding(_ head: String) throws {
        let bytes = Coded.gzip(patternBytes(1_000))
        let body =
            Array("\(String(bytes.count, radix: 16))\r\n".utf8) + bytes + Array("\r\n0\r\n\r\n".utf8)
        let origin = try ScriptedOrigin.answering { _, _ in
            Array("HTTP/1.1 \(head)\r\nTransfer-Encoding: gzip, chunked\r\n\r\n".utf8) + body
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        for segments in [1, 4] {
            let result = fixture.run(.download, origin.url) { $0.spec.segmentCountMax = segments }
            #expect(result?.failure?.code == .responseInvalid, "\(String(describing: result?.outcome))")
            #expect(result?.failure?.isRetryable == false)
        }
        let digest = fixture.run(.data, origin.url) { $0.authenticate(.digest) }
        #expect(digest?.failure?.code == .responseInvalid)
    }

    @Test("an unrequested coding does not repeat a request that must not be repeated")
    func notRepeatable() throws {
        try Self.with({ _ in ("Content-Encoding: br", Coded.brotli([1])) }) { origin, fixture in
            let result = fixture.run(.data, origin.url) {
                $0.spec.request.method = "POST"
                $0.spec.request.acceptEncoding = .gzip
            }
            #expect(result?.failure?.code == .responseInvalid)
            #expect(result?.response?.status == 200, "what came of it is told")
            #expect(origin.requests.count == 1)
        }
    }

    @Test(
        "a response's head counts, whatever coding its body has",
        arguments: [
            "Content-Encoding: br", "Content-Encoding: gzip, gzip", "Transfer-Encoding: gzip, chunked",
        ])
    func notRepeatableHead(_ line: String) throws {
        let origin = try ScriptedOrigin.answering { request, _ in
            let head =
                switch request.path {
                case "/busy": "429 No\r\nRetry-After: 7\r\n\(line)"
                case "/moved": "303 There\r\nLocation: /there\r\n\(line)"
                default: "200 OK\r\nContent-Length: 0"
                }
            return Array("HTTP/1.1 \(head)\r\n\r\n".utf8)
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        let run = { (path: String) in
            fixture.run(.data, origin.url + path) {
                $0.spec.request.method = "POST"
                $0.spec.accept.status = ["2xx"]
                $0.spec.request.acceptEncoding = .gzip
            }
        }
        guard case .failed(let error, let retryAfter)? = run("/busy")?.outcome else {
            Issue.record("It does not fail.")
            return
        }
        #expect(error.code == .unacceptableStatus && error.isRetryable && retryAfter == 7, "\(error)")
        #expect(run("/moved")?.response?.status == 200)
    }

    @Test("digests of the coded bytes say nothing about the decoded ones; those before the coding do")
    func digests() throws {
        let bytes = patternBytes(1_000)
        let digest = Base64.encode(Digest.of(bytes))
        let other = Base64.encode(Digest.of([1]))
        try Self.with({ request in
            let field =
                switch request.path {
                case "/coded": "Repr-Digest: sha-256=:\(other):\r\nContent-MD5: AAAAAAAAAAAAAAAAAAAAAA=="
                case "/right": "Digest: sha-256=\(other),id-sha-256=\(digest)"
                default: "Digest: id-sha-256=\(other)"
                }
            return ("Content-Encoding: gzip\r\n" + field, Coded.gzip(bytes))
        }) { origin, fixture in
            let run = { (path: String) in
                fixture.run(.download, origin.url + path) { $0.spec.request.acceptEncoding = .gzip }
            }
            #expect(run("/coded")?.success?.verified == .length)
            #expect(run("/right")?.success?.verified == .digest)
            #expect(run("/wrong")?.failure?.code == .digestMismatch)
        }
    }

    /// A coded body of this kind, and its content.
    private static func body(_ kind: String) -> (coding: String, coded: [UInt8], plain: [UInt8])? {
        let (a, b) = (patternBytes(200_000), patternBytes(70_000))
        let gzip = Coded.gzip(a)
        return switch kind {
        case "two members": ("gzip", gzip + Coded.gzip(b), a + b)
        case "many members":
            (
                "x-gzip",
                stride(from: 0, to: a.count, by: 4_096).flatMap {
                    Coded.gzip(Array(a[$0..<min($0 + 4_096, a.count)]))
                }, a
            )
        case "an empty member": ("gzip", gzip + Coded.gzip([]) + Coded.gzip(b), a + b)
        case "zeros behind it": ("gzip", gzip + [UInt8](repeating: 0, count: 512), a)
        case "zeros between members": ("gzip", gzip + [0, 0] + Coded.gzip(b), a + b)
        case "other bytes behind it": ("gzip", gzip + Array("trailing".utf8), a)
        case "bytes like a member behind it": ("gzip", gzip + [0x1F, 1, 2, 3], a)
        case "no header": ("deflate", Array(Coded.deflate(a).dropFirst(2).dropLast(4)), a)
        case "bytes behind deflate": ("deflate", Coded.deflate(a) + [1], a)
        case "bytes behind brotli": ("br", Coded.brotli(a) + [1], a)
        case "no bytes": ("gzip", [], [])
        case "no bytes of brotli": ("br", [], [])
        default: nil
        }
    }

    @Test(
        "several members, padding, a missing header and an empty body are decoded",
        arguments: [
            "two members", "many members", "an empty member", "zeros behind it", "zeros between members",
            "other bytes behind it", "bytes like a member behind it", "no header", "bytes behind deflate",
            "bytes behind brotli", "no bytes", "no bytes of brotli",
        ])
    func kinds(_ kind: String) throws {
        let (coding, coded, plain) = try #require(Self.body(kind))
        try Self.with({ _ in ("Content-Encoding: \(coding)", coded) }) { origin, fixture in
            for job in [JobKind.download, .data] {
                let result = fixture.run(job, origin.url) { $0.spec.request.acceptEncoding = .any }
                #expect(result?.success?.sha256 == sha256(plain), "\(String(describing: result?.outcome))")
                #expect(result?.bytesReceived == Int64(plain.count))
            }
            #expect(origin.requests.count == 2)
        }
    }

    @Test(
        "a coded body that ends before its end marker is incomplete although its length fits",
        arguments: ["gzip", "deflate", "br"])
    func cutAtItsLength(_ coding: String) throws {
        let plain = patternBytes(100_000)
        let coded =
            coding == "gzip" ? Coded.gzip(plain) : coding == "br" ? Coded.brotli(plain) : Coded.deflate(plain)
        for count in [1, 2, coded.count / 2, coded.count - 1] {
            try Self.with({ _ in ("Content-Encoding: \(coding)", Array(coded.prefix(count))) }) {
                origin, fixture in
                let result = fixture.run(.download, origin.url) { $0.spec.request.acceptEncoding = .any }
                #expect(
                    result?.failure?.code == .incompleteBody,
                    "\(count) \(String(describing: result?.outcome))")
                #expect(result?.failure?.isRetryable == true && origin.requests.count == 1)
            }
        }
    }

    @Test("a body that cannot be decoded is requested again without codings and stored as it is sent")
    func wrongLabel() throws {
        let text = Array(#"{"plain": "text"}"#.utf8)
        for coding in ["gzip", "br"] {
            try Self.with({ _ in ("Content-Encoding: \(coding)", text) }) { origin, fixture in
                let result = fixture.run(.download, origin.url) { $0.spec.request.acceptEncoding = .any }
                #expect(result?.success?.sha256 == sha256(text), "\(String(describing: result?.outcome))")
                #expect(
                    origin.requests.map { $0.header("accept-encoding") } == ["gzip, deflate, br", "identity"])
                let post = fixture.run(.data, origin.url) {
                    $0.spec.request.method = "POST"
                    $0.spec.request.acceptEncoding = .any
                }
                #expect(post?.failure?.code == .responseInvalid && origin.requests.count == 3)
            }
        }
    }

    @Test("a body that breaks off is incomplete; one that is damaged is requested again without codings")
    func damaged() throws {
        // The length of the first stored block and its complement do not match.
        let whole = Coded.gzip(patternBytes(100_000))
        let broken = Array(whole[..<11]) + [1, 2, 3, 4] + Array(whole[15...])
        try Self.with({ _ in ("Content-Encoding: gzip", broken) }) { origin, fixture in
            let result = fixture.run(.download, origin.url) { $0.spec.request.acceptEncoding = .gzip }
            #expect(result?.success?.sha256 == sha256(broken), "\(String(describing: result?.outcome))")
            #expect(origin.requests.count == 2)
        }
        let origin = try ScriptedOrigin { connection in
            _ = connection.readRequest()
            connection.send(
                "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 200000\r\n\r\n")
            connection.send(Coded.gzip(patternBytes(100_000)))
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        let cut = fixture.run(.download, origin.url) { $0.spec.request.acceptEncoding = .gzip }
        #expect(cut?.failure?.code == .incompleteBody)
    }

    @Test("nginx compresses on request, and limits apply to the decoded bytes")
    func nginx() throws {
        let nginx = try Nginx()
        defer { nginx.stop() }
        let fixture = try Fixture()
        defer { fixture.stop() }
        let zeros = [UInt8](repeating: 0, count: 60_000_000)
        try nginx.serve("zeros", zeros)
        let good = try #require(
            fixture.run(.download, nginx.url + "/gzip/zeros") {
                $0.to("zeros")
                $0.spec.request.acceptEncoding = .any
                $0.spec.accept.byteCountMax = 60_000_000
            })
        #expect(good.success?.sha256 == sha256(zeros), "\(good.outcome)")
        #expect(good.response?.headers.first { $0.name == "Content-Encoding" }?.value == "gzip")
        let bomb = fixture.run(.download, nginx.url + "/gzip/zeros") {
            $0.spec.request.acceptEncoding = .gzip
            $0.spec.accept.byteCountMax = 59_999_999
        }
        #expect(bomb?.failure?.code == .responseTooLarge)
        let plain = fixture.run(.download, nginx.url + "/gzip/zeros") { $0.to("plain") }
        #expect(plain?.success?.size == 60_000_000)
        #expect(plain?.response?.headers.contains { $0.name == "Content-Encoding" } == false)
    }
}
