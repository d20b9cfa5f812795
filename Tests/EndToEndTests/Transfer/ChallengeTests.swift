import Curl
import FerryCore
import OpenSSL
import TestSupport
import TestThreads
import Testing

@Suite("Challenges of proxies and of NTLM", .onOwnThread)
struct ChallengeTests {
    private let ferry: FerryProcess

    init() throws { ferry = try FerryProcess.shared.get().ferry }

    /// Waits for a challenge after this number of refused credentials. Returns its protection space.
    private func awaitChallenge(_ id: String, failures: Int64 = 0) throws -> JSON {
        var challenge: JSON?
        let isAsked = becomes {
            let job = try ferry.json("GET", "/v1/jobs/\(id)")
            challenge = job["question"]?["challenge"]
            return challenge?["previous_failure_count"]?.integer == failures
        }
        let job = try ferry.json("GET", "/v1/jobs/\(id)")
        try #require(isAsked, "\(job)")
        return challenge?["protection_space"] ?? .null
    }

    private func answer(_ id: String, _ user: String, _ password: String) throws {
        let response = try ferry.call(
            "POST", "/v1/jobs/\(id)/challenge",
            #"{"disposition":"use_credential","credential":{"user":"\#(user)","password":"\#(password)"}}"#)
        #expect(response.status == 200, "\(response.text)")
    }

    @Test("a 407 of a proxy asks a question, with and without CONNECT; the origin gets no credentials")
    func proxy() throws {
        let proxy = try TestProxy(.http, asksForCredentials: true)
        defer { proxy.stop() }
        let origin = try ScriptedOrigin.answering { _, _ in
            Array("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok".utf8)
        }
        defer { origin.stop() }
        let authority = try TestAuthority.shared.get()
        let nginx = try SecureNginx(authority)
        defer { nginx.stop() }
        let ca = authority.certificate.replacing("\n", with: "\\n")
        let rest = #""proxy":{"url":"\#(proxy.url)"}},"on_challenge":"ask"}"#
        let plain = try ferry.submit(#"{"kind":"data","request":{"url":"\#(origin.url)/x",\#(rest)"#)
        let tunnel = try ferry.submit(
            #"{"kind":"data","request":{"url":"\#(nginx.url(.valid))/echo","tls":{"ca":"\#(ca)"},\#(rest)"#)
        for id in [plain, tunnel] {
            let space = try awaitChallenge(id)
            #expect(space["proxy"]?.bool == true && space["authentication_method"]?.string == "basic")
            #expect(space["url"]?.string?.hasPrefix(proxy.url) == true, "\(space)")
            // The realm of a refused CONNECT is not known.
            #expect((space["realm"]?.string != nil) == (id == plain))
        }
        #expect(origin.requests.isEmpty)
        try answer(tunnel, "user", "wrong-sesame")
        #expect(try awaitChallenge(tunnel, failures: 1)["proxy"]?.bool == true)
        for id in [plain, tunnel] {
            try answer(id, "user", "secret")
            let end = try ferry.finished(id)
            #expect(end["state"]?.string == "succeeded", "\(end)")
            #expect(end["request"]?["proxy"]?["user"]?.string == "user")
            #expect(end["request"]?["auth"] == .null)
        }
        let request = try #require(origin.requests.first)
        #expect(request.header("authorization") == nil && request.header("proxy-authorization") == nil)
    }

    @Test("a proxy's schemes are asked about one by one: digest, ntlm, basic, but not Negotiate")
    func schemes() throws {
        let offered = "Negotiate", digest = #"Digest realm="gate", nonce="n1", qop="auth""#
        let proxy = try ScriptedOrigin.answering { request, _ in
            let credential = request.header("proxy-authorization") ?? ""
            let isRight = credential.hasPrefix("Digest ") && credential.contains(#"username="me""#)
            let challenges = [offered, digest, "NTLM", #"Basic realm="gate""#].map {
                "Proxy-Authenticate: \($0)\r\n"
            }
            return Array(
                (isRight
                    ? "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
                    : "HTTP/1.1 407 X\r\n\(challenges.joined())Content-Length: 0\r\n\r\n").utf8)
        }
        defer { proxy.stop() }
        let body =
            #"{"kind":"data","request":{"url":"http://127.0.0.1:9/x","proxy":{"url":"\#(proxy.url)"}},"#
            + #""on_challenge":"ask"}"#
        let id = try ferry.submit(body)
        var methods = [try awaitChallenge(id)["authentication_method"]?.string]
        let reject = #"{"disposition":"reject_protection_space"}"#
        for _ in 0..<2 {
            let job = try ferry.json("POST", "/v1/jobs/\(id)/challenge", reject)
            methods.append(
                job["question"]?["challenge"]?["protection_space"]?["authentication_method"]?.string)
        }
        #expect(methods == ["digest", "ntlm", "basic"])
        let end = try ferry.json("POST", "/v1/jobs/\(id)/challenge", reject)
        #expect(end["error"]?["code"]?.string == "authentication_required", "\(end)")
        let other = try ferry.submit(body)
        _ = try awaitChallenge(other)
        try answer(other, "me", "p")
        #expect(try ferry.finished(other)["result"]?["body"]?.string == "ok")
        let used = try ferry.json("GET", "/v1/jobs/\(other)")["request"]?["proxy"]
        #expect(used?["type"]?.string == "digest" && used?["password"]?["set"]?.bool == true)
    }

    @Test("an upload authenticates with NTLM on one connection after a challenge")
    func ntlm() throws {
        let server = try NTLMServer()
        defer { server.stop() }
        let body =
            #"{"kind":"upload","request":{"url":"\#(server.url)/room","method":"PUT"},"#
            + #""source":{"text":"twelve bytes"},"on_challenge":"ask"}"#
        let id = try ferry.submit(body)
        let space = try awaitChallenge(id)
        #expect(space["authentication_method"]?.string == "ntlm" && space["proxy"]?.bool == false)
        try answer(id, #"Domain\\User"#, "wrong")
        _ = try awaitChallenge(id, failures: 1)
        try answer(id, #"Domain\\User"#, "Password")
        let end = try ferry.finished(id)
        #expect(end["state"]?.string == "succeeded", "\(end)")
        #expect(server.bodies.wait() == [Array("twelve bytes".utf8)])
        let auth = #""auth":{"type":"ntlm","user":"Domain\\User","password":"Password"}"#
        let known = try ferry.run(#"{"kind":"data","request":{"url":"\#(server.url)/room",\#(auth)}}"#)
        #expect(known["result"]?["body"]?.string == "in", "\(known)")
        let refused = try ferry.call(
            "POST", "/v1/jobs",
            #"{"kind":"data","request":{"url":"\#(server.url)/","http_version":"2",\#(auth)}}"#)
        #expect(refused.status == 422 && refused.text.contains("#/request/http_version"), "\(refused.text)")
    }
}

/// A server that authenticates `Domain\User` with `Password` by NTLMv2 (MS-NLMP), bound to the connection of
/// its challenge.
private final class NTLMServer: Sendable {
    /// NTOWFv2 of that user (MS-NLMP §4.2.4.1.1).
    private static let key: [UInt8] = [
        0x0C, 0x86, 0x8A, 0x40, 0x3B, 0xFD, 0x7A, 0x93, 0xA3, 0x00, 0x1E, 0xF2, 0x2E, 0xF0, 0x2E, 0x3F,
    ]
    private static let challenge: [UInt8] = [0x01, 0x23, 0x45, 0x67, 0x89, 0xAB, 0xCD, 0xEF]

    /// Fires with the body of each authenticated request that has one.
    let bodies: Signal<[UInt8]>
    private let origin: ScriptedOrigin
    var url: String { origin.url }

    init() throws {
        let bodies = Signal<[UInt8]>()
        self.bodies = bodies
        origin = try ScriptedOrigin { connection in
            var isChallenged = false
            while let request = connection.readRequest() {
                if request.header("expect") != nil { connection.send("HTTP/1.1 100 Continue\r\n\r\n") }
                let body = connection.readBody(of: request)
                let credential = request.header("authorization") ?? ""
                let isNTLM = credential.hasPrefix("NTLM ")
                let message = isNTLM ? Base64.decode(credential.dropFirst(5)) ?? [] : []
                var response = "HTTP/1.1 401 X\r\nWWW-Authenticate: Negotiate\r\nWWW-Authenticate: NTLM"
                switch message.count > 8 ? message[8] : 0 {
                case 1:
                    isChallenged = true
                    let code = Base64.encode(Self.challengeMessage)
                    response = "HTTP/1.1 401 X\r\nWWW-Authenticate: NTLM \(code)"
                case 3 where isChallenged && Self.isRight(message):
                    if !body.isEmpty { bodies.fire(body) }
                    guard connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nin") else { return }
                    continue
                default: isChallenged = false
                }
                guard connection.send(response + "\r\nContent-Length: 0\r\n\r\n") else { return }
            }
        }
    }

    func stop() { origin.stop() }

    /// CHALLENGE_MESSAGE (MS-NLMP §2.2.1.2) with target information, so that the client uses NTLMv2.
    private static var challengeMessage: [UInt8] {
        let domain = Array("Domain".utf16).flatMap { [UInt8(truncatingIfNeeded: $0), UInt8($0 >> 8)] }
        // MsvAvNbDomainName, MsvAvEOL.
        let target: [UInt8] = [2, 0, UInt8(domain.count), 0] + domain + [0, 0, 0, 0]
        let size = UInt8(target.count)
        // Unicode, NTLM, target information.
        let flags: [UInt8] = [0x01, 0x02, 0x88, 0x00]
        var message = Array("NTLMSSP".utf8)
        message += [0, 2, 0, 0, 0]
        message += [0, 0, 0, 0, 48, 0, 0, 0]
        message += flags
        message += challenge
        message += [0, 0, 0, 0, 0, 0, 0, 0]
        message += [size, 0, size, 0, 48, 0, 0, 0]
        return message + target
    }

    /// Returns `true` if the NtChallengeResponse of an AUTHENTICATE_MESSAGE (§2.2.1.3) proves the password
    /// (§3.3.2).
    private static func isRight(_ message: [UInt8]) -> Bool {
        guard message.count > 28 else { return false }
        let length = Int(message[20]) | Int(message[21]) << 8
        let offset = Int(message[24]) | Int(message[25]) << 8
        guard length > 24, offset + length <= message.count else { return false }
        let response = Array(message[offset..<(offset + length)])
        return hmac(challenge + response[16...]) == Array(response[..<16])
    }

    /// HMAC-MD5 (RFC 2104).
    private static func hmac(_ message: [UInt8]) -> [UInt8] {
        let padded = key + Array(repeating: 0, count: 64 - key.count)
        let inner = md5(padded.map { $0 ^ 0x36 } + message)
        return md5(padded.map { $0 ^ 0x5C } + inner)
    }

    private static func md5(_ bytes: [UInt8]) -> [UInt8] {
        Digest.of(bytes, .md5)
    }
}
