import FerryCore
import FerryEngine
import Synchronization
import Sys
import TestSupport
import TestThreads
import Testing

@Suite(.serialized, .onOwnThread) struct RedirectTests {
    /// Redirects `/NNN?target` with status NNN, and answers everything else with the request's line.
    private static func origin() throws -> ScriptedOrigin {
        try ScriptedOrigin.answering { request, body in
            let parts = request.path.split(separator: "?", maxSplits: 1)
            if let first = parts.first, let status = Int(first.dropFirst()), parts.count == 2 {
                return Array(
                    "HTTP/1.1 \(status) x\r\nLocation: \(parts[1])\r\nContent-Length: 3\r\n\r\nabc".utf8)
            }
            let text =
                "\(request.method) \(body.count) \(request.header("authorization") ?? "-") "
                + (request.header("x-api-key") ?? "-")
            return Array("HTTP/1.1 200 OK\r\nContent-Length: \(text.utf8.count)\r\n\r\n\(text)".utf8)
        }
    }

    private static func run(_ path: String, _ change: (inout Draft) -> Void = { _ in }) throws
        -> AttemptResult
    {
        let (origin, fixture) = (try origin(), try Fixture())
        defer {
            fixture.stop()
            origin.stop()
        }
        let ended = fixture.run(.data, origin.url + path, change)
        return try #require(ended)
    }

    private static func text(_ result: AttemptResult) -> String? {
        result.success?.body.map { String(decoding: $0, as: UTF8.self) }
    }

    @Test(
        "methods and bodies follow RFC 9110 §15.4",
        arguments: [
            (301, "POST", "GET 0"), (302, "POST", "GET 0"), (303, "POST", "GET 0"), (307, "POST", "POST 5"),
            (308, "POST", "POST 5"), (301, "PUT", "PUT 5"), (303, "PUT", "GET 0"), (307, "PUT", "PUT 5"),
        ])
    func methods(status: Int, method: String, expected: String) throws {
        let result = try Self.run("/\(status)?/end") {
            $0.spec.request.method = method
            $0.payload = Array("hello".utf8)
        }
        #expect(Self.text(result) == expected + " - -")
        #expect(result.response?.url.hasSuffix("/end") == true)
    }

    @Test(
        "a long body of a redirect is not read to its end",
        arguments: [(302, "POST", "GET 0"), (303, "PUT", "GET 0"), (307, "PUT", "PUT 5")])
    func longBodies(status: Int, method: String, expected: String) throws {
        let page = String(repeating: "x", count: 1 << 20)
        let origin = try ScriptedOrigin.answering { request, body in
            if request.path == "/end" {
                let text = "\(request.method) \(body.count)"
                return Array("HTTP/1.1 200 OK\r\nContent-Length: \(text.utf8.count)\r\n\r\n\(text)".utf8)
            }
            let head = "HTTP/1.1 \(status) x\r\nLocation: /end\r\nContent-Length: \(page.utf8.count)\r\n\r\n"
            return Array((head + page).utf8)
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        let result = try #require(
            fixture.run(.data, origin.url + "/begin") {
                $0.spec.request.method = method
                $0.payload = Array("hello".utf8)
            })
        #expect(Self.text(result) == expected, "\(result.outcome)")
    }

    @Test("credentials stay with their origin unless the job sends them on")
    func credentials() throws {
        let other = try Self.origin()
        defer { other.stop() }
        for (target, sends, expected) in [
            ("/end", false, "GET 0 Bearer s k"), (other.url + "/end", false, "GET 0 - -"),
            (other.url + "/end", true, "GET 0 Bearer s k"),
        ] {
            let result = try Self.run("/302?\(target)") {
                $0.spec.request.headers = [.init("X-Api-Key", "k")]
                $0.secrets.headers = [.init("Authorization", "Bearer s")]
                $0.spec.redirects.sendsCredentialsAcrossOrigins = sends
            }
            #expect(Self.text(result) == expected)
        }
    }

    @Test("another origin gets only fields that are never secret, also from an upload")
    func harmlessFields() throws {
        let other = try Self.origin()
        defer { other.stop() }
        let harmless = ["Accept", "Accept-Language", "User-Agent", "Content-Language", "traceparent"]
        let others = ["X-Other", "X-JFrog-Art-Api", "apikey", "X-Functions-Key", "Referer", "Origin"]
        for sends in [false, true] {
            let result = try Self.run("/307?\(other.url)/end") {
                $0.spec.request.method = "PUT"
                $0.payload = Array("hello".utf8)
                $0.spec.request.headers = (harmless + others).map { .init($0, "value") }
                $0.spec.redirects.sendsCredentialsAcrossOrigins = sends
            }
            #expect(Self.text(result)?.hasPrefix("PUT 5") == true)
            let request = try #require(other.requests.last)
            #expect(harmless.allSatisfy { request.header($0) == "value" })
            #expect(others.allSatisfy { request.header($0) == (sends ? "value" : nil) }, "\(sends)")
        }
    }

    @Test("credentials do not come back with a hop to the first origin")
    func roundTrip() throws {
        let hops = Mutex<[String]>([])
        let other = try ScriptedOrigin.answering { request, _ in
            let back = hops.withLock { $0[0] }
            return Array(
                "HTTP/1.1 307 x\r\nLocation: \(back)/end\r\nContent-Length: 0\r\n\r\n".utf8)
        }
        let (origin, fixture) = (try Self.origin(), try Fixture())
        defer {
            fixture.stop()
            origin.stop()
            other.stop()
        }
        hops.withLock { $0 = [origin.url] }
        let result = fixture.run(.data, origin.url + "/302?\(other.url)/away") {
            $0.secrets.headers = [.init("Authorization", "Bearer s")]
        }
        #expect(result.flatMap(Self.text) == "GET 0 - -")
        #expect(origin.requests.first?.header("authorization") == "Bearer s")
        #expect(origin.requests.last?.header("authorization") == nil)
    }

    @Test(
        "a location is resolved as RFC 9110 §10.2.2 says",
        arguments: [
            ("end", "/a/end"), ("/end?x=1", "/end?x=1"), ("../end", "/end"), ("?y", "/a/b?y"),
            ("/end#part", "/end"), ("//HOST/end", "/end"),
        ])
    func locations(location: String, expected: String) throws {
        let origin = try ScriptedOrigin.answering { request, _ in
            let host = request.header("host") ?? ""
            let place = location.replacing("HOST", with: host)
            let head = request.path == "/a/b" ? "302 x\r\nLocation: \(place)" : "200 OK"
            return Array("HTTP/1.1 \(head)\r\nContent-Length: 0\r\n\r\n".utf8)
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        let result = fixture.run(.data, origin.url + "/a/b")
        #expect(result?.response?.url == origin.url + expected)
        #expect(origin.requests.last?.path == expected)
    }

    @Test("a redirect without Location is the response itself; one with several is refused")
    func nowhere() throws {
        for (lines, kind, code) in [
            ("", JobKind.data, nil), ("Location: \r\n", .data, nil),
            ("", .download, TransferError.Code.unacceptableStatus),
            ("Location: /a\r\nLocation: /b\r\n", .data, .redirectInvalid),
        ] {
            let origin = try ScriptedOrigin.answering { _, _ in
                Array("HTTP/1.1 302 x\r\n\(lines)Content-Length: 3\r\n\r\nabc".utf8)
            }
            let fixture = try Fixture()
            defer {
                fixture.stop()
                origin.stop()
            }
            let result = fixture.run(kind, origin.url)
            #expect(result?.failure?.code == code, "\(lines)")
            #expect(result?.response?.status == 302 && origin.requests.count == 1)
        }
    }

    @Test("loops end, other schemes and blocked addresses are not followed")
    func refused() throws {
        let origin = try ScriptedOrigin.answering { _, _ in
            Array("HTTP/1.1 302 x\r\nLocation: /again\r\nContent-Length: 0\r\n\r\n".utf8)
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        let endless = fixture.run(.data, origin.url) { $0.spec.redirects.countMax = 5 }
        #expect(endless?.failure?.code == .tooManyRedirects)
        #expect(origin.requests.count == 6)
        #expect(try Self.run("/302?file:///etc/passwd").failure?.code == .redirectInvalid)
        #expect(try Self.run("/302?http://169.254.169.254/latest").failure?.code == .blockedAddress)
    }

    @Test("bytes of a Location that are not UTF-8 are requested as they came")
    func locationBytes() throws {
        for (location, path) in [
            ("/caf\u{E9}".unicodeScalars.map { UInt8($0.value) }, "/caf%E9"),
            // GBK
            ([0x2F, 0xD6, 0xD0, 0xCE, 0xC4], "/%D6%D0%CE%C4"),
            (Array("/caf\u{E9}".utf8), "/caf%C3%A9"),
        ] {
            let origin = try ScriptedOrigin.answering { request, _ in
                request.path == "/a"
                    ? Array("HTTP/1.1 302 x\r\nContent-Length: 0\r\nLocation: ".utf8) + location
                        + Array("\r\n\r\n".utf8)
                    : Array("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".utf8)
            }
            let fixture = try Fixture()
            defer {
                fixture.stop()
                origin.stop()
            }
            #expect(fixture.run(.data, origin.url + "/a")?.success != nil)
            #expect(origin.requests.last?.path == path)
        }
    }

    @Test("user information of a redirect is sent as credentials to that origin only, unless it is ignored")
    func userInformation() throws {
        let other = try Self.origin()
        defer { other.stop() }
        let place = other.url.dropFirst("http://".count)
        let named = "http://us%2Fer:p%20w@\(place)"
        // us/er:p w
        let credential = "Basic dXMvZXI6cCB3"
        for (path, user, expected) in [
            ("\(named)/end", JobSpec.Redirects.UserInformation.send, credential),
            ("\(named)/end", .ignore, "-"), ("\(named)/302?/end", .send, credential),
            ("http://u@\(place)/end", .send, "Basic dTo="),
        ] {
            let result = try Self.run("/302?\(path)") {
                $0.spec.redirects.userInformation = user
                $0.secrets.headers = [.init("Authorization", "Bearer s")]
            }
            #expect(Self.text(result) == "GET 0 \(expected) -", "\(path)")
            #expect(result.response?.url == other.url + "/end")
        }
    }

    @Test("the error of a rejected redirect says what is wrong with it")
    func rejections() throws {
        for (location, words) in [
            ("ftp://a.example/", "neither http nor https"), ("http://a.example:99999/", "The port must be"),
            ("/" + String(repeating: "x", count: 17_000), "more than 16384 bytes"),
            ("http:///x", "names no host"),
        ] {
            let failure = try Self.run("/302?\(location)").failure
            #expect(failure?.code == .redirectInvalid)
            #expect(failure?.message.contains(words) == true, "\(failure?.message ?? "")")
        }
    }

    @Test("a redirect with Retry-After is followed after that time, in one stream and in parts")
    func delayed() throws {
        let times = Mutex<[Int64]>([])
        let origin = try ScriptedOrigin.answering { request, _ in
            times.withLock { $0.append(monotonicNanoseconds()) }
            let head =
                request.path == "/job" ? "303 x\r\nLocation: /result\r\nRetry-After: 1" : "200 OK"
            return Array("HTTP/1.1 \(head)\r\nContent-Length: 0\r\n\r\n".utf8)
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        for segments in [1, 2] {
            let result = fixture.run(.download, origin.url + "/job") {
                $0.to("file")
                $0.spec.segmentCountMax = segments
            }
            #expect(result?.success != nil)
            let last = times.withLock { Array($0.suffix(2)) }
            #expect(last.count == 2 && last[1] - last[0] >= 1_000_000_000)
        }
    }

    @Test(
        "a redirect that asks for a long wait ends the attempt, and the next one begins with its target",
        arguments: [1, 4])
    func delayedForLong(segments: Int) throws {
        let origin = try ScriptedOrigin.answering { request, _ in
            let head =
                request.path == "/job"
                ? "302 x\r\nLocation: http://u:p@\(request.header("host") ?? "")/result?t=1\r\n"
                    + "Set-Cookie: a=b\r\nRetry-After: 600" : "200 OK"
            return Array("HTTP/1.1 \(head)\r\nContent-Length: 0\r\n\r\n".utf8)
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        let change = { (draft: inout Draft) in
            draft.to("file")
            draft.spec.segmentCountMax = segments
        }
        let first = try #require(fixture.run(.download, origin.url + "/job", change))
        guard case .failed(let error, 600) = first.outcome else {
            Issue.record("\(first.outcome)")
            return
        }
        #expect(error.code == .unacceptableStatus && error.isRetryable && error.cost == .none)
        let redirect = try #require(first.delayedRedirect)
        let next = try NextRequest(
            sealed: NextRequest.redirect(redirect).encode(.inverted), opening: .inverted)
        #expect(next == .redirect(redirect) && redirect.attempt == 2)
        #expect(next.valid(for: 2) == next && next.valid(for: 3) == nil)
        fixture.engine.begin([
            fixture.attempt(
                .download, origin.url + "/job", job: first.attempt.job, number: 2, after: redirect, change)
        ])
        let second = try #require(fixture.sink.arrived.wait().first)
        #expect(second.success != nil && second.delayedRedirect == nil)
        #expect(origin.requests.map(\.path) == ["/job", "/result?t=1"])
        #expect(origin.requests.last?.header("cookie") == "a=b")
        #expect(origin.requests.last?.header("authorization") == "Basic dTpw")
    }

    @Test(
        "a redirect or refusal whose announced body does not come is carried out", arguments: [1, 4],
        ["302 x\r\nLocation: /end", "404 x"])
    func missingBody(segments: Int, head: String) throws {
        let origin = try ScriptedOrigin.answering { request, _ in
            let isEnd = request.path == "/end"
            return Array(
                "HTTP/1.1 \(isEnd ? "200 OK" : head)\r\nContent-Length: \(isEnd ? 0 : 300)\r\n\r\n".utf8)
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        let result = fixture.run(.download, origin.url) {
            $0.to("file")
            $0.spec.segmentCountMax = segments
            $0.spec.request.timeoutForRequest = 1
        }
        if head.hasPrefix("302") {
            #expect(result?.success != nil, "\(String(describing: result?.outcome))")
        } else {
            #expect(result?.failure?.code == .unacceptableStatus)
        }
    }

    @Test("an attempt that begins with the approved target of an upload's redirect reports the sent bytes")
    func outcomeOfUpload() throws {
        let origin = try ScriptedOrigin.answering { _, _ in
            Array("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".utf8)
        }
        let fixture = try Fixture()
        defer {
            fixture.stop()
            origin.stop()
        }
        let body = patternBytes(100_000, seed: 5)
        let result = fixture.run(.upload, origin.url + "/file", number: 2) {
            $0.payload = body
            $0.spec.source = .inline(.init(form: .base64, byteCount: body.count))
            var answers = JobAnswers()
            answers.start = JobQuestion.Hop(
                url: origin.url + "/end", method: "GET", sendsBody: false, redirectCount: 1,
                hasDroppedBody: true, hasActed: false, keepsCredentials: true)
            answers.startAttempt = 2
            $0.spec.answers = answers
        }
        #expect(result?.success?.sha256 == sha256(body) && result?.success?.size == Int64(body.count))
        #expect(origin.requests.map { "\($0.method) \($0.path)" } == ["GET /end"])
    }

    @Test(
        "a job that must not begin again, or an upload, keeps its attempt while a redirect asks to wait",
        arguments: [(JobKind.data, "POST"), (.upload, "PUT")])
    func stopWhileDelayed(kind: JobKind, method: String) throws {
        let origin = try ScriptedOrigin.answering { _, _ in
            Array("HTTP/1.1 303 x\r\nLocation: /x\r\nRetry-After: 600\r\nContent-Length: 0\r\n\r\n".utf8)
        }
        let fixture = try Fixture { $0.stallSeconds = 0.1 }
        defer {
            fixture.stop()
            origin.stop()
        }
        let attempt = fixture.attempt(kind, origin.url) {
            $0.spec.request.method = method
            if kind == .upload {
                $0.payload = [1]
                $0.spec.source = .inline(.init(form: .base64, byteCount: 1))
            }
        }
        fixture.engine.begin([attempt])
        #expect(fixture.sink.lendings.wait() == [attempt.job])
        fixture.engine.stop(attempt.job, .cancel)
        #expect(fixture.sink.arrived.wait().first?.isCancelled == true)
        #expect(origin.requests.count == 1)
    }

    @Test("with the policy reject, the redirect is the response")
    func rejected() throws {
        let result = try Self.run("/302?/end") { $0.spec.redirects.policy = .reject }
        #expect(Self.text(result) == "abc")
        #expect(result.response?.status == 302)
    }
}
