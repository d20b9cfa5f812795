import FerryCore
import Testing

@Suite("Non-secret fields")
struct NonSecretFieldsTests {
    @Test("only fields of the allow list are shown, in any case")
    func fields() {
        for name in ["Content-Type", "ETAG", "accept-ranges", "Access-Control-Max-Age", "X-Amz-Checksum-A"] {
            #expect(NonSecretFields.contains(name), "\(name)")
        }
        for name in [
            "Set-Cookie", "Authorization", "Proxy-Authorization", "Cookie", "Location", "Content-Location",
            "Link", "Refresh", "WWW-Authenticate", "X-Auth-Token", "X-Amz-Security-Token", "X-Api-Key",
            "X-Unheard-Of", "Authentication-Info", "X-Csrf", "", "Alt-Svc", "Origin", "Referer", "Host",
            // These differ from an allowed name only at the beginning, at the end, or in what is no letter.
            "Xontent-Type", "Content-Typo", "Content\rType", "Ag", "Agee",
        ] {
            #expect(!NonSecretFields.contains(name), "\(name)")
        }
    }

    @Test(
        "user information and query values of a URL are redacted",
        arguments: [
            ("https://a.example/p", "https://a.example/p"),
            ("https://a.example/p?a=1&b=&c", "https://a.example/p?a=***&b=&***"),
            ("https://a.example/p?a=1=2", "https://a.example/p?a=***"),
            ("https://a.example?token", "https://a.example?***"),
            ("https://u:p@a.example/@x", "https://***@a.example/@x"),
            ("https://u@v@a.example:81/?", "https://***@a.example:81/?"),
            ("https://a.example/p#t=1", "https://a.example/p#***"),
            ("/relative?x=y", "/relative?x=***"),
            ("https://a.example/p?a=***", "https://a.example/p?a=***"),
        ])
    func url(url: String, shown: String) {
        #expect(RedactedURL.text(of: url) == shown)
        #expect(RedactedURL.hasNoSecrets(url) == (url == shown))
    }

    private static let signed = "https://s.example/f?X-Amz-Signature=hush"

    private func response(
        _ headers: [JobSpec.Pair], _ url: String = "https://a.example/f"
    ) -> TransferResponse {
        TransferResponse(
            status: 200, url: url, headers: headers, mimeType: "text/plain", suggestedFilename: "f",
            expectedContentLength: 3)
    }

    @Test("a response with allowed fields only is stored without encryption")
    func plain() throws {
        let seal = SecretSeal(
            seal: {
                Issue.record("it was encrypted")
                return $0
            }, open: { _ in nil })
        let plain = response([.init("Content-Type", "text/plain"), .init("ETag", "\"x\"")])
        let stored = Stored<TransferResponse>(json: Stored(plain, seal).json)
        #expect(String(decoding: stored.json, as: UTF8.self).hasPrefix(#"{"status":200,"#))
        #expect(try stored.read() == plain && stored.read(opening: seal) == plain)
    }

    @Test("other fields of a response are encrypted and restored in order")
    func sealed() throws {
        let sealed = Stored(
            response(
                [
                    .init("Content-Type", "text/plain"), .init("Set-Cookie", "s=hush"),
                    .init("ETag", "\"x\""),
                ],
                Self.signed), .inverted)
        let stored = Stored<TransferResponse>(json: sealed.json)
        #expect(!String(decoding: stored.json, as: UTF8.self).contains("hush"))
        let shown = try shownResponse(stored)
        #expect(shown["url"]?.string == "https://s.example/f?X-Amz-Signature=***")
        #expect(shown["headers"]?.members?.map(\.name) == ["Content-Type", "ETag"])
        #expect(shown["header_fields"]?.array?[1]["value"] == .object([.init("set", .bool(true))]))
        #expect(shown["sealed"] == nil)
        let whole = try shownResponse(stored, for: .full(.inverted))
        #expect(whole["url"]?.string == Self.signed && whole["sealed"] == nil)
        #expect(whole["header_fields"]?.array?[1]["value"]?.string == "s=hush")
        #expect(
            whole["header_fields"]?.array?.map { $0["name"]?.string }
                == ["Content-Type", "Set-Cookie", "ETag"])
        let other = SecretSeal(seal: { $0 }, open: { _ in nil })
        #expect(try shownResponse(stored, for: .full(other)) == shown)
    }

    @Test("a spec's URLs and fields are encrypted in the stored form and missing without the key")
    func spec() throws {
        var spec = try decode(
            #"""
            {"kind":"download","request":{"url":"https://a.example/f?sig=hush",
             "headers":{"Accept":"*/*","X-Unheard-Of":"hush","Authorization":"deep"}},
             "mirrors":["https://m.example/f?sig=hush","https://n.example/f"]}
            """#
        ).spec
        spec.request.original = OriginalRequest(url: Self.signed, headers: spec.request.headers)
        var answers = JobAnswers()
        answers.approve(Self.signed)
        let hop = JobQuestion.Hop(
            url: Self.signed, method: "GET", sendsBody: false, redirectCount: 1, hasDroppedBody: false,
            hasActed: false, keepsCredentials: true)
        (answers.start, answers.startAttempt) = (hop, 2)
        spec.answers = answers
        let stored = spec.encodeStored(.inverted)
        #expect(!String(decoding: stored, as: UTF8.self).contains("hush"))
        #expect(try JobSpec(storedJSON: stored, opening: .inverted) == spec)
        let shown = try JobSpec(storedJSON: stored)
        #expect(shown.request.url == "https://a.example/f?sig=***")
        #expect(shown.mirrors == ["https://m.example/f?sig=***", "https://n.example/f"])
        #expect(throws: StoredJSONError.self) {
            try JobSpec(storedJSON: stored, opening: SecretSeal(seal: { $0 }, open: { _ in nil }))
        }
        let plain = try decode(#"{"kind":"data","request":{"url":"https://a.example/f"}}"#).spec
        #expect(plain.encodeStored(.inverted) == plain.encodeStored())
    }

    @Test("a question about a redirect shows its URL to readers with full disclosure")
    func question() throws {
        let hop = JobQuestion.Hop(
            url: Self.signed, method: "GET", sendsBody: false, redirectCount: 1, hasDroppedBody: false,
            hasActed: false, keepsCredentials: true)
        let question = JobQuestion(
            .redirect(status: 302, hop), askedAt: Timestamp(microseconds: 0), timeout: 60)
        let stored = question.encode(.inverted)
        #expect(!String(decoding: stored, as: UTF8.self).contains("hush"))
        #expect(try JobQuestion(storedJSON: stored, opening: .inverted) == question)
        #expect(try JobQuestion(storedJSON: stored) != question)
    }

    @Test("a session's other fields are encrypted in its stored form")
    func session() throws {
        var session = SessionConfiguration()
        session.headers = [.init("User-Agent", "x/1"), .init("X-Unheard-Of", "hush")]
        let stored = session.encodeStored(.inverted)
        #expect(!String(decoding: stored, as: UTF8.self).contains("hush"))
        #expect(try SessionConfiguration(storedJSON: stored, opening: .inverted) == session)
    }

    @Test("secret URLs of transactions are encrypted beside them, also when some are dropped")
    func transactions() throws {
        var log = TransactionLog()
        let last = Limits.transactionCountMax + 4
        for index in 0...last {
            var metrics = TransactionMetrics(fetchStart: Int64(index))
            metrics.request = .init(method: "GET", url: "https://s.example/\(index)?sig=hush\(index)")
            log.append(metrics)
        }
        let trace = AttemptTrace(
            startedAt: Timestamp(microseconds: 0), finishedAt: Timestamp(microseconds: 1), transactions: log)
        let packed = AttemptRecord.packed(
            number: 1, node: nil, trace, .succeeded, error: nil, .inverted)
        #expect(!String(decoding: packed, as: UTF8.self).contains("hush"))
        let job = JobAttempts.Job(
            state: .succeeded, attempt: 1, node: nil, startedAt: nil,
            storedSpec: StoredSpec(
                try decode(#"{"kind":"data","request":{"url":"https://a.example/"}}"#).spec.encode()))
        let attempts = JobAttempts(job, packed: [packed])
        let urls = { (disclosure: Disclosure) throws -> [String] in
            let json = try JSON.parse(attempts.json(showsDiagnostics: false, for: disclosure))
            return (json["data"]?.array?.first?["transactions"]?.array ?? []).compactMap {
                $0["request"]?["url"]?.string
            }
        }
        #expect(try urls(.redacted).allSatisfy { $0.hasSuffix("?sig=***") })
        let whole = try urls(.full(.inverted))
        #expect(whole.count == Limits.transactionCountMax)
        #expect(whole.first == "https://s.example/0?sig=hush0")
        // The first half is followed by the sixth one of the others.
        let half = Limits.transactionCountMax / 2
        #expect(whole[half - 1].hasSuffix("hush\(half - 1)") && whole[half].hasSuffix("hush\(half + 5)"))
        #expect(whole.last == "https://s.example/\(last)?sig=hush\(last)")
    }
}
