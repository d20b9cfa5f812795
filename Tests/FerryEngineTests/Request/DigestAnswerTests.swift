import FerryCore
import FerryEngine
import OpenSSL
import TestSupport
import TestThreads
import Testing

@Suite("Digest challenges that libcurl cannot answer", .serialized, .onOwnThread) struct DigestAnswerTests {
    private static let parameters = #"realm="r", nonce="n", qop="auth""#

    /// Runs a data job against a server with these challenges; returns its result and the `Authorization`
    /// fields that the server got. `stale`: the challenge to an answer with another nonce.
    private static func run(
        _ challenges: [String], stale: String? = nil, password: String = "Mufasa"
    ) throws -> (result: AttemptResult.Outcome?, sent: [String?], count: Int) {
        let origin = try ScriptedOrigin.answering { request, _ in
            let sent = request.header("authorization") ?? ""
            if sent.contains("nonce=\"n2\"") {
                return Array("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nin".utf8)
            }
            let asked = sent.isEmpty ? challenges : stale.map { [$0] } ?? challenges
            let fields = asked.map { "WWW-Authenticate: \($0)\r\n" }.joined()
            return Array("HTTP/1.1 401 x\r\n\(fields)Content-Length: 0\r\n\r\n".utf8)
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        let result = fixture.run(.data, origin.url + "/a%20b?x=1,2") {
            $0.authenticate(.digest, "user", password)
        }
        return (result?.outcome, origin.requests.map { $0.header("authorization") }, origin.requests.count)
    }

    @Test("SHA-512/256 is computed as RFC 7616 says, also for an upload")
    func sha512by256() throws {
        let origin = try DigestOrigin("SHA-512-256")
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        #expect(fixture.run(.data, origin.url + "/a?b=c") { $0.authenticate(.digest) }?.text == "GET 0")
        #expect(origin.seen.map(\.isAuthorized) == [false, true], "no wrong answer is sent")
        let bytes = patternBytes(100_000)
        try writeFile(fixture.root + "/source", bytes)
        let upload = fixture.run(.upload, origin.url + "/x") {
            $0.authenticate(.digest)
            $0.spec.source = .path("source")
        }
        #expect(upload?.success?.sha256 == sha256(bytes), "\(String(describing: upload?.failure))")
        #expect(
            origin.seen.dropFirst(2) == [
                .init(method: "PUT", byteCount: 0, isAuthorized: false),
                .init(method: "PUT", byteCount: 100_000, isAuthorized: true),
            ])
        let wrong = fixture.run(.download, origin.url + "/") { $0.authenticate(.digest, "user", "wrong") }
        #expect(wrong?.failure?.code == .authenticationRequired)
    }

    @Test("a download in parts answers a challenge with SHA-512/256")
    func parts() throws {
        let bytes = patternBytes(300_000)
        let origin = try DigestOrigin("SHA-512-256") { _, _ in
            Array("HTTP/1.1 200 OK\r\nContent-Length: \(bytes.count)\r\n\r\n".utf8) + bytes
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        for segments in [1, 4] {
            let result = fixture.run(.download, origin.url + "/x") {
                $0.authenticate(.digest)
                $0.spec.segmentCountMax = segments
            }
            #expect(result?.success?.sha256 == sha256(bytes), "\(String(describing: result?.failure))")
        }
        let seen = origin.seen
        #expect(
            seen.count(where: { !$0.isAuthorized }) <= seen.count(where: \.isAuthorized),
            "each challenge is answered once, and rightly")
    }

    @Test("the first challenge with an algorithm that this node computes is answered")
    func choice() throws {
        let unknown = "Digest algorithm=SHA-3, \(Self.parameters)"
        let later = #"Digest realm="r", nonce="n2", qop="auth", algorithm=MD5"#
        for fields in [[unknown, later], ["\(unknown), \(later)"], ["Basic realm=\"r\"", unknown, later]] {
            let (_, sent, _) = try Self.run(fields)
            let last = try #require(sent.last ?? nil)
            #expect(last.hasPrefix("Digest username=\"user\", realm=\"r\", nonce=\"n2\""), "\(last)")
            #expect(last.contains("uri=\"/a%20b?x=1,2\"") && last.contains("algorithm=MD5"))
        }
    }

    @Test("without a challenge that can be answered, the job fails, and no weaker scheme is used")
    func none() throws {
        for fields in [
            ["Digest algorithm=SHA-3, \(Self.parameters)"], ["Basic realm=\"r\""], ["Digest realm=\"r\""],
        ] {
            let (_, sent, _) = try Self.run(fields)
            #expect(!sent.contains { $0?.hasPrefix("Basic") ?? false })
            #expect(!sent.contains { $0?.contains("response=") ?? false }, "\(fields)")
        }
    }

    @Test("a wrong password for an algorithm of libcurl is not sent a third time")
    func wrong() throws {
        let (_, _, count) = try Self.run(["Digest realm=\"r\", nonce=\"n\", qop=\"auth\""])
        #expect(count == 2)
    }

    @Test("a challenge with a new nonce, and stale=true, is answered once more")
    func stale() throws {
        let first = "Digest algorithm=SHA-512-256, \(Self.parameters)"
        let renewed = #"Digest realm="r", nonce="n2", qop="auth", algorithm=SHA-512-256, stale=TRUE"#
        guard case (.succeeded, let sent, 3) = try Self.run([first], stale: renewed) else {
            Issue.record("the new nonce is not used, or not at once")
            return
        }
        #expect(sent.map { $0?.contains("nonce=\"n2\"") ?? false } == [false, false, true])
        for (again, count) in [
            (renewed.replacing("TRUE", with: "false"), 2), (renewed.replacing("n2", with: "n"), 2),
            (renewed.replacing("n2", with: "n3"), 3),
        ] {
            #expect(try Self.run([first], stale: again).count == count, "\(again)")
        }
    }

    @Test(
        "an upload to a server that offers only auth-int fails with that reason, and sends no wrong answer",
        arguments: ["MD5", "SHA-256", "SHA-512-256"])
    func bodyHash(algorithm: String) throws {
        let challenge = #"Digest realm="r", nonce="n", qop="auth-int", algorithm=\#(algorithm)"#
        let origin = try ScriptedOrigin.answering { _, _ in
            let head = "HTTP/1.1 401 x\r\nWWW-Authenticate: \(challenge)\r\nContent-Length: 2\r\n\r\nno"
            return Array(head.utf8)
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        try writeFile(fixture.root + "/source", patternBytes(100_000))
        let result = fixture.run(.upload, origin.url + "/x") {
            $0.authenticate(.digest)
            $0.spec.source = .path("source")
        }
        let error = try #require(result?.failure)
        #expect(error.code == .authenticationRequired && !error.isRetryable)
        #expect(error.message.contains("auth-int"), "\(error)")
        #expect(origin.requests.map { $0.header("authorization") } == [nil])
    }

    @Test("spaces around = in a challenge do not matter")
    func spaces() throws {
        let (result, sent, count) = try Self.run([#"Digest realm = "r" , nonce= "n2", qop ="auth""#])
        guard case .succeeded = result else {
            Issue.record("\(String(describing: result))")
            return
        }
        #expect(count == 2 && sent.last??.contains("qop=auth") ?? false)
    }

    @Test(
        "an answer repeats the octets of realm, nonce and opaque as they came",
        arguments: [[0xC3, 0xA9], [0xE9]] as [[UInt8]])
    func octets(word: [UInt8]) throws {
        let challenge =
            Array("WWW-Authenticate: Digest algorithm=SHA-512-256, realm=\"r".utf8) + word
            + Array("\", nonce=\"n".utf8) + word + Array("\", opaque=\"o".utf8) + word
            + Array("\", qop=\"auth\"\r\n".utf8)
        let origin = try ScriptedOrigin.answering { request, _ in
            let isAnswer = request.octets("authorization") != nil
            let status = isAnswer ? "200 OK" : "401 x"
            return Array("HTTP/1.1 \(status)\r\n".utf8) + (isAnswer ? [] : challenge)
                + Array("Content-Length: 0\r\n\r\n".utf8)
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        let result = fixture.run(.data, origin.url + "/x") { $0.authenticate(.digest, "ü", "ö") }
        #expect(result?.response?.status == 200)
        let sent = try #require(origin.requests.last?.octets("authorization"))
        let fields = sent.split(separator: 0x2C).map { Array($0.drop { $0 == 0x20 }) }
        func value(_ name: String) -> [UInt8]? {
            let start = Array("\(name)=".utf8)
            return fields.first { $0.starts(with: start) }.map { field in
                field.dropFirst(start.count).filter { $0 != 0x22 }
            }
        }
        for (name, letter) in [("realm", "r"), ("nonce", "n"), ("opaque", "o")] {
            #expect(value(name) == Array(letter.utf8) + word, "\(name)")
        }
        func hash(_ bytes: [UInt8]) -> [UInt8] {
            Array(hexEncoded(Digest.of(bytes, .sha512by256)).utf8)
        }
        let colon: [UInt8] = [0x3A]
        let secret = hash(Array("ü:r".utf8) + word + Array(":ö".utf8))
        let middle = [Array("n".utf8) + word, Array("00000001".utf8), value("cnonce") ?? []]
        let words = [secret] + middle + [Array("auth".utf8), hash(Array("GET:/x".utf8))]
        #expect(value("response") == hash(Array(words.joined(separator: colon))))
    }
}
