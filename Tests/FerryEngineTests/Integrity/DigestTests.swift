import CSys
import FerryCore
import FerryEngine
import OpenSSL
import TestSupport
import TestThreads
import Testing

private func hex(_ bytes: [UInt8]) -> String {
    bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
}

private func bigEndian(_ word: some FixedWidthInteger) -> [UInt8] {
    withUnsafeBytes(of: word.bigEndian) { Array($0) }
}

@Suite struct ChecksumTests {
    @Test(
        "CRC-32C has the values of RFC 3720 B.4 and of the catalogue of CRCs",
        arguments: [
            (Array("123456789".utf8), 0xE306_9283), ([UInt8](repeating: 0, count: 32), 0x8A91_36AA),
            ([UInt8](repeating: 0xFF, count: 32), 0x62A8_AB43), (Array(0..<32), 0x46DD_794E),
            (Array((0..<32).reversed()), 0x113F_DB5C), ([], 0),
        ] as [([UInt8], UInt32)])
    func castagnoli(bytes: [UInt8], value: UInt32) {
        #expect(csys_crc32c(0, bytes, bytes.count) == value)
        #expect(csys_crc32c_portable(0, bytes, bytes.count) == value)
    }

    @Test(
        "CRC-64/NVME has the values of the catalogue of CRCs and of the NVMe specification",
        arguments: [
            (Array("123456789".utf8), 0xAE8B_1486_0A79_9888), ([], 0),
            ([UInt8](repeating: 0, count: 4_096), 0x6482_D367_EB22_B64E),
            ([UInt8](repeating: 0xFF, count: 4_096), 0xC0DD_BA73_02EC_A3AC),
        ] as [([UInt8], UInt64)])
    func nvme(bytes: [UInt8], value: UInt64) {
        #expect(csys_crc64nvme(0, bytes, bytes.count) == value)
        for cut in 0...min(bytes.count, 20) {
            let rest = Array(bytes[cut...])
            #expect(csys_crc64nvme(csys_crc64nvme(0, bytes, cut), rest, rest.count) == value)
        }
    }

    @Test("CRC-32 and Adler-32 have the values of zlib")
    func others() {
        let digits = Array("123456789".utf8)
        #expect(csys_crc32(0, digits, 9) == 0xCBF4_3926)
        #expect(csys_adler32(1, digits, 9) == 0x091E_01DE)
        let name = Array("Wikipedia".utf8)
        #expect(csys_adler32(1, name, name.count) == 0x11E6_0398)
        // Sums that overflow unless they are reduced in time.
        let large = [UInt8](repeating: 0xFF, count: 1_000_000)
        let a = (1 + 255 * 1_000_000) % 65_521
        let b = (1_000_000 + 255 * 1_000_000 * 1_000_001 / 2) % 65_521
        #expect(csys_adler32(1, large, large.count) == UInt32(b) << 16 | UInt32(a))
    }

    @Test("CRC by instruction and by table agree on every length and alignment, also in parts")
    func agreement() {
        let bytes = patternBytes(3_000)
        for length in 0..<80 {
            for start in 0..<9 {
                let part = Array(bytes[start..<(start + length)])
                bytes[start...].withUnsafeBytes {
                    #expect(
                        csys_crc32c(7, $0.baseAddress, length) == csys_crc32c_portable(7, part, length))
                }
            }
        }
        for cut in stride(from: 0, through: 3_000, by: 97) {
            let (first, rest) = (Array(bytes[..<cut]), Array(bytes[cut...]))
            #expect(
                csys_crc32c(csys_crc32c(0, first, cut), rest, rest.count) == csys_crc32c(0, bytes, 3_000))
            #expect(csys_crc32(csys_crc32(0, first, cut), rest, rest.count) == csys_crc32(0, bytes, 3_000))
            #expect(
                csys_crc64nvme(csys_crc64nvme(0, first, cut), rest, rest.count)
                    == csys_crc64nvme(0, bytes, 3_000))
            #expect(
                csys_adler32(csys_adler32(1, first, cut), rest, rest.count) == csys_adler32(1, bytes, 3_000))
        }
    }
}

/// A head's lines and what becomes of a body that they are right or wrong about.
private struct Announcement: Sendable, CustomTestStringConvertible {
    let lines: String
    let outcome: Outcome
    enum Outcome: Sendable { case proof, mismatch, ignored }
    var testDescription: String { lines }

    init(_ lines: String, _ outcome: Outcome) {
        self.lines = lines
        self.outcome = outcome
    }
}

private let body = Array("The quick brown fox jumps over the lazy dog\n".utf8)
private func base64(_ algorithm: Digest.Algorithm, _ bytes: [UInt8] = body) -> String {
    Base64.encode(Digest.of(bytes, algorithm))
}
private let crc32c = Base64.encode(bigEndian(csys_crc32c(0, body, body.count)))
private let crc32 = Base64.encode(bigEndian(csys_crc32(0, body, body.count)))
private let crc64 = Base64.encode(bigEndian(csys_crc64nvme(0, body, body.count)))
private let adler32 = bigEndian(csys_adler32(1, body, body.count))
private let wrong = Array("another body".utf8)

private let announcements: [Announcement] = [
    .init("Repr-Digest: sha-256=:\(base64(.sha256)):", .proof),
    .init("repr-digest: sha-256=:\(base64(.sha256, wrong)):", .mismatch),
    .init("Repr-Digest: sha-512=:\(base64(.sha512)):", .proof),
    .init("Repr-Digest: sha-512=:\(base64(.sha512, wrong)):", .mismatch),
    .init("Content-Digest: sha-256=:\(base64(.sha256)):", .proof),
    .init("Content-Digest: sha-256=:\(base64(.sha256, wrong)):", .mismatch),
    .init("Content-Digest: md5=:\(base64(.md5)):;a=1, x=(1 \"b,c\");q=?0, y", .proof),
    .init("Content-Digest: sha=:\(base64(.sha1, wrong)):", .mismatch),
    .init("Repr-Digest: crc32c=:\(crc32c):", .proof),
    .init("Repr-Digest: adler=:\(Base64.encode(adler32)):", .proof),
    // The strong one is there, so the weak one is not asked.
    .init("Repr-Digest: md5=:\(base64(.md5, wrong)):, sha-256=:\(base64(.sha256)):", .proof),
    .init("Repr-Digest: sha-256=:\(base64(.sha256, wrong)):, md5=:\(base64(.md5)):", .mismatch),
    // Of two words about the same digest both must hold; of one key twice the last counts.
    .init(
        "Repr-Digest: sha-256=:\(base64(.sha256)):\r\nContent-Digest: sha-256=:\(base64(.sha256, wrong)):",
        .mismatch),
    .init("Repr-Digest: sha-256=:\(base64(.sha256, wrong)):, sha-256=:\(base64(.sha256)):", .proof),
    // Malformed fields are absent as a whole; unknown and too short digests prove nothing.
    .init("Repr-Digest: sha-256=\(base64(.sha256, wrong))", .ignored),
    .init("Repr-Digest: sha-256=:\(base64(.sha256, wrong)):,", .ignored),
    .init("Repr-Digest: sha-256=:\(base64(.sha256, wrong)): x", .ignored),
    .init("Repr-Digest: SHA-256=:\(base64(.sha256, wrong)):", .ignored),
    .init("Repr-Digest: sha-256=:\(base64(.md5)):", .ignored),
    .init("Repr-Digest: unixsum=:AAA=:, sha-3=:AAAA:", .ignored),
    .init("Repr-Digest: sha-256=\"\(base64(.sha256, wrong))\"", .ignored),
    // RFC 3230.
    .init("Digest: SHA-256=\(base64(.sha256)),unixsum=30637", .proof),
    .init("Digest: sha-256=\(base64(.sha256, wrong))", .mismatch),
    .init("Digest: adler32=\(hex(adler32))", .proof),
    .init("Digest: ADLER32=1", .mismatch),
    .init("Digest: MD5=\(base64(.md5, wrong)), id-sha-256=\(base64(.sha256))", .proof),
    .init("Digest: SHA=\(base64(.sha1)), adler32=xyz", .proof),
    .init("Digest: md5=\(hex(Digest.of(wrong, .md5)))", .ignored),
    // RFC 1864, and no digest at all.
    .init("Content-MD5: \(base64(.md5))", .proof),
    .init("Content-MD5: \(base64(.md5, wrong))", .mismatch),
    .init("ETag: \"\(hex(Digest.of(wrong, .md5)))\"", .ignored),
    // Object stores.
    .init("x-amz-checksum-sha256: \(base64(.sha256))", .proof),
    .init("x-amz-checksum-sha1: \(base64(.sha1, wrong))", .mismatch),
    .init("X-Amz-Checksum-Crc32c: \(crc32c)\r\nx-amz-checksum-type: FULL_OBJECT", .proof),
    .init("x-amz-checksum-crc32: \(crc32)", .proof),
    .init("x-amz-checksum-crc32: AAAAAA==", .mismatch),
    .init("x-amz-checksum-crc64nvme: \(crc64)\r\nx-amz-checksum-type: FULL_OBJECT", .proof),
    .init("X-Amz-Checksum-Crc64nvme: \(crc64)", .proof),
    .init("x-amz-checksum-crc64nvme: AAAAAAAAAAA=", .mismatch),
    .init("x-amz-checksum-crc64nvme: AAAAAAAAAAA=\r\nx-amz-checksum-crc32c: \(crc32c)", .mismatch),
    .init("x-amz-checksum-crc64nvme: AAAAAAAAAAA=-2", .ignored),
    .init("x-amz-checksum-crc64nvme: AAAAAAAAAAA=\r\nx-amz-checksum-type: COMPOSITE", .ignored),
    .init("x-amz-checksum-crc64nvme: \(crc32c)", .ignored),
    .init("x-amz-checksum-crc32c: AAAAAA==-3", .ignored),
    .init("x-amz-checksum-crc32c: AAAAAA==\r\nx-amz-checksum-type: COMPOSITE", .ignored),
    .init("x-goog-hash: crc32c=\(crc32c),md5=\(base64(.md5))", .proof),
    .init("x-goog-hash: crc32c=AAAAAA==\r\nx-goog-hash: md5=\(base64(.md5))", .mismatch),
    .init("x-goog-hash: md5=\(base64(.md5))\r\nx-goog-stored-content-encoding: identity", .proof),
    .init("x-goog-hash: crc32c=AAAAAA==\r\nx-goog-stored-content-encoding: gzip", .ignored),
]

@Suite(.serialized, .onOwnThread) struct DigestTests {
    private static func with(
        _ answer: @escaping @Sendable (ScriptedOrigin.Request) -> [UInt8],
        _ test: (ScriptedOrigin, Fixture) throws -> Void
    ) throws {
        let origin = try ScriptedOrigin.answering { request, _ in answer(request) }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        try test(origin, fixture)
        #expect(eventually { fixture.files().allSatisfy { !$0.contains(".part") } })
    }

    private static func answer(_ status: String, _ lines: String, _ bytes: [UInt8]) -> [UInt8] {
        let lines = lines.isEmpty ? "" : lines + "\r\n"
        return Array("HTTP/1.1 \(status)\r\n\(lines)Content-Length: \(bytes.count)\r\n\r\n".utf8) + bytes
    }

    @Test("a digest of the job wins over one that the server announces, and the error shows both")
    func stale() throws {
        let stale = Array("earlier".utf8)
        let lines = "Repr-Digest: sha-256=:\(base64(.sha256, stale)):"
        try Self.with({ _ in Self.answer("200 OK", lines, body) }) { origin, fixture in
            #expect(fixture.run(.data, origin.url)?.failure?.code == .digestMismatch)
            let strong = fixture.run(.data, origin.url) { $0.spec.integrity.sha256 = sha256(body) }
            #expect(strong?.success?.verified == .digest)
            let weak = fixture.run(.data, origin.url) { $0.spec.integrity.adler32 = hex(adler32) }
            #expect(weak?.success?.verified == .digest)
            let ignored = fixture.run(.data, origin.url) { $0.spec.integrity.announced = .ignore }
            #expect(ignored?.success?.verified == .length)
            let failed = fixture.run(.data, origin.url) { $0.spec.integrity.sha256 = sha256(wrong) }
            let message = failed?.failure?.message ?? ""
            for bytes in [body, wrong, stale] { #expect(message.contains(sha256(bytes)), "\(message)") }
        }
    }

    @Test("every kind of digest is checked where the bytes are hashed: in memory, inline, behind the writer")
    func kinds() throws {
        for size in [0, 10, 100_000, 4_000_000] {
            let bytes = patternBytes(size)
            try Self.with({ _ in Self.answer("200 OK", "", bytes) }) { origin, fixture in
                let right: [(WritableKeyPath<JobSpec.Integrity, String?>, String)] = [
                    (\.md5, hex(Digest.of(bytes, .md5))), (\.sha1, hex(Digest.of(bytes, .sha1))),
                    (\.sha256, hex(Digest.of(bytes))), (\.sha512, hex(Digest.of(bytes, .sha512))),
                    (\.crc32c, hex(bigEndian(csys_crc32c(0, bytes, size)))),
                    (\.adler32, hex(bigEndian(csys_adler32(1, bytes, size)))),
                ]
                for (path, digest) in right {
                    let good = fixture.run(.download, origin.url) {
                        $0.to("x")
                        $0.spec.integrity[keyPath: path] = digest
                    }
                    #expect(good?.success?.verified == .digest, "\(size) \(path)")
                    let first = digest.first == "0" ? "1" : "0"
                    let bad = fixture.run(.download, origin.url) {
                        $0.to("y")
                        $0.spec.integrity[keyPath: path] = first + digest.dropFirst()
                    }
                    #expect(bad?.failure?.code == .digestMismatch, "\(size) \(path)")
                    #expect(bad?.failure?.isRetryable == true)
                }
                let all = fixture.run(.download, origin.url) { draft in
                    draft.to("z")
                    for (path, digest) in right { draft.spec.integrity[keyPath: path] = digest }
                }
                #expect(all?.success?.verified == .digest)
                #expect(eventually { fixture.files() == ["tenant/x", "tenant/z"] })
            }
        }
    }

    @Test("bytes that differ from an announced digest are discarded", arguments: announcements)
    fileprivate func announced(_ announcement: Announcement) throws {
        let answer = Self.answer("200 OK", announcement.lines, body)
        try Self.with({ _ in answer }) { origin, fixture in
            for kind in [JobKind.download, .data] {
                let result = try #require(fixture.run(kind, origin.url))
                switch announcement.outcome {
                case .proof: #expect(result.success?.verified == .digest)
                case .ignored: #expect(result.success?.verified == .length)
                case .mismatch:
                    #expect(result.failure?.code == .digestMismatch)
                    #expect(result.failure?.isRetryable == true)
                }
            }
        }
    }

    @Test("a digest that was announced for a large body is computed behind the writer")
    func large() throws {
        let bytes = patternBytes(5_000_000)
        try Self.with({ request in
            let digest = base64(.md5, request.path == "/good" ? bytes : wrong)
            return Self.answer("200 OK", "Content-MD5: \(digest)", bytes)
        }) { origin, fixture in
            #expect(fixture.run(.download, origin.url + "/good")?.success?.verified == .digest)
            #expect(fixture.run(.download, origin.url + "/bad")?.failure?.code == .digestMismatch)
        }
    }

    @Test("for a 206 only Content-Digest counts, and for a response without a body no digest does")
    func parts() throws {
        let part = Array(body[4..<9])
        try Self.with({ request in
            switch request.path {
            case "/content":
                Self.answer("206 Partial Content", "Content-Digest: sha-256=:\(base64(.sha256, part)):", part)
            case "/bad":
                Self.answer("206 Partial Content", "Content-Digest: sha-256=:\(base64(.sha256)):", part)
            case "/representation":
                Self.answer(
                    "206 Partial Content",
                    "Repr-Digest: sha-256=:\(base64(.sha256)):\r\nDigest: md5=\(base64(.md5))\r\n"
                        + "Content-MD5: \(base64(.md5))\r\nx-amz-checksum-crc32: AAAAAA==", part)
            default:
                Array("HTTP/1.1 200 OK\r\nRepr-Digest: sha-256=:\(base64(.sha256)):\r\n\r\n".utf8)
            }
        }) { origin, fixture in
            #expect(fixture.run(.data, origin.url + "/content")?.success?.verified == .digest)
            #expect(fixture.run(.data, origin.url + "/bad")?.failure?.code == .digestMismatch)
            #expect(fixture.run(.data, origin.url + "/representation")?.success?.verified == .length)
            let head = fixture.run(.data, origin.url + "/head") { $0.spec.request.method = "HEAD" }
            #expect(head?.success?.size == 0)
        }
    }

    @Test("a digest mismatch does not repeat a request that must not be repeated")
    func notRepeatable() throws {
        let answer = Self.answer("200 OK", "Content-MD5: \(base64(.md5, wrong))", body)
        try Self.with({ _ in answer }) { origin, fixture in
            let result = fixture.run(.data, origin.url) { $0.spec.request.method = "POST" }
            #expect(result?.failure?.code == .digestMismatch)
            #expect(result?.failure?.isRetryable == false)
        }
    }

    @Test("an upload's source is checked by every kind of digest")
    func upload() throws {
        try Self.with({ _ in Self.answer("201 Created", "", []) }) { origin, fixture in
            try writeFile(fixture.root + "/source", body)
            let good = fixture.run(.upload, origin.url) {
                $0.spec.source = .path("source")
                $0.spec.integrity.crc32c = hex(bigEndian(csys_crc32c(0, body, body.count)))
                $0.spec.integrity.adler32 = hex(adler32)
            }
            #expect(good?.success?.verified == .digest)
            let bad = fixture.run(.upload, origin.url) {
                $0.spec.source = .path("source")
                $0.spec.integrity.crc32c = "00000000"
            }
            #expect(bad?.failure?.code == .digestMismatch)
        }
    }
}
